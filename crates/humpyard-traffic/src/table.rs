//! Packets in memory, as columns: for programs that have packets in a table instead of a capture.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use etherparse::PacketBuilder;
use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::unit::Time;

use crate::error::TrafficError;
use crate::header::{FlowKey, Headers, Kind, Network};
use crate::source::{Numbered, NumberedFlows, Source};

/// The values of one column, in the order of the packets.
pub type Column<T> = Arc<dyn AsRef<[T]> + Send + Sync>;

/// A batch of consecutive packets.
#[derive(Clone)]
pub struct TableBatch {
    /// Arrival times, in ns.
    pub times: Column<u64>,
    /// Numbers of the packets' flows.
    pub flows: Column<u64>,
    /// Lengths on the wire, in bytes.
    pub lengths: Column<u32>,
}

impl TableBatch {
    fn len(&self) -> usize {
        (*self.times).as_ref().len()
    }

    fn packet(&self, at: usize) -> Numbered {
        let (times, flows, lengths) = ((*self.times).as_ref(), (*self.flows).as_ref(), (*self.lengths).as_ref());
        Numbered { time: Time::from_ns(times[at]), flow: flows[at], length: lengths[at] }
    }
}

/// Packets in memory. A copy shares their columns.
#[derive(Clone)]
pub struct PacketTable {
    batches: Arc<[TableBatch]>,
    packets: u64,
    flows: Arc<TableFlows>,
}

/// The description of a table's flows.
#[derive(Clone, Debug, Default)]
pub struct TableFlows {
    /// The keys of flows, by number from 0. Flows without a key are UDP flows between addresses made of their numbers.
    pub keys: Vec<FlowKey>,
    /// The number of services. The flow `number` has service `number % services`, and the destination port
    /// [`FIRST_PORT`] plus that. 0: all flows have one port.
    pub services: u16,
}

/// The destination port of flows with the first service of a table; each further service has the next port.
pub const FIRST_PORT: u16 = 40_000;

impl PacketTable {
    /// Joins batches.
    ///
    /// # Errors
    /// If columns have different lengths, or a packet is earlier than the previous one.
    pub fn new(batches: Vec<TableBatch>, flows: TableFlows) -> Result<Self, TrafficError> {
        let (mut last, mut packets) = (0, 0u64);
        for batch in &batches {
            let times = (*batch.times).as_ref();
            if times.len() != (*batch.flows).as_ref().len() || times.len() != (*batch.lengths).as_ref().len() {
                return Err(TrafficError::usage("the columns of the table of packets have different lengths"));
            }
            for &time in times {
                if time < last {
                    return Err(TrafficError::usage(format!(
                        "the table of packets: packet {packets} arrives at {time} ns, before the packet ahead of it at {last} \
                         ns: sort the table by time"
                    )));
                }
                last = time;
                packets += 1;
            }
        }
        Ok(Self { batches: batches.into(), packets, flows: Arc::new(flows) })
    }

    /// Returns the number of packets.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns a source of the packets, from the first on.
    pub fn open(&self) -> TableSource {
        TableSource { table: self.clone(), description: self.to_string(), batch: 0, at: 0, given: 0 }
    }
}

impl fmt::Display for PacketTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table of {} packets", self.packets)
    }
}

impl fmt::Debug for PacketTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketTable({self})")
    }
}

impl TableFlows {
    /// Returns the key of a flow.
    fn key(&self, number: u64) -> FlowKey {
        if let Some(key) = usize::try_from(number).ok().and_then(|at| self.keys.get(at)) {
            return *key;
        }
        let (flow, service) = match u64::from(self.services) {
            0 => (number, 0),
            services => (number / services, (number % services) as u16),
        };
        let mut key = FlowKey {
            network: Network::Ipv4,
            protocol: UDP,
            source_port: SOURCE_PORT,
            destination_port: FIRST_PORT + service,
            ..FlowKey::default()
        };
        if flow < 1 << 24 {
            key.source[..4].copy_from_slice(&(TEN | flow as u32).to_be_bytes());
            key.destination[..4].copy_from_slice(&[172, 16, 0, 1]);
        } else {
            key.network = Network::Ipv6;
            (key.source[0], key.destination[0], key.destination[15]) = (0xfd, 0xfd, 1);
            key.source[8..].copy_from_slice(&flow.to_be_bytes());
        }
        key
    }
}

/// The network 10.0.0.0/8, set aside for private use (RFC 1918).
const TEN: u32 = 10 << 24;
const SOURCE_PORT: u16 = 1024;
const UDP: u8 = 17;
const TCP: u8 = 6;
const ETHERNET_BYTES: u32 = 14;

impl NumberedFlows for TableFlows {
    fn headers(&self, flow: u64) -> Headers {
        let key = self.key(flow);
        let kind = match key.protocol {
            TCP => Kind::Tcp,
            UDP => Kind::Udp,
            1 | 58 => Kind::Icmp,
            _ => Kind::OtherIp,
        };
        let ip_bytes = if key.network == Network::Ipv4 { 20 } else { 40 };
        Headers {
            kind,
            key,
            ip_offset: Some(ETHERNET_BYTES),
            transport_offset: Some(ETHERNET_BYTES + ip_bytes),
            ..Headers::default()
        }
    }
}

/// A source of the packets of a table.
#[derive(Clone, Debug)]
pub struct TableSource {
    table: PacketTable,
    description: String,
    batch: usize,
    at: usize,
    given: u64,
}

impl TableSource {
    fn take(&mut self) -> Option<Numbered> {
        while self.at == self.table.batches.get(self.batch)?.len() {
            (self.batch, self.at) = (self.batch + 1, 0);
        }
        let packet = self.table.batches[self.batch].packet(self.at);
        self.at += 1;
        self.given += 1;
        Some(packet)
    }
}

impl Source for TableSource {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let Some(packet) = self.take() else { return Ok(false) };
        write(&self.table.flows, packet, frame);
        Ok(true)
    }

    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        Some(Arc::clone(&self.table.flows) as _)
    }

    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> Result<bool, TrafficError> {
        for _ in 0..most {
            match self.take() {
                Some(packet) => packets.push(packet),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn progress(&self) -> Option<f64> {
        Some(self.given as f64 / self.table.packets.max(1) as f64)
    }

    fn packets_left(&self) -> Option<u64> {
        Some(self.table.packets - self.given)
    }
}

/// Writes a packet of a flow as a frame.
pub(crate) fn write(flows: &TableFlows, packet: Numbered, frame: &mut Frame) {
    (frame.time, frame.link) = (packet.time, LinkType::Ethernet);
    write_data(&flows.key(packet.flow), packet.length, &mut frame.data);
    frame.wire_length = packet.length.max(frame.data.len() as u32);
}

/// Writes a packet of this flow, with zeros behind its headers. It has this length, but at least that of its
/// headers.
fn write_data(key: &FlowKey, length: u32, data: &mut Vec<u8>) {
    data.clear();
    let hardware = ([2, 0, 1, 0, 0, 1], [2, 0, 2, 0, 0, 1]);
    let ethernet = PacketBuilder::ethernet2(hardware.0, hardware.1);
    let ip = match key.network {
        Network::Ipv6 => {
            ethernet.ipv6(Ipv6Addr::from(key.source).octets(), Ipv6Addr::from(key.destination).octets(), HOPS)
        }
        _ => {
            let address = |bytes: &[u8; 16]| Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).octets();
            ethernet.ipv4(address(&key.source), address(&key.destination), HOPS)
        }
    };
    let header_bytes = ETHERNET_BYTES as usize
        + if key.network == Network::Ipv6 { 40 } else { 20 }
        + if key.protocol == TCP { 20 } else { 8 };
    let payload = &ZEROS[..(length as usize).saturating_sub(header_bytes).min(PAYLOAD_MAX)];
    let (from, to) = (key.source_port, key.destination_port);
    let written = match key.protocol {
        TCP => ip.tcp(from, to, 0, 0).write(data, payload),
        _ => ip.udp(from, to).write(data, payload),
    };
    written.expect("writing to memory does not fail, and an IP packet has room for the payload");
}

const HOPS: u8 = 64;
/// Longest payload of an IPv4 packet behind a TCP header, in bytes. Longer packets are like segments that a
/// card has assembled: they have the table's length, but their bytes are cut.
const PAYLOAD_MAX: usize = 65_535 - 40;
static ZEROS: [u8; PAYLOAD_MAX] = [0; PAYLOAD_MAX];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repeat::Repeat;

    fn batch(times: &[u64], flows: &[u64], lengths: &[u32]) -> TableBatch {
        TableBatch {
            times: Arc::new(times.to_vec()),
            flows: Arc::new(flows.to_vec()),
            lengths: Arc::new(lengths.to_vec()),
        }
    }

    #[test]
    fn batches_follow_one_another_and_are_played_again() {
        let batches = vec![batch(&[5, 7], &[1, 2], &[100, 200]), batch(&[], &[], &[]), batch(&[7], &[1], &[60])];
        let table = PacketTable::new(batches, TableFlows::default()).unwrap();
        assert_eq!((table.packets(), table.to_string()), (3, "table of 3 packets".to_owned()));
        let opened = table.clone();
        let mut source = Repeat::new(move || Ok(Box::new(opened.open())), 2).unwrap();
        let mut packets = Vec::new();
        while source.next_numbered(&mut packets, 2).unwrap() {}
        let found: Vec<_> = packets.iter().map(|packet| (packet.time.as_ns(), packet.flow, packet.length)).collect();
        assert_eq!(found, [(5, 1, 100), (7, 2, 200), (7, 1, 60), (8, 1, 100), (10, 2, 200), (10, 1, 60)]);
    }

    #[test]
    fn frames_have_the_headers_that_numbers_have() {
        let wide = FlowKey {
            network: Network::Ipv6,
            protocol: TCP,
            source_port: 5,
            destination_port: 80,
            ..FlowKey::default()
        };
        for flows in [
            TableFlows::default(),
            TableFlows { services: 3, ..TableFlows::default() },
            TableFlows { keys: vec![wide], services: 0 },
        ] {
            let numbers = [0, 1, 2, 1 << 23, 1 << 40];
            let table = PacketTable::new(vec![batch(&[0; 5], &numbers, &[100; 5])], flows.clone()).unwrap();
            let (mut source, mut frame) = (table.open(), Frame::default());
            for number in numbers {
                assert!(source.next(&mut frame).unwrap());
                assert_eq!(Headers::parse(&frame).key, flows.headers(number).key, "{number}");
                assert_eq!(Headers::parse(&frame), flows.headers(number), "{number}");
                assert_eq!(frame.wire_length, 100);
            }
        }
    }

    #[test]
    fn lengths_that_no_frame_has_are_kept_and_the_bytes_are_cut() {
        let tcp = FlowKey { protocol: TCP, ..FlowKey::default() };
        for keys in [Vec::new(), vec![tcp]] {
            let lengths = [0, 65_549, 65_550, u32::MAX];
            let flows = TableFlows { keys, services: 0 };
            let table = PacketTable::new(vec![batch(&[0; 4], &[0; 4], &lengths)], flows).unwrap();
            let (mut source, mut frame) = (table.open(), Frame::default());
            for length in lengths {
                assert!(source.next(&mut frame).unwrap());
                assert_eq!(frame.wire_length, length.max(frame.data.len() as u32));
                assert!(frame.data.len() <= 65_549, "{length}");
            }
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let said = |batches| PacketTable::new(batches, TableFlows::default()).unwrap_err().to_string();
        assert_eq!(
            said(vec![batch(&[1], &[1, 2], &[1])]),
            "the columns of the table of packets have different lengths"
        );
        let late = said(vec![batch(&[5], &[0], &[1]), batch(&[4], &[0], &[1])]);
        assert!(late.starts_with("the table of packets: packet 1 arrives at 4 ns, before"), "{late}");
    }
}
