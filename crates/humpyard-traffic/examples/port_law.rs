//! Prints the distribution of ports among the connections of captures: `port_law DIRECTORY_OR_FILE ...`.
//!
//! The laws in `src/generate/ports.rs` are its output for the directories `devices`, `protocols`, `elephants`,
//! `industrial`, `uniform` and `video` of the captures for tests. It counts unicast connections without DHCP.
//! Each capture has the same weight, whatever its number of connections. The client of a connection is the
//! sender of its first packet that is not a SYN-ACK.
#![allow(clippy::print_stdout, reason = "a measurement is for people to read")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use humpyard_core::{frame::Frame, random::Seed};
use humpyard_traffic::{FlowKey, Headers, TrafficError, open};

/// Ports with a smaller share are printed together.
const SHARE_MIN: f64 = 0.015;
/// Ranges of client ports, by their first port.
const RANGES: [u16; 5] = [1, 1_024, 32_768, 49_152, 61_000];

/// The connections of one protocol, as sums of shares.
#[derive(Default)]
struct Found {
    captures: u32,
    connections: usize,
    servers: BTreeMap<u16, f64>,
    same: BTreeMap<u16, f64>,
    clients: BTreeMap<u16, f64>,
}

fn main() -> Result<(), TrafficError> {
    let mut found = BTreeMap::from([(6, Found::default()), (17, Found::default())]);
    for argument in std::env::args().skip(1) {
        for path in files(Path::new(&argument)) {
            let connections = connections(&path.to_string_lossy())?;
            for (protocol, found) in &mut found {
                found.add(connections.iter().filter(|key| key.protocol == *protocol).collect());
            }
        }
    }
    found.iter().for_each(|(protocol, found)| found.show(*protocol));
    Ok(())
}

/// Returns the file, or the files of the directory.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(directory) = fs::read_dir(path) else { return vec![path.to_owned()] };
    directory.flatten().map(|entry| entry.path()).collect()
}

/// Returns the unicast connections of a capture, each as the key from its client. A file that is no capture has
/// none.
fn connections(path: &str) -> Result<Vec<FlowKey>, TrafficError> {
    let Ok(mut source) = open(path, Seed(1)) else { return Ok(Vec::new()) };
    let (mut frame, mut seen, mut connections) = (Frame::default(), BTreeSet::new(), Vec::new());
    // Stops at damage.
    while source.next(&mut frame).unwrap_or(false) {
        let headers = Headers::parse(&frame);
        let key = headers.key;
        if !is_unicast(&key) || is_dhcp(&key) || key.destination_port == 0 || !seen.insert(key.connection()) {
            continue;
        }
        let flags = headers.transport_offset.and_then(|offset| frame.data.get(offset as usize + 13));
        let answers = key.protocol == 6 && flags.is_some_and(|flags| flags & 0x12 == 0x12);
        let in_midst = key.protocol == 6 && flags.is_some_and(|flags| flags & 0x02 == 0);
        let from_server = answers || in_midst && key.source_port < key.destination_port;
        connections.push(if from_server { key.reversed() } else { key });
    }
    Ok(connections)
}

fn is_unicast(key: &FlowKey) -> bool {
    [key.source_address(), key.destination_address()].into_iter().all(|address| match address {
        Some(IpAddr::V4(one)) => {
            !one.is_multicast() && !one.is_broadcast() && !one.is_unspecified() && one.octets()[3] != 255
        }
        Some(IpAddr::V6(one)) => !one.is_multicast() && !one.is_unspecified(),
        None => false,
    })
}

/// Returns whether a connection is DHCP. Its requests are broadcast, so its answers look like connections of
/// their own.
fn is_dhcp(key: &FlowKey) -> bool {
    key.protocol == 17 && [67, 68].contains(&key.source_port) && [67, 68].contains(&key.destination_port)
}

impl Found {
    /// Adds the connections of one capture.
    fn add(&mut self, keys: Vec<&FlowKey>) {
        if keys.is_empty() {
            return;
        }
        self.captures += 1;
        self.connections += keys.len();
        let part = 1.0 / keys.len() as f64;
        for key in keys {
            *self.servers.entry(key.destination_port).or_default() += part;
            if key.source_port == key.destination_port {
                *self.same.entry(key.destination_port).or_default() += part;
            } else {
                let range = RANGES.iter().rev().find(|&&first| first <= key.source_port).unwrap_or(&RANGES[0]);
                *self.clients.entry(*range).or_default() += part;
            }
        }
    }

    fn show(&self, protocol: u8) {
        println!("protocol {protocol}: {} captures, {} connections", self.captures, self.connections);
        let all = f64::from(self.captures.max(1));
        let mut servers: Vec<(u16, f64)> = self.servers.iter().map(|(&port, &sum)| (port, sum / all)).collect();
        servers.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (often, seldom): (Vec<_>, Vec<_>) = servers.into_iter().partition(|&(_, share)| share >= SHARE_MIN);
        for (port, share) in often {
            let same = self.same.get(&port).map_or(0.0, |sum| sum / all / share);
            println!("  server port {port:5}: {share:.3}, the client's the same: {same:.2}");
        }
        let rest: f64 = seldom.iter().map(|&(_, share)| share).sum();
        println!("  {} other server ports: {rest:.3}", seldom.len());
        let others: f64 = self.clients.values().sum();
        for (first, sum) in &self.clients {
            println!("  client port from {first:5}: {:.3}", sum / others);
        }
    }
}
