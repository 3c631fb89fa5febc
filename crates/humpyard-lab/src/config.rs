//! What is to be run.

use core::str::FromStr;
use core::time::Duration;
use std::collections::BTreeMap;

use humpyard_core::cost::LinearCost;
use humpyard_core::mechanism::{Limits, Split};
use humpyard_core::name::{Named, unknown};
use humpyard_core::policy::Ties;
use humpyard_core::random::Seed;
use humpyard_core::unit::{Weight, WorkUnit};
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::Overload;
use humpyard_traffic::Tunnels;
use humpyard_traffic::classify::{Granularity, Match};
use humpyard_traffic::source::{QUEUE, is_interface};
use ipnet::IpNet;

use crate::LabError;
use crate::costs::Costs;
use crate::link::{LinkChoice, show_link};
use crate::order::OrderChoice;
use crate::rule::{RuleChoice, service_name};
use crate::split::show_split;
use crate::timeline::TimelineChoice;
use crate::topology::TopologyChoice;

/// Which of the two drivers runs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Host {
    /// Virtual time.
    Sim,
    /// Real threads.
    Live,
}

/// Which time a live run goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// That of the machine.
    #[default]
    Real,
    /// The simulator's: services do their work for real, but it takes what the cost table says, and there are no threads.
    Virtual,
}

impl Clock {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Virtual => "virtual",
        }
    }
}

/// When packets arrive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rate {
    /// As fast as they are taken. Live only.
    Line,
    /// As captured.
    Trace,
    /// As captured, this many times faster: bursts stay as they are.
    Multiplied(f64),
    /// So many per second, evenly.
    PacketsPerSecond(f64),
    /// As captured, with all gaps stretched so that the offered work is a part of what cores can do.
    Load {
        /// That part; 1 is all that they can do.
        load: f64,
        /// This many cores. `None`: those of the run.
        of: Option<usize>,
    },
}

impl Rate {
    /// Returns the rate of the same traffic on other cores: a load stays that of the cores it was of.
    #[must_use]
    pub fn fixed(self, cores: usize) -> Self {
        match self {
            Self::Load { load, of } => Self::Load { load, of: Some(of.unwrap_or(cores.max(1))) },
            other => other,
        }
    }

    /// Returns the rate of this traffic that many times faster. A line rate has no faster one.
    #[must_use]
    pub fn times(self, times: f64) -> Self {
        match self {
            _ if times == 1.0 => self,
            Self::Line => Self::Line,
            Self::Trace => Self::Multiplied(times),
            Self::Multiplied(multiplier) => Self::Multiplied(multiplier * times),
            Self::PacketsPerSecond(rate) => Self::PacketsPerSecond(rate * times),
            Self::Load { load, of } => Self::Load { load: load * times, of },
        }
    }

    /// Returns the options that ask for it, without their dashes, and their values.
    pub fn options(self) -> Vec<(&'static str, String)> {
        match self {
            Self::Line => vec![("rate", "line".to_owned())],
            Self::Trace => vec![("rate", "trace".to_owned())],
            Self::Multiplied(multiplier) => vec![("multiplier", multiplier.to_string())],
            Self::PacketsPerSecond(rate) => vec![("rate", rate.to_string())],
            Self::Load { load, of: None } => vec![("load", load.to_string())],
            Self::Load { load, of: Some(of) } => vec![("load", load.to_string()), ("of", of.to_string())],
        }
    }
}

impl FromStr for Rate {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        match text {
            "line" => Ok(Self::Line),
            "trace" => Ok(Self::Trace),
            _ => match parse_count(text) {
                Some(rate) if (1e-3..=1e12).contains(&rate) => Ok(Self::PacketsPerSecond(rate)),
                _ => Err(LabError::option(format!(
                    "a rate is `line`, `trace` or packets per second (0.001 to 1e12, for example 250000, 250k or 1.5M), not \
                     `{text}`"
                ))),
            },
        }
    }
}

/// A positive number with an optional k, M or G.
pub(crate) fn parse_count(text: &str) -> Option<f64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    digits.parse::<f64>().ok().filter(|count| count.is_finite()).map(|count| count * factor)
}

/// A span of time with its unit: `500us`, `2ms`, `1.5s`, `2min`.
///
/// # Errors
/// Anything else.
pub fn parse_duration(text: &str) -> Result<Duration, LabError> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        _ => f64::NAN,
    };
    match digits.parse::<f64>() {
        Ok(value) if value >= 0.0 && value * factor <= TIME_MAX_NS => {
            Ok(Duration::from_nanos((value * factor).round() as u64))
        }
        Ok(value) if value >= 0.0 && !factor.is_nan() => {
            Err(LabError::option(format!("a time is {:.0} s at most; not `{text}`", TIME_MAX_NS / 1e9)))
        }
        _ => Err(LabError::option(format!("a time has a unit (ns, us, ms, s, min), for example 2ms; not `{text}`"))),
    }
}

/// The longest time that is taken, in ns.
const TIME_MAX_NS: f64 = 1e18;

/// What was given last for this service.
fn given(times: &[(String, Duration)], service: &str) -> Option<Duration> {
    times.iter().rev().find(|(name, _)| name == service).map(|&(_, time)| time)
}

/// A share from 0 to 1, in millionths.
pub fn parse_share(text: &str) -> Option<u32> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.map(|share| (share * 1e6).round() as u32)
}

/// One service of a run: which packets, and what is done to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceChoice {
    /// Its name in results.
    pub name: String,
    /// The packets that get it, if no rule says otherwise; none: only those of which a rule or a chain says so.
    pub matches: Option<Match>,
    /// What is done: the name of a service, and its parameters.
    pub work: Named,
}

impl ServiceChoice {
    /// `forward`, for every packet.
    pub fn forward() -> Self {
        let work = Named { name: "forward".into(), parameters: Vec::new() };
        Self { name: work.name.clone(), matches: Some(Match::Any), work }
    }

    /// `pass`, for every packet.
    pub fn pass() -> Self {
        let work = Named { name: "pass".into(), parameters: Vec::new() };
        Self { name: work.name.clone(), matches: Some(Match::Any), work }
    }

    /// `forward`, `forward:name=value,...`, `tcp=forward:...` for one kind of packets, or `NAME=forward:...` for those of
    /// which a rule or a chain says so.
    ///
    /// # Errors
    /// Parameters that do not read name=value.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let head = text.split_once(':').map_or(text, |(head, _)| head);
        let (matches, name, work) = match head.split_once('=') {
            Some((name, _)) => (name.parse().ok(), name, &text[name.len() + 1..]),
            None => (Some(Match::Any), head, text),
        };
        let work: Named = work.parse()?;
        if name.is_empty() || work.name.is_empty() {
            return Err(LabError::option(format!(
                "--services takes SERVICE or NAME=SERVICE, forward or tcp=forward for example; not `{text}`"
            )));
        }
        Ok(Self { name: name.to_owned(), matches, work })
    }

    /// Several, separated by commas: a part belongs to the service before unless it names packets and a known service.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_list(text: &str) -> Result<Vec<Self>, LabError> {
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            match parts.last_mut() {
                Some(last) if !starts_service(part) => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => parts.push(part.to_owned()),
            }
        }
        parts.iter().map(|part| Self::parse(part)).collect()
    }
}

impl ServiceChoice {
    /// Services in a row, `dpi,encrypt`: every packet goes through all of them. None if the text is anything but several names,
    /// without packets and parameters.
    ///
    /// # Errors
    /// A name that is no service's, and one that is there twice.
    pub fn parse_row(text: &str) -> Result<Option<Vec<Self>>, LabError> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        if names.len() < 2 || text.contains(['=', ':']) {
            return Ok(None);
        }
        for (at, name) in names.iter().enumerate() {
            if !is_service(name) {
                return Err(LabError::option(format!(
                    "--services {text}: {}",
                    unknown("service", name, service_names())
                )));
            }
            if names[..at].contains(name) {
                return Err(LabError::option(format!(
                    "--services {text}: `{name}` is there twice; name one of them, and say how they follow each other: \
                     --services other={name} --services again={name} --chain other=again"
                )));
            }
        }
        let choice = |(at, name): (usize, &&str)| Self {
            name: (*name).to_owned(),
            matches: (at == 0).then_some(Match::Any),
            work: Named { name: (*name).to_owned(), parameters: Vec::new() },
        };
        Ok(Some(names.iter().enumerate().map(choice).collect()))
    }
}

/// Every service that does work.
fn service_names() -> impl Iterator<Item = &'static str> {
    humpyard_services::entries().into_iter().map(|entry| entry.name)
}

/// Whether there is a service of this name: one that does work, or one that is known by its costs alone.
fn is_service(name: &str) -> bool {
    let mut in_tables = Costs::tables().iter().flat_map(|table| table.lines.keys());
    in_tables.any(|known| known == name) || service_names().any(|known| known == name)
}

/// Whether this part names packets and a service, rather than a parameter of the service before.
fn starts_service(part: &str) -> bool {
    part.split_once('=').is_some_and(|(kind, work)| {
        let name = work.split_once(':').map_or(work, |(name, _)| name);
        kind.parse::<Match>().is_ok() || is_service(name)
    })
}

/// Everything that decides what a run does.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// The driver.
    pub host: Host,
    /// Where packets come from.
    pub input: String,
    /// Inputs that are merged with it, by the times of their packets.
    pub more_inputs: Vec<String>,
    /// Where they go. Live only.
    pub output: String,
    /// Whether what comes in by the output leaves by the input, between two interfaces. Live only.
    pub both_ways: bool,
    /// Whether a live run gives up the privileges of its thread once everything is open: so does a program that only runs.
    pub drop_privileges: bool,
    /// Where packets go at which a service panicked: a capture file; none keeps none of them. Live only.
    pub quarantine: Option<String>,
    /// The policies.
    pub policy: PolicySpec,
    /// Cores in the simulator; worker threads in a live run, where 0 does everything on one thread.
    pub cores: usize,
    /// Dispatchers, among which the workers are divided: each is a data plane of its own, for some of the connections. Live, in
    /// real time.
    pub dispatchers: usize,
    /// Which cores are near each other; none is as on this machine in real time, else all the same.
    pub topology: Option<TopologyChoice>,
    /// Contexts of each processing element: so many cores in a row take turns computing.
    pub contexts: usize,
    /// Of how many services each core keeps the code: to go back to one of them takes no time.
    pub services_per_core: usize,
    /// Speed of the first cores in thousandths of what the costs hold for; the others have 1000. In virtual time.
    pub speeds: Vec<u32>,
    /// What every packet waits for memory after it was computed, while another context computes. In virtual time.
    pub stall: Duration,
    /// The services; where no rule matches, the first whose kind of packets it is counts.
    pub services: Vec<ServiceChoice>,
    /// The rules; the first that matches counts.
    pub rules: Vec<RuleChoice>,
    /// The prefixes from which the directions of rules are seen.
    pub local: Vec<IpNet>,
    /// What services cost: in virtual time the truth, in real time the estimate.
    pub costs: Costs,
    /// Which time it goes by. Live only.
    pub clock: Clock,
    /// By name the services that the packets of a service go through afterwards, by name.
    pub chains: Vec<(String, Vec<String>)>,
    /// Whether flows that are too much for one core go to several.
    pub split: Option<Split>,
    /// The link behind the cores; none where packets leave as they are done.
    pub link: Option<LinkChoice>,
    /// Whether hardware is to count what each thread does. Live, in real time.
    pub counters: bool,
    /// Policies that take over on the way, with the time since the start.
    pub swaps: Vec<(Duration, PolicySpec)>,
    /// Where everything that is told and decided is written; none writes nothing.
    pub journal: Option<String>,
    /// The timeline that is written; none writes nothing.
    pub timeline: Option<TimelineChoice>,
    /// When packets arrive; by a virtual clock not [`Rate::Line`].
    pub rate: Rate,
    /// How often the input is played.
    pub rounds: u64,
    /// Reading ends after this many packets. `None`: at the end of the input.
    pub packets: Option<u64>,
    /// Ends reading after so long. Live only.
    pub longest: Option<Duration>,
    /// Packets that come in within so long after the first are in no figure of delay, lateness, order and fairness.
    pub warm_up: Duration,
    /// Tolerable delay, by service name; the empty name is for all others.
    pub tolerances: Vec<(String, Duration)>,
    /// What it takes a core to go over to a service, by service name; the empty name is for all others. None is what the costs say,
    /// else 50 us.
    pub switch_costs: Vec<(String, Duration)>,
    /// Guaranteed share of the cores in millionths, by service name.
    pub guarantees: Vec<(String, u32)>,
    /// Who the clients are; none is: flows, or those of the rules where a rule names a client or a weight.
    pub clients: Option<Granularity>,
    /// Weights of the first clients, in order of appearance; for services, in their order.
    pub weights: Vec<Weight>,
    /// The unit of work.
    pub unit: WorkUnit,
    /// How the packets of a flow keep their order.
    pub flow_order: OrderChoice,
    /// Most packets held at once.
    pub buffer: usize,
    /// Limits of queues and clients.
    pub limits: Limits,
    /// Most flows known at once.
    pub flows: usize,
    /// A flow ends that has had no packet under way for so long, by the times of the packets; none: when its place is needed.
    pub flow_timeout: Option<Duration>,
    /// Tunnels that are looked into for the flow of a packet.
    pub tunnels: Tunnels,
    /// Packets handed to a worker and not yet done, at most. In the simulator it is one, unless handing over takes time.
    pub in_flight: u32,
    /// What it takes to hand a packet to an idle core of a simulation, to which as many may be handed ahead as `in_flight` says; none is
    /// no time, and one packet at a time. In the simulator only.
    pub hand_over: Option<Duration>,
    /// Whether the cores of a simulation are interrupted as those were on which its costs were measured.
    pub interrupted: bool,
    /// What to do when the buffer is full; none is: wait if packets come as fast as they are taken, else drop.
    pub overload: Option<Overload>,
    /// Which of two equals goes first.
    pub ties: Ties,
    /// Where all randomness comes from.
    pub seed: Seed,
}

impl RunConfig {
    /// The defaults, for this driver, input and policy.
    pub fn new(host: Host, input: &str, policy: PolicySpec) -> Self {
        Self {
            host,
            input: input.to_owned(),
            more_inputs: Vec::new(),
            output: "null:".to_owned(),
            both_ways: false,
            drop_privileges: false,
            quarantine: None,
            policy,
            cores: 2,
            dispatchers: 1,
            topology: None,
            contexts: 1,
            services_per_core: 1,
            speeds: Vec::new(),
            stall: Duration::ZERO,
            chains: Vec::new(),
            split: None,
            link: None,
            counters: false,
            swaps: Vec::new(),
            journal: None,
            timeline: None,
            services: vec![ServiceChoice::forward()],
            rules: Vec::new(),
            local: Vec::new(),
            costs: Costs::default(),
            clock: Clock::Real,
            rate: if host == Host::Live { Rate::Line } else { Rate::Trace },
            rounds: 1,
            packets: None,
            longest: None,
            warm_up: Duration::ZERO,
            tolerances: Vec::new(),
            switch_costs: Vec::new(),
            guarantees: Vec::new(),
            clients: None,
            weights: Vec::new(),
            unit: WorkUnit::Nanoseconds,
            flow_order: OrderChoice::default(),
            buffer: BUFFER,
            limits: Limits::default(),
            flows: FLOWS,
            flow_timeout: None,
            tunnels: Tunnels::NONE,
            in_flight: IN_FLIGHT,
            hand_over: None,
            interrupted: false,
            overload: None,
            ties: Ties::Lowest,
            seed: Seed(1),
        }
    }

    /// All inputs.
    pub fn inputs(&self) -> Vec<String> {
        core::iter::once(&self.input).chain(&self.more_inputs).cloned().collect()
    }

    /// All inputs, as results name them.
    pub(crate) fn input_name(&self) -> String {
        self.inputs().join(" + ")
    }

    /// Whether an input can be read once only: a pipe, or an interface.
    pub(crate) fn reads_once(&self) -> bool {
        self.inputs().iter().any(|input| input == "-" || is_interface(input))
    }

    /// Whether packets come by queues of the kernel, and leave by them.
    pub(crate) fn has_queues(&self) -> bool {
        self.host == Host::Live && self.inputs().iter().any(|input| input.starts_with(QUEUE))
    }

    /// Where packets go; from queues of the kernel back to where they came from.
    pub(crate) fn output_name(&self) -> String {
        if self.has_queues() { self.input_name() } else { self.output.clone() }
    }

    /// Whether packets come by an interface, whenever they do.
    pub(crate) fn listens(&self) -> bool {
        self.inputs().iter().any(|input| is_interface(input))
    }

    /// Delay beyond which a packet of the service is late.
    pub(crate) fn tolerance(&self, service: &str) -> Duration {
        let given = |name: &str| given(&self.tolerances, name);
        let by_rule = || self.rules_of(service).find_map(|rule| rule.tolerance);
        given(service).or_else(by_rule).or_else(|| given("")).unwrap_or(TOLERANCE)
    }

    /// What it takes a core to go over to this service.
    pub(crate) fn switch_cost(&self, service: &str) -> Duration {
        let given = |name: &str| given(&self.switch_costs, name);
        given(service).or_else(|| given("")).or_else(|| self.costs.switch_cost()).unwrap_or(SWITCH_COST)
    }

    /// What it takes a core to go over to a service, as on the command line: once, if it is the same for all.
    fn show_switch_costs(&self) -> String {
        let costs: Vec<(&str, u128)> = self
            .services
            .iter()
            .map(|choice| (choice.name.as_str(), self.switch_cost(&choice.name).as_nanos()))
            .collect();
        match costs.as_slice() {
            [(_, first), others @ ..] if others.iter().all(|(_, cost)| cost == first) => format!("{first}ns"),
            costs => costs.iter().map(|(name, cost)| format!("{name}={cost}ns")).collect::<Vec<_>>().join(","),
        }
    }

    /// Share of the cores that a service is guaranteed, in millionths, if one is given.
    pub(crate) fn guarantee(&self, service: &str) -> Option<u32> {
        let given = self.guarantees.iter().rev().find(|(given, _)| given == service).map(|&(_, share)| share);
        given.or_else(|| self.rules_of(service).find_map(|rule| rule.guarantee))
    }

    fn rules_of<'a>(&'a self, service: &'a str) -> impl Iterator<Item = &'a RuleChoice> {
        self.rules.iter().filter(move |rule| service_name(self, rule) == service)
    }

    /// Who the clients are.
    pub fn granularity(&self) -> Granularity {
        let named =
            || self.rules.iter().any(|rule| rule.client.is_some() || rule.weight.or(rule.link_weight).is_some());
        self.clients.unwrap_or_else(|| if named() { Granularity::Rule } else { Granularity::Flow })
    }

    /// Which cores are near each other, as on the command line.
    fn topology_name(&self) -> &str {
        match &self.topology {
            Some(topology) => topology.name(),
            None if self.host == Host::Live && self.clock == Clock::Real => "machine",
            None => "flat",
        }
    }

    /// What was asked for beside policy, input, cores and seed, by option, as on the command line.
    pub(crate) fn options(&self) -> BTreeMap<&'static str, String> {
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(",");
        let limit = |limit: u32| if limit == u32::MAX { "none".to_owned() } else { limit.to_string() };
        let mut options = BTreeMap::from([
            ("buffer", self.buffer.to_string()),
            ("client-limit", limit(self.limits.client)),
            ("chain", list(&mut self.chains.iter().map(|(first, then)| format!("{first}={}", then.join("+"))))),
            ("clients", self.granularity().name().to_owned()),
            ("costs", self.costs.to_string()),
            ("contexts", self.contexts.to_string()),
            ("services-per-core", self.services_per_core.to_string()),
            ("flow-order", self.flow_order.show(self.buffer)),
            ("flows", self.flows.to_string()),
            (
                "flow-timeout",
                self.flow_timeout.map_or_else(|| "none".to_owned(), |time| format!("{}ns", time.as_nanos())),
            ),
            ("inner", self.tunnels.to_string()),
            (
                "guarantee",
                list(&mut self.services.iter().filter_map(|choice| {
                    let share = self.guarantee(&choice.name)?;
                    Some(format!("{}={}", choice.name, f64::from(share) / 1e6))
                })),
            ),
            ("local", list(&mut self.local.iter().map(ToString::to_string))),
            ("loop", self.rounds.to_string()),
            ("rule", self.rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")),
            ("speeds", list(&mut self.speeds.iter().map(|&speed| (f64::from(speed) / 1000.0).to_string()))),
            ("stall", format!("{}ns", self.stall.as_nanos())),
            ("swap", list(&mut self.swaps.iter().map(|(at, policy)| format!("{}ns={policy}", at.as_nanos())))),
            ("when-full", self.limits.when_full.name().to_owned()),
            ("queue-limit", limit(self.limits.queue)),
            (
                "services",
                list(&mut self.services.iter().map(|choice| {
                    format!("{}={}", choice.matches.map_or(choice.name.as_str(), |kind| kind.name()), choice.work)
                })),
            ),
            ("switch-cost", self.show_switch_costs()),
            ("ties", if self.ties == Ties::Lowest { "lowest" } else { "highest" }.to_owned()),
            (
                "tolerance",
                list(
                    &mut self
                        .services
                        .iter()
                        .map(|choice| format!("{}={}ns", choice.name, self.tolerance(&choice.name).as_nanos())),
                ),
            ),
            ("topology", self.topology_name().to_owned()),
            ("warmup", format!("{}ns", self.warm_up.as_nanos())),
            ("weights", list(&mut self.weights.iter().map(|weight| weight.get().to_string()))),
        ]);
        if self.dispatchers > 1 {
            options.insert("dispatchers", self.dispatchers.to_string());
        }
        if let Some(link) = &self.link {
            options.insert("link", show_link(link));
        }
        if let Some(split) = self.split {
            options.insert("split", show_split(split));
        }
        options.extend(self.rate.options());
        if let Some(packets) = self.packets {
            options.insert("packets", packets.to_string());
        }
        if let Some(hand_over) = self.hand_over {
            options.insert("hand-over", format!("{}ns", hand_over.as_nanos()));
        }
        if self.interrupted {
            options.insert("interrupted", "true".to_owned());
        }
        if self.host == Host::Live {
            options.insert("counters", self.counters.to_string());
            options.insert("clock", self.clock.name().to_owned());
            options.insert("in-flight", self.in_flight.to_string());
            options.insert("output", self.output_name());
            options.insert("both-ways", self.both_ways.to_string());
            options.insert("quarantine", self.quarantine.clone().unwrap_or_else(|| "none".to_owned()));
        }
        options
    }

    /// What a packet of each service is believed to cost, in the unit of the run.
    pub(crate) fn estimates(&self, costs: &[LinearCost]) -> Vec<LinearCost> {
        match self.unit {
            WorkUnit::Nanoseconds => {
                let hand_over = self.hand_over.map_or(0, |hand_over| hand_over.as_nanos() as u64);
                costs.iter().map(|&cost| LinearCost { fixed: cost.fixed + hand_over, ..cost }).collect()
            }
            WorkUnit::Bytes => vec![LinearCost::BYTES; costs.len()],
            WorkUnit::Packets => vec![LinearCost::PACKETS; costs.len()],
        }
    }
}

/// Most packets held at once, unless told otherwise.
const BUFFER: usize = 4096;
/// Most flows known at once, unless told otherwise.
const FLOWS: usize = 65_536;
/// Packets in flight per worker, unless told otherwise: enough to keep a worker busy, few enough for the policy to matter.
const IN_FLIGHT: u32 = 32;
/// What a switch costs, unless told or measured otherwise.
const SWITCH_COST: Duration = Duration::from_micros(50);
/// Delay beyond which a packet is late, unless told otherwise: the Everest paper's.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_read_as_people_write_them() {
        assert_eq!("line".parse::<Rate>().unwrap(), Rate::Line);
        assert_eq!("1.5M".parse::<Rate>().unwrap(), Rate::PacketsPerSecond(1.5e6));
        assert_eq!("250k".parse::<Rate>().unwrap(), Rate::PacketsPerSecond(250e3));
        assert_eq!(parse_duration("1.5ms").unwrap(), Duration::from_micros(1500));
        assert_eq!(parse_duration("500us").unwrap(), Duration::from_micros(500));
        for bad in ["", "-1", "0", "1e-300", "1e13", "nan", "fast"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        for bad in ["", "2", "-2ms", "2 ms", "ms", "2h", "1e30s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        let said = parse_duration("99999999999999999s").unwrap_err().to_string();
        assert_eq!(said, "a time is 1000000000 s at most; not `99999999999999999s`");
    }

    #[test]
    fn services_read_with_and_without_a_match() {
        let choice = ServiceChoice::parse("tcp=forward:checksum=fill,icmp-interval=8").unwrap();
        let (name, work) = (choice.name.as_str(), choice.work.name.as_str());
        assert_eq!((name, choice.matches, work), ("tcp", Some(Match::Tcp), "forward"));
        assert_eq!(choice.work.parameters[1], ("icmp-interval".to_owned(), "8".to_owned()));
        let choice = ServiceChoice::parse("forward:checksum=fill").unwrap();
        assert_eq!((choice.name.as_str(), choice.matches), ("forward", Some(Match::Any)));
        let choice = ServiceChoice::parse("web=forward").unwrap();
        assert_eq!((choice.name.as_str(), choice.matches), ("web", None));
    }

    #[test]
    fn services_in_a_row_are_names_alone() {
        let row = ServiceChoice::parse_row("dpi,encrypt").unwrap().unwrap();
        assert_eq!(row[0].matches, Some(Match::Any));
        assert_eq!((row[1].name.as_str(), row[1].matches), ("encrypt", None));
        for other in ["dpi", "tcp=dpi,udp=encrypt", "dpi:a=1,b=2", "forward:checksum=fill,icmp-burst=8", ""] {
            assert_eq!(ServiceChoice::parse_row(other).unwrap(), None, "{other}");
        }
        for (wrong, said) in [
            ("dpi,encrpyt", "no service `encrpyt`; did you mean `encrypt`?"),
            ("dpi,dpi", "`dpi` is there twice"),
            ("dpi,", "no service ``"),
        ] {
            let error = ServiceChoice::parse_row(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }

    #[test]
    fn services_with_parameters_are_told_apart() {
        let list = "tcp=forward:checksum=fill,icmp-burst=8,web=forward:icmp-burst=9,other=forward";
        let choices = ServiceChoice::parse_list(list).unwrap();
        let names: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
        assert_eq!(names, ["tcp", "web", "other"]);
        assert_eq!(choices[0].work.parameters.len(), 2);
        assert_eq!(
            ServiceChoice::parse_list("forward:icmp-burst=8,checksum=fill").unwrap()[0].work.parameters.len(),
            2
        );
    }
}
