//! Every registered policy keeps the contract of its trait, and the mechanism's account balances.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, Id};
use humpyard_core::mechanism::{Never, Scheduler};
use humpyard_core::policy::{Build, BuildError, Family, Topology};
use humpyard_core::unit::{Time, Weight};
use humpyard_policies::allocate::r#static::{Static, StaticParams};
use humpyard_policies::registry::{self, AnyShare};
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::{Checked, CheckedAllocate, CheckedSteer, Decision, Event, History, Log, Shape};
use proptest::prelude::*;

use crate::shapes::{cases, every_shape, names, play_twice, promises, specs};

/// The number of sharing policies with which each steering policy runs in one history.
const SHARES_EACH: usize = 4;

/// Builds the sharing policy of this spec, with checks of its contract.
fn checked(spec: &str, config: &SchedulerConfig) -> Result<Checked<AnyShare>, BuildError> {
    Ok(Checked::new(spec.parse::<PolicySpec>()?.build_share(config)?, promises(spec)))
}

/// Plays a history to a steering policy with checks, with and without an allocation.
fn steered_by(steer: &str, share: &str, topology: Option<&Topology>, history: &History) -> Result<(), TestCaseError> {
    let spec: PolicySpec = steer.parse().expect("a registered policy");
    for allocated in [false, true] {
        play_twice(history, |history| {
            let config = SchedulerConfig { topology: topology.cloned(), ..history.config() };
            let steer = spec.build_steer(&config)?.expect("it steers");
            let steer = CheckedSteer::new(steer, history.cores).with_contexts(history.contexts);
            let allocate = if allocated { Some(Static::new(&StaticParams {}, &config)?) } else { None };
            Scheduler::new(&config, Some(steer), allocate, || checked(share, &config))
        })?;
    }
    Ok(())
}

/// Whether the decisions are the same. The second history has `by` events before the first event of the other.
fn same_but_for_numbers(log: &Log, later: &Log, by: usize) -> bool {
    let moved = log.decisions.iter().map(|decision| Decision { arrival: decision.arrival + by, ..*decision });
    moved.eq(later.decisions.iter().copied())
}

/// Limits the services to the number of cores: with allocation, every service needs a core.
fn with_a_core_for_each_service(shape: Shape) -> Shape {
    Shape { services: shape.services.min(shape.cores), ..shape }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn sharing_policies_keep_the_contract(shape in every_shape()) {
        let history = History::generate(&shape);
        for spec in specs(Family::Share) {
            play_twice(&history, |history| {
                let config = history.config();
                Scheduler::<Never, _, Never>::new(&config, None, None, || checked(&spec, &config))
            })?;
        }
    }

    #[test]
    fn sharing_policies_keep_the_contract_in_a_queue_for_each_service(shape in every_shape()) {
        let history = History::generate(&with_a_core_for_each_service(shape));
        for spec in specs(Family::Share) {
            play_twice(&history, |history| {
                let config = history.config();
                let allocate = Some(Static::new(&StaticParams {}, &config)?);
                Scheduler::<Never, _, _>::new(&config, None, allocate, || checked(&spec, &config))
            })?;
        }
    }

    #[test]
    fn allocation_policies_keep_the_contract(shape in every_shape()) {
        let history = History::generate(&with_a_core_for_each_service(shape));
        for spec in specs(Family::Allocate) {
            for share in ["fcfs", "drr"] {
                play_twice(&history, |history| {
                    let config = history.config();
                    let policy = spec.parse::<PolicySpec>()?.build_allocate(&config)?.expect("it allocates");
                    let allocate = Some(CheckedAllocate::new(policy, promises(&spec), &config));
                    Scheduler::<Never, _, _>::new(&config, None, allocate, || checked(share, &config))
                })?;
            }
        }
    }

    #[test]
    fn weights_given_before_the_first_packet_are_the_weights_of_the_set_up(shape in every_shape()) {
        let given = History::generate(&shape);
        let mut told = given.clone();
        for (client, weight) in given.weights.iter().enumerate().rev() {
            told.events.insert(0, (Time::ZERO, Event::SetWeight(ClientId::from_index(client), *weight)));
            told.weights[client] = Weight::ONE;
        }
        for spec in specs(Family::Share) {
            let [given, told] = [&given, &told].map(|history| {
                play_twice(history, |history| {
                    let config = history.config();
                    Scheduler::<Never, _, Never>::new(&config, None, None, || checked(&spec, &config))
                })
            });
            prop_assert!(same_but_for_numbers(&given?, &told?, shape.clients), "{spec}");
        }
    }

    #[test]
    fn whatever_is_registered_runs_by_name(shape in every_shape()) {
        let history = History::generate(&with_a_core_for_each_service(shape));
        let mut all: Vec<String> = registry::entries().into_iter().flat_map(|entry| entry.specs()).collect();
        all.push("allocate=static/steer=hrw/share=drr".into());
        all.push("allocate=everest/share=sfq".into());
        for spec in all {
            let spec: PolicySpec = spec.parse().expect("a registered name");
            play_twice(&history, |history| spec.build(&history.config()))?;
        }
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn steering_policies_keep_the_contract(shape in every_shape()) {
        let history = History::generate(&with_a_core_for_each_service(shape));
        let shares = names(Family::Share);
        let first = history.seed.0 as usize % shares.len();
        for (place, steer) in specs(Family::Steer).iter().enumerate() {
            // Each history uses other policies, so that all pairs occur.
            for turn in 0..SHARES_EACH {
                steered_by(steer, shares[(first + place + 5 * turn) % shares.len()], None, &history)?;
            }
        }
    }

    #[test]
    fn steering_policies_keep_the_contract_on_a_tree_of_cores(shape in every_shape()) {
        let history = History::generate(&Shape { cores: 8, ..shape });
        let tree = Topology::regular(&[(2, 2000), (2, 1400), (2, 1100)]).expect("a small tree");
        for steer in specs(Family::Steer) {
            steered_by(&steer, "fcfs", Some(&tree), &history)?;
        }
    }
}
