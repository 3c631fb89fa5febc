//! Measures the costs of services on the packets of a run: by a live run on one thread, which gives
//! each service its line.
//!
//! `calibrate` measures with packets of its own. Compression and inspection depend on what is in a
//! packet, so they take another time for the user's packets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use humpyard_core::id::{CoreId, Id, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

use super::LineFit;
use super::fit::{median, sorted};
use crate::LabError;
use crate::choice::host::Host;
use crate::choice::rate::Rate;
use crate::config::RunConfig;
use crate::control::Control;
use crate::costs::{CostLine, Costs, Origin, cost_key};
use crate::run::run_live;

/// Name of costs that were measured on the packets of the input.
pub const INPUT: &str = "input";

/// Packets that are measured, at most.
const PACKETS: u64 = 200_000;
/// Groups of lengths.
const GROUPS: usize = 16;
/// Ratio of the longest to the shortest group from which the time of a byte is measured.
const LENGTHS_DIFFER: f64 = 1.5;

impl Costs {
    /// Measures what the services of this run take on its packets. Penalties, switches and the machine
    /// stay those of `self`.
    ///
    /// # Errors
    /// What keeps a run from starting, and being interrupted.
    pub fn on_traffic(&self, config: &RunConfig, control: &mut Control<'_>) -> Result<Self, LabError> {
        let own =
            config.assumed.as_ref().and_then(|host| host.machine.host.as_ref()).map_or(0.0, |host| host.times.own);
        let times = ServiceTimes::default();
        let live = RunConfig {
            host: Host::Live,
            policy: "fcfs".parse()?,
            cores: 0,
            dispatchers: Some(1),
            rate: Rate::Line,
            packets: Some(config.packets.unwrap_or(PACKETS).min(PACKETS)),
            journal: None,
            timeline: None,
            ..config.clone()
        };
        control.observer = Some(Box::new(times.clone()));
        let ran = run_live(&live, control);
        control.observer = None;
        if ran?.interrupted {
            return Err(LabError::option("interrupted before costs were measured"));
        }
        let mut costs = Self { lines: BTreeMap::new(), ..self.clone() };
        INPUT.clone_into(&mut costs.name);
        for (at, choice) in config.services.iter().enumerate() {
            let spec = cost_key(&choice.work)?;
            let known = self.lines.get(&spec).and_then(|line| line.expansion);
            let line = line(times.all().get(at).map_or(&[], Vec::as_slice), own);
            costs.lines.insert(spec, CostLine { expansion: known, origin: Origin::Measured, ..line });
        }
        Ok(costs)
    }
}

/// Returns the line through the mean times of groups of lengths. Lengths that hardly differ say nothing
/// about the time of a byte: then the time is fixed.
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
    CostLine { fixed_ns: fit.fixed_ns, per_byte_ns: fit.per_byte_ns, ..CostLine::default() }
}

/// Returns the mean of these times, without those above ten times the median: these were interrupted.
fn mean(times: &[f64]) -> f64 {
    let most = 10.0 * median(times).max(1.0);
    let kept = times.iter().take_while(|&&time| time <= most);
    let (sum, count) = kept.fold((0.0, 0), |(sum, count), time| (sum + time, count + 1));
    sum / f64::from(count.max(1))
}

/// Packets that were served: the length of each, and how long it took, in ns.
type ServedPackets = Vec<(u32, u64)>;

/// By service, what its packets took.
#[derive(Clone, Debug, Default)]
struct ServiceTimes(Arc<Mutex<Vec<ServedPackets>>>);

impl ServiceTimes {
    fn all(&self) -> MutexGuard<'_, Vec<ServedPackets>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for ServiceTimes {
    fn on_completion(&mut self, _: CoreId, _: Slot, completed: &Completed, _: Time, busy: Time) {
        let packet = &completed.packet;
        let mut all = self.all();
        let service = packet.service.index();
        if all.len() <= service {
            all.resize_with(service + 1, Vec::new);
        }
        all[service].push((packet.length, busy.as_ns()));
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

    #[test]
    fn each_service_of_a_run_has_its_line() {
        let mut config = RunConfig::new(Host::Sim, "gen:imix:packets=3k", "drr".parse().unwrap());
        (config.services, config.chains) = ServiceChoice::parse_all(&["firewall,encrypt"]).unwrap();
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
        let costs = Costs::default().on_traffic(&config, &mut Control::new(&stop, &mut progress)).unwrap();
        assert_eq!(costs.lines.keys().collect::<Vec<_>>(), ["encrypt", "firewall"]);
        assert!(costs.lines.values().all(|line| line.cost().work(500) > 0 && line.origin == Origin::Measured));
    }
}
