//! Fast policies decide as their naive twins.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::mechanism::{FlowOrder, Never, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Auto, Build, BuildError, Policy, Share, Ties};
use humpyard_core::unit::{Time, Weight, Work, WorkUnit};
use humpyard_policies::share::eevdf::{Eevdf, EevdfParams};
use humpyard_policies::share::efq::{Clock, Efq, EfqParams};
use humpyard_policies::share::qfq::{Qfq, QfqParams};
use humpyard_policies::share::sfq::{Sfq, SfqParams};
use humpyard_policies::share::sfs::{Sfs, SfsParams};
use humpyard_policies::share::virtual_clock::{VirtualClock, VirtualClockParams};
use humpyard_policies::share::wf2q_plus::{Wf2qPlus, Wf2qPlusParams};
use humpyard_policies::share::wfq::{WfqList, WfqParams, WfqTree};
use humpyard_testkit::reference::{NaiveEevdf, NaiveEfq, NaiveQfq, NaiveSfq, NaiveSfs, NaiveVirtualClock};
use humpyard_testkit::{History, Log, Shape};
use proptest::prelude::*;

use crate::shapes::{any_shape, cases, every_shape, from_the_start, play, seeds};

fn decisions<Q: Share>(
    history: &History,
    share: impl Fn(&History) -> Result<Q, BuildError>,
) -> Result<Log, TestCaseError> {
    let build = |history: &History| Scheduler::<Never, _, Never>::new(&history.config(), None, None, || share(history));
    play(history, build, &mut ())
}

fn same_as_twin(history: &History) -> Result<(), TestCaseError> {
    let sfq = decisions(history, |history| Sfq::new(&SfqParams {}, &history.config()))?;
    let twin = decisions(history, |history| Ok(NaiveSfq::new(&history.weights)))?;
    let differs = sfq.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
    prop_assert!(sfq == twin, "{:?}\n{}", differs, history);
    Ok(())
}

/// Returns a power of two, so that nothing is ever rounded.
fn binary(weight: Weight) -> Weight {
    Weight::new(1 << (weight.get() % 5)).expect("a power of two")
}

/// Returns a history of short packets that all arrive before the first is served.
fn all_at_the_start(seed: u64, clients: usize, events: usize) -> History {
    let shape = Shape {
        seed,
        clients,
        events,
        length_max: 3,
        weight_max: 16,
        flow_order: FlowOrder::Free,
        unit: WorkUnit::Bytes,
        ..Shape::default()
    };
    let dividing = |weight: Weight| if 720_720 % weight.get() == 0 { weight } else { Weight::ONE };
    from_the_start(History::generate(&shape).with_weights(dividing))
}

/// A policy checked against its twin: every pick must be one that the twin could make with the same rounding.
struct BesideTwin {
    policy: Eevdf,
    twin: NaiveEevdf,
}

impl Policy for BesideTwin {
    fn check(&self) {
        self.policy.check();
        self.twin.check();
    }
}

impl Share for BesideTwin {
    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.policy.on_wake(now, id, head);
        self.twin.on_wake(now, id, head);
    }
    fn on_head(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.policy.on_head(now, id, head);
        self.twin.on_head(now, id, head);
    }
    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
        let picked = self.policy.pick(now, core);
        match picked {
            Some(id) => assert!(self.twin.may_pick(id), "client {id} is picked, of {:?}", self.twin),
            None => assert_eq!(self.twin.pick(now, core), None, "nobody is picked"),
        }
        picked
    }
    fn on_dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
        self.policy.on_dispatch(now, core, id, sent);
        self.twin.on_dispatch(now, core, id, sent);
    }
    fn on_completion(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.policy.on_completion(now, core, id, sent, used);
        self.twin.on_completion(now, core, id, sent, used);
    }
    fn on_idle(&mut self, now: Time, id: ClientId) {
        self.policy.on_idle(now, id);
        self.twin.on_idle(now, id);
    }
    fn on_client_end(&mut self, now: Time, id: ClientId) {
        self.policy.on_client_end(now, id);
        self.twin.on_client_end(now, id);
    }
    fn set_weight(&mut self, now: Time, id: ClientId, weight: Weight) {
        self.policy.set_weight(now, id, weight);
        self.twin.set_weight(now, id, weight);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    // A client that wakes starts at the rounded virtual time, so exact ties are certain only if
    // nothing is ever rounded.
    #[test]
    fn sfq_decides_as_exact_fractions_do(shape in any_shape(), in_flight in 1..=3usize) {
        let shape = Shape { weights_change: false, in_flight, ..shape };
        same_as_twin(&History::generate(&shape).with_weights(binary))?;
    }

    // All packets arrive at the start: virtual time is 0 when clients wake. Short equal packets often tie.
    #[test]
    fn sfq_rounds_nothing_away_while_clients_stay(seed in seeds(), clients in 2..=6usize, events in 1..=400usize) {
        same_as_twin(&all_at_the_start(seed, clients, events))?;
    }

    // Real time is over a power of two, so it is the same with any rounding.
    #[test]
    fn virtual_clock_decides_as_exact_fractions_do(shape in any_shape(), total in 4..=8u32) {
        let shape = Shape { weights_change: false, ..shape };
        let history = History::generate(&shape).with_weights(binary);
        let total = 1 << total;
        let params = VirtualClockParams { total: Auto::Given(total), ..VirtualClockParams::default() };
        let fast = decisions(&history, |history| VirtualClock::new(&params, &history.config()))?;
        let twin = decisions(&history, |history| Ok(NaiveVirtualClock::new(&history.weights, total)))?;
        let differs = fast.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
        prop_assert!(fast == twin, "{:?}\n{}", differs, history);
    }

    // The two policies share virtual time among different weights, which does not matter if clients
    // were there from the start.
    #[test]
    fn wfq_is_virtual_clock_while_clients_stay(shape in any_shape()) {
        let history = from_the_start(History::generate(&shape));
        let wfq = decisions(&history, |history| WfqTree::new(&WfqParams::default(), &history.config()))?;
        let params = VirtualClockParams::default();
        let clock = decisions(&history, |history| VirtualClock::new(&params, &history.config()))?;
        let differs = wfq.decisions.iter().zip(&clock.decisions).find(|(a, b)| a != b);
        prop_assert!(wfq == clock, "{:?}\n{}", differs, history);
    }

    // For any history: the two differ only in their search time.
    #[test]
    fn wfq_list_decides_as_wfq_does(shape in every_shape(), highest: bool, wall: bool) {
        let history = History::generate(&shape);
        let ties = if highest { Ties::Highest } else { Ties::Lowest };
        let params = WfqParams { clock: if wall { Clock::Auto } else { Clock::Work } };
        let tree = decisions(&history, |history| WfqTree::new(&params, &SchedulerConfig { ties, ..history.config() }))?;
        let list = decisions(&history, |history| WfqList::new(&params, &SchedulerConfig { ties, ..history.config() }))?;
        let differs = tree.decisions.iter().zip(&list.decisions).find(|(a, b)| a != b);
        prop_assert!(tree == list, "{:?}\n{}", differs, history);
    }

    // Only the lag of a client that has left is rounded, and no client comes back here.
    #[test]
    fn eevdf_rounds_nothing_away_while_clients_stay(seed in seeds(), clients in 2..=6usize, events in 1..=400usize) {
        let history = all_at_the_start(seed, clients, events);
        let eevdf = decisions(&history, |history| Eevdf::new(&EevdfParams::default(), &history.config()))?;
        let twin = decisions(&history, |history| Ok(NaiveEevdf::new(&history.weights, history.longest)))?;
        let differs = eevdf.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
        prop_assert!(eevdf == twin, "{:?}\n{}", differs, history);
    }

    // After every event, the twin and the policy assert that all lags sum to zero, to the last place.
    #[test]
    fn eevdf_picks_who_exact_fractions_would(shape in any_shape()) {
        let history = History::generate(&Shape { events: shape.events.min(100), ..shape });
        decisions(&history, |history| {
            let policy = Eevdf::new(&EevdfParams::default(), &history.config())?;
            Ok(BesideTwin { policy, twin: NaiveEevdf::new(&history.weights, history.longest) })
        })?;
    }

    // The sum of the reserved weights, a power of two, shares virtual time, so it is the same with
    // any rounding.
    #[test]
    fn efq_decides_as_exact_fractions_do(shape in any_shape(), error_permille in 0..=1000u32, total in 4..=8u32) {
        let shape = Shape { weights_change: false, error_permille, unit: WorkUnit::Nanoseconds, ..shape };
        let history = History::generate(&shape).with_weights(binary);
        let total = 1 << total;
        let params = EfqParams { total: Auto::Given(total), ..EfqParams::default() };
        let efq = decisions(&history, |history| Efq::new(&params, &history.config()))?;
        let twin = decisions(&history, |history| Ok(NaiveEfq::new(&history.weights, total)))?;
        let differs = efq.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
        prop_assert!(efq == twin, "{:?}\n{}", differs, history);
    }

    // The policies differ only in the clock, with right or wrong estimates.
    #[test]
    fn efq_by_work_is_wf2q_plus(shape in any_shape()) {
        let history = History::generate(&shape);
        let params = EfqParams { clock: Clock::Work, ..EfqParams::default() };
        let efq = decisions(&history, |history| Efq::new(&params, &history.config()))?;
        let wf2q_plus = decisions(&history, |history| Wf2qPlus::new(&Wf2qPlusParams {}, &history.config()))?;
        let differs = efq.decisions.iter().zip(&wf2q_plus.decisions).find(|(a, b)| a != b);
        prop_assert!(efq == wf2q_plus, "{:?}\n{}", differs, history);
    }

    // Bitmaps find the same client as a scan of all clients. This covers weights far apart, wrong estimates,
    // packets longer than the longest, several cores, and changes of clients and weights.
    #[test]
    fn qfq_decides_by_its_definition(shape in any_shape(), spread in 0..=24u32, shorter in 0..=6u32) {
        let far_apart = |weight: Weight| Weight::new(weight.get() << (weight.get() % (spread + 1))).unwrap_or(weight);
        let history = History::generate(&shape).with_weights(far_apart);
        let longest = (history.config().longest >> shorter).max(1);
        let config = |history: &History| SchedulerConfig { longest, ..history.config() };
        let qfq = decisions(&history, |history| Qfq::new(&QfqParams {}, &config(history)))?;
        let twin = decisions(&history, |history| Ok(NaiveQfq::new(&history.weights, longest)))?;
        let differs = qfq.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
        prop_assert!(qfq == twin, "{:?}\n{}", differs, history);
    }

    // The tree chooses the least surplus although virtual time changes the order. Both readjust the
    // heaviest clients alike.
    #[test]
    fn sfs_decides_by_its_definition(shape in any_shape(), spread in 0..=12u32) {
        let far_apart = |weight: Weight| Weight::new(weight.get() << (weight.get() % (spread + 1))).unwrap_or(weight);
        let history = History::generate(&shape).with_weights(far_apart);
        let sfs = decisions(&history, |history| Sfs::new(&SfsParams {}, &history.config()))?;
        let twin = decisions(&history, |history| Ok(NaiveSfs::new(&history.weights, history.cores)))?;
        let differs = sfs.decisions.iter().zip(&twin.decisions).find(|(a, b)| a != b);
        prop_assert!(sfs == twin, "{:?}\n{}", differs, history);
    }
}
