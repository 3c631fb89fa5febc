//! The loop of a sharing policy.

use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::Share;
use humpyard_core::unit::Time;

/// Returns a packet of a client, whose packets all have one length.
#[inline]
fn packet(client: ClientId) -> Packet {
    let length = 64 + (mix(u64::from(client.0)) >> 32) as u32 % 1451;
    Packet { client, length, estimate: u64::from(length), ..Packet::default() }
}

/// The index that stands for no packet.
const END: u32 = u32::MAX;

/// A place for a packet.
#[derive(Clone, Copy)]
struct HeldPacket {
    packet: Packet,
    /// The packet behind it in its queue, or the next free place.
    next: u32,
}

/// The queue of a client.
#[derive(Clone, Copy)]
struct PacketList {
    first: u32,
    last: u32,
    packets: u32,
}

/// A sharing policy, the queues of its clients, and one core that takes 1 ns for each byte.
pub struct Sharing<Q> {
    policy: Q,
    merged: bool,
    order: Vec<ClientId>,
    /// The position in `order` of the client whose packet arrives next.
    next: usize,
    places: Vec<HeldPacket>,
    free: u32,
    queues: Vec<PacketList>,
    now: Time,
}

impl<Q> Sharing<Q> {
    /// Returns the most packets that a host of this many clients can hold.
    pub fn packets_max(clients: usize) -> usize {
        4 * clients + 1
    }
}

impl<Q: Share> Sharing<Q> {
    /// Makes a host without packets, whose clients are visited in this order. Each client can hold
    /// four packets.
    pub fn new(policy: Q, order: Vec<ClientId>) -> Self {
        // Packets of one service are one client's, too.
        let merged = policy.merges_clients() || policy.serves_services();
        let place = |at| HeldPacket { packet: Packet::default(), next: at + 1 };
        Self {
            policy,
            merged,
            next: 0,
            places: (0..Self::packets_max(order.len()) as u32).map(place).collect(),
            free: 0,
            queues: vec![PacketList { first: END, last: END, packets: 0 }; order.len()],
            now: Time::ZERO,
            order,
        }
    }

    /// Lets a packet of the next client arrive.
    #[inline]
    pub fn arrive(&mut self) {
        let client = self.order[self.next];
        self.next = if self.next + 1 < self.order.len() { self.next + 1 } else { 0 };
        self.arrive_for(if self.merged { ClientId(0) } else { client });
    }

    /// Lets a packet of this client arrive.
    #[inline]
    pub fn arrive_for(&mut self, client: ClientId) {
        let at = self.free;
        let place = &mut self.places[at as usize];
        self.free = place.next;
        *place = HeldPacket { packet: packet(client), next: END };
        let queue = &mut self.queues[client.index()];
        let waiting = queue.packets;
        let before = core::mem::replace(&mut queue.last, at);
        queue.packets += 1;
        if waiting == 0 {
            queue.first = at;
        } else {
            self.places[before as usize].next = at;
        }
        let packet = &self.places[at as usize].packet;
        self.policy.on_arrival(self.now, client, packet, waiting);
        if waiting == 0 {
            self.policy.on_wake(self.now, client, packet);
        }
    }

    /// Serves a packet, from its pick to its completion, and returns its client.
    #[inline]
    pub fn serve(&mut self) -> ClientId {
        let client = self.pick();
        let queue = &mut self.queues[client.index()];
        let at = queue.first;
        let HeldPacket { packet, next } = &self.places[at as usize];
        queue.first = *next;
        queue.packets -= 1;
        let others = queue.packets > 0;
        self.policy.on_dispatch(self.now, CoreId(0), client, packet);
        if others {
            self.policy.on_head(self.now, client, &self.places[*next as usize].packet);
        }
        self.now = Time::from_ns(self.now.as_ns() + packet.estimate);
        self.policy.on_completion(self.now, CoreId(0), client, packet, packet.estimate);
        if !others {
            self.policy.on_idle(self.now, client);
        }
        self.places[at as usize].next = core::mem::replace(&mut self.free, at);
        client
    }

    /// Returns the client that is served next, once the policy releases its head.
    #[inline]
    fn pick(&mut self) -> ClientId {
        loop {
            if let Some(client) = self.policy.pick(self.now, CoreId(0)) {
                return client;
            }
            self.now = self.policy.next_timeout().expect("packets wait");
            self.policy.on_timeout(self.now);
        }
    }
}
