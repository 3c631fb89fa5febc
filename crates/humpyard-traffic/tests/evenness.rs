//! Generated flows spread over cores like flows of captures, for every hash: also for a linear one, such as
//! Toeplitz and CRC.

use std::collections::BTreeSet;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_traffic::header::{KeyHasher, Network};
use humpyard_traffic::{FlowKey, Headers, open};

/// A hash of flows, with its name.
type Hash<'a> = (&'a str, &'a dyn Fn(&FlowKey) -> u32);

const SEEDS: core::ops::RangeInclusive<u64> = 1..=10;
const CORES: [u32; 6] = [2, 4, 8, 16, 32, 64];

/// Returns the connections of a source, in ascending order.
fn connections(specification: &str, seed: u64) -> Vec<FlowKey> {
    let mut source = open(specification, Seed(seed)).unwrap();
    let (mut frame, mut found) = (Frame::default(), BTreeSet::new());
    while source.next(&mut frame).unwrap() {
        found.insert(Headers::parse(&frame).key.connection());
    }
    found.into_iter().collect()
}

/// Returns the CRC-32 of addresses and ports.
fn crc(key: &FlowKey) -> u32 {
    let bytes = if key.network == Network::Ipv6 { 16 } else { 4 };
    let ports = [key.source_port.to_be_bytes(), key.destination_port.to_be_bytes()];
    crc32fast::hash(&[&key.source[..bytes], &key.destination[..bytes], &ports[0][..], &ports[1][..]].concat())
}

/// Returns Pearson's statistic of the flows per core, by the low bits of their hashes. Its mean is `cores - 1`.
fn chi_squared(hashes: &[u32], cores: u32) -> f64 {
    let mut flows = vec![0u32; cores as usize];
    hashes.iter().for_each(|hash| flows[(hash % cores) as usize] += 1);
    let expected = hashes.len() as f64 / f64::from(cores);
    flows.iter().map(|&flows| (f64::from(flows) - expected).powi(2) / expected).sum()
}

/// Asserts that no hash spreads these flows worse than random numbers would, over all seeds.
fn assert_even(specification: &str) {
    let by_seed: Vec<Vec<FlowKey>> = SEEDS.map(|seed| connections(specification, seed)).collect();
    let hasher = KeyHasher::new(Seed(0));
    let hashes: [Hash<'_>; 3] = [
        ("Toeplitz", &|key| hasher.steering(key).rss),
        ("SipHash", &|key| hasher.steering(key).key as u32),
        ("CRC-32", &crc),
    ];
    for (name, hash) in hashes {
        let hashes: Vec<Vec<u32>> = by_seed.iter().map(|keys| keys.iter().map(hash).collect()).collect();
        for cores in CORES {
            // The mean and the deviation of the sum over seeds; less than one in 10,000 exceeds six deviations.
            let freedom = f64::from((cores - 1) * hashes.len() as u32);
            let found: f64 = hashes.iter().map(|hashes| chi_squared(hashes, cores)).sum();
            let flows = hashes[0].len();
            assert!(
                found < freedom + 6.0 * (2.0 * freedom).sqrt(),
                "{specification}: {name} of {flows} flows on {cores} cores: {found}, not {freedom}"
            );
        }
    }
}

#[test]
fn few_flows_and_many() {
    for flows in [64, 256, 1_024, 4_096] {
        let packets = 20 * flows;
        assert_even(&format!("gen:poisson:flows={flows},packets={packets}"));
        assert_even(&format!("gen:imix:flows={flows},packets={packets},ipv6=0.5"));
    }
}

#[test]
fn every_profile() {
    for specification in [
        "gen:messages:packets=5000",
        "gen:onoff:packets=20000",
        "gen:mmpp:packets=5000",
        "gen:flow:packets=5000",
        "gen:mit:packets=5000",
        "gen:ffmpeg:packets=2000,streams=256",
        "gen:spc:packets=5000,flows=256",
        "gen:spc-apps:packets=5000",
        "gen:compose:arrivals=gen:poisson:packets=5000",
        "gen:poisson:packets=5000,mix=services",
    ] {
        assert_even(specification);
    }
}

/// Copies of a flow differ from it only by their prefixes.
#[test]
fn copies_of_few_flows() {
    assert_even("gen:scale:factor=64,input=gen:poisson:flows=4;packets=100");
}
