//! The link behind the cores, made for a run.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::LinearCost;
use humpyard_core::link::{LinkSetup, OutputLink};
use humpyard_core::measure::{Measured, Measurements};
use humpyard_core::mechanism::Limits;
use humpyard_core::unit::WorkUnit;
use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
use humpyard_runtime::Overload;

use crate::LabError;
use crate::choice::host::{Clock, Host};
use crate::choice::link::LinkChoice;
use crate::choice::time::time;
use crate::config::RunConfig;
use crate::parts::ruled::Ruled;
use crate::parts::setup::{LONGEST_BYTES, lines};

/// The link of a run, over any policies.
pub(crate) type AnyLink = OutputLink<AnySteer, AnyShare, AnyAllocate>;

/// Makes the link of a run, if it has one; `cores` is the configuration of the scheduler of the cores.
pub fn link(config: &RunConfig, cores: &SchedulerConfig) -> Result<Option<(AnyLink, LinkChoice)>, LabError> {
    let Some(choice) = &config.link else { return Ok(None) };
    check_withholding(config)?;
    let lines = lines(config)?;
    let expansions: Vec<u32> = lines.iter().map(|found| (found.line.expansion() * 1e3).round() as u32).collect();
    // What waits for room has none dropped: there is as much more for what services make.
    let waits = config.host == Host::Live && config.overload() == Overload::Wait;
    let longest = expansions.iter().copied().max().unwrap_or(1000).max(1000);
    let setup = SchedulerConfig {
        flows: cores.flows,
        clients: cores.clients,
        packets: cores.packets * if waits { 2 } else { 1 },
        unit: WorkUnit::Bytes,
        longest: u64::from(LONGEST_BYTES) * u64::from(longest).div_ceil(1000),
        weights: Ruled::new(config)?.link_weights(config),
        estimates: vec![LinearCost::BYTES; cores.services.len()],
        services: cores.services.clone(),
        services_per_core: cores.services_per_core,
        ties: cores.ties,
        seed: cores.seed,
        limits: Limits::default().with_when_full(config.limits.when_full),
        rendezvous: cores.rendezvous,
        ..SchedulerConfig::default()
    };
    let scheduler = choice.share.build(&setup).map_err(|error| LabError::option(format!("@link: {error}")))?;
    if scheduler.quantum().is_some() {
        return Err(LabError::option(format!(
            "@link: a link sends each packet to its end: `{}` has a quantum",
            choice.share
        )));
    }
    let measurements = Measurements::new(&setup).with_warm_up(time(config.warm_up));
    let measured = Measured::new(scheduler, measurements);
    // Where services do their work in real time frames are as long as they are.
    let has_frames = config.host == Host::Live && config.clock == Clock::Real;
    let link = LinkSetup {
        rate_bps: choice.rate_bps,
        expansions: if has_frames { Vec::new() } else { expansions },
        chains: if has_frames { Vec::new() } else { cores.chains.clone() },
        withhold_above: choice.queue,
    };
    Ok(Some((OutputLink::new(link, measured, &setup), choice.clone())))
}

/// Rejects a link that withholds clients from policies without clients.
pub(crate) fn check_withholding(config: &RunConfig) -> Result<(), LabError> {
    match &config.link {
        Some(choice) if choice.queue.is_some() && !config.policy.shares() => Err(LabError::option(format!(
            "@link withholds clients from the cores, and `{}` serves packets in order of arrival, of any client: name a \
             sharing policy, hrw/efq for example, or use @link {}bit:queue=none",
            config.policy, choice.rate_bps
        ))),
        _ => Ok(()),
    }
}
