//! One run: traffic of a gateway's six services, on cores that a policy allocates to them.

use core::time::Duration;
use std::env;
use std::path::PathBuf;

use humpyard_core::frame::Frame;
use humpyard_core::id::{IdVec, ServiceId};
use humpyard_core::measure::{Histogram, Measured};
use humpyard_core::mechanism::{Arrival, Dispatch};
use humpyard_core::name::Named;
use humpyard_core::packet::Packet;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_sim::Simulation;
use humpyard_traffic::header::Headers;

use crate::harness::{Sees, Watched, held_order, unstopped};
use humpyard_lab::{Control, CostLine, Costs, Host, LabError, Rate, RunConfig, ServiceChoice, parts};

/// Flows that the classifier remembers without packets in flight.
const FLOWS_KEPT: usize = 1 << 16;
/// A service of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    /// The rule for its packets; the last service gets the remaining packets.
    packets: &'static str,
    name: &'static str,
    /// Time of a packet, in us.
    us: f64,
    /// D and t_sw of the service, relative to those of the machine.
    tolerance: f64,
    switch: f64,
}

const fn service(packets: &'static str, name: &'static str, us: f64) -> Service {
    Service { packets, name, us, tolerance: 1.0, switch: 1.0 }
}

/// The services of table 2.
pub(super) const TABLE_2: [Service; 6] = [
    service("ip=4,protocol=tcp", "v4-v6-tcp", 18.22),
    service("ip=4,protocol=udp", "v4-v6-udp", 13.27),
    service("ip=4,protocol=icmp", "v4-v6-icmp", 4.64),
    service("ip=6,protocol=tcp", "v6-v4-tcp", 10.09),
    service("ip=6,protocol=udp", "v6-v4-udp", 9.72),
    service("protocol=any", "v6-v4-icmp", 1.78),
];
/// The same services, each with its own tolerance and switch cost.
const UNEQUAL: [Service; 6] = with_own([(1.0, 1.0), (0.5, 0.25), (2.0, 0.5), (1.0, 2.0), (0.25, 0.25), (4.0, 1.0)]);
/// The same services with these tolerances and switch costs exchanged.
const EXCHANGED: [Service; 6] = with_own([(4.0, 1.0), (0.25, 0.25), (1.0, 2.0), (2.0, 0.5), (0.5, 0.25), (1.0, 1.0)]);

/// Returns the services of table 2, with these factors on the machine's D and t_sw.
const fn with_own(factors: [(f64, f64); 6]) -> [Service; 6] {
    let mut services = TABLE_2;
    let mut at = 0;
    while at < services.len() {
        (services[at].tolerance, services[at].switch) = factors[at];
        at += 1;
    }
    services
}
/// Few services and many. Few: those of table 2 by protocol alone. Many: the TCP and UDP services each in two,
/// one of which has packets that take three times as long.
const THREE: [Service; 3] = [
    service("protocol=tcp", "tcp", 14.15),
    service("protocol=udp", "udp", 11.5),
    service("protocol=any", "other", 3.2),
];
const TEN: [Service; 10] = [
    service("ip=4,protocol=tcp,destination=172.16.0.0/16", "v4-tcp-a", 9.11),
    service("ip=4,protocol=tcp", "v4-tcp-b", 27.33),
    service("ip=4,protocol=udp,destination=172.16.0.0/16", "v4-udp-a", 6.64),
    service("ip=4,protocol=udp", "v4-udp-b", 19.91),
    service("ip=4,protocol=icmp", "v4-icmp", 4.64),
    service("ip=6,protocol=tcp,destination=fd00:0:0:2::/112", "v6-tcp-a", 5.05),
    service("ip=6,protocol=tcp", "v6-tcp-b", 15.14),
    service("ip=6,protocol=udp,destination=fd00:0:0:2::/112", "v6-udp-a", 4.86),
    service("ip=6,protocol=udp", "v6-udp-b", 14.58),
    service("protocol=any", "v6-icmp", 1.78),
];
/// Four services by address; the packets of each take twice as long as those of the previous one.
const BY_ADDRESS: [Service; 4] = [
    service("address=172.16.0.0/14", "first", 5.0),
    service("address=172.20.0.0/14", "second", 10.0),
    service("address=172.24.0.0/14", "third", 20.0),
    service("protocol=any", "fourth", 40.0),
];
const BY_VERSION: [Service; 4] = [
    service("ip=4,protocol=tcp", "v4-tcp", 18.22),
    service("ip=4,protocol=udp", "v4-udp", 13.27),
    service("ip=6,protocol=tcp", "v6-tcp", 10.09),
    service("protocol=any", "v6-udp", 9.72),
];
/// The services of real packets.
const REAL: [Service; 4] = [
    service("protocol=tcp,port=80+443", "web", 20.0),
    service("protocol=tcp", "tcp", 10.0),
    service("protocol=udp", "udp", 6.0),
    service("protocol=any", "other", 3.0),
];

/// A kind of traffic, besides the generators of a gateway.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The source of packets: the text before and behind their number.
    input: (&'static str, &'static str),
    /// The capture to play, in the directory of captures.
    capture: Option<&'static str>,
    services: &'static [Service],
    /// Most packets waiting for a service.
    queue: Option<u32>,
}

impl Kind {
    /// Returns the kind called `name`. `None`: the name is that of a generator.
    fn of(name: &str) -> Option<Self> {
        let made = |input, services| Self { input, services, capture: None, queue: None };
        let onoff = ("gen:onoff:packets=", "");
        let composed = |capture| Self {
            input: ("gen:compose:arrivals=gen:onoff:packets=", ",flows=capture,payloads="),
            capture: Some(capture),
            services: &REAL,
            queue: None,
        };
        Some(match name {
            "onoff, own D and t_sw" => made(onoff, &UNEQUAL),
            "flowb, own D and t_sw" => made(("gen:flowb:packets=", ""), &UNEQUAL),
            "poisson, other D and t_sw" => made(("gen:poisson:mix=services,version=mixed,packets=", ""), &EXCHANGED),
            "flowb, other D and t_sw" => made(("gen:flowb:packets=", ""), &EXCHANGED),
            "onoff, 64 may wait" => Self { queue: Some(64), ..made(onoff, &TABLE_2) },
            "mmpp, 256 may wait" => Self { queue: Some(256), ..made(("gen:mmpp:packets=", ""), &TABLE_2) },
            "onoff, 3 services" => made(onoff, &THREE),
            "onoff, 10 services" => made(onoff, &TEN),
            "mit, 4 services" => made(("gen:mit:packets=", ""), &BY_ADDRESS),
            "messages, 4 services" => made(("gen:messages:packets=", ""), &BY_VERSION),
            "industrial/right.pcap" => composed("industrial/right.pcap"),
            "protocols/alexa-app.pcapng" => composed("protocols/alexa-app.pcapng"),
            "devices/HueSwitch-Setup-A-6-STA.pcap" => composed("devices/HueSwitch-Setup-A-6-STA.pcap"),
            _ => return None,
        })
    }
}

/// Returns whether this traffic comes from a capture.
pub(super) fn is_real(name: &str) -> bool {
    Kind::of(name).is_some_and(|kind| kind.capture.is_some())
}

/// Returns the directory of captures that `HUMPYARD_TRACES` names. `None`: it does not exist.
fn captures() -> Option<PathBuf> {
    env::var_os("HUMPYARD_TRACES").map(PathBuf::from).filter(|directory| directory.is_dir())
}

/// Mean time of a packet of the mix, in us.
pub(super) const MEAN_US: f64 = 13.753;

/// Traffic with a number of packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// The generator, or the name of another kind.
    pub(super) profile: &'static str,
    /// The load, as part of the time that sixteen cores would be busy.
    pub(super) load: f64,
    pub(super) packets: u64,
    /// Most packets waiting over all services; a packet that arrives then is lost.
    pub(super) room: u64,
    pub(super) seed: Seed,
    /// Factor on the packet times of table 2; the arrival rate is divided by it.
    pub(super) scale: f64,
}

/// The machine, and the tolerated delay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Point {
    pub(super) cores: usize,
    /// D and t_sw, in us.
    pub(super) tolerance_us: u64,
    pub(super) switch_us: u64,
    pub(super) scale: f64,
}

/// The result of a run.
#[derive(Debug, Default)]
pub(super) struct TrialFigures {
    pub(super) packets: u64,
    /// Packets lost because no queue had room.
    pub(super) lost: u64,
    /// Late or lost packets, in %.
    pub(super) late_percent: f64,
    pub(super) delay_mean_us: f64,
    pub(super) switches: u64,
    /// Packets that an arriving packet finds waiting for its service.
    pub(super) queues: Histogram,
    pub(super) duration_ms: f64,
}

/// Returns the mean number of cores that the traffic keeps busy.
pub(super) fn mean_cores(load: f64) -> f64 {
    16.0 * load
}

impl Traffic {
    /// Returns whether the traffic is available; captures may be missing.
    pub(super) fn is_there(&self) -> bool {
        let capture = Kind::of(self.profile).and_then(|kind| kind.capture);
        capture.is_none_or(|capture| captures().is_some_and(|directory| directory.join(capture).is_file()))
    }

    fn input(&self) -> String {
        let Self { profile, load, packets, scale, .. } = *self;
        if let Some(Kind { input: (before, behind), capture, .. }) = Kind::of(profile) {
            let path = capture.and_then(|capture| Some(captures()?.join(capture).display().to_string()));
            return format!("{before}{packets}{behind}{}", path.unwrap_or_default());
        }
        let rate = mean_cores(load) / (MEAN_US * scale) * 1e6;
        let mix = if profile == "poisson" { ",mix=services,version=mixed" } else { "" };
        format!("gen:{profile}:packets={packets},pps={rate:.0}{mix}")
    }

    fn services(&self) -> &'static [Service] {
        Kind::of(self.profile).map_or(&TABLE_2, |kind| kind.services)
    }

    /// Returns the configuration of a run under this policy, without guarantees.
    fn config(&self, policy: &str, point: Point) -> Result<RunConfig, LabError> {
        let mut config = RunConfig::new(Host::Sim, &self.input(), policy.parse()?);
        let services = self.services();
        config.cores = point.cores;
        config.flow_order = held_order(&config.policy);
        config.costs = costs(services, self.scale);
        config.services = services.iter().map(|service| choice(service.name)).collect();
        let rules = services.iter().map(|service| format!("{},service={}", service.packets, service.name).parse());
        config.rules = rules.collect::<Result<_, _>>()?;
        // Each waiting packet may belong to a different flow.
        config.buffer = self.packets.min(self.room) as usize;
        config.flows = config.buffer + FLOWS_KEPT;
        if let Some(kind) = Kind::of(self.profile) {
            config.rate = Rate::Load { load: self.load, of: None };
            config.limits.queue = kind.queue.unwrap_or(config.limits.queue);
        }
        config.seed = self.seed;
        let times = |us: u64, factor: fn(&Service) -> f64| {
            let time = |service: &Service| Duration::from_nanos((1e3 * us as f64 * factor(service)).round() as u64);
            services.iter().map(|service| (service.name.to_owned(), time(service))).collect()
        };
        config.switch_costs = times(point.switch_us, |service| service.switch);
        config.tolerances = times(point.tolerance_us, |service| service.tolerance);
        Ok(config)
    }

    /// Calls `take` with the service and the arrival time of every packet.
    fn for_each_arrival(&self, point: Point, mut take: impl FnMut(ServiceId, u64)) -> Result<(), LabError> {
        let config = self.config(super::paper::STATIC, point)?;
        let pacer = unstopped(|control| parts::pacer(&config, config.cores, control))?;
        let mut pacer = pacer.ok_or_else(parts::no_line_rate)?;
        let (mut source, mut classifier) = (parts::source(&config)?, parts::classifier(&config)?);
        let (mut frame, mut headers) = (Frame::default(), Headers::default());
        while source.next_headers(&mut frame, classifier.tunnels(), &mut headers)? {
            while classifier.next_expired(frame.time).is_some() {}
            let packet = classifier.classify_headers(&headers, frame.wire_length)?.packet;
            classifier.release(&packet);
            take(packet.service, pacer.arrival(frame.time).as_ns());
        }
        Ok(())
    }

    /// Returns the guarantees of equation 7, in millionths, by service. They are in proportion to the least
    /// number of cores with which none of a service's packets is late.
    pub(super) fn guarantees(&self, point: Point) -> Result<Vec<u32>, LabError> {
        let least = |service: &Service| {
            let time = (service.us * 1e3 * point.scale).round() as u64;
            let tolerance = (1e3 * point.tolerance_us as f64 * service.tolerance) as u64;
            LeastCores::new(time, tolerance, 4 * point.cores)
        };
        let mut least: IdVec<ServiceId, LeastCores> = self.services().iter().map(least).collect();
        self.for_each_arrival(point, |service, arrival| least[service].serve(arrival))?;
        let least: Vec<u64> = least.iter().map(|least| least.cores() as u64).collect();
        let sum: u64 = least.iter().sum();
        Ok(least.into_iter().map(|cores| (cores * 1_000_000 / sum) as u32).collect())
    }

    /// Runs the traffic; guarantees are in millionths, by service.
    pub(super) fn run(&self, policy: &str, point: Point, guarantees: &[u32]) -> Result<TrialFigures, LabError> {
        let mut config = self.config(policy, point)?;
        config.guarantees =
            self.services().iter().zip(guarantees).map(|(service, &part)| (service.name.to_owned(), part)).collect();
        let queues = Watched::new(Seen::default());
        let measured = unstopped(|control| simulated(&config, &queues, control))?;
        let (summary, account) = (measured.summary(), measured.account());
        let lost = account.dropped_total();
        let is_endless = config.limits.queue == u32::MAX && self.room >= self.packets;
        assert!(account.held == 0 && (lost == 0 || !is_endless), "every packet is served in the end");
        let queues = queues.with(|seen| seen.queues.clone());
        Ok(TrialFigures {
            packets: account.arrived,
            lost,
            // The paper counts lost packets as late, relative to all packets. No packet is left at the end.
            late_percent: 100.0 * summary.late.count as f64 / account.arrived.max(1) as f64,
            delay_mean_us: summary.delay_ns.mean / 1e3,
            switches: summary.switches,
            queues,
            duration_ms: summary.duration_ns as f64 / 1e6,
        })
    }
}

/// The scheduler after a run, with its measurements.
type Served = Measured<AnySteer, AnyShare, AnyAllocate>;

/// Simulates the run, and watches its queues.
fn simulated(config: &RunConfig, queues: &Watched<Seen>, control: &mut Control<'_>) -> Result<Served, LabError> {
    let classifier = parts::classifier(config)?;
    let setup = parts::scheduler_config(config, config.cores, classifier.clients_max())?;
    let (measured, records) = parts::measured(config, &setup)?;
    let outcome = humpyard_sim::simulate(Simulation {
        measured: measured.with_observer(Box::new(queues.clone())),
        cores: config.cores,
        costs: parts::cost_model(config, &setup)?,
        link: None,
        swaps: Vec::new(),
        pacer: parts::pacer(config, config.cores, control)?.ok_or_else(parts::no_line_rate)?,
        source: parts::source(config)?,
        classifier,
        stop: control.stop,
        progress: control.progress,
    })?;
    records.finish()?;
    Ok(outcome.measured)
}

fn choice(name: &str) -> ServiceChoice {
    let work = Named { name: name.to_owned(), parameters: Vec::new() };
    ServiceChoice { name: name.to_owned(), matches: None, work }
}

/// Returns the costs of packets of these services, scaled by this factor.
fn costs(services: &[Service], scale: f64) -> Costs {
    let service = |service: &Service| {
        let fixed_ns = service.us * 1e3 * scale;
        (service.name.to_owned(), CostLine { fixed_ns, ..CostLine::default() })
    };
    Costs::of_lines("", "the Everest paper, table 2", services.iter().map(service))
}

/// Finds the least number of cores that serve packets in order without a late packet.
#[derive(Debug)]
struct LeastCores {
    /// Time of a packet and tolerance, in ns.
    packet: u64,
    tolerance: u64,
    /// The numbers of cores without a late packet up to now, ascending from 1.
    tried: Vec<Tried>,
}

/// The completion times of this many cores. Packets take equally long, so each waits for the packet that came
/// this many before it.
#[derive(Debug)]
struct Tried {
    done: Vec<u64>,
    next: usize,
}

impl LeastCores {
    /// Tries numbers of cores up to `most`.
    fn new(packet: u64, tolerance: u64, most: usize) -> Self {
        let tried = (1..=most).map(|cores| Tried { done: vec![0; cores], next: 0 }).collect();
        Self { packet, tolerance, tried }
    }

    /// Handles the arrival of a packet, in ns.
    fn serve(&mut self, arrival: u64) {
        let Self { packet, tolerance, tried } = self;
        let mut late = 0;
        for (at, Tried { done, next }) in tried.iter_mut().enumerate() {
            let core = &mut done[*next];
            *core = arrival.max(*core) + *packet;
            if *core - arrival > *tolerance {
                late = at + 1;
            }
            *next = if *next + 1 == done.len() { 0 } else { *next + 1 };
        }
        // With fewer cores, packets are no earlier. The greatest number always stays.
        tried.drain(..late.min(tried.len() - 1));
    }

    fn cores(&self) -> usize {
        self.tried[0].done.len()
    }
}

/// Most services of a run.
const SERVICES_MAX: usize = 16;

/// The packets waiting for each service, and the numbers that arriving packets found.
#[derive(Debug, Default)]
struct Seen {
    waiting: [u64; SERVICES_MAX],
    queues: Histogram,
}

impl Sees for Seen {
    fn on_arrival(&mut self, _: Time, packet: &Packet, arrival: Arrival) {
        let waiting = &mut self.waiting[usize::from(packet.service.0)];
        let found = *waiting;
        *waiting += u64::from(!matches!(arrival, Arrival::Dropped(_)));
        self.queues.record(found);
    }

    fn on_dispatch(&mut self, _: Time, dispatch: &Dispatch) {
        self.waiting[usize::from(dispatch.packet.service.0)] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 10 ns in pairs: with two cores, each is done after 10 ns; with one core, the second is done
    /// after 20 ns.
    #[test]
    fn as_many_cores_as_are_needed() {
        let least = |arrivals: &[u64], tolerance| {
            let mut least = LeastCores::new(10, tolerance, 8);
            arrivals.iter().for_each(|&arrival| least.serve(arrival));
            least.cores()
        };
        let pairs: Vec<u64> = (0..40).map(|packet| packet / 2 * 20).collect();
        assert_eq!([10, 19, 20].map(|tolerance| least(&pairs, tolerance)), [2, 2, 1]);
        assert_eq!(least(&[0; 100], 10), 8, "at most");
        assert_eq!(least(&[], 10), 1, "of none");
    }

    fn traffic(profile: &'static str, packets: u64) -> Traffic {
        Traffic { profile, load: 0.61, packets, room: packets, seed: Seed(1), scale: 1.0 }
    }

    const POINT: Point = Point { cores: 16, tolerance_us: 2_000, switch_us: 2_000, scale: 1.0 };

    #[test]
    fn the_mix_is_that_of_the_paper() {
        let traffic = traffic("onoff", 400_000);
        assert!(traffic.input().starts_with("gen:onoff:packets=400000,pps=7096"), "{}", traffic.input());
        let mut counts = [0u64; 6];
        traffic.for_each_arrival(POINT, |service, _| counts[usize::from(service.0)] += 1).unwrap();
        assert_eq!(counts.iter().sum::<u64>(), 400_000);
        let work: f64 = counts.iter().zip(TABLE_2).map(|(&count, service)| count as f64 * service.us).sum();
        assert!((work / 400_000.0 / MEAN_US - 1.0).abs() < 0.05, "{counts:?}");
        let guarantees = traffic.guarantees(POINT).unwrap();
        assert!(guarantees.iter().sum::<u32>() <= 1_000_000 && guarantees[0] > guarantees[3], "{guarantees:?}");
    }

    /// Every service of every kind has packets. Packets beyond finite queues are lost, and count as late.
    #[test]
    fn other_kinds_of_traffic() {
        let kinds = ["onoff, own D and t_sw", "onoff, 3 services", "onoff, 10 services", "mit, 4 services"];
        for name in kinds.into_iter().chain(["poisson, other D and t_sw", "messages, 4 services", "onoff, 64 may wait"])
        {
            let traffic = Traffic { load: 0.9, ..traffic(name, 30_000) };
            let mut counts = vec![0u64; traffic.services().len()];
            traffic.for_each_arrival(POINT, |service, _| counts[usize::from(service.0)] += 1).unwrap();
            assert!(counts.iter().all(|&count| count > 0), "{name}: {counts:?}");
            let came = traffic.run("cohort-e", POINT, &traffic.guarantees(POINT).unwrap()).unwrap();
            assert_eq!((came.packets, came.lost > 0), (30_000, name.contains("may wait")), "{name}: {came:?}");
            assert!(came.late_percent >= 100.0 * came.lost as f64 / 30_000.0, "{name}");
        }
    }
}
