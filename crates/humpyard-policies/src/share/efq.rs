//! Estimation-based fair queueing: worst-case fair queueing on estimates, corrected when the actual
//! work is known.
//!
//! **Idea.** The work of a packet is not known before it is done. An estimate sets its finish tag,
//! and at completion the actual work corrects its client's tag. Only clients that are not ahead of
//! their share in virtual time may be served. Of those, the client whose packet should finish first
//! is served. So a wrong estimate delays packets by its error. Start-time fair queueing, which
//! estimates nothing, delays them by whole packets of all others.
//!
//! **Algorithm.** The symbols are the paper's. V is virtual time. m is the number of cores that have
//! ever taken a packet. Client i has weight φ, F is the finish tag of its last packet, and S and EF
//! are the start tag and the estimated finish tag of its head. te is the estimate of a packet, A
//! its actual work. The sum Σφ is over the clients that have packets. If work is no time, V grows
//! with work.
//!
//! ```text
//! a packet of i arrives                       on_arrival, on_wake
//!     if no packet of i waits: advance V;  earliest := V
//!
//! a packet becomes the head of i              on_head: at arrival, dispatch or completion
//!     S := max(F, earliest)                                      eq. 9
//!     EF := S + te/φ                                             eq. 11
//!     file i in `due` if S ≤ V, else in `early`                  file
//!
//! advance V                                   elapse
//!     if a client has packets: V += m · (time since the last advance) / Σφ    eq. 8, first term
//!
//! a core asks for work                        pick, choose
//!     advance V
//!     if `due` is empty: V := max(V, least S in `early`)         eq. 8, second term
//!     move each i with S ≤ V from `early` to `due`
//!     serve the i of least EF in `due`
//!     F := S + te/φ, for now;  earliest := 0                     eq. 10, on_dispatch
//!
//! the packet is done, after work A            on_completion
//!     F += (A - te)/φ;  file the head of i again                 eq. 12
//!
//! a client has no packet left                 on_idle
//!     advance V;  Σφ -= φ
//!     if no client has packets: V := max(V, greatest F)          begin_anew
//! ```
//!
//! **State.** A head that may be served is in one of two tournaments. Client 1 has weight .5, and
//! clients 2 to 6 have .1 each; `total` is 1. Each packet is estimated as 10.5 and takes 10.
//! Clients 1, 2 and 1 were served, so V is 30. Client 2 has no more packets. Client 1 has
//! F = 10/.5 + 10/.5 = 40. It is ahead of its share, so it waits, although its EF is the least.
//!
//! ```text
//!    `due`, by EF              V = 30           `early`, by S
//!   ┌──────────────────────┐      │      ┌─────────────────────────┐
//!   │ 3: S 0  EF 105       │      │      │ 1: S 40  EF 61          │
//!   │ 4: S 0  EF 105       │      │      └─────────────────────────┘
//!   │ 5: S 0  EF 105       │      │        `due` as soon as V is S
//!   │ 6: S 0  EF 105       │      │
//!   └──────────────────────┘      │
//!     the first is served next
//! ```
//!
//! **Source.** The EFQ and LAP paper; PREDICTIVE sections 4, 5 and 8.
//!
//! **Promises.** Work conserving. On one core with all shares reserved, a packet finishes later
//! than in the fluid system by at most the longest packet plus the bound of eq. 18. Equation 18 has the errors of the
//! others' estimates, and the packet's own error over its client's share.
//!
//! **Cost.** O(log n) in the most heads that ever waited at once: each passes through two tournaments.
//!
//! **Invariants.** A head that may be served is in `early`, by start tag. If it was due when last examined, it
//! is in `due`, by finish tag. Only heads that are or were due are picked. Tags have 32 fraction bits and carry
//! their remainders, so nothing drifts. They compare correctly below 2^64 of work per weight. One client of
//! weight 1 alone on m cores reaches that after 584 years / m.
//!
//! **Departures.** Each is explained where the code does it.
//! - Tags count work per weight, not per share: the paper's rule divided by Σφ. `total` replaces Σφ.
//! - m is the number of cores that have taken packets from this queue.
//! - When all clients are idle, all debts and credits are cleared.
//! - A new weight holds for the packets in service too.
//! - Ties go to the lower id, for any start tags.
//! - `eligible`, `clock=work`, `charge-cold`, `charge-most`, `order=median` and `engines` are options
//!   that the paper does not have.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use core::cmp::Ordering;

use humpyard_core::choice;
use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec, ServiceId};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, ParameterValue, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::tag::{ClientDivisor, ExactTag, PackedTag, Tag};
use super::tournament::Tournament;
use super::virtual_time::VirtualTime;

pub use super::virtual_time::Clock;

choice! {
    /// The guess of a head's work that orders clients.
    pub enum Order {
        /// The estimate, which should be the mean.
        Mean = "mean",
        /// The estimate times the median ratio of actual work to estimate, of the service.
        Median = "median",
    }
}

choice! {
    /// The cores that are shared together.
    pub enum Engines {
        /// All cores of a queue together.
        Pooled = "pooled",
        /// Each core separately: packets are steered to the queues of cores.
        PerEngine = "per-engine",
    }
}

params! {
    /// Parameters of estimation-based fair queueing.
    pub struct EfqParams {
        /// Whether all cores of a queue are shared together (`pooled`), or each core has a queue of
        /// its own (`per-engine`). `hrw` steers to these queues unless another steering policy is
        /// named.
        engines: Engines = Engines::Pooled;
        /// The source of virtual time: `wall` is time at the rate of the cores, `work` is the work
        /// that they do, `auto` is `wall` if the unit of work is time.
        clock: Clock = Clock::Auto;
        /// Sum of the weights that have a share reserved; `auto` is that of the clients in the system.
        total: Auto = Auto::Auto, unit "weight";
        /// Whether a client ahead of its share waits.
        eligible: bool = true;
        /// Whether a client pays for what a cold core adds; else such a packet costs at most its estimate.
        charge_cold: bool = true;
        /// The work of a head by which clients are ordered: `mean` is the estimate, `median` is the
        /// value that half of the packets of the service stay below. They differ if few packets
        /// take very long. Both charge the same.
        order: Order = Order::Mean;
        /// The most that a packet is charged, in times its estimate. Longer times are due to the
        /// machine, which did something else meanwhile. `all` charges all of the time.
        charge_most: Most = Most::All;
    }
}

/// The most that a packet is charged.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub enum Most {
    /// Charges all work used.
    All,
    /// Charges at most this multiple of the estimate.
    Times(f64),
}

impl ParameterValue for Most {
    const ACCEPTS: &'static str = "`all` or a number from 1 to 1000";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "all" => Some(Self::All),
            _ => text.parse().ok().filter(|times| (1.0..=1e3).contains(times)).map(Self::Times),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Times(times) => times.to_string(),
        }
    }
}

/// The state of one client: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Client {
    /// Finish tag of its last packet.
    finish: ExactTag,
    /// The earliest start of its head: the virtual time when it arrived to an empty queue, else 0.
    earliest: PackedTag,
    weight: ClientDivisor,
    /// Estimated work of its packets in service.
    in_service: Work,
    /// The work that its head is expected to take when clients are ordered.
    head: Work,
    /// Whether it has packets.
    busy: bool,
}

impl Client {
    fn weight(&self) -> Weight {
        self.weight.weight()
    }

    /// Returns the start tag of its head: S = max(F of the packet before, V at its arrival).
    #[inline]
    fn start(&self) -> ExactTag {
        let earliest = self.earliest.tag();
        if earliest > self.finish.tag() { ExactTag::at(earliest) } else { self.finish }
    }

    /// Returns the estimated finish tag of its head: EF = S + te / w.
    #[inline]
    fn estimated_finish(&self) -> ExactTag {
        let mut finish = self.start();
        finish.advance(self.head, &self.weight.divisor());
        finish
    }
}

/// The state of one core.
#[derive(Clone, Copy, Debug, Default)]
struct Core {
    /// The service of its last packet.
    last: Option<ServiceId>,
    /// Packets in service there.
    in_service: u32,
    /// For each of them, the oldest lowest, whether the core was cold; packets beyond 64 count as warm.
    cold: u64,
}

impl Core {
    fn dispatch(&mut self, service: ServiceId) {
        let cold = u64::from(self.last != Some(service));
        self.cold |= cold.checked_shl(self.in_service).unwrap_or(0);
        self.last = Some(service);
        self.in_service += 1;
    }

    /// Removes the oldest packet, which is done. Returns whether the core was cold for it.
    fn complete(&mut self) -> bool {
        let cold = self.cold & 1 == 1;
        self.cold >>= 1;
        self.in_service -= 1;
        cold
    }
}

/// The median ratio of the work that packets used to their estimates, in 1,024ths. It steps up for
/// a packet above it and down for a packet below it, so it settles where both are equally frequent.
#[derive(Clone, Copy, Debug)]
struct Median(u64);

impl Median {
    const ONE: u64 = 1024;

    fn learn(&mut self, used: Work, estimate: Work) {
        let (used, believed) = (u128::from(used) * u128::from(Self::ONE), u128::from(estimate) * u128::from(self.0));
        match used.cmp(&believed) {
            Ordering::Greater => self.0 = (self.0 + 1).min(Self::ONE << 10),
            Ordering::Less => self.0 = (self.0 - 1).max(1),
            Ordering::Equal => {}
        }
    }

    fn of(self, estimate: Work) -> Work {
        let work = u128::from(estimate) * u128::from(self.0) / u128::from(Self::ONE);
        Work::try_from(work).unwrap_or(Work::MAX).max(1)
    }
}

/// Estimation-based fair queueing.
#[derive(Debug)]
pub struct Efq {
    virtual_time: VirtualTime,
    eligible: bool,
    charge_cold: bool,
    /// The most that a packet is charged, in thousandths of its estimate. `None`: all work used is charged.
    charge_most: Option<u64>,
    /// The median ratio of actual work to estimate for each service; empty if `order` does not need it.
    medians: IdVec<ServiceId, Median>,
    /// The greatest finish tag of all.
    finish_max: Tag,
    /// The clients whose head may be served and is not known to be due, by start tag. All such
    /// clients, if none has to be due.
    early: Tournament<ClientId>,
    /// The clients that are due, by estimated finish tag. All clients whose head may be served, if
    /// none has to be due.
    due: Tournament<ClientId>,
    clients: IdVec<ClientId, Client>,
    cores: IdVec<CoreId, Core>,
}

impl Build for Efq {
    type Params = EfqParams;
    const INFO: Info = Info {
        name: "efq",
        family: Family::Share,
        summary: "of the clients not ahead of their share, the one whose packet should finish first by an estimate, which is \
                  corrected when it is done",
        source: "EFQ and LAP paper",
        promises: &[
            Promise::WorkConserving,
            Promise::Fair("one core: later than fluid by <= longest + sum of errors / cores + own error / share"),
        ],
        complexity: "O(log n)",
    };
    const VARIANTS: &'static [&'static str] =
        &["clock=work,charge-cold=false", "total=7", "eligible=false", "order=median", "clock=work,charge-most=1.25"];

    fn steered_by(params: &EfqParams) -> Option<&'static str> {
        (params.engines == Engines::PerEngine).then_some("hrw")
    }

    fn new(params: &EfqParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let total = match params.total {
            Auto::Auto => None,
            Auto::Given(total) => Some(total),
        };
        let clients = IdVec::from_fn(config.clients, |id| Client {
            finish: ExactTag::default(),
            earliest: PackedTag::default(),
            weight: ClientDivisor::new(config.weight(id)),
            in_service: 0,
            head: 0,
            busy: false,
        });
        let medians = if params.order == Order::Median { config.services.len() } else { 0 };
        Ok(Self {
            virtual_time: VirtualTime::new(Self::INFO.name, params.clock, total, config)?,
            eligible: params.eligible,
            charge_cold: params.charge_cold,
            charge_most: match params.charge_most {
                Most::All => None,
                Most::Times(times) => Some((times * 1e3) as u64),
            },
            medians: IdVec::from_fn(medians, |_| Median(Median::ONE)),
            finish_max: 0,
            early: Tournament::new(config.clients, config.ties),
            due: Tournament::new(config.clients, config.ties),
            clients,
            cores: IdVec::from_fn(config.cores, |_| Core::default()),
        })
    }
}

impl Policy for Efq {
    fn check(&self) {
        let mut weight = 0;
        for id in self.clients.ids() {
            let client = &self.clients[id];
            weight += if client.busy { u64::from(client.weight().get()) } else { 0 };
            let (early, due) = (self.early.tag(id), self.due.tag(id));
            assert!(early.is_none_or(|start| start == client.start().tag()), "start tag of client {id}");
            assert!(due.is_none_or(|finish| finish == client.estimated_finish().tag()), "finish tag of client {id}");
            assert!(client.busy || (early, due) == (None, None), "client {id} is idle and has a head");
            assert!(early.is_none() || due.is_none() || !self.eligible, "client {id} is early and due");
        }
        assert_eq!(weight, self.virtual_time.busy(), "weights of the clients that are not idle");
        self.virtual_time.check();
    }
}

impl Share for Efq {
    fn on_arrival(&mut self, now: Time, id: ClientId, _: &Packet, waiting: u32) {
        if waiting == 0 {
            self.virtual_time.elapse(now);
            self.clients[id].earliest = PackedTag::new(self.virtual_time.tag());
        }
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        let client = &mut self.clients[id];
        client.busy = true;
        self.virtual_time.join(now, client.weight());
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        let median = self.medians.get(head.service);
        self.clients[id].head = median.map_or(head.estimate, |median| median.of(head.estimate));
        self.file(id);
    }

    fn pick(&mut self, now: Time, _: CoreId) -> Option<ClientId> {
        self.choose(now)
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
        let due = self.clients[id].start().tag() <= self.virtual_time.last();
        debug_assert!(due || !self.eligible || !self.virtual_time.is_wall(), "client {id} is served before it is due");
        if !self.eligible {
            self.early.remove(id);
        }
        self.dispatch(now, core, id, sent);
    }

    fn on_completion(&mut self, _: Time, core: CoreId, id: ClientId, sent: &Packet, used: Work) {
        // The estimate is for a warm core: without `charge-cold` a cold one costs at most that. With
        // `charge-most`, a client does not pay for the time that the machine took.
        let cold = !self.charge_cold && self.cores[core].complete();
        let most = if cold { Some(1000) } else { self.charge_most };
        let charged = most.map_or(used, |most| used.min(times(sent.estimate, most)));
        if self.medians.get(sent.service).is_some() {
            self.medians[sent.service].learn(charged, sent.estimate);
        }
        let client = &mut self.clients[id];
        client.in_service -= sent.estimate;
        if charged == sent.estimate {
            return;
        }
        client.finish.correct(charged, sent.estimate, &client.weight.divisor());
        self.finish_max = self.finish_max.max(client.finish.tag());
        self.virtual_time.complete(charged, sent.estimate);
        self.file_again(id);
    }

    fn on_idle(&mut self, now: Time, id: ClientId) {
        let client = &mut self.clients[id];
        client.busy = false;
        self.virtual_time.leave(now, client.weight());
        if self.virtual_time.busy() == 0 {
            self.virtual_time.begin_anew(self.finish_max);
        }
    }

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        self.clients[id].finish = ExactTag::default();
    }

    fn set_weight(&mut self, now: Time, id: ClientId, weight: Weight) {
        // The packets in service count by the new weight too.
        let client = &mut self.clients[id];
        let before = client.weight();
        let to = ClientDivisor::new(weight);
        client.finish.retreat(client.in_service, &client.weight.divisor());
        client.finish = ExactTag::at(client.finish.tag());
        client.finish.advance(client.in_service, &to.divisor());
        client.weight = to;
        self.finish_max = self.finish_max.max(client.finish.tag());
        if client.busy {
            self.virtual_time.reweigh(now, before, weight);
        }
        self.file_again(id);
    }
}

impl Efq {
    /// Returns the client that an idle core should serve now. `None`: no head may be served.
    pub(super) fn choose(&mut self, now: Time) -> Option<ClientId> {
        self.virtual_time.elapse(now);
        if (self.due.is_empty() || !self.eligible)
            && let Some((start, _)) = self.early.first()
        {
            self.virtual_time.reach(start);
        }
        let now = self.virtual_time.tag();
        while self.eligible
            && let Some((start, id)) = self.early.first()
            && start <= now
        {
            self.early.remove(id);
            self.due.set(id, self.clients[id].estimated_finish().tag());
        }
        self.due.first().map(|(_, id)| id)
    }

    fn dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
        let client = &mut self.clients[id];
        let mut finish = client.start();
        finish.advance(sent.estimate, &client.weight.divisor());
        client.finish = finish;
        client.earliest = PackedTag::default();
        client.in_service += sent.estimate;
        self.finish_max = self.finish_max.max(finish.tag());
        self.due.remove(id);
        self.virtual_time.dispatch(now, core, sent.estimate);
        if !self.charge_cold {
            self.cores[core].dispatch(sent.service);
        }
    }

    /// As [`Share::on_dispatch`], for a client that another policy has picked, due or not.
    pub(super) fn on_early_dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
        self.early.remove(id);
        self.dispatch(now, core, id, sent);
    }

    /// Files a client whose head may be served.
    fn file(&mut self, id: ClientId) {
        let client = &self.clients[id];
        let start = client.start().tag();
        let early = start > self.virtual_time.last();
        if early || !self.eligible {
            self.early.set(id, start);
        }
        if !early || !self.eligible {
            self.due.set(id, client.estimated_finish().tag());
        }
    }

    /// Files again a client whose tag has changed, if its head may be served.
    #[inline]
    fn file_again(&mut self, id: ClientId) {
        let (early, due) = (self.early.contains(id), self.due.contains(id));
        if !early && !due {
            return;
        }
        if self.eligible {
            // The client keeps its place in the tournament in which it stays.
            let is_early = self.clients[id].start().tag() > self.virtual_time.last();
            if early && !is_early {
                self.early.remove(id);
            } else if due && is_early {
                self.due.remove(id);
            }
        }
        self.file(id);
    }

    /// Clears all debts and credits, even if clients wait: all clients start at virtual time.
    pub(super) fn begin_anew(&mut self, now: Time) {
        self.virtual_time.elapse(now);
        let tag = self.virtual_time.tag();
        self.finish_max = tag;
        for id in self.clients.ids() {
            let client = &mut self.clients[id];
            if client.busy || client.finish.tag() > tag {
                client.finish = ExactTag::at(tag);
            }
            self.file_again(id);
        }
    }
}

/// Returns `permille` thousandths of an estimate.
fn times(estimate: Work, permille: u64) -> Work {
    let work = u128::from(estimate) * u128::from(permille) / 1000;
    Work::try_from(work).unwrap_or(Work::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::sfq::{Sfq, SfqParams};
    use crate::share::testing::{
        A, B, V, after_ten_alone, random_weights, sequence, unit_errors, unit_sequence, v_work, weights_of,
    };
    use crate::testing::config;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;
    use alloc::{format, vec};
    use humpyard_core::cost::LinearCost;
    use humpyard_core::mechanism::{Never, Scheduler};
    use humpyard_core::policy::Ties;
    use humpyard_core::random::Seed;
    use humpyard_core::unit::WorkUnit;
    use humpyard_testkit::{Event, History, Player, Shape};

    const EFQ: EfqParams = EfqParams {
        engines: Engines::Pooled,
        clock: Clock::Auto,
        total: Auto::Auto,
        eligible: true,
        charge_cold: true,
        order: Order::Mean,
        charge_most: Most::All,
    };
    const CORE: CoreId = CoreId(0);

    /// A packet that arrives at the start: its client, its estimate and its actual work.
    type Job = (usize, u32, u64);
    /// A packet that was served: its client, its start time and its completion time.
    type Served = (usize, u64, u64);

    /// Serves the jobs on one core. The length of a packet is its estimate.
    fn serve<Q: Share + Build>(params: &Q::Params, weights: &[u32], ties: Ties, jobs: &[Job]) -> Vec<Served> {
        let mut history = History::generate(&Shape { clients: weights.len(), events: 0, ..Shape::default() });
        history.weights = weights_of(weights);
        history.estimates = vec![LinearCost::BYTES];
        history.longest = jobs.iter().map(|&(_, estimate, _)| estimate.into()).max().expect("jobs");
        let arrive = |&(client, length, used): &Job| {
            let packet = Packet { client: ClientId(client as u32), length, ..Packet::default() };
            (Time::ZERO, Event::Arrive { packet, busy: Time::from_ns(used) })
        };
        history.events = jobs.iter().map(arrive).collect();
        let config = SchedulerConfig { ties, ..history.config() };
        let share = || Q::new(params, &config);
        let mut scheduler = Scheduler::<Never, _, Never>::new(&config, None, None, share).unwrap();
        let log = Player::new(&history).run(&mut scheduler, &mut ());
        let served = log.decisions.iter().map(|decision| {
            let (client, _, used) = jobs[decision.arrival];
            (client, decision.time.as_ns(), decision.time.as_ns() + used)
        });
        served.collect()
    }

    /// Returns the worked example of PREDICTIVE section 4, in half units of its time.
    fn figure_4_jobs(known: bool) -> Vec<Job> {
        let jobs = [(0, 20); 5].into_iter().chain((1..6).map(|client| (client, 18 + 2 * client as u64)));
        jobs.map(|(client, used)| (client, if known { used as u32 } else { 21 }, used)).collect()
    }

    const FIGURE_4_WEIGHTS: [u32; 6] = [5, 1, 1, 1, 1, 1];
    const FIGURE_4: EfqParams = EfqParams { total: Auto::Given(10), ..EFQ };

    /// Returns which clients are served when, in the units and numbers of the example.
    fn figure_4<Q: Share + Build>(params: &Q::Params, ties: Ties, known: bool) -> String {
        let served = serve::<Q>(params, &FIGURE_4_WEIGHTS, ties, &figure_4_jobs(known));
        assert_eq!(served.last().map(|last| last.2), Some(2 * 110));
        let words = served.iter().map(|(client, start, _)| format!("{}@{}", client + 1, start / 2));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn worked_example_in_the_spirit_of_figure_4() {
        const WF2Q_PLUS: &str = "1@0 2@10 1@20 3@30 1@41 4@51 1@63 5@73 1@86 6@96";
        assert_eq!(figure_4::<Efq>(&FIGURE_4, Ties::Lowest, true), WF2Q_PLUS);
        assert_eq!(figure_4::<Efq>(&FIGURE_4, Ties::Highest, true), WF2Q_PLUS);
        assert_eq!(figure_4::<Efq>(&FIGURE_4, Ties::Lowest, false), WF2Q_PLUS);
        assert_eq!(
            figure_4::<Efq>(&FIGURE_4, Ties::Highest, false),
            "1@0 6@10 1@24 5@34 1@47 4@57 1@69 3@79 1@90 2@100"
        );
        assert_eq!(
            figure_4::<Efq>(&EfqParams { eligible: false, ..FIGURE_4 }, Ties::Highest, false),
            "1@0 1@10 1@20 1@30 1@40 6@50 5@64 4@77 3@89 2@100"
        );
        assert_eq!(
            figure_4::<Sfq>(&SfqParams {}, Ties::Highest, false),
            "6@0 5@14 4@27 3@39 2@50 1@60 1@70 1@80 1@90 1@100"
        );
    }

    /// Checks the tags of the same example, times 2 for half units and over 10 for the sum of the weights.
    #[test]
    fn tag_trace_of_the_worked_example() {
        let weights = weights_of(&FIGURE_4_WEIGHTS);
        let config = SchedulerConfig { ties: Ties::Highest, unit: WorkUnit::Nanoseconds, ..config(1, 6, &weights) };
        let mut efq = Efq::new(&FIGURE_4, &config).unwrap();
        let jobs = figure_4_jobs(false);
        let head = Packet { estimate: 21, ..Packet::default() };
        for client in (0..6).map(ClientId) {
            efq.on_arrival(Time::ZERO, client, &head, 0);
            efq.on_wake(Time::ZERO, client, &head);
        }
        let spec = |tag: Tag| (tag * 10 / 2 + (1 << 31)) >> 32;
        assert_eq!([0, 1, 5].map(|id| spec(efq.clients[ClientId(id)].estimated_finish().tag())), [21, 105, 105]);
        let mut now = Time::ZERO;
        let mut left = [5, 1, 1, 1, 1, 1];
        let mut trace = Vec::new();
        for _ in 0..jobs.len() {
            let client = efq.pick(now, CORE).unwrap();
            let virtual_time = spec(efq.virtual_time.tag());
            let start = spec(efq.clients[client].start().tag());
            efq.on_dispatch(now, CORE, client, &head);
            let used = jobs.iter().find(|job| job.0 == client.0 as usize).unwrap().2;
            now += Time::from_ns(used);
            efq.on_completion(now, CORE, client, &head, used);
            efq.check();
            trace.push((client.0 + 1, virtual_time, start, spec(efq.clients[client].finish.tag())));
            left[client.0 as usize] -= 1;
            if left[client.0 as usize] > 0 {
                efq.on_head(now, client, &head);
            } else {
                efq.on_idle(now, client);
            }
        }
        let expected = [
            (1, 0, 0, 20),
            (6, 10, 0, 140),
            (1, 24, 20, 40),
            (5, 34, 0, 130),
            (1, 47, 40, 60),
            (4, 57, 0, 120),
            (1, 69, 60, 80),
            (3, 79, 0, 110),
            (1, 90, 80, 100),
            (2, 100, 0, 100),
        ];
        assert_eq!(trace, expected);
    }

    /// Returns eq. 18, times the sum of the weights: how much later than in the fluid system a
    /// packet of this client may finish, given the greatest error of each client.
    fn equation_18(weights: &[u32], errors: &[u64], client: usize) -> i64 {
        let total: u32 = weights.iter().sum();
        let others: u64 = errors.iter().sum::<u64>() - errors[client];
        let own = errors[client] as i64;
        (others as i64 - own) * i64::from(total) + own * i64::from(total).pow(2) / i64::from(weights[client])
    }

    /// Returns the greatest error of each client.
    fn errors(clients: usize, jobs: &[Job]) -> Vec<u64> {
        let of = |client| jobs.iter().filter(move |job| job.0 == client).map(|job| job.2.abs_diff(job.1.into())).max();
        (0..clients).map(|client| of(client).unwrap_or(0)).collect()
    }

    /// Returns how much later each packet finishes than the fluid system guarantees, times the
    /// weight of its client, with the client.
    fn lateness(weights: &[u32], served: &[Served]) -> impl Iterator<Item = (usize, i64)> {
        let total: u32 = weights.iter().sum();
        let mut used = vec![0; weights.len()];
        served.iter().map(move |&(client, start, end)| {
            used[client] += end - start;
            (client, end as i64 * i64::from(weights[client]) - used[client] as i64 * i64::from(total))
        })
    }

    #[test]
    fn equation_18_on_the_worked_example() {
        let jobs = figure_4_jobs(false);
        let errors = errors(6, &jobs);
        assert_eq!(equation_18(&FIGURE_4_WEIGHTS, &errors, 1), 2 * 13 * 10);
        let served = serve::<Efq>(&FIGURE_4, &FIGURE_4_WEIGHTS, Ties::Highest, &jobs);
        let mut late = lateness(&FIGURE_4_WEIGHTS, &served).collect::<Vec<_>>();
        for &(client, late) in &late {
            let weight = i64::from(FIGURE_4_WEIGHTS[client]);
            assert!(late * 10 <= equation_18(&FIGURE_4_WEIGHTS, &errors, client) * weight, "client {client}: {late}");
        }
        assert_eq!(late.pop(), Some((1, 2 * 10)), "client 2 finishes at 110 instead of 100");
    }

    /// The bound is eq. 18 plus the longest packet of another client, which cannot be interrupted.
    /// All clients are backlogged from the start, with all shares reserved.
    #[test]
    fn equation_18_bounds_how_late_packets_finish() {
        let mut random = Seed(1).stream("efq/equation-18");
        for weights in random_weights("efq/equation-18", 300, 10, 20) {
            let total: u32 = weights.iter().sum();
            let error = [0, 50, 500][random.below(3) as usize];
            let mut job = |client| {
                let used = 1000 + random.below(1000);
                (client, (used - error + random.below(2 * error + 1)) as u32, used)
            };
            let jobs: Vec<Job> = (0..5 * weights.len()).map(|number| job(number % weights.len())).collect();
            let errors = errors(weights.len(), &jobs);
            let longest = jobs.iter().map(|job| job.2 as i64).max().unwrap();
            let params = EfqParams { total: Auto::Given(total.into()), ..EFQ };
            for ties in [Ties::Lowest, Ties::Highest] {
                for (client, late) in lateness(&weights, &serve::<Efq>(&params, &weights, ties, &jobs)) {
                    let (weight, total) = (i64::from(weights[client]), i64::from(total));
                    let allowed = (equation_18(&weights, &errors, client) + longest * total) * weight;
                    assert!(late * total <= allowed, "client {client} of {weights:?}: {late} with errors {errors:?}");
                }
            }
        }
    }

    /// PREDICTIVE section 10: while two clients are backlogged from the start, their service per
    /// weight differs by at most the longest packet of each. If estimates are wrong, the longest
    /// estimates count too, and eq. 18 adds the errors of all.
    #[test]
    fn backlogged_clients_are_served_by_weight() {
        let mut random = Seed(1).stream("efq/proportional");
        for weights in random_weights("efq/proportional", 300, 8, 20) {
            let error = [0, 50, 500][random.below(3) as usize];
            let mut job = |client| {
                let used = 1000 + random.below(1000);
                (client, (used - error + random.below(2 * error + 1)) as u32, used)
            };
            let jobs: Vec<Job> = (0..50 * weights.len()).map(|number| job(number % weights.len())).collect();
            let mut longest = vec![0; weights.len()];
            for &(client, estimate, used) in &jobs {
                longest[client] = longest[client].max(used).max(estimate.into());
            }
            let errors: u64 = errors(weights.len(), &jobs).iter().sum();
            let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
            let (mut used, mut packets) = (vec![0; weights.len()], vec![0; weights.len()]);
            for (client, start, end) in serve::<Efq>(&EFQ, &weights, Ties::Highest, &jobs) {
                used[client] += end - start;
                packets[client] += 1;
                for other in (0..weights.len()).filter(|&other| packets[client] < 50 && packets[other] < 50) {
                    let [own, others] = [client, other].map(|client| u64::from(weights[client]));
                    let strayed = (used[client] * others).abs_diff(used[other] * own);
                    let allowed = longest[client] * others + longest[other] * own;
                    assert!(
                        strayed * total <= allowed * total + errors * own * others,
                        "{client} and {other} of {weights:?}: {strayed}, and {allowed} is allowed, with errors {errors}"
                    );
                }
            }
        }
    }

    /// Heavy tails, and useless estimates: a client is never ahead of its share by more than a
    /// packet. So no client is behind by more than a packet of each of the others. This bound does
    /// not depend on the estimates.
    #[test]
    fn wrong_estimates_do_not_make_it_unfair() {
        let mut random = Seed(1).stream("efq/wrong");
        for weights in random_weights("efq/wrong", 200, 8, 20) {
            let mut job = |client| {
                let used = 100 * 10_000 / (1 + random.below(10_000));
                let estimate = [1, 100, 1_000_000, random.below(10_000) + 1][random.below(4) as usize];
                (client, estimate as u32, used.max(1))
            };
            let jobs: Vec<Job> = (0..60 * weights.len()).map(|number| job(number % weights.len())).collect();
            let total = weights.iter().map(|&weight| u64::from(weight)).sum();
            let longest = |client| jobs.iter().filter(|job| job.0 == client).map(|job| job.2).max().unwrap();
            let others = |client| (0..weights.len()).filter(|&other| other != client).map(longest).sum::<u64>();
            let params = EfqParams { total: Auto::Given(total), ..EFQ };
            let (mut used, mut packets) = (vec![0; weights.len()], vec![0; weights.len()]);
            for (client, start, end) in serve::<Efq>(&params, &weights, Ties::Highest, &jobs) {
                used[client] += end - start;
                packets[client] += 1;
                if packets.contains(&60) {
                    break;
                }
                for other in (0..weights.len()).filter(|&other| other != client) {
                    let [own, their] = [client, other].map(|client| u64::from(weights[client]));
                    let ahead = (used[client] * their).saturating_sub(used[other] * own);
                    let allowed = longest(client) * their + others(other) * own;
                    assert!(
                        ahead <= allowed,
                        "{client} before {other} of {weights:?}: {ahead}, and {allowed} is allowed"
                    );
                }
            }
        }
    }

    /// PREDICTIVE section 10: with estimates near zero, start tags decide the order, as in
    /// start-time fair queueing.
    #[test]
    fn without_estimates_the_earliest_start_goes_first() {
        let mut random = Seed(1).stream("efq/nothing");
        for clients in 2..9 {
            let jobs: Vec<Job> =
                (0..40 * clients).map(|number| (number % clients, 1, 1 + random.below(1000))).collect();
            let params = EfqParams { total: Auto::Given(clients as u64), ..EFQ };
            let (mut used, mut left) = (vec![0; clients], vec![40; clients]);
            for (client, start, end) in serve::<Efq>(&params, &vec![1; clients], Ties::Lowest, &jobs) {
                let earliest = (0..clients).filter(|&other| left[other] > 0).map(|other| used[other]).min();
                assert_eq!(Some(used[client]), earliest, "{client} of {used:?}");
                used[client] += end - start;
                left[client] -= 1;
            }
        }
    }

    #[test]
    fn vectors_of_the_specification_of_wf2q_plus() {
        assert_eq!(unit_sequence::<Efq>(&EFQ, &A, 12), "121213121213");
        assert_eq!(unit_sequence::<Efq>(&EFQ, &B, 48), "121314151612131412131516".repeat(2));
        assert_eq!(sequence::<Efq>(&EFQ, &V, 14, 10, v_work), "12131212113121");
    }

    #[test]
    fn unit_errors_are_below_one() {
        for weights in random_weights("efq/few", 100, 12, 3000).chain(random_weights("efq/many", 20, 200, 60)) {
            let total: u32 = weights.iter().sum();
            let (least, greatest) = unit_errors::<Efq>(&EFQ, &weights, 2 * total as usize);
            let total = i128::from(total);
            assert!(-total < least && greatest < total, "{least} to {greatest} of {total}: {weights:?}");
        }
    }

    #[test]
    fn use_of_idle_capacity_is_forgiven() {
        assert_eq!(after_ten_alone::<Efq>(&EFQ, 6), "121212");
    }

    /// After all completions, F is S of the first packet plus all work used, for any estimates and
    /// any order of completions.
    #[test]
    fn a_backlogged_client_is_charged_what_it_used() {
        let config = SchedulerConfig { unit: WorkUnit::Nanoseconds, ..config(3, 1, &[]) };
        let mut efq = Efq::new(&EFQ, &config).unwrap();
        let (client, now) = (ClientId(0), Time::from_ns(7));
        let sent = [10, 20, 30].map(|estimate| Packet { estimate, ..Packet::default() });
        efq.on_arrival(now, client, &sent[0], 0);
        efq.on_wake(now, client, &sent[0]);
        let first = efq.clients[client].start().tag();
        for (core, packet) in sent.iter().enumerate() {
            let core = CoreId(core as u16);
            assert_eq!(efq.pick(now, core), Some(client));
            efq.on_dispatch(now, core, client, packet);
            if let Some(next) = sent.get(usize::from(core.0) + 1) {
                efq.on_head(now, client, next);
            }
        }
        for (core, used) in [(1, 5), (0, 17), (2, 29)] {
            efq.on_completion(now, CoreId(core), client, &sent[usize::from(core)], used);
            efq.check();
        }
        assert_eq!(efq.clients[client].finish, ExactTag::at(first + (51 << 32)));
    }

    /// Returns the charge for a packet that was estimated as 10 and used 25, on a cold or a warm core.
    fn charged(params: &EfqParams, cold: bool) -> Tag {
        let mut efq = Efq::new(params, &config(1, 1, &[])).unwrap();
        let mut finish = 0;
        for service in [ServiceId(1), ServiceId(u16::from(!cold))] {
            let sent = Packet { estimate: 10, service, ..Packet::default() };
            efq.on_arrival(Time::ZERO, ClientId(0), &sent, 0);
            efq.on_wake(Time::ZERO, ClientId(0), &sent);
            finish = efq.clients[ClientId(0)].start().tag();
            efq.pick(Time::ZERO, CORE).unwrap();
            efq.on_dispatch(Time::ZERO, CORE, ClientId(0), &sent);
            efq.on_completion(Time::ZERO, CORE, ClientId(0), &sent, 25);
            finish = efq.clients[ClientId(0)].finish.tag() - finish;
            efq.on_idle(Time::ZERO, ClientId(0));
        }
        finish >> 32
    }

    #[test]
    fn what_a_cold_core_adds_may_be_free() {
        assert_eq!([true, false].map(|cold| charged(&EFQ, cold)), [25, 25]);
        let free = EfqParams { charge_cold: false, ..EFQ };
        assert_eq!([true, false].map(|cold| charged(&free, cold)), [10, 25]);
    }

    #[test]
    fn nobody_is_charged_more_than_the_most() {
        for (times, expected) in [(1.0, 10), (1.5, 15), (2.5, 25), (3.0, 25)] {
            let params = EfqParams { charge_most: Most::Times(times), ..EFQ };
            assert_eq!(charged(&params, false), expected, "{times}");
        }
        let free = EfqParams { charge_cold: false, charge_most: Most::Times(1.5), ..EFQ };
        assert_eq!([true, false].map(|cold| charged(&free, cold)), [10, 15]);
        for (text, most) in [("all", Some(Most::All)), ("1.25", Some(Most::Times(1.25))), ("0.5", None), ("x", None)] {
            assert_eq!(Most::parse(text), most);
            assert!(most.is_none_or(|most| most.show() == text));
        }
    }

    /// Nine of ten packets use half of their estimate, one uses 5.5 times as much. The mean is
    /// right, and the order follows the median.
    #[test]
    fn clients_may_be_ordered_by_the_median() {
        let mut efq = Efq::new(&EfqParams { order: Order::Median, ..EFQ }, &config(1, 1, &[])).unwrap();
        let sent = Packet { estimate: 1000, ..Packet::default() };
        for packet in 0..4000 {
            efq.on_arrival(Time::ZERO, ClientId(0), &sent, 0);
            efq.on_wake(Time::ZERO, ClientId(0), &sent);
            let before = efq.clients[ClientId(0)].start().tag();
            efq.pick(Time::ZERO, CORE).unwrap();
            efq.on_dispatch(Time::ZERO, CORE, ClientId(0), &sent);
            assert_eq!(efq.clients[ClientId(0)].finish.tag() - before, 1000 << 32, "charged the estimate");
            efq.on_completion(Time::ZERO, CORE, ClientId(0), &sent, if packet % 10 == 9 { 5500 } else { 500 });
            efq.check();
            efq.on_idle(Time::ZERO, ClientId(0));
        }
        efq.on_arrival(Time::ZERO, ClientId(0), &sent, 0);
        efq.on_wake(Time::ZERO, ClientId(0), &sent);
        let believed = efq.clients[ClientId(0)].head;
        assert!((490..=515).contains(&believed), "{believed}");
    }

    #[test]
    fn cores_know_which_packets_they_were_cold_for() {
        let mut core = Core::default();
        for service in [1, 1, 2, 1] {
            core.dispatch(ServiceId(service));
        }
        assert_eq!([(); 4].map(|()| core.complete()), [true, false, true, true]);
        for number in 0..70 {
            core.dispatch(ServiceId(2 + number % 2));
        }
        assert_eq!((0..70).filter(|_| core.complete()).count(), 64);
        assert_eq!((core.in_service, core.cold), (0, 0));
    }

    #[test]
    fn parameters_that_cannot_be() {
        let refused = |params: &EfqParams| Efq::new(params, &config(1, 1, &[])).unwrap_err().to_string();
        assert_eq!(
            refused(&EfqParams { clock: Clock::Wall, ..EFQ }),
            "efq: `clock=wall` needs work in ns; where work is bytes or packets, use `clock=work`"
        );
        assert_eq!(
            refused(&EfqParams { total: Auto::Given(1 << 60), ..EFQ }),
            "efq: `total` must be at most 4503599627370496, not 1152921504606846976"
        );
    }
}
