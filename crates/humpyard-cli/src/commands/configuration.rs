//! From options to a configuration.

use core::ops::RangeInclusive;
use core::time::Duration;

use humpyard::lab::timeline::TimelineChoice;
use humpyard::lab::{
    Clock, Host, LabError, Rate, RunConfig, ServiceChoice, parse_duration, parse_link, parse_order, parse_share,
    parse_split,
};
use humpyard::mechanism::{Limits, WhenFull};
use humpyard::policies::spec::PolicySpec;
use humpyard::policy::Ties;
use humpyard::random::Seed;
use humpyard::runtime::Overload;
use humpyard::traffic::rule::parse_local;
use humpyard::traffic::source::is_interface;
use humpyard::unit::{Weight, WorkUnit};

use crate::arguments::{
    ClockOption, LiveOptions, OverloadOption, TiesOption, TimelineOptions, TrafficOptions, Unit, WhenFullOption,
};
use crate::commands::costs::{costs, works};
use crate::failure::Failure;

/// The configuration of a run on this host.
pub(crate) fn configuration(
    host: Host,
    policy: PolicySpec,
    cores: u16,
    options: &TrafficOptions,
) -> Result<RunConfig, Failure> {
    let (first, more) =
        options.input.split_first().ok_or_else(|| Failure::new("--input names where packets come from"))?;
    let mut config = RunConfig::new(host, first, policy);
    config.more_inputs = more.to_vec();
    config.cores = usize::from(cores);
    config.rounds = options.rounds;
    config.packets = options.packets;
    config.rate = rate(options)?.unwrap_or(config.rate);
    config.topology = options
        .topology
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|error: LabError| Failure::new(format!("--topology: {error}")))?;
    let row = match options.services.as_slice() {
        [text] => ServiceChoice::parse_row(text)?,
        _ => None,
    };
    let in_a_row = row.is_some();
    if let Some(row) = row {
        config.services = row;
    } else if !options.services.is_empty() {
        let services = options.services.iter().map(|text| ServiceChoice::parse_list(text));
        config.services = services.collect::<Result<Vec<_>, _>>()?.concat();
    } else if options.input.iter().any(|input| is_interface(input)) {
        config.services = vec![ServiceChoice::pass()];
    }
    config.rules = options.rule.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    config.local = options.local.as_deref().map(parse_local).transpose()?.unwrap_or_default();
    if let Some(text) = &options.costs {
        config.costs = costs(text, works(&config.services))?;
    }
    config.tolerances = by_service("--tolerance", &options.tolerance, |text| time_of_service("--tolerance", text))?;
    config.switch_costs =
        by_service("--switch-cost", &options.switch_cost, |text| time_of_service("--switch-cost", text))?;
    config.guarantees = by_service("--guarantee", &options.guarantee, guarantee)?;
    config.clients = options.clients.as_deref().map(str::parse).transpose()?;
    config.weights = options.weights.as_deref().map_or(Ok(Vec::new()), weights)?;
    config.unit = match options.unit {
        Unit::Ns => WorkUnit::Nanoseconds,
        Unit::Bytes => WorkUnit::Bytes,
        Unit::Packets => WorkUnit::Packets,
    };
    config.flow_order = parse_order(&options.flow_order)?;
    config.buffer = options.buffer as usize;
    config.limits = Limits {
        queue: options.queue_limit.unwrap_or(u32::MAX),
        client: options.client_limit.unwrap_or(u32::MAX),
        when_full: match options.when_full {
            WhenFullOption::Tail => WhenFull::Tail,
            WhenFullOption::LongestQueue => WhenFull::LongestQueue,
        },
    };
    config.contexts = usize::from(options.contexts);
    config.services_per_core = usize::from(options.services_per_core);
    config.speeds = options.speeds.as_deref().map_or(Ok(Vec::new()), speeds)?;
    config.stall = duration("--stall", &options.stall)?;
    config.link = options.link.as_deref().map(parse_link).transpose()?;
    config.chains = by_service("--chain", &options.chain, chain)?;
    if let Some((first, then)) = config.services.split_first().filter(|_| in_a_row && config.chains.is_empty()) {
        config.chains.push((first.name.clone(), then.iter().map(|service| service.name.clone()).collect()));
    }
    config.split = options.split.as_deref().map(parse_split).transpose()?;
    config.swaps = options.swap.iter().map(|text| swap(text)).collect::<Result<_, _>>()?;
    config.flows = options.flows as usize;
    config.flow_timeout = options.flow_timeout.as_deref().map(|text| duration("--flow-timeout", text)).transpose()?;
    config.tunnels = options.inner.parse()?;
    config.warm_up = duration("--warmup", &options.warmup)?;
    config.ties = ties(options.ties);
    config.seed = Seed(options.common.seed);
    Ok(config)
}

/// The configuration of a live run.
pub(crate) fn live_configuration(
    policy: PolicySpec,
    workers: u16,
    traffic: &TrafficOptions,
    live: &LiveOptions,
) -> Result<RunConfig, Failure> {
    let mut config = configuration(Host::Live, policy, workers, traffic)?;
    if let Some(ClockOption::Virtual) = live.clock {
        config.clock = Clock::Virtual;
        // As in the simulator.
        if live.hand_over.is_none() {
            config.in_flight = 1;
        }
        config.rate = rate(traffic)?.unwrap_or(Rate::Trace);
    }
    config.in_flight = live.in_flight.unwrap_or(config.in_flight);
    config.hand_over = live.hand_over.as_deref().map(|text| duration("--hand-over", text)).transpose()?;
    config.overload = live.overload.map(|overload| match overload {
        OverloadOption::Wait => Overload::Wait,
        OverloadOption::Drop => Overload::Drop,
    });
    config.longest = live.longest.as_deref().map(|text| duration("--for", text)).transpose()?;
    Ok(config)
}

/// The timeline of a run, if one is asked for.
pub(crate) fn timeline(options: &TimelineOptions) -> Result<Option<TimelineChoice>, Failure> {
    let Some(path) = &options.timeline else { return Ok(None) };
    if path == "-" {
        return Err(Failure::new("--timeline takes the name of a file, run.perfetto-trace for example, not `-`"));
    }
    let longest = options.timeline_for.as_deref().map(|text| duration("--timeline-for", text)).transpose()?;
    Ok(Some(TimelineChoice { path: path.clone(), packets: options.timeline_packets, longest }))
}

pub(crate) fn ties(option: TiesOption) -> Ties {
    match option {
        TiesOption::Lowest => Ties::Lowest,
        TiesOption::Highest => Ties::Highest,
    }
}

/// When packets arrive, if that is asked for.
fn rate(options: &TrafficOptions) -> Result<Option<Rate>, Failure> {
    if let Some(load) = options.load {
        let of = options.of.map(usize::from);
        return Ok(Some(Rate::Load { load: within("--load", load, &LOADS, "0.9")?, of }));
    }
    if options.of.is_some() {
        return Err(Failure::new("--of says of how many cores --load is: give --load, too, or leave out --of"));
    }
    if let Some(multiplier) = options.multiplier {
        return Ok(Some(Rate::Multiplied(within("--multiplier", multiplier, &MULTIPLIERS, "2.5")?)));
    }
    Ok(options.rate.as_deref().map(str::parse).transpose()?)
}

/// Parts of what the cores can do: with less, a packet would have to wait for years.
const LOADS: RangeInclusive<f64> = 1e-6..=1000.0;
/// Times faster than captured.
const MULTIPLIERS: RangeInclusive<f64> = 1e-6..=1e9;

/// Returns the number that an option takes; rejects one beyond the range.
fn within(option: &str, number: f64, range: &RangeInclusive<f64>, example: &str) -> Result<f64, Failure> {
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    Err(Failure::new(format!("{option} takes a number from {least} to {most}, {example} for example, not {number:?}")))
}

/// Numbers above 0, separated by commas, in thousandths.
pub(super) fn speeds(text: &str) -> Result<Vec<u32>, Failure> {
    let permille = |part: &str| part.trim().parse::<f64>().ok().map(|speed| (speed * 1000.0).round());
    let parsed = text.split(',').map(|part| match permille(part) {
        Some(speed) if (1.0..=1e6).contains(&speed) => Ok(speed as u32),
        _ => Err(Failure::new(format!(
            "--speeds takes numbers from 0.001 to 1000, separated by commas, 1,1,0.5 for example; not `{}`",
            part.trim()
        ))),
    });
    parsed.collect()
}

/// What an option says of services, each of which it may name once; of all others, without a name, likewise.
pub(super) fn by_service<T>(
    option: &str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<(String, T), Failure>,
) -> Result<Vec<(String, T)>, Failure> {
    let mut given: Vec<(String, T)> = Vec::with_capacity(texts.len());
    for text in texts {
        let (service, value) = parse(text)?;
        if given.iter().any(|(other, _)| *other == service) {
            let what = if service.is_empty() { "what holds for all others".to_owned() } else { format!("`{service}`") };
            return Err(Failure::new(format!("{option} `{text}`: {what} is given twice: give it once")));
        }
        given.push((service, value));
    }
    Ok(given)
}

/// `SERVICE=NEXT+NEXT`.
fn chain(text: &str) -> Result<(String, Vec<String>), Failure> {
    let (first, then) =
        text.split_once('=').filter(|(first, then)| !first.is_empty() && !then.is_empty()).ok_or_else(|| {
            Failure::new(format!("--chain takes a service and those after it, tcp=udp+other for example; not `{text}`"))
        })?;
    Ok((first.to_owned(), then.split('+').map(str::to_owned).collect()))
}

/// `TIME=SPEC`.
fn swap(text: &str) -> Result<(Duration, PolicySpec), Failure> {
    let (at, policy) = text
        .split_once('=')
        .ok_or_else(|| Failure::new(format!("--swap takes a time and policies, 2s=drr for example; not `{text}`")))?;
    Ok((duration("--swap", at)?, policy.parse()?))
}

/// Whole numbers from 1, separated by commas.
pub(crate) fn weights(text: &str) -> Result<Vec<Weight>, Failure> {
    let weight = |part: &str| part.trim().parse().ok().and_then(Weight::new);
    let parsed = text.split(',').map(|part| {
        weight(part).ok_or_else(|| {
            Failure::new(format!(
                "--weights takes whole numbers from 1 to {}, separated by commas, not `{}`",
                u32::MAX,
                part.trim()
            ))
        })
    });
    parsed.collect()
}

/// A time that an option gives a service, or, without a name, all others.
fn time_of_service(option: &str, text: &str) -> Result<(String, Duration), Failure> {
    match text.split_once('=') {
        Some(("", _)) => Err(Failure::new(format!("{option} reads TIME or SERVICE=TIME, not `{text}`"))),
        Some((service, time)) => Ok((service.to_owned(), duration(option, time)?)),
        None => Ok((String::new(), duration(option, text)?)),
    }
}

/// The time that an option takes.
pub(crate) fn duration(option: &str, text: &str) -> Result<Duration, Failure> {
    parse_duration(text).map_err(|error| Failure::new(format!("{option}: {error}")))
}

fn guarantee(text: &str) -> Result<(String, u32), Failure> {
    match text.split_once('=').map(|(service, text)| (service, parse_share(text))) {
        Some((service, Some(share))) => Ok((service.to_owned(), share)),
        _ => Err(Failure::new(format!("--guarantee reads SERVICE=SHARE with a share from 0 to 1, not `{text}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused_in_words() {
        let said = weights("3,0").unwrap_err().to_string();
        assert_eq!(said, "--weights takes whole numbers from 1 to 4294967295, separated by commas, not `0`");
        let said = guarantee("tcp=2").unwrap_err().to_string();
        assert_eq!(said, "--guarantee reads SERVICE=SHARE with a share from 0 to 1, not `tcp=2`");
    }
}
