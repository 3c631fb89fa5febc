//! `validate`: is the simulator true?

use std::process::ExitCode;
use std::thread;

use humpyard::lab::validate::{PolicyValidation, ValidateOptions, Validation, signed, validate as hold};
use humpyard::lab::{AUTO, Clock, Control, Host, cost_sources};
use humpyard::policies::spec::PolicySpec;

use crate::arguments::ValidateArguments;
use crate::commands::configuration::configuration;
use crate::commands::costs::{costs, measure_for, works};
use crate::commands::page::Page;
use crate::failure::Failure;
use crate::figures::{packet_rate, percent, time};
use crate::layout::Sheet;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::stop;

/// The policies that are validated unless others are named: one of each family of layouts that every traffic takes.
const USUAL: [&str; 4] = ["hrw", "rr", "fcfs", "drr"];

/// Instead of costs: the lines through what the live run took.
const FITTED: &str = "fitted";

/// `humpyard validate`.
pub(crate) fn validate(arguments: &ValidateArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    let mut options = options(arguments)?;
    measure_for(&mut options.config, common.quiet)?;
    let page = Page::create(arguments.report.as_deref())?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("validate", common.quiet);
    let mut show = |packets, part| progress.update(packets, part);
    let mut control = Control::new(&stop, &mut show);
    let validation = hold(&options, &mut control, |what| progress.relabel(what))?;
    drop(progress);
    page.write_html(|command| validation.html(command))?;
    Output::of(&common.output).answer(&validation, || text(&validation))?;
    for shortfall in &validation.shortfalls {
        output::say(&format!("humpyard: {shortfall}"));
    }
    Ok(ExitCode::from(u8::from(!validation.shortfalls.is_empty())))
}

fn options(arguments: &ValidateArguments) -> Result<ValidateOptions, Failure> {
    let named: Vec<&str> = arguments.policy.iter().map(String::as_str).collect();
    let texts: &[&str] = if named.is_empty() { &USUAL } else { &named };
    let policies = texts.iter().map(|text| text.parse()).collect::<Result<Vec<PolicySpec>, _>>()?;
    let workers = arguments.workers.unwrap_or_else(usual_workers);
    let costs_given = arguments.options.one("costs").map(String::as_str);
    let fitted = costs_given == Some(FITTED);
    let given = if fitted { &arguments.options.without("costs") } else { &*arguments.options };
    let mut config = configuration(Host::Live, policies[0].clone(), workers, given, &arguments.common)?;
    if costs_given.is_none() {
        config.costs = costs(AUTO, works(&config.services))?;
    }
    debug_assert_eq!(config.clock, Clock::Real);
    if !config.swaps.is_empty() {
        return Err(Failure::new("--swap makes another policy take over on the way: validate each by itself"));
    }
    Ok(ValidateOptions { config, policies, by_costs: !fitted })
}

/// As many as there are processors beside the dispatcher's.
fn usual_workers() -> u16 {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    u16::try_from(processors.saturating_sub(1)).unwrap_or(u16::MAX).clamp(1, 1024)
}

fn text(validation: &Validation) -> String {
    let offered = validation.offered_pps.map_or(String::new(), |rate| format!(", {} offered", packet_rate(rate)));
    let input = format!("{}, workers: {}{offered}.\n", validation.input, validation.workers);
    let mut lines = vec![format!("{}\n", validation.finding), input];
    lines.extend(validation.policies.iter().map(policy));
    lines.join("\n") + "\n"
}

fn policy(one: &PolicyValidation) -> String {
    let mut rows = Sheet::of_figures(&[&one.policy, "live", "as measured", "error", "by line", "error", "aim", ""]);
    for figure in &one.figures {
        let shown = |value: f64| match figure.figure {
            "throughput" => packet_rate(value),
            "p50" | "p90" | "p99" => time(value),
            _ => percent(value),
        };
        let verdict = match (figure.aim, figure.holds) {
            (None, _) => "",
            (Some(_), true) => "kept",
            (Some(_), false) => "MISSED",
        };
        rows.add_row([
            figure.figure.to_owned(),
            shown(figure.live),
            shown(figure.replayed),
            signed(figure.replayed_error),
            shown(figure.by_line),
            signed(figure.by_line_error),
            figure.aim.map_or_else(String::new, percent),
            verdict.to_owned(),
        ]);
    }
    let lines = one.line.iter().map(|line| {
        format!(
            "{}: {} and {:.3} ns a byte, {} more on a cold core",
            line.service,
            time(line.fixed_ns as f64),
            line.per_byte_ns,
            time(line.cold_ns as f64)
        )
    });
    let lines = lines.collect::<Vec<_>>().join("; ");
    let taken = percent(one.taken_part);
    let source = cost_sources(&one.line);
    let mut said = vec![rows.to_string(), format!("Lines: {lines} ({source}); interrupted for {taken} of the time.")];
    if !one.lacking.is_empty() {
        said.push(format!("The model lacks: {}.", one.lacking.join("; ")));
    }
    said.join("\n") + "\n"
}
