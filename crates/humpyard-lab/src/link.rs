//! The link behind the cores, as it is said on the command line.

use humpyard_core::cost::LinearCost;
use humpyard_core::link::{LinkOutcome, LinkSetup, OutputLink};
use humpyard_core::measure::{Delay, Measured, Measurements};
use humpyard_core::mechanism::{DropReason, Limits, Options};
use humpyard_core::policy::Setup;
use humpyard_core::unit::WorkUnit;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_policies::spec::PolicySpec;
use humpyard_runtime::Overload;
use serde::Serialize;
use std::collections::BTreeMap;

use crate::LabError;
use crate::admit::parse_bit_rate;
use crate::config::{Clock, Host, RunConfig};
use crate::rule::Ruled;
use crate::run::overload;

/// The link of a run, over any policies.
pub(crate) type AnyLink = OutputLink<AnySteer, AnyShare, AnyAllocate>;

/// The link behind the cores.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkChoice {
    /// Bits per second.
    pub rate_bps: u64,
    /// How it is shared: a sharing policy.
    pub share: PolicySpec,
    /// Most packets of a client that wait there before it is withheld from the cores; none never withholds.
    pub queue: Option<u32>,
}

/// Packets of a client that may wait at the link, unless told otherwise.
pub(crate) const QUEUE: u32 = 64;

/// `1Gbit`, `1Gbit:share=drr:quantum=3000`, `1Gbit:queue=16,share=drr`: what comes after `share=` is all of it the policy.
///
/// # Errors
/// Anything else.
pub fn parse_link(text: &str) -> Result<LinkChoice, LabError> {
    let refuse = |said: String| Err(LabError::option(format!("--link: {said}")));
    let (rate, rest) = text.split_once(':').unwrap_or((text, ""));
    let Some(rate_bps) = parse_bit_rate(rate).filter(|rate| *rate <= 1e13) else {
        return refuse(format!("a link has bits per second from 1 to 1e13, 1Gbit for example, not `{rate}`"));
    };
    let (rest, share) = match rest.split_once("share=") {
        Some((rest, share)) => (rest, share),
        None => (rest, "wf2q+"),
    };
    let share: PolicySpec = share.parse().map_err(|error| LabError::option(format!("--link: {error}")))?;
    if !share.is_share_alone() {
        return refuse(format!("a link has one sender, which a sharing policy shares; `{share}` is none"));
    }
    let mut queue = None;
    for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
        let given = match pair.split_once('=') {
            Some(("queue", "none")) => None,
            Some(("queue", packets)) => match packets.parse() {
                Ok(packets) if packets > 0 => Some(packets),
                _ => return refuse(format!("`queue` takes packets from 1, or none, not `{packets}`")),
            },
            _ => return refuse(format!("a link has RATE:queue=PACKETS,share=POLICY, not `{pair}`")),
        };
        if queue.replace(given).is_some() {
            return refuse("`queue` is given twice".to_owned());
        }
    }
    let queue = queue.unwrap_or(Some(QUEUE));
    Ok(LinkChoice { rate_bps: rate_bps.round() as u64, share, queue })
}

/// As [`parse_link`] reads it.
pub(crate) fn show_link(link: &LinkChoice) -> String {
    let queue = link.queue.map_or_else(|| "none".to_owned(), |packets| packets.to_string());
    format!("{}bit:queue={queue},share={}", link.rate_bps, link.share)
}

/// The link of a run, if it has one; `setup` and `options` are those of the cores.
pub(crate) fn link(
    config: &RunConfig,
    setup: &Setup<'_>,
    options: &Options,
) -> Result<Option<(AnyLink, LinkChoice)>, LabError> {
    let Some(choice) = &config.link else { return Ok(None) };
    check_withholding(config)?;
    let lines = crate::parts::lines(config)?;
    let expansions: Vec<u32> = lines.iter().map(|found| (found.line.expansion() * 1e3).round() as u32).collect();
    let estimates = vec![LinearCost::BYTES; setup.services.len()];
    // What waits for room has none dropped: there is as much more for what services make.
    let waits = config.host == Host::Live && overload(config) == Overload::Wait;
    let longest = expansions.iter().copied().max().unwrap_or(1000).max(1000);
    let weights = Ruled::new(config)?.link_weights(config);
    let setup = Setup {
        cores: 1,
        weights: &weights,
        packets: setup.packets * if waits { 2 } else { 1 },
        contexts: 1,
        speeds: &[],
        topology: None,
        unit: WorkUnit::Bytes,
        estimates: &estimates,
        longest: u64::from(crate::parts::LONGEST_BYTES) * u64::from(longest).div_ceil(1000),
        ..*setup
    };
    let limits = Limits { when_full: config.limits.when_full, ..Limits::default() };
    let scheduler = choice
        .share
        .build(&setup, Options { limits, ..Options::default() })
        .map_err(|error| LabError::option(format!("--link: {error}")))?;
    let measurements = Measurements::new(&setup).with_warm_up(crate::parts::time(config.warm_up));
    let measured = Measured::new(scheduler, measurements);
    // Where services do their work in real time frames are as long as they are.
    let has_frames = config.host == Host::Live && config.clock == Clock::Real;
    let link = LinkSetup {
        rate_bps: choice.rate_bps,
        expansions: if has_frames { Vec::new() } else { expansions },
        chains: if has_frames { Vec::new() } else { options.chains.clone() },
        withhold_above: choice.queue,
    };
    Ok(Some((OutputLink::new(link, measured, &setup), choice.clone())))
}

/// Refuses to withhold clients from policies that know none.
pub(crate) fn check_withholding(config: &RunConfig) -> Result<(), LabError> {
    match &config.link {
        Some(choice) if choice.queue.is_some() && !config.policy.shares() => Err(LabError::option(format!(
            "--link withholds clients from the cores, and `{}` serves packets in order of arrival, whoever sent them: name a \
             sharing policy, hrw/efq for example, or have --link {}bit:queue=none",
            config.policy, choice.rate_bps
        ))),
        _ => Ok(()),
    }
}

/// What came of the link behind the cores. `in = sent + held + sum(dropped)`.
#[derive(Clone, Debug, Serialize)]
pub struct LinkResult {
    /// Bits per second.
    pub rate_bps: u64,
    /// Its sharing policy.
    pub policy: String,
    /// Packets that came there from the cores.
    #[serde(rename = "in")]
    pub arrived: u64,
    /// Packets that left.
    pub sent: u64,
    /// Packets that were still there at the end.
    pub held: u64,
    /// Packets dropped there, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Bytes that left.
    pub bytes: u64,
    /// The part of the time in which it was sending.
    pub utilization: f64,
    /// From being done at the cores to having left.
    pub delay_ns: Delay,
    /// From coming in to having left.
    pub in_all_ns: Delay,
    /// The same by service, the last of its chain; those that had packets.
    pub services: BTreeMap<String, Delay>,
    /// Most packets of one client that waited there.
    pub queue_max: u32,
    /// How often a client was withheld from the cores.
    pub withheld: u64,
}

impl LinkResult {
    /// What came of the link of a run, if it had one.
    pub(crate) fn found(choice: Option<&LinkChoice>, outcome: Option<&LinkOutcome>) -> Option<Self> {
        choice.zip(outcome).map(|(choice, outcome)| Self::of(choice, outcome))
    }

    fn of(choice: &LinkChoice, outcome: &LinkOutcome) -> Self {
        let (account, summary) = (&outcome.account, &outcome.summary);
        let dropped = DropReason::ALL.into_iter().map(|reason| (reason.name(), account.dropped(reason)));
        Self {
            rate_bps: choice.rate_bps,
            policy: choice.share.to_string(),
            arrived: account.arrived,
            sent: account.processed,
            held: account.held,
            dropped: dropped.filter(|&(_, count)| count > 0).collect(),
            bytes: summary.bytes,
            utilization: summary.cores_detail.first().map_or(0.0, |core| core.utilization),
            delay_ns: summary.delay_ns,
            in_all_ns: Delay::of(&outcome.in_all),
            services: summary
                .services
                .iter()
                .zip(outcome.in_all_of.iter())
                .filter(|(_, delay)| delay.count() > 0)
                .map(|(service, delay)| (service.name.clone(), Delay::of(delay)))
                .collect(),
            queue_max: outcome.waiting_max,
            withheld: outcome.withheld,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_read_back_as_shown() {
        let link = parse_link("1Gbit").unwrap();
        assert_eq!((link.rate_bps, link.queue, link.share.to_string().as_str()), (1_000_000_000, Some(QUEUE), "wf2q+"));
        let link = parse_link("2.5M:queue=none,share=drr:quantum=3000,surplus=true").unwrap();
        assert_eq!((link.rate_bps, link.queue), (2_500_000, None));
        assert_eq!(parse_link(&show_link(&link)).unwrap(), link);
    }

    #[test]
    fn slips_are_told() {
        for (text, said) in [
            ("fast", "--link: a link has bits per second from 1 to 1e13, 1Gbit for example, not `fast`"),
            ("1G:share=dr", "did you mean `drr`?"),
            ("1G:share=hrw", "which a sharing policy shares; `hrw` is none"),
            ("1G:queue=0,share=drr", "`queue` takes packets from 1, or none, not `0`"),
            ("1G:queue=none,queue=8", "--link: `queue` is given twice"),
            ("1G:queues=3", "a link has RATE:queue=PACKETS,share=POLICY, not `queues=3`"),
        ] {
            let error = parse_link(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
