//! From options to a configuration.

use core::time::Duration;

use humpyard::lab::{Host, RunConfig, parse_duration};
use humpyard::policies::spec::PolicySpec;
use humpyard::policy::Ties;
use humpyard::random::Seed;

use crate::arguments::{CommonOptions, RunArguments, SimArguments, TiesOption};
use crate::caller;
use crate::failure::Failure;
use crate::options::Given;

/// Workers of a run, unless told otherwise.
const WORKERS: u16 = 2;

/// Returns the configuration that `humpyard run` is asked for.
pub(crate) fn run_configuration(arguments: &RunArguments) -> Result<RunConfig, Failure> {
    let RunArguments { policy, workers, options, common, .. } = arguments;
    let mut started = started(Host::Live, policy.parse()?, workers.unwrap_or(WORKERS), common);
    (started.drop_privileges, started.chooses_workers) = (true, workers.is_none());
    configured(started, options)
}

/// Returns the configuration that `humpyard sim` is asked for.
pub(crate) fn sim_configuration(arguments: &SimArguments) -> Result<RunConfig, Failure> {
    let SimArguments { policy, cores, options, common, .. } = arguments;
    configured(started(Host::Sim, policy.parse()?, *cores, common), options)
}

/// Returns the configuration of a run on this host, with these options.
pub(crate) fn configuration(
    host: Host,
    policy: PolicySpec,
    cores: u16,
    options: &Given,
    common: &CommonOptions,
) -> Result<RunConfig, Failure> {
    configured(started(host, policy, cores, common), options)
}

/// A run whose options are not applied yet.
fn started(host: Host, policy: PolicySpec, cores: u16, common: &CommonOptions) -> RunConfig {
    let mut config = RunConfig::new(host, "", policy);
    (config.cores, config.seed) = (usize::from(cores), Seed(common.seed));
    config.own_policies = caller::own_policies().policies;
    config.table = caller::caller().and_then(|caller| caller.table());
    config
}

fn configured(mut config: RunConfig, options: &Given) -> Result<RunConfig, Failure> {
    options.apply(&mut config)?;
    Ok(config)
}

pub(crate) fn ties(option: TiesOption) -> Ties {
    match option {
        TiesOption::Lowest => Ties::Lowest,
        TiesOption::Highest => Ties::Highest,
    }
}

/// Returns the time that an option takes.
pub(crate) fn duration(option: &str, text: &str) -> Result<Duration, Failure> {
    parse_duration(text).map_err(|error| Failure::new(format!("{option}: {error}")))
}
