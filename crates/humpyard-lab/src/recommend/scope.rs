//! The services and clients that a goal names, and their figures.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use humpyard_core::id::{ClientId, CoreId, Id, ServiceId, Slot};
use humpyard_core::measure::{Histogram, Observer, ServiceSummary};
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_traffic::classify::Granularity;
use serde::Serialize;

use super::division::Piece;
use super::elsewhere::each_delivered;
use super::figures::{Delivered, Measure, weighted_quantile};
use super::goal::Goal;
use super::workload::Workload;
use crate::LabError;
use crate::config::RunConfig;
use crate::parts::ruled::Ruled;
use crate::parts::setup::chains;
use crate::result::RunResult;

/// What a goal puts before a client's name where a service has the same.
const CLIENT: &str = "client:";
/// Names that an error lists at most.
const LISTED: usize = 12;

/// The figures of a service or a client. Delays of a service are from arrival there to completion;
/// those of a client are from arrival in the run to departure.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScopeFigures {
    /// Name of the service or client, as in the goal.
    pub scope: String,
    /// Packets of the service or client that were late or lost, as a fraction of its packets
    /// measured, from 0 to 1.
    #[serde(rename = "late_fraction")]
    pub late: f64,
    /// Mean delay of the packets processed, in ns.
    #[serde(rename = "delay_mean_ns")]
    pub mean_ns: f64,
    /// Median delay over all packets offered, in ns. Infinite (in JSON: null) if too many packets
    /// were lost.
    #[serde(rename = "delay_p50_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p50_ns: f64,
    /// 90th percentile of the delay over all packets offered, in ns. Infinite (in JSON: null) if
    /// too many packets were lost.
    #[serde(rename = "delay_p90_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p90_ns: f64,
    /// 99th percentile of the delay over all packets offered, in ns. Infinite (in JSON: null) if
    /// too many packets were lost.
    #[serde(rename = "delay_p99_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p99_ns: f64,
    /// 99.9th percentile of the delay over all packets offered, in ns. Infinite (in JSON: null) if
    /// too many packets were lost.
    #[serde(rename = "delay_p999_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p999_ns: f64,
    /// Longest delay, in ns. Infinite (in JSON: null) if packets were lost.
    #[serde(rename = "delay_max_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub max_ns: f64,
    /// Packets of the service or client that were lost, as a fraction of its packets measured, from
    /// 0 to 1.
    #[serde(rename = "dropped_fraction")]
    pub loss: f64,
    /// Packets of the service or client processed per second.
    pub throughput_pps: f64,
    /// The same delays without the packets that were dropped.
    #[serde(skip)]
    pub(super) delivered: Delivered,
}

impl ScopeFigures {
    /// Visits each figure, in an order that is the same everywhere.
    pub(super) fn each(&mut self, visit: &mut impl FnMut(&mut f64)) {
        let Self { scope: _, late, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, loss, throughput_pps, delivered } =
            self;
        [late, mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, loss, throughput_pps]
            .into_iter()
            .for_each(&mut *visit);
        each_delivered(delivered, visit);
    }

    /// Returns whether a service or a client has this figure.
    pub(super) const fn has(measure: Measure) -> bool {
        !matches!(measure, Measure::Jitter | Measure::OutOfOrder | Measure::Fairness)
    }

    /// Returns one of them. `None`: only all packets together have it.
    pub(super) fn of_measure(&self, measure: Measure) -> Option<f64> {
        Some(match measure {
            Measure::Late => self.late,
            Measure::Mean => self.mean_ns,
            Measure::P50 => self.p50_ns,
            Measure::P90 => self.p90_ns,
            Measure::P99 => self.p99_ns,
            Measure::P999 => self.p999_ns,
            Measure::Max => self.max_ns,
            Measure::Loss => self.loss,
            Measure::Throughput => self.throughput_pps,
            Measure::Jitter | Measure::OutOfOrder | Measure::Fairness => return None,
        })
    }

    /// Returns one of them, of the packets that were processed alone.
    pub(super) fn of_delivered(&self, measure: Measure) -> Option<f64> {
        self.delivered.of_measure(measure).or_else(|| self.of_measure(measure))
    }

    /// Returns the worse of each figure.
    pub(super) fn worse(self, other: Self) -> Self {
        Self {
            scope: self.scope,
            late: self.late.max(other.late),
            mean_ns: self.mean_ns.max(other.mean_ns),
            p50_ns: self.p50_ns.max(other.p50_ns),
            p90_ns: self.p90_ns.max(other.p90_ns),
            p99_ns: self.p99_ns.max(other.p99_ns),
            p999_ns: self.p999_ns.max(other.p999_ns),
            max_ns: self.max_ns.max(other.max_ns),
            loss: self.loss.max(other.loss),
            throughput_pps: self.throughput_pps.min(other.throughput_pps),
            delivered: self.delivered.worse(other.delivered),
        }
    }

    /// Returns the figures of a run of which these were parts, each with its weight and its duration in ns.
    fn of_parts(scope: &str, parts: &[(ScopeCounts, f64, u64)]) -> Self {
        let sum =
            |of: &dyn Fn(&ScopeCounts) -> f64| parts.iter().map(|(part, weight, _)| weight * of(part)).sum::<f64>();
        let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
        for (part, weight, _) in parts {
            for &(delay, count) in &part.delays {
                *counts.entry(delay).or_default() += weight * count as f64;
            }
        }
        let (done, lost) = (counts.values().sum::<f64>(), sum(&|part| part.lost as f64));
        let all = (done + lost).max(1.0);
        let longest = parts.iter().map(|(part, ..)| part.max_ns as f64).fold(0.0, f64::max);
        let quantile = |of: f64, quantile: f64| match of {
            0.0 => 0.0,
            _ => weighted_quantile(&counts, of, quantile),
        };
        let (offered, delivered) = (|part| quantile(done + lost, part), |part| quantile(done, part));
        let late = sum(&|part| part.late as f64);
        let mean = |part: &ScopeCounts| part.mean_ns * part.done() as f64;
        let duration: f64 = parts.iter().map(|(_, weight, duration)| weight * *duration as f64).sum();
        Self {
            scope: scope.to_owned(),
            late: (late + lost) / all,
            mean_ns: if let [(part, ..)] = parts { part.mean_ns } else { sum(&mean) / done.max(1.0) },
            p50_ns: offered(0.5),
            p90_ns: offered(0.9),
            p99_ns: offered(0.99),
            p999_ns: offered(0.999),
            max_ns: if lost == 0.0 { longest } else { f64::INFINITY },
            loss: lost / all,
            throughput_pps: sum(&|part| part.processed as f64) * 1e9 / duration.max(1.0),
            delivered: Delivered {
                late: late / all,
                p50_ns: delivered(0.5),
                p90_ns: delivered(0.9),
                p99_ns: delivered(0.99),
                p999_ns: delivered(0.999),
                max_ns: longest,
            },
        }
    }
}

/// Counts of the packets of a service or a client in a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct ScopeCounts {
    /// Delays in ns of those measured, with how many had each.
    delays: Vec<(u64, u64)>,
    mean_ns: f64,
    max_ns: u64,
    /// Packets measured that were processed late.
    late: u64,
    /// Packets dropped.
    lost: u64,
    /// Packets processed, those of the warm-up among them.
    processed: u64,
}

impl ScopeCounts {
    fn of_service(service: &ServiceSummary) -> Self {
        Self {
            delays: service.delay_counts.clone(),
            mean_ns: service.delay_ns.mean,
            max_ns: service.delay_ns.max,
            late: service.late.count.saturating_sub(service.late.lost),
            lost: service.late.lost,
            processed: service.packets,
        }
    }

    fn done(&self) -> u64 {
        self.delays.iter().map(|&(_, count)| count).sum()
    }
}

/// Packets that a goal is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scope {
    /// Those of a service.
    Service(usize),
    /// Those of a client, by its number in all of the input.
    Client(ClientId),
}

/// The services and clients that a goal names.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Scopes {
    all: Vec<(String, Scope)>,
    /// The longest tolerable delay of each chain; of each service where there are no chains.
    tolerances: Vec<Time>,
    has_chains: bool,
    warm_up: Time,
    /// Whether numbers of clients are by appearance, so that a part of the input has others.
    is_by_appearance: bool,
}

impl Scopes {
    /// Finds what a goal names, in an input with this many clients.
    ///
    /// # Errors
    /// A name that no service and no client has, with those that there are.
    pub(super) fn find(goal: &Goal, config: &RunConfig, clients: usize) -> Result<Self, LabError> {
        let names = goal.scopes();
        if names.is_empty() {
            return Ok(Self::default());
        }
        let known = ScopeNames::new(config, clients)?;
        let found = names.into_iter().map(|name| Ok((name.to_owned(), known.find(name)?)));
        let all = found.collect::<Result<Vec<_>, LabError>>()?;
        let has_client = all.iter().any(|(_, scope)| matches!(scope, Scope::Client(_)));
        if known.is_by_appearance && has_client && config.flow_timeout.is_some() {
            return Err(LabError::option(
                "@goal numbers clients in order of appearance, and @flow-timeout gives their numbers to others: bound a service, or a \
                 client of a rule",
            ));
        }
        let services: Vec<Time> = config
            .services
            .iter()
            .map(|service| Time::from_ns(config.tolerance(&service.name).as_nanos() as u64))
            .collect();
        let chains = chains(config, Ruled::new(config)?)?;
        let of_chain =
            |chain: &Vec<ServiceId>| chain.iter().fold(Time::ZERO, |sum, service| sum + services[service.index()]);
        Ok(Self {
            all,
            has_chains: !chains.is_empty(),
            tolerances: if chains.is_empty() { services } else { chains.iter().map(of_chain).collect() },
            warm_up: Time::from_ns(config.warm_up.as_nanos() as u64),
            is_by_appearance: known.is_by_appearance,
        })
    }

    /// Returns an observer of the clients in a part of the input. `None`: the goal names no client.
    pub(super) fn listener(&self, workload: &Workload, piece: &Piece) -> Option<Listener> {
        let clients = self.all.iter().filter_map(|(_, scope)| match scope {
            Scope::Client(client) if self.is_by_appearance => Some(workload.client_in(*client, piece)),
            Scope::Client(client) => Some(Some(*client)),
            Scope::Service(_) => None,
        });
        self.listening(clients.collect())
    }

    /// Returns an observer of the clients in all of the input. `None`: the goal names no client.
    pub(super) fn listener_of_all(&self) -> Option<Listener> {
        let clients = self.all.iter().filter_map(|(_, scope)| match scope {
            Scope::Client(client) => Some(Some(*client)),
            Scope::Service(_) => None,
        });
        self.listening(clients.collect())
    }

    fn listening(&self, clients: Vec<Option<ClientId>>) -> Option<Listener> {
        let heard = Heard {
            clients: clients.into_iter().map(|client| (client, ClientCounts::default())).collect(),
            tolerances: self.tolerances.clone(),
            has_chains: self.has_chains,
            warm_up: self.warm_up,
            measured_from: None,
        };
        (!heard.clients.is_empty()).then(|| Listener(Arc::new(Mutex::new(heard))))
    }

    /// Returns the counts of a run, one for each name.
    pub(super) fn counts(&self, run: &RunResult, listener: Option<&Listener>) -> Vec<ScopeCounts> {
        let mut clients = listener.map_or_else(Vec::new, Listener::counts).into_iter();
        let of = |(_, scope): &(String, Scope)| match scope {
            Scope::Service(at) => run.summary.services.get(*at).map(ScopeCounts::of_service).unwrap_or_default(),
            Scope::Client(_) => clients.next().unwrap_or_default(),
        };
        self.all.iter().map(of).collect()
    }

    /// Returns the figures of a run of which these were parts, each with its weight and the counts of each name.
    pub(super) fn figures(&self, parts: &[(RunResult, f64)], counts: &[Vec<ScopeCounts>]) -> Vec<ScopeFigures> {
        let of = |(at, (name, _)): (usize, &(String, Scope))| {
            let parts = parts.iter().zip(counts);
            let parts = parts.map(|((run, weight), counts)| (counts[at].clone(), *weight, run.summary.duration_ns));
            ScopeFigures::of_parts(name, &parts.collect::<Vec<_>>())
        };
        self.all.iter().enumerate().map(of).collect()
    }
}

/// The names that a goal can use.
struct ScopeNames {
    services: Vec<String>,
    /// Those of rules; empty where clients are numbered.
    named: Vec<String>,
    /// How many clients are numbered by appearance.
    numbered: usize,
    is_by_appearance: bool,
}

impl ScopeNames {
    fn new(config: &RunConfig, clients: usize) -> Result<Self, LabError> {
        let services: Vec<String> = config.services.iter().map(|service| service.name.clone()).collect();
        let granularity = config.granularity();
        let is_by_appearance = matches!(granularity, Granularity::Flow | Granularity::Connection);
        let named = match granularity {
            Granularity::Service => services.clone(),
            Granularity::Rule => Ruled::new(config)?.clients,
            Granularity::Flow | Granularity::Connection => Vec::new(),
        };
        Ok(Self { services, named, numbered: if is_by_appearance { clients } else { 0 }, is_by_appearance })
    }

    fn find(&self, name: &str) -> Result<Scope, LabError> {
        let service = self.services.iter().position(|service| service == name).map(Scope::Service);
        service.or_else(|| self.client(name.strip_prefix(CLIENT).unwrap_or(name))).ok_or_else(|| self.unknown(name))
    }

    fn client(&self, name: &str) -> Option<Scope> {
        let number = || {
            let number: usize = name.strip_prefix("client")?.parse().ok()?;
            (1..=self.numbered).contains(&number).then(|| number - 1)
        };
        let at = self.named.iter().position(|client| client == name).or_else(number)?;
        Some(Scope::Client(ClientId::from_index(at)))
    }

    fn unknown(&self, name: &str) -> LabError {
        let list = |names: &[String]| {
            let shown = names.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(LISTED);
            if more > 0 { format!("{shown} and {more} more") } else { shown }
        };
        let clients = match self.numbered {
            0 if self.named.is_empty() => "there are no clients".to_owned(),
            0 => format!("clients are {}", list(&self.named)),
            1 => "the only client is client1".to_owned(),
            all => format!("clients are client1 to client{all}, in order of appearance"),
        };
        LabError::option(format!(
            "@goal: no service and no client is called `{name}`: services are {}; {clients}",
            list(&self.services)
        ))
    }
}

/// What a run did with the packets of a client.
#[derive(Clone, Debug, Default)]
struct ClientCounts {
    delays: Histogram,
    late: u64,
    lost: u64,
    processed: u64,
}

/// What an observer heard so far.
#[derive(Debug)]
struct Heard {
    /// By name in the goal. `None`: the client has no packet in this part.
    clients: Vec<(Option<ClientId>, ClientCounts)>,
    tolerances: Vec<Time>,
    has_chains: bool,
    warm_up: Time,
    /// Packets that came in from then on are measured. `None`: none came yet.
    measured_from: Option<Time>,
}

impl Heard {
    fn with(&mut self, packet: &Packet, entered: Time, count: impl Fn(&mut ClientCounts, bool)) {
        let measured = self.measured_from.is_some_and(|from| entered >= from);
        for (client, counts) in &mut self.clients {
            if *client == Some(packet.client) {
                count(counts, measured);
            }
        }
    }

    fn on_left(&mut self, packet: &Packet, now: Time) {
        let at = if self.has_chains { packet.chain.index() } else { packet.service.index() };
        let tolerance = self.tolerances.get(at).copied().unwrap_or(Time::ZERO);
        let delay = now.since(packet.entered);
        self.with(packet, packet.entered, |counts, measured| {
            counts.processed += 1;
            if measured {
                counts.delays.record(delay.as_ns());
                counts.late += u64::from(delay > tolerance);
            }
        });
    }

    fn on_lost(&mut self, packet: &Packet, entered: Time) {
        self.with(packet, entered, |counts, measured| counts.lost += u64::from(measured));
    }
}

/// Hears of a run, and counts the packets of the clients that a goal names.
#[derive(Clone, Debug)]
pub(super) struct Listener(Arc<Mutex<Heard>>);

impl Listener {
    fn heard<T>(&self, of: impl FnOnce(&mut Heard) -> T) -> T {
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn counts(&self) -> Vec<ScopeCounts> {
        let of = |counts: &ClientCounts| ScopeCounts {
            delays: counts.delays.counts(),
            mean_ns: counts.delays.mean(),
            max_ns: counts.delays.max(),
            late: counts.late,
            lost: counts.lost,
            processed: counts.processed,
        };
        self.heard(|heard| heard.clients.iter().map(|(_, counts)| of(counts)).collect())
    }
}

impl Observer for Listener {
    fn on_arrival(&mut self, _: Time, packet: &Packet, arrival: Arrival) {
        self.heard(|heard| {
            if heard.measured_from.is_none() {
                heard.measured_from = Some(packet.arrival + heard.warm_up);
            }
            if let Arrival::Dropped(_) = arrival {
                heard.on_lost(packet, packet.arrival);
            }
        });
    }

    fn on_dispatch(&mut self, _: Time, _: CoreId, _: &Dispatch) {}

    fn on_completion(&mut self, _: CoreId, _: Slot, completed: &Completed, finished: Time, _: Time) {
        if completed.onward.is_none() && completed.exit.is_none() {
            self.heard(|heard| heard.on_left(&completed.packet, finished));
        }
    }

    fn on_departure(&mut self, now: Time, packet: &Packet) {
        self.heard(|heard| heard.on_left(packet, now));
    }

    fn on_drop(&mut self, dropped: &Dropped) {
        self.heard(|heard| heard.on_lost(&dropped.packet, dropped.packet.entered));
    }

    fn on_switch(&mut self, _: &Switch) {}

    fn on_switched(&mut self, _: Time, _: CoreId) {}
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::choice::host::Host;
    use crate::choice::rate::Rate;
    use crate::choice::service::ServiceChoice;
    use crate::control::Control;

    fn config(input: &str, policy: &str) -> RunConfig {
        let mut config = RunConfig::new(Host::Sim, input, policy.parse().expect("a policy"));
        (config.cores, config.rate) = (4, Rate::Load { load: 0.9, of: None });
        config
    }

    /// The figures of a whole run, and of what a goal names in it.
    fn played(config: &RunConfig, goal: &str) -> (RunResult, Vec<ScopeFigures>) {
        let scopes = Scopes::find(&goal.parse().expect("a goal"), config, 1_000).expect("names that there are");
        let listener = scopes.listener_of_all();
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
        let observer = listener.clone().map(|listener| Box::new(listener) as _);
        let mut control = Control { observer, ..Control::new(&stop, &mut progress) };
        let run = crate::run(config, &mut control).expect("a run");
        let counts = [scopes.counts(&run, listener.as_ref())];
        let parts = [(run, 1.0)];
        let figures = scopes.figures(&parts, &counts);
        let [(run, _)] = parts;
        (run, figures)
    }

    /// Packets of the only flow wait for each other at the exit, and are lost at the door.
    #[test]
    fn the_only_client_has_the_figures_of_the_run() {
        let mut config = config("gen:imix:flows=1,packets=3000", "rr");
        config.services = ServiceChoice::parse_list("encrypt").expect("a service");
        config.costs = "table:measured".parse().expect("costs");
        (config.buffer, config.rate) = (32, Rate::Load { load: 1.5, of: None });
        for warm_up_us in [0, 10] {
            config.warm_up = core::time::Duration::from_micros(warm_up_us);
            let (run, figures) = played(&config, "late[client1]<1%@20us");
            let (summary, client) = (&run.summary, &figures[0]);
            assert_eq!((client.late, client.mean_ns), (summary.late.fraction, summary.delay_ns.mean));
            let offered = [summary.delay_offered_ns.p50, summary.delay_offered_ns.p90];
            let known = |ns: f64| ns.is_finite().then_some(ns as u64);
            assert_eq!([client.p50_ns, client.p90_ns].map(known), offered);
            assert_eq!(client.loss, summary.late.lost as f64 / summary.late.packets as f64);
            assert_eq!(client.throughput_pps, summary.throughput_pps);
            assert!(client.loss > 0.0 && run.exit.is_some_and(|exit| exit.waited > 0), "{client:?}");
        }
    }

    #[test]
    fn services_have_the_figures_of_their_own() {
        let mut config = config("gen:onoff:packets=2000", "hrw");
        config.services = ServiceChoice::parse_row("forward,encrypt").expect("services").expect("a row");
        config.chains.push(("forward".to_owned(), vec!["encrypt".to_owned()]));
        let (run, figures) = played(&config, "p99[encrypt]<1ms,late[forward]<1%,loss[client2]<1%");
        for (at, service) in [(0, 1), (1, 0)] {
            let summary = &run.summary.services[service];
            assert_eq!(figures[at].scope, summary.name);
            assert_eq!(Some(figures[at].p99_ns as u64), summary.delay_offered_ns.p99);
            assert_eq!((figures[at].late, figures[at].mean_ns), (summary.late.fraction, summary.delay_ns.mean));
        }
        assert!(figures[2].mean_ns > figures[0].mean_ns.max(figures[1].mean_ns) && figures[2].throughput_pps > 0.0);
    }

    #[test]
    fn a_client_is_found_by_any_name_it_has() {
        let found = |config: &RunConfig, goal: &str| Scopes::find(&goal.parse().expect("a goal"), config, 7);
        let said = |config: &RunConfig, goal: &str| found(config, goal).unwrap_err().to_string();
        let mut config = config("gen:poisson", "drr");
        config.services = ServiceChoice::parse_list("tcp=encrypt,other=forward").expect("services");
        let scope = |config: &RunConfig, goal: &str| found(config, goal).expect("it is there").all[0].1;
        assert_eq!(scope(&config, "p99[other]<1ms"), Scope::Service(1));
        assert_eq!(scope(&config, "p99[client7]<1ms"), Scope::Client(ClientId(6)));
        let unknown = "no service and no client is called `client8`: services are tcp, other; clients are client1 to client7, in order";
        assert!(said(&config, "p99[client8]<1ms").contains(unknown), "{}", said(&config, "p99[client8]<1ms"));
        config.clients = Some(Granularity::Service);
        assert_eq!(scope(&config, "p99[client:other]<1ms"), Scope::Client(ClientId(1)));
        assert!(said(&config, "p99[client1]<1ms").contains("clients are tcp, other"));
        config.clients = None;
        config.flow_timeout = Some(core::time::Duration::from_secs(1));
        assert!(said(&config, "p99[client1]<1ms").contains("flow-timeout gives their numbers"));
        assert!(found(&config, "p99[tcp]<1ms").is_ok());
    }

    #[test]
    fn parts_stand_for_others_and_the_worse_counts() {
        let part = |delay, lost| ScopeCounts {
            delays: vec![(delay, 9)],
            mean_ns: delay as f64,
            max_ns: delay,
            late: 0,
            lost,
            processed: 9,
        };
        let figures = ScopeFigures::of_parts("dpi", &[(part(10, 0), 1.0, 100), (part(20, 1), 3.0, 100)]);
        assert_eq!((figures.mean_ns, figures.max_ns, figures.delivered.max_ns), (17.5, f64::INFINITY, 20.0));
        assert_eq!((figures.loss, figures.late), (3.0 / 39.0, 3.0 / 39.0));
        assert_eq!((figures.p90_ns, figures.p99_ns), (20.0, f64::INFINITY));
        assert_eq!(figures.throughput_pps, 36.0 * 1e9 / 400.0);
        let other = ScopeFigures { mean_ns: 1e3, throughput_pps: 1e12, ..ScopeFigures::default() };
        let worse = figures.clone().worse(other);
        assert_eq!((worse.mean_ns, worse.throughput_pps), (1e3, figures.throughput_pps));
        let none = ScopeFigures::of_parts("dpi", &[(ScopeCounts::default(), 1.0, 100)]);
        assert_eq!((none.p99_ns, none.loss, none.throughput_pps), (0.0, 0.0, 0.0), "no packet came");
    }
}
