//! A sharing policy called by its own type, without the mechanism: fast enough for thousands of
//! schedules.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::Share;
use humpyard_core::unit::Time;

/// The sequence numbers of the two packets of a client that always wait.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    head: u64,
    behind: u64,
}

/// Clients that always have packets of one unit of work, served in slots. The same as
/// [`humpyard_core::mechanism::AlwaysReady`], for one queue that distinguishes clients. The policy
/// gets exactly the same calls from both.
#[derive(Debug)]
pub(super) struct Direct<Q> {
    policy: Q,
    waiting: Vec<Waiting>,
    /// The packet that each processor serves.
    in_service: Vec<Option<Packet>>,
    /// Packets that have arrived so far.
    arrived: u64,
    slot: u64,
}

impl<Q: Share> Direct<Q> {
    /// Returns clients, which arrive in the order of their numbers, and processors.
    pub(super) fn new(policy: Q, clients: usize, processors: usize) -> Self {
        assert!(!policy.merges_clients(), "a policy that does not tell clients apart needs their packets in one line");
        let mut direct = Self {
            policy,
            waiting: vec![Waiting::default(); clients],
            in_service: vec![None; processors],
            arrived: 0,
            slot: 0,
        };
        (0..clients).map(ClientId::from_index).for_each(|client| direct.wake(client));
        (0..clients).map(ClientId::from_index).for_each(|client| direct.arrive(client));
        direct
    }

    /// The policy, when all is over.
    pub(super) fn into_policy(self) -> Q {
        self.policy
    }

    /// Runs the next slot, and reports the client served by each processor that is not idle, in order.
    #[inline]
    pub(super) fn step(&mut self, mut serve: impl FnMut(ClientId)) {
        self.slot += 1;
        let now = Time::from_ns(self.slot);
        // On several processors a client's next packet waits until the one before it is done.
        let alone = self.in_service.len() == 1;
        for processor in 0..self.in_service.len() {
            let Some(done) = self.in_service[processor].take() else { continue };
            self.policy.on_completion(now, CoreId::from_index(processor), done.client, &done, 1);
            if !alone {
                self.offer(now, done.client);
            }
        }
        for processor in 0..self.in_service.len() {
            let core = CoreId::from_index(processor);
            let Some(client) = self.policy.pick(now, core) else { continue };
            let waiting = &mut self.waiting[client.index()];
            let sent = packet(client, waiting.head);
            waiting.head = waiting.behind;
            self.policy.on_dispatch(now, core, client, &sent);
            if alone {
                self.offer(now, client);
            }
            self.in_service[processor] = Some(sent);
            self.arrive(client);
            serve(client);
        }
    }

    /// The client's first packet.
    fn wake(&mut self, client: ClientId) {
        self.waiting[client.index()].head = self.arrived;
        let head = packet(client, self.arrived);
        self.arrived += 1;
        self.policy.on_arrival(Time::ZERO, client, &head, 0);
        self.policy.on_wake(Time::ZERO, client, &head);
    }

    #[inline]
    fn offer(&mut self, now: Time, client: ClientId) {
        self.policy.on_head(now, client, &packet(client, self.waiting[client.index()].head));
    }

    /// Lets a packet arrive behind the one that waits.
    #[inline]
    fn arrive(&mut self, client: ClientId) {
        self.waiting[client.index()].behind = self.arrived;
        self.policy.on_arrival(Time::from_ns(self.slot), client, &packet(client, self.arrived), 1);
        self.arrived += 1;
    }
}

#[inline]
fn packet(client: ClientId, sequence: u64) -> Packet {
    Packet { client, length: 1, estimate: 1, sequence, ..Packet::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use humpyard_core::config::SchedulerConfig;
    use humpyard_core::mechanism::AlwaysReady;
    use humpyard_core::policy::Policy;
    use humpyard_core::unit::{Weight, Work};

    use super::*;

    /// Serves clients in turn, and records its calls.
    #[derive(Debug, Default)]
    struct Witness {
        heard: Vec<String>,
        ready: VecDeque<ClientId>,
    }

    impl Policy for Witness {}

    impl Share for Witness {
        fn on_arrival(&mut self, now: Time, client: ClientId, packet: &Packet, waiting: u32) {
            self.heard.push(format!("{now:?} {client} arrival {packet:?} behind {waiting}"));
        }

        fn on_wake(&mut self, now: Time, client: ClientId, head: &Packet) {
            self.heard.push(format!("{now:?} {client} wake {head:?}"));
            self.ready.push_back(client);
        }

        fn on_head(&mut self, now: Time, client: ClientId, head: &Packet) {
            self.heard.push(format!("{now:?} {client} head {head:?}"));
            self.ready.push_back(client);
        }

        fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
            self.heard.push(format!("{now:?} pick {core}"));
            self.ready.front().copied()
        }

        fn on_dispatch(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet) {
            self.heard.push(format!("{now:?} {client} dispatch {core} {sent:?}"));
            assert_eq!(self.ready.pop_front(), Some(client));
        }

        fn on_completion(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet, used: Work) {
            self.heard.push(format!("{now:?} {client} completion {core} {sent:?} used {used}"));
        }

        fn on_idle(&mut self, _: Time, client: ClientId) {
            panic!("client {client} is always ready");
        }

        fn on_client_end(&mut self, _: Time, client: ClientId) {
            panic!("client {client} stays");
        }

        fn set_weight(&mut self, _: Time, client: ClientId, _: Weight) {
            panic!("client {client} keeps its weight");
        }
    }

    #[test]
    fn a_policy_hears_what_the_mechanism_says() {
        for (clients, processors) in [(1, 1), (5, 1), (5, 2), (3, 4)] {
            let setup = SchedulerConfig {
                cores: processors,
                clients,
                packets: 3 * clients + processors,
                ..SchedulerConfig::default()
            };
            let order = (0..clients).map(ClientId::from_index);
            let mut mechanism = AlwaysReady::new(&setup, order, |_, _| 1, || Ok(Witness::default())).unwrap();
            let mut direct = Direct::new(Witness::default(), clients, processors);
            for _ in 0..20 {
                let served: Vec<ClientId> = mechanism.step().flatten().map(|served| served.client).collect();
                let mut directly = Vec::new();
                direct.step(|client| directly.push(client));
                assert_eq!(directly, served);
            }
            assert_eq!(direct.into_policy().heard, mechanism.share().heard);
        }
    }
}
