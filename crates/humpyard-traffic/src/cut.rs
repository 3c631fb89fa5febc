//! Cuts a part out of a source: by time, by packet, and by bytes of each packet.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use core::str::FromStr;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;

use crate::error::TrafficError;
use crate::header::{FlowKey, Headers, Network, protocol_name};
use crate::matching::Match;
use crate::source::{Polled, Source};
use crate::tunnel::Tunnels;

/// The packets to cut out, and the bytes of each. All conditions must hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// Packets by their number in the source, from 1.
    pub packets: RangeInclusive<u64>,
    /// Start of the part, as time after the first packet of the source.
    pub from: Time,
    /// End of the part, exclusive, as time after the first packet of the source. `None`: the end of the source.
    pub to: Option<Time>,
    /// The kind of packets.
    pub matches: Match,
    /// The flow of packets. `None`: all flows.
    pub flow: Option<FlowFilter>,
    /// The tunnels to look into for kind and flow.
    pub tunnels: Tunnels,
    /// Most bytes kept of each packet; its length on the wire stays.
    pub snap: u32,
}

impl Default for Part {
    /// The whole source.
    fn default() -> Self {
        Self {
            packets: 1..=u64::MAX,
            from: Time::ZERO,
            to: None,
            matches: Match::Any,
            flow: None,
            tunnels: Tunnels::NONE,
            snap: u32::MAX,
        }
    }
}

impl Part {
    fn holds(&self, number: u64, elapsed: Time, frame: &Frame) -> bool {
        if !self.packets.contains(&number) || elapsed < self.from || self.to.is_some_and(|to| elapsed >= to) {
            return false;
        }
        if self.flow.is_none() && self.matches == Match::Any {
            return true;
        }
        let headers = Headers::parse_inside(frame, self.tunnels);
        self.matches.matches(&headers) && self.flow.is_none_or(|flow| flow.matches(&headers.key))
    }
}

/// A source that is a part of another one.
pub struct Cut<S> {
    source: S,
    part: Part,
    first: Option<Time>,
    read: u64,
}

impl<S: Source> Cut<S> {
    /// Returns this part of the source.
    pub fn new(source: S, part: Part) -> Self {
        Self { source, part, first: None, read: 0 }
    }

    /// Returns the number of packets read up to now.
    pub fn read(&self) -> u64 {
        self.read
    }

    fn is_over(&self) -> bool {
        self.read >= *self.part.packets.end()
    }

    /// Returns whether the frame just read belongs to the part, and cuts it to length if so.
    fn keeps(&mut self, frame: &mut Frame) -> bool {
        self.read += 1;
        // A packet whose time is before that of the first one counts as simultaneous.
        let elapsed = frame.time.since(*self.first.get_or_insert(frame.time));
        let keeps = self.part.holds(self.read, elapsed, frame);
        if keeps {
            frame.data.truncate(self.part.snap as usize);
        }
        keeps
    }
}

impl<S: Source> Source for Cut<S> {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        while !self.is_over() && self.source.next(frame)? {
            if self.keeps(frame) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        while !self.is_over() {
            match self.source.poll(frame)? {
                Polled::Frame if !self.keeps(frame) => {}
                polled => return Ok(polled),
            }
        }
        Ok(Polled::End)
    }

    fn description(&self) -> &str {
        self.source.description()
    }

    fn progress(&self) -> Option<f64> {
        self.source.progress()
    }
}

/// A filter for the packets of one flow, or of both directions of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowFilter {
    /// The flow.
    pub key: FlowKey,
    /// Whether the other direction matches, too.
    pub both: bool,
}

impl FlowFilter {
    /// Returns whether packets with this key match.
    pub fn matches(&self, key: &FlowKey) -> bool {
        *key == self.key || self.both && *key == self.key.reversed()
    }
}

impl fmt::Display for FlowFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flow = self.key.to_string();
        if self.both { f.write_str(&flow.replacen(" > ", " <> ", 1)) } else { f.write_str(&flow) }
    }
}

impl FromStr for FlowFilter {
    type Err = TrafficError;

    /// Reads a flow as `trace info` prints it, `udp 10.0.0.1:5000 > 10.0.0.2:53`; `<>` instead of `>` means
    /// both directions.
    fn from_str(text: &str) -> Result<Self, TrafficError> {
        let (sides, both) = match text.split_once(" <> ") {
            Some(sides) => (Some(sides), true),
            None => (text.split_once(" > "), false),
        };
        let key = sides.and_then(|(from, to)| ip_flow(from, to).or_else(|| other_flow(from, to)));
        key.map(|key| Self { key, both }).ok_or_else(|| {
            TrafficError::usage(format!(
                "a flow reads as `trace info` shows it, `udp 10.0.0.1:5000 > 10.0.0.2:53`, or with <> for both directions; \
                 not `{text}`"
            ))
        })
    }
}

/// Reads `udp 10.0.0.1:5000` and `10.0.0.2:53`, or both without ports.
fn ip_flow(from: &str, to: &str) -> Option<FlowKey> {
    let (name, from) = from.split_once(' ')?;
    let protocol = (0..=u8::MAX).find(|&protocol| protocol_name(protocol) == name)?;
    let endpoint = |text: &str| match text.parse::<SocketAddr>() {
        Ok(both) => Some((both.ip(), both.port(), true)),
        Err(_) => text.parse::<IpAddr>().ok().map(|address| (address, 0, false)),
    };
    let (source, source_port, ported) = endpoint(from)?;
    let (destination, destination_port, also) = endpoint(to)?;
    let bytes = |address: IpAddr| {
        let mut bytes = [0; 16];
        match address {
            IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes = address.octets(),
        }
        bytes
    };
    if source.is_ipv4() != destination.is_ipv4() || ported != also {
        return None;
    }
    let network = if source.is_ipv4() { Network::Ipv4 } else { Network::Ipv6 };
    let (source, destination) = (bytes(source), bytes(destination));
    Some(FlowKey { network, protocol, source, destination, source_port, destination_port })
}

/// Reads `link 1 type 0x0806 02:00:00:00:00:01` and `02:00:00:00:00:02`.
fn other_flow(from: &str, to: &str) -> Option<FlowKey> {
    let mut words = from.split(' ');
    let (Some("link"), Some(link), Some("type"), Some(ether_type), Some(from), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return None;
    };
    let hardware = |text: &str| {
        let parts: Vec<u8> = text.split(':').map(|part| u8::from_str_radix(part, 16)).collect::<Result<_, _>>().ok()?;
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(parts.get(..6).filter(|six| six.len() == parts.len())?);
        Some(bytes)
    };
    let network = Network::Other {
        link: link.parse().ok()?,
        ether_type: u16::from_str_radix(ether_type.strip_prefix("0x")?, 16).ok()?,
    };
    let (source, destination) = (hardware(from)?, hardware(to)?);
    Some(FlowKey { network, protocol: 0, source, destination, source_port: 0, destination_port: 0 })
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;
    use crate::opening::open;

    fn cut(part: Part) -> (Vec<Frame>, u64) {
        let source = open("gen:messages:packets=500", Seed(1)).unwrap();
        let mut cut = Cut::new(source, part);
        let (mut frame, mut frames) = (Frame::default(), Vec::new());
        while cut.next(&mut frame).unwrap() {
            frames.push(frame.clone());
        }
        (frames, cut.read())
    }

    #[test]
    fn parts_by_number_time_and_length() {
        let (all, read) = cut(Part::default());
        assert_eq!((all.len(), read), (500, 500));
        let (some, read) = cut(Part { packets: 10..=19, ..Part::default() });
        assert_eq!((&some[..], read), (&all[9..19], 19), "nothing is read behind the last");
        let start = all[0].time;
        let (from, to) = (all[100].time.since(start), all[200].time.since(start));
        let (some, _) = cut(Part { from, to: Some(to), ..Part::default() });
        let expected: Vec<_> =
            all.iter().filter(|f| f.time.since(start) >= from && f.time.since(start) < to).cloned().collect();
        assert_eq!(some, expected);
        assert!((90..=110).contains(&some.len()));
        let (short, _) = cut(Part { snap: 40, ..Part::default() });
        for (short, long) in short.iter().zip(&all) {
            assert_eq!((short.wire_length, &short.data[..]), (long.wire_length, &long.data[..40.min(long.data.len())]));
        }
    }

    #[test]
    fn parts_by_kind_and_flow() {
        let (all, _) = cut(Part::default());
        let key = |frame: &Frame| Headers::parse(frame).key;
        let (tcp, _) = cut(Part { matches: Match::Tcp, ..Part::default() });
        assert_eq!(tcp.len(), all.iter().filter(|frame| key(frame).protocol == 6).count());
        let text = key(&all[7]).to_string();
        let flow: FlowFilter = text.parse().unwrap();
        let both: FlowFilter = text.replace('>', "<>").parse().unwrap();
        let (one, _) = cut(Part { flow: Some(flow), ..Part::default() });
        assert_eq!(one.len(), all.iter().filter(|frame| key(frame) == key(&all[7])).count());
        let (two, _) = cut(Part { flow: Some(both), ..Part::default() });
        let connection = key(&all[7]).connection();
        assert_eq!(two.len(), all.iter().filter(|frame| key(frame).connection() == connection).count());
        assert!(two.len() >= one.len() && !one.is_empty());
    }

    #[test]
    fn flows_read_as_they_are_shown() {
        for text in [
            "udp 10.0.0.1:5000 > 10.0.0.2:53",
            "tcp [2001:db8::1]:1 <> [2001:db8::2]:2",
            "icmp 10.0.0.1 > 10.0.0.2",
            "ip-254 10.0.0.1 <> 10.0.0.2",
            "link 1 type 0x0806 02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff",
        ] {
            assert_eq!(text.parse::<FlowFilter>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "udp",
            "udp 10.0.0.1:5000",
            "udp 10.0.0.1:5000 > 10.0.0.2",
            "udp 10.0.0.1:5000 > [::1]:53",
            "upd 10.0.0.1:5000 > 10.0.0.2:53",
            "link 1 type 0x0806 02:00:00:00:00:01 > ff:ff:ff:ff:ff",
            "link 1 type 0806 02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff",
        ] {
            assert!(text.parse::<FlowFilter>().unwrap_err().to_string().contains("trace info"), "{text}");
        }
    }
}
