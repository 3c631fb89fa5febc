//! Instructions of the steps that a packet takes, each by itself, held to limits: `make bench-instructions`.
//!
//! A benchmark counts 1,000 packets, with the loop that feeds them to the policy. The packets before those, which bring
//! the policy into use, are not counted.
#![expect(missing_docs, unused_qualifications, reason = "the macros of gungraun break both")]

use std::hint::black_box;

use gungraun::prelude::*;
use gungraun::{Callgrind, EventKind};
use humpyard_core::config::SchedulerConfig;
use humpyard_core::frame::Frame;
use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Allocate, Build, Estimate, Share, Steer};
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight};
use humpyard_policies::allocate::{everest::Everest, r#static::Static};
use humpyard_policies::estimate::least_squares::LeastSquares;
use humpyard_policies::share::{drr::Drr, eevdf::Eevdf, efq::Efq, fcfs::Fcfs, gr3::Gr3, qfq::Qfq};
use humpyard_policies::steer::{conn::Conn, hrw::Hrw, ps_hrw::PsHrw, rss_plus_plus::RssPlusPlus};
use humpyard_testkit::loops::{Allocating, Hopping, Sharing, Steering};
use humpyard_traffic::{Classifier, ClassifierConfig, Headers, Source, open};

/// Packets of a benchmark.
const PACKETS: u64 = 1_000;
/// Packets before those, so that a policy is in use.
const BEFORE: u64 = 10_000;
const CLIENTS: usize = 1_024;
const CONNECTIONS: u64 = 1_024;

/// Fails a benchmark if its packets together take more instructions than this. The limits below are about 2 % above the
/// instructions taken when they were set. Lower a limit when the code becomes cheaper. Raise one only in a commit of its
/// own that says why.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let limit = Callgrind::with_args(["--cache-sim=no"]).hard_limits([(EventKind::Ir, instructions)]).clone();
    LibraryBenchmarkConfig::default().tool(limit).clone()
}

/// Makes a host of one core and clients with weights from 1 to 10, for each of which four packets wait.
fn sharing<Q: Share + Build>() -> Sharing<Q> {
    let weights: Vec<Weight> = (0..CLIENTS).filter_map(|client| Weight::new(1 + client as u32 % 10)).collect();
    let packets = Sharing::<Q>::packets_max(CLIENTS);
    let setup = SchedulerConfig { clients: CLIENTS, packets, weights, ..SchedulerConfig::default() };
    let policy = Q::new(&Q::Params::default(), &setup).expect("defaults fit");
    let mut order: Vec<ClientId> = (0..CLIENTS).map(ClientId::from_index).collect();
    order.sort_by_key(|client| mix(u64::from(client.0)));
    let mut host = Sharing::new(policy, order);
    (0..4 * CLIENTS).for_each(|_| host.arrive());
    share_packets(&mut host, BEFORE);
    host
}

fn share_packets<Q: Share>(host: &mut Sharing<Q>, packets: u64) {
    for _ in 0..packets {
        black_box(host.serve());
        host.arrive();
    }
}

#[library_benchmark]
#[bench::drr(args = (sharing::<Drr>()), config = at_most(192_500))]
#[bench::gr3(args = (sharing::<Gr3>()), config = at_most(432_300))]
#[bench::qfq(args = (sharing::<Qfq>()), config = at_most(441_600))]
#[bench::efq(args = (sharing::<Efq>()), config = at_most(991_200))]
#[bench::eevdf(args = (sharing::<Eevdf>()), config = at_most(1_168_900))]
#[bench::fcfs(args = (sharing::<Fcfs>()), config = at_most(105_200))]
fn share<Q: Share>(mut host: Sharing<Q>) -> Sharing<Q> {
    share_packets(&mut host, PACKETS);
    host
}

/// Makes a host of 16 cores and connections that hold eight packets each.
fn steering<S: Steer + Build>() -> Steering<S> {
    let rendezvous = humpyard_simd::rendezvous();
    let flows = CONNECTIONS as usize;
    let setup = SchedulerConfig {
        cores: 16,
        flows,
        clients: 1,
        packets: 8 * flows + 1,
        rendezvous,
        ..SchedulerConfig::default()
    };
    let mut host = Steering::new(&S::Params::default(), &setup, CONNECTIONS, false);
    steer_packets(&mut host, BEFORE);
    host
}

fn steer_packets<S: Steer + Build>(host: &mut Steering<S>, packets: u64) {
    for _ in 0..packets {
        black_box(host.step());
    }
}

#[library_benchmark]
#[bench::hrw(args = (steering::<Hrw>()), config = at_most(290_900))]
#[bench::rss_plus_plus(args = (steering::<RssPlusPlus>()), config = at_most(145_000))]
#[bench::ps_hrw(args = (steering::<PsHrw>()), config = at_most(364_300))]
fn steer<S: Steer + Build>(mut host: Steering<S>) -> Steering<S> {
    steer_packets(&mut host, PACKETS);
    host
}

/// Makes a host of 16 services on 64 cores, which take 200 us to change their service.
fn allocating<A: Allocate + Build>() -> Allocating<A> {
    let mut host = Allocating::new(16, 64, Time::from_ns(200_000));
    (0..BEFORE).for_each(|_| host.step());
    host
}

#[library_benchmark]
#[bench::everest(args = (allocating::<Everest>()), config = at_most(659_100))]
#[bench::static_(args = (allocating::<Static>()), config = at_most(363_300))]
fn allocate<A: Allocate + Build>(mut host: Allocating<A>) -> Allocating<A> {
    (0..PACKETS).for_each(|_| host.step());
    host
}

/// Makes a host in which packets of 1,024 flows circulate, as in `make bench-dispatch`.
fn hopping() -> Hopping<Conn, Fcfs> {
    let mut host = Hopping::new(CLIENTS);
    (0..BEFORE).for_each(|_| {
        black_box(host.hop());
    });
    host
}

#[library_benchmark]
#[bench::conn(args = (hopping()), config = at_most(493_800))]
fn hop(mut host: Hopping<Conn, Fcfs>) -> Hopping<Conn, Fcfs> {
    for _ in 0..PACKETS {
        black_box(host.hop());
    }
    host
}

/// Makes an estimator that has learned from packets of many lengths, and these packets.
fn estimating() -> (LeastSquares, Vec<Packet>) {
    let mut estimator = LeastSquares::new(&Default::default(), &SchedulerConfig::default()).expect("defaults fit");
    let packet = |i| Packet { length: 64 + (mix(i) % 1437) as u32, ..Packet::default() };
    let packets: Vec<Packet> = (0..PACKETS).map(packet).collect();
    (0..BEFORE / PACKETS).for_each(|_| estimate_packets(&mut estimator, &packets));
    (estimator, packets)
}

fn estimate_packets(estimator: &mut LeastSquares, packets: &[Packet]) {
    for packet in packets {
        black_box(estimator.estimate(packet));
        estimator.on_completion(packet, 320 + 13 * u64::from(packet.length) / 10, false);
    }
}

#[library_benchmark]
#[bench::least_squares(args = (estimating()), config = at_most(94_950))]
fn estimate((mut estimator, packets): (LeastSquares, Vec<Packet>)) -> (LeastSquares, Vec<Packet>) {
    estimate_packets(&mut estimator, &packets);
    (estimator, packets)
}

/// Opens a generator of frames of 1,024 flows.
fn source() -> Box<dyn Source + Send> {
    open("gen:poisson:flows=1024,pps=14700000,packets=2000", Seed(1)).expect("a model")
}

fn frames() -> Vec<Frame> {
    let mut source = source();
    let frame = |_| {
        let mut frame = Frame::default();
        assert!(source.next(&mut frame).expect("a model"), "it has more packets");
        frame
    };
    (0..PACKETS).map(frame).collect()
}

/// Makes frames, and a classifier that knows their flows.
fn classifying() -> (Classifier, Vec<Frame>) {
    let config = ClassifierConfig { flows: 4_096, ..ClassifierConfig::default() };
    let mut classifier = Classifier::new(config).expect("defaults fit");
    let frames = frames();
    classify_packets(&mut classifier, &frames);
    (classifier, frames)
}

fn classify_packets(classifier: &mut Classifier, frames: &[Frame]) {
    for frame in frames {
        let packet = classifier.classify(frame).expect("there is room").packet;
        classifier.release(black_box(&packet));
    }
}

#[library_benchmark]
#[bench::known_flows(args = (classifying()), config = at_most(355_500))]
fn classify((mut classifier, frames): (Classifier, Vec<Frame>)) -> (Classifier, Vec<Frame>) {
    classify_packets(&mut classifier, &frames);
    (classifier, frames)
}

#[library_benchmark]
#[bench::headers(args = (frames()), config = at_most(121_500))]
fn decode(frames: Vec<Frame>) -> Vec<Frame> {
    for frame in &frames {
        black_box(Headers::parse(black_box(frame)));
    }
    frames
}

/// Makes a generator that has given frames before, and a frame to reuse.
fn generating() -> (Box<dyn Source + Send>, Frame) {
    let (mut source, mut frame) = (source(), Frame::default());
    generate_packets(&mut *source, &mut frame);
    (source, frame)
}

fn generate_packets(source: &mut dyn Source, frame: &mut Frame) {
    for _ in 0..PACKETS {
        assert!(source.next(frame).expect("a model"), "it has more packets");
        black_box(&*frame);
    }
}

#[library_benchmark]
#[bench::poisson(args = (generating()), config = at_most(531_300))]
fn encode((mut source, mut frame): (Box<dyn Source + Send>, Frame)) -> (Box<dyn Source + Send>, Frame) {
    generate_packets(&mut *source, &mut frame);
    (source, frame)
}

library_benchmark_group!(name = policies, benchmarks = [share, steer, allocate, estimate, hop]);
library_benchmark_group!(name = traffic, benchmarks = [classify, decode, encode]);
main!(library_benchmark_groups = [policies, traffic]);
