//! The facts of results.

use std::collections::BTreeMap;

use humpyard_core::mechanism::DropReason;
use humpyard_text::quantity::parse_duration;
use humpyard_traffic::source::is_interface;

use super::facts::{Facts, HeaviestFlow, LinkFacts, PanicFacts, Place, PolicyFacts, RunFacts};
use crate::bottleneck::bottleneck;
use crate::meaning::TOLERANCE;
use crate::{Comparison, RunResult};

impl Facts {
    /// The facts of a comparison.
    pub(super) fn of(comparison: &Comparison) -> Self {
        let runs: Vec<&RunResult> = comparison.runs.iter().collect();
        let policies = comparison.statistics.iter().enumerate().map(|(index, policy)| PolicyFacts {
            name: policy.policy.clone(),
            runs: comparison.runs_of(index).map(RunFacts::of).collect(),
        });
        Self { repetitions: comparison.repetitions, policies: policies.collect(), ..Self::of_runs(&runs) }
    }

    /// The facts of one run.
    pub(super) fn of_run(run: &RunResult) -> Self {
        let policies = vec![PolicyFacts { name: run.policy.clone(), runs: vec![RunFacts::of(run)] }];
        Self { repetitions: 1, policies, ..Self::of_runs(&[run]) }
    }

    /// What these runs have in common, without what each was like.
    fn of_runs(runs: &[&RunResult]) -> Self {
        let Some(first) = runs.first() else { return Self::default() };
        let option = |key: &str| first.options.get(key).map(String::as_str);
        let number = |key: &str| option(key).and_then(|text| text.parse().ok());
        let line_rate = option("rate") == Some("line");
        let damage = runs.iter().find_map(|run| run.damage.as_ref());
        let said = |is_loss: bool| damage.filter(|damage| damage.is_loss() == is_loss).map(|one| one.message.clone());
        let served = first.summary.services.iter().filter(|service| service.packets > 0);
        Self {
            real_time: is_in_real_time(first),
            on_assumed_host: first.assumed.is_some(),
            beside_dispatcher: first
                .assumed
                .as_ref()
                .filter(|_| first.dispatchers == 1)
                .and_then(|host| host.beside_dispatcher(first.cores)),
            cores: first.cores,
            packets: first.packets.arrived,
            flows: first.flows,
            clients: runs.iter().map(|run| run.summary.fairness.clients).max().unwrap_or(0),
            services: served.clone().map(|service| service.name.clone()).collect(),
            load: first
                .offered
                .load
                .filter(|_| !line_rate)
                .map(|load| load.value * load.cores as f64 / first.cores.max(1) as f64),
            line_rate,
            buffer: number("buffer").unwrap_or(0.0) as u64,
            client_limit: number("client-limit").map(|limit| limit as u64),
            queue_limit: number("queue-limit").map(|limit| limit as u64),
            promised: first.summary.order.promised.to_owned(),
            tolerance_ns: served.map(|service| service.tolerance_ns).min().unwrap_or(TOLERANCE.as_nanos() as u64),
            switch_cost_ns: switch_cost(option("switch-cost").unwrap_or_default()),
            speeds: speeds(option("speeds").unwrap_or_default(), first.cores),
            interrupted: runs.iter().any(|run| run.interrupted),
            endless: first.input.split(" + ").any(is_interface),
            damage: said(true),
            clock_jumps: said(false),
            unaccounted: runs.iter().find(|run| is_unaccounted(run)).map(|run| run.policy.clone()),
            panic: runs.iter().find_map(|run| PanicFacts::of(run)),
            shared: runs.iter().any(|run| run.environment.threads.iter().any(|seat| seat.shared)),
            ..Self::default()
        }
    }
}

/// Whether a run went by the clock of the machine.
fn is_in_real_time(run: &RunResult) -> bool {
    run.host == "live" && run.options.get("clock").is_none_or(|clock| clock == "real")
}

fn is_unaccounted(run: &RunResult) -> bool {
    !run.packets.balance() || run.unaccounted.is_some() || !run.ports.agree(&run.packets)
}

/// The greatest of the costs in a list such as `tcp=50us,udp=70us`, in ns.
fn switch_cost(list: &str) -> u64 {
    let cost = |text: &str| parse_duration(text.rsplit('=').next()?).ok().map(|cost| cost.as_nanos() as u64);
    list.split(',').filter_map(cost).max().unwrap_or(0)
}

/// The speeds of this many cores: those of the list, and 1 for the others. Empty for an empty list.
fn speeds(list: &str, cores: usize) -> Vec<f64> {
    let given: Vec<f64> = list.split(',').filter_map(|speed| speed.parse().ok()).collect();
    let all = given.iter().copied().chain(core::iter::repeat(1.0)).take(cores);
    if given.is_empty() { given } else { all.collect() }
}

impl PanicFacts {
    fn of(run: &RunResult) -> Option<Self> {
        let panic = run.panic.as_ref()?;
        let packets = run.packets.dropped_out.get("service_panicked").copied().unwrap_or(0);
        Some(Self { policy: run.policy.clone(), service: panic.service.clone(), packets })
    }
}

impl RunFacts {
    /// The facts of a run.
    pub(super) fn of(run: &RunResult) -> Self {
        let (summary, packets) = (&run.summary, &run.packets);
        let mut lost: BTreeMap<Place, u64> = BTreeMap::new();
        for (reason, &count) in &packets.dropped {
            if let Some(place) = Place::before_service(reason) {
                *lost.entry(place).or_default() += count;
            }
        }
        let mut verdicts: Vec<(String, u64)> = Vec::new();
        for (reason, &count) in &packets.dropped_out {
            match Place::after_service(reason, run.link.is_some()) {
                Some(place) => *lost.entry(place).or_default() += count,
                None => verdicts.push(((*reason).to_owned(), count)),
            }
        }
        let delay = &summary.delay_ns;
        Self {
            packets: packets.arrived,
            warm_up: summary.warm_up.packets,
            lost,
            rejected: verdicts.iter().map(|(_, count)| count).sum(),
            verdict: verdicts.into_iter().max_by_key(|(_, count)| *count),
            processed: packets.processed,
            forwarded: packets.forwarded,
            late: summary.late.fraction,
            p50: delay.p50 as f64,
            p99: delay.p99 as f64,
            max: delay.max as f64,
            out_of_order: summary.order.fraction,
            pps: summary.throughput_pps,
            jain: summary.fairness.jain,
            // Without a dispatcher, a worker's time goes to more than services.
            busy: if run.dispatchers == 0 {
                dispatchers_busy(run)
            } else {
                summary.cores_detail.iter().map(|core| core.utilization).collect()
            },
            heaviest: run.top_flows.first().map(|top| HeaviestFlow { flow: top.flow.clone(), fraction: top.fraction }),
            dispatchers: dispatchers_busy(run),
            reader: run.assumed.as_ref().and_then(|assumed| assumed.reader_utilization),
            is_dispatcher_full: bottleneck(run).is_some(),
            overdue_ns: run.measured.overdue_max_ns,
            duration_ns: summary.duration_ns,
            queue_max: summary.services.iter().map(|service| u64::from(service.queue_max)).max().unwrap_or(0),
            switches: summary.switches,
            link: run.link.as_ref().map(|link| LinkFacts { bps: link.rate_bps as f64, used: link.utilization }),
        }
    }
}

/// Returns the part of the time that each dispatcher was busy; without dispatchers, that of each worker.
fn dispatchers_busy(run: &RunResult) -> Vec<f64> {
    match &run.assumed {
        Some(assumed) if run.dispatchers == 1 => vec![assumed.dispatcher_utilization],
        Some(_) => run.dispatchers_detail.iter().filter_map(|one| one.utilization).collect(),
        None => run.measured.dispatchers.iter().map(|load| load.busy_fraction).collect(),
    }
}

impl Place {
    /// The place where a packet was lost before service. `None`: it was damaged, or had not been read when the run ended.
    fn before_service(reason: &str) -> Option<Self> {
        let is = |expected: DropReason| reason == expected.name();
        if is(DropReason::ClientFull) {
            Some(Self::Client)
        } else if is(DropReason::QueueFull) {
            Some(Self::Queue)
        } else if is(DropReason::BufferFull) || is(DropReason::PushedOut) {
            Some(Self::Buffer)
        } else {
            (reason == "port_missed").then_some(Self::Input)
        }
    }

    /// The place where a packet was lost after service. `None`: a service dropped it, which is no loss.
    fn after_service(reason: &str, has_link: bool) -> Option<Self> {
        if reason.starts_with("output_") && reason != "output_made" {
            Some(Self::Output)
        } else {
            (has_link && DropReason::ALL.iter().any(|dropped| dropped.name() == reason)).then_some(Self::Link)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_have_places_and_verdicts_have_none() {
        let before: Vec<_> = ["buffer_full", "pushed_out", "client_full", "queue_full", "port_missed", "port_left"]
            .map(Place::before_service)
            .into();
        let (buffer, input) = (Some(Place::Buffer), Some(Place::Input));
        assert_eq!(before, [buffer, buffer, Some(Place::Client), Some(Place::Queue), input, None]);
        assert_eq!(Place::after_service("output_full", false), Some(Place::Output));
        assert_eq!(Place::after_service("buffer_full", true), Some(Place::Link));
        assert_eq!(Place::after_service("rule_denied", true), None);
        assert_eq!(Place::after_service("output_made", false), None);
    }

    #[test]
    fn options_are_read_as_results_write_them() {
        assert_eq!((switch_cost("50us"), switch_cost("tcp=50us,udp=70000ns"), switch_cost("")), (50_000, 70_000, 0));
        assert_eq!(speeds("1,0.5", 3), [1.0, 0.5, 1.0]);
        assert!(speeds("", 3).is_empty());
    }
}
