//! Checks the profiles' statistics for several seeds: rates, mixes, lengths, and burstiness.
//!
//! The specification's own measurements stand beside the ranges. `--nocapture` shows the measured values.
#![expect(clippy::print_stdout, reason = "what is found is shown beside what was expected")]

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_traffic::{FlowKey, Headers, Info, info, open};

const SEEDS: core::ops::RangeInclusive<u64> = 1..=3;

fn look(specification: &str, seed: u64) -> Info {
    info(&mut *open(specification, Seed(seed)).unwrap(), 1 << 20).unwrap()
}

fn share(info: &Info, names: &[&str]) -> f64 {
    let packets: u64 = names.iter().filter_map(|name| info.protocols.get(*name)).sum();
    packets as f64 / info.packets as f64
}

/// Asserts that a number is within this relative distance of its expected value.
#[track_caller]
fn near(what: &str, found: f64, expected: f64, part: f64) {
    assert!((found / expected - 1.0).abs() <= part, "{what}: {found}, not {expected}");
}

/// The expected statistics of the five models of the Everest paper's traffic.
struct Expected {
    profile: &'static str,
    /// The result of the specification. Its deviation for Poisson is that of 400,000 packets/s, so this test
    /// uses that rate.
    deviation: f64,
    hurst: f64,
    deviations: (f64, f64),
    /// Range of the mean over the seeds, and of each seed.
    hursts: (f64, f64),
    /// Greatest relative distance of the rate over a few seconds from the mean.
    rate: f64,
}

const EVEREST: [Expected; 5] = [
    Expected {
        profile: "poisson:mix=services,pps=400k",
        deviation: 0.05,
        hurst: 0.47,
        deviations: (0.048, 0.052),
        hursts: (0.42, 0.58),
        rate: 0.01,
    },
    Expected {
        profile: "onoff:pps=400k",
        deviation: 0.21,
        hurst: 0.82,
        deviations: (0.18, 0.24),
        hursts: (0.65, 0.90),
        rate: 0.06,
    },
    Expected {
        profile: "mmpp:pps=400k",
        deviation: 0.41,
        hurst: 0.72,
        deviations: (0.36, 0.46),
        hursts: (0.65, 0.90),
        rate: 0.06,
    },
    // Its H from 1 to 256 ms is that of windows, not of connections: see `docs/reference/traffic.md`.
    Expected {
        profile: "flow:pps=400k",
        deviation: 0.12,
        hurst: 0.74,
        deviations: (0.11, 0.13),
        hursts: (0.53, 0.75),
        rate: 0.05,
    },
    Expected {
        profile: "flowb:pps=400k",
        deviation: 0.35,
        hurst: 0.77,
        deviations: (0.27, 0.40),
        hursts: (0.65, 0.90),
        rate: 0.08,
    },
];

#[test]
fn everest_traffic_is_as_bursty_as_it_should_be() {
    for expected in EVEREST {
        let profile = expected.profile;
        let mut hursts = Vec::new();
        for seed in SEEDS {
            let info = look(&format!("gen:{profile},packets=1800k"), seed);
            let burstiness = info.burstiness.unwrap();
            let hurst = burstiness.hurst.unwrap().estimate;
            println!(
                "{profile} seed {seed}: sd/mean {:.3} (spec {}), H {hurst:.2} (spec {})",
                burstiness.relative_deviation, expected.deviation, expected.hurst
            );
            let (low, high) = expected.deviations;
            assert!((low..=high).contains(&burstiness.relative_deviation), "{profile}: {burstiness:?}");
            near(profile, info.mean_rate_pps.unwrap(), 400_000.0, expected.rate);
            assert!((share(&info, &["tcp"]) - 0.88).abs() < 0.02, "{profile}: {:?}", info.protocols);
            assert!((share(&info, &["udp"]) - 0.11).abs() < 0.02, "{profile}: {:?}", info.protocols);
            assert!((share(&info, &["icmp", "icmpv6"]) - 0.01).abs() < 0.004, "{profile}: {:?}", info.protocols);
            assert!((info.ipv6_packets as f64 / info.packets as f64 - 0.5).abs() < 0.06, "{profile}");
            hursts.push(hurst);
        }
        let mean = hursts.iter().sum::<f64>() / hursts.len() as f64;
        let (low, high) = expected.hursts;
        assert!((low..=high).contains(&mean), "{profile}: {hursts:?}");
    }
}

#[test]
fn l7_traces_have_the_means_of_table_2() {
    for (profile, packets, connections, bytes) in
        [("mit", 340e3, 40e3, 841.0), ("tu", 1_320e3, 110e3, 758.0), ("nyp", 590e3, 61e3, 847.0)]
    {
        for seed in SEEDS {
            let info = look(&format!("gen:{profile}"), seed);
            println!(
                "{profile} seed {seed}: {} connections (table {connections}), {:.1} B",
                info.connections, info.lengths.mean
            );
            assert_eq!(info.packets as f64, packets);
            near(profile, info.connections as f64, connections, 0.05);
            near(profile, info.lengths.mean, bytes, 0.02);
            near(profile, info.mean_rate_pps.unwrap(), 100_000.0, 0.02);
            assert_eq!(share(&info, &["tcp"]), 1.0);
        }
    }
}

#[test]
fn films_bring_the_works_of_their_formats() {
    let mut source = open("gen:ffmpeg:packets=40k", Seed(1)).unwrap();
    let mut frame = Frame::default();
    let mut works = [(0.0, 0u32); 4];
    while source.next(&mut frame).unwrap() {
        let format = Headers::parse(&frame).key.destination_port - 5_100;
        works[usize::from(format)].0 += f64::from(frame.wire_length) / 100.0;
        works[usize::from(format)].1 += 1;
    }
    for ((sum, packets), expected) in works.into_iter().zip([3.1, 3.7, 10.4, 39.0]) {
        assert_eq!(packets, 10_000);
        near("work", sum / f64::from(packets), expected, 0.02);
    }
    let info = look("gen:ffmpeg", 1);
    assert_eq!(info.flows, 20);
}

/// Returns the time of a packet on the prototype, in us, by its port.
fn spc_time(key: &FlowKey, length: u32) -> f64 {
    let (fixed, per_byte) =
        [(51.0, 0.0), (320.0, 1.3), (970.0, 7.6), (320.0, 9.2)][usize::from(key.destination_port - 5_200)];
    fixed + per_byte * f64::from(length)
}

#[test]
fn flows_of_the_port_card_bring_the_same_work_each() {
    let mut source = open("gen:spc:packets=200k,load=0.95", Seed(1)).unwrap();
    let mut frame = Frame::default();
    let mut work: std::collections::BTreeMap<FlowKey, f64> = std::collections::BTreeMap::new();
    while source.next(&mut frame).unwrap() {
        let key = Headers::parse(&frame).key;
        *work.entry(key).or_default() += spc_time(&key, frame.wire_length);
    }
    let end_us = frame.time.as_ns() as f64 / 1e3;
    assert_eq!(work.len(), 32);
    for (key, us) in work {
        near(&key.to_string(), us / 10.0 / end_us, 0.95 / 32.0, 0.02);
    }
}

#[test]
fn thirty_applications_have_equal_shares_and_322_bytes() {
    let info = look("gen:spc-apps:packets=300k", 1);
    near("mean length", info.lengths.mean, 322.0, 0.01);
    assert_eq!(info.flows, 30);
    assert!(info.top_flows.iter().all(|flow| (flow.packet_share * 30.0 - 1.0).abs() < 0.06), "{:?}", info.top_flows);
    assert_eq!(info.link_types.keys().copied().collect::<Vec<_>>(), [101]);
}

#[test]
fn the_workload_of_applications_changes_when_asked() {
    let mut source = open("gen:spc-apps:packets=40k,apps=3,equal=work,change=20k", Seed(1)).unwrap();
    let mut frame = Frame::default();
    let mut works = [[0.0; 3]; 2];
    for packet in 0..40_000 {
        assert!(source.next(&mut frame).unwrap());
        let key = Headers::parse(&frame).key;
        let app = usize::from(key.destination_port - 5_200);
        // Here the ports stand for encryption, compression, FEC.
        let (fixed, per_byte) = [(320.0, 1.3), (970.0, 7.6), (320.0, 9.2)][app];
        works[packet / 20_000][app] += fixed + per_byte * f64::from(frame.wire_length);
    }
    for (works, expected) in works.iter().zip([[1.0 / 3.0; 3], [0.8, 0.1, 0.1]]) {
        let all: f64 = works.iter().sum();
        works.iter().zip(expected).for_each(|(work, expected)| near("share of work", work / all, expected, 0.06));
    }
}

#[test]
fn imix_is_seven_to_four_to_one() {
    let info = look("gen:imix:packets=240k,ipv6=0.25", 1);
    near("mean length", info.lengths.mean, (7.0 * 64.0 + 4.0 * 576.0 + 1_518.0) / 12.0, 0.01);
    let of = |from: u32| info.lengths.histogram.iter().find(|class| class.from == from).unwrap().packets as f64;
    near("64", of(64), 140_000.0, 0.01);
    near("576", of(512), 80_000.0, 0.01);
    near("1518", of(1_024), 20_000.0, 0.02);
    near("ipv6", info.ipv6_packets as f64, 60_000.0, 0.02);
    let info = look("gen:imix:lengths=100*1/200*1,packets=10k", 1);
    assert_eq!((info.lengths.minimum, info.lengths.maximum), (100, 200));
}

/// Mean rate and standard deviation per bin after scaling, relative to those before.
#[test]
fn scaling_multiplies_the_rate_and_takes_the_root_of_its_deviation() {
    for (factor, input) in [
        (2.5, "gen:flow:pps=60k,packets=300k"),
        (4.0, "gen:flow:pps=60k,packets=300k"),
        (0.5, "gen:flow:pps=200k,packets=800k"),
        (2.0, "gen:poisson:mix=services,flows=2000,pps=100k,packets=300k"),
    ] {
        let scaled_input = format!("gen:scale:factor={factor},input={}", input.replace(',', ";"));
        for seed in SEEDS {
            let (before, after) = (look(input, seed), look(&scaled_input, seed));
            let rate = after.mean_rate_pps.unwrap() / before.mean_rate_pps.unwrap();
            let deviation =
                |info: &Info| info.burstiness.map(|found| found.relative_deviation * found.mean_packets).unwrap();
            let deviations = deviation(&after) / deviation(&before);
            println!(
                "{input} by {factor}, seed {seed}: rate {rate:.3}, deviation {deviations:.3} (root {:.3})",
                f64::sqrt(factor)
            );
            near("rate", rate, factor, 0.06);
            near("deviation", deviations, factor.sqrt(), 0.08);
            assert_eq!(after.backward_jumps, 0);
        }
    }
}

/// Two readings of one source must be equal byte for byte, and another seed must differ.
#[test]
fn a_seed_is_a_sequence() {
    for entry in humpyard_traffic::generate::entries() {
        let read = |seed| {
            let mut source = open(&format!("gen:{}", entry.name), Seed(seed)).unwrap();
            let mut frames = Vec::new();
            let mut frame = Frame::default();
            while frames.len() < 500 && source.next(&mut frame).unwrap() {
                frames.push(frame.clone());
            }
            frames
        };
        let first = read(1);
        assert_eq!(first.len(), 500, "{}", entry.name);
        assert!(first.windows(2).all(|pair| pair[0].time <= pair[1].time), "{}", entry.name);
        assert!(first == read(1), "{}", entry.name);
        assert!(first != read(2), "{}", entry.name);
    }
}
