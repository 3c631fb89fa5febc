//! The time of one decision of each policy, through the trait, without the mechanism. For sharing
//! policies, it has only the cases that the benchmark `share` does not measure.
//!
//! - Steering: one packet of one of 1,024 connections, on idle cores. In proportion: a packet
//!   arrives and one is done. Remapped: a packet of each of 100,000 connections.
//! - Sharing by estimates: one always-ready client is picked, dispatched, completed and offered again. Packets
//!   take 640 to 15,140 ns, weights are 1 to 10, and clients are visited in the policy's order while time
//!   passes. In some cases, packets use up to a tenth more or less than estimated.
//! - Sharing by applications: 16 cores take turns; each packet that leaves is followed by another
//!   of a random application.
//! - Estimation: an estimator learns from a packet, or estimates one.
//! - Allocation: all decisions for a packet, from its arrival to its completion.
//!
//! All figures include the loop that feeds the policy. `none` shows the time of this loop: it
//! serves heads in order of arrival and learns nothing. For allocation, `static` shows it, which
//! decides nothing.

use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use humpyard_core::config::SchedulerConfig;
use humpyard_core::hash::mix;
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{
    Allocate, Build, BuildError, CoreView, Estimate, Family, Info, Params, Policy, Share, Steer, Target, Topology, View,
};
use humpyard_core::rendezvous::Rendezvous;
use humpyard_core::unit::{Time, Weight, WorkUnit};
use humpyard_policies::allocate::{
    caladan::Caladan, cohort::Cohort, cohort_e::CohortE, everest::Everest, everest_ae::EverestAe,
    everest_env::EverestEnv, everest_ld::EverestLd, quantum::Quantum, seda::Seda, r#static::Static,
};
use humpyard_policies::estimate::least_squares::{LeastSquares, LeastSquaresParams};
use humpyard_policies::share::{efq::Efq, efq_warm::EfqWarm, fcfs::FcfsParams, lap::Lap, lap::LapParams};
use humpyard_policies::steer::{
    ahrw::{Ahrw, AhrwParams, Form},
    ap::Ap,
    ca_ahrw::CaAhrw,
    conn::Conn,
    fcfs_thread::FcfsThread,
    flow_slice::FlowSlice,
    gps_hrw::GpsHrw,
    h_cahrw::{HCahrw, HCahrwParams},
    hrw::Hrw,
    hrw_kencl::HrwKencl,
    jsq::Jsq,
    jsq2::Jsq2,
    ml::Ml,
    mlp::Mlp,
    ovs::Ovs,
    ps_hrw::PsHrw,
    rr::Rr,
    rss_plus_plus::RssPlusPlus,
    scr::Scr,
    sprayer::Sprayer,
    ss::Ss,
};
use humpyard_testkit::loops::{Allocating, Steering};

fn config(cores: usize, clients: usize, weights: &[Weight]) -> SchedulerConfig {
    let rendezvous = humpyard_simd::rendezvous();
    SchedulerConfig {
        cores,
        flows: 1024,
        clients,
        packets: clients,
        weights: weights.to_vec(),
        rendezvous,
        ..SchedulerConfig::default()
    }
}

fn steer<S: Steer + Build>(criterion: &mut Criterion) {
    for cores in [2, 8, 16] {
        steer_by::<S>(criterion, &cores.to_string(), &S::Params::default(), &config(cores, 1, &[]));
    }
}

/// Measures policies that use rendezvous hashing: with the features of this processor, and with
/// those of any processor.
fn steer_by_rendezvous<S: Steer + Build>(criterion: &mut Criterion) {
    steer::<S>(criterion);
    let everywhere = SchedulerConfig { rendezvous: Rendezvous::default(), ..config(16, 1, &[]) };
    steer_by::<S>(criterion, "16 on any processor", &S::Params::default(), &everywhere);
}

fn steer_by<S: Steer + Build>(criterion: &mut Criterion, name: &str, params: &S::Params, config: &SchedulerConfig) {
    let packets: Vec<Packet> = (0..1024)
        .map(|i| Packet { key: mix(i), rss: mix(i) as u32, flow: FlowId(i as u32), ..Packet::default() })
        .collect();
    let mut policy = S::new(params, config).expect("valid parameters");
    let views = IdVec::from_fn(config.cores, |_| CoreView::default());
    let eligible: Vec<CoreId> = (0..config.cores).map(CoreId::from_index).collect();
    let mut next = 0;
    criterion.bench_function(&format!("steer/{}/{name}", S::INFO.name), |bencher| {
        bencher.iter(|| {
            next = if next + 1 < packets.len() { next + 1 } else { 0 };
            let view = View { as_of: Time::ZERO, cores: &views, eligible: &eligible };
            black_box(policy.steer(Time::ZERO, &packets[next], &view))
        });
    });
}

fn steer_by_logarithm(criterion: &mut Criterion) {
    steer_by::<Ahrw>(criterion, "8, form=log", &AhrwParams { form: Form::Log }, &config(8, 1, &[]));
}

/// Measures trees: two sockets of two caches of two cores, and four of sixteen of sixteen.
fn steer_down_a_tree(criterion: &mut Criterion) {
    for levels in [[(2, 2000), (2, 1400), (2, 1100)], [(4, 2000), (16, 1400), (16, 1100)]] {
        let tree = Topology::regular(&levels).expect("a tree");
        let config = SchedulerConfig { topology: Some(tree.clone()), ..config(tree.cores(), 1, &[]) };
        let name = format!("{} in a tree", tree.cores());
        steer_by::<HCahrw>(criterion, &name, &HCahrwParams::default(), &config);
        let everywhere = SchedulerConfig { rendezvous: Rendezvous::default(), ..config };
        steer_by::<HCahrw>(criterion, &format!("{name} on any processor"), &HCahrwParams::default(), &everywhere);
    }
}

fn steer_in_proportion<S: Steer + Build>(criterion: &mut Criterion) {
    for (cores, connections) in [(8, 1), (8, 3), (8, 1000), (1024, 128)] {
        for (beta, what) in [("0.16", "steady"), ("0", "always anew")] {
            let mut params = S::Params::default();
            params.set(S::INFO.name, "beta", beta).expect("it has one");
            let mut host: Steering<S> = Steering::new(&params, &config(cores, 1, &[]), connections, beta == "0");
            let name = format!("steer/{}/{cores}, {connections} connections, {what}", S::INFO.name);
            criterion.bench_function(&name, |bencher| bencher.iter(|| black_box(host.step())));
        }
    }
}

/// Lets a hundred thousand connections, each of which holds a packet, find their cores again after
/// one of 16 cores goes or returns.
fn remap<S: Steer + Build>(criterion: &mut Criterion) {
    const CONNECTIONS: u32 = 100_000;
    let config = SchedulerConfig { flows: CONNECTIONS as usize, ..config(16, 1, &[]) };
    let mut policy = S::new(&S::Params::default(), &config).expect("defaults fit");
    let packet = |flow: u32| {
        let key = mix(u64::from(flow));
        Packet {
            key,
            rss: key as u32,
            flow: FlowId(flow),
            length: 1000,
            sequence: u64::from(flow),
            ..Packet::default()
        }
    };
    let packets: Vec<Packet> = (0..CONNECTIONS).map(packet).collect();
    let mut views = IdVec::from_fn(16, |_| CoreView::default());
    let all: Vec<CoreId> = views.ids().collect();
    for packet in &packets {
        let core = {
            let view = View { as_of: Time::ZERO, cores: &views, eligible: &all };
            policy.steer(Time::ZERO, packet, &view).core().expect("a core")
        };
        policy.on_enqueue(Time::ZERO, Target::Core(core), packet);
        views[core].packets += 1;
    }
    let mut gone = 0;
    criterion.bench_function(&format!("remap/{}/100k connections, 16 cores", S::INFO.name), |bencher| {
        bencher.iter(|| {
            gone = (gone + 1) % 16;
            let left: Vec<CoreId> = all.iter().copied().filter(|core| core.index() != gone).collect();
            let view = View { as_of: Time::ZERO, cores: &views, eligible: &left };
            packets
                .iter()
                .fold(0, |sum, packet| sum + policy.steer(Time::ZERO, packet, &view).core().expect("a core").index())
        });
    });
}

/// Serves heads in order of arrival; the remaining time is that of the loop.
struct Nothing {
    heads: VecDeque<ClientId>,
}

impl Build for Nothing {
    type Params = FcfsParams;
    const INFO: Info = Info {
        name: "none",
        family: Family::Share,
        summary: "heads as they come",
        source: "",
        promises: &[],
        complexity: "O(1)",
    };

    fn new(_: &FcfsParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        Ok(Self { heads: VecDeque::with_capacity(config.clients) })
    }
}

impl Policy for Nothing {}

impl Share for Nothing {
    fn on_wake(&mut self, _: Time, client: ClientId, _: &Packet) {
        self.heads.push_back(client);
    }
    fn on_head(&mut self, _: Time, client: ClientId, _: &Packet) {
        self.heads.push_back(client);
    }
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        self.heads.front().copied()
    }
    fn on_dispatch(&mut self, _: Time, _: CoreId, _: ClientId, _: &Packet) {
        self.heads.pop_front();
    }
    fn on_idle(&mut self, _: Time, _: ClientId) {}
    fn on_client_end(&mut self, _: Time, _: ClientId) {}
    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
}

/// Measures one core that is never idle. With wrong estimates, completion changes the tag by which
/// each packet was filed.
fn share_by_estimates<Q: Share + Build>(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("share/{} by estimates", Q::INFO.name));
    for (clients, exact) in [(64, true), (4096, true), (65_536, true), (64, false), (4096, false), (65_536, false)] {
        let weights: Vec<Weight> = (0..clients).filter_map(|i| Weight::new(1 + i as u32 % 10)).collect();
        let config = SchedulerConfig { unit: WorkUnit::Nanoseconds, ..config(1, clients, &weights) };
        let mut policy = Q::new(&Q::Params::default(), &config).expect("defaults fit");
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

/// Applications for 16 cores, with a constant number of waiting packets.
struct Applications<Q> {
    policy: Q,
    waiting: Vec<VecDeque<Packet>>,
    in_service: Vec<u32>,
    /// The packet that each core serves.
    cores: Vec<Option<Packet>>,
    next: u64,
}

impl<Q: Share + Build> Applications<Q> {
    fn new(params: &Q::Params, applications: usize, packets: u64) -> Self {
        let config = SchedulerConfig { packets: packets as usize + 16, ..config(16, applications, &[]) };
        let mut all = Self {
            policy: Q::new(params, &config).expect("valid parameters"),
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

    /// Completes a packet of a core, gives it the next packet, and lets another arrive.
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
    for (applications, visible, packets) in [(30, 0, 512), (30, 512, 1024), (1024, 0, 4096), (1024, 512, 4096)] {
        let params = LapParams { visible, ..LapParams::default() };
        let mut all: Applications<Lap> = Applications::new(&params, applications, packets);
        let name = format!("share/lap/{applications} applications, {packets} packets, {visible} visible");
        criterion.bench_function(&name, |bencher| bencher.iter(|| black_box(all.step())));
    }
    for (applications, packets) in [(30, 512), (1024, 4096)] {
        let mut all: Applications<Nothing> = Applications::new(&FcfsParams {}, applications, packets);
        let name = format!("share/none/{applications} applications, {packets} packets");
        criterion.bench_function(&name, |bencher| bencher.iter(|| black_box(all.step())));
    }
}

/// Measures the completion of a packet, which updates the line of its service, and the estimate of a packet.
fn estimate(criterion: &mut Criterion) {
    let mut estimator = LeastSquares::new(&LeastSquaresParams::default(), &config(1, 1, &[])).expect("defaults fit");
    let packets: Vec<Packet> =
        (0..1024).map(|i| Packet { length: 64 + (mix(i) % 1437) as u32, ..Packet::default() }).collect();
    let mut next = 0;
    let used = |packet: &Packet| 320 + 13 * u64::from(packet.length) / 10;
    criterion.bench_function("estimate/none", |bencher| {
        bencher.iter(|| {
            next = if next + 1 < packets.len() { next + 1 } else { 0 };
            black_box(used(&packets[next]))
        });
    });
    criterion.bench_function("estimate/least-squares/update", |bencher| {
        bencher.iter(|| {
            next = if next + 1 < packets.len() { next + 1 } else { 0 };
            let packet = &packets[next];
            estimator.on_completion(packet, used(packet), false);
        });
    });
    criterion.bench_function("estimate/least-squares/estimate", |bencher| {
        bencher.iter(|| {
            next = if next + 1 < packets.len() { next + 1 } else { 0 };
            black_box(estimator.estimate(&packets[next]))
        });
    });
}

fn allocate<A: Allocate + Build>(criterion: &mut Criterion) {
    for switch_us in [5, 200] {
        let mut cores: Allocating<A> = Allocating::new(16, 64, Time::from_ns(1000 * switch_us));
        (0..100_000).for_each(|_| cores.step());
        let name = format!("allocate/{}/16 services, 64 cores, t_sw {switch_us} us", A::INFO.name);
        criterion.bench_function(&name, |bencher| bencher.iter(|| cores.step()));
    }
}

criterion_group!(
    benches,
    steer::<Rr>,
    steer::<Conn>,
    steer::<RssPlusPlus>,
    steer::<Ovs>,
    steer::<Jsq>,
    steer::<Jsq2>,
    steer_by_rendezvous::<Hrw>,
    steer::<HrwKencl>,
    steer_by_rendezvous::<Ahrw>,
    steer_by_logarithm,
    steer::<CaAhrw>,
    steer::<HCahrw>,
    steer_down_a_tree,
    steer_in_proportion::<Ap>,
    steer_in_proportion::<GpsHrw>,
    steer_in_proportion::<PsHrw>,
    remap::<Conn>,
    remap::<Hrw>,
    remap::<HCahrw>,
    remap::<Ap>,
    remap::<GpsHrw>,
    remap::<PsHrw>,
    steer::<FlowSlice>,
    steer::<Sprayer>,
    steer::<Scr>,
    steer::<Ss>,
    steer::<FcfsThread>,
    steer::<Ml>,
    steer::<Mlp>,
    allocate::<Static>,
    allocate::<Quantum>,
    allocate::<Cohort>,
    allocate::<CohortE>,
    allocate::<Seda>,
    allocate::<Caladan>,
    allocate::<Everest>,
    allocate::<EverestLd>,
    allocate::<EverestAe>,
    allocate::<EverestEnv>,
    share_by_estimates::<Nothing>,
    share_by_estimates::<Efq>,
    share_by_estimates::<EfqWarm>,
    share_by_applications,
    estimate
);
criterion_main!(benches);
