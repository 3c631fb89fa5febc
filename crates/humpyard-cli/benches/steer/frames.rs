//! Frames of flows, which say of which flow they are and when in its order they were sent.

/// The Ethernet header of frames from the sender to the router.
const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
/// Where frames go: behind the router, and nobody is there.
const DESTINATION: [u8; 4] = [10, 9, 1, 9];
/// What marks a frame of the sender, in front of flow and number.
const MARK: [u8; 4] = *b"hyst";
/// Bytes at the end of a frame: mark, flow, and number in the flow.
const TAIL: usize = 16;
/// The longest frame of an interface with the usual MTU.
const LONGEST: usize = 1_514;
/// Bytes of a frame that is made up.
const BYTES: usize = 120;
/// The port of GTP-U: both ends use it, so a tunnel is one flow.
const GTP_U: u16 = 2152;

/// The number of UDP and of TCP.
pub(crate) const UDP: u8 = 17;
const TCP: u8 = 6;

/// A frame that is sent again and again.
#[derive(Clone, Debug)]
pub(crate) struct FrameOfFlow {
    pub(crate) flow: u32,
    pub(crate) bytes: Vec<u8>,
}

impl FrameOfFlow {
    /// A frame of this length from an address that only this flow has.
    pub(crate) fn new(flow: u32, protocol: u8, ports: (u16, u16), length: usize) -> Self {
        let [_, _, high, low] = flow.to_be_bytes();
        let headers = 34 + if protocol == TCP { 20 } else { 8 };
        let length = length.clamp(headers + TAIL, LONGEST);
        let transport = transport(protocol, ports, length - 34);
        let bytes = [&ETHERNET[..], &ipv4(protocol, [10, 64, high, low], DESTINATION, &transport)].concat();
        Self { flow, bytes }
    }

    /// A short UDP frame of this flow.
    pub(crate) fn short(flow: u32, port: u16) -> Self {
        Self::new(flow, UDP, (1_024 + flow as u16, port), BYTES)
    }

    /// A UDP packet of this flow in a tunnel (GTP-U) that all flows share.
    pub(crate) fn in_tunnel(flow: u32) -> Self {
        let [_, _, high, low] = flow.to_be_bytes();
        let inner = ipv4(UDP, [10, 100, high, low], [10, 101, 0, 1], &transport(UDP, (1_024 + flow as u16, 53), 60));
        let [length_high, length_low] = (inner.len() as u16).to_be_bytes();
        let tunnel = [&[0x30, 255, length_high, length_low, 0, 0, 0, 5][..], &inner].concat();
        let mut outer = transport(UDP, (GTP_U, GTP_U), 8 + tunnel.len());
        outer[8..].copy_from_slice(&tunnel);
        Self { flow, bytes: [&ETHERNET[..], &ipv4(UDP, [10, 64, 200, 1], DESTINATION, &outer)].concat() }
    }

    /// Writes into a copy of the frame which one of its flow it is.
    pub(crate) fn number(&self, number: u64, copy: &mut Vec<u8>) {
        copy.clear();
        copy.extend_from_slice(&self.bytes);
        let at = copy.len() - TAIL;
        copy[at..at + 4].copy_from_slice(&MARK);
        copy[at + 4..at + 8].copy_from_slice(&self.flow.to_be_bytes());
        copy[at + 8..].copy_from_slice(&number.to_be_bytes());
    }
}

/// Reads flow and number of a frame. `None`: it is not the sender's.
pub(crate) fn read(bytes: &[u8]) -> Option<(u32, u64)> {
    let tail = bytes.get(bytes.len().checked_sub(TAIL)?..)?;
    let (flow, number) = (tail[4..8].try_into().ok()?, tail[8..].try_into().ok()?);
    (tail[..4] == MARK).then_some((u32::from_be_bytes(flow), u64::from_be_bytes(number)))
}

/// A header of this protocol and its payload. UDP has no checksum, and nobody looks at that of TCP.
fn transport(protocol: u8, ports: (u16, u16), length: usize) -> Vec<u8> {
    let mut bytes = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    match protocol {
        TCP => bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]),
        _ => bytes.extend([(length as u16).to_be_bytes(), [0, 0]].concat()),
    }
    bytes.resize(length, 0);
    bytes
}

fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + payload.len() as u16).to_be_bytes());
    header.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    header.extend([from, to].concat());
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, payload.to_vec()].concat()
}
