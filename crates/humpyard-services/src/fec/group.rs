//! The code over packets of a flow: the sender's groups.

use core::fmt;
use core::net::IpAddr;

use hashbrown::HashTable;
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::hash::mix;
use humpyard_core::id::{Id, Slot};
use humpyard_core::storage::IdRing;
use humpyard_core::unit::Time;
use reed_solomon_simd::ReedSolomonEncoder;

use super::header::{Header, Kind, REPAIRS, SOURCES};
use super::{PROTOCOL, passes_unprotected};
use crate::expansion::Expansion;
use crate::instance::Instance;
use crate::ip::IpPacket;
use crate::link::Network;
use crate::service::{Context, Counter, DropReason, Generated};
use crate::tunnel;

/// Groups that an instance can number: the number has 16 bits for the instance and 48 for the group.
const GROUPS_MAX: u64 = 1 << 48;
const INSTANCES_MAX: u32 = 1 << 16;
/// The start of a copy: the length of its frame, in bytes.
pub(super) const LENGTH_BYTES: usize = 4;
/// Most overdue groups closed with one packet: there must be room for their parity packets.
const CLOSED_AT_ONCE: usize = 8;

/// Returns the key of a packet's flow. It includes the addresses, for drivers that know no flows.
pub(super) fn flow_of(context: &Context, (source, destination): (IpAddr, IpAddr)) -> u64 {
    let address = |address: IpAddr| match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            mix(bits as u64) ^ (bits >> 64) as u64
        }
    };
    let addresses = mix(address(source)) ^ address(destination);
    mix(addresses) ^ mix(context.connection) ^ u64::from(context.flow.0)
}

/// Writes the data that the code protects into `copy`: the frame's length and all its bytes.
pub(super) fn copy_of(frame: &Frame, copy: &mut Vec<u8>) {
    copy.clear();
    copy.extend_from_slice(&(frame.data.len() as u32).to_be_bytes());
    copy.extend_from_slice(&frame.data);
}

/// A group of packets of one flow that is not full yet.
#[derive(Default)]
struct Group {
    flow: u64,
    number: u64,
    opened: Time,
    /// The number of its packets.
    len: usize,
    /// Copies of its packets.
    copies: [Vec<u8>; SOURCES],
    /// Time and headers of the last packet: the parity packets use its headers.
    last: Option<(Time, LinkType, Network)>,
}

/// The groups of an instance, and its encoder.
pub(super) struct Groups {
    groups: Vec<Group>,
    /// The open groups, by their flow.
    index: HashTable<Slot>,
    /// The open groups, oldest first.
    open: IdRing<Slot>,
    /// Unused groups.
    free: Vec<Slot>,
    encoder: ReedSolomonEncoder,
    wait: Time,
    instance: Instance,
    /// Groups numbered up to now.
    numbered: u64,
    protected: Expansion,
    unprotected: u64,
    parity: u64,
    /// Parity packets not sent, because there was no room or they were too long.
    parity_skipped: u64,
}

impl Groups {
    pub(super) fn new(groups: usize, wait: Time) -> Self {
        Self::of(groups, wait, Instance::first())
    }

    fn of(groups: usize, wait: Time, instance: Instance) -> Self {
        Self {
            groups: (0..groups).map(|_| Group::default()).collect(),
            // Twice the needed capacity: at half load the table cleans up removals in place and never grows.
            index: HashTable::with_capacity(2 * groups),
            open: IdRing::new(groups),
            free: (0..groups).rev().map(Slot::from_index).collect(),
            encoder: ReedSolomonEncoder::new(SOURCES, REPAIRS, 2).expect("the code has 8 packets and 2 more"),
            wait,
            instance,
            numbered: 0,
            protected: Expansion::default(),
            unprotected: 0,
            parity: 0,
            parity_skipped: 0,
        }
    }

    pub(super) fn protect(
        &mut self,
        frame: &mut Frame,
        context: &Context,
        generated: &mut Generated,
    ) -> Result<(), DropReason> {
        self.close_stalled(context.now, generated);
        let before = frame.data.len();
        match self.add(frame, context, generated) {
            Ok(()) => self.protected.record(before, frame.data.len()),
            Err(reason) => {
                passes_unprotected(reason)?;
                self.unprotected += 1;
            }
        }
        Ok(())
    }

    /// Closes overdue groups.
    fn close_stalled(&mut self, now: Time, generated: &mut Generated) {
        for _ in 0..CLOSED_AT_ONCE {
            let oldest = self.open.front().filter(|&slot| now.since(self.groups[slot.index()].opened) >= self.wait);
            let Some(slot) = oldest else { return };
            self.close(slot, generated);
        }
    }

    fn add(&mut self, frame: &mut Frame, context: &Context, generated: &mut Generated) -> Result<(), DropReason> {
        let network = tunnel::inner(frame)?;
        let flow = flow_of(context, IpPacket::find(frame)?.addresses(frame));
        let slot = match self.find(flow) {
            Some(slot) => slot,
            None => self.begin(flow, context.now, generated).ok_or(DropReason::SequenceExhausted)?,
        };
        let group = &mut self.groups[slot.index()];
        let copy = &mut group.copies[group.len];
        copy_of(frame, copy);
        // If this packet is too long, its empty group stays for the next packet.
        let wrapped = tunnel::wrap(frame, PROTOCOL, Header::BYTES, 0)?;
        let header = Header { kind: Kind::Source, sources: 0, index: group.len as u8, group: group.number };
        header.write(&mut frame.data[wrapped.payload..]);
        group.len += 1;
        group.last = Some((frame.time, frame.link, network));
        if group.len == SOURCES {
            self.close(slot, generated);
        }
        Ok(())
    }

    fn find(&self, flow: u64) -> Option<Slot> {
        self.index.find(mix(flow), |slot| self.groups[slot.index()].flow == flow).copied()
    }

    /// Opens a group, and closes the oldest one if there is no room. `None`: this instance has no number left.
    fn begin(&mut self, flow: u64, now: Time, generated: &mut Generated) -> Option<Slot> {
        let instance = self.instance.number_below(INSTANCES_MAX).filter(|_| self.numbered < GROUPS_MAX)?;
        if self.free.is_empty() {
            self.close(self.open.front()?, generated);
        }
        let slot = self.free.pop()?;
        let number = u64::from(instance) << 48 | self.numbered;
        self.numbered += 1;
        let group = &mut self.groups[slot.index()];
        (group.flow, group.number, group.opened, group.len, group.last) = (flow, number, now, 0, None);
        let groups = &self.groups;
        self.index.insert_unique(mix(flow), slot, |slot| mix(groups[slot.index()].flow));
        self.open.push_back(slot);
        Some(slot)
    }

    /// Closes a group, and sends its parity packets.
    fn close(&mut self, slot: Slot, generated: &mut Generated) {
        self.open.remove(slot);
        let flow = self.groups[slot.index()].flow;
        if let Ok(entry) = self.index.find_entry(mix(flow), |&other| other == slot) {
            entry.remove();
        }
        self.free.push(slot);
        self.send_parity(slot, generated);
    }

    fn send_parity(&mut self, slot: Slot, generated: &mut Generated) {
        let group = &mut self.groups[slot.index()];
        let Some((time, link, network)) = group.last else { return };
        let copies = &mut group.copies[..group.len];
        let bytes = copies.iter().map(Vec::len).max().unwrap_or_default().next_multiple_of(2);
        let sizes = "copies have the size that the code was told of";
        self.encoder.reset(copies.len(), REPAIRS, bytes).expect(sizes);
        for copy in &mut *copies {
            copy.resize(bytes, 0);
            self.encoder.add_original_shard(copy).expect(sizes);
        }
        let encoded = self.encoder.encode().expect(sizes);
        let last = &copies[copies.len() - 1][LENGTH_BYTES..];
        for (index, parity) in encoded.recovery_iter().enumerate() {
            let payload_bytes = Header::BYTES + parity.len();
            let room = payload_bytes <= tunnel::payload_max(network.version);
            let Some(frame) = room.then(|| generated.add()).flatten() else {
                self.parity_skipped += 1;
                continue;
            };
            (frame.time, frame.link) = (time, link);
            let headers = network.offset + tunnel::header_bytes(network.version);
            let (link_header, inner) = last.split_at(network.offset);
            frame.data.extend_from_slice(link_header);
            frame.data.resize(headers + Header::BYTES, 0);
            let (outer, header) = frame.data[network.offset..].split_at_mut(headers - network.offset);
            tunnel::write_header(outer, network.version, inner, PROTOCOL, payload_bytes);
            let sources = copies.len() as u8;
            Header { kind: Kind::Repair, sources, index: index as u8, group: group.number }.write(header);
            frame.data.extend_from_slice(parity);
            frame.wire_length = frame.data.len() as u32;
            self.parity += 1;
            self.protected.add(frame.data.len());
        }
    }

    pub(super) fn counters(&self) -> Vec<Counter> {
        let mut uncovered = 0;
        let mut next = self.open.front();
        while let Some(slot) = next {
            uncovered += self.groups[slot.index()].len as u64;
            next = self.open.next(slot);
        }
        let mut counters = self.protected.counters("protected");
        counters.extend([
            Counter::new("unprotected", self.unprotected),
            Counter::new("uncovered", uncovered),
            Counter::new("parity", self.parity),
            Counter::new("parity_skipped", self.parity_skipped),
        ]);
        counters
    }
}

impl Clone for Groups {
    /// Returns a new instance with the same parameters.
    fn clone(&self) -> Self {
        Self::of(self.groups.len(), self.wait, self.instance.clone())
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups")
            .field("open", &self.open.len())
            .field("protected", &self.protected)
            .finish_non_exhaustive()
    }
}
