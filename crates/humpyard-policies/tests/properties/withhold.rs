//! Withheld clients: sharing policies see clients that pause, and no packet is lost.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, Slot};
use humpyard_core::mechanism::{FlowOrder, Limits, Never, Scheduler, WhenFull};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Family, Share};
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;
use humpyard_policies::registry::AnyShare;
use humpyard_policies::spec::PolicySpec;
use humpyard_testkit::Checked;

use crate::shapes::{promises, specs};

const CLIENTS: usize = 4;
const CORES: usize = 2;

/// A scheduler with checks; the test drives it with random events.
struct Host {
    scheduler: Scheduler<Never, Checked<AnyShare>, Never>,
    merges: bool,
    random: Random,
    now: Time,
    arrived: u64,
    in_service: Vec<Slot>,
    withheld: [bool; CLIENTS],
    /// The number of packets of each client that were served since it was withheld.
    since: [u32; CLIENTS],
}

impl Host {
    fn new(spec: &str, flow_order: FlowOrder, seed: u64) -> Self {
        let config = SchedulerConfig {
            cores: CORES,
            clients: CLIENTS,
            flows: CLIENTS,
            packets: 24,
            limits: Limits::default().with_when_full(WhenFull::LongestQueue),
            flow_order,
            ..SchedulerConfig::default()
        };
        let build = || spec.parse::<PolicySpec>().expect("a registered policy").build_share(&config);
        let one = build().expect("a valid set-up");
        let merges = one.merges_clients() || one.serves_services();
        let share = || Ok(Checked::new(build()?, promises(spec)));
        Self {
            scheduler: Scheduler::new(&config, None, None, share).expect("a valid set-up"),
            merges,
            random: Seed(seed).stream(spec),
            now: Time::ZERO,
            arrived: 0,
            in_service: Vec::new(),
            withheld: [false; CLIENTS],
            since: [0; CLIENTS],
        }
    }

    fn step(&mut self) {
        self.now += Time::from_ns(self.random.below(200));
        let client = self.random.below(CLIENTS as u64) as usize;
        match self.random.below(8) {
            0..=3 => self.arrive(client),
            4 if !self.in_service.is_empty() => {
                let slot = self.in_service.remove(self.random.below(self.in_service.len() as u64) as usize);
                self.complete(slot);
            }
            5 => self.withhold(client),
            6 => self.release(client),
            _ => {}
        }
        while self.scheduler.next_effect().is_some() {}
        self.serve();
        self.scheduler.check();
    }

    fn arrive(&mut self, client: usize) {
        self.arrived += 1;
        let length = 40 + self.random.below(1400) as u32;
        let packet = Packet {
            client: ClientId::from_index(client),
            flow: FlowId::from_index(client),
            length,
            arrival: self.now,
            ..Packet::default()
        };
        self.scheduler.on_arrival(self.now, &packet);
    }

    fn serve(&mut self) {
        while let Some(core) = self.scheduler.next_core(self.now) {
            let Some(dispatch) = self.scheduler.next(self.now, core) else { continue };
            self.in_service.push(dispatch.slot);
            let client = dispatch.packet.client.index();
            self.since[client] += 1;
            // One head may have been offered when the client was withheld.
            assert!(self.merges || !self.withheld[client] || self.since[client] <= 1, "client {client} is withheld");
        }
    }

    fn complete(&mut self, slot: Slot) {
        self.scheduler.on_completion(self.now, slot, Time::from_ns(100));
    }

    fn withhold(&mut self, client: usize) {
        if !self.withheld[client] {
            (self.withheld[client], self.since[client]) = (true, 0);
            self.scheduler.withhold(self.now, ClientId::from_index(client));
        }
    }

    fn release(&mut self, client: usize) {
        self.withheld[client] = false;
        self.scheduler.end_withholding(self.now, ClientId::from_index(client));
    }

    /// Releases all clients, and serves all remaining packets.
    fn finish(mut self) {
        (0..CLIENTS).for_each(|client| self.release(client));
        self.serve();
        loop {
            if let Some(slot) = self.in_service.pop() {
                self.now += Time::from_ns(100);
                self.complete(slot);
            } else if let Some(release) = self.scheduler.next_timeout() {
                self.now = self.now.max(release);
                self.scheduler.on_timeout(self.now);
            } else {
                break;
            }
            self.serve();
            self.scheduler.check();
        }
        let account = self.scheduler.account();
        assert_eq!((account.held, account.arrived), (0, self.arrived), "everything is served or dropped");
    }
}

#[test]
fn clients_are_withheld_and_released_under_every_policy() {
    for spec in specs(Family::Share) {
        for flow_order in [FlowOrder::Hold, FlowOrder::Free] {
            for seed in 0..6 {
                let mut host = Host::new(&spec, flow_order, seed);
                (0..300).for_each(|_| host.step());
                host.finish();
            }
        }
    }
}

/// A withheld client takes no service from the others, and gets no compensation afterwards.
#[test]
fn who_was_withheld_does_not_catch_up() {
    for spec in ["sfq", "wf2q+", "efq"] {
        let config = SchedulerConfig { cores: 1, clients: 2, flows: 2, packets: 4096, ..SchedulerConfig::default() };
        let build = || spec.parse::<PolicySpec>().expect("a registered policy").build_share(&config);
        let mut scheduler: Scheduler<Never, AnyShare, Never> =
            Scheduler::new(&config, None, None, build).expect("a valid set-up");
        let packet =
            |client: u32| Packet { client: ClientId(client), flow: FlowId(client), length: 100, ..Packet::default() };
        for client in (0..1000).map(|at| at % 2) {
            scheduler.on_arrival(Time::ZERO, &packet(client));
        }
        let mut now = Time::ZERO;
        let fair = served(&mut scheduler, &mut now, 100);
        assert!(fair[0].abs_diff(fair[1]) <= 2, "{spec}: {fair:?}");
        scheduler.withhold(now, ClientId(1));
        let alone = served(&mut scheduler, &mut now, 100);
        assert!(alone[1] <= 1, "{spec}: {alone:?}");
        scheduler.end_withholding(now, ClientId(1));
        let fair = served(&mut scheduler, &mut now, 100);
        assert!(fair[0].abs_diff(fair[1]) <= 2, "{spec} after it was released: {fair:?}");
    }
}

/// Serves `packets` packets, and counts those of each client.
fn served(scheduler: &mut Scheduler<Never, AnyShare, Never>, now: &mut Time, packets: u32) -> [u32; 2] {
    let mut counts = [0; 2];
    for _ in 0..packets {
        let dispatch = scheduler.next(*now, CoreId(0)).expect("packets wait");
        counts[dispatch.packet.client.index()] += 1;
        let time = Time::from_ns(dispatch.packet.estimate);
        *now += time;
        scheduler.on_completion(*now, dispatch.slot, time);
    }
    counts
}
