//! Engines in virtual time: the scheduler decides, and an engine takes longer for a packet of another
//! application than its last one.

use core::cell::Cell;
use std::rc::Rc;

use humpyard_core::config::{SchedulerConfig, ServiceConfig};
use humpyard_core::cost::{LinearCost, Span};
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, ServiceId};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::{Dispatch, FlowOrder, Scheduler};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::random::{Random, Seed};
use humpyard_core::storage::IdSet;
use humpyard_core::unit::{Time, Weight, Work, WorkUnit};
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::share::efq_lap::Mode;
use humpyard_policies::spec::PolicySpec;
pub(super) use humpyard_sim::Feed;
use humpyard_sim::{Driven, Driver, Packets, TimedCores};

use super::costs::{Machine, noise};
use humpyard_lab::LabError;

/// A packet of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) arrival: Time,
    pub(super) application: usize,
    pub(super) client: usize,
    pub(super) length: u32,
    /// Its time on a warm engine, in ns.
    pub(super) work: Work,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    /// The sharing policy, with its estimator if it does not use the table.
    pub(super) policy: &'a str,
    pub(super) engines: usize,
    /// Costs by application.
    pub(super) costs: &'a [LinearCost],
    pub(super) clients: usize,
    pub(super) jobs: &'a [Job],
    pub(super) feed: Feed,
}

/// A packet that was served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    /// The index of the packet.
    pub(super) job: usize,
    pub(super) engine: usize,
    pub(super) started: Time,
    pub(super) finished: Time,
    pub(super) cold: bool,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct EngineRun {
    /// Packets in the order in which they were started.
    pub(super) served: Vec<Served>,
    pub(super) makespan: Time,
    /// Packets waiting when the last one arrived.
    pub(super) left: usize,
    /// Changes of mode of `efq-lap`, and the part of all decisions made as `lap`.
    pub(super) changes: u64,
    pub(super) local: f64,
}

/// Observations of a sharing policy.
#[derive(Debug, Default)]
struct Notes {
    changes: Cell<u64>,
    local: Cell<u64>,
}

/// A sharing policy that records its mode at every decision.
#[derive(Debug)]
struct Noted {
    policy: AnyShare,
    notes: Rc<Notes>,
}

impl Policy for Noted {}

impl Share for Noted {
    fn merges_clients(&self) -> bool {
        self.policy.merges_clients()
    }
    fn prefers_cores(&self) -> bool {
        self.policy.prefers_cores()
    }
    fn on_arrival(&mut self, now: Time, client: ClientId, packet: &Packet, waiting: u32) {
        self.policy.on_arrival(now, client, packet, waiting);
    }
    fn on_wake(&mut self, now: Time, client: ClientId, head: &Packet) {
        self.policy.on_wake(now, client, head);
    }
    fn on_head(&mut self, now: Time, client: ClientId, head: &Packet) {
        self.policy.on_head(now, client, head);
    }
    fn pick(&mut self, now: Time, core: CoreId) -> Option<ClientId> {
        self.policy.pick(now, core)
    }
    fn place(&mut self, now: Time, idle: &IdSet<CoreId>) -> CoreId {
        self.policy.place(now, idle)
    }
    fn on_dispatch(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet) {
        if let AnyShare::EfqLap(policy) = &self.policy {
            self.notes.local.set(self.notes.local.get() + u64::from(policy.mode() == Mode::Local));
            self.notes.changes.set(policy.changes());
        }
        self.policy.on_dispatch(now, core, client, sent);
    }
    fn on_completion(&mut self, now: Time, core: CoreId, client: ClientId, sent: &Packet, used: Work) {
        self.policy.on_completion(now, core, client, sent, used);
    }
    fn on_push_out(&mut self, now: Time, client: ClientId, packet: &Packet, waiting: u32) {
        self.policy.on_push_out(now, client, packet, waiting);
    }
    fn on_idle(&mut self, now: Time, client: ClientId) {
        self.policy.on_idle(now, client);
    }
    fn on_client_end(&mut self, now: Time, client: ClientId) {
        self.policy.on_client_end(now, client);
    }
    fn set_weight(&mut self, now: Time, client: ClientId, weight: Weight) {
        self.policy.set_weight(now, client, weight);
    }
}

type Mechanism = Measured<AnySteer, Noted, AnyAllocate>;

/// Runs the trial to the end of the last packet.
///
/// # Errors
/// If a policy rejects the configuration.
pub(super) fn run(trial: &Trial<'_>) -> Result<EngineRun, LabError> {
    let notes = Rc::new(Notes::default());
    let mut served = Vec::with_capacity(trial.jobs.len());
    let cores = TimedCores::new(trial.engines, |now, engine: CoreId, dispatch: &Dispatch<&Packet>| {
        let (job, cold) = (dispatch.packet.sequence as usize, dispatch.cold);
        let Job { application, work, .. } = trial.jobs[job];
        let busy = Time::from_ns(work + if cold { trial.costs[application].cold } else { 0 });
        let finished = now + busy;
        served.push(Served { job, engine: engine.index(), started: now, finished, cold });
        Span { finished, busy }
    });
    let packets = Packets::new(trial.jobs.iter().map(Job::packet), trial.feed);
    let Driven { measured, .. } = Driver::new(mechanism(trial, &notes)?, packets, cores).drive()?;
    assert_eq!(measured.account().processed, trial.jobs.len() as u64, "there is room for all, and all are served");
    let makespan = served.iter().map(|served: &Served| served.finished).max().unwrap_or_default();
    let local = notes.local.get() as f64 / served.len().max(1) as f64;
    Ok(EngineRun { left: left(trial, &served), served, makespan, changes: notes.changes.get(), local })
}

/// Returns the scheduler of a trial, whose sharing policy is observed.
fn mechanism(trial: &Trial<'_>, notes: &Rc<Notes>) -> Result<Mechanism, LabError> {
    let packets = match trial.feed {
        Feed::Buffer(waiting) => waiting + trial.engines + 1,
        _ => trial.jobs.len(),
    };
    let setup = SchedulerConfig {
        cores: trial.engines,
        flows: trial.clients,
        clients: trial.clients,
        packets,
        unit: WorkUnit::Nanoseconds,
        longest: trial.jobs.iter().map(|job| job.work).max().unwrap_or(1),
        services: vec![ServiceConfig::default(); trial.costs.len()],
        estimates: trial.costs.to_vec(),
        flow_order: FlowOrder::Free,
        ..SchedulerConfig::default()
    };
    let spec: PolicySpec = trial.policy.parse()?;
    let share = || Ok(Noted { policy: spec.build_share(&setup)?, notes: Rc::clone(notes) });
    let mut scheduler = Scheduler::new(&setup, None, None, share)?;
    if let Some(estimate) = spec.build_estimate(&setup)? {
        scheduler = scheduler.with_estimate(Box::new(estimate));
    }
    Ok(Measured::new(scheduler, Measurements::new(&setup)))
}

/// Returns the packets waiting when the last one arrived.
fn left(trial: &Trial<'_>, served: &[Served]) -> usize {
    let last = trial.jobs.last().map_or(Time::ZERO, |job| job.arrival);
    match trial.feed {
        Feed::Buffer(waiting) => trial.jobs.len().min(waiting),
        Feed::Arrivals => served.iter().filter(|served| served.started >= last).count(),
        _ => trial.jobs.len(),
    }
}

impl Job {
    fn packet(&self) -> Packet {
        Packet {
            client: ClientId::from_index(self.client),
            flow: FlowId::from_index(self.client),
            service: ServiceId::from_index(self.application),
            length: self.length,
            // The estimate for an oracle.
            estimate: self.work,
            arrival: self.arrival,
            ..Packet::default()
        }
    }
}

impl EngineRun {
    /// Returns the part of the packets that found their engine cold.
    pub(super) fn cold(&self) -> f64 {
        self.served.iter().filter(|served| served.cold).count() as f64 / self.served.len() as f64
    }

    /// Returns the standard deviation of the difference between the places of packets in starting order and in
    /// arrival order.
    pub(super) fn order_deviation(&self) -> f64 {
        let shifts = || self.served.iter().enumerate().map(|(rank, served)| rank as f64 - served.job as f64);
        let count = self.served.len() as f64;
        let mean = shifts().sum::<f64>() / count;
        (shifts().map(|shift| (shift - mean).powi(2)).sum::<f64>() / count).sqrt()
    }

    /// Returns the mean delay, in ns.
    pub(super) fn delay(&self, jobs: &[Job]) -> f64 {
        let delay = |served: &Served| served.finished.since(jobs[served.job].arrival).as_ns() as f64;
        self.served.iter().map(delay).sum::<f64>() / self.served.len() as f64
    }
}

/// Draws the time of a packet on a warm engine: on the line, with noise.
pub(super) fn drawn(random: &mut Random, machine: Machine, application: &str, length: u32) -> Work {
    let work = machine.cost(application).work(length) as f64;
    let off = 2.0 * (random.below(1 << 20) as f64 / f64::from(1 << 20)) - 1.0;
    ((work * (1.0 + noise(application) * off)).round() as Work).max(1)
}

/// Draws a length of the paper's mix by the specification, with a mean of 322 bytes.
pub(super) fn length(random: &mut Random) -> u32 {
    match random.below(10) {
        0..5 => 64,
        5..8 => 300 + random.below(277) as u32,
        _ => 576 + random.below(425) as u32,
    }
}

/// Number of engines of the paper's network processor.
pub(super) const ENGINES: usize = 16;
/// Number of applications in its figures 10 to 12: ten copies of each that processes payloads.
pub(super) const APPLICATIONS: usize = 30;

/// Returns the original of an application of figures 10 to 12.
pub(super) fn copy_of(application: usize) -> &'static str {
    super::costs::PAYLOAD[application % super::costs::PAYLOAD.len()]
}

/// Returns the costs of the thirty applications.
pub(super) fn thirty(machine: Machine) -> Vec<LinearCost> {
    (0..APPLICATIONS).map(|application| machine.cost(copy_of(application))).collect()
}

/// Returns the mean time of a packet of the thirty applications on a warm engine, in ns.
pub(super) fn mean_work(machine: Machine) -> f64 {
    const MEAN_LENGTH: f64 = 0.5 * 64.0 + 0.3 * 438.0 + 0.2 * 788.0;
    let work = |cost: &LinearCost| cost.fixed as f64 + cost.per_byte_milli as f64 / 1e3 * MEAN_LENGTH;
    thirty(machine).iter().map(work).sum::<f64>() / APPLICATIONS as f64
}

/// Returns packets of the thirty applications, each application a client with the same number of packets. They
/// come at random times, such that warm engines would be busy for the part `load` of the time. The rate varies
/// by `wave` around that, with a period of 5,000 packets.
pub(super) fn thirty_jobs(machine: Machine, packets: usize, load: f64, wave: f64, seed: Seed) -> Vec<Job> {
    let mut random = seed.stream("predictive/thirty");
    let gap = mean_work(machine) / ENGINES as f64 / load;
    let mut at = 0.0;
    let job = |number: usize| {
        let application = random.below(APPLICATIONS as u64) as usize;
        let length = length(&mut random);
        let swing = if (number / 2_500).is_multiple_of(2) { 1.0 + wave } else { 1.0 - wave };
        at += random.exponential(gap) / swing;
        let work = drawn(&mut random, machine, copy_of(application), length);
        Job { arrival: Time::from_ns(at as u64), application, client: application, length, work }
    };
    (0..packets).map(job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: LinearCost = LinearCost { fixed: 100, per_byte_milli: 0, cold: 50 };

    fn jobs(applications: &[usize], gap: u64) -> Vec<Job> {
        let job = |(number, &application): (usize, &usize)| Job {
            arrival: Time::from_ns(number as u64 * gap),
            application,
            client: application,
            length: 64,
            work: 100,
        };
        applications.iter().enumerate().map(job).collect()
    }

    fn came(policy: &str, jobs: &[Job], feed: Feed) -> EngineRun {
        run(&Trial { policy, engines: 1, costs: &[COST; 2], clients: 2, jobs, feed }).unwrap()
    }

    #[test]
    fn cold_engines_take_longer() {
        let jobs = jobs(&[0, 1, 0, 1], 0);
        let in_order = came("fcfs", &jobs, Feed::AtOnce);
        assert_eq!((in_order.makespan, in_order.cold()), (Time::from_ns(600), 1.0));
        let best = came("t-opt", &jobs, Feed::AtOnce);
        assert_eq!((best.makespan, best.cold()), (Time::from_ns(500), 0.5));
        // Places 0 1 2 3 for packets 0 2 1 3.
        assert!((best.order_deviation() - 0.5f64.sqrt()).abs() < 1e-9, "{}", best.order_deviation());
    }

    #[test]
    fn a_buffer_has_always_so_many() {
        let jobs = jobs(&[0, 1, 1, 0, 1, 0, 0], 0);
        // Of two packets, one belongs to the application for which the engine is warm, or both belong to the
        // other.
        let order =
            |feed| came("lap:rule=exhaustive", &jobs, feed).served.iter().map(|served| served.job).collect::<Vec<_>>();
        assert_eq!(order(Feed::Buffer(1)), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(order(Feed::Buffer(2)), [0, 1, 2, 4, 3, 5, 6]);
        assert_eq!(order(Feed::AtOnce), [0, 3, 5, 6, 1, 2, 4]);
    }

    #[test]
    fn arrivals_are_waited_for() {
        let jobs = jobs(&[0, 0, 0], 1_000);
        let came = came("efq", &jobs, Feed::Arrivals);
        assert_eq!((came.makespan, came.left), (Time::from_ns(2_100), 1));
        assert!((came.delay(&jobs) - 350.0 / 3.0).abs() < 1e-9, "{}", came.delay(&jobs));
    }

    #[test]
    fn the_mix_is_that_of_the_specification() {
        let jobs = thirty_jobs(Machine::Paper, 50_000, 0.8, 0.0, Seed(1));
        let mean = |of: fn(&Job) -> f64| jobs.iter().map(of).sum::<f64>() / jobs.len() as f64;
        assert!((mean(|job| f64::from(job.length)) - 321.0).abs() < 5.0);
        let busy = jobs.iter().map(|job| job.work).sum::<u64>() as f64 / ENGINES as f64;
        let load = busy / jobs.last().unwrap().arrival.as_ns() as f64;
        assert!((load - 0.8).abs() < 0.01, "{load}");
    }
}
