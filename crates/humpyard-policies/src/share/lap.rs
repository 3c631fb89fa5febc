//! Locality-aware predictive scheduling: a core stays with an application while that has the work for it.
//!
//! **Idea.** Fetching another program into a core's cache costs time. Of n cores an application should have as many as it has of
//! the estimated work that waits: its target T. A core whose application still has packets stays, unless another lacks so many
//! more cores that it must give way. What goes next is the oldest packet of the application chosen.
//!
//! **Source.** The EFQ and LAP paper; PREDICTIVE section 7.
//!
//! **Promises.** Work conserving. One application alone runs cold once for each core.
//!
//! **Cost.** O(N) for a decision of N cores, over the applications that have cores; O(log n) for a change of one of n that has none.
//!
//! **Invariants.** An application's cores are those whose last packet was its own; all together there are at most N. Visible
//! work is 0 if and only if no packet is visible. An application whose head may be served and is visible is in `coreless`, if
//! no core is warm for it, else its standing in `holders` has its work.
//!
//! **Departures.** Applications are the clients of the queue: run with one client for each service, and with free flow order, as
//! one application must be on several cores at once. Where order is kept all the same, and no visible head may be served, the
//! head that has been on offer longest goes. N is how many cores have taken packets from this queue. Weights mean nothing here.
//! Comparisons are exact: work times cores instead of targets.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Setup, Share, Ties};
use humpyard_core::steps;
use humpyard_core::storage::{IdRing, IdSet};
use humpyard_core::unit::{Time, Weight, Work};

use super::tag::Tag;
use super::tournament::Tournament;
use super::window::Window;

params! {
    /// Parameters of locality-aware predictive scheduling.
    pub struct LapParams {
        /// How many of the oldest waiting packets it looks at; 0 is all.
        window: u64 = 0, unit "packets";
        /// By how many cores more another application must be in need than the one a core is warm for, before the core goes
        /// over; the number of cores and more is never, while packets of its own wait.
        hysteresis: u64 = 1, in 0..=1_000_000, unit "cores";
    }
}

/// What is known of one application.
#[derive(Clone, Copy, Debug, Default)]
struct Application {
    /// Number of its head among the accepted packets, if that may be served.
    head: Option<u64>,
    /// Cores that are warm for it.
    cores: u32,
    /// Where it stands among the holders, if it has cores.
    place: u32,
}

/// An application that has cores.
#[derive(Clone, Copy, Debug)]
struct Holder {
    id: ClientId,
    cores: u32,
    /// Its visible work, if its head may be served; else 0.
    work: Work,
}

/// How much an application needs a core, times the visible work of all: d = T - cores = N W_a / W - cores.
type Need = i128;

/// Locality-aware predictive scheduling.
#[derive(Debug)]
pub struct Lap {
    hysteresis: u64,
    window: Window,
    applications: IdVec<ClientId, Application>,
    /// The applications that have no core and whose head may be served and is visible: most work first, then the oldest head.
    coreless: Tournament<ClientId>,
    /// The applications that have cores.
    holders: Vec<Holder>,
    /// The applications whose head may be served, but is not visible, in the order in which they came to be so.
    beyond: IdRing<ClientId>,
    /// The application of each core's last packet.
    warm: IdVec<CoreId, Option<ClientId>>,
    /// The cores that ever took a packet from this queue.
    pulling: IdSet<CoreId>,
}

impl Build for Lap {
    type Params = LapParams;
    const INFO: Info = Info {
        name: "lap",
        family: Family::Share,
        summary: "cores stay with an application while that has the waiting work for them, so that programs stay in caches",
        source: "EFQ and LAP paper",
        promises: &[Promise::WorkConserving],
        complexity: "O(N + log n)",
    };
    const VARIANTS: &'static [&'static str] = &["window=3", "window=7,hysteresis=0"];

    fn new(params: &LapParams, setup: &Setup<'_>) -> Result<Self, BuildError> {
        Ok(Self {
            hysteresis: params.hysteresis,
            window: Window::new(params.window, setup.packets, setup.clients),
            applications: IdVec::from_fn(setup.clients, |_| Application::default()),
            coreless: Tournament::new(setup.clients, Ties::Lowest),
            holders: Vec::with_capacity(setup.cores),
            beyond: IdRing::new(setup.clients),
            warm: IdVec::from_fn(setup.cores, |_| None),
            pulling: IdSet::new(setup.cores),
        })
    }
}

impl Policy for Lap {
    fn check(&self) {
        self.window.check();
        assert!(self.holders.iter().map(|holder| holder.cores as usize).sum::<usize>() <= self.warm.len());
        for id in self.applications.ids() {
            let application = &self.applications[id];
            let work = self.window.work_of(id);
            let cores = self.warm.iter().filter(|&&warm| warm == Some(id)).count();
            assert_eq!(application.cores as usize, cores, "cores of application {id}");
            let offered = application.head.filter(|_| work > 0);
            assert_eq!(self.beyond.contains(id), application.head.is_some() && work == 0, "{id} is out of sight");
            let expected = offered.filter(|_| cores == 0).map(|head| rank(work, head));
            assert_eq!(self.coreless.tag(id), expected, "application {id} without cores");
            if cores > 0 {
                let holder = &self.holders[application.place as usize];
                assert_eq!((holder.id, holder.cores), (id, application.cores), "standing of application {id}");
                assert_eq!(holder.work, if offered.is_some() { work } else { 0 }, "work of application {id}");
            }
        }
    }
}

impl Share for Lap {
    fn on_arrival(&mut self, _: Time, id: ClientId, packet: &Packet, _: u32) {
        self.window.arrive(id, packet.estimate);
        self.file(id);
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, head: &Packet) {
        self.applications[id].head = Some(head.sequence);
        self.file(id);
    }

    fn pick(&mut self, _: Time, core: CoreId) -> Option<ClientId> {
        let own = self.warm[core].filter(|&id| self.is_candidate(id));
        let Some(neediest) = self.neediest() else { return self.beyond.front() };
        Some(own.filter(|&own| self.stays(own, neediest)).unwrap_or(neediest))
    }

    fn place(&mut self, _: Time, idle: &IdSet<CoreId>) -> CoreId {
        let own_head =
            |core: CoreId| self.warm[core].filter(|&id| self.is_candidate(id)).map(|id| self.applications[id].head);
        let warm = idle.iter().filter_map(|core| Some((own_head(core)?, core))).min();
        warm.map(|(_, core)| core).unwrap_or_else(|| idle.first().expect("a core is idle"))
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, id: ClientId, sent: &Packet) {
        self.pulling.insert(core);
        self.applications[id].head = None;
        let seen = self.window.leave(id, sent.estimate);
        self.file(id);
        if let Some(seen) = seen {
            self.file(seen);
        }
        if self.warm[core] != Some(id) {
            if let Some(before) = self.warm[core].replace(id) {
                self.release(before);
            }
            self.acquire(id);
        }
    }

    fn on_push_out(&mut self, _: Time, id: ClientId, packet: &Packet, _: u32) {
        let seen = self.window.push_out(id, packet.estimate);
        self.file(id);
        if let Some(seen) = seen {
            self.file(seen);
        }
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, id: ClientId) {
        for core in self.warm.ids() {
            if self.warm[core] == Some(id) {
                self.warm[core] = None;
                self.release(id);
            }
        }
    }

    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
}

impl Lap {
    /// Whether the application's head may be served, and is visible.
    fn is_candidate(&self, id: ClientId) -> bool {
        self.applications[id].head.is_some() && self.window.work_of(id) > 0
    }

    /// The application that needs a core most; of equals the one whose head is oldest.
    fn neediest(&mut self) -> Option<ClientId> {
        let (cores, work) = (self.pulling.len() as u64, self.window.work());
        let most = self.coreless.first().map(|(_, id)| id);
        if work < 1 << 46 {
            // Cores are fewer than 2^16, so needs fit.
            let (cores, work) = (cores as i64, work as i64);
            self.neediest_by(most, i64::MIN, |own, held| own as i64 * cores - i64::from(held) * work)
        } else {
            self.neediest_by(most, Need::MIN, |own, held| self.need(own, held))
        }
    }

    /// As [`Lap::neediest`], given the neediest of those without cores. Whose need is greatest nobody can predict: no branch
    /// depends on it, but for ties.
    #[inline]
    fn neediest_by<N: Ord + Copy>(
        &self,
        coreless: Option<ClientId>,
        least: N,
        need: impl Fn(Work, u32) -> N,
    ) -> Option<ClientId> {
        let mut most = coreless.map_or(least, |id| need(self.window.work_of(id), 0));
        let mut neediest = coreless.unwrap_or(ClientId(u32::MAX));
        steps::taken(self.holders.len());
        for holder in &self.holders {
            let need = select_unpredictable(holder.work > 0, need(holder.work, holder.cores), least);
            let older = || self.applications[holder.id].head < self.applications[neediest].head;
            let more = need > most || need == most && need > least && older();
            most = select_unpredictable(more, need, most);
            neediest = select_unpredictable(more, holder.id, neediest);
        }
        (most > least).then_some(neediest)
    }

    /// How much an application of this work with so many cores needs a core.
    #[inline]
    fn need(&self, work: Work, cores: u32) -> Need {
        Need::from(work) * self.pulling.len() as Need - Need::from(self.window.work()) * Need::from(cores)
    }

    /// Whether a core stays with the application that it is warm for: T - (cores - 1) + H is as much as the other's need.
    fn stays(&self, own: ClientId, other: ClientId) -> bool {
        let need = |id: ClientId| self.need(self.window.work_of(id), self.applications[id].cores);
        let slack = Need::from(self.window.work()) * Need::from(1 + self.hysteresis);
        need(own) + slack >= need(other)
    }

    /// Files an application by its work and by whether its head may be served.
    fn file(&mut self, id: ClientId) {
        let Application { head, cores, place } = self.applications[id];
        let work = self.window.work_of(id);
        let candidate = head.filter(|_| work > 0);
        let out_of_sight = head.is_some() && work == 0;
        if out_of_sight != self.beyond.contains(id) {
            if out_of_sight { self.beyond.push_back(id) } else { self.beyond.remove(id) }
        }
        match candidate {
            _ if cores > 0 => self.holders[place as usize].work = if candidate.is_some() { work } else { 0 },
            Some(head) => self.coreless.set(id, rank(work, head)),
            None => self.coreless.remove(id),
        }
    }

    /// One more core is warm for the application.
    fn acquire(&mut self, id: ClientId) {
        let application = &mut self.applications[id];
        application.cores += 1;
        if application.cores == 1 {
            application.place = self.holders.len() as u32;
            self.holders.push(Holder { id, cores: 1, work: 0 });
            self.coreless.remove(id);
            self.file(id);
        } else {
            self.holders[application.place as usize].cores += 1;
        }
    }

    /// One core less is warm for the application.
    fn release(&mut self, id: ClientId) {
        let Application { cores, place, .. } = self.applications[id];
        self.applications[id].cores = cores - 1;
        if cores > 1 {
            self.holders[place as usize].cores -= 1;
            return;
        }
        self.holders.swap_remove(place as usize);
        if let Some(moved) = self.holders.get(place as usize) {
            self.applications[moved.id].place = place;
        }
        self.file(id);
    }
}

/// Bits of a rank for the number of the head: it wraps after 2.8 * 10^14 packets, and then one tie may go to the younger.
const HEAD: u32 = 48;

/// Where an application stands among those without cores: more work is less, then the older head. Beyond 2^48 of work, which
/// is three days of one core in nanoseconds, all are alike.
fn rank(work: Work, head: u64) -> Tag {
    const MASK: u64 = (1 << HEAD) - 1;
    Tag::from(MASK - work.min(MASK)) << HEAD | Tag::from(head & MASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::setup;
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use humpyard_core::cost::LinearCost;
    use humpyard_core::id::{Id, ServiceId, Slot};
    use humpyard_core::mechanism::{FlowOrder, Never, Options, Scheduler};
    use humpyard_core::policy::ServiceSetup;
    use humpyard_core::random::{Random, Seed};
    use humpyard_core::unit::WorkUnit;

    const NOW: Time = Time::ZERO;

    fn packet(sequence: u64, estimate: Work) -> Packet {
        Packet { sequence, estimate, ..Packet::default() }
    }

    /// Applications with so many cores each, all idle, and one waiting packet of so much work each, the first the oldest.
    fn standing(params: &LapParams, cores: &[u32], work: &[Work]) -> Lap {
        let total: u32 = cores.iter().sum();
        let mut lap = Lap::new(params, &setup(total as usize, cores.len(), &[])).unwrap();
        let owners =
            cores.iter().enumerate().flat_map(|(id, &cores)| (0..cores).map(move |_| ClientId::from_index(id)));
        for (core, id) in owners.enumerate() {
            wait(&mut lap, id, packet(0, 1));
            let core = CoreId::from_index(core);
            assert_eq!(lap.pick(NOW, core), Some(id), "no other waits");
            lap.on_dispatch(NOW, core, id, &packet(0, 1));
            lap.on_completion(NOW, core, id, &packet(0, 1), 1);
            lap.on_idle(NOW, id);
            lap.check();
        }
        for (id, &work) in work.iter().enumerate().filter(|(_, work)| **work > 0) {
            wait(&mut lap, ClientId::from_index(id), packet(id as u64, work));
        }
        lap
    }

    fn wait(lap: &mut Lap, id: ClientId, head: Packet) {
        lap.on_arrival(NOW, id, &head, 0);
        lap.on_wake(NOW, id, &head);
        lap.check();
    }

    /// PREDICTIVE section 7: n = 16, f = (.45, .35, .20), and a core that is warm for the second application.
    #[test]
    fn worked_example() {
        let lap = LapParams::default();
        assert_eq!(standing(&lap, &[7, 6, 3], &[45, 35, 20]).pick(NOW, CoreId(7)), Some(ClientId(1)), "1.6 >= .2");
        assert_eq!(standing(&lap, &[5, 8, 3], &[45, 35, 20]).pick(NOW, CoreId(5)), Some(ClientId(0)), "-.4 < 2.2");
    }

    /// T = (2, 1) with three cores, of which the first application has none, the second all: d = (2, -2).
    #[test]
    fn hysteresis_counts_cores() {
        for (hysteresis, expected) in [(0, 0), (1, 0), (2, 0), (3, 1), (1_000_000, 1)] {
            let params = LapParams { hysteresis, ..LapParams::default() };
            let mut lap = standing(&params, &[0, 3], &[20, 10]);
            assert_eq!(lap.pick(NOW, CoreId(1)), Some(ClientId(expected)), "hysteresis {hysteresis}");
        }
    }

    #[test]
    fn equal_needs_go_to_the_older_head() {
        let mut lap = standing(&LapParams::default(), &[1, 1, 1, 0, 0], &[0; 5]);
        for (id, sequence) in [(3, 7), (4, 5), (0, 6)] {
            wait(&mut lap, ClientId(id), packet(sequence, 10));
        }
        assert_eq!(lap.pick(NOW, CoreId(1)), Some(ClientId(4)), "two have no core, and application 0 has one");
        wait(&mut lap, ClientId(1), packet(9, 30));
        // T = (.5, 1.5, 0, .5, .5): d = (-.5, .5, -1, .5, .5).
        assert_eq!(lap.pick(NOW, CoreId(2)), Some(ClientId(4)));
    }

    /// Needs of more than 64 bits decide as those of few do.
    #[test]
    fn years_of_work_are_compared_exactly() {
        for scale in [1, 1 << 57] {
            for (work, expected) in
                [([4, 2, 1], 0), ([2, 4, 1], 1), ([0, 2, 2], 2), ([2, 0, 1], 2), ([9, 0, 1], 0), ([0, 0, 0], 1)]
            {
                let mut lap = standing(&LapParams { hysteresis: 0, ..LapParams::default() }, &[1, 1, 0, 1], &[0; 4]);
                wait(&mut lap, ClientId(1), packet(9, 1));
                for (id, work) in [0, 1, 2].into_iter().zip(work).filter(|(_, work)| *work > 0) {
                    let packet = packet(id, work * scale);
                    lap.on_arrival(NOW, ClientId(id as u32), &packet, 1);
                    if id != 1 {
                        lap.on_wake(NOW, ClientId(id as u32), &packet);
                    }
                }
                lap.check();
                assert_eq!(lap.pick(NOW, CoreId(2)), Some(ClientId(expected)), "{work:?} times {scale}");
            }
        }
    }

    #[test]
    fn an_idle_core_is_taken_whose_application_waits() {
        let mut lap = standing(&LapParams::default(), &[1, 1, 1, 1], &[0; 4]);
        let mut idle = IdSet::new(4);
        (0..4).map(CoreId).for_each(|core| idle.insert(core));
        assert_eq!(lap.place(NOW, &idle), CoreId(0), "nobody waits for any");
        wait(&mut lap, ClientId(3), packet(8, 10));
        wait(&mut lap, ClientId(1), packet(9, 10));
        assert_eq!(lap.place(NOW, &idle), CoreId(3), "its head is older");
        idle.remove(CoreId(3));
        assert_eq!(lap.place(NOW, &idle), CoreId(1));
    }

    #[test]
    fn only_the_oldest_packets_count() {
        let mut lap = standing(&LapParams { window: 2, ..LapParams::default() }, &[0, 0, 1], &[10, 20, 0]);
        wait(&mut lap, ClientId(2), packet(2, 90));
        assert_eq!(lap.pick(NOW, CoreId(0)), Some(ClientId(1)), "the core's own application is out of sight");
        lap.on_push_out(NOW, ClientId(1), &packet(1, 20), 0);
        lap.check();
        // As if its head, which is never pushed out, were another.
        assert_eq!(lap.pick(NOW, CoreId(0)), Some(ClientId(2)), "it came into sight");
    }

    /// Where order is kept, the visible packets may all have to wait for their cores.
    #[test]
    fn what_is_out_of_sight_goes_before_a_core_idles() {
        let mut lap = Lap::new(&LapParams { window: 1, ..LapParams::default() }, &setup(2, 3, &[])).unwrap();
        wait(&mut lap, ClientId(0), packet(0, 10));
        assert_eq!(lap.pick(NOW, CoreId(0)), Some(ClientId(0)));
        lap.on_dispatch(NOW, CoreId(0), ClientId(0), &packet(0, 10));
        lap.on_arrival(NOW, ClientId(0), &packet(1, 10), 0);
        wait(&mut lap, ClientId(2), packet(2, 10));
        wait(&mut lap, ClientId(1), packet(3, 10));
        assert_eq!(lap.pick(NOW, CoreId(1)), Some(ClientId(2)));
        lap.on_dispatch(NOW, CoreId(1), ClientId(2), &packet(2, 10));
        lap.check();
        assert_eq!(lap.pick(NOW, CoreId(1)), Some(ClientId(1)));
    }

    #[test]
    fn who_is_gone_leaves_no_program_behind() {
        let mut lap = standing(&LapParams::default(), &[2, 1], &[0, 0]);
        lap.on_client_end(NOW, ClientId(0));
        lap.check();
        assert_eq!((lap.applications[ClientId(0)].cores, lap.holders.len()), (0, 1));
    }

    /// A program of Table 1: its time in nanoseconds for a packet, and to fetch it.
    const ENCRYPT: LinearCost = LinearCost { fixed: 320_000, per_byte_milli: 1_300_000, cold: 170_000 };
    const COMPRESS: LinearCost = LinearCost { fixed: 970_000, per_byte_milli: 7_600_000, cold: 950_000 };
    const CORRECT: LinearCost = LinearCost { fixed: 320_000, per_byte_milli: 9_200_000, cold: 175_000 };

    /// A buffer that is always full: for each packet that leaves another comes, of an application that is drawn.
    struct Saturated<D> {
        scheduler: Scheduler<Never, Lap, Never>,
        programs: Vec<LinearCost>,
        draw: D,
        random: Random,
        now: Time,
        /// When each core is done.
        busy: BTreeSet<(Time, CoreId, Slot)>,
        served: u64,
        cold: u64,
        /// Time that warm cores would have taken for what was served.
        work: u64,
        warm: Vec<Option<usize>>,
    }

    impl<D: FnMut(&mut Random, u64) -> usize> Saturated<D> {
        /// With so many packets more than those that are visible.
        fn new(params: &LapParams, waiting: usize, programs: &[LinearCost], seed: u64, draw: D) -> Self {
            const CORES: usize = 16;
            let services = vec![ServiceSetup::ONLY; programs.len()];
            let setup = Setup {
                packets: waiting + CORES + 1,
                unit: WorkUnit::Nanoseconds,
                estimates: programs,
                services: &services,
                ..setup(CORES, programs.len(), &[])
            };
            let options = Options { flow_order: FlowOrder::Free, ..Options::default() };
            let share = || Lap::new(params, &setup);
            let mut saturated = Self {
                scheduler: Scheduler::new(&setup, options, None, None, share).unwrap(),
                programs: programs.to_vec(),
                draw,
                random: Seed(seed).stream("lap/saturated"),
                now: Time::ZERO,
                busy: BTreeSet::new(),
                served: 0,
                cold: 0,
                work: 0,
                warm: vec![None; CORES],
            };
            (0..waiting).for_each(|_| saturated.arrive());
            saturated
        }

        fn arrive(&mut self) {
            let application = (self.draw)(&mut self.random, self.served);
            let (client, service) = (ClientId::from_index(application), ServiceId::from_index(application));
            let length = 40 + self.random.exponential(284.0).min(1460.0) as u32;
            self.scheduler.on_arrival(self.now, Packet { client, service, length, ..Packet::default() });
        }

        /// Serves so many packets.
        fn serve(&mut self, packets: u64) {
            let end = self.served + packets;
            while self.served < end {
                while let Some(core) = self.scheduler.next_core(self.now) {
                    let dispatch = self.scheduler.next(self.now, core).expect("the buffer is full");
                    let program = self.programs[dispatch.packet.service.index()];
                    let work = program.work(dispatch.packet.length);
                    let done = self.now + Time::from_ns(work + if dispatch.cold { program.cold } else { 0 });
                    self.busy.insert((done, core, dispatch.slot));
                    self.warm[core.index()] = Some(dispatch.packet.service.index());
                    self.served += 1;
                    self.cold += u64::from(dispatch.cold);
                    self.work += work;
                    self.arrive();
                }
                let (done, _, slot) = self.busy.pop_first().expect("all cores are busy");
                let busy = done.since(self.now);
                self.now = done;
                self.scheduler.on_completion(self.now, slot, busy);
            }
        }

        /// Cores that are warm for an application.
        fn cores(&self, application: usize) -> usize {
            self.warm.iter().filter(|&&warm| warm == Some(application)).count()
        }
    }

    /// Throughput relative to cores that are never cold, and the fraction of cold packets, with ten copies of each program.
    fn thirty_applications(hysteresis: u64, window: usize) -> (f64, f64) {
        let programs: Vec<LinearCost> = (0..30).map(|at| [ENCRYPT, COMPRESS, CORRECT][at % 3]).collect();
        let params = LapParams { window: window as u64, hysteresis };
        let mut saturated = Saturated::new(&params, window + 50, &programs, 1, |random, _| random.below(30) as usize);
        saturated.serve(20_000);
        let throughput = saturated.work as f64 / 16.0 / saturated.now.as_ns() as f64;
        (throughput, saturated.cold as f64 / saturated.served as f64)
    }

    /// The table of PREDICTIVE section 7, rows of the deficit. It gives the mean length, 322 bytes, but no distribution, which
    /// moves the throughput in the shortest window between .90 and .93; so it is held to .012, and cold packets to .03.
    #[test]
    fn table_of_the_specification() {
        let h_1 = [
            (32, 0.909, None),
            (64, 0.962, Some(0.22)),
            (128, 0.986, Some(0.08)),
            (256, 0.995, Some(0.035)),
            (512, 0.998, Some(0.017)),
        ];
        let h_0 =
            [(32, 0.872, None), (64, 0.907, None), (128, 0.933, None), (256, 0.944, None), (512, 0.946, Some(0.44))];
        for (hysteresis, row) in [(1, h_1), (0, h_0)] {
            for (window, throughput, cold) in row {
                let measured = thirty_applications(hysteresis, window);
                let near = |a: f64, b: f64, by: f64| (a - b).abs() <= by;
                assert!(
                    near(measured.0, throughput, 0.012) && cold.is_none_or(|cold| near(measured.1, cold, 0.03)),
                    "H = {hysteresis}, q = {window}: {measured:?} instead of {throughput}, {cold:?}"
                );
            }
        }
    }

    #[test]
    fn one_application_is_cold_once_for_each_core() {
        let mut saturated = Saturated::new(&LapParams::default(), 10, &[ENCRYPT], 1, |_, _| 0);
        saturated.serve(1000);
        assert_eq!(saturated.cold, 16);
    }

    /// With more hysteresis than there are cores, a core leaves an application only when that has nothing visible.
    #[test]
    fn endless_hysteresis_is_exhaustive() {
        let params = LapParams { hysteresis: 1_000_000, window: 0 };
        let mut lap = Lap::new(&params, &setup(3, 5, &[])).unwrap();
        let mut random = Seed(1).stream("lap/exhaustive");
        let mut waiting: Vec<Vec<Packet>> = vec![vec![]; 5];
        for step in 0..5000 {
            let id = random.below(5) as usize;
            let arrived = packet(step, 1 + random.below(100));
            lap.on_arrival(NOW, ClientId(id as u32), &arrived, waiting[id].len() as u32);
            if waiting[id].is_empty() {
                lap.on_head(NOW, ClientId(id as u32), &arrived);
            }
            waiting[id].push(arrived);
            if random.below(20) == 0 {
                continue;
            }
            let core = CoreId(random.below(3) as u16);
            let own = lap.warm[core].filter(|id| !waiting[id.index()].is_empty());
            let picked = lap.pick(NOW, core).expect("something waits");
            assert!(own.is_none_or(|own| own == picked), "core {core} left {own:?}, which has packets");
            let sent = waiting[picked.index()].remove(0);
            lap.on_dispatch(NOW, core, picked, &sent);
            if let Some(head) = waiting[picked.index()].first() {
                lap.on_head(NOW, picked, head);
            }
            lap.check();
        }
    }

    /// Thirds, then .8, .1 and .1: cores follow within some hundred packets, of which more than half were in the buffer.
    #[test]
    fn cores_follow_the_work() {
        const SHIFT: u64 = 2000;
        let mut until = vec![];
        for seed in 1..=10 {
            let draw = |random: &mut Random, served| match random.below(10) {
                _ if served < SHIFT => random.below(3) as usize,
                drawn => drawn.saturating_sub(7) as usize,
            };
            let params = LapParams { window: 64, ..LapParams::default() };
            let mut saturated = Saturated::new(&params, 64, &[ENCRYPT; 3], seed, draw);
            let mut mean = |from, to| {
                let mut cores = 0;
                let mut reached = None;
                for packet in from..to {
                    saturated.serve(1);
                    cores += saturated.cores(0);
                    reached = reached.or((saturated.cores(0) >= 12).then_some(packet - from));
                }
                (cores as f64 / (to - from) as f64, reached)
            };
            mean(0, 500);
            let (before, _) = mean(500, SHIFT);
            let (_, reached) = mean(SHIFT, SHIFT + 500);
            let (after, _) = mean(SHIFT + 500, SHIFT + 2500);
            assert!((before - 5.3).abs() < 0.5 && (after - 13.1).abs() < 0.5, "{before} cores, then {after}");
            until.push(reached.expect("it has 12 cores some time"));
        }
        assert!(until.iter().all(|packets| (40..=200).contains(packets)), "{until:?}");
    }
}
