//! The most common policies have their own loop: it gives the same results as the loop for all
//! policies.

use core::sync::atomic::AtomicBool;

use humpyard_core::cost::LinearCost;
use humpyard_core::id::{CoreId, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, ExitOrder, FlowOrder, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_sim::{Timing, simulate_named, simulate_with};
use humpyard_traffic::{Match, open};

use crate::support::{Outcome, Service, Sim};

const COST: LinearCost = LinearCost { fixed: 900, per_byte_milli: 500, cold: 200 };
const SERVICES: [Service; 2] = [(Match::Tcp, COST, 20_000, 500_000), (Match::Any, COST, 50_000, 500_000)];

/// All that a run came to but real times.
fn told(outcome: &Outcome) -> String {
    let measured = &outcome.measured;
    let accounts = (measured.account(), measured.scheduler().exit_account());
    format!("{accounts:?} {:?} {:?} {}", measured.summary(), outcome.heaviest, outcome.flows)
}

#[test]
fn each_composition_with_a_loop_of_its_own_comes_to_the_same() {
    let policies = ["fcfs", "drr", "gr3", "efq", "hrw", "ps-hrw", "rss++", "everest", "sfq", "jsq"];
    let inputs = ["gen:onoff:packets=20000,pps=2200000", "gen:poisson:packets=20000,pps=3100000,flows=40"];
    for policy in policies {
        for (input, cores) in inputs.into_iter().flat_map(|input| [(input, 2), (input, 5)]) {
            let sim = Sim {
                policy,
                input,
                cores,
                services: &SERVICES,
                packets: 200,
                flow_order: FlowOrder::Free,
                exit: Some(ExitOrder { packets: 64, timeout: Time::from_ns(40_000) }),
                ..Sim::default()
            };
            let stop = AtomicBool::new(false);
            let mut quiet = |_: u64, _: Option<f64>| {};
            let source = || open(input, Seed(1)).expect("a profile");
            let named = simulate_named(sim.simulation(source(), &stop, &mut quiet), Timing::default()).expect("a run");
            let stop = AtomicBool::new(false);
            let mut quiet = |_: u64, _: Option<f64>| {};
            // Runs that cannot be plain take the general loop.
            let mut simulation = sim.simulation(source(), &stop, &mut quiet);
            simulation.measured = simulation.measured.with_observer(Box::new(Blind));
            let any = simulate_with(simulation, Timing::default()).expect("a run");
            assert_eq!(told(&named), told(&any), "{policy} on {cores} cores, {input}");
            assert!(named.measured.account().dropped_total() > 0 || cores == 5, "it is a test of drops, too");
        }
    }
}

/// An observer that ignores everything.
#[derive(Debug)]
struct Blind;

impl Observer for Blind {
    fn on_arrival(&mut self, _: Time, _: &Packet, _: Arrival) {}
    fn on_dispatch(&mut self, _: Time, _: CoreId, _: &Dispatch) {}
    fn on_completion(&mut self, _: CoreId, _: Slot, _: &Completed, _: Time, _: Time) {}
    fn on_drop(&mut self, _: &Dropped) {}
    fn on_switch(&mut self, _: &Switch) {}
    fn on_switched(&mut self, _: Time, _: CoreId) {}
}
