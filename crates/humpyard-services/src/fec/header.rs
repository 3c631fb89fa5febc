//! The header of protected packets.
//!
//! All have four bytes: the kind, and three bytes that depend on it.
//!
//! - A packet with its own code: the number of its parts, 0, 0; then its CRC-32 (4 bytes), its length (4), and
//!   the low half of the CRC-32 of each of its eight parts (2 each).
//! - A source packet of a group: 0, its index, 0; then the group's number (8).
//! - A repair packet: the number of packets in the group, its index, 0; then the group's number (8).
//!
//! The upper 16 bits of a group's number are those of the sending instance.

use crate::service::DropReason;

/// Packets of a full group.
pub(super) const SOURCES: usize = 8;
/// Parity packets of a group.
pub(super) const REPAIRS: usize = 2;

/// The kind of a packet in a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A packet with its own code.
    Single = 1,
    /// A packet of a group.
    Source = 2,
    /// A parity packet of a group.
    Repair = 3,
}

/// The header of a packet of a group. For a packet with its own code, only the first four bytes have a meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Packets in the group, without parity. 0 in source packets.
    pub(super) sources: u8,
    /// Its index among the packets of its kind.
    pub(super) index: u8,
    /// The group's number.
    pub(super) group: u64,
}

impl Header {
    /// Length of the header of a packet of a group, in bytes.
    pub(super) const BYTES: usize = 12;

    pub(super) fn write(self, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&[self.kind as u8, self.sources, self.index, 0]);
        bytes[4..12].copy_from_slice(&self.group.to_be_bytes());
    }

    /// Reads a header, and checks that its numbers are in range.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, DropReason> {
        let bytes = bytes.first_chunk::<{ Self::BYTES }>().ok_or(DropReason::Malformed)?;
        let (sources, index) = (bytes[1], bytes[2]);
        let (kind, good) = match bytes[0] {
            1 => (Kind::Single, true),
            2 => (Kind::Source, usize::from(index) < SOURCES),
            3 => (Kind::Repair, (1..=SOURCES).contains(&usize::from(sources)) && usize::from(index) < REPAIRS),
            _ => return Err(DropReason::Malformed),
        };
        let [.., a, b, c, d, e, f, g, h] = *bytes;
        let header = Self { kind, sources, index, group: u64::from_be_bytes([a, b, c, d, e, f, g, h]) };
        if good { Ok(header) } else { Err(DropReason::Malformed) }
    }
}
