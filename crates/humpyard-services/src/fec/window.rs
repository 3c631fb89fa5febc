//! The code over packets of a flow: the receiver's groups.

use core::fmt;
use core::net::IpAddr;

use hashbrown::HashTable;
use humpyard_core::frame::Frame;
use humpyard_core::id::{Id, Slot};
use humpyard_core::storage::IdRing;
use reed_solomon_simd::ReedSolomonDecoder;

use super::group::{LENGTH_BYTES, copy_of, flow_of};
use super::header::{Header, REPAIRS, SOURCES};
use crate::ip::IpPacket;
use crate::memory::Memory;
use crate::service::{Context, Counter, DropReason, Generated, Verdict};
use crate::tunnel::{self, Outer};

/// The key of a group, which distinguishes it from groups of other senders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    addresses: (IpAddr, IpAddr),
    number: u64,
}

impl Key {
    fn hash(&self) -> u64 {
        flow_of(&Context { connection: self.number, ..Context::default() }, self.addresses)
    }

    /// Returns a hash of the sending instance and the addresses. Later groups of one sender have greater
    /// numbers.
    fn sender(&self) -> u64 {
        flow_of(&Context { connection: self.number >> 48, ..Context::default() }, self.addresses)
    }
}

/// The received part of a group.
#[derive(Default)]
struct Group {
    key: Option<Key>,
    /// The number of its packets, from a parity packet; 0 before one has come.
    sources: usize,
    /// The packets received, a bit each.
    there: u32,
    copies: [Vec<u8>; SOURCES],
    /// The parity packets received; others are empty.
    repairs: [Vec<u8>; REPAIRS],
    /// Whether all packets were received or restored.
    done: bool,
}

impl Group {
    fn missing(&self) -> usize {
        self.sources.saturating_sub(self.there.count_ones() as usize)
    }
}

/// The groups of an instance, and its decoder.
pub(super) struct Window {
    groups: Vec<Group>,
    /// The groups, by key.
    index: HashTable<Slot>,
    /// The groups, oldest first.
    known: IdRing<Slot>,
    /// By sender: the number after that of the latest forgotten group. A group that is not later is not opened
    /// again, because all its packets may have been received.
    forgotten: Memory<u64>,
    decoder: ReedSolomonDecoder,
    received: u64,
    parity: u64,
    /// Parity packets of forgotten groups.
    late: u64,
    recovered: u64,
    /// Packets received twice, or after their recovery.
    duplicates: u64,
    /// Packets missing in forgotten groups.
    missing: u64,
}

/// Senders remembered per group, for their forgotten groups. A sender is an instance and two addresses, so
/// there are more senders than simultaneous flows. A sender that is not remembered counts as new, and some of
/// its packets may be restored twice.
const SENDERS_PER_GROUP: usize = 32;

impl Window {
    pub(super) fn new(groups: usize) -> Self {
        Self {
            groups: (0..groups).map(|_| Group::default()).collect(),
            index: HashTable::with_capacity(2 * groups),
            known: IdRing::new(groups),
            forgotten: Memory::new(SENDERS_PER_GROUP * groups),
            decoder: ReedSolomonDecoder::new(SOURCES, REPAIRS, 2).expect("the code has 8 packets and 2 more"),
            received: 0,
            parity: 0,
            late: 0,
            recovered: 0,
            duplicates: 0,
            missing: 0,
        }
    }

    /// Takes a packet of a group out of its tunnel, keeps a copy, and recovers missing packets if it can.
    pub(super) fn source(
        &mut self,
        frame: &mut Frame,
        outer: &Outer,
        header: Header,
        generated: &mut Generated,
    ) -> Result<Verdict, DropReason> {
        let Some(slot) = self.group(frame, header)? else {
            self.received += 1;
            tunnel::unwrap(frame, outer, outer.payload.start + Header::BYTES..outer.payload.end);
            return Ok(Verdict::Forward);
        };
        let group = &mut self.groups[slot.index()];
        let (index, bit) = (usize::from(header.index), 1 << header.index);
        if group.sources != 0 && index >= group.sources {
            return Err(DropReason::Malformed);
        }
        tunnel::unwrap(frame, outer, outer.payload.start + Header::BYTES..outer.payload.end);
        if group.there & bit != 0 {
            self.duplicates += 1;
            return Ok(Verdict::Consume);
        }
        self.received += 1;
        group.there |= bit;
        if !group.done {
            copy_of(frame, &mut group.copies[index]);
            self.recover(slot, frame, generated);
        }
        Ok(Verdict::Forward)
    }

    /// Keeps a parity packet, and recovers missing packets if it can.
    pub(super) fn repair(
        &mut self,
        frame: &mut Frame,
        outer: &Outer,
        header: Header,
        generated: &mut Generated,
    ) -> Result<Verdict, DropReason> {
        let Some(slot) = self.group(frame, header)? else {
            self.late += 1;
            return Ok(Verdict::Consume);
        };
        let parity = &frame.data[outer.payload.start + Header::BYTES..outer.payload.end];
        let group = &mut self.groups[slot.index()];
        let sources = usize::from(header.sources);
        let agrees = (group.sources == 0 || group.sources == sources)
            && group.there >> sources == 0
            && group.repairs.iter().all(|other| other.is_empty() || other.len() == parity.len());
        if parity.is_empty() || !parity.len().is_multiple_of(2) || !agrees {
            return Err(DropReason::Malformed);
        }
        self.parity += 1;
        group.sources = sources;
        if !group.done {
            let into = &mut group.repairs[usize::from(header.index)];
            into.clear();
            into.extend_from_slice(parity);
            self.recover(slot, frame, generated);
        }
        Ok(Verdict::Consume)
    }

    /// Returns the group of a packet that is still in its tunnel. `None`: the group is forgotten.
    fn group(&mut self, frame: &Frame, header: Header) -> Result<Option<Slot>, DropReason> {
        let key = Key { addresses: IpPacket::find(frame)?.addresses(frame), number: header.group };
        let found = self.index.find(key.hash(), |slot| self.groups[slot.index()].key == Some(key));
        if found.is_some() {
            return Ok(found.copied());
        }
        let is_late = header.group < *self.forgotten.get(key.sender()).0;
        Ok((!is_late).then(|| self.begin(key)))
    }

    /// Opens a group, and forgets the oldest one if there is no room.
    fn begin(&mut self, key: Key) -> Slot {
        let used = self.known.len();
        let slot = if used < self.groups.len() { Slot::from_index(used) } else { self.forget_oldest() };
        let group = &mut self.groups[slot.index()];
        (group.key, group.sources, group.there, group.done) = (Some(key), 0, 0, false);
        group.repairs.iter_mut().for_each(Vec::clear);
        let groups = &self.groups;
        self.index.insert_unique(key.hash(), slot, |slot| groups[slot.index()].key.map_or(0, |key| key.hash()));
        self.known.push_back(slot);
        slot
    }

    #[cold]
    fn forget_oldest(&mut self) -> Slot {
        let slot = self.known.front().unwrap_or(Slot(0));
        self.known.remove(slot);
        let group = &self.groups[slot.index()];
        self.missing += group.missing() as u64;
        if let Some(key) = group.key
            && let Ok(entry) = self.index.find_entry(key.hash(), |&other| other == slot)
        {
            entry.remove();
            let forgotten = self.forgotten.get(key.sender()).0;
            *forgotten = (*forgotten).max(key.number.saturating_add(1));
        }
        slot
    }

    /// Restores the missing packets of a group, if it has enough packets. `frame` is the packet that came last.
    fn recover(&mut self, slot: Slot, frame: &Frame, generated: &mut Generated) {
        let group = &mut self.groups[slot.index()];
        if group.sources == 0 {
            // The number of packets is unknown, but it is at most this.
            group.done = group.there.count_ones() as usize == SOURCES;
            return;
        }
        let missing = group.missing();
        let repairs = group.repairs.iter().filter(|repair| !repair.is_empty()).count();
        if missing == 0 {
            group.done = true;
        } else if missing <= repairs {
            // The packets are damaged although their checks are right: the group is lost.
            group.done = true;
            let _ = decode(&mut self.decoder, group, frame, generated, &mut self.recovered);
        }
    }

    pub(super) fn counters(&self) -> Vec<Counter> {
        let missing = self.groups.iter().map(|group| group.missing() as u64).sum::<u64>();
        vec![
            Counter::new("received", self.received),
            Counter::new("parity", self.parity),
            Counter::new("late_parity", self.late),
            Counter::new("recovered", self.recovered),
            Counter::new("duplicates", self.duplicates),
            Counter::new("not_recovered", self.missing + missing),
        ]
    }
}

/// Restores and counts the missing packets of a group. `None`: the data are inconsistent.
fn decode(
    decoder: &mut ReedSolomonDecoder,
    group: &mut Group,
    last: &Frame,
    generated: &mut Generated,
    recovered: &mut u64,
) -> Option<()> {
    let bytes = group.repairs.iter().map(Vec::len).max()?;
    decoder.reset(group.sources, REPAIRS, bytes).ok()?;
    for (index, copy) in group.copies[..group.sources].iter_mut().enumerate() {
        if group.there & (1 << index) != 0 {
            if copy.len() > bytes {
                return None;
            }
            copy.resize(bytes, 0);
            decoder.add_original_shard(index, copy).ok()?;
        }
    }
    for (index, repair) in group.repairs.iter().enumerate().filter(|(_, repair)| !repair.is_empty()) {
        decoder.add_recovery_shard(index, repair).ok()?;
    }
    let decoded = decoder.decode().ok()?;
    for (index, copy) in decoded.restored_original_iter() {
        let data = frame_bytes(copy)?;
        let frame = generated.add()?;
        (frame.time, frame.link, frame.wire_length) = (last.time, last.link, data.len() as u32);
        frame.data.extend_from_slice(data);
        group.there |= 1 << index;
        *recovered += 1;
    }
    Some(())
}

/// Returns the frame's bytes in a copy. `None`: it is not a valid copy.
fn frame_bytes(copy: &[u8]) -> Option<&[u8]> {
    let (length, rest) = copy.split_first_chunk::<LENGTH_BYTES>()?;
    let (data, padding) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    padding.iter().all(|&byte| byte == 0).then_some(data)
}

impl Clone for Window {
    /// Returns a new instance with the same parameters.
    fn clone(&self) -> Self {
        Self::new(self.groups.len())
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("known", &self.known.len())
            .field("recovered", &self.recovered)
            .finish_non_exhaustive()
    }
}
