//! The schedulers of Linux: their bounds and their decisions.

use humpyard_core::mechanism::{FlowOrder, Never, Scheduler};
use humpyard_core::policy::{Auto, Build, Share};
use humpyard_policies::share::linux_o1::{LinuxO1, LinuxO1Params};
use humpyard_policies::share::linux24::{Linux24, Linux24Params};
use humpyard_testkit::reference::NaiveLinux24;
use humpyard_testkit::{Backlog, Bound, Count, Fairness, History, Log, Observer, Shape};
use proptest::prelude::*;

use crate::shapes::{ROOM, any_shape, cases, play, seeds};

/// One client has an epoch plus the rest kept from the epoch before, the other an epoch; a packet may overrun.
const fn linux24_bound(tick: u64) -> Bound {
    Bound { fixed: 3 * tick, part: |extent| extent.used }
}

/// A slice at either end, and a packet that overruns it.
const fn linux_o1_bound(quantum: u64) -> Bound {
    Bound { fixed: 2 * quantum, part: |extent| extent.used }
}

fn run<Q: Share>(
    history: &History,
    share: impl Fn(&History) -> Q,
    observer: &mut impl Observer,
) -> Result<Log, TestCaseError> {
    let build =
        |history: &History| Scheduler::<Never, _, Never>::new(&history.config(), None, None, || Ok(share(history)));
    play(history, build, observer)
}

fn fair<Q: Share + Build>(history: &History, params: &Q::Params, bound: Bound) -> Result<f64, TestCaseError> {
    let mut fairness = Fairness::new(&history.weights, Count::Start, Backlog::Held, bound);
    run(history, |history| Q::new(params, &history.config()).expect("valid parameters"), &mut fairness)?;
    Ok(fairness.tightness())
}

/// Generates weights that have their own ticks and slices.
fn shape() -> impl Strategy<Value = Shape> {
    (seeds(), 2..=6usize, 1..=400usize, prop_oneof![Just(1u32), Just(4u32), Just(11u32)]).prop_map(
        |(seed, clients, events, weight_max)| Shape {
            seed,
            clients,
            events,
            weight_max,
            packets: ROOM,
            ..Shape::default()
        },
    )
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn linux24_on_one_core(shape in shape(), error_permille in 0..=1000u32, quanta in 1..=3u64) {
        let history = History::generate(&Shape { error_permille, ..shape });
        let quantum = quanta * history.longest;
        fair::<Linux24>(&history, &Linux24Params { quantum: Auto::Given(quantum) }, linux24_bound(quantum))?;
    }

    #[test]
    fn linux_o1_on_one_core(shape in shape(), error_permille in 0..=1000u32, quanta in 1..=3u64) {
        let history = History::generate(&Shape { error_permille, ..shape });
        let quantum = quanta * history.longest;
        fair::<LinuxO1>(&history, &LinuxO1Params { quantum: Auto::Given(quantum) }, linux_o1_bound(quantum))?;
    }

    // Clients that come and go, changed weights, wrong estimates, several cores: counting epochs
    // equals visiting all clients at each epoch.
    #[test]
    fn linux24_decides_as_the_kernel_counts(shape in any_shape(), in_flight in 1..=3usize, error_permille in 0..=1000u32) {
        let history = History::generate(&Shape { in_flight, error_permille, ..shape });
        let params = Linux24Params { quantum: Auto::Auto };
        let fast = run(&history, |history| Linux24::new(&params, &history.config()).expect("defaults fit"), &mut ())?;
        let twin = run(&history, |history| NaiveLinux24::new(&history.weights, history.cores, history.longest), &mut ())?;
        let differs = fast.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
        prop_assert!(fast == twin, "{:?}\n{}", differs, history);
    }
}

/// The bounds are not so wide that every history passes.
#[test]
fn histories_go_to_the_bounds() {
    let tightest = |play: &dyn Fn(&History) -> f64| {
        let shape = |seed| {
            let flow_order = FlowOrder::Hold;
            Shape { seed, events: 400, weight_max: 10, clients: 3, flow_order, ..Shape::default() }
        };
        (0..100).map(|seed| play(&History::generate(&shape(seed)))).fold(0.0, f64::max)
    };
    let linux24 = tightest(&|history| {
        fair::<Linux24>(history, &Linux24Params::default(), linux24_bound(history.longest)).expect("fair")
    });
    let linux_o1 = tightest(&|history| {
        fair::<LinuxO1>(history, &LinuxO1Params::default(), linux_o1_bound(history.longest)).expect("fair")
    });
    assert!(linux24 > 0.6 && linux_o1 > 0.6, "linux24 used {linux24} of its bound, linux-o1 {linux_o1}");
}
