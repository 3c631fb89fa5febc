//! Fast policies decide as their naive twins do.

use humpyard_core::mechanism::{FlowOrder, Never, Scheduler};
use humpyard_core::policy::{Build, BuildError, Share};
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::share::sfq::{Sfq, SfqParams};
use humpyard_testkit::reference::NaiveSfq;
use humpyard_testkit::{Event, History, Log, Shape};
use proptest::prelude::*;

use crate::shapes::{any_shape, cases, play, seeds};

fn decisions<Q: Share>(
    history: &History,
    share: impl Fn(&History) -> Result<Q, BuildError>,
) -> Result<Log, TestCaseError> {
    let build = |history: &History| {
        let options = history.options();
        Scheduler::<Never, _, Never>::new(&history.setup(), options, None, None, || share(history))
    };
    play(history, build, &mut ())
}

fn same_as_twin(history: &History) -> Result<(), TestCaseError> {
    let sfq = decisions(history, |history| Sfq::new(&SfqParams {}, &history.setup()))?;
    let twin = decisions(history, |history| Ok(NaiveSfq::new(&history.weights)))?;
    let differs = sfq.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
    prop_assert!(sfq == twin, "{:?}\n{}", differs, history);
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]

    // A client that wakes starts at the rounded virtual time, so exact ties are only sure where nothing is ever rounded.
    #[test]
    fn sfq_decides_as_exact_fractions_do(shape in any_shape(), in_flight in 1..=3usize) {
        let shape = Shape { weights_change: false, in_flight, ..shape };
        let binary = |weight: Weight| Weight::new(1 << (weight.get() % 5)).expect("a power of two");
        same_as_twin(&History::generate(&shape).with_weights(binary))?;
    }

    // All at the start: virtual time is 0 when they wake. Short equal packets meet in ties all the time.
    #[test]
    fn sfq_rounds_nothing_away_while_clients_stay(seed in seeds(), clients in 2..=6usize, events in 1..=400usize) {
        let shape = Shape {
            seed, clients, events, length_max: 3, weight_max: 16,
            flow_order: FlowOrder::Free, unit: WorkUnit::Bytes, ..Shape::default()
        };
        let mut history = History::generate(&shape);
        let dividing = |weight: Weight| if 720_720 % weight.get() == 0 { weight } else { Weight::ONE };
        history = history.with_weights(dividing);
        history.events.retain(|(_, event)| matches!(event, Event::Arrive { .. }));
        history.events.iter_mut().for_each(|(time, _)| *time = Time::ZERO);
        same_as_twin(&history)?;
    }
}
