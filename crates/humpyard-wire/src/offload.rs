//! What a system leaves for its network card to do, done here: checksums, and cutting big frames into packets.
//!
//! Between virtual interfaces nobody ever does it, so that most frames arrive without a checksum and some with up to 64
//! KiB. Here every frame becomes packets as they would have been on a wire, before anything else looks at them.
//!
//! # Source
//! The header is `struct virtio_net_hdr` of the virtio specification 1.2, section 5.1.6; cutting up is what a network
//! card does for TCP (RFC 9293, section 3.1: sequence numbers and flags) and UDP (each segment a datagram of its own).

use humpyard_core::frame::Frame;
use humpyard_services::checksum::{self, Sum};
use humpyard_services::link::{IpVersion, Network};

/// What was left undone with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Offload {
    /// Where the checksum begins and, from there, where it goes; it holds the sum of the pseudo-header.
    checksum: Option<(usize, usize)>,
    /// Payload bytes of each packet but the last, and of what protocol it is.
    segments: Option<(usize, Segmented)>,
}

/// What can be cut up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Segmented {
    Tcp,
    Udp,
}

/// Bytes of the header that the system puts before a frame.
pub(crate) const HEADER_BYTES: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const SEGMENT_NONE: u8 = 0;
const SEGMENT_TCP_V4: u8 = 1;
const SEGMENT_TCP_V6: u8 = 4;
const SEGMENT_UDP: u8 = 5;
/// Says beside the kind that the first packet reports congestion.
const SEGMENT_ECN: u8 = 0x80;

const TCP_HEADER_MIN: usize = 20;
const TCP_FLAGS: usize = 13;
const TCP_FIN: u8 = 0x01;
const TCP_PUSH: u8 = 0x08;
const TCP_CONGESTION_REDUCED: u8 = 0x80;
const UDP_HEADER: usize = 8;

impl Offload {
    /// What this header says; none if it asks for what cannot be done here.
    pub(crate) fn parse(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let size = word(4);
        let segments = match header[1] & !SEGMENT_ECN {
            SEGMENT_NONE => None,
            SEGMENT_TCP_V4 | SEGMENT_TCP_V6 => Some((size, Segmented::Tcp)),
            SEGMENT_UDP => Some((size, Segmented::Udp)),
            _ => return None,
        };
        if segments.is_some_and(|(size, _)| size == 0) {
            return None;
        }
        let checksum = (header[0] & NEEDS_CHECKSUM != 0).then(|| (word(6), word(8)));
        Some(Self { checksum, segments })
    }

    /// What is left to do with a frame whose length alone shows that it was put together of several: TCP is cut into packets of at
    /// most `packet_bytes_max` bytes, without the link's header. `None`: the frame must be cut as it was put together.
    pub(crate) fn of_big(frame: &Frame, packet_bytes_max: usize) -> Option<Self> {
        let whole = Whole::find(frame)?;
        if whole.protocol != 6 || whole.is_fragment || whole.end != frame.data.len() {
            return None;
        }
        let header = usize::from(frame.data.get(whole.transport + 12)? >> 4) * 4;
        let headers = whole.transport - whole.network + header;
        let size = packet_bytes_max.checked_sub(headers).filter(|&size| size > 0)?;
        Some(Self { checksum: None, segments: Some((size, Segmented::Tcp)) })
    }

    /// Whether the frame is to be cut up.
    pub(crate) const fn is_big(self) -> bool {
        self.segments.is_some()
    }

    /// Fills in the checksum that is missing; false if it is not within the frame.
    pub(crate) fn fill_in(self, data: &mut [u8]) -> bool {
        let Some((start, offset)) = self.checksum else { return true };
        let at = start + offset;
        if at + 2 > data.len() {
            return false;
        }
        let sum = written(checksum::checksum(&data[start..]));
        data[at..at + 2].copy_from_slice(&sum);
        true
    }
}

/// A checksum as it is written: zero says that there is none, so a sum of zero is written as ones (RFC 768).
const fn written(checksum: u16) -> [u8; 2] {
    if checksum == 0 { [0xff; 2] } else { checksum.to_be_bytes() }
}

/// If the checksum of a TCP or UDP packet holds the sum of its pseudo-header alone, as a system leaves it for its card,
/// fills it in. For interfaces that do not tell what was left undone. One packet in 65,536 looks so by chance, so the
/// whole is summed before it is touched.
pub(crate) fn fill_in_if_left(frame: &mut Frame) {
    let Some(whole) = Whole::find(frame) else { return };
    let field = match whole.protocol {
        6 => whole.transport + 16,
        17 => whole.transport + 6,
        _ => return,
    };
    let end = whole.end;
    if whole.is_fragment || field + 2 > end || end > frame.data.len() {
        return;
    }
    let length = end - whole.transport;
    let pseudo = whole.pseudo_header(&frame.data, length);
    if frame.data[field..field + 2] != pseudo.fold().to_be_bytes() {
        return;
    }
    // With the field as it stands a good packet sums to all ones.
    if pseudo.with(&frame.data[whole.transport..end]).fold() == 0xffff {
        return;
    }
    let sum = written(checksum::checksum(&frame.data[whole.transport..end]));
    frame.data[field..field + 2].copy_from_slice(&sum);
}

/// Where things are in a packet.
struct Whole {
    version: IpVersion,
    network: usize,
    transport: usize,
    /// Where the packet ends: behind it a link may pad.
    end: usize,
    protocol: u8,
    is_fragment: bool,
}

impl Whole {
    /// Finds TCP or UDP directly behind IP. `None`: there is neither.
    fn find(frame: &Frame) -> Option<Self> {
        let Network { offset, version, .. } = Network::find(frame).ok()?;
        let header = frame.data.get(offset..)?;
        Some(match version {
            IpVersion::V4 => {
                let header: &[u8; 20] = header.first_chunk()?;
                let bytes = usize::from(header[0] & 15) * 4;
                if bytes < header.len() {
                    return None;
                }
                Self {
                    version,
                    network: offset,
                    transport: offset + bytes,
                    end: offset + usize::from(u16::from_be_bytes([header[2], header[3]])),
                    protocol: header[9],
                    is_fragment: u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0,
                }
            }
            IpVersion::V6 => {
                let header: &[u8; 40] = header.first_chunk()?;
                Self {
                    version,
                    network: offset,
                    transport: offset + 40,
                    end: offset + 40 + usize::from(u16::from_be_bytes([header[4], header[5]])),
                    protocol: header[6],
                    is_fragment: false,
                }
            }
        })
    }

    /// The sum of the pseudo-header of a transport packet of `length` bytes (RFC 9293, section 3.1; RFC 8200, section
    /// 8.1).
    fn pseudo_header(&self, data: &[u8], length: usize) -> Sum {
        let addresses = match self.version {
            IpVersion::V4 => self.network + 12..self.network + 20,
            IpVersion::V6 => self.network + 8..self.network + 40,
        };
        let length = (length as u32).to_be_bytes();
        Sum::default().with(&data[addresses]).with(&length).with(&[0, self.protocol])
    }
}

/// Cuts a big frame into packets, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Segmenter {
    /// The big frame.
    big: Frame,
    /// Where its packets are, while there are any left.
    under_way: Option<UnderWay>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    kind: Segmented,
    version: IpVersion,
    network: usize,
    transport: usize,
    /// Where the payload begins.
    payload: usize,
    /// Payload bytes of a packet.
    size: usize,
    /// Packets given so far.
    given: usize,
}

impl Segmenter {
    /// The frame to be filled with a big one.
    pub(crate) const fn frame(&mut self) -> &mut Frame {
        &mut self.big
    }

    /// Begins to cut up the frame; false if it is not what the header says.
    pub(crate) fn begin(&mut self, offload: Offload) -> bool {
        self.under_way = self.plan(offload);
        self.under_way.is_some()
    }

    fn plan(&self, offload: Offload) -> Option<UnderWay> {
        let (size, kind) = offload.segments?;
        let whole = Whole::find(&self.big)?;
        let transport = offload.checksum.map_or(whole.transport, |(start, _)| start);
        let header = match kind {
            Segmented::Tcp => usize::from(self.big.data.get(transport + 12)? >> 4) * 4,
            Segmented::Udp => UDP_HEADER,
        };
        let is_whole = match kind {
            Segmented::Tcp => header >= TCP_HEADER_MIN,
            Segmented::Udp => true,
        };
        let payload = transport + header;
        (is_whole && transport >= whole.transport && payload < self.big.data.len()).then_some(UnderWay {
            kind,
            version: whole.version,
            network: whole.network,
            transport,
            payload,
            size,
            given: 0,
        })
    }

    /// Fills `frame` with the next packet; false if there is none left.
    pub(crate) fn next(&mut self, frame: &mut Frame) -> bool {
        let Some(under_way) = &mut self.under_way else { return false };
        let UnderWay { payload, size, given, .. } = *under_way;
        let begin = payload + given * size;
        let end = (begin + size).min(self.big.data.len());
        let is_last = end == self.big.data.len();
        (frame.time, frame.link, frame.port, frame.answer) = (self.big.time, self.big.link, self.big.port, false);
        frame.data.clear();
        frame.data.extend_from_slice(&self.big.data[..payload]);
        frame.data.extend_from_slice(&self.big.data[begin..end]);
        frame.wire_length = frame.data.len() as u32;
        under_way.mend_network(&mut frame.data);
        under_way.mend_transport(&mut frame.data, is_last);
        under_way.given += 1;
        if is_last {
            self.under_way = None;
        }
        true
    }
}

impl UnderWay {
    /// Lengths, the identification, and the checksum of an IPv4 header.
    fn mend_network(&self, data: &mut [u8]) {
        let length = data.len() - self.network;
        let header = &mut data[self.network..self.transport];
        match self.version {
            IpVersion::V4 => {
                header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                let first = u16::from_be_bytes([header[4], header[5]]);
                header[4..6].copy_from_slice(&first.wrapping_add(self.given as u16).to_be_bytes());
                header[10..12].fill(0);
                let bytes = usize::from(header[0] & 15) * 4;
                let sum = checksum::checksum(&header[..bytes.min(header.len())]);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            IpVersion::V6 => header[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes()),
        }
    }

    /// Sequence number and flags of TCP, length of UDP, and the checksum.
    fn mend_transport(&self, data: &mut [u8], is_last: bool) {
        let length = data.len() - self.transport;
        let (header, protocol, field) = (&mut data[self.transport..], self.protocol(), self.checksum_field());
        match self.kind {
            Segmented::Tcp => {
                let first = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                let sequence = first.wrapping_add((self.given * self.size) as u32);
                header[4..8].copy_from_slice(&sequence.to_be_bytes());
                if !is_last {
                    header[TCP_FLAGS] &= !(TCP_FIN | TCP_PUSH);
                }
                if self.given > 0 {
                    header[TCP_FLAGS] &= !TCP_CONGESTION_REDUCED;
                }
            }
            Segmented::Udp => header[4..6].copy_from_slice(&(length as u16).to_be_bytes()),
        }
        header[field..field + 2].fill(0);
        let whole = Whole {
            version: self.version,
            network: self.network,
            transport: self.transport,
            end: data.len(),
            protocol,
            is_fragment: false,
        };
        let sum = whole.pseudo_header(data, length).with(&data[self.transport..]).checksum();
        data[self.transport + field..][..2].copy_from_slice(&written(sum));
    }

    const fn protocol(&self) -> u8 {
        match self.kind {
            Segmented::Tcp => 6,
            Segmented::Udp => 17,
        }
    }

    /// Where the checksum is in the transport header.
    const fn checksum_field(&self) -> usize {
        match self.kind {
            Segmented::Tcp => 16,
            Segmented::Udp => 6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4_ADDRESSES: [u8; 8] = [10, 0, 0, 1, 10, 0, 0, 2];

    /// A frame of TCP or UDP with `payload` bytes, its checksum left undone.
    fn unfinished(version: IpVersion, kind: Segmented, payload: usize) -> Frame {
        let transport_bytes = payload
            + match kind {
                Segmented::Tcp => TCP_HEADER_MIN,
                Segmented::Udp => UDP_HEADER,
            };
        let protocol = if kind == Segmented::Tcp { 6 } else { 17 };
        let mut data = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        match version {
            IpVersion::V4 => {
                data.extend([8, 0, 0x45, 0]);
                data.extend((20 + transport_bytes as u16).to_be_bytes());
                data.extend([0xff, 0xff, 0x40, 0, 64, protocol, 0, 0]);
                data.extend(V4_ADDRESSES);
                let sum = checksum::checksum(&data[14..34]);
                data[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            IpVersion::V6 => {
                data.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                data.extend((transport_bytes as u16).to_be_bytes());
                data.extend([protocol, 64]);
                data.extend([0xfd; 32]);
            }
        }
        match kind {
            Segmented::Tcp => {
                data.extend([0x12, 0x34, 0, 80, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9]);
                data.extend([0x50, TCP_FIN | TCP_PUSH | TCP_CONGESTION_REDUCED | 0x10, 1, 0, 0, 0, 0, 0]);
            }
            Segmented::Udp => {
                data.extend([0x12, 0x34, 0, 53]);
                data.extend((transport_bytes as u16).to_be_bytes());
                data.extend([0, 0]);
            }
        }
        data.extend((0..payload).map(|at| (at % 251) as u8));
        let mut frame = Frame { wire_length: data.len() as u32, data, ..Frame::default() };
        let whole = Whole::find(&frame).unwrap();
        let field = whole.transport + if kind == Segmented::Tcp { 16 } else { 6 };
        let pseudo = whole.pseudo_header(&frame.data, transport_bytes).fold().to_be_bytes();
        frame.data[field..field + 2].copy_from_slice(&pseudo);
        frame
    }

    fn header(flags: u8, kind: u8, size: u16, start: u16, offset: u16) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        (header[0], header[1]) = (flags, kind);
        for (at, word) in [(4, size), (6, start), (8, offset)] {
            header[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        header
    }

    /// Whether all checksums and lengths of a packet are right.
    fn is_good(frame: &Frame) -> bool {
        let whole = Whole::find(frame).unwrap();
        let network = match whole.version {
            IpVersion::V4 => checksum::is_valid(&frame.data[whole.network..whole.transport]),
            IpVersion::V6 => true,
        };
        let length = whole.end - whole.transport;
        let sum = whole.pseudo_header(&frame.data, length).with(&frame.data[whole.transport..whole.end]).fold();
        network && whole.end == frame.data.len() && frame.wire_length as usize == whole.end && sum == 0xffff
    }

    #[test]
    fn a_missing_checksum_is_filled_in() {
        for version in [IpVersion::V4, IpVersion::V6] {
            for (kind, offset) in [(Segmented::Tcp, 16), (Segmented::Udp, 6)] {
                for payload in [0, 1, 2, 333] {
                    let mut frame = unfinished(version, kind, payload);
                    assert!(!is_good(&frame));
                    let start = Whole::find(&frame).unwrap().transport as u16;
                    let told = Offload::parse(&header(NEEDS_CHECKSUM, 0, 0, start, offset)).unwrap();
                    let mut untold = frame.clone();
                    assert!(told.fill_in(&mut frame.data) && is_good(&frame), "{version:?} {kind:?} {payload}");
                    fill_in_if_left(&mut untold);
                    assert_eq!(untold, frame);
                    fill_in_if_left(&mut untold);
                    assert_eq!(untold, frame, "a good packet is left alone");
                }
            }
        }
    }

    #[test]
    fn a_wrong_checksum_that_is_not_an_unfinished_one_is_left_alone() {
        let mut frame = unfinished(IpVersion::V4, Segmented::Tcp, 100);
        frame.data[50] ^= 1;
        let before = frame.clone();
        fill_in_if_left(&mut frame);
        assert_eq!(frame, before);
    }

    #[test]
    fn big_frames_are_cut_into_good_packets_with_the_same_bytes() {
        for version in [IpVersion::V4, IpVersion::V6] {
            for (kind, said, offset) in
                [(Segmented::Tcp, SEGMENT_TCP_V4 | SEGMENT_ECN, 16), (Segmented::Udp, SEGMENT_UDP, 6)]
            {
                for payload in [1, 1000, 1001, 3000, 64_000] {
                    let big = unfinished(version, kind, payload);
                    let start = Whole::find(&big).unwrap().transport;
                    let offload = Offload::parse(&header(NEEDS_CHECKSUM, said, 1000, start as u16, offset)).unwrap();
                    let mut segmenter = Segmenter::default();
                    *segmenter.frame() = big.clone();
                    assert!(segmenter.begin(offload));
                    let (mut frame, mut packets, mut bytes) = (Frame::default(), 0, Vec::new());
                    while segmenter.next(&mut frame) {
                        assert!(is_good(&frame), "{version:?} {kind:?} {payload}, packet {packets}");
                        let header = if kind == Segmented::Tcp { TCP_HEADER_MIN } else { UDP_HEADER };
                        bytes.extend_from_slice(&frame.data[start + header..]);
                        packets += 1;
                    }
                    assert_eq!(packets, payload.div_ceil(1000));
                    assert_eq!(bytes, big.data[big.data.len() - payload..]);
                }
            }
        }
    }

    #[test]
    fn frames_of_tcp_that_nobody_tells_about_are_cut_to_the_mtu() {
        for version in [IpVersion::V4, IpVersion::V6] {
            let mut segmenter = Segmenter::default();
            *segmenter.frame() = unfinished(version, Segmented::Tcp, 5000);
            let offload = Offload::of_big(segmenter.frame(), 1500).unwrap();
            assert!(segmenter.begin(offload));
            let (mut frame, mut bytes) = (Frame::default(), 0);
            while segmenter.next(&mut frame) {
                let whole = Whole::find(&frame).unwrap();
                assert!(is_good(&frame) && frame.data.len() <= 1514, "{version:?}");
                bytes += frame.data.len() - whole.transport - TCP_HEADER_MIN;
            }
            assert_eq!(bytes, 5000);
            assert_eq!(Offload::of_big(&unfinished(version, Segmented::Udp, 5000), 1500), None);
            assert_eq!(Offload::of_big(&unfinished(version, Segmented::Tcp, 5000), 40), None);
        }
    }

    #[test]
    fn sequence_numbers_wrap_and_flags_go_where_they_belong() {
        let mut segmenter = Segmenter::default();
        *segmenter.frame() = unfinished(IpVersion::V4, Segmented::Tcp, 250);
        assert!(segmenter.begin(Offload::parse(&header(NEEDS_CHECKSUM, SEGMENT_TCP_V4, 100, 34, 16)).unwrap()));
        let (mut frame, mut found) = (Frame::default(), Vec::new());
        while segmenter.next(&mut frame) {
            let at = |at: usize| u16::from_be_bytes([frame.data[at], frame.data[at + 1]]);
            found.push((at(18), at(38), at(40), frame.data[34 + TCP_FLAGS]));
        }
        let (first, middle, last) = (0x90, 0x10, 0x19);
        assert_eq!(found, [(0xffff, 0xffff, 0xfff0, first), (0, 0, 0x54, middle), (1, 0, 0xb8, last)]);
    }

    #[test]
    fn headers_that_lie_are_refused() {
        assert_eq!(Offload::parse(&header(0, 3, 1000, 0, 0)), None, "fragments of UDP");
        assert_eq!(Offload::parse(&header(0, SEGMENT_TCP_V4, 0, 0, 0)), None, "packets of no bytes");
        let far = Offload::parse(&header(NEEDS_CHECKSUM, 0, 0, 60_000, 16)).unwrap();
        assert!(!far.fill_in(&mut [0; 64]));
        let mut segmenter = Segmenter::default();
        for (data, start) in [(vec![0; 64], 34), (unfinished(IpVersion::V4, Segmented::Tcp, 10).data, 60_000)] {
            segmenter.frame().data = data;
            let offload = Offload::parse(&header(NEEDS_CHECKSUM, SEGMENT_TCP_V4, 100, start, 16)).unwrap();
            assert!(!segmenter.begin(offload));
            assert!(!segmenter.next(&mut Frame::default()));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            data in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
            header in proptest::array::uniform10(proptest::num::u8::ANY),
        ) {
            let mut frame = Frame { data, ..Frame::default() };
            fill_in_if_left(&mut frame);
            if let Some(offload) = Offload::parse(&header) {
                let mut copy = frame.data.clone();
                offload.fill_in(&mut copy);
                let mut segmenter = Segmenter::default();
                *segmenter.frame() = frame;
                if offload.is_big() && segmenter.begin(offload) {
                    while segmenter.next(&mut Frame::default()) {}
                }
            }
        }
    }
}
