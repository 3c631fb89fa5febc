//! Time of one decision of each policy, through the trait, without the mechanism.
//!
//! Steering: one packet of one of 1,024 connections, on idle cores. Sharing: one always-ready client is picked, dispatched,
//! completed and offered again; packets of 64 to 1,514 bytes, weights 1 to 10, visited in the policy's order. By estimates:
//! the same in nanoseconds, which pass, and packets that use up to a tenth more or less than estimated. The figures include
//! the loop that feeds them, some 2 ns. By applications: 16 cores take turns, each packet that goes is followed by another, of an
//! application that is drawn.

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Build, CoreView, Setup, Share, Steer, Target, Topology, View};
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::share::{
    drr::Drr, efq::Efq, efq_warm::EfqWarm, gr3::Gr3, gr3mp::Gr3mp, lap::Lap, lap::LapParams, sfq::Sfq, vtrr::Vtrr,
    wf2q_plus::Wf2qPlus, wrr::Wrr,
};
use humpyard_policies::steer::{
    ahrw::{Ahrw, AhrwParams, Form},
    conn::Conn,
    h_cahrw::{HCahrw, HCahrwParams},
    hrw::Hrw,
    jsq::Jsq,
    ml::Ml,
    ps_hrw::{PsHrw, PsHrwParams},
    rr::Rr,
    ss::Ss,
};

fn setup(cores: usize, clients: usize, weights: &[Weight]) -> Setup<'_> {
    Setup { cores, flows: 1024, clients, packets: clients, weights, ..Setup::default() }
}

fn steer<S: Steer + Build>(criterion: &mut Criterion) {
    for cores in [2, 8, 16] {
        steer_by::<S>(criterion, &cores.to_string(), &S::Params::default(), &setup(cores, 1, &[]));
    }
}

fn steer_by<S: Steer + Build>(criterion: &mut Criterion, name: &str, params: &S::Params, setup: &Setup<'_>) {
    let packets: Vec<Packet> =
        (0..1024).map(|i| Packet { key: mix(i), rss: mix(i) as u32, ..Packet::default() }).collect();
    let mut policy = S::new(params, setup).expect("valid parameters");
    let views = IdVec::from_fn(setup.cores, |_| CoreView::default());
    let eligible: Vec<CoreId> = (0..setup.cores).map(CoreId::from_index).collect();
    let mut next = 0;
    criterion.bench_function(&format!("steer/{}/{name}", S::INFO.name), |bencher| {
        bencher.iter(|| {
            next = (next + 1) % packets.len();
            let view = View { as_of: Time::ZERO, cores: &views, eligible: &eligible };
            black_box(policy.steer(Time::ZERO, &packets[next], &view))
        });
    });
}

fn steer_by_logarithm(criterion: &mut Criterion) {
    steer_by::<Ahrw>(criterion, "8, form=log", &AhrwParams { form: Form::Log }, &setup(8, 1, &[]));
}

/// Trees of two sockets of two caches of two cores, and of four of sixteen of sixteen.
fn steer_down_a_tree(criterion: &mut Criterion) {
    for levels in [[(2, 2000), (2, 1400), (2, 1100)], [(4, 2000), (16, 1400), (16, 1100)]] {
        let tree = Topology::regular(&levels).expect("a tree");
        let setup = Setup { topology: Some(&tree), ..setup(tree.cores(), 1, &[]) };
        steer_by::<HCahrw>(criterion, &format!("{} in a tree", tree.cores()), &HCahrwParams::default(), &setup);
    }
}

/// A host in which each of some connections holds eight packets all the time.
struct Host {
    policy: PsHrw,
    views: IdVec<CoreId, CoreView>,
    eligible: Vec<CoreId>,
    held: Vec<(CoreId, Packet)>,
    connections: u64,
    uneven: bool,
    next: u64,
}

impl Host {
    /// With packets of one length, so that no set is ever built anew, or of many and a new set for each.
    fn new(cores: usize, connections: u64, uneven: bool) -> Self {
        let beta = if uneven { 0.0 } else { 0.16 };
        let params = PsHrwParams { beta, ..PsHrwParams::default() };
        let mut host = Self {
            policy: PsHrw::new(&params, &setup(cores, 1, &[])).expect("valid parameters"),
            views: IdVec::from_fn(cores, |_| CoreView::default()),
            eligible: (0..cores).map(CoreId::from_index).collect(),
            held: Vec::new(),
            connections,
            uneven,
            next: 0,
        };
        for _ in 0..8 * connections {
            let joined = host.arrive();
            host.held.push(joined);
        }
        host
    }

    fn arrive(&mut self) -> (CoreId, Packet) {
        let flow = self.next % self.connections;
        let length = if self.uneven { 64 + (mix(self.next) % 1451) as u32 } else { 1000 };
        let flow_id = FlowId(flow as u32);
        let packet = Packet { key: mix(flow), flow: flow_id, length, sequence: self.next, ..Packet::default() };
        let view = View { as_of: Time::ZERO, cores: &self.views, eligible: &self.eligible };
        let core = self.policy.steer(Time::ZERO, &packet, &view).core().expect("a core");
        self.policy.on_enqueue(Time::ZERO, Target::Core(core), &packet);
        self.views[core].packets += 1;
        self.next += 1;
        (core, packet)
    }

    /// A packet is steered and joins, and the oldest completes.
    fn step(&mut self) -> CoreId {
        let place = (self.next % self.held.len() as u64) as usize;
        let joined = self.arrive();
        let (core, oldest) = std::mem::replace(&mut self.held[place], joined);
        self.policy.on_completion(Time::ZERO, core, &oldest, oldest.estimate);
        self.views[core].packets -= 1;
        joined.0
    }
}

fn steer_in_proportion(criterion: &mut Criterion) {
    for (cores, connections) in [(8, 1), (8, 3), (8, 1000), (1024, 128)] {
        for (uneven, what) in [(false, "steady"), (true, "always anew")] {
            let mut host = Host::new(cores, connections, uneven);
            let name = format!("steer/ps-hrw/{cores}, {connections} connections, {what}");
            criterion.bench_function(&name, |bencher| bencher.iter(|| black_box(host.step())));
        }
    }
}

fn share<Q: Share + Build>(criterion: &mut Criterion) {
    share_among::<Q>(criterion, &[8, 64, 512, 4096, 32_768]);
}

/// Policies for which it takes no longer to add a client the more there are.
fn share_among_a_million<Q: Share + Build>(criterion: &mut Criterion) {
    share_among::<Q>(criterion, &[8, 64, 512, 4096, 32_768, 1 << 20]);
}

fn share_among<Q: Share + Build>(criterion: &mut Criterion, sizes: &[usize]) {
    let mut group = criterion.benchmark_group(format!("share/{}", Q::INFO.name));
    for &clients in sizes {
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

/// One core that is never idle. Where estimates are wrong, each packet is settled by another tag than it was filed by.
fn share_by_estimates<Q: Share + Build>(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("share/{} by estimates", Q::INFO.name));
    for (clients, exact) in [(64, true), (4096, true), (65_536, true), (64, false), (4096, false), (65_536, false)] {
        let weights: Vec<Weight> = (0..clients).filter_map(|i| Weight::new(1 + i as u32 % 10)).collect();
        let setup = Setup { unit: WorkUnit::Nanoseconds, ..setup(1, clients, &weights) };
        let mut policy = Q::new(&Q::Params::default(), &setup).expect("defaults fit");
        let head = |client: ClientId| {
            let estimate = 640 + mix(u64::from(client.0)) % 14_501;
            Packet { client, length: estimate as u32, estimate, ..Packet::default() }
        };
        for client in (0..clients).map(ClientId::from_index) {
            policy.on_arrival(Time::ZERO, client, &head(client), 0);
            policy.on_wake(Time::ZERO, client, &head(client));
        }
        let mut now = 0;
        let name = format!("{clients}, {}", if exact { "exact" } else { "settled" });
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let client = policy.pick(Time::from_ns(now), CoreId(0)).expect("always ready");
                let packet = head(client);
                policy.on_dispatch(Time::from_ns(now), CoreId(0), client, &packet);
                policy.on_head(Time::from_ns(now), client, &packet);
                let error = if exact { 0 } else { mix(now) % (packet.estimate / 5) };
                let used = packet.estimate - if exact { 0 } else { packet.estimate / 10 } + error;
                now += used;
                policy.on_completion(Time::from_ns(now), CoreId(0), client, &packet, used);
                black_box(client)
            });
        });
    }
    group.finish();
}

/// Applications whose packets wait, so many at all times, for 16 cores.
struct Applications {
    policy: Lap,
    waiting: Vec<VecDeque<Packet>>,
    in_service: Vec<u32>,
    /// What each core serves.
    cores: Vec<Option<Packet>>,
    next: u64,
}

impl Applications {
    fn new(params: &LapParams, applications: usize, packets: u64) -> Self {
        let setup = Setup { packets: packets as usize + 16, ..setup(16, applications, &[]) };
        let mut all = Self {
            policy: Lap::new(params, &setup).expect("valid parameters"),
            waiting: vec![VecDeque::with_capacity(packets as usize); applications],
            in_service: vec![0; applications],
            cores: vec![None; 16],
            next: 0,
        };
        (0..packets).for_each(|_| all.arrive());
        all
    }

    fn arrive(&mut self) {
        let id = (mix(self.next) % self.waiting.len() as u64) as usize;
        let estimate = 1000 + mix(!self.next) % 4000;
        let packet = Packet { client: ClientId(id as u32), estimate, sequence: self.next, ..Packet::default() };
        self.policy.on_arrival(Time::ZERO, packet.client, &packet, self.waiting[id].len() as u32);
        if self.waiting[id].is_empty() {
            match self.in_service[id] {
                0 => self.policy.on_wake(Time::ZERO, packet.client, &packet),
                _ => self.policy.on_head(Time::ZERO, packet.client, &packet),
            }
        }
        self.waiting[id].push_back(packet);
        self.next += 1;
    }

    /// A core is done, takes the next packet, and another arrives.
    fn step(&mut self) -> ClientId {
        let core = CoreId((self.next % 16) as u16);
        if let Some(done) = self.cores[core.index()].take() {
            self.in_service[done.client.index()] -= 1;
            self.policy.on_completion(Time::ZERO, core, done.client, &done, done.estimate);
            if self.in_service[done.client.index()] == 0 && self.waiting[done.client.index()].is_empty() {
                self.policy.on_idle(Time::ZERO, done.client);
            }
        }
        let id = self.policy.pick(Time::ZERO, core).expect("packets wait");
        let sent = self.waiting[id.index()].pop_front().expect("its head waits");
        self.in_service[id.index()] += 1;
        self.policy.on_dispatch(Time::ZERO, core, id, &sent);
        if let Some(head) = self.waiting[id.index()].front() {
            self.policy.on_head(Time::ZERO, id, head);
        }
        self.cores[core.index()] = Some(sent);
        self.arrive();
        id
    }
}

fn share_by_applications(criterion: &mut Criterion) {
    for (applications, window, packets) in [(30, 0, 512), (30, 512, 1024), (1024, 0, 4096), (1024, 512, 4096)] {
        let params = LapParams { window, ..LapParams::default() };
        let mut all = Applications::new(&params, applications, packets);
        let name = format!("share/lap/{applications} applications, {packets} packets, window {window}");
        criterion.bench_function(&name, |bencher| bencher.iter(|| black_box(all.step())));
    }
}

criterion_group!(
    benches,
    steer::<Rr>,
    steer::<Conn>,
    steer::<Jsq>,
    steer::<Hrw>,
    steer::<Ahrw>,
    steer_by_logarithm,
    steer::<HCahrw>,
    steer_down_a_tree,
    steer_in_proportion,
    steer::<Ss>,
    steer::<Ml>,
    share::<Wrr>,
    share::<Drr>,
    share::<Sfq>,
    share::<Wf2qPlus>,
    share::<Vtrr>,
    share_among_a_million::<Gr3>,
    share_among_a_million::<Gr3mp>,
    share::<Efq>,
    share_by_estimates::<Efq>,
    share_by_estimates::<EfqWarm>,
    share_by_applications
);
criterion_main!(benches);
