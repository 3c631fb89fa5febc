//! Pull: which client does an idle core serve?

use alloc::string::String;

use ambassador::delegatable_trait;

use super::Policy;
use crate::id::{ClientId, CoreId};
use crate::packet::Packet;
use crate::storage::IdSet;
use crate::unit::{Time, Weight, Work};

/// A sharing policy: orders the clients of one queue, from which one or several cores pull.
///
/// # The life of a client
/// `on_wake` (it was idle, its head may be served now), then for each packet `on_dispatch` and later `on_completion`,
/// and between them or after them `on_head` (its next head may be served now), at last `on_idle` (nothing waiting, nothing
/// in service). The mechanism offers the next head at once, or, where a client's packets must keep their order on several
/// cores, when the one before it is complete. So a policy never asks whether a head may be served: it was offered, and
/// not yet dispatched, or it may not.
///
/// A client keeps its place in a round between `on_dispatch` and `on_head`: its turn is over when the policy says so, or
/// at `on_idle`.
#[delegatable_trait]
pub trait Share: Policy {
    /// Whether the policy takes the queue as one client: packets leave in order of arrival, whoever sent them.
    ///
    /// Asked once. All events then name client 0.
    fn merges_clients(&self) -> bool {
        false
    }

    /// Whether [`Share::pick`] may answer none to one core and a client to another. Asked often: a constant.
    fn prefers_cores(&self) -> bool {
        false
    }

    /// A packet has arrived for `client`, behind `waiting` packets of that client.
    fn on_arrival(&mut self, _now: Time, _client: ClientId, _packet: &Packet, _waiting: u32) {}

    /// The client was idle; `head` may be served now.
    fn on_wake(&mut self, now: Time, client: ClientId, head: &Packet);

    /// The client was not idle; its next `head` may be served now.
    fn on_head(&mut self, now: Time, client: ClientId, head: &Packet);

    /// The client whose head `core` should serve now; none if no head may be served.
    ///
    /// Asked again without an event between, it answers the same.
    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId>;

    /// Which of several cores that have room is asked first: a member of `idle`, which has two or more. Asked when packets
    /// wait; asked again without an event between, it answers the same.
    fn place(&mut self, _now: Time, idle: &IdSet<CoreId>) -> CoreId {
        idle.first().expect("a core is idle")
    }

    /// The client's head goes to `core`; it is charged the packet's estimate.
    fn on_dispatch(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet);

    /// The packet is done and was `used` work: settle the difference to its estimate.
    fn on_completion(&mut self, _now: Time, _core: CoreId, _client: ClientId, _sent: &Packet, _used: Work) {}

    /// The client's newest waiting packet, which is no head that was offered, was dropped to make room for another client's, or
    /// is withheld and will arrive anew; `waiting` packets of the client are left.
    fn on_push_out(&mut self, _now: Time, _client: ClientId, _packet: &Packet, _waiting: u32) {}

    /// A packet is done that this policy did not dispatch: it was in service when the policy took over. A client that had
    /// packets in service then is not heard of before they are done, where its order is kept.
    fn on_foreign_completion(&mut self, _now: Time, _core: CoreId, _client: ClientId, _sent: &Packet, _used: Work) {}

    /// The client has nothing waiting and nothing in service.
    fn on_idle(&mut self, now: Time, client: ClientId);

    /// The client, idle, is gone: a client of the same id that wakes later inherits nothing but the weight, which is the id's
    /// until it is set anew.
    fn on_client_end(&mut self, now: Time, client: ClientId);

    /// The client has this weight from now on.
    fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight);

    /// Says in a sentence, for people, what the policy knows of this client now: tags, credit, turns. `None`: nothing
    /// that a sentence can say.
    fn explain(&self, _client: ClientId) -> Option<String> {
        None
    }
}
