//! Cores in virtual time, which serve the packets of a run.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::{LinearCost, Span};
use humpyard_core::id::{ClientId, CoreId, FlowId, Id, IdVec};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::{Completed, Dispatch, FlowOrder};
use humpyard_core::packet::Packet;
use humpyard_core::unit::{Time, WorkUnit};
use humpyard_policies::spec::PolicySpec;
use humpyard_sim::{Driven, Driver, Feed, Packets, TimedCores};

use super::load::RivalJob;
use crate::harness::{Sees, Watched};
use humpyard_lab::LabError;

/// By what packets belong to clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClientBy {
    /// Each packet is one.
    Packets,
    /// The kinds of packets are two.
    Kinds,
    /// Each connection is one, of this number.
    Connections(usize),
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RivalTrial<'a> {
    /// The composition of policies.
    pub(super) policy: &'a str,
    pub(super) cores: usize,
    pub(super) clients: ClientBy,
    pub(super) jobs: &'a [RivalJob],
    /// How long a core is held when it gives a packet back.
    pub(super) switch_out: Time,
    /// From the decision until the core has the packet, if it is idle. A busy core overlaps it with its work.
    pub(super) hand_over: Time,
    /// Most packets that a core is handed at a time, the one in service included.
    pub(super) in_flight: u32,
}

/// The result of a run. The first tenth of the packets is left out of times and cores.
#[derive(Debug)]
pub(super) struct RivalRun {
    /// The time of each packet from its arrival to its end in us, ascending.
    sojourns: Vec<f64>,
    /// The same over its service time, ascending.
    slowdowns: Vec<f64>,
    pub(super) preemptions: u64,
    /// When the last packet ends, in us.
    pub(super) ended_us: f64,
    /// The work that the busiest core got, over that of the mean core.
    pub(super) busiest: f64,
}

/// Notes when each packet ends.
#[derive(Debug)]
struct PacketEnds(Vec<Time>);

impl Sees for PacketEnds {
    fn on_completion(&mut self, completed: &Completed, finished: Time, _: Time) {
        self.0[completed.packet.sequence as usize] = finished;
    }
}

/// Most clients, where each packet is one: more than ever wait under a load below 1.
const CLIENTS: usize = 1 << 16;
/// Most packets held. Fewer ever wait: on overloaded cores only long packets pile up.
const HELD: usize = 1 << 20;

impl<'a> RivalTrial<'a> {
    /// Returns a trial with this policy, in which nothing takes time but service.
    pub(super) fn of(policy: &'a str, cores: usize, jobs: &'a [RivalJob]) -> Self {
        let (switch_out, hand_over) = (Time::ZERO, Time::ZERO);
        Self { policy, cores, clients: ClientBy::Packets, jobs, switch_out, hand_over, in_flight: 1 }
    }

    fn clients_max(&self) -> usize {
        match self.clients {
            ClientBy::Packets => self.jobs.len().min(CLIENTS),
            ClientBy::Kinds => 2,
            ClientBy::Connections(connections) => connections,
        }
    }

    fn packet(&self, job: &RivalJob) -> Packet {
        let client = match self.clients {
            ClientBy::Packets | ClientBy::Connections(_) => job.connection % self.clients_max(),
            ClientBy::Kinds => job.kind,
        };
        Packet {
            arrival: job.arrival,
            length: 64,
            estimate: job.work,
            key: job.key,
            rss: job.key as u32,
            flow: FlowId::from_index(client),
            client: ClientId::from_index(client),
            ..Packet::default()
        }
    }

    /// Returns the number of packets that are left out.
    fn skipped(&self) -> usize {
        self.jobs.len() / 10
    }

    /// Runs the trial to the end of the last packet.
    ///
    /// # Errors
    /// If a policy rejects the configuration.
    pub(super) fn run(&self) -> Result<RivalRun, LabError> {
        let clients = self.clients_max();
        let setup = SchedulerConfig {
            cores: self.cores,
            clients,
            flows: clients,
            packets: self.jobs.len().min(HELD),
            unit: WorkUnit::Nanoseconds,
            longest: self.jobs.iter().map(|job| job.work).max().unwrap_or(1),
            flow_order: FlowOrder::Free,
            in_flight: self.in_flight,
            estimates: vec![LinearCost { fixed: 1, per_byte_milli: 0, cold: 0 }],
            ..SchedulerConfig::default()
        };
        let spec: PolicySpec = format!("estimate=oracle/{}", self.policy).parse()?;
        let scheduler = spec.build(&setup)?;
        scheduler.check_preemption()?;
        let (quantum, slots, further) = (scheduler.quantum(), scheduler.slots(), scheduler.further_work());
        let mut free = IdVec::from_fn(self.cores, |_| Time::ZERO);
        let mut work: IdVec<CoreId, u64> = IdVec::from_fn(self.cores, |_| 0);
        let mut cores = TimedCores::new(self.cores, |now: Time, core: CoreId, dispatch: &Dispatch<&Packet>| {
            let job = dispatch.packet.sequence as usize;
            let busy = Time::from_ns(self.jobs[job].work) + further;
            if job >= self.skipped() {
                work[core] += busy.as_ns();
            }
            // As `CostModel` does it, which knows no work of single packets.
            let finished = (now + self.hand_over).max(free[core]) + busy;
            free[core] = finished;
            Span { finished, busy }
        });
        if let Some(quantum) = quantum {
            cores = cores.with_quantum(quantum, self.switch_out, slots);
        }
        let ends = Watched::new(PacketEnds(vec![Time::ZERO; self.jobs.len()]));
        let measured = Measured::new(scheduler, Measurements::new(&setup)).with_observer(Box::new(ends.clone()));
        let packets = Packets::new(self.jobs.iter().map(|job| self.packet(job)), Feed::Arrivals);
        let Driven { measured, .. } = Driver::new(measured, packets, cores).drive()?;
        assert_eq!(measured.account().processed, self.jobs.len() as u64, "there is room for all, and all are served");
        let summary = measured.summary();
        let preemptions = summary.preemptions.unwrap_or(0);
        let busy: f64 = summary.cores_detail.iter().map(|core| core.utilization * summary.duration_ns as f64).sum();
        let served = self.jobs.iter().map(|job| job.work + further.as_ns()).sum::<u64>();
        let worked = served + preemptions * self.switch_out.as_ns();
        let lost = (busy - worked as f64).abs();
        assert!(lost < worked as f64 * 1e-6 + 1e3, "{}: cores were busy for {busy} ns, not {worked}", self.policy);
        let (sojourns, slowdowns) = ends.with(|ends| self.times(&ends.0));
        let ended = ends.with(|ends| ends.0.iter().copied().max()).unwrap_or(Time::ZERO);
        let all: u64 = work.iter().sum();
        let busiest = work.iter().copied().max().unwrap_or(0) as f64 * self.cores as f64 / all as f64;
        Ok(RivalRun { sojourns, slowdowns, preemptions, ended_us: ended.as_ns() as f64 / 1e3, busiest })
    }

    /// Returns times from arrival to end, and slowdowns, both ascending.
    fn times(&self, ends: &[Time]) -> (Vec<f64>, Vec<f64>) {
        let took = |(job, end): (&RivalJob, &Time)| (end.since(job.arrival).as_ns() as f64, job.work as f64);
        let took = || self.jobs.iter().zip(ends).skip(self.skipped()).map(took);
        let mut sojourns: Vec<f64> = took().map(|(sojourn, _)| sojourn / 1e3).collect();
        let mut slowdowns: Vec<f64> = took().map(|(sojourn, work)| sojourn / work).collect();
        sojourns.sort_unstable_by(f64::total_cmp);
        slowdowns.sort_unstable_by(f64::total_cmp);
        (sojourns, slowdowns)
    }
}

impl RivalRun {
    /// Returns the mean time, in us.
    pub(super) fn mean(&self) -> f64 {
        crate::harness::mean(&self.sojourns)
    }

    /// Returns the time that this part of the packets does not exceed, in us.
    pub(super) fn sojourn(&self, part: f64) -> f64 {
        percentile(&self.sojourns, part)
    }

    /// Returns the slowdown that this part of the packets does not exceed.
    pub(super) fn slowdown(&self, part: f64) -> f64 {
        percentile(&self.slowdowns, part)
    }
}

/// Returns the least of these ascending values that at least this part of them does not exceed.
fn percentile(ascending: &[f64], part: f64) -> f64 {
    let rank = (ascending.len() as f64 * part).ceil() as usize;
    ascending[rank.clamp(1, ascending.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(works: &[u64]) -> Vec<RivalJob> {
        let job = |(connection, &work)| RivalJob { arrival: Time::ZERO, work, kind: 0, connection, key: 0 };
        works.iter().enumerate().map(job).collect()
    }

    fn came(policy: &str, cores: usize, works: &[u64], hand_over: u64, in_flight: u32) -> Vec<f64> {
        let jobs = jobs(works);
        let trial =
            RivalTrial { hand_over: Time::from_ns(hand_over), in_flight, ..RivalTrial::of(policy, cores, &jobs) };
        trial.run().unwrap().sojourns.iter().map(|us| (us * 1e3).round()).collect()
    }

    /// The vectors of the specification: when each packet ends, ascending.
    #[test]
    fn packets_end_as_specified() {
        assert_eq!(came("share=jbsq:n=2", 2, &[10, 1, 1, 1, 1], 0, 2), [1.0, 2.0, 3.0, 10.0, 11.0]);
        assert_eq!(came("share=fcfs", 2, &[10, 1, 1, 1, 1], 0, 1), [1.0, 2.0, 3.0, 4.0, 10.0]);
        assert_eq!(came("share=shinjuku:quantum=2ns,idle=yield", 2, &[5, 5, 1], 0, 1), [3.0, 5.0, 6.0]);
    }

    /// A core with room for one packet waits for each hand-over; with room for two only for the first.
    #[test]
    fn room_hides_the_hand_over() {
        assert_eq!(came("share=jbsq:n=1", 1, &[10, 10, 10], 3, 1), [13.0, 26.0, 39.0]);
        assert_eq!(came("share=jbsq:n=2", 1, &[10, 10, 10], 3, 2), [13.0, 23.0, 33.0]);
        // The second packet is handed over with the first, the third when the first ends: later than the second ends.
        assert_eq!(came("share=jbsq:n=2", 1, &[10, 10, 10], 15, 2), [25.0, 35.0, 50.0]);
    }

    #[test]
    fn percentiles_are_ranks() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 0.999, 1.0].map(|part| percentile(&values, part)), [100.0, 198.0, 200.0, 200.0]);
    }
}
