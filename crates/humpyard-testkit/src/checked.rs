//! A sharing policy under watch.

use alloc::collections::VecDeque;

use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Promise, Share};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work};

/// The state of one client.
#[derive(Debug, Default)]
struct Client {
    /// Sequence numbers of the packets waiting.
    waiting: VecDeque<u64>,
    /// The core and sequence number of each of its packets in service.
    in_service: Vec<(CoreId, u64)>,
    /// Whether its head was offered and not yet dispatched.
    offered: bool,
    /// Whether it woke, and has not become idle since.
    awake: bool,
}

/// A sharing policy whose contract is asserted on both sides at every call.
///
/// Assertions on the mechanism:
///
/// * Time never goes back.
/// * A client wakes only when idle, and ends only when idle.
/// * A head is offered only when no head is, and is the first packet waiting.
/// * Only the client picked last is dispatched.
/// * A completed packet was in service on that core.
/// * A client becomes idle exactly when it has no packet left.
/// * Merged clients have the id 0.
///
/// Assertions on the policy: [`Share::pick`], asked twice, returns the same. It returns only a
/// client whose head was offered. If the policy promises to conserve work, it returns a client
/// whenever there is one.
#[derive(Debug)]
pub struct Checked<Q> {
    share: Q,
    work_conserving: bool,
    now: Time,
    clients: Vec<Client>,
    offered: usize,
    picked: Option<(CoreId, ClientId)>,
    /// The client that must be reported idle by the next event.
    idle_due: Option<ClientId>,
}

impl<Q: Share> Checked<Q> {
    /// Returns a checked policy with these promises.
    pub fn new(share: Q, promises: &[Promise]) -> Self {
        Self {
            share,
            work_conserving: promises.contains(&Promise::WorkConserving),
            now: Time::ZERO,
            clients: Vec::new(),
            offered: 0,
            picked: None,
            idle_due: None,
        }
    }

    /// Returns the inner policy.
    pub fn inner(&self) -> &Q {
        &self.share
    }

    fn advance(&mut self, now: Time) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
    }

    /// Any event but `on_idle`, about this client.
    fn event(&mut self, now: Time, id: ClientId) -> &mut Client {
        self.advance(now);
        assert_eq!(self.idle_due, None, "a client has nothing left, and the policy was not told that it is idle");
        self.picked = None;
        assert!(!self.share.merges_clients() || id == ClientId(0), "merged clients go by the id 0, not {id}");
        if self.clients.len() <= id.index() {
            self.clients.resize_with(id.index() + 1, Client::default);
        }
        &mut self.clients[id.index()]
    }

    fn offer(&mut self, now: Time, id: ClientId, head: &Packet, waking: bool) {
        let client = self.event(now, id);
        assert!(!client.offered, "client {id} was offered a head while one was offered");
        assert_eq!(client.waiting.front(), Some(&head.sequence), "the head of client {id}");
        assert_eq!(client.awake, !waking, "client {id} wakes when idle, and only then");
        client.awake = true;
        client.offered = true;
        self.offered += 1;
    }
}

impl<Q: Share> Policy for Checked<Q> {
    fn next_timeout(&self) -> Option<Time> {
        self.share.next_timeout()
    }

    fn on_timeout(&mut self, now: Time) {
        self.advance(now);
        self.picked = None;
        self.share.on_timeout(now);
    }

    fn check(&self) {
        assert_eq!(self.idle_due, None, "a client has nothing left, and the policy was not told that it is idle");
        for (id, client) in self.clients.iter().enumerate() {
            let held = !client.waiting.is_empty() || !client.in_service.is_empty();
            assert_eq!(client.awake, held, "client {id} is awake exactly while it has packets");
            assert!(
                client.offered || client.waiting.is_empty() || !client.in_service.is_empty(),
                "client {id} has a packet waiting and none in service, and its head was not offered"
            );
        }
        self.share.check();
    }
}

impl<Q: Share> Share for Checked<Q> {
    fn merges_clients(&self) -> bool {
        self.share.merges_clients()
    }

    fn serves_services(&self) -> bool {
        self.share.serves_services()
    }

    fn admits(&mut self, now: Time, packet: &Packet) -> bool {
        self.advance(now);
        self.share.admits(now, packet)
    }

    fn holds_back(&self) -> bool {
        self.share.holds_back()
    }

    fn continues(&self, core: CoreId) -> bool {
        self.share.continues(core)
    }

    fn prefers_cores(&self) -> bool {
        self.share.prefers_cores()
    }

    fn on_arrival(&mut self, now: Time, id: ClientId, packet: &Packet, waiting: u32) {
        let client = self.event(now, id);
        assert_eq!(client.waiting.len(), waiting as usize, "packets of client {id} waiting");
        client.waiting.push_back(packet.sequence);
        self.share.on_arrival(now, id, packet, waiting);
    }

    fn on_wake(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.offer(now, id, head, true);
        self.share.on_wake(now, id, head);
    }

    fn on_head(&mut self, now: Time, id: ClientId, head: &Packet) {
        self.offer(now, id, head, false);
        self.share.on_head(now, id, head);
    }

    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
        self.advance(now);
        let picked = self.share.pick(now, core);
        assert_eq!(self.share.pick(now, core), picked, "asked again, the policy picks another client");
        match picked {
            Some(id) => {
                let offered = self.clients.get(id.index()).is_some_and(|client| client.offered);
                assert!(offered, "client {id} was picked, and its head was not offered");
                self.picked = Some((core, id));
            }
            None => {
                assert!(!self.work_conserving || self.offered == 0, "{} heads wait and none is picked", self.offered)
            }
        }
        picked
    }

    fn place(&mut self, now: Time, idle: &IdSet<CoreId>) -> CoreId {
        self.advance(now);
        let core = self.share.place(now, idle);
        assert!(idle.contains(core), "core {core} is not idle");
        assert_eq!(self.share.place(now, idle), core, "asked again, the policy names another core");
        core
    }

    fn on_dispatch(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet) {
        assert_eq!(self.picked, Some((core, id)), "what is dispatched was just picked");
        let client = self.event(now, id);
        assert!(client.offered, "client {id} is served, and its head was not offered");
        assert_eq!(client.waiting.pop_front(), Some(sent.sequence), "the head of client {id} is served");
        client.offered = false;
        client.in_service.push((core, sent.sequence));
        self.offered -= 1;
        self.share.on_dispatch(now, core, id, sent);
    }

    fn on_completion(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet, used: Work) {
        let client = self.event(now, id);
        let place = client.in_service.iter().position(|&packet| packet == (core, sent.sequence));
        client
            .in_service
            .swap_remove(place.unwrap_or_else(|| panic!("client {id}: completed what was not in service")));
        if client.waiting.is_empty() && client.in_service.is_empty() {
            self.idle_due = Some(id);
        }
        self.share.on_completion(now, core, id, sent, used);
    }

    fn quantum(&self) -> Option<Time> {
        self.share.quantum()
    }

    fn yields(&mut self, now: Time, core: CoreId) -> bool {
        self.advance(now);
        let stays = self.share.stays(core);
        let yields = self.share.yields(now, core);
        assert!(!(stays && yields), "core {core} stays with its packet, and gives it back");
        assert!(!stays || self.share.stays(core), "core {core} stays with its packet until another event");
        yields
    }

    fn stays(&self, core: CoreId) -> bool {
        self.share.stays(core)
    }

    fn on_preemption(&mut self, now: Time, core: CoreId, id: ClientId, packet: &Packet, used: Work) {
        let client = self.event(now, id);
        let place = client.in_service.iter().position(|&served| served == (core, packet.sequence));
        client.in_service.swap_remove(place.unwrap_or_else(|| panic!("client {id}: put back what was not in service")));
        client.waiting.push_front(packet.sequence);
        let was_offered = core::mem::replace(&mut client.offered, true);
        self.offered += usize::from(!was_offered);
        self.share.on_preemption(now, core, id, packet, used);
    }

    fn on_push_out(&mut self, now: Time, id: ClientId, packet: &Packet, waiting: u32) {
        let client = self.event(now, id);
        assert_eq!(client.waiting.pop_back(), Some(packet.sequence), "the newest packet of client {id} is pushed out");
        assert_eq!(client.waiting.len(), waiting as usize, "packets of client {id} left");
        assert!(waiting > 0 || !client.offered, "the head of client {id}, which was offered, is pushed out");
        self.share.on_push_out(now, id, packet, waiting);
    }

    fn on_foreign_completion(&mut self, now: Time, core: CoreId, id: ClientId, sent: &Packet, used: Work) {
        self.event(now, id);
        self.share.on_foreign_completion(now, core, id, sent, used);
    }

    fn on_idle(&mut self, now: Time, id: ClientId) {
        assert_eq!(self.idle_due.take(), Some(id), "a client is idle once it has nothing left");
        self.event(now, id).awake = false;
        self.share.on_idle(now, id);
    }

    fn on_client_end(&mut self, now: Time, id: ClientId) {
        assert!(!self.event(now, id).awake, "client {id} ended while it was not idle");
        self.share.on_client_end(now, id);
    }

    fn set_weight(&mut self, now: Time, id: ClientId, weight: Weight) {
        self.event(now, id);
        self.share.set_weight(now, id, weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Arbitrary;

    const CLIENT: ClientId = ClientId(0);
    const CORE: CoreId = CoreId(0);
    const NOW: Time = Time::ZERO;

    /// Picks a given list of answers, one after the other.
    #[derive(Debug)]
    struct Scripted(Vec<Option<ClientId>>);

    impl Policy for Scripted {}
    impl Share for Scripted {
        fn on_wake(&mut self, _: Time, _: ClientId, _: &Packet) {}
        fn on_head(&mut self, _: Time, _: ClientId, _: &Packet) {}
        fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
            self.0.remove(0)
        }
        fn on_dispatch(&mut self, _: Time, _: CoreId, _: ClientId, _: &Packet) {}
        fn on_idle(&mut self, _: Time, _: ClientId) {}
        fn on_client_end(&mut self, _: Time, _: ClientId) {}
        fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
    }

    fn picking(answers: &[Option<ClientId>]) {
        let mut checked = Checked::new(Scripted(answers.to_vec()), &[Promise::WorkConserving]);
        let packet = Packet::default();
        checked.on_arrival(NOW, CLIENT, &packet, 0);
        checked.on_wake(NOW, CLIENT, &packet);
        checked.pick(NOW, CORE);
    }

    fn watched() -> Checked<Arbitrary> {
        Checked::new(Arbitrary::new(1), &[Promise::WorkConserving])
    }

    #[test]
    fn a_steady_pick_passes() {
        picking(&[Some(CLIENT), Some(CLIENT)]);
    }

    #[test]
    #[should_panic(expected = "asked again")]
    fn an_unsteady_pick_is_caught() {
        picking(&[Some(CLIENT), None]);
    }

    #[test]
    #[should_panic(expected = "was not offered")]
    fn a_pick_of_nothing_is_caught() {
        picking(&[Some(ClientId(1)), Some(ClientId(1))]);
    }

    #[test]
    #[should_panic(expected = "none is picked")]
    fn an_idle_core_is_caught() {
        picking(&[None, None]);
    }

    #[test]
    #[should_panic(expected = "wakes when idle")]
    fn a_head_of_an_idle_client_is_caught() {
        let mut checked = watched();
        checked.on_arrival(NOW, CLIENT, &Packet::default(), 0);
        checked.on_head(NOW, CLIENT, &Packet::default());
    }

    #[test]
    #[should_panic(expected = "while one was offered")]
    fn a_second_head_is_caught() {
        let mut checked = watched();
        checked.on_arrival(NOW, CLIENT, &Packet::default(), 0);
        checked.on_wake(NOW, CLIENT, &Packet::default());
        checked.on_head(NOW, CLIENT, &Packet::default());
    }

    #[test]
    #[should_panic(expected = "was not told that it is idle")]
    fn a_missing_idle_is_caught() {
        let mut checked = watched();
        let packet = Packet::default();
        checked.on_arrival(NOW, CLIENT, &packet, 0);
        checked.on_wake(NOW, CLIENT, &packet);
        checked.pick(NOW, CORE);
        checked.on_dispatch(NOW, CORE, CLIENT, &packet);
        checked.on_completion(NOW, CORE, CLIENT, &packet, 1);
        checked.check();
    }
}
