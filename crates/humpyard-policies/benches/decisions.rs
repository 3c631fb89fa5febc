//! Time of one decision of each policy, through the trait, without the mechanism.
//!
//! Steering: one packet of one of 1,024 connections, on idle cores. Sharing: one always-ready client is picked, dispatched,
//! completed and offered again; packets of 64 to 1,514 bytes, weights 1 to 10, visited in the policy's order. The figures
//! include the loop that feeds them, some 2 ns.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, CoreView, ServiceSetup, Setup, Share, Steer, Ties, View};
use humpyard_core::random::Seed;
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::share::{drr::Drr, sfq::Sfq};
use humpyard_policies::steer::{conn::Conn, hrw::Hrw, rr::Rr};

const SERVICES: &[ServiceSetup<'static>] = &[ServiceSetup {
    name: "test",
    packet_time: Time::ZERO,
    switch_cost: Time::ZERO,
    tolerance: Time::MAX,
    guarantee_millionths: 1_000_000,
}];

fn setup(cores: usize, clients: usize, weights: &[Weight]) -> Setup<'_> {
    Setup {
        cores,
        topology: None,
        flows: 1024,
        clients,
        packets: clients,
        unit: WorkUnit::Bytes,
        longest: 1514,
        weights,
        services: SERVICES,
        ties: Ties::Lowest,
        seed: Seed(1),
    }
}

fn steer<S: Steer + Build>(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("steer/{}", S::INFO.name));
    let packets: Vec<Packet> =
        (0..1024).map(|i| Packet { key: mix(i), rss: mix(i) as u32, ..Packet::default() }).collect();
    for cores in [2, 8, 16] {
        let mut policy = S::new(&S::Params::default(), &setup(cores, 1, &[])).expect("defaults fit");
        let views = IdVec::from_fn(cores, |_| CoreView::default());
        let eligible: Vec<CoreId> = (0..cores).map(CoreId::from_index).collect();
        let mut next = 0;
        group.bench_function(BenchmarkId::from_parameter(cores), |bencher| {
            bencher.iter(|| {
                next = (next + 1) % packets.len();
                let view = View { as_of: Time::ZERO, cores: &views, eligible: &eligible };
                black_box(policy.steer(Time::ZERO, &packets[next], &view))
            });
        });
    }
    group.finish();
}

fn share<Q: Share + Build>(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("share/{}", Q::INFO.name));
    for clients in [8, 64, 512, 4096, 32_768] {
        let weights: Vec<Weight> = (0..clients).filter_map(|i| Weight::new(1 + i as u32 % 10)).collect();
        let mut policy = Q::new(&Q::Params::default(), &setup(1, clients, &weights)).expect("defaults fit");
        let head = |client: ClientId| {
            let estimate = 64 + mix(u64::from(client.0)) % 1451;
            Packet { client, length: estimate as u32, estimate, ..Packet::default() }
        };
        for client in (0..clients).map(ClientId::from_index) {
            policy.on_arrival(Time::ZERO, client, &head(client), 0);
            policy.on_wake(Time::ZERO, client, &head(client));
        }
        group.bench_function(BenchmarkId::from_parameter(clients), |bencher| {
            bencher.iter(|| {
                let client = policy.pick(Time::ZERO, CoreId(0)).expect("always ready");
                let packet = head(client);
                policy.on_dispatch(Time::ZERO, CoreId(0), client, &packet);
                policy.on_head(Time::ZERO, client, &packet);
                policy.on_completion(Time::ZERO, CoreId(0), client, &packet, packet.estimate);
                black_box(client)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, steer::<Rr>, steer::<Conn>, steer::<Hrw>, share::<Drr>, share::<Sfq>);
criterion_main!(benches);
