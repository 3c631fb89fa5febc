//! Whether a run can be, without running it.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::MovePenalties;
use humpyard_core::id::Id;
use humpyard_core::measure::Summary;
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::Clock as RuntimeClock;
use humpyard_traffic::HashFields;
use humpyard_traffic::classify::Granularity;
use humpyard_traffic::rule::{Conditions, shadowed};
use humpyard_traffic::sink::create;
use serde::Serialize;

use crate::LabError;
use crate::choice::assumed::AssumedHost;
use crate::choice::host::{Clock, Host};
use crate::choice::rate::Rate;
use crate::config::RunConfig;
use crate::control::Control;
use crate::costs::{Origin, ServiceCost};
use crate::figures::time;
use crate::parts::demand::pacer;
use crate::parts::link::link;
use crate::parts::ruled::Ruled;
use crate::parts::setup;
use crate::parts::several;
use crate::result::RunResult;
use crate::run::{clock, factories, services};
use humpyard_topology::TopologyChoice;

/// Returns an option by which a run goes by what was measured on this machine, so that others run it otherwise.
/// `None`: there is none.
pub fn of_this_machine(config: &RunConfig) -> Option<&'static str> {
    let is_saved = || config.costs.lines.values().any(|line| line.origin == Origin::Saved);
    if config.costs.is_auto() || is_saved() {
        return Some("costs");
    }
    config.assumed.as_ref().is_some_and(AssumedHost::is_here).then_some("host")
}

/// What a check has found about a run that can start.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// What was asked for and what it is by default, by option, as in a result.
    pub options: std::collections::BTreeMap<&'static str, String>,
    /// What each service costs, and the source of that.
    pub costs: Vec<ServiceCost>,
    /// The rules, in the order in which they are tried: those of the run, then those of the services' kinds.
    pub rules: Vec<CheckedRule>,
    /// What is promised of the order of flows, and within which bounds: a sentence without its end.
    pub order: String,
    /// Warnings of options and rules. Names of options stand behind `@`: see [`spelled`](crate::spelled).
    pub warnings: Vec<String>,
    /// What could not be checked on this machine.
    pub notes: Vec<String>,
}

/// A rule of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckedRule {
    /// The packets.
    pub packets: String,
    /// Their service.
    pub service: String,
    /// Their client, where clients are those of the rules.
    pub client: String,
    /// Whether any packet can reach the rule.
    pub reached: bool,
}

/// Makes the parts of a run of one dispatcher, and drops them.
fn check_parts(config: &RunConfig, setup: &SchedulerConfig) -> Result<(), LabError> {
    let (_, records) = setup::measured(config, setup)?;
    setup::cost_model(config, setup)?;
    link(config, setup)?;
    setup::swaps(config, setup, &records)?;
    if config.host == Host::Live {
        let _: RuntimeClock = clock(config, setup)?;
    }
    Ok(())
}

/// Makes everything that a run needs, and drops it: files are opened, and none is left behind. The input is not read.
///
/// # Errors
/// Whatever would keep the run from starting.
pub fn check(config: &RunConfig) -> Result<Checked, LabError> {
    if config.host == Host::Sim {
        setup::check_simulated(config)?;
    }
    let cores = config.cores.max(1);
    let services = match config.host {
        Host::Live => factories(config)?.into_iter().map(Some).collect(),
        Host::Sim => services(config)?,
    };
    several::refuse(config)?;
    let classifier = setup::classifier(config)?;
    check_parts(config, &setup::scheduler_config(config, cores, classifier.clients_max())?)?;
    if config.dispatchers.is_some_and(|dispatchers| dispatchers != 1) {
        several::separate(config)?;
    }
    if config.host == Host::Sim && config.rate == Rate::Line {
        return Err(setup::no_line_rate());
    }
    if let Rate::Load { .. } = config.rate {
        // Reading ends at once.
        let (stop, mut progress) = (AtomicBool::new(true), |_, _| {});
        let mut control = Control::new(&stop, &mut progress);
        pacer(config, cores, &mut control)?;
    }
    let mut notes = Vec::new();
    if humpyard_wire::needed(&config.inputs(), &config.output) && config.host == Host::Live {
        notes = check_interfaces(config)?;
    } else {
        check_files(config)?;
    }
    if config.host == Host::Live {
        setup::quarantine(config)?;
    }
    let ruled = Ruled::new(config)?;
    let conditions: Vec<Conditions> = ruled.rules.iter().map(|rule| rule.conditions.clone()).collect();
    let shadowed = shadowed(&conditions);
    let is_reached = |at: usize| shadowed.binary_search(&at).is_err();
    let mut warnings: Vec<String> = shadowed.iter().filter_map(|&at| unreached(config, at)).collect();
    let gets_packets = |service: usize| {
        let by_rule =
            ruled.rules.iter().enumerate().any(|(at, rule)| is_reached(at) && rule.outcome.service.index() == service);
        let by_mark = services.iter().flatten().any(|one| one.refers_to().iter().any(|id| id.index() == service));
        by_rule || by_mark || is_in_a_chain(config, &config.services[service].name)
    };
    let idle = (0..config.services.len()).filter(|&service| !gets_packets(service));
    warnings.extend(idle.map(|service| {
        let name = &config.services[service].name;
        format!(
            "no packet gets the service `{name}`: the rules before take all of its packets; move or drop one of them, or send it \
             some by a mark such as l7-filter:service=http={service}"
        )
    }));
    warnings.extend(without_effect(config));
    warnings.extend(late_by_a_switch(config)?);
    warnings.extend(full_before_late(config)?);
    // What rules leave for the kinds of services, if they leave anything.
    let tried = ruled.rules.iter().enumerate().filter(|&(at, _)| at < config.rules.len() || is_reached(at));
    let rules = tried.map(|(at, rule)| CheckedRule {
        packets: rule.conditions.to_string(),
        service: config.services[rule.outcome.service.index()].name.clone(),
        client: ruled.clients[rule.outcome.client.index()].clone(),
        reached: is_reached(at),
    });
    Ok(Checked {
        options: config.options(),
        costs: setup::service_costs(config)?,
        rules: rules.collect(),
        order: config.flow_order.promise(config.buffer),
        warnings,
        notes,
    })
}

/// As [`check`], on the machine of the run: its interfaces must be there.
///
/// # Errors
/// As [`check`], and an interface that cannot be opened.
pub fn check_here(config: &RunConfig) -> Result<(), LabError> {
    if check(config)?.notes.is_empty() { Ok(()) } else { setup::ports(config).map(drop) }
}

/// Opens the interfaces of a run, or says which of them this machine does not have: the configuration may be for another.
fn check_interfaces(config: &RunConfig) -> Result<Vec<String>, LabError> {
    let absent = humpyard_wire::absent(&config.inputs(), &config.output, config.both_ways)?;
    if absent.is_empty() {
        setup::ports(config)?;
        return Ok(Vec::new());
    }
    setup::check_arrivals(config)?;
    if !humpyard_wire::needed(&[], &config.output) && config.output != "-" {
        create(&config.output)?;
    }
    let note = |port: &String| format!("{port}: this machine has no such interface: no interface was opened");
    Ok(absent.iter().map(note).collect())
}

/// Whether the input can be read and the output written.
fn check_files(config: &RunConfig) -> Result<(), LabError> {
    if !config.inputs().iter().any(|input| is_pipe(input)) {
        setup::source(config)?;
    }
    if config.host == Host::Live && config.output != "-" {
        create(&config.output)?;
    }
    Ok(())
}

fn is_in_a_chain(config: &RunConfig, service: &str) -> bool {
    let of_rules = config.rules.iter().filter_map(|rule| rule.chain.as_ref());
    config.chains.iter().map(|(_, then)| then).chain(of_rules).flatten().any(|name| name == service)
}

/// Whether it can be read once only, so that looking would take from the run.
fn is_pipe(input: &str) -> bool {
    use std::os::unix::fs::FileTypeExt;
    input == "-" || std::fs::metadata(input).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

fn unreached(config: &RunConfig, at: usize) -> Option<String> {
    let rule = config.rules.get(at)?;
    Some(format!(
        "rule {}, `{rule}`, is never reached: rules before it take all of its packets; put it before them, or drop it",
        at + 1
    ))
}

/// Returns warnings of options that do nothing, or are given twice.
pub fn without_effect(config: &RunConfig) -> Vec<String> {
    let mut warnings = Vec::new();
    let names = config.rules.iter().any(|rule| rule.client.is_some());
    let weighs = config.rules.iter().any(|rule| rule.weight.is_some());
    let weighs_at_all = weighs || config.rules.iter().any(|rule| rule.link_weight.is_some());
    let what = match config.granularity() {
        Granularity::Rule => None,
        Granularity::Service if weighs_at_all => Some("clients and weights of rules do"),
        _ => names.then_some("clients of rules do"),
    };
    if let Some(what) = what {
        let clients = config.granularity().name();
        warnings.push(format!("{what} nothing where clients are those of `@clients {clients}`: use @clients rule"));
    }
    let weights = !config.weights.is_empty() || weighs;
    if weights && !config.policy.weighs() {
        let why = if config.policy.shares() { "has no use for them" } else { "serves in order of arrival" };
        warnings.push(format!(
            "weights do nothing under `{}`, which {why}: name a sharing policy such as drr",
            config.policy
        ));
    }
    if config.policy.is_offline() && config.rate != Rate::Trace {
        warnings.push(format!(
            "@load, @rate and @multiplier do nothing under `{}`, which knows all packets beforehand: they arrive all at once",
            config.policy
        ));
    }
    if config.link.is_none() && config.rules.iter().any(|rule| rule.link_weight.is_some()) {
        warnings.push("link-weight of rules does nothing without a link: give a @link, or leave it out".to_owned());
    }
    warnings.extend(weights_of_marks(config));
    warnings.extend(of_one_client(config));
    if !config.local.is_empty() && !config.rules.iter().any(|rule| rule.conditions.needs_local()) {
        warnings.push("@local does nothing, for no rule asks for a direction: give one direction=in or out".to_owned());
    }
    if let Some(longest) = config.longest {
        warnings.extend(after_the_end(config, longest));
    }
    if config.host == Host::Live && config.clock == Clock::Real && !(config.speeds.is_empty() && config.stall.is_zero())
    {
        warnings.push("@speeds and @stall do nothing on real cores: use `sim`, or @clock virtual".to_owned());
    }
    for (at, rule) in config.rules.iter().enumerate() {
        let service = config.service_of(rule);
        if rule.tolerance.is_some_and(|tolerance| tolerance != config.tolerance(service)) {
            let other = config.tolerance(service);
            warnings.push(format!(
                "the tolerance of rule {} does nothing: the service `{service}` has one of {other:?} by @tolerance",
                at + 1
            ));
        }
    }
    if config.counters && config.clock == Clock::Virtual {
        warnings.push(
            "@counters does nothing by a virtual clock, whose workers are no threads: leave one of them out".to_owned(),
        );
    }
    let marks = |choice: &&crate::ServiceChoice| {
        choice.work.parameters.iter().any(|(name, value)| name == "fwmark" && !value.is_empty())
    };
    if let Some(marking) = config.services.iter().find(marks).filter(|_| !config.has_queues()) {
        warnings.push(format!(
            "`fwmark` of `{}` does nothing here: packets get it that come by a queue of the kernel, @input nfqueue:NUMBER",
            marking.name
        ));
    }
    let virtual_time = config.host == Host::Sim || config.clock == Clock::Virtual;
    let flat = matches!(config.topology, None | Some(TopologyChoice::Flat));
    if virtual_time && flat && config.costs.moves != MovePenalties::NONE {
        warnings.push(format!(
            "what `@costs {}` says of flows that move between cores does nothing without a topology: give one, @topology \
             e5355 for example",
            config.costs
        ));
    }
    warnings.extend(hash_of_none(config));
    let guarantees = !config.guarantees.is_empty() || config.rules.iter().any(|rule| rule.guarantee.is_some());
    if guarantees && !config.policy.allocates() {
        warnings.push(format!(
            "guarantees do nothing under `{}`, which allocates no cores: use a policy such as static or everest",
            config.policy
        ));
    }
    let allocates = config.policy.allocates() || config.swaps.iter().any(|(_, policy)| policy.allocates());
    for (option, given) in
        [("@services-per-core", config.services_per_core > 1), ("@switch-cost", !config.switch_costs.is_empty())]
    {
        if given && !allocates {
            warnings.push(format!(
                "{option} does nothing under `{}`, whose cores serve all services: use a policy that allocates cores, such as \
                 everest",
                config.policy
            ));
        }
    }
    warnings
}

/// Warns of weights by services that do nothing.
fn weights_of_marks(config: &RunConfig) -> Option<String> {
    // Errors of services are reported where they are made.
    let services = services(config).unwrap_or_default();
    let service = services.iter().flatten().find(|service| service.weighs())?.info().name;
    let clients = config.granularity();
    if !config.policy.weighs() {
        let policy = &config.policy;
        return Some(format!(
            "weights by marks of `{service}` do nothing under `{policy}`: name a sharing policy such as drr"
        ));
    }
    (!matches!(clients, Granularity::Flow | Granularity::Connection)).then(|| {
        format!(
            "weights by marks of `{service}` do nothing where clients are those of `@clients {}`: use @clients flow or connection",
            clients.name()
        )
    })
}

/// Returns warnings of options that did nothing, as a run has shown.
pub fn came_to_nothing(config: &RunConfig, result: &RunResult) -> Vec<String> {
    let Summary { duration_ns, warm_up, .. } = result.summary;
    if result.interrupted || result.packets.arrived == 0 {
        return Vec::new();
    }
    let duration = Duration::from_nanos(duration_ns);
    let mut warnings = after_the_end(config, duration);
    // Warnings of the configuration come before the run.
    warnings.retain(|warning| !config.longest.is_some_and(|longest| after_the_end(config, longest).contains(warning)));
    if warm_up.time_ns > 0 && warm_up.packets >= result.packets.processed {
        warnings.push(format!(
            "@warmup leaves no packet for the figures of delay, lateness, order and fairness: the run took {}; give less",
            time(duration_ns as f64)
        ));
    }
    warnings.extend(too_short_to_split(config, result));
    warnings.extend(cut_off(result));
    warnings
}

/// Warns of a run that ends before the share of a flow is known.
fn too_short_to_split(config: &RunConfig, result: &RunResult) -> Option<String> {
    let window = config.split?.window.as_ns();
    let (duration, split) = (result.summary.duration_ns, result.split.as_ref()?);
    (duration < window && split.elephants == 0).then(|| {
        format!(
            "@split splits no flow: the run takes {}, less than the window of {} over which it measures flows; give a shorter \
             one (@split window=10us), or more packets",
            time(duration as f64),
            time(window as f64)
        )
    })
}

/// Services that could not read all of what they look into, for the capture had cut it off.
fn cut_off(result: &RunResult) -> impl Iterator<Item = String> {
    let services = result.summary.services.iter();
    let cut = services.filter_map(|service| Some((&service.name, *service.counters.get("cut_packets")?)));
    cut.map(|(name, packets)| {
        format!(
            "{packets} of the packets that `{name}` looks into were cut off when they were captured: it knows less for that; capture \
             whole packets (tcpdump -s 0)"
        )
    })
}

/// Warns of policies that would take over after the end.
fn after_the_end(config: &RunConfig, end: Duration) -> Vec<String> {
    let late = config.swaps.iter().filter(|(at, _)| *at > end);
    let warning = |(at, policy): &(Duration, _)| {
        let at = time(at.as_nanos() as f64);
        format!("`{policy}` does not take over: the run ends before {at}, the time of its @swap; give an earlier one")
    };
    late.map(warning).collect()
}

/// Warns of hashes of addresses by which nothing is steered.
fn hash_of_none(config: &RunConfig) -> Option<String> {
    let mut policies = config.swaps.iter().map(|(_, policy)| policy).chain([&config.policy]);
    let used = config.split.is_some() || policies.any(PolicySpec::hashes);
    (config.hash != HashFields::Ports && !used).then(|| {
        format!(
            "@hash {} does nothing under `{}`, which steers by no hash: use a policy such as hrw or conn",
            config.hash.name(),
            config.policy
        )
    })
}

/// Warns of clients that are services where there is one service.
fn of_one_client(config: &RunConfig) -> Option<String> {
    let asked = config.clients.is_some() || !config.weights.is_empty();
    let alone = config.granularity() == Granularity::Service && config.services.len() == 1;
    (asked && alone && config.policy.shares()).then(|| {
        "there is one client, for clients are services, and there is one: nothing is shared; use @clients flow, or give \
         several @services"
            .to_owned()
    })
}

/// Services whose tolerance is less than it takes a core to come over and serve one packet.
///
/// # Errors
/// A service that the costs do not name.
pub fn late_by_a_switch(config: &RunConfig) -> Result<Vec<String>, LabError> {
    if !config.policy.allocates() {
        return Ok(Vec::new());
    }
    let costs = setup::costs(config)?;
    let of_service = |(choice, cost): (&crate::ServiceChoice, &humpyard_core::cost::LinearCost)| {
        let packet = Duration::from_nanos(cost.work(setup::TYPICAL_BYTES));
        let (tolerance, switch) = (config.tolerance(&choice.name), config.switch_cost(&choice.name));
        (tolerance < switch + packet).then(|| {
            format!(
                "service `{}`: its tolerance of {tolerance:?} is less than a switch ({switch:?}) and a packet ({packet:?}) \
                 take: packets for which a core must switch are late; raise @tolerance {}=TIME",
                choice.name, choice.name
            )
        })
    };
    Ok(config.services.iter().zip(&costs).filter_map(of_service).collect())
}

/// Returns services for which the buffer is full before their queue is long enough to ask for another core.
///
/// # Errors
/// A service that the costs do not name.
pub fn full_before_late(config: &RunConfig) -> Result<Vec<String>, LabError> {
    if !config.policy.goes_by_tolerance() {
        return Ok(Vec::new());
    }
    let costs = setup::costs(config)?;
    let of_service = |(choice, cost): (&crate::ServiceChoice, &humpyard_core::cost::LinearCost)| {
        let tolerance = config.tolerance(&choice.name);
        let in_time = tolerance.as_nanos() / u128::from(cost.work(setup::TYPICAL_BYTES));
        (in_time >= config.buffer as u128).then(|| {
            format!(
                "service `{}`: a core serves {in_time} packets within its tolerance of {tolerance:?}, and the buffer has room for {}: \
                 it is full before `{}` gives the service another core; raise @buffer, or give a shorter @tolerance {}=TIME",
                choice.name, config.buffer, config.policy, choice.name
            )
        })
    };
    Ok(config.services.iter().zip(&costs).filter_map(of_service).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(services: &str, rules: &[&str]) -> RunConfig {
        let mut config = RunConfig::new(Host::Sim, "gen:messages", "static".parse().unwrap());
        config.services = crate::ServiceChoice::parse_list(services).unwrap();
        config.rules = rules.iter().map(|text| text.parse().unwrap()).collect();
        config
    }

    #[test]
    fn what_was_probably_not_meant_is_told() {
        let rules = ["protocol=tcp,service=web", "port=80,protocol=tcp,service=web"];
        let mut config = config("web=forward,other=forward", &rules);
        config.switch_costs = vec![(String::new(), Duration::from_millis(3))];
        let checked = check(&config).unwrap();
        assert_eq!(checked.rules.iter().map(|rule| rule.reached).collect::<Vec<_>>(), [true, false, true]);
        let [shadow, web, other] = checked.warnings.as_slice() else { panic!("{:?}", checked.warnings) };
        assert!(shadow.starts_with("rule 2, `protocol=tcp") || shadow.starts_with("rule 2, `port=80"), "{shadow}");
        assert!(web.contains("service `web`: its tolerance of 2ms is less than a switch (3ms)"), "{web}");
        assert!(other.contains("service `other`"), "{other}");
        config.policy = "hrw".parse().unwrap();
        config.guarantees = vec![("web".to_owned(), 500_000)];
        config.clients = Some(Granularity::Flow);
        config.rules[0].client = Some("alice".to_owned());
        let warnings = check(&config).unwrap().warnings.join("\n");
        assert!(
            warnings.contains("guarantees do nothing under `hrw`") && warnings.contains("use @clients rule"),
            "{warnings}"
        );
    }

    #[test]
    fn a_buffer_that_is_full_before_a_queue_is_too_long_is_told() {
        let mut config = config("tcp=v4-v6-tcp,other=v6-v4-icmp", &[]);
        config.costs = "table:everest".parse().unwrap();
        config.buffer = 1000;
        assert_eq!(full_before_late(&config).unwrap(), Vec::<String>::new(), "static cores stay");
        config.policy = "everest".parse().unwrap();
        // 2 ms are 109 packets of 18.22 us, and 1,123 of 1.78 us.
        let warnings = full_before_late(&config).unwrap();
        let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert!(
            warning.starts_with("service `other`: a core serves 1123 packets within its tolerance of 2ms"),
            "{warning}"
        );
        config.buffer = 1124;
        assert_eq!(full_before_late(&config).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn options_without_effect_are_told() {
        let told = |policy: &str, change: &dyn Fn(&mut RunConfig)| {
            let mut config = RunConfig::new(Host::Live, "gen:messages", policy.parse().unwrap());
            change(&mut config);
            without_effect(&config).join("\n")
        };
        let weigh = |config: &mut RunConfig| config.weights = vec![humpyard_core::unit::Weight::ONE];
        assert!(told("lap", &weigh).contains("weights do nothing under `lap`, which has no use for them"));
        assert!(told("hrw", &weigh).contains("weights do nothing under `hrw`, which serves in order of arrival"));
        assert_eq!(told("drr", &weigh), "");
        let by_service = |config: &mut RunConfig| config.clients = Some(Granularity::Service);
        assert!(told("drr", &by_service).contains("there is one client"));
        let two = |config: &mut RunConfig| {
            by_service(config);
            config.services = crate::ServiceChoice::parse_list("tcp=forward,other=forward").unwrap();
        };
        assert_eq!(told("drr", &two), "");
        let mark = |config: &mut RunConfig| {
            config.services = crate::ServiceChoice::parse_list("l7-filter:fwmark=http=7").unwrap();
        };
        assert!(told("hrw", &mark).contains("`fwmark` of `l7-filter` does nothing here"));
        let from_queue = |config: &mut RunConfig| {
            mark(config);
            config.input = "nfqueue:7".to_owned();
        };
        assert_eq!(told("hrw", &from_queue), "");
        let by_addresses = |config: &mut RunConfig| config.hash = HashFields::Addresses;
        assert!(told("jsq", &by_addresses).contains("@hash addresses does nothing under `jsq`"));
        assert_eq!(told("hrw", &by_addresses), "");
        let local = |config: &mut RunConfig| config.local = vec!["10.0.0.0/8".parse().unwrap()];
        assert!(told("drr", &local).contains("@local does nothing"));
        let with_direction = |config: &mut RunConfig| {
            local(config);
            config.rules = vec!["direction=in,service=forward".parse().unwrap()];
        };
        assert_eq!(told("drr", &with_direction), "");
        let swap = |at: u64| {
            move |config: &mut RunConfig| {
                config.longest = Some(Duration::from_secs(2));
                config.swaps = vec![(Duration::from_secs(at), "sfq".parse().unwrap())];
            }
        };
        assert!(told("drr", &swap(3)).contains("`sfq` does not take over: the run ends before 3.00 s"));
        assert_eq!(told("drr", &swap(1)), "");
    }

    #[test]
    fn services_without_packets_are_told() {
        let warnings = |services, rules: &[&str]| check(&config(services, rules)).unwrap().warnings.join("\n");
        assert_eq!(warnings("forward", &["port=80", "service=forward"]), "");
        let said = warnings("tcp=forward,other=forward", &["protocol=tcp,service=other"]);
        assert!(said.contains("no packet gets the service `tcp`"), "{said}");
        assert_eq!(warnings("web=forward,other=forward", &["port=80,service=other,chain=web"]), "");
    }

    #[test]
    fn what_cannot_run_is_refused() {
        let mut bad = config("forward", &[]);
        bad.rate = Rate::Line;
        assert!(check(&bad).unwrap_err().to_string().contains("cannot use rate line"));
        bad = config("forward", &[]);
        bad.input = "missing.pcap".to_owned();
        assert!(check(&bad).unwrap_err().to_string().contains("there is no such file"));
        bad = config("tcp=forward,udp=forward,other=forward", &[]);
        assert!(check(&bad).unwrap_err().to_string().contains("3 services need at least 3 cores"));
    }
}
