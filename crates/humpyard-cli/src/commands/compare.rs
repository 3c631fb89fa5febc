//! `compare`: several policies on identical arrivals.

use std::process::ExitCode;

use humpyard::lab::{self, Control, Host, RunConfig, RunResult};
use humpyard::policies::spec::PolicySpec;

use crate::arguments::CompareArguments;
use crate::commands::configuration::configuration;
use crate::commands::costs::measure_for;
use crate::commands::findings;
use crate::commands::page::Page;
use crate::commands::run::{verdict, warn, warn_after};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Progress;
use crate::stop;

/// What `humpyard compare` is asked for: the policies, and the rest with the first of them.
pub(crate) fn compare_configuration(arguments: &CompareArguments) -> Result<(RunConfig, Vec<PolicySpec>), Failure> {
    let policies = arguments.policy.iter().map(|text| text.parse()).collect::<Result<Vec<PolicySpec>, _>>()?;
    let CompareArguments { options, common, .. } = arguments;
    let config = if arguments.live {
        configuration(Host::Live, policies[0].clone(), arguments.workers, options, common)?
    } else {
        if let Some(live) = options.options().find(|option| option.is_live_only()) {
            return Err(Failure::new(format!("--{} is for live runs: add --live", live.name)));
        }
        configuration(Host::Sim, policies[0].clone(), arguments.cores, options, common)?
    };
    Ok((config, policies))
}

/// `humpyard compare`.
pub(crate) fn compare(arguments: &CompareArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
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
    let output = Output::of(&common.output);
    output.answer(&comparison, || findings::comparison(&comparison))?;
    let offline = policies.iter().find(|policy| policies.len() > 1 && policy.is_offline());
    if let Some(offline) = offline {
        output.remark(&format!("warning: `{offline}` gets all packets at once: its delay and loss do not compare"));
    }
    if policies.len() == 1 {
        warn(output, &config);
    }
    if let Some(first) = comparison.runs.first() {
        warn_after(output, &config, first);
    }
    let verdict = verdict(&comparison.runs.iter().collect::<Vec<&RunResult>>());
    if ended {
        let (whole, planned) = (comparison.runs.len(), policies.len() * comparison.repetitions as usize);
        return Err(Failure::new(format!("interrupted after {whole} of {planned} runs: these are kept")));
    }
    Ok(verdict)
}
