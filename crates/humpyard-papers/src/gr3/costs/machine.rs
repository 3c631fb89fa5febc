//! Processors that a policy shares among clients, slot by slot, in virtual time. No packets are stored: only
//! the policy and its clients remain.

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::Share;
use humpyard_core::unit::Time;

/// A client's next state after its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// It wants another slot.
    Ready,
    /// It wants no slot until it is woken.
    Blocked,
    /// It has ended.
    Ended,
}

/// The behaviour of clients in their slots.
pub(crate) trait Clients {
    /// Gives this client a slot. Returns its next state, and the client that it wakes, which must be blocked. A
    /// client is woken only once.
    fn on_slot(&mut self, client: ClientId) -> (Next, Option<ClientId>);
}

/// Clients that want one slot after the other.
pub(crate) struct AlwaysReady;

impl Clients for AlwaysReady {
    #[inline]
    fn on_slot(&mut self, _: ClientId) -> (Next, Option<ClientId>) {
        (Next::Ready, None)
    }
}

/// Clients that each want exactly one more slot; counts the slots of each.
struct Last {
    slots: Vec<u32>,
}

impl Clients for Last {
    fn on_slot(&mut self, client: ClientId) -> (Next, Option<ClientId>) {
        self.slots[client.index()] += 1;
        (Next::Blocked, None)
    }
}

/// The processors. A slot is a packet of one unit of work.
pub(crate) struct Machine<Q> {
    policy: Q,
    /// The client that each processor serves, and its next state.
    served: Vec<Option<(ClientId, Next)>>,
    /// The clients to wake at the end of this slot.
    woken: Vec<ClientId>,
    /// A slot's work, for the client of the current call.
    packet: Packet,
    now: Time,
}

impl<Q: Share> Machine<Q> {
    pub(crate) fn new(policy: Q, processors: usize) -> Self {
        let packet = Packet { length: 1, estimate: 1, ..Packet::default() };
        let woken = Vec::with_capacity(processors);
        Self { policy, served: vec![None; processors], woken, packet, now: Time::ZERO }
    }

    /// Makes a new or blocked client want a slot.
    #[inline]
    pub(crate) fn wake(&mut self, client: ClientId) {
        self.packet.client = client;
        self.policy.on_arrival(self.now, client, &self.packet, 0);
        self.policy.on_wake(self.now, client, &self.packet);
    }

    /// Runs one slot of every processor: completes the previous slots, wakes clients, and starts the next ones.
    /// Returns the number of processors that serve a client.
    #[inline]
    pub(crate) fn slot(&mut self, clients: &mut impl Clients) -> u64 {
        self.now += Time::from_ns(1);
        self.complete();
        for at in 0..self.woken.len() {
            self.wake(self.woken[at]);
        }
        self.woken.clear();
        let mut selected = 0;
        for processor in 0..self.served.len() {
            let core = CoreId::from_index(processor);
            let Some(client) = self.policy.pick(self.now, core) else { continue };
            self.packet.client = client;
            self.policy.on_dispatch(self.now, core, client, &self.packet);
            let (next, woken) = clients.on_slot(client);
            if next == Next::Ready {
                self.policy.on_arrival(self.now, client, &self.packet, 0);
                if self.is_alone() {
                    self.policy.on_head(self.now, client, &self.packet);
                }
            }
            self.served[processor] = Some((client, next));
            self.woken.extend(woken);
            selected += 1;
        }
        selected
    }

    /// Returns whether there is one processor. As in the real scheduler, a client then offers its next slot
    /// during its current one.
    #[inline]
    fn is_alone(&self) -> bool {
        self.served.len() == 1
    }

    /// Completes the slots that were started.
    #[inline]
    fn complete(&mut self) {
        let is_alone = self.is_alone();
        for (processor, served) in self.served.iter_mut().enumerate() {
            let Some((client, next)) = served.take() else { continue };
            self.packet.client = client;
            let (packet, core) = (&self.packet, CoreId::from_index(processor));
            self.policy.on_completion(self.now, core, client, packet, packet.estimate);
            match next {
                Next::Ready if is_alone => {}
                Next::Ready => self.policy.on_head(self.now, client, packet),
                Next::Blocked => self.policy.on_idle(self.now, client),
                Next::Ended => {
                    self.policy.on_idle(self.now, client);
                    self.policy.on_client_end(self.now, client);
                }
            }
        }
    }

    /// Gives each client that wants a slot one more, and blocks it. Returns the number of these clients.
    /// `None`: a client was served twice, or after it had blocked.
    pub(crate) fn drain(&mut self, clients: usize) -> Option<u64> {
        let mut last = Last { slots: vec![0; clients] };
        while self.slot(&mut last) > 0 {}
        last.slots.iter().all(|&slots| slots <= 1).then(|| last.slots.iter().map(|&slots| u64::from(slots)).sum())
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::policy::Ties;
    use humpyard_core::random::Seed;
    use humpyard_policies::registry::ShareVisitor;
    use humpyard_sim::{ScheduleRequest, schedule};

    use super::super::subject::{Subject, weights};
    use super::*;

    /// Records the served clients.
    struct Noted(Vec<ClientId>);

    impl Clients for Noted {
        fn on_slot(&mut self, client: ClientId) -> (Next, Option<ClientId>) {
            self.0.push(client);
            (Next::Ready, None)
        }
    }

    struct Noting {
        clients: usize,
        processors: usize,
        slots: usize,
    }

    impl ShareVisitor for Noting {
        type Answer = Vec<ClientId>;

        fn visit<Q: Share>(self, policy: Q) -> Vec<ClientId> {
            let mut machine = Machine::new(policy, self.processors);
            (0..self.clients).map(ClientId::from_index).for_each(|client| machine.wake(client));
            let mut noted = Noted(Vec::new());
            (0..self.slots).for_each(|_| assert_eq!(machine.slot(&mut noted), self.processors as u64));
            noted.0
        }
    }

    /// The timed calls equal those of the scheduler for packets of one unit. This does not hold for every
    /// policy: `qfq` asks whether a packet arrives at an empty queue, as it does here while the previous one is
    /// in service.
    #[test]
    fn clients_are_served_as_the_simulator_serves_them() {
        let slots = 2000;
        let subjects = [("gr3", 1), ("vtrr", 1), ("wfq", 1), ("linux-o1", 1), ("linux24", 1), ("gr3mp", 8)];
        for (policy, processors) in subjects {
            let weights = weights(50, Seed(1));
            let subject = Subject { policy, processors, is_linear: false };
            let noting = Noting { clients: 50, processors, slots };
            let served = subject.visit(&weights, Seed(1), noting).unwrap();
            let request = ScheduleRequest {
                policy: policy.parse().unwrap(),
                weights,
                order: (0..50).map(ClientId).collect(),
                processors,
                slots,
                ties: Ties::Lowest,
                seed: Seed(1),
            };
            let expected: Vec<ClientId> = schedule(&request).unwrap().slots.into_iter().flatten().flatten().collect();
            assert!(served == expected, "{policy}");
        }
    }
}
