//! Batches: packets of a service wait for each other, and one core serves them in a row.
//!
//! **Idea.** A service that begins to work has costs whatever the packets: it fetches its instructions and tables. In a
//! batch they are paid once. The price is delay: a packet waits until as many as a batch has are there, but not longer
//! than `hold`.
//!
//! **Source.** Lévai, Németh, Raghavan, Rétvári. Batchy: batch-scheduling data flow graphs with service-level
//! objectives. NSDI 2020. RIVALS.
//!
//! ```text
//! packet arrives for service i:   held_i += 1; release them once held_i = size
//! first held since `hold`:        release them
//! core asks:                      the next packet of its batch; else a batch of the first service that has
//!                                 released packets: `size` of them, or all
//! ```
//!
//! **Promises.** Every service with waiting packets is served eventually.
//!
//! **Cost.** O(1); O(cores) when a packet is pushed out.
//!
//! **Invariants.** The packets left in batches of a service are reserved, and no more than are released.
//!
//! **Departures.**
//! - There is no controller that finds the sizes that keep a goal for delays.
//! - The paper triggers a buffer as a whole; here a core gets the packets of a batch one by one.
//! - With a queue for each core, each queue has batches of its own.

use alloc::format;
use alloc::string::String;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, IdVec};
use humpyard_core::mechanism::FlowOrder;
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::storage::IdRing;
use humpyard_core::unit::{Time, Weight, Work};

params! {
    /// Parameters of batches.
    pub struct BatchParams {
        /// The packets of a service that are released together; at most its part of the room.
        size: u64 = 32, in 1..=65_536;
        /// The longest that a packet waits for others.
        hold: u64 = 50_000, in 0..=1_000_000_000, unit "ns";
    }
}

/// A core that asks no more for packets of its batch has left: this long after its last packet, others may have them.
const GONE: Time = Time::from_ns(1_000_000);

/// The waiting packets of a service.
#[derive(Clone, Copy, Debug, Default)]
struct ServiceBatches {
    /// The newest packets: they wait for others.
    held: u32,
    /// When they are released, if any are held.
    hold_end: Time,
    /// The other packets.
    released: u32,
    /// Released packets of batches that cores have begun.
    reserved: u32,
    /// Whether its head may be served.
    is_offered: bool,
}

/// The batch of a core.
#[derive(Clone, Copy, Debug)]
struct CoreBatch {
    service: ClientId,
    /// Packets of the batch that wait.
    left: u32,
    in_service: u32,
    /// When the batch is given up, if the core has packets left and none in service.
    gone_at: Time,
    /// Whether the packet that it got last is not the first of its batch.
    continues: bool,
}

/// Batches.
#[derive(Debug)]
pub struct Batch {
    size: u32,
    hold: Time,
    /// Whether only one core may have a batch of a service.
    keeps_order: bool,
    services: IdVec<ClientId, ServiceBatches>,
    cores: IdVec<CoreId, CoreBatch>,
    /// Services with held packets, by the time of their release.
    holding: IdRing<ClientId>,
    /// Services of which a core may begin a batch.
    available: IdRing<ClientId>,
    /// Cores with a batch and no packet in service, by the time since when.
    pausing: IdRing<CoreId>,
}

impl Build for Batch {
    type Params = BatchParams;
    const INFO: Info = Info {
        name: "batch",
        family: Family::Share,
        summary: "a service's packets wait until a batch of them is there, or the oldest has waited long enough",
        source: "Lévai et al. Batchy: batch-scheduling data flow graphs with service-level objectives. NSDI 2020",
        promises: &[Promise::Served],
        complexity: "O(1)",
    };
    const VARIANTS: &'static [&'static str] = &["size=3,hold=700", "size=2,hold=0"];

    fn new(params: &BatchParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let services = config.services.len();
        // A batch for which there is no room would never be there. All services share the room of a queue.
        let shared = u64::from(config.limits.queue).min(config.packets as u64) / services.max(1) as u64;
        let room = u64::from(config.limits.client).min(shared);
        let none = CoreBatch { service: ClientId(0), left: 0, in_service: 0, gone_at: Time::ZERO, continues: false };
        Ok(Self {
            size: params.size.min(room).max(1) as u32,
            hold: Time::from_ns(params.hold),
            keeps_order: config.flow_order == FlowOrder::Hold,
            services: IdVec::from_fn(services, |_| ServiceBatches::default()),
            cores: IdVec::from_fn(config.cores, |_| none),
            holding: IdRing::new(services),
            available: IdRing::new(services),
            pausing: IdRing::new(config.cores),
        })
    }
}

impl Policy for Batch {
    fn next_timeout(&self) -> Option<Time> {
        let release = self.holding.front().map(|id| self.services[id].hold_end);
        let gone = self.pausing.front().map(|core| self.cores[core].gone_at);
        Time::earlier(release, gone)
    }

    fn on_timeout(&mut self, now: Time) {
        while let Some(id) = self.holding.front().filter(|&id| self.services[id].hold_end <= now) {
            self.release(id);
        }
        while let Some(core) = self.pausing.front().filter(|&core| self.cores[core].gone_at <= now) {
            self.pausing.remove(core);
            let CoreBatch { service, left, .. } = self.cores[core];
            self.cores[core].left = 0;
            self.services[service].reserved -= left;
            self.update(service);
        }
    }

    fn check(&self) {
        for id in self.services.ids() {
            let service = self.services[id];
            let left = self.cores.iter().filter(|core| core.service == id).map(|core| core.left).sum::<u32>();
            assert_eq!(service.reserved, left, "packets of batches of service {id}");
            assert!(service.reserved <= service.released, "a batch of service {id} has packets that do not wait");
            assert!(service.held < self.size, "a batch of service {id} is held");
            assert_eq!(self.holding.contains(id), service.held > 0, "service {id} holds packets");
            assert_eq!(self.available.contains(id), self.is_available(id), "service {id} is available");
        }
        for core in self.cores.ids() {
            let CoreBatch { left, in_service, .. } = self.cores[core];
            assert_eq!(self.pausing.contains(core), left > 0 && in_service == 0, "core {core} pauses");
        }
    }
}

impl Share for Batch {
    fn serves_services(&self) -> bool {
        true
    }

    fn holds_back(&self) -> bool {
        true
    }

    fn prefers_cores(&self) -> bool {
        true
    }

    fn on_arrival(&mut self, now: Time, id: ClientId, _: &Packet, _: u32) {
        let service = &mut self.services[id];
        service.held += 1;
        if service.held == 1 {
            service.hold_end = now + self.hold;
            self.holding.push_back(id);
        }
        if service.held == self.size || self.hold == Time::ZERO {
            self.release(id);
        }
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.on_head(now, id, head);
    }

    fn on_head(&mut self, _: Time, id: ClientId, _: &Packet) {
        self.services[id].is_offered = true;
        self.update(id);
    }

    fn pick(&mut self, _: Time, core: CoreId) -> Option<ClientId> {
        let CoreBatch { service, left, .. } = self.cores[core];
        if left > 0 { self.services[service].is_offered.then_some(service) } else { self.available.front() }
    }

    fn on_dispatch(&mut self, _: Time, core: CoreId, id: ClientId, _: &Packet) {
        let (service, batch) = (&mut self.services[id], &mut self.cores[core]);
        service.is_offered = false;
        batch.continues = batch.left > 0;
        if batch.continues {
            batch.left -= 1;
            service.reserved -= 1;
        } else {
            batch.service = id;
            batch.left = self.size.min(service.released - service.reserved) - 1;
            service.reserved += batch.left;
        }
        service.released -= 1;
        batch.in_service += 1;
        self.pausing.remove(core);
        self.update(id);
    }

    fn continues(&self, core: CoreId) -> bool {
        self.cores[core].continues
    }

    fn on_completion(&mut self, now: Time, core: CoreId, _: ClientId, _: &Packet, _: Work) {
        let batch = &mut self.cores[core];
        batch.in_service -= 1;
        if batch.in_service == 0 && batch.left > 0 {
            batch.gone_at = now + GONE;
            self.pausing.push_back(core);
        }
    }

    fn on_push_out(&mut self, _: Time, id: ClientId, _: &Packet, _: u32) {
        let service = &mut self.services[id];
        if service.held > 0 {
            service.held -= 1;
            if service.held == 0 {
                self.holding.remove(id);
            }
        } else {
            service.released -= 1;
            if service.reserved > service.released {
                self.shorten_a_batch(id);
            }
        }
        self.update(id);
    }

    fn on_idle(&mut self, _: Time, _: ClientId) {}

    fn on_client_end(&mut self, _: Time, _: ClientId) {}

    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}

    fn explain(&self, id: ClientId) -> Option<String> {
        let ServiceBatches { held, released, reserved, .. } = self.services[id];
        Some(format!(
            "{held} packets wait until there are {}, and {released} were released, {reserved} of them for cores that \
             have begun a batch",
            self.size
        ))
    }
}

impl Batch {
    /// Releases the held packets of a service.
    fn release(&mut self, id: ClientId) {
        let service = &mut self.services[id];
        service.released += service.held;
        service.held = 0;
        self.holding.remove(id);
        self.update(id);
    }

    /// Whether a core may begin a batch of this service.
    fn is_available(&self, id: ClientId) -> bool {
        let ServiceBatches { released, reserved, is_offered, .. } = self.services[id];
        is_offered && released > reserved && !(self.keeps_order && reserved > 0)
    }

    /// Keeps [`Self::available`] after a change of this service.
    fn update(&mut self, id: ClientId) {
        match (self.is_available(id), self.available.contains(id)) {
            (true, false) => self.available.push_back(id),
            (false, true) => self.available.remove(id),
            _ => {}
        }
    }

    /// Takes the newest packet of this service from the last core that has one of it in its batch.
    fn shorten_a_batch(&mut self, id: ClientId) {
        let has_left = |&core: &CoreId| self.cores[core].service == id && self.cores[core].left > 0;
        let core = self.cores.ids().rfind(has_left).expect("reserved packets are of a batch");
        self.cores[core].left -= 1;
        self.services[id].reserved -= 1;
        if self.cores[core].left == 0 {
            self.pausing.remove(core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use humpyard_core::config::ServiceConfig;
    use humpyard_core::cost::LinearCost;

    const CORE: [CoreId; 2] = [CoreId(0), CoreId(1)];

    /// A policy, and the packets that wait for each service.
    struct Host {
        policy: Batch,
        waiting: Vec<u32>,
        now: Time,
    }

    impl Host {
        fn new(size: u64, hold: u64, flow_order: FlowOrder) -> Self {
            let config = SchedulerConfig::new(2)
                .with_services(vec![ServiceConfig::default(); 2], vec![LinearCost::BYTES; 2])
                .with_flow_order(flow_order);
            let policy = Batch::new(&BatchParams { size, hold }, &config).unwrap();
            Self { policy, waiting: vec![0; 2], now: Time::ZERO }
        }

        fn arrive(&mut self, ns: u64, id: u32) {
            self.now = Time::from_ns(ns);
            let (id, waiting) = (ClientId(id), &mut self.waiting[id as usize]);
            self.policy.on_arrival(self.now, id, &Packet::default(), *waiting);
            *waiting += 1;
            if *waiting == 1 {
                self.policy.on_wake(self.now, id, &Packet::default());
            }
            self.policy.check();
        }

        /// Lets a core begin its next packet, and returns its service and whether the packet continues a batch.
        fn begin(&mut self, core: CoreId) -> Option<(u32, bool)> {
            let id = self.policy.pick(self.now, core)?;
            self.policy.on_dispatch(self.now, core, id, &Packet::default());
            self.waiting[id.0 as usize] -= 1;
            if self.waiting[id.0 as usize] > 0 && !self.policy.keeps_order {
                self.policy.on_head(self.now, id, &Packet::default());
            }
            self.policy.check();
            Some((id.0, self.policy.continues(core)))
        }

        fn end(&mut self, core: CoreId, id: u32) {
            self.policy.on_completion(self.now, core, ClientId(id), &Packet::default(), 1);
            if self.waiting[id as usize] > 0 && self.policy.keeps_order {
                self.policy.on_head(self.now, ClientId(id), &Packet::default());
            }
            self.policy.check();
        }

        /// Lets a core serve as many packets as it gets at once.
        fn serve(&mut self, core: CoreId) -> Vec<(u32, bool)> {
            let next = |host: &mut Self| host.begin(core).inspect(|&(id, _)| host.end(core, id));
            core::iter::from_fn(|| next(self)).collect()
        }

        fn time_out(&mut self) {
            self.now = self.policy.next_timeout().expect("a timeout");
            self.policy.on_timeout(self.now);
            self.policy.check();
        }
    }

    #[test]
    fn packets_wait_for_a_batch_or_until_the_first_has_waited() {
        let mut host = Host::new(3, 100, FlowOrder::Hold);
        for (ns, id) in [(0, 0), (10, 1), (20, 0)] {
            host.arrive(ns, id);
            assert_eq!(host.begin(CORE[0]), None, "two packets are no batch");
        }
        host.arrive(30, 0);
        assert_eq!(host.serve(CORE[0]), [(0, false), (0, true), (0, true)]);
        assert_eq!(host.policy.next_timeout(), Some(Time::from_ns(110)));
        host.time_out();
        assert_eq!(host.serve(CORE[0]), [(1, false)]);
        assert_eq!(host.policy.next_timeout(), None);
    }

    #[test]
    fn services_take_turns_by_batches() {
        let mut host = Host::new(2, 100, FlowOrder::Hold);
        for id in [0, 0, 0, 0, 1, 1] {
            host.arrive(0, id);
        }
        let served: Vec<u32> = host.serve(CORE[0]).into_iter().map(|(id, _)| id).collect();
        assert_eq!(served, [0, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn a_batch_belongs_to_a_core() {
        let mut host = Host::new(4, 100, FlowOrder::Free);
        for _ in 0..4 {
            host.arrive(0, 0);
        }
        assert_eq!(host.begin(CORE[0]), Some((0, false)));
        assert_eq!(host.begin(CORE[1]), None, "the others wait for the first core");
        host.arrive(0, 1);
        host.time_out();
        assert_eq!(host.begin(CORE[1]), Some((1, false)));
        assert_eq!(host.begin(CORE[0]), Some((0, true)));
    }

    #[test]
    fn a_core_that_asks_no_more_loses_its_batch() {
        let mut host = Host::new(4, 0, FlowOrder::Hold);
        for _ in 0..3 {
            host.arrive(0, 0);
        }
        assert_eq!(host.begin(CORE[0]), Some((0, false)));
        host.end(CORE[0], 0);
        assert_eq!(host.begin(CORE[1]), None);
        assert_eq!(host.policy.next_timeout(), Some(GONE));
        host.time_out();
        assert_eq!(host.serve(CORE[1]), [(0, false), (0, true)]);
    }

    #[test]
    fn packets_that_are_pushed_out_leave_their_batch() {
        let mut host = Host::new(3, 100, FlowOrder::Free);
        let push_out = |host: &mut Host| {
            host.waiting[0] -= 1;
            host.policy.on_push_out(host.now, ClientId(0), &Packet::default(), host.waiting[0]);
            host.policy.check();
        };
        for _ in 0..5 {
            host.arrive(0, 0);
        }
        assert_eq!(host.begin(CORE[0]), Some((0, false)));
        for left in (1..4).rev() {
            push_out(&mut host);
            assert_eq!(host.waiting[0], left);
        }
        assert_eq!(host.policy.next_timeout(), None, "what was held is pushed out");
        assert_eq!(host.begin(CORE[0]), Some((0, true)));
        assert_eq!(host.begin(CORE[0]), None);
    }
}
