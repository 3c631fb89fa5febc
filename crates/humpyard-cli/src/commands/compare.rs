//! `compare`: several policies on identical arrivals.

use std::process::ExitCode;

use humpyard::lab::{self, Control, Host, RunConfig, RunResult};
use humpyard::policies::spec::PolicySpec;

use crate::arguments::{CompareArguments, LiveOptions};
use crate::commands::configuration::{configuration, live_configuration};
use crate::commands::costs::measure_for;
use crate::commands::findings;
use crate::commands::page::Page;
use crate::commands::run::{verdict, warn, warn_after};
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use crate::stop;

/// What `humpyard compare` is asked for: the policies, and the rest with the first of them.
pub(crate) fn compare_configuration(arguments: &CompareArguments) -> Result<(RunConfig, Vec<PolicySpec>), Failure> {
    let policies = arguments.policy.iter().map(|text| text.parse()).collect::<Result<Vec<PolicySpec>, _>>()?;
    let config = if arguments.live {
        live_configuration(policies[0].clone(), arguments.workers, &arguments.traffic, &arguments.live_options)?
    } else {
        let LiveOptions { clock, in_flight, hand_over, overload, longest } = &arguments.live_options;
        let given = [clock.is_some(), in_flight.is_some(), hand_over.is_some(), overload.is_some(), longest.is_some()];
        if given.contains(&true) {
            return Err(Failure::new(
                "--clock, --in-flight, --hand-over, --overload and --for are of live runs: add --live",
            ));
        }
        configuration(Host::Sim, policies[0].clone(), arguments.cores, &arguments.traffic)?
    };
    Ok((config, policies))
}

/// `humpyard compare`.
pub(crate) fn compare(arguments: &CompareArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.traffic.common;
    let (mut config, policies) = compare_configuration(arguments)?;
    measure_for(&mut config, common.quiet)?;
    let page = Page::create(arguments.report.as_deref())?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("", common.quiet);
    let mut show = |packets, part| progress.update(packets, part);
    let mut control = Control::new(&stop, &mut show);
    let repeat = arguments.repeat;
    let starting = |policy: &PolicySpec, repetition: u32| match repeat {
        1 => progress.relabel(&policy.to_string()),
        _ => progress.relabel(&format!("{policy} ({repetition} of {repeat})")),
    };
    let comparison = lab::compare(&config, &policies, repeat, &mut control, starting)?;
    drop(progress);
    let ended = comparison.runs.iter().any(|run| run.interrupted);
    let comparison = comparison.whole(policies.len());
    if ended && comparison.runs.is_empty() {
        return Err(Failure::new("interrupted before a run was whole: there is nothing to compare"));
    }
    page.write("A comparison of scheduling policies", "", &comparison)?;
    if common.json {
        output::print_json(&comparison)?;
    } else {
        output::tell(&findings::comparison(&comparison))?;
    }
    if !common.json {
        if policies.len() == 1 {
            warn(&config);
        }
        if let Some(first) = comparison.runs.first() {
            warn_after(&config, first);
        }
    }
    let verdict = verdict(&comparison.runs.iter().collect::<Vec<&RunResult>>());
    if ended {
        let (whole, planned) = (comparison.runs.len(), policies.len() * comparison.repetitions as usize);
        return Err(Failure::new(format!("interrupted after {whole} of {planned} runs: these are kept")));
    }
    Ok(verdict)
}
