//! `compare`: several policies on identical arrivals.

use std::process::ExitCode;

use humpyard::lab::{self, Control, Host, RunResult};
use humpyard::policies::spec::PolicySpec;

use crate::arguments::CompareArguments;
use crate::commands::configuration::{configuration, with_live};
use crate::commands::run::verdict;
use crate::commands::table;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::stop;

/// `humpyard compare`.
pub(crate) fn compare(arguments: &CompareArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.traffic.common;
    let policies = arguments.policy.iter().map(|text| text.parse()).collect::<Result<Vec<PolicySpec>, _>>()?;
    let config = if arguments.live {
        let config = configuration(Host::Live, policies[0].clone(), arguments.workers, &arguments.traffic)?;
        with_live(config, &arguments.live_options)?
    } else {
        configuration(Host::Sim, policies[0].clone(), arguments.cores, &arguments.traffic)?
    };
    let stop = stop::on_signal()?;
    let progress = Progress::new("", common.quiet);
    let mut control = Control { stop: &stop, progress: &mut |packets, part| progress.update(packets, part) };
    let starting = |policy: &PolicySpec| progress.relabel(&policy.to_string());
    let comparison = lab::compare(&config, &policies, &mut control, starting)?;
    drop(progress);
    if common.json {
        output::print_json(&comparison)?;
    } else {
        output::print(&format!("{}\n{}\n", table::side_by_side(&comparison.runs), table::LEGEND))?;
    }
    Ok(verdict(&comparison.runs.iter().collect::<Vec<&RunResult>>()))
}
