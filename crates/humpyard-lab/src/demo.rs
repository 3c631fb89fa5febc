//! The demonstration: calls and downloads share the processors of this machine, which are too few for
//! all of them. Several policies run live, and the simulator says beforehand what they will do.

use humpyard_core::mechanism::WhenFull;
use humpyard_plot::{Axis, Bar, BarGroup, BarPlot};
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::Overload;
use humpyard_traffic::classify::Granularity;
use serde::Serialize;

use crate::LabError;
use crate::calibrate::measure_on_traffic;
use crate::choice::assumed::{AssumedHost, HERE};
use crate::choice::host::Host;
use crate::choice::rate::Rate;
use crate::choice::service::ServiceChoice;
use crate::compare::{Comparison, compare};
use crate::config::RunConfig;
use crate::control::Control;
use crate::figures::{packet_rate, time};
use crate::result::RunResult;
use crate::run::run;

/// What a demonstration does.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Packets of each run; none is as many as come in a second.
    pub packets: Option<u64>,
    /// How often each policy is run.
    pub repetitions: u32,
    /// Worker threads.
    pub workers: usize,
    /// Where all randomness comes from.
    pub seed: u64,
}

/// A demonstration: the same traffic under each of [`DEMO_POLICIES`], live and simulated.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Demo {
    /// Packets per second of downloads that this machine processes without calls.
    pub capacity_pps: f64,
    /// Packets per second that were offered: calls and downloads.
    pub offered_pps: f64,
    /// The live runs.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Delays of calls, one entry for each policy.
    pub calls: Vec<CallDelay>,
    /// The lesson of the demonstration, in a sentence.
    pub learnt: String,
    /// Whether both the live runs and the simulations show the lesson.
    pub is_shown: bool,
}

/// The delay of the packets of calls under a policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallDelay {
    /// Name of the policy, with its parameters.
    pub policy: String,
    /// 99th percentile of the delay of calls in the simulation, in ns: the median over the
    /// repetitions.
    pub simulated_p99_ns: f64,
    /// 99th percentile of the delay of calls in the live runs, in ns: the median over the
    /// repetitions.
    pub live_p99_ns: f64,
    /// Packets of calls that all live runs together dropped.
    pub live_dropped: u64,
}

/// The policies of the demonstration: one queue for all, plain hashing, and a share for each.
pub const DEMO_POLICIES: [&str; 3] = ["fcfs", "hrw", "drr"];
/// Rate of the downloads, as a part of what the machine takes of them.
const DOWNLOADS: f64 = 1.3;
/// Rate of the calls, as a part of the same.
const CALLS: f64 = 0.15;
/// Downloads by which the capacity is found.
const PROBE_PACKETS: u64 = 40_000;
/// Length of each run, unless its packets are given, in seconds.
const RUN_SECONDS: f64 = 1.0;
/// How many times shorter a fair share must make the wait of calls, for the demonstration to show it.
const SHORTER: f64 = 5.0;
/// The name of the service of calls.
const CALL: &str = "udp";

/// Measures how many downloads this machine takes, offers more than that beside calls, simulates each
/// policy, and runs it live.
///
/// # Errors
/// As [`compare`].
pub fn demo(
    options: &DemoOptions,
    control: &mut Control<'_>,
    mut starting: impl FnMut(&str),
) -> Result<Demo, LabError> {
    let policies = DEMO_POLICIES.iter().map(|name| name.parse()).collect::<Result<Vec<PolicySpec>, _>>()?;
    let mut config = RunConfig::new(Host::Live, "", policies[0].clone());
    (config.services, config.chains) = ServiceChoice::parse_all(&["udp=encrypt,other=encrypt:cipher=cast-128"])?;
    (config.cores, config.seed.0) = (options.workers, options.seed);
    config.clients = Some(Granularity::Service);
    config.limits.when_full = WhenFull::LongestQueue;
    starting("capacity");
    config.input = format!("gen:mit:packets={PROBE_PACKETS}");
    let probe = run(&config, control)?;
    if probe.interrupted {
        return Err(LabError::option("interrupted before the first policy was run: there is nothing to show"));
    }
    let capacity_pps = probe.summary.throughput_pps;
    let offered_pps = offer(&mut config, capacity_pps, options.packets);
    starting("measuring this machine");
    config.assumed = Some(host()?);
    measure_on_traffic(&mut config, control)?;
    let mut compared = |host, label: &str, control: &mut Control<'_>| {
        let config = RunConfig { host, ..config.clone() };
        compare(&config, &policies, options.repetitions, control, |policy, repetition| {
            starting(&format!("{label} {policy} ({repetition} of {})", options.repetitions));
        })
    };
    let simulated = compared(Host::Sim, "simulating", control)?;
    let comparison = compared(Host::Live, "running", control)?;
    let calls = call_delays(&simulated, &comparison);
    let (learnt, is_shown) = learnt(&calls);
    Ok(Demo { capacity_pps, offered_pps, comparison, calls, learnt, is_shown })
}

/// Sets the traffic of a run: calls and downloads. Returns the packets of both per second.
fn offer(config: &mut RunConfig, capacity_pps: f64, packets: Option<u64>) -> f64 {
    let [calls, downloads] = [CALLS, DOWNLOADS].map(|part| (part * capacity_pps).max(1.0).round());
    let offered = calls + downloads;
    let seconds = packets.map_or(RUN_SECONDS, |packets| packets as f64 / offered);
    let count = |pps: f64| (pps * seconds).ceil() as u64;
    config.input = format!("gen:poisson:flows=100,length=200,packets={},pps={calls}", count(calls));
    config.more_inputs = vec![format!("gen:mit:packets={},pps={downloads}", count(downloads))];
    config.rate = Rate::Trace;
    config.overload = Some(Overload::Drop);
    offered
}

/// Returns this machine. Where nobody has calibrated it, the times that the traffic cannot show are those of a
/// described host.
fn host() -> Result<AssumedHost, LabError> {
    let here = AssumedHost::here()?;
    if !here.is_unmeasured() {
        return Ok(here);
    }
    let described = AssumedHost::find(DESCRIBED)?.unwrap_or(here);
    Ok(AssumedHost { name: HERE.to_owned(), source: format!("measured now; else {}", described.source), ..described })
}

/// The described host whose times stand for those that traffic cannot show.
const DESCRIBED: &str = "appliance-4";

/// Returns the delays of calls by policy.
fn call_delays(simulated: &Comparison, live: &Comparison) -> Vec<CallDelay> {
    let calls = |run: &RunResult| run.summary.services.iter().find(|service| service.name == CALL).cloned();
    let p99 = |comparison: &Comparison, policy: &str| {
        let runs = comparison.runs.iter().filter(|run| run.policy == policy);
        let mut values: Vec<u64> = runs.filter_map(|run| Some(calls(run)?.delay_ns.p99)).collect();
        values.sort_unstable();
        values.get(values.len() / 2).map_or(0.0, |&ns| ns as f64)
    };
    let dropped = |policy: &str| {
        let runs = live.runs.iter().filter(|run| run.policy == policy);
        runs.filter_map(|run| Some(calls(run)?.late.lost)).sum()
    };
    let policies = live.statistics.iter().map(|statistics| statistics.policy.as_str());
    let delay = |policy: &str| CallDelay {
        policy: policy.to_owned(),
        simulated_p99_ns: p99(simulated, policy),
        live_p99_ns: p99(live, policy),
        live_dropped: dropped(policy),
    };
    policies.map(delay).collect()
}

/// Says what was learnt, and whether it shows.
fn learnt(calls: &[CallDelay]) -> (String, bool) {
    let of = |policy: &str| calls.iter().find(|delay| delay.policy == policy);
    let (Some(one), Some(fair)) = (of(DEMO_POLICIES[0]), of(DEMO_POLICIES[2])) else {
        return ("The demonstration ended before there was something to learn.".to_owned(), false);
    };
    let ratio = |one: f64, fair: f64| if fair > 0.0 { one / fair } else { 0.0 };
    let live = ratio(one.live_p99_ns, fair.live_p99_ns);
    let simulated = ratio(one.simulated_p99_ns, fair.simulated_p99_ns);
    let waits = format!(
        "calls wait {} (p99) under `{}` and {} under `{}`",
        time(one.live_p99_ns),
        one.policy,
        time(fair.live_p99_ns),
        fair.policy
    );
    if live < SHORTER || simulated < SHORTER {
        let says = format!(
            "Nothing was learnt this time: {waits}; {live:.1} times less live, {simulated:.1} times simulated."
        );
        return (says, false);
    }
    let says = format!(
        "What was learnt: on the same processors {waits}, {live:.0} times less, and the simulator said so beforehand ({simulated:.0} times)."
    );
    (says, true)
}

impl Demo {
    /// Returns the picture: how long calls wait under each policy, simulated and live.
    pub fn plot(&self) -> BarPlot {
        let bar = |name: &str, value| Bar { name: name.to_owned(), value, error: None };
        let group = |delay: &CallDelay| BarGroup {
            name: delay.policy.clone(),
            bars: vec![bar("simulated", delay.simulated_p99_ns), bar("live", delay.live_p99_ns)],
        };
        BarPlot {
            title: "Wait of calls (p99)".to_owned(),
            description: self.learnt.clone(),
            value: Axis::linear("delay", time),
            groups: self.calls.iter().map(group).collect(),
        }
    }

    /// Says what the traffic is.
    pub fn traffic(&self) -> String {
        format!(
            "Calls (100 flows of UDP) and downloads (TCP) come to this machine, {} in all. It takes {} of the downloads alone, \
             whose encryption is slow (CAST-128); that of calls is fast (AES)",
            packet_rate(self.offered_pps),
            packet_rate(self.capacity_pps)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(policy: &str, simulated_p99_ns: f64, live_p99_ns: f64) -> CallDelay {
        CallDelay { policy: policy.to_owned(), simulated_p99_ns, live_p99_ns, live_dropped: 0 }
    }

    #[test]
    fn something_is_learnt_where_live_and_simulated_runs_show_it() {
        let (says, is_shown) = learnt(&[delay("fcfs", 40e6, 35e6), delay("drr", 4e5, 3.5e5)]);
        assert!(is_shown);
        assert_eq!(
            says,
            "What was learnt: on the same processors calls wait 35.0 ms (p99) under `fcfs` and 350 us under `drr`, 100 times less, \
             and the simulator said so beforehand (100 times)."
        );
        for (simulated, live) in [(4e6, 1e6), (1e6, 4e6)] {
            let (says, is_shown) = learnt(&[delay("fcfs", simulated, live), delay("drr", 1e6, 1e6)]);
            assert!(!is_shown && says.starts_with("Nothing was learnt"), "{says}");
        }
        assert!(!learnt(&[]).1);
    }
}
