//! Turns H.264 in RTP packets into a stream with start codes (RFC 6184, modes 0 and 1: single units, STAP-A and
//! FU-A).

use std::collections::BTreeMap;
use std::path::Path;

use humpyard_core::frame::Frame;
use humpyard_traffic::{CaptureReader, FlowKey, Headers, Source, TrafficError};

/// The type of a sequence parameter set.
const SEQUENCE_SET: u8 = 7;
/// The baseline profile. Some senders leave out its flag `constraint_set0_flag`, and put bytes behind the end
/// of their picture parameter sets. Without the flag, libav takes these bytes for more parameters.
const BASELINE: u8 = 66;
const OBEYS_BASELINE: u8 = 0x80;

/// Builds a stream from the packets of one RTP stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Depacketizer {
    /// Units, each behind a start code.
    stream: Vec<u8>,
    /// The unit whose fragments are arriving. `None`: between units, or after a loss.
    fragments: Option<Vec<u8>>,
    last: Option<u16>,
    counts: Counts,
}

/// Counts of an RTP stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Packets that were read.
    pub packets: u64,
    /// Packets missing at their place in the sequence, by their numbers.
    pub lost: u64,
    /// Packets that are not valid H.264 by RFC 6184.
    pub malformed: u64,
    /// Units written to the stream.
    pub units: u64,
    /// Sequence parameter sets among the units.
    pub sequence_sets: u64,
    /// Picture parameter sets among the units.
    pub picture_sets: u64,
    /// Slices among the units at whose pictures decoding can begin.
    pub idr_slices: u64,
}

impl Counts {
    /// Returns whether a decoder can begin somewhere in the stream.
    pub const fn can_be_decoded(&self) -> bool {
        self.sequence_sets > 0 && self.picture_sets > 0 && self.idr_slices > 0
    }
}

/// A packet with a valid RTP header.
struct Rtp<'a> {
    payload_type: u8,
    number: u16,
    source: u32,
    payload: &'a [u8],
}

impl<'a> Rtp<'a> {
    /// Parses a header (RFC 3550, section 5.1).
    fn parse(data: &'a [u8]) -> Option<Self> {
        let (header, mut rest) = data.split_at_checked(12)?;
        if header[0] >> 6 != 2 {
            return None;
        }
        rest = rest.get(4 * usize::from(header[0] & 15)..)?;
        if header[0] & 0x10 != 0 {
            let words = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]);
            rest = rest.get(4 + 4 * usize::from(words)..)?;
        }
        if header[0] & 0x20 != 0 {
            let padding = usize::from(*rest.last()?);
            rest = rest.get(..rest.len().checked_sub(padding)?)?;
        }
        Some(Self {
            payload_type: header[1] & 0x7f,
            number: u16::from_be_bytes([header[2], header[3]]),
            source: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
            payload: rest,
        })
    }
}

impl Depacketizer {
    /// Takes a whole RTP packet, with its header.
    pub fn push(&mut self, packet: &[u8]) {
        match Rtp::parse(packet) {
            Some(packet) => self.take(&packet),
            None => self.counts.malformed += 1,
        }
    }

    fn take(&mut self, packet: &Rtp<'_>) {
        self.counts.packets += 1;
        let step = self.last.map_or(1, |last| packet.number.wrapping_sub(last));
        if step == 0 || step > u16::MAX / 2 {
            // A duplicate or late packet is ignored: its place has passed, and a late one was counted as lost.
            return;
        }
        self.last = Some(packet.number);
        if step > 1 {
            self.counts.lost += u64::from(step - 1);
            self.fragments = None;
        }
        if self.units_of(packet.payload).is_none() {
            self.counts.malformed += 1;
            self.fragments = None;
        }
    }

    /// Takes the units of a payload. `None`: the payload is not valid.
    fn units_of(&mut self, payload: &[u8]) -> Option<()> {
        const STAP_A: u8 = 24;
        const FU_A: u8 = 28;
        match payload.first()? & 0x1f {
            1..=23 => self.unit(payload),
            STAP_A => {
                let mut rest = &payload[1..];
                while let Some((length, behind)) = rest.split_at_checked(2) {
                    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
                    let (unit, behind) = behind.split_at_checked(length).filter(|(unit, _)| !unit.is_empty())?;
                    self.unit(unit);
                    rest = behind;
                }
            }
            FU_A => self.fragment(payload)?,
            _ => return None,
        }
        Some(())
    }

    fn fragment(&mut self, payload: &[u8]) -> Option<()> {
        const START: u8 = 0x80;
        const END: u8 = 0x40;
        let [indicator, header, bytes @ ..] = payload else { return None };
        if header & START != 0 {
            self.fragments = Some(vec![indicator & 0xe0 | header & 0x1f]);
        }
        // The first fragment was lost, and is counted as lost: the unit is skipped.
        let Some(fragments) = &mut self.fragments else { return Some(()) };
        fragments.extend(bytes);
        if header & END != 0 {
            let unit = self.fragments.take().unwrap_or_default();
            self.unit(&unit);
        }
        Some(())
    }

    fn unit(&mut self, unit: &[u8]) {
        self.counts.units += 1;
        match unit[0] & 0x1f {
            5 => self.counts.idr_slices += 1,
            SEQUENCE_SET => self.counts.sequence_sets += 1,
            8 => self.counts.picture_sets += 1,
            _ => {}
        }
        self.stream.extend([0, 0, 0, 1]);
        match *unit {
            [header, BASELINE, flags, ref rest @ ..] if header & 0x1f == SEQUENCE_SET => {
                self.stream.extend([header, BASELINE, flags | OBEYS_BASELINE]);
                self.stream.extend(rest);
            }
            _ => self.stream.extend(unit),
        }
    }

    /// Returns the counts up to now.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the stream, with start codes.
    pub fn into_stream(self) -> Vec<u8> {
        self.stream
    }
}

/// An RTP stream of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RtpStream {
    /// Its flow.
    pub flow: FlowKey,
    /// Its synchronization source.
    pub source: u32,
    /// Its payload type.
    pub payload_type: u8,
    /// The counts of its packets.
    pub counts: Counts,
    /// The units, with start codes.
    pub stream: Vec<u8>,
}

/// Reads all packets that look like RTP over UDP in a capture as H.264. The counts show which streams are not
/// H.264.
///
/// # Errors
/// The errors of the capture's reader.
pub fn streams_of(path: &Path) -> Result<Vec<RtpStream>, TrafficError> {
    let mut reader = CaptureReader::open(path)?;
    let mut frame = Frame::default();
    let mut found: BTreeMap<(FlowKey, u32, u8), Depacketizer> = BTreeMap::new();
    while reader.next(&mut frame)? {
        let headers = Headers::parse(&frame);
        if let Some(packet) = udp_payload(&headers, &frame.data).and_then(Rtp::parse) {
            found.entry((headers.key, packet.source, packet.payload_type)).or_default().take(&packet);
        }
    }
    let streams = found.into_iter().map(|((flow, source, payload_type), packets)| {
        let counts = packets.counts();
        RtpStream { flow, source, payload_type, counts, stream: packets.into_stream() }
    });
    Ok(streams.collect())
}

/// Returns the payload of a UDP datagram. `None`: it is not UDP, a fragment, or cut short.
fn udp_payload<'a>(headers: &Headers, data: &'a [u8]) -> Option<&'a [u8]> {
    const UDP: u8 = 17;
    if headers.key.protocol != UDP || headers.fragment {
        return None;
    }
    let datagram = data.get(headers.transport_offset? as usize..)?;
    let length = u16::from_be_bytes([*datagram.get(4)?, *datagram.get(5)?]);
    datagram.get(8..usize::from(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a packet with this sequence number.
    fn packet(number: u16, payload: &[u8]) -> Vec<u8> {
        let [high, low] = number.to_be_bytes();
        [&[0x80, 97, high, low, 0, 0, 0, 0, 1, 2, 3, 4], payload].concat()
    }

    fn stream(packets: &[Vec<u8>]) -> (Vec<u8>, Counts) {
        let mut depacketizer = Depacketizer::default();
        packets.iter().for_each(|packet| depacketizer.push(packet));
        let counts = depacketizer.counts();
        (depacketizer.into_stream(), counts)
    }

    #[test]
    fn units_come_alone_together_and_in_fragments() {
        let packets = [
            packet(65_534, &[0x78, 0, 2, 0x67, 9, 0, 1, 0x68]),
            packet(65_535, &[0x7c, 0x85, 1, 2]),
            packet(0, &[0x7c, 0x05, 3]),
            packet(1, &[0x7c, 0x45, 4]),
            packet(2, &[0x41, 5]),
        ];
        let (found, counts) = stream(&packets);
        let expected =
            [&[0, 0, 0, 1, 0x67, 9, 0, 0, 0, 1, 0x68, 0, 0, 0, 1][..], &[0x65, 1, 2, 3, 4, 0, 0, 0, 1, 0x41, 5]];
        assert_eq!(found, expected.concat());
        assert_eq!((counts.packets, counts.lost, counts.malformed, counts.units), (5, 0, 0, 4));
        assert!(counts.can_be_decoded());
    }

    #[test]
    fn a_unit_of_which_a_fragment_is_missing_is_left_out() {
        let fragments = [
            packet(1, &[0x7c, 0x85, 1]),
            packet(2, &[0x7c, 0x05, 2]),
            packet(3, &[0x7c, 0x45, 3]),
            packet(4, &[0x41, 5]),
        ];
        for missing in 0..3 {
            let mut packets = fragments.to_vec();
            packets.remove(missing);
            let (found, counts) = stream(&packets);
            assert_eq!(found, [0, 0, 0, 1, 0x41, 5], "without {missing}");
            assert_eq!(counts.lost, u64::from(missing > 0), "nobody knows of a first one");
            assert!(!counts.can_be_decoded());
        }
    }

    #[test]
    fn what_comes_twice_or_late_is_not_put_in() {
        let packets = [packet(5, &[0x41, 5]), packet(5, &[0x41, 5]), packet(7, &[0x41, 7]), packet(6, &[0x41, 6])];
        let (found, counts) = stream(&packets);
        assert_eq!(found, [0, 0, 0, 1, 0x41, 5, 0, 0, 0, 1, 0x41, 7]);
        assert_eq!((counts.packets, counts.lost), (4, 1));
    }

    #[test]
    fn baseline_says_twice_what_it_is() {
        let (found, counts) = stream(&[packet(1, &[0x67, 66, 0, 31, 9]), packet(2, &[0x67, 100, 0, 31])]);
        assert_eq!(found, [0, 0, 0, 1, 0x67, 66, 0x80, 31, 9, 0, 0, 0, 1, 0x67, 100, 0, 31]);
        assert_eq!(counts.sequence_sets, 2);
    }

    #[test]
    fn extensions_sources_and_padding_are_no_payload() {
        let plain = packet(1, &[0x41, 5]);
        let mut dressed = plain[..12].to_vec();
        dressed[0] = 0xb1;
        dressed.extend([9, 9, 9, 9, 0xbe, 0xde, 0, 1, 7, 7, 7, 7, 0x41, 5, 0, 0, 3]);
        assert_eq!(stream(&[dressed]).0, stream(&[plain]).0);
    }

    #[test]
    fn nothing_panics_on_what_is_cut_or_wrong() {
        let whole = packet(1, &[0x78, 0, 2, 0x67, 9, 0, 1, 0x68]);
        for length in 0..whole.len() {
            let counts = stream(&[whole[..length].to_vec()]).1;
            assert!(length == 17 || counts.malformed == 1 || counts.units < 2, "{length}: {counts:?}");
        }
        for (kind, malformed) in [(0u8, 1), (25, 1), (28, 1), (30, 1), (1, 0)] {
            assert_eq!(stream(&[packet(1, &[kind])]).1.malformed, malformed, "type {kind}");
        }
    }
}
