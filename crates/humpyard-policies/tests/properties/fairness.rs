//! The bounds of fair policies, over every interval in which two clients are backlogged.

use humpyard_core::mechanism::{FlowOrder, Never, Scheduler};
use humpyard_core::policy::{Auto, Build, Share};
use humpyard_core::unit::WorkUnit;
use humpyard_policies::share::drr::{Drr, DrrParams};
use humpyard_policies::share::efq::{Efq, EfqParams};
use humpyard_policies::share::sfq::{Sfq, SfqParams};
use humpyard_policies::share::stride::{Stride, StrideParams};
use humpyard_policies::share::virtual_clock::{VirtualClock, VirtualClockParams};
use humpyard_policies::share::wfq::{WfqParams, WfqTree};
use humpyard_policies::share::wrr::{Wrr, WrrParams};
use humpyard_testkit::{Backlog, Bound, Count, Extent, Fairness, History, Shape};
use proptest::prelude::*;

use crate::shapes::{ROOM, cases, from_the_start, play, seeds};

/// Theorem 1 of Goyal, Vin, Cheng: l_i/w_i + l_j/w_j, by the actual work of packets.
///
/// At a pick on one core no packet is in service and every tag is settled, so wrong estimates cost nothing.
const SFQ: Bound = Bound { fixed: 0, part: |extent| extent.used };

/// A packet of one client finishes after the packet of the other that went before it, by estimates.
const FINISH_ORDER: Bound = Bound { fixed: 0, part: |extent| longest(extent) + extent.overrun };

/// The first stride of every client: at least the longest packet.
const STRIDE_QUANTUM: u64 = 20_000;

/// Passes begin a first stride over the weight apart. They stay within that distance, or a packet
/// over the weight.
const STRIDE: Bound =
    Bound { fixed: 0, part: |extent| if extent.used > STRIDE_QUANTUM { extent.used } else { STRIDE_QUANTUM } };

/// The most packets that a core takes at once, or the number of cores that take one each.
const SERVED_AT_ONCE: u64 = 3;

/// Tags of packets in service still contain estimates: each may be off by its error, at both ends of an
/// interval. With exact estimates this is theorem 1 again, for the packets that went to cores.
const SFQ_SEVERAL_STARTED: Bound =
    Bound { fixed: 0, part: |extent| longest(extent) + 2 * SERVED_AT_ONCE * extent.error };

/// Completed service lags started service by the packets in service.
const SFQ_SEVERAL_COMPLETED: Bound =
    Bound { fixed: 0, part: |extent| longest(extent) + SERVED_AT_ONCE * (2 * extent.error + extent.used) };

fn longest(extent: &Extent) -> u64 {
    extent.used.max(extent.estimate)
}

/// No client starts ahead of virtual time, so none is ahead by more than a packet. No client is
/// behind by more than a packet plus, over the total of the weights, two terms: the longest packet
/// of another client, and the work of all others beyond their estimates. Between the ends of an
/// interval, both clients may cross this whole range.
fn efq_bound(history: &History, error_permille: u32, total: u64) -> Bound {
    let error = history.longest * u64::from(error_permille) / 1000;
    let others = history.weights.len() as u64 - 1;
    Bound {
        fixed: (2 * (history.longest + error + others * error)).div_ceil(total),
        part: |extent| 2 * longest(extent),
    }
}

/// A turn ends with less credit than the head's estimate, and with a debt of at most one overrun.
const fn drr_bound(quantum: u64) -> Bound {
    Bound { fixed: quantum, part: |extent| extent.estimate + extent.overrun }
}

/// A turn ends with a debt below the cost of one packet; no credit remains.
const fn surplus_bound(quantum: u64) -> Bound {
    Bound { fixed: quantum, part: |extent| extent.used }
}

fn shape() -> impl Strategy<Value = Shape> {
    (seeds(), 2..=6usize, 1..=400usize, prop_oneof![Just(1u32), Just(10u32), Just(1000u32)]).prop_map(
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

fn errors() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0u32), Just(300u32), Just(1000u32)]
}

fn fair<Q: Share + Build>(
    history: &History,
    params: &Q::Params,
    count: Count,
    backlog: Backlog,
    bound: Bound,
) -> Result<f64, TestCaseError> {
    let mut fairness = Fairness::new(&history.weights, count, backlog, bound);
    let build = |history: &History| {
        let config = history.config();
        Scheduler::<Never, _, Never>::new(&config, None, None, || Q::new(params, &config))
    };
    play(history, build, &mut fairness)?;
    Ok(fairness.tightness())
}

const ONE_BY_ONE: [(Count, Backlog); 3] =
    [(Count::Start, Backlog::Held), (Count::Completion, Backlog::Held), (Count::Start, Backlog::Waiting)];

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn sfq_on_one_core(shape in shape(), error_permille in errors(), weights_change: bool) {
        let history = History::generate(&Shape { error_permille, weights_change, ..shape });
        for (count, backlog) in ONE_BY_ONE {
            fair::<Sfq>(&history, &SfqParams {}, count, backlog, SFQ)?;
        }
    }

    // All shares are reserved. If only clients in the system had shares, a client that leaves could
    // leave the others behind.
    #[test]
    fn efq_on_one_core(shape in shape(), error_permille in errors()) {
        let history = History::generate(&Shape { error_permille, ..shape });
        let total = history.weights.iter().map(|weight| u64::from(weight.get())).sum();
        let params = EfqParams { total: Auto::Given(total), ..EfqParams::default() };
        for (count, backlog) in ONE_BY_ONE {
            fair::<Efq>(&history, &params, count, backlog, efq_bound(&history, error_permille, total))?;
        }
    }

    // The client whose head would finish first is served. So, of two clients present from the
    // start, neither finishes a packet far ahead of the other. The bound is that packet plus its
    // work beyond its estimate.
    #[test]
    fn by_finish_tags_while_clients_stay(shape in shape(), error_permille in errors()) {
        let history = from_the_start(History::generate(&Shape { error_permille, ..shape }));
        for (count, backlog) in ONE_BY_ONE {
            fair::<WfqTree>(&history, &WfqParams::default(), count, backlog, FINISH_ORDER)?;
            fair::<VirtualClock>(&history, &VirtualClockParams::default(), count, backlog, FINISH_ORDER)?;
        }
    }

    // The first stride is as long as the longest packet.
    #[test]
    fn stride_while_clients_stay(shape in shape(), error_permille in errors()) {
        let shape = Shape { error_permille, unit: WorkUnit::Nanoseconds, ..shape };
        let history = from_the_start(History::generate(&shape));
        let params = StrideParams { quantum: Auto::Given(STRIDE_QUANTUM), ..StrideParams::default() };
        prop_assert!(history.longest <= STRIDE_QUANTUM);
        for (count, backlog) in ONE_BY_ONE {
            fair::<Stride>(&history, &params, count, backlog, STRIDE)?;
        }
    }

    #[test]
    fn sfq_with_several_packets_in_service(shape in shape(), error_permille in errors(), one_core: bool) {
        let several = SERVED_AT_ONCE as usize;
        let (cores, in_flight) = if one_core { (1, several) } else { (several, 1) };
        let history = History::generate(&Shape { error_permille, cores, in_flight, flow_order: FlowOrder::Free, ..shape });
        fair::<Sfq>(&history, &SfqParams {}, Count::Start, Backlog::Waiting, SFQ_SEVERAL_STARTED)?;
        fair::<Sfq>(&history, &SfqParams {}, Count::Completion, Backlog::Waiting, SFQ_SEVERAL_COMPLETED)?;
    }

    #[test]
    fn drr_on_one_core(shape in shape(), error_permille in errors(), quanta in 1..=3u64) {
        let history = History::generate(&Shape { error_permille, ..shape });
        let quantum = quanta * history.longest;
        let params = DrrParams { quantum: Auto::Given(quantum), surplus: false };
        for (count, backlog) in ONE_BY_ONE {
            fair::<Drr>(&history, &params, count, backlog, drr_bound(quantum))?;
        }
    }

    #[test]
    fn surplus_round_robin_on_one_core(shape in shape(), error_permille in errors()) {
        let history = History::generate(&Shape { error_permille, ..shape });
        let params = DrrParams { quantum: Auto::Auto, surplus: true };
        for (count, backlog) in ONE_BY_ONE {
            fair::<Drr>(&history, &params, count, backlog, surplus_bound(history.longest))?;
        }
    }

    // Weighted round robin by slots is surplus round robin whose debts outlast idleness, which
    // makes no difference here.
    #[test]
    fn wrr_on_one_core(shape in shape(), error_permille in errors(), quanta in 1..=3u64) {
        let history = History::generate(&Shape { error_permille, ..shape });
        let quantum = quanta * history.longest;
        let params = WrrParams { quantum: Auto::Given(quantum) };
        for (count, backlog) in ONE_BY_ONE {
            fair::<Wrr>(&history, &params, count, backlog, surplus_bound(quantum))?;
        }
    }

    // Heads are offered at once, so packets start in the order of one core. A turn left open by a last packet
    // in service may be resumed before its place in the round; that is one quantum more.
    #[test]
    fn drr_on_several_cores(shape in shape()) {
        let history = History::generate(&Shape { cores: 3, flow_order: FlowOrder::Free, ..shape });
        let bound = drr_bound(2 * history.longest);
        fair::<Drr>(&history, &DrrParams::default(), Count::Start, Backlog::Waiting, bound)?;
    }
}

/// The bounds are not so wide that every history passes: random histories use most of them.
#[test]
fn histories_go_to_the_bounds() {
    let tightest = |play: &dyn Fn(&History) -> f64| {
        let shape = |seed| Shape { seed, events: 400, weight_max: 10, clients: 3, ..Shape::default() };
        (0..100).map(|seed| play(&History::generate(&shape(seed)))).fold(0.0, f64::max)
    };
    let sfq = tightest(&|history| fair::<Sfq>(history, &SfqParams {}, Count::Start, Backlog::Held, SFQ).expect("fair"));
    let drr = tightest(&|history| {
        let bound = drr_bound(history.longest);
        fair::<Drr>(history, &DrrParams::default(), Count::Start, Backlog::Held, bound).expect("fair")
    });
    let wfq = tightest(&|history| {
        let history = from_the_start(history.clone());
        fair::<WfqTree>(&history, &WfqParams::default(), Count::Start, Backlog::Held, FINISH_ORDER).expect("fair")
    });
    assert!(sfq > 0.95 && drr > 0.8, "sfq used {sfq} of its bound, drr {drr}");
    assert!(wfq > 0.8, "wfq used {wfq} of its bound");
}
