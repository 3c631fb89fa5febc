//! What a run offers its cores: how fast packets arrive, and what part of the cores' time they ask for.

use humpyard_core::measure;
use humpyard_core::unit::Time;
use serde::Serialize;

use crate::LabError;
use crate::choice::rate::Rate;
use crate::config::RunConfig;
use crate::figures::{bit_rate, counted, packet_rate, percent};

/// The rate at which packets arrived, and the load that they offered.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Offered {
    /// Packets that arrived per second, from the first arrival to the last. `None`: all packets
    /// arrived at once.
    pub packets_per_second: Option<f64>,
    /// Bits that arrived per second, from the first arrival to the last. `None`: all packets
    /// arrived at once.
    pub bits_per_second: Option<f64>,
    /// Offered load: the work of the packets, compared with the capacity of the cores. `None`:
    /// unknown, as in real time without a requested load.
    pub load: Option<OfferedLoad>,
}

/// Offered work, as a fraction of the capacity of cores.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfferedLoad {
    /// Work of the packets as a fraction of the capacity of `cores`, by the costs of the run. 1:
    /// the cores are fully loaded.
    pub value: f64,
    /// Number of cores whose capacity is compared with the work.
    pub cores: usize,
}

impl Offered {
    /// Returns the rate and the load in words, of several runs from the least to the most.
    pub fn text(all: &[Self]) -> String {
        let span = |figures: Vec<f64>, shown: fn(f64) -> String| {
            let ends = [f64::min, f64::max].map(|choose: fn(f64, f64) -> f64| figures.iter().copied().reduce(choose));
            let [least, most] = ends.map(|end| end.map(shown));
            let (least, most) = least.zip(most)?;
            Some(if least == most { least } else { format!("{least} to {most}") })
        };
        let packets = span(all.iter().filter_map(|one| one.packets_per_second).collect(), packet_rate);
        let bits = span(all.iter().filter_map(|one| one.bits_per_second).collect(), bit_rate);
        let Some((packets, bits)) = packets.zip(bits) else { return "all packets at once".to_owned() };
        let load = span(all.iter().filter_map(|one| Some(one.load?.value)).collect(), percent);
        let cores = all.iter().find_map(|one| Some(counted(one.load?.cores as u64, "core")));
        let load = load.zip(cores).map(|(load, cores)| format!(", {load} of what {cores} can do"));
        format!("{packets}, {bits}{}", load.unwrap_or_default())
    }

    /// What was offered to all dispatchers of a run.
    pub(crate) fn of<'a>(config: &RunConfig, all: impl Iterator<Item = &'a measure::Measurements>) -> Self {
        Self::of_sum(config, all.fold(measure::Offered::default(), |sum, one| sum.and(one.offered())))
    }

    /// What was offered in all.
    pub(crate) fn of_sum(config: &RunConfig, sum: measure::Offered) -> Self {
        let demand = Demand { work: sum.work, services: sum.services, duration: sum.span() };
        let cores = load_cores(config, config.cores);
        let load = demand.load(config, cores).map(|value| OfferedLoad { value, cores });
        Self { packets_per_second: sum.packets_per_second(), bits_per_second: sum.bits_per_second(), load }
    }
}

/// The cores that a load is of: those that were named, else those of the run.
pub(crate) fn load_cores(config: &RunConfig, cores: usize) -> usize {
    match config.rate {
        Rate::Load { of: Some(of), .. } => of,
        _ => cores.max(1),
    }
}

/// What packets ask of cores.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Demand {
    /// Work in ns on warm cores at full speed.
    pub(crate) work: u128,
    /// Services asked for; those of a chain are served one by one.
    pub(crate) services: u64,
    /// From the first arrival to the last.
    pub(crate) duration: Time,
}

impl Demand {
    /// Returns the part of what this many cores can do that is asked for, where that is known.
    fn load(&self, config: &RunConfig, cores: usize) -> Option<f64> {
        if self.services == 0 || self.duration == Time::ZERO {
            return None;
        }
        Some(self.work as f64 / (capacity(config, cores, self.mean_work()) * self.duration.as_ns() as f64))
    }

    /// Returns the factor by which gaps become longer so that this load of this many cores is offered.
    pub(crate) fn stretch(&self, config: &RunConfig, cores: usize, load: f64) -> Result<f64, LabError> {
        if self.services == 0 {
            return Ok(1.0);
        }
        if self.duration == Time::ZERO {
            return Err(LabError::option(format!(
                "@load needs an input that takes time, but all packets of `{}` come at once: use @rate",
                config.input_name()
            )));
        }
        let capacity = capacity(config, cores, self.mean_work());
        Ok(self.work as f64 / (load * capacity) / self.duration.as_ns() as f64)
    }

    fn mean_work(&self) -> f64 {
        self.work as f64 / self.services as f64
    }
}

/// Returns what this many cores of the machine can do in one unit of time, in units of a core at full speed that never stalls,
/// with packets that are `work` ns in the mean: the first of `--speeds`, elements of `--contexts`, stalls as in the run. The
/// contexts of an element compute in turn, and stall side by side.
fn capacity(config: &RunConfig, cores: usize, work: f64) -> f64 {
    if !config.is_virtual() {
        return cores as f64;
    }
    let speed = |core: usize| config.speeds.get(core).map_or(1.0, |&speed| f64::from(speed) / 1000.0);
    let stall = config.stall.as_nanos() as f64;
    let element = |first: usize| {
        let contexts = first..cores.min(first + config.contexts);
        let alone = contexts.clone().map(|core| work / (work / speed(core) + stall)).sum::<f64>();
        let at_most = contexts.clone().map(speed).sum::<f64>() / contexts.len() as f64;
        alone.min(at_most)
    };
    (0..cores).step_by(config.contexts.max(1)).map(element).sum()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::choice::host::Host;

    use super::*;

    fn config() -> RunConfig {
        RunConfig::new(Host::Sim, "gen:poisson", "drr".parse().expect("a policy"))
    }

    #[test]
    fn cores_can_do_what_their_contexts_and_speeds_allow() {
        assert_eq!(capacity(&config(), 8, 100.0), 8.0);
        assert_eq!(capacity(&RunConfig { contexts: 4, ..config() }, 8, 100.0), 2.0);
        assert_eq!(capacity(&RunConfig { speeds: vec![500, 100], ..config() }, 4, 100.0), 2.6);
        let slow = RunConfig { contexts: 2, speeds: vec![500, 500], ..config() };
        assert_eq!(capacity(&slow, 4, 100.0), 1.5);
    }

    #[test]
    fn a_stall_keeps_a_core_that_has_no_other_context() {
        let stalled = |contexts| RunConfig { stall: Duration::from_nanos(100), contexts, ..config() };
        assert_eq!(capacity(&stalled(1), 2, 100.0), 1.0);
        assert_eq!(capacity(&stalled(2), 2, 100.0), 1.0);
        assert_eq!(capacity(&stalled(4), 4, 100.0), 1.0);
        assert_eq!(capacity(&stalled(1), 2, 300.0), 1.5);
    }

    #[test]
    fn real_cores_are_what_they_are() {
        assert_eq!(capacity(&RunConfig { host: Host::Live, contexts: 2, ..config() }, 4, 100.0), 4.0);
    }

    /// 100 packets of 60 ns within 1 us.
    const DEMAND: Demand = Demand { work: 6_000, services: 100, duration: Time::from_ns(1_000) };

    #[test]
    fn several_runs_are_from_the_least_to_the_most() {
        let offered = |pps: f64, value| Offered {
            packets_per_second: Some(pps),
            bits_per_second: Some(1e3 * pps),
            load: Some(OfferedLoad { value, cores: 8 }),
        };
        assert_eq!(Offered::text(&[offered(1e6, 0.5)]), "1.00 Mpps, 1.00 Gb/s, 50.0 % of what 8 cores can do");
        let both = Offered::text(&[offered(2e6, 0.5), offered(1e6, 0.5)]);
        assert_eq!(both, "1.00 Mpps to 2.00 Mpps, 1.00 Gb/s to 2.00 Gb/s, 50.0 % of what 8 cores can do");
        assert_eq!(Offered::text(&[Offered { load: None, ..offered(1e3, 0.0) }]), "1.00 kpps, 1.00 Mb/s");
        assert_eq!(Offered::text(&[Offered::default()]), "all packets at once");
    }

    #[test]
    fn what_was_asked_for_is_what_is_offered() {
        let with_load = RunConfig { rate: Rate::Load { load: 0.5, of: Some(4) }, ..config() };
        let stretch = DEMAND.stretch(&with_load, 4, 0.5).expect("a stretch");
        let duration = Time::from_ns((DEMAND.duration.as_ns() as f64 * stretch) as u64);
        assert_eq!(Demand { duration, ..DEMAND }.load(&with_load, 4), Some(0.5));
        assert_eq!(Demand::default().load(&with_load, 4), None);
    }
}
