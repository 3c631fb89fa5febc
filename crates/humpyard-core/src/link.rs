//! The link behind the cores: a queue for each client, served one packet after the other at the link's rate.
//!
//! **Idea.** A link is a core whose work is bytes: it has the mechanism of its own, with any sharing policy. What is done at the
//! cores arrives there with the length that its service has made of it.
//!
//! A client of which more packets wait at the link than may has had more of the cores than its share of the link can carry away. It
//! is withheld from the cores' sharing policy ([`Scheduler::withhold`]) until none of it waits here any more, and so uses
//! up no processing that nobody can send. The policies on either side know nothing of that.
//!
//! **Source.** The EFQ and LAP paper, section 4.1: of its two cases in which a flow does not get what it reserved, this is the second.
//!
//! **Order.** A flow whose packets change their client, by a rule or by what a service has found out, keeps the client that it has here
//! until none of it waits: each client has a line of its own, and packets of one flow in two lines could overtake each other.
//!
//! **Time.** A packet leaves when it has left by the rate, and the next one begins then, however late the driver asks: a driver on
//! a clock that does not wait for it sends no less than one in virtual time, if no more evenly than it asks.

use alloc::vec::Vec;

use crate::config::SchedulerConfig;
use crate::id::{ClientId, CoreId, FlowId, Id, IdVec, ServiceId, Slot};
use crate::measure::{Histogram, Measured, Summary};
use crate::mechanism::{Account, Arrival, Dropped, Effect, Scheduler};
use crate::packet::Packet;
use crate::policy::{Allocate, Share, Steer};
use crate::unit::{Time, Weight};

/// The transmitter, which is the only core of the link's mechanism.
const TRANSMITTER: CoreId = CoreId(0);

/// What a link is.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSetup {
    /// Bits per second.
    pub rate_bps: u64,
    /// Bytes that each service makes of one, in thousandths; services beyond the last leave packets as they are.
    pub expansions: Vec<u32>,
    /// The services that packets go through, by chain; none: each packet's own service is all.
    pub chains: Vec<Vec<ServiceId>>,
    /// Most packets of a client that may wait before it is withheld from the cores; none never withholds.
    pub withhold_above: Option<u32>,
}

/// The packets of a flow at the link, and whose line they are in.
#[derive(Clone, Copy, Debug)]
struct Present {
    packets: u32,
    client: ClientId,
}

/// A packet on the link.
#[derive(Clone, Copy, Debug)]
struct Sending {
    slot: Slot,
    until: Time,
    time: Time,
}

/// The link behind the cores.
#[derive(Debug)]
pub struct OutputLink<S, Q, A> {
    measured: Measured<S, Q, A>,
    link: LinkSetup,
    sending: Option<Sending>,
    /// When the next packet begins that is sent: when the one before had left, or when it came, if nothing waited.
    free: Time,
    /// What the last transmission took less than a whole ns more, in parts of a ns over the rate.
    owed: u64,
    waiting: IdVec<ClientId, u32>,
    withheld: IdVec<ClientId, bool>,
    present: IdVec<FlowId, Present>,
    /// When the packet in each slot had come in, before it was processed.
    entered: IdVec<Slot, Time>,
    /// By service, from coming in to having left.
    in_all: IdVec<ServiceId, Histogram>,
    waiting_max: u32,
    withheld_times: u64,
}

/// What came of a link.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkOutcome {
    /// What became of the packets that were done at the cores.
    pub account: Account,
    /// Everything measured on them, from being done at the cores to having left.
    pub summary: Summary,
    /// From coming in to having left, of the packets that are measured.
    pub in_all: Histogram,
    /// The same by service, the last of its chain.
    pub in_all_of: IdVec<ServiceId, Histogram>,
    /// Most packets of one client that waited.
    pub waiting_max: u32,
    /// How often a client was withheld from the cores.
    pub withheld: u64,
}

impl<S: Steer, Q: Share, A: Allocate> OutputLink<S, Q, A> {
    /// A link whose packets are scheduled and measured by `measured`, of this configuration: with one core, whose
    /// work is bytes.
    ///
    /// # Panics
    /// If the configuration has more cores, or the link has no rate.
    pub fn new(link: LinkSetup, measured: Measured<S, Q, A>, config: &SchedulerConfig) -> Self {
        assert_eq!(config.cores, 1, "a link sends one packet after the other");
        assert!(link.rate_bps > 0, "a link has a rate");
        Self {
            measured,
            link,
            sending: None,
            free: Time::ZERO,
            owed: 0,
            waiting: IdVec::from_fn(config.clients, |_| 0),
            withheld: IdVec::from_fn(config.clients, |_| false),
            present: IdVec::from_fn(config.flows, |_| Present { packets: 0, client: ClientId(0) }),
            entered: IdVec::from_fn(config.packets + 1, |_| Time::ZERO),
            in_all: IdVec::from_fn(config.services.len(), |_| Histogram::new()),
            waiting_max: 0,
            withheld_times: 0,
        }
    }

    /// What came of it.
    pub fn outcome(&self) -> LinkOutcome {
        let mut in_all = Histogram::new();
        self.in_all.iter().for_each(|one| in_all.add(one));
        LinkOutcome {
            account: *self.measured.account(),
            summary: self.measured.summary(),
            in_all,
            in_all_of: self.in_all.clone(),
            waiting_max: self.waiting_max,
            withheld: self.withheld_times,
        }
    }

    /// Packets that wait or are being sent.
    pub fn held(&self) -> u64 {
        self.measured.account().held
    }

    /// Places of packets, as many as there can be: slots are below that.
    pub fn slots(&self) -> usize {
        self.entered.len()
    }

    /// When the packet that is being sent has left.
    pub fn next_event(&self) -> Option<Time> {
        self.sending.map(|sending| sending.until)
    }

    /// A packet is done at the cores, and comes to the link. Whoever has too many here is withheld from `cores`. It may be dropped, if
    /// there is no room, or have others dropped: [`Self::next_dropped`] has these.
    pub fn on_processed(&mut self, now: Time, processed: &Packet, cores: &mut Scheduler<S, Q, A>) -> Arrival {
        if !self.is_busy(now) {
            self.free = now;
        }
        let Present { packets, client } = self.present[processed.flow];
        let client = if packets > 0 { client } else { processed.client };
        let packet = Packet { length: self.length(processed), arrival: now, hop: 0, client, ..*processed };
        let arrival = self.measured.on_arrival(now, &packet);
        let Arrival::Queued(slot) = arrival else { return arrival };
        self.present[packet.flow] = Present { packets: packets + 1, client };
        self.entered[slot] = processed.entered;
        let waiting = &mut self.waiting[packet.client];
        *waiting += 1;
        self.waiting_max = self.waiting_max.max(*waiting);
        let too_many = self.link.withhold_above.is_some_and(|most| *waiting > most);
        if too_many && !self.withheld[packet.client] {
            self.withheld[packet.client] = true;
            self.withheld_times += 1;
            cores.withhold(now, packet.client);
        }
        arrival
    }

    /// A packet that made room for another, with the time at which it came in, and as its arrival that at which it came here; its
    /// place is free from now on. Of such packets, and of those that [`Self::on_processed`] drops, drivers tell the measurements of
    /// the cores: [`Measured::on_loss_behind`].
    pub fn next_dropped(&mut self, now: Time) -> Option<Dropped> {
        let Effect::Dropped(mut dropped) = self.measured.next_effect(now)? else {
            unreachable!("the link has one core, and packets leave it in order")
        };
        self.waiting[dropped.packet.client] -= 1;
        self.present[dropped.packet.flow].packets -= 1;
        dropped.packet.entered = self.entered[dropped.slot];
        Some(dropped)
    }

    /// The packet that has left by now, if one has, with the slot that was its own. [`Self::send`] begins the next.
    pub fn next_sent(&mut self, now: Time) -> Option<(Slot, Packet)> {
        let Sending { slot, until, time } = self.sending.filter(|sending| sending.until <= now)?;
        self.sending = None;
        self.free = self.free.max(until);
        let sent = self.measured.on_completion(now, TRANSMITTER, slot, until, time);
        self.present[sent.packet.flow].packets -= 1;
        if self.measured.measurements().is_measured(&sent.packet) {
            self.in_all[sent.packet.service].record(until.since(self.entered[slot]).as_ns());
        }
        Some((slot, sent.packet))
    }

    /// Sends the next packet, if none is being sent. A client that has none left here is withheld from `cores` no more.
    pub fn send(&mut self, now: Time, cores: &mut Scheduler<S, Q, A>) {
        while let Some(core) = self.measured.next_core(now) {
            let Some(dispatch) = self.measured.next(now, core) else { continue };
            let packet = &dispatch.packet;
            let time = self.time_to_send(packet.length);
            self.sending = Some(Sending { slot: dispatch.slot, until: self.free + time, time });
            let waiting = &mut self.waiting[packet.client];
            *waiting -= 1;
            if *waiting == 0 && self.withheld[packet.client] {
                self.withheld[packet.client] = false;
                cores.end_withholding(now, packet.client);
            }
        }
        if self.sending.is_none() {
            self.owed = 0;
        }
    }

    /// Withholds from `cores`, which are others than before, whom it had withheld from those. O(clients).
    pub fn withhold_anew(&self, now: Time, cores: &mut Scheduler<S, Q, A>) {
        for client in self.withheld.ids().filter(|&client| self.withheld[client]) {
            cores.withhold(now, client);
        }
    }

    /// A client has another weight.
    pub fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        self.measured.set_weight(now, client, weight);
    }

    /// A flow is over, and its id may be used for another.
    pub fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        self.measured.on_flow_end(now, flow);
    }

    /// A client, which has no packet here, is gone, and its id may be used for another.
    pub fn on_client_end(&mut self, now: Time, client: ClientId) {
        self.measured.on_client_end(now, client);
    }

    /// Whether a packet is here that has not left by this time.
    fn is_busy(&self, now: Time) -> bool {
        let has_left = self.sending.is_some_and(|sending| sending.until <= now);
        self.held() > u64::from(has_left)
    }

    /// Length of a packet after its services, in bytes.
    fn length(&self, packet: &Packet) -> u32 {
        let own = [packet.service];
        let services = self.link.chains.get(packet.chain.index()).map_or(&own[..], Vec::as_slice);
        let expansion = |service: &ServiceId| self.link.expansions.get(service.index()).copied().unwrap_or(1000);
        let length = services
            .iter()
            .fold(u64::from(packet.length), |length, service| (length * u64::from(expansion(service))).div_ceil(1000));
        u32::try_from(length.max(1)).unwrap_or(u32::MAX)
    }

    /// Time that so many bytes take. What is less than a ns is carried over to the next packet.
    fn time_to_send(&mut self, bytes: u32) -> Time {
        let rate = u128::from(self.link.rate_bps);
        let all = u128::from(bytes) * 8_000_000_000 + u128::from(self.owed);
        self.owed = (all % rate) as u64;
        Time::from_ns((all / rate) as u64)
    }
}
