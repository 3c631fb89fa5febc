//! `validate`: is the simulator true?

use std::process::ExitCode;
use std::thread;

use humpyard::lab::validate::{
    PolicyValidation, RUNS, SavedValidation, ValidateOptions, Validation, check, signed, validate as hold,
};
use humpyard::lab::{AUTO, AssumedHost, Clock, Control, Host};
use humpyard::policies::spec::PolicySpec;

use crate::arguments::ValidateArguments;
use crate::caller::named;
use crate::commands::configuration::configuration;
use crate::commands::costs::{costs, measure_for, measure_host, works};
use crate::commands::page::Page;
use crate::failure::Failure;
use crate::figures::{packet_rate, percent};
use crate::layout::Sheet;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::stop;

/// The policies that are validated unless others are named: one of each family of layouts that every traffic takes.
const USUAL: [&str; 4] = ["hrw", "rr", "fcfs", "drr"];

/// `humpyard validate`.
pub(crate) fn validate(arguments: &ValidateArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    let mut options = options(arguments)?;
    check(&options)?;
    if options.measures {
        measure_host(&mut options.config, common.quiet)?;
    } else {
        measure_for(&mut options.config, common.quiet)?;
    }
    let page = Page::create(arguments.report.as_deref())?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("validate", common.quiet);
    let mut show = |packets, part| progress.update(packets, part);
    let mut control = Control::new(&stop, &mut show);
    let validation = hold(&options, &mut control, |what| progress.relabel(what))?;
    drop(progress);
    page.write_html(|command| validation.html(command))?;
    Output::of(&common.output).answer(&validation, || text(&validation))?;
    for shortfall in validation.shortfalls.iter().chain(&validation.warnings) {
        output::say(&format!("humpyard: {shortfall}"));
    }
    let damage = validation.policies.iter().find_map(|policy| policy.damage.as_ref());
    if let Some(damage) = damage {
        output::say(&format!("humpyard: {damage}"));
    }
    Ok(ExitCode::from(u8::from(damage.is_some() || !validation.shortfalls.is_empty())))
}

fn options(arguments: &ValidateArguments) -> Result<ValidateOptions, Failure> {
    let given: Vec<&str> = arguments.policy.iter().map(String::as_str).collect();
    let texts: &[&str] = if given.is_empty() { &USUAL } else { &given };
    let policies = texts.iter().map(|text| named(text)).collect::<Result<Vec<PolicySpec>, _>>()?;
    let given = &*arguments.options;
    let dispatchers = given.one("dispatchers").and_then(|text| text.parse().ok()).unwrap_or(1);
    let workers = arguments.workers.unwrap_or_else(|| usual_workers_of(dispatchers));
    let mut config = configuration(Host::Live, policies[0].clone(), workers, given, &arguments.common)?;
    if given.one("costs").is_none() {
        config.costs = costs(AUTO, works(&config.services))?;
    }
    if given.one("host").is_none() {
        config.assumed = Some(AssumedHost::here()?);
    }
    debug_assert_eq!(config.clock, Clock::Real);
    if !config.swaps.is_empty() {
        return Err(Failure::new("--swap makes another policy take over on the way: validate each by itself"));
    }
    let against = arguments.against.as_deref().map(SavedValidation::read).transpose()?;
    Ok(ValidateOptions { config, policies, runs: RUNS, measures: given.one("costs").is_none(), against })
}

/// As many as there are processors beside the dispatcher's.
pub(crate) fn usual_workers() -> u16 {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(processors.saturating_sub(1)).unwrap_or(u16::MAX).clamp(1, 1024)
}

/// As many as there are processors beside those of the dispatchers and their reader, and at least one for each
/// dispatcher.
fn usual_workers_of(dispatchers: u16) -> u16 {
    match dispatchers {
        0 | 1 => usual_workers(),
        several => usual_workers().saturating_sub(several).max(several),
    }
}

fn text(validation: &Validation) -> String {
    let offered = validation.offered_pps.map_or(String::new(), |rate| format!(", {} offered", packet_rate(rate)));
    let several = match validation.dispatchers {
        0 | 1 => String::new(),
        several => format!(", dispatchers: {several}"),
    };
    let input = format!("{}, workers: {}{several}{offered}.\n", validation.input, validation.workers);
    let mut lines = vec![format!("{}\n", validation.finding), input];
    lines.extend(validation.policies.iter().map(policy));
    let host = validation.policies.first().and_then(|policy| policy.host.as_ref());
    let source = host.map_or(String::new(), |host| format!(" ({})", host.source));
    lines.push(format!(
        "Live: median of {} runs. Predicted: median of as many simulations on the host `{}`{source}.",
        validation.runs, validation.host
    ));
    lines.join("\n") + "\n"
}

fn policy(one: &PolicyValidation) -> String {
    let mut rows = Sheet::of_figures(&[&one.policy, "live", "between runs", "predicted", "error", "bound", ""]);
    for figure in &one.figures {
        rows.add_row([
            figure.figure.to_owned(),
            figure.shown(figure.live),
            percent(figure.spread),
            figure.shown(figure.predicted),
            signed(figure.error),
            percent(figure.bound),
            if figure.holds { "kept" } else { "MISSED" }.to_owned(),
        ]);
    }
    let lines: Vec<String> = one.costs.iter().map(ToString::to_string).collect();
    let decisions = one.decisions.as_ref().map_or(String::new(), |decisions| format!("\n{}", decisions.says()));
    format!("{rows}{decisions}\nCosts: {}.\n", lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dispatcher_has_a_worker() {
        assert_eq!(usual_workers_of(1), usual_workers());
        assert!((2..9).all(|several| usual_workers_of(several) >= several));
        // The processors of this machine, without a reader and as many dispatchers.
        let processors = thread::available_parallelism().map_or(1, usize::from) as u16;
        assert!(processors < 5 || usual_workers_of(2) == processors - 3);
    }
}
