//! The link behind the cores: a queue for each client, served one packet after the other at the link's rate.
//!
//! **Idea.** A link is a core whose work is bytes: it has its own mechanism, with any sharing
//! policy. Packets that the cores have processed arrive there, with the length that their service
//! gave them.
//!
//! A client with too many packets at the link has used more of the cores than its share of the link
//! can send. The link withholds it from the cores' sharing policy ([`Scheduler::withhold`]) until
//! none of its packets waits at the link. So the client uses up no processing for packets that
//! cannot be sent. The policies on both sides do not notice.
//!
//! **Source.** The EFQ and LAP paper, section 4.1: the second of its two cases in which a flow does
//! not get its reservation.
//!
//! **Order.** The packets of a flow may change their client, by a rule or by a service's finding.
//! At the link the flow keeps its client until none of its packets waits. Otherwise packets of one
//! flow could wait in two lines and overtake each other.
//!
//! **Time.** A packet leaves at the time that the rate gives, and the next one begins then, however
//! late the driver asks. So a driver on a real clock sends as much as one in virtual time, though
//! less evenly.

use alloc::vec::Vec;

use crate::config::SchedulerConfig;
use crate::id::{ClientId, CoreId, FlowId, Id, IdVec, ServiceId, Slot};
use crate::measure::{Histogram, Measured, Summary};
use crate::mechanism::{Account, Arrival, Dropped, Effect, Scheduler};
use crate::packet::Packet;
use crate::policy::{Allocate, Share, Steer};
use crate::unit::{Time, Weight};

/// The transmitter: the only core of the link's mechanism.
const TRANSMITTER: CoreId = CoreId(0);

/// The configuration of a link.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkSetup {
    /// Bits per second.
    pub rate_bps: u64,
    /// Bytes that leave each service per byte that enters, in thousandths. Services beyond the last
    /// entry do not change lengths.
    pub expansions: Vec<u32>,
    /// The services of each chain. Empty: each packet has only its own service.
    pub chains: Vec<Vec<ServiceId>>,
    /// Most packets of a client that may wait before it is withheld from the cores. `None`: no
    /// client is withheld.
    pub withhold_above: Option<u32>,
}

/// The packets of a flow at the link, and the client in whose line they wait.
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
    /// When the next transmission begins: when the packet before had left, or, if none waited, when
    /// the next packet came.
    free: Time,
    /// The fraction of a ns that the last transmission carries over, in units of 1/rate ns.
    owed: u64,
    waiting: IdVec<ClientId, u32>,
    withheld: IdVec<ClientId, bool>,
    present: IdVec<FlowId, Present>,
    /// When the packet in each slot came in, before it was processed.
    entered: IdVec<Slot, Time>,
    /// Time from coming in to having left, by service.
    in_all: IdVec<ServiceId, Histogram>,
    waiting_max: u32,
    withheld_times: u64,
}

/// The results of a link.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkOutcome {
    /// The account of the packets that the cores had processed.
    pub account: Account,
    /// Everything measured on these packets, from completion at the cores to having left.
    pub summary: Summary,
    /// Time from coming in to having left, of the measured packets.
    pub in_all: Histogram,
    /// The same by service: the last of the packet's chain.
    pub in_all_of: IdVec<ServiceId, Histogram>,
    /// Most packets of one client that waited at once.
    pub waiting_max: u32,
    /// How often a client was withheld from the cores.
    pub withheld: u64,
}

impl<S: Steer, Q: Share, A: Allocate> OutputLink<S, Q, A> {
    /// Returns a link that schedules and measures its packets with `measured`. `config` is its
    /// configuration: one core, whose work is bytes.
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

    /// Returns the results so far.
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

    /// Number of packet places: all slots are below it.
    pub fn slots(&self) -> usize {
        self.entered.len()
    }

    /// Returns when the packet in transmission will have left.
    pub fn next_event(&self) -> Option<Time> {
        self.sending.map(|sending| sending.until)
    }

    /// Takes a packet that the cores have processed. A client with too many packets here is
    /// withheld from `cores`. If there is no room, the packet may be dropped, or push out others:
    /// [`Self::next_dropped`] returns those.
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

    /// Returns a packet that was pushed out to make room; its place is now free. Its `entered` is
    /// when it came in, its arrival when it came to the link. Drivers report such packets, and
    /// those that [`Self::on_processed`] drops, to the measurements of the cores:
    /// [`Measured::on_loss_behind`].
    pub fn next_dropped(&mut self, now: Time) -> Option<Dropped> {
        let Effect::Dropped(mut dropped) = self.measured.next_effect(now)? else {
            unreachable!("the link has one core, and packets leave it in order")
        };
        self.waiting[dropped.packet.client] -= 1;
        self.present[dropped.packet.flow].packets -= 1;
        dropped.packet.entered = self.entered[dropped.slot];
        Some(dropped)
    }

    /// Returns the packet that has left by now, if one has, with its former slot. [`Self::send`]
    /// begins the next.
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

    /// Sends the next packet, unless one is in transmission. Ends the withholding of a client that
    /// has no packet waiting here.
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

    /// Re-applies backpressure to a replacement scheduler `cores`: withholds all clients that are
    /// withheld now. O(clients).
    pub fn withhold_anew(&self, now: Time, cores: &mut Scheduler<S, Q, A>) {
        for client in self.withheld.ids().filter(|&client| self.withheld[client]) {
            cores.withhold(now, client);
        }
    }

    /// Changes the weight of a client.
    pub fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        self.measured.set_weight(now, client, weight);
    }

    /// Ends a flow; its id may be used again.
    pub fn on_flow_end(&mut self, now: Time, flow: FlowId) {
        self.measured.on_flow_end(now, flow);
    }

    /// Ends a client, which has no packet here; its id may be used again.
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

    /// Returns the time that these bytes take. The part below a whole ns is carried over to the
    /// next packet.
    fn time_to_send(&mut self, bytes: u32) -> Time {
        let rate = u128::from(self.link.rate_bps);
        let all = u128::from(bytes) * 8_000_000_000 + u128::from(self.owed);
        self.owed = (all % rate) as u64;
        Time::from_ns((all / rate) as u64)
    }
}
