//! Measures the costs of services and the times of threads on the packets of a run, by live runs.
//!
//! `calibrate` measures with packets of its own. Compression and inspection depend on what is in a
//! packet, and caches hold the tables of one traffic and not of another, so they take another time for
//! the user's packets. Interruptions differ from minute to minute, so they are measured here, too.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use humpyard_core::id::{CoreId, Id, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_sim::{HostCosts, Interruptions};

use super::LineFit;
use super::distance::SteadyRuns;
use super::fit::{median, sorted};
use super::machine::{Stop, interruptions, look_at};
use super::stops::{APART_MAX, ServedPacket, stops};
use super::threads::{MeasuredRun, ROUNDS, ThreadTimes};
use crate::LabError;
use crate::choice::assumed::AssumedHost;
use crate::config::RunConfig;
use crate::control::Control;
use crate::costs::{CostLine, Costs, MachineCosts, Origin, cost_key};

/// Name of costs that were measured on the packets of the input.
pub const INPUT: &str = "input";

/// Time in which interruptions are measured in a round.
const LOOKS: Duration = Duration::from_millis(500);
/// Groups of lengths.
const GROUPS: usize = 16;
/// Ratio of the longest to the shortest group from which the time of a byte is measured.
const LENGTHS_DIFFER: f64 = 1.5;

/// Measures what the services of this run take on its packets, under its policy. Penalties and switches stay those of
/// its costs. If the run assumes this machine, its threads and its interruptions are measured, too.
///
/// # Errors
/// What keeps a run from starting, and being interrupted.
pub fn measure_on_traffic(config: &mut RunConfig, control: &mut Control<'_>) -> Result<(), LabError> {
    let is_here = config.assumed.as_ref().is_some_and(AssumedHost::is_here);
    let measured = MeasuredTraffic::measure(config, is_here, control)?;
    let host = config.assumed.as_mut().map(|assumed| &mut assumed.machine);
    if let Some(MachineCosts { host: Some(host), workers, dispatcher, round_trip_ns, .. }) = host.filter(|_| is_here) {
        *round_trip_ns = measured.round_trip_ns;
        host.times = HostCosts { flows: Vec::new(), ..measured.times.around(&host.times) };
        *dispatcher = measured.dispatcher(host.times.take_in);
        *workers = measured.workers();
    }
    let host = config.assumed.as_ref().and_then(|assumed| assumed.machine.host.as_ref());
    config.costs = measured.served.costs(&config.costs, config, host.map_or(0.0, |host| host.times.own))?;
    Ok(())
}

/// What was measured on the packets of a run.
struct MeasuredTraffic {
    times: ThreadTimes,
    served: ServiceTimes,
    /// The packets of one run each, which came one by one.
    one_by_one: Vec<Vec<ServedPacket>>,
    /// The stops of threads that did nothing but look at the clock: of each processor, by round.
    looked: Vec<Vec<Vec<Stop>>>,
    /// The round trip to the farthest worker in all rounds, in ns; 0: there is no worker elsewhere.
    round_trip_ns: f64,
}

/// What a round finds.
struct TrafficRound {
    times: ThreadTimes,
    one_by_one: Vec<ServedPacket>,
    looked: Option<Vec<Vec<Stop>>>,
}

impl MeasuredTraffic {
    fn measure(config: &RunConfig, is_here: bool, control: &mut Control<'_>) -> Result<Self, LabError> {
        let subject = MeasuredRun::new(config);
        let packets = subject.packets(control)?;
        let served = ServiceTimes::default();
        let with_worker = is_here && config.cores > 0;
        let mut steady = SteadyRuns::new(if with_worker { config.cores } else { 0 }, 0.0);
        let round = || {
            let times = ThreadTimes::measure(&subject, packets, with_worker, control)?;
            served.make_room(subject.packets_one_by_one(&times) as usize, config.services.len());
            control.observer = Some(Box::new(served.clone()));
            let ran = subject.one_by_one(&times, control);
            control.observer = None;
            ran?;
            let one_by_one = mem::take(&mut served.lock().packets);
            Ok(TrafficRound { times, one_by_one, looked: is_here.then(|| look_at(LOOKS)) })
        };
        let rounds = steady.run_together(ROUNDS, round)?;
        let times: Vec<ThreadTimes> = rounds.iter().map(|round| round.times).collect();
        let (one_by_one, looked): (_, Vec<_>) =
            rounds.into_iter().map(|round| (round.one_by_one, round.looked)).unzip();
        Ok(Self {
            times: ThreadTimes::medians(&times),
            served,
            one_by_one,
            looked: looked.into_iter().flatten().collect(),
            round_trip_ns: steady.round_trip_ns(),
        })
    }

    /// Returns how the dispatcher is interrupted, which takes this long to take in a packet.
    fn dispatcher(&self, take_in: f64) -> Interruptions {
        let half = &self.times.half;
        if half.apart > APART_MAX {
            return interruptions(self.looks(|processor| processor == 0));
        }
        let stops: Vec<Vec<Stop>> = self.one_by_one.iter().map(|served| stops(served, half, take_in)).collect();
        interruptions(stops.iter().map(Vec::as_slice))
    }

    /// Returns how workers are interrupted: threads on the other processors, if there are any.
    fn workers(&self) -> Interruptions {
        let is_alone = self.looked.iter().all(|round| round.len() < 2);
        interruptions(self.looks(|processor| is_alone || processor > 0))
    }

    /// Returns the stops of threads that looked at the clock on these processors.
    fn looks(&self, of: impl Fn(usize) -> bool + Copy) -> impl Iterator<Item = &[Stop]> {
        let threads = self.looked.iter().flat_map(|round| round.iter().enumerate());
        threads.filter(move |(processor, _)| of(*processor)).map(|(_, stops)| stops.as_slice())
    }
}

/// Returns the line through the mean times of groups of lengths. Lengths that hardly differ say nothing
/// about the time of a byte: then the time is fixed. The line is scaled so that all packets together take as long by it
/// as they took. Without that, utilization is predicted wrongly where the times do not lie on a line.
fn line(served: &[(u32, u64)], own: f64) -> CostLine {
    let mut served = served.to_vec();
    served.sort_unstable();
    let group = |group: usize| {
        let of = &served[served.len() * group / GROUPS..served.len() * (group + 1) / GROUPS];
        let lengths = of.iter().map(|&(length, _)| f64::from(length)).sum::<f64>() / of.len().max(1) as f64;
        let times = sorted(of.iter().map(|&(_, busy)| busy as f64));
        (!of.is_empty()).then(|| (lengths, (mean(&times) - own).max(0.0)))
    };
    let points: Vec<(f64, f64)> = (0..GROUPS).filter_map(group).collect();
    if let [(shortest, _), .., (longest, _)] = points[..]
        && longest < LENGTHS_DIFFER * shortest
    {
        let times = points.iter().map(|&(_, ns)| ns).sum::<f64>();
        return CostLine { fixed_ns: times / points.len() as f64, ..CostLine::default() };
    }
    let fit = LineFit::of(&points);
    let took = points.iter().map(|&(_, ns)| ns).sum::<f64>();
    let by_line = points.iter().map(|&(length, _)| fit.at(length)).sum::<f64>();
    let factor = if by_line > 0.0 { took / by_line } else { 1.0 };
    CostLine { fixed_ns: factor * fit.fixed_ns, per_byte_ns: factor * fit.per_byte_ns, ..CostLine::default() }
}

/// Returns the mean of these times, without those above ten times the median: these were interrupted.
fn mean(times: &[f64]) -> f64 {
    let most = 10.0 * median(times).max(1.0);
    let kept = times.iter().take_while(|&&time| time <= most);
    let (sum, count) = kept.fold((0.0, 0), |(sum, count), time| (sum + time, count + 1));
    sum / f64::from(count.max(1))
}

/// Packets that were served: the length of each, and how long it took, in ns.
type ServedLengths = Vec<(u32, u64)>;

/// What was served.
#[derive(Clone, Debug, Default)]
struct Served {
    /// By service, what its packets took.
    services: Vec<ServedLengths>,
    /// When each packet came, and when its last service ended.
    packets: Vec<ServedPacket>,
}

/// Hears what is served.
#[derive(Clone, Debug, Default)]
struct ServiceTimes(Arc<Mutex<Served>>);

impl ServiceTimes {
    /// Returns the costs with the lines of the services of this run, of whose times `own` is the
    /// thread's.
    fn costs(&self, known: &Costs, config: &RunConfig, own: f64) -> Result<Costs, LabError> {
        let mut costs = Costs { lines: BTreeMap::new(), name: INPUT.to_owned(), ..known.clone() };
        let served = self.lock();
        for (at, choice) in config.services.iter().enumerate() {
            let spec = cost_key(&choice.work)?;
            let expansion = known.lines.get(&spec).and_then(|line| line.expansion);
            let line = line(served.services.get(at).map_or(&[], Vec::as_slice), own);
            costs.lines.insert(spec, CostLine { expansion, origin: Origin::Measured, ..line });
        }
        Ok(costs)
    }

    /// Makes room for this many packets more, in memory that is in place: a thread stops for memory that is new.
    fn make_room(&self, packets: usize, services: usize) {
        fn more<T: Clone>(of: &mut Vec<T>, packets: usize, empty: T) {
            let length = of.len();
            of.resize(length + packets, empty);
            of.truncate(length);
        }
        let mut served = self.lock();
        let known = served.services.len();
        served.services.resize_with(services.max(known), Vec::new);
        served.services.iter_mut().for_each(|service| more(service, packets, (0, 0)));
        more(&mut served.packets, packets, ServedPacket { arrival: 0, finished: 0 });
    }

    fn lock(&self) -> MutexGuard<'_, Served> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for ServiceTimes {
    fn on_completion(&mut self, _: CoreId, _: Slot, completed: &Completed, finished: Time, busy: Time) {
        let packet = &completed.packet;
        let mut served = self.lock();
        let service = packet.service.index();
        if served.services.len() <= service {
            served.services.resize_with(service + 1, Vec::new);
        }
        served.services[service].push((packet.length, busy.as_ns()));
        if completed.onward.is_none() {
            // When it came in: it arrives at each service of its chain.
            served.packets.push(ServedPacket { arrival: packet.entered.as_ns(), finished: finished.as_ns() });
        }
    }

    fn on_arrival(&mut self, _: Time, _: &Packet, _: Arrival) {}
    fn on_dispatch(&mut self, _: Time, _: CoreId, _: &Dispatch) {}
    fn on_drop(&mut self, _: &Dropped) {}
    fn on_switch(&mut self, _: &Switch) {}
    fn on_switched(&mut self, _: Time, _: CoreId) {}
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::choice::host::Host;
    use crate::choice::service::ServiceChoice;

    #[test]
    fn the_line_is_that_of_the_packets() {
        let mut served: Vec<(u32, u64)> =
            (0..1_600).map(|at| (64 + at % 800, 130 + u64::from(64 + at % 800) / 2)).collect();
        // An interruption does not move it.
        served.push((500, 4_000_000));
        let line = line(&served, 30.0);
        assert!((line.fixed_ns - 100.0).abs() < 2.0 && (line.per_byte_ns - 0.5).abs() < 0.01, "{line:?}");
        assert_eq!(super::line(&[], 30.0).fixed_ns, 0.0);
        let alike: Vec<(u32, u64)> = (0..1_600).map(|at| (64 + at % 8, 130 + u64::from(at % 8))).collect();
        let line = super::line(&alike, 30.0);
        assert!((line.fixed_ns - 103.5).abs() < 0.1 && line.per_byte_ns == 0.0, "{line:?}");
    }

    /// Short packets take a sixth of the time of packets that are twice as long, so the line goes through zero.
    #[test]
    fn all_packets_together_take_as_long_by_the_line() {
        let served: Vec<(u32, u64)> = (0..1_600).map(|at| if at % 4 == 0 { (120, 630) } else { (60, 130) }).collect();
        let line = line(&served, 30.0);
        let mean = served.iter().map(|&(length, _)| line.fixed_ns + line.per_byte_ns * f64::from(length)).sum::<f64>()
            / 1_600.0;
        assert!((mean - 225.0).abs() < 0.1, "{mean}: {line:?}");
    }

    #[test]
    fn a_packet_of_a_chain_came_when_it_came_in() {
        let ns = Time::from_ns;
        let packet = Packet { entered: ns(100), arrival: ns(500), ..Packet::default() };
        let completed = Completed { packet, used: 0, onward: None, ends: false, exit: None };
        let mut served = ServiceTimes::default();
        served.on_completion(CoreId(0), Slot(0), &completed, ns(900), ns(300));
        assert_eq!(served.lock().packets, [ServedPacket { arrival: 100, finished: 900 }]);
    }

    #[test]
    fn each_service_of_a_run_has_its_line() {
        let mut config = RunConfig::new(Host::Sim, "gen:imix:packets=3k", "drr".parse().unwrap());
        (config.services, config.chains) = ServiceChoice::parse_all(&["firewall,encrypt"]).unwrap();
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
        measure_on_traffic(&mut config, &mut Control::new(&stop, &mut progress)).unwrap();
        let lines = &config.costs.lines;
        assert_eq!(lines.keys().collect::<Vec<_>>(), ["encrypt", "firewall"]);
        assert!(lines.values().all(|line| line.cost().work(500) > 0 && line.origin == Origin::Measured));
    }
}
