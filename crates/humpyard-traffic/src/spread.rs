//! Assigns packets to one of several dispatchers.

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;

use crate::hash_fields::HashFields;
use crate::header::{Headers, KeyHasher};
use crate::tunnel::Tunnels;

/// Spreads connections over dispatchers; both directions of a connection go to the same one. The hash for this
/// is independent of those for steering. Otherwise, the cores of a dispatcher would get unequal parts.
///
/// Connections are those of the [`Classifier`](crate::Classifier). A packet in a tunnel to look into belongs to
/// the inner connection. All fragments between two addresses belong together. Packets that are not IP are
/// distinguished by link, type and hardware addresses. With [`HashFields::Addresses`], all connections between two
/// hosts go to the same one.
#[derive(Clone, Debug)]
pub struct Spread {
    dispatchers: u64,
    tunnels: Tunnels,
    hasher: KeyHasher,
    fields: HashFields,
}

impl Spread {
    /// Returns a spread over this many dispatchers, at least one, with the tunnels of their classifiers and the
    /// seed of the run.
    pub fn new(dispatchers: usize, tunnels: Tunnels, seed: Seed) -> Self {
        let seed = Seed(seed.stream("traffic/spread").bits());
        let (hasher, fields) = (KeyHasher::new(seed), HashFields::default());
        Self { dispatchers: dispatchers.max(1) as u64, tunnels, hasher, fields }
    }

    /// Sets what the hash is computed from, as in the classifiers of the dispatchers.
    #[must_use]
    pub fn with_hash_fields(self, fields: HashFields) -> Self {
        Self { fields, ..self }
    }

    /// Returns the dispatcher of this frame, from 0. O(1).
    #[inline]
    pub fn dispatcher(&self, frame: &Frame) -> usize {
        self.dispatcher_of(&Headers::parse_inside(frame, self.tunnels))
    }

    /// Returns the dispatcher of a frame with these headers, the innermost that are looked into. O(1).
    #[inline]
    pub fn dispatcher_of(&self, headers: &Headers) -> usize {
        let key = self.fields.of(&headers.key);
        ((u128::from(self.hasher.flow(&key)) * u128::from(self.dispatchers)) >> 64) as usize
    }
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a test that skips must say so")]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use etherparse::PacketBuilder;
    use humpyard_core::frame::LinkType;

    use super::*;
    use crate::classify::{Classifier, ClassifierConfig, Granularity};
    use crate::opening::open;
    use crate::source::Source;
    use crate::test_captures::{manifest, traces_directory};

    /// Returns every frame of a source, with its connection by a classifier that never ends one.
    fn connections(source: &mut dyn Source, tunnels: Tunnels) -> Vec<(u32, Frame)> {
        let config =
            ClassifierConfig { flows: 1 << 20, granularity: Granularity::Connection, tunnels, ..Default::default() };
        let mut classifier = Classifier::new(config).unwrap();
        let (mut frame, mut frames) = (Frame::default(), Vec::new());
        // Damage ends a source, too.
        while let Ok(true) = source.next(&mut frame) {
            let packet = classifier.classify(&frame).unwrap().packet;
            classifier.release(&packet);
            frames.push((packet.client.0, frame.clone()));
        }
        frames
    }

    fn assert_kept_together(name: &str, frames: &[(u32, Frame)], tunnels: Tunnels) {
        for dispatchers in 1..=5 {
            let spread = Spread::new(dispatchers, tunnels, Seed(7));
            let mut of_connection = HashMap::new();
            for (connection, frame) in frames {
                let dispatcher = spread.dispatcher(frame);
                assert!(dispatcher < dispatchers);
                assert_eq!(spread.dispatcher_of(&Headers::parse_inside(frame, tunnels)), dispatcher);
                assert_eq!(*of_connection.entry(connection).or_insert(dispatcher), dispatcher, "{name} {dispatchers}");
            }
        }
    }

    #[test]
    fn a_connection_is_with_one_dispatcher_in_every_capture() {
        let Some(directory) = traces_directory() else {
            eprintln!("skipped: no real captures");
            return;
        };
        for entry in manifest(&directory).iter().filter(|entry| entry.packets <= 100_000) {
            let name = directory.join(&entry.file).display().to_string();
            for tunnels in [Tunnels::NONE, "all".parse().unwrap()] {
                let frames = connections(open(&name, Seed(1)).unwrap().as_mut(), tunnels);
                assert_kept_together(&name, &frames, tunnels);
            }
        }
    }

    #[test]
    fn connections_are_spread_evenly() {
        let mut source = open("gen:messages:packets=20000", Seed(3)).unwrap();
        let frames = connections(source.as_mut(), Tunnels::NONE);
        assert_kept_together("messages", &frames, Tunnels::NONE);
        let spread = Spread::new(4, Tunnels::NONE, Seed(7));
        let by_connection: HashMap<u32, usize> =
            frames.iter().map(|(connection, frame)| (*connection, spread.dispatcher(frame))).collect();
        let mean = by_connection.len() as f64 / 4.0;
        for dispatcher in 0..4 {
            let count = by_connection.values().filter(|&&other| other == dispatcher).count() as f64;
            // Five standard deviations of a uniform draw.
            assert!((count - mean).abs() < 5.0 * (mean * 0.75).sqrt() + 1.0, "{dispatcher}: {count} of {mean}");
        }
    }

    #[test]
    fn connections_between_two_hosts_stay_together_by_addresses() {
        let packet = |ends: [[u8; 4]; 2], ports: [u16; 2]| {
            let mut data = Vec::new();
            PacketBuilder::ipv4(ends[0], ends[1], 64).udp(ports[0], ports[1]).write(&mut data, b"hump").unwrap();
            Frame { link: LinkType::RawIp, wire_length: data.len() as u32, data, ..Frame::default() }
        };
        let (client, server) = ([198, 18, 0, 1], [198, 18, 0, 2]);
        let by_ports = Spread::new(4, Tunnels::NONE, Seed(7));
        let by_addresses = by_ports.clone().with_hash_fields(HashFields::Addresses);
        let used = |spread: &Spread| {
            let there = (0..100).map(|n| packet([client, server], [5_000 + n, 53]));
            let back = (0..100).map(|n| packet([server, client], [53, 5_000 + n]));
            there.chain(back).map(|frame| spread.dispatcher(&frame)).collect::<BTreeSet<_>>().len()
        };
        assert_eq!((used(&by_ports), used(&by_addresses)), (4, 1));
    }

    /// If the spread agreed with the steering, each dispatcher would get only part of the hashes, and use only
    /// part of its cores.
    #[test]
    fn the_spread_says_nothing_of_the_steering() {
        let mut source = open("gen:messages:packets=20000", Seed(3)).unwrap();
        let mut classifier = Classifier::new(ClassifierConfig::default()).unwrap();
        let spread = Spread::new(2, Tunnels::NONE, Seed::default());
        let mut halves = HashMap::<(usize, u64, u32), u32>::new();
        let mut frame = Frame::default();
        while source.next(&mut frame).unwrap() {
            let found = classifier.classify(&frame).unwrap();
            classifier.release(&found.packet);
            if found.new_flow {
                *halves
                    .entry((spread.dispatcher(&frame), found.packet.key >> 63, found.packet.rss >> 31))
                    .or_default() += 1;
            }
        }
        assert_eq!(halves.len(), 8, "{halves:?}");
    }
}
