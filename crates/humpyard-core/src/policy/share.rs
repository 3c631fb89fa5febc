//! Pull: which client does an idle core serve?

use alloc::string::String;

use ambassador::delegatable_trait;

use super::Policy;
use crate::id::{ClientId, CoreId};
use crate::packet::Packet;
use crate::storage::IdSet;
use crate::unit::{Time, Weight, Work};

/// A sharing policy: orders the clients of one queue, from which one or more cores pull.
///
/// # The life of a client
/// The mechanism makes these calls for a client:
///
/// * `on_wake`: the client was idle, and its head may be served now;
/// * for each packet `on_dispatch`, and later `on_completion`;
/// * between them or after them `on_head`: the client's next head may be served now;
/// * at last `on_idle`: no packet of the client waits or is in service.
///
/// With a [`Share::quantum`], `on_preemption` may come instead of `on_completion`: the packet waits
/// again and is the client's head, in front of a head that was offered meanwhile. It may be served at
/// once, and the mechanism does not offer it again.
///
/// Usually the mechanism offers the next head at once. Where a client's packets must keep their
/// order on several cores, it waits until the packet before is complete. So a policy never asks
/// whether a head may be served: it may if it was offered and is not yet dispatched.
///
/// A client keeps its place in a round between `on_dispatch` and `on_head`. Its turn is over when
/// the policy says so, or at `on_idle`.
#[delegatable_trait]
pub trait Share: Policy {
    /// Whether the policy treats the queue as one client: packets leave in order of arrival,
    /// regardless of their client.
    ///
    /// Asked once. All events then name client 0.
    fn merges_clients(&self) -> bool {
        false
    }

    /// Whether the clients are the services: a packet belongs to the service that it waits for, at each hop of its
    /// chain, and the client with the number of a service is that service. Its weight is that of the client.
    ///
    /// Asked once, and false if the policy merges clients.
    fn serves_services(&self) -> bool {
        false
    }

    /// Whether a packet that arrives may come in; if not, it is dropped. Asked only of a policy whose clients are
    /// services ([`Share::serves_services`]), and not at the later hops of a chain.
    fn admits(&mut self, _now: Time, _packet: &Packet) -> bool {
        true
    }

    /// Whether the policy may hold back heads until a time: then [`Policy::next_timeout`] returns it. Called often:
    /// return a constant.
    fn holds_back(&self) -> bool {
        false
    }

    /// Whether [`Share::pick`] may return `None` for one core and a client for another. Called
    /// often: return a constant.
    fn prefers_cores(&self) -> bool {
        false
    }

    /// A packet has arrived for `client`, behind `waiting` packets of that client.
    fn on_arrival(&mut self, _now: Time, _client: ClientId, _packet: &Packet, _waiting: u32) {}

    /// The client was idle; `head` may be served now.
    fn on_wake(&mut self, now: Time, client: ClientId, head: &Packet);

    /// The client was not idle; its next `head` may be served now.
    fn on_head(&mut self, now: Time, client: ClientId, head: &Packet);

    /// Returns the client whose head `core` should serve now. `None`: no head may be served.
    ///
    /// Asked again without an event between, it returns the same.
    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId>;

    /// Returns which core to ask first: a member of `idle`. These are two or more cores with room that have the same
    /// number of packets, and no core with room has fewer: unless several packets are in flight, they are idle. Called
    /// when packets wait. Asked again without an event between, it returns the same.
    fn place(&mut self, _now: Time, idle: &IdSet<CoreId>) -> CoreId {
        idle.first().expect("a core is idle")
    }

    /// The client's head goes to `core`; it is charged the packet's estimate.
    fn on_dispatch(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet);

    /// Whether the packet that `core` got last continues a batch of its service, so that the cost of a batch is not
    /// paid again. Asked only of a policy that holds back heads ([`Share::holds_back`]).
    fn continues(&self, _core: CoreId) -> bool {
        false
    }

    /// Returns the time in ns after which a core gives back a packet that it has not finished. `None`: it serves each
    /// packet to its end. Asked once.
    fn quantum(&self) -> Option<Time> {
        None
    }

    /// Whether `core`, whose packet has had its quantum, gives it back. If not, the packet has another quantum at once.
    fn yields(&mut self, _now: Time, _core: CoreId) -> bool {
        true
    }

    /// Whether [`Share::yields`] says no for `core`, and changes nothing, however often it is asked before another
    /// method of the policy is called. A simulation then does not ask after every quantum.
    fn stays(&self, _core: CoreId) -> bool {
        false
    }

    /// The packet has had its quantum, `used` work of it, and waits again as the head of its client. Its estimate is
    /// what is left. Only with a [`Share::quantum`].
    fn on_preemption(&mut self, _now: Time, _core: CoreId, _client: ClientId, _packet: &Packet, _used: Work) {}

    /// The packet is done and took `used` work: the policy settles the difference from its estimate.
    fn on_completion(&mut self, _now: Time, _core: CoreId, _client: ClientId, _sent: &Packet, _used: Work) {}

    /// The client's newest waiting packet left the queue: it was dropped to make room for another
    /// client's packet, or it is withheld and will arrive again. It is not a head that was offered.
    /// `waiting` packets of the client remain.
    fn on_push_out(&mut self, _now: Time, _client: ClientId, _packet: &Packet, _waiting: u32) {}

    /// A packet is done that was in service when this policy took over, so the policy did not
    /// dispatch it. Where the client's order is kept, the policy learns of the client only after
    /// these packets are done.
    fn on_foreign_completion(&mut self, _now: Time, _core: CoreId, _client: ClientId, _sent: &Packet, _used: Work) {}

    /// The client has no packet waiting and none in service.
    fn on_idle(&mut self, now: Time, client: ClientId);

    /// The client, idle, has ended. A later client with the same id inherits only the weight: it
    /// belongs to the id until it is set again.
    fn on_client_end(&mut self, now: Time, client: ClientId);

    /// The client has this weight from now on.
    fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight);

    /// Describes in a sentence, for people, the policy's present state of this client: tags,
    /// credit, turns. `None`: no sentence can describe it.
    fn explain(&self, _client: ClientId) -> Option<String> {
        None
    }
}
