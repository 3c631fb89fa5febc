//! One run: traffic of a gateway's six services, on cores that a policy allocates to them.

use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use humpyard_core::frame::Frame;
use humpyard_core::id::{CoreId, IdVec, ServiceId, Slot};
use humpyard_core::measure::{Histogram, Observer};
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use humpyard_core::name::Named;
use humpyard_core::packet::Packet;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_sim::Simulation;
use humpyard_traffic::header::Headers;

use crate::LabError;
use crate::config::{Host, RunConfig, ServiceChoice};
use crate::costs::{CalibratedService, CostFile, Costs};
use crate::parts;
use crate::run::Control;

/// Flows that are remembered with no packet under way.
const FLOWS_KEPT: usize = 1 << 16;
/// The services of table 2: the rule for their packets, of which the last has what is left, their names, and what a packet takes, in
/// us.
const SERVICES: [(&str, &str, f64); 6] = [
    ("ip=4,protocol=tcp", "v4-v6-tcp", 18.22),
    ("ip=4,protocol=udp", "v4-v6-udp", 13.27),
    ("ip=4,protocol=icmp", "v4-v6-icmp", 4.64),
    ("ip=6,protocol=tcp", "v6-v4-tcp", 10.09),
    ("ip=6,protocol=udp", "v6-v4-udp", 9.72),
    ("protocol=any", "v6-v4-icmp", 1.78),
];
/// What a packet of their mix takes, in us.
const MEAN_US: f64 = 13.753;

/// Traffic of so many packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// The generator.
    pub(super) profile: &'static str,
    /// Part of the time that sixteen cores would be busy.
    pub(super) load: f64,
    pub(super) packets: u64,
    pub(super) seed: Seed,
    /// By how much packets take longer than in table 2; they come as much slower.
    pub(super) scale: f64,
}

/// The machine and what is asked of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Point {
    pub(super) cores: usize,
    /// D and t_sw, in us.
    pub(super) tolerance_us: u64,
    pub(super) switch_us: u64,
    pub(super) scale: f64,
}

/// What became of a run.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) packets: u64,
    pub(super) late_percent: f64,
    pub(super) delay_mean_us: f64,
    pub(super) switches: u64,
    /// Packets that an arriving one finds waiting for its service.
    pub(super) queues: Histogram,
    pub(super) duration_ms: f64,
}

/// The cores that the traffic keeps busy in the mean.
pub(super) fn mean_cores(load: f64) -> f64 {
    16.0 * load
}

impl Traffic {
    fn input(&self) -> String {
        let Self { profile, load, packets, scale, .. } = *self;
        let rate = mean_cores(load) / (MEAN_US * scale) * 1e6;
        let mix = if profile == "poisson" { ",mix=services,version=mixed" } else { "" };
        format!("gen:{profile}:packets={packets},pps={rate:.0}{mix}")
    }

    /// A run under this policy, but for the guarantees.
    fn config(&self, policy: &str) -> Result<RunConfig, LabError> {
        let mut config = RunConfig::new(Host::Sim, &self.input(), policy.parse()?);
        config.costs = Costs::File(costs(self.scale));
        config.services = SERVICES.iter().map(|&(_, name, _)| choice(name)).collect();
        let rules = SERVICES.iter().map(|(packets, name, _)| format!("{packets},service={name}").parse());
        config.rules = rules.collect::<Result<_, _>>()?;
        // Queues are not bounded, and each packet that waits may be of a flow of its own.
        config.buffer = self.packets as usize;
        config.flows = config.buffer + FLOWS_KEPT;
        config.seed = self.seed;
        Ok(config)
    }

    /// When packets of each service arrive.
    pub(super) fn arrivals(&self) -> Result<IdVec<ServiceId, Vec<u64>>, LabError> {
        let config = self.config(super::STATIC)?;
        let (mut source, mut classifier) = (parts::source(&config)?, parts::classifier(&config)?);
        let (mut frame, mut headers) = (Frame::default(), Headers::default());
        let mut arrivals = IdVec::from_fn(SERVICES.len(), |_| Vec::new());
        while source.next_headers(&mut frame, classifier.tunnels(), &mut headers)? {
            while classifier.next_expired(&frame).is_some() {}
            let packet = classifier.classify_headers(&headers, frame.wire_length)?.packet;
            classifier.release(&packet);
            arrivals[packet.service].push(frame.time.as_ns());
        }
        Ok(arrivals)
    }

    /// Runs it; guarantees are in millionths, by service.
    pub(super) fn run(&self, policy: &str, point: Point, guarantees: &[u32]) -> Result<Came, LabError> {
        let mut config = self.config(policy)?;
        config.cores = point.cores;
        config.switch_cost = Some(Duration::from_micros(point.switch_us));
        config.tolerances = vec![(String::new(), Duration::from_micros(point.tolerance_us))];
        config.guarantees =
            SERVICES.iter().zip(guarantees).map(|(&(_, name, _), &part)| (name.to_owned(), part)).collect();
        let stop = AtomicBool::new(false);
        let mut progress = |_, _| ();
        let mut control = Control::new(&stop, &mut progress);
        let classifier = parts::classifier(&config)?;
        let queues = Queues::default();
        let measured = parts::with_setup(&config, config.cores, classifier.clients_max(), |setup, options| {
            let (measured, records) = parts::measured(&config, setup, options)?;
            let outcome = humpyard_sim::simulate(Simulation {
                measured: measured.with_observer(Box::new(queues.clone())),
                cores: config.cores,
                costs: parts::cost_model(&config, setup)?,
                link: None,
                swaps: Vec::new(),
                pacer: parts::pacer(&config, config.cores, &mut control)?.ok_or_else(parts::no_line_rate)?,
                source: parts::source(&config)?,
                classifier,
                stop: control.stop,
                progress: control.progress,
            })?;
            records.finish()?;
            Ok(outcome.measured)
        })?;
        let (summary, account) = (measured.summary(), measured.account());
        assert_eq!(account.processed, account.arrived, "every packet is served in the end");
        let queues = queues.seen.lock().unwrap_or_else(PoisonError::into_inner).queues.clone();
        Ok(Came {
            packets: account.processed,
            late_percent: 100.0 * summary.late.fraction,
            delay_mean_us: summary.delay_ns.mean / 1e3,
            switches: summary.switches,
            queues,
            duration_ms: summary.duration_ns as f64 / 1e6,
        })
    }
}

fn choice(name: &str) -> ServiceChoice {
    let work = Named { name: name.to_owned(), parameters: Vec::new() };
    ServiceChoice { name: name.to_owned(), matches: None, work }
}

/// Table 2, with packets that take so many times as long.
fn costs(scale: f64) -> CostFile {
    let service = |&(_, name, us): &(&str, &str, f64)| {
        let fixed_ns = us * 1e3 * scale;
        (name.to_owned(), CalibratedService { fixed_ns, per_byte_ns: 0.0, cold_ns: 0.0, expansion: None })
    };
    CostFile {
        path: String::new(),
        source: "the Everest paper, table 2".to_owned(),
        switch_upper_ns: None,
        moves: humpyard_core::cost::MovePenalties::NONE,
        services: SERVICES.iter().map(service).collect::<BTreeMap<_, _>>(),
    }
}

/// Equation 7: services are guaranteed cores in proportion to those with which, and no fewer, none of their packets is late.
pub(super) fn guarantees(arrivals: &IdVec<ServiceId, Vec<u64>>, point: Point) -> Vec<u32> {
    let time = |us: f64| (us * 1e3 * point.scale).round() as u64;
    let services = arrivals.iter().zip(SERVICES);
    let least: Vec<u64> = services
        .map(|(arrivals, (_, _, us))| least_cores(arrivals, time(us), 1_000 * point.tolerance_us, 4 * point.cores))
        .map(|cores| cores as u64)
        .collect();
    let sum: u64 = least.iter().sum();
    least.into_iter().map(|cores| (cores * 1_000_000 / sum) as u32).collect()
}

/// The least number of cores that serve these packets, in order, and none of them late; at most so many.
fn least_cores(arrivals: &[u64], packet: u64, tolerance: u64, most: usize) -> usize {
    let is_enough = |cores: usize| {
        // As packets take equally long, each waits for the one so many before it.
        let mut done = vec![0; cores];
        arrivals.iter().enumerate().all(|(nth, &arrival)| {
            let core = &mut done[nth % cores];
            *core = arrival.max(*core) + packet;
            *core - arrival <= tolerance
        })
    };
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = (low + high) / 2;
        if is_enough(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// How many packets wait for each service, and how many arriving ones found.
#[derive(Debug, Default)]
struct Seen {
    waiting: [u64; SERVICES.len()],
    queues: Histogram,
}

/// Watches queues.
#[derive(Clone, Debug, Default)]
struct Queues {
    seen: Arc<Mutex<Seen>>,
}

impl Queues {
    fn with(&self, tell: impl FnOnce(&mut Seen)) {
        tell(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Observer for Queues {
    fn on_arrival(&mut self, _: Time, packet: &Packet, _: Arrival) {
        self.with(|seen| {
            let waiting = &mut seen.waiting[usize::from(packet.service.0)];
            let found = *waiting;
            *waiting += 1;
            seen.queues.record(found);
        });
    }
    fn on_dispatch(&mut self, _: Time, _: CoreId, dispatch: &Dispatch) {
        self.with(|seen| seen.waiting[usize::from(dispatch.packet.service.0)] -= 1);
    }
    fn on_completion(&mut self, _: CoreId, _: Slot, _: &Completed, _: Time, _: Time) {}
    fn on_drop(&mut self, _: &Dropped) {}
    fn on_switch(&mut self, _: &Switch) {}
    fn on_switched(&mut self, _: Time, _: CoreId) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 10 ns in pairs: with two cores each is done after 10 ns, with one the second after 20.
    #[test]
    fn as_many_cores_as_are_needed() {
        let pairs: Vec<u64> = (0..40).map(|packet| packet / 2 * 20).collect();
        assert_eq!([10, 19, 20].map(|tolerance| least_cores(&pairs, 10, tolerance, 8)), [2, 2, 1]);
        assert_eq!(least_cores(&[0; 100], 10, 10, 8), 8, "at most");
    }

    #[test]
    fn the_mix_is_that_of_the_paper() {
        let traffic = Traffic { profile: "onoff", load: 0.61, packets: 400_000, seed: Seed(1), scale: 1.0 };
        assert!(traffic.input().starts_with("gen:onoff:packets=400000,pps=7096"), "{}", traffic.input());
        let arrivals = traffic.arrivals().unwrap();
        let counts: Vec<usize> = arrivals.iter().map(Vec::len).collect();
        assert_eq!(counts.iter().sum::<usize>(), 400_000);
        let work: f64 = counts.iter().zip(SERVICES).map(|(&count, (_, _, us))| count as f64 * us).sum();
        assert!((work / 400_000.0 / MEAN_US - 1.0).abs() < 0.05, "{counts:?}");
        let point = Point { cores: 16, tolerance_us: 2_000, switch_us: 2_000, scale: 1.0 };
        let guarantees = guarantees(&arrivals, point);
        assert!(guarantees.iter().sum::<u32>() <= 1_000_000 && guarantees[0] > guarantees[3], "{guarantees:?}");
    }
}
