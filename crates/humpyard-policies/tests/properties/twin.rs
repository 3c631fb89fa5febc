//! Fast policies decide as their naive twins do.

use humpyard_core::mechanism::{FlowOrder, Never, Scheduler};
use humpyard_core::policy::{Auto, Build, BuildError, Setup, Share};
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::share::efq::{Clock, Efq, EfqParams};
use humpyard_policies::share::qfq::{Qfq, QfqParams};
use humpyard_policies::share::sfq::{Sfq, SfqParams};
use humpyard_policies::share::sfs::{Sfs, SfsParams};
use humpyard_policies::share::wf2q_plus::{Wf2qPlus, Wf2qPlusParams};
use humpyard_testkit::reference::{NaiveEfq, NaiveQfq, NaiveSfq, NaiveSfs};
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

/// Powers of two, so that nothing is ever rounded.
fn binary(weight: Weight) -> Weight {
    Weight::new(1 << (weight.get() % 5)).expect("a power of two")
}

proptest! {
    #![proptest_config(cases(200))]

    // A client that wakes starts at the rounded virtual time, so exact ties are only sure where nothing is ever rounded.
    #[test]
    fn sfq_decides_as_exact_fractions_do(shape in any_shape(), in_flight in 1..=3usize) {
        let shape = Shape { weights_change: false, in_flight, ..shape };
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
    // Virtual time is the same, however it is rounded, where it is the sum of the reserved weights that shares it.
    #[test]
    fn efq_decides_as_exact_fractions_do(shape in any_shape(), error_permille in 0..=1000u32, total in 4..=8u32) {
        let shape = Shape { weights_change: false, error_permille, unit: WorkUnit::Nanoseconds, ..shape };
        let history = History::generate(&shape).with_weights(binary);
        let total = 1 << total;
        let params = EfqParams { total: Auto::Given(total), ..EfqParams::default() };
        let efq = decisions(&history, |history| Efq::new(&params, &history.setup()))?;
        let twin = decisions(&history, |history| Ok(NaiveEfq::new(&history.weights, total)))?;
        let differs = efq.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
        prop_assert!(efq == twin, "{:?}\n{}", differs, history);
    }

    // The difference is the clock alone, whether estimates are right or wrong.
    #[test]
    fn efq_by_work_is_wf2q_plus(shape in any_shape()) {
        let history = History::generate(&shape);
        let params = EfqParams { clock: Clock::Work, ..EfqParams::default() };
        let efq = decisions(&history, |history| Efq::new(&params, &history.setup()))?;
        let wf2q_plus = decisions(&history, |history| Wf2qPlus::new(&Wf2qPlusParams {}, &history.setup()))?;
        let differs = efq.decisions.iter().zip(&wf2q_plus.decisions).find(|(a, b)| a != b);
        prop_assert!(efq == wf2q_plus, "{:?}\n{}", differs, history);
    }

    // Bitmaps find what looking at every client finds: with weights far apart, wrong estimates, packets longer than the longest,
    // on several cores, while clients and weights come and go.
    #[test]
    fn qfq_decides_by_its_definition(shape in any_shape(), spread in 0..=24u32, shorter in 0..=6u32) {
        let far_apart = |weight: Weight| Weight::new(weight.get() << (weight.get() % (spread + 1))).unwrap_or(weight);
        let history = History::generate(&shape).with_weights(far_apart);
        let longest = (history.setup().longest >> shorter).max(1);
        let qfq = decisions(&history, |history| Qfq::new(&QfqParams {}, &Setup { longest, ..history.setup() }))?;
        let twin = decisions(&history, |history| Ok(NaiveQfq::new(&history.weights, longest)))?;
        let differs = qfq.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
        prop_assert!(qfq == twin, "{:?}\n{}", differs, history);
    }

    // The tree chooses the least surplus although virtual time changes the order, and the heaviest are readjusted alike.
    #[test]
    fn sfs_decides_by_its_definition(shape in any_shape(), spread in 0..=12u32) {
        let far_apart = |weight: Weight| Weight::new(weight.get() << (weight.get() % (spread + 1))).unwrap_or(weight);
        let history = History::generate(&shape).with_weights(far_apart);
        let sfs = decisions(&history, |history| Sfs::new(&SfsParams {}, &history.setup()))?;
        let twin = decisions(&history, |history| Ok(NaiveSfs::new(&history.weights, history.cores)))?;
        let differs = sfs.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
        prop_assert!(sfs == twin, "{:?}\n{}", differs, history);
    }
}
