//! `check`: whether a configuration file is good, and what it means.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use humpyard::lab::{self, Checked, RunConfig, spelled};
use serde::Serialize;

use crate::arguments::{Arguments, CheckArguments, Command, Configured};
use crate::commands::compare::compare_configuration;
use crate::commands::configuration::{run_configuration, sim_configuration};
use crate::commands::files::distinct;
use crate::commands::schema::schema;
use crate::configuration_file::{ConfigurationFile, with_required};
use crate::failure::Failure;
use crate::layout::Sheet;
use crate::output::{self, Output};

/// What a configuration file means, and what is odd about it.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    /// What is not in the file and must be given on the command line.
    missing: Vec<&'static str>,
    commands: Vec<Understood>,
}

/// What a configuration file means to one command.
#[derive(Debug, Serialize)]
struct Understood {
    command: &'static str,
    policies: Vec<String>,
    input: String,
    seed: u64,
    cores: usize,
    #[serde(flatten)]
    checked: Checked,
}

/// `humpyard check`.
pub(crate) fn check(arguments: &CheckArguments) -> Result<ExitCode, Failure> {
    let Some(path) = &arguments.file else {
        output::print_json(&schema())?;
        return Ok(ExitCode::SUCCESS);
    };
    let file = ConfigurationFile::read(path)?;
    let mut report = Report {
        file: path.clone(),
        missing: ["input", "policy"].into_iter().filter(|key| file.count(key) == 0).collect(),
        commands: Vec::new(),
    };
    let commands = if arguments.commands.is_empty() { commands_of(&file) } else { arguments.commands.clone() };
    let alone = commands.len() == 1;
    for command in commands {
        let typed: Vec<OsString> = vec!["humpyard".into(), command.name().into(), format!("--config={path}").into()];
        let understood = understand(&file, command, &typed);
        report.commands.push(understood.map_err(|failure| {
            let failure = file.blame(&typed, failure, &attempt);
            if alone {
                return failure;
            }
            Failure::new(format!("{failure} (for `{}`; --for COMMAND checks for one alone)", command.name()))
        })?);
    }
    Output::of(&arguments.common.output).answer(&report, || said(&report, &file))?;
    Ok(ExitCode::SUCCESS)
}

impl Configured {
    const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Sim => "sim",
            Self::Compare => "compare",
        }
    }
}

/// The commands that a file is meant for, as far as it says.
fn commands_of(file: &ConfigurationFile) -> Vec<Configured> {
    let has = |key| file.count(key) > 0;
    if file.count("policy") > 1 || has("live") {
        return vec![Configured::Compare];
    }
    match (has("workers"), has("cores")) {
        (true, false) => vec![Configured::Run],
        (false, true) => vec![Configured::Sim],
        _ => vec![Configured::Run, Configured::Sim],
    }
}

fn understand(file: &ConfigurationFile, command: Configured, typed: &[OsString]) -> Result<Understood, Failure> {
    let configs = configurations(with_required(&file.merged(typed, &|_| true)?))?;
    let mut checks = configs.iter().map(lab::check);
    let mut checked = checks.next().expect("there is a policy")?;
    for other in checks {
        let other = other?.warnings.into_iter();
        let new: Vec<String> = other.filter(|warning| !checked.warnings.contains(warning)).collect();
        checked.warnings.extend(new);
    }
    checked.warnings.iter_mut().for_each(|warning| *warning = spelled(warning, "--"));
    let first = &configs[0];
    Ok(Understood {
        command: command.name(),
        policies: configs.iter().map(|config| config.policy.to_string()).collect(),
        input: first.inputs().join(", "),
        seed: first.seed.0,
        cores: first.cores,
        checked,
    })
}

/// What a command line asks for: one configuration, or one for each policy that is compared.
fn configurations(merged: Vec<OsString>) -> Result<Vec<RunConfig>, Failure> {
    let parsed = Arguments::try_parse_from(merged).map_err(|error| Failure::usage(&error))?;
    distinct(&parsed.command)?;
    Ok(match &parsed.command {
        Command::Run(arguments) => vec![run_configuration(arguments)?],
        Command::Sim(arguments) => vec![sim_configuration(arguments)?],
        Command::Compare(arguments) => {
            let (config, policies) = compare_configuration(arguments)?;
            policies.into_iter().map(|policy| config.under(policy)).collect()
        }
        _ => Vec::new(),
    })
}

/// Says how a command line would fail before it runs.
pub(crate) fn attempt(merged: Vec<OsString>) -> Result<(), Failure> {
    configurations(merged)?.iter().try_for_each(|config| lab::check_here(config).map_err(Failure::from))
}

fn said(report: &Report, file: &ConfigurationFile) -> String {
    let mut text = String::new();
    if file.is_empty() {
        text.push_str(&format!("{}: there is nothing in it, so everything is as it is by default\n\n", report.file));
    }
    for understood in &report.commands {
        let given: Vec<String> = report.missing.iter().map(|key| format!("--{key}")).collect();
        let besides = match given.as_slice() {
            [] => String::new(),
            given => format!(" with {} on the command line", given.join(" and ")),
        };
        text.push_str(&format!("{}: good for `humpyard {}`{besides}\n\n", report.file, understood.command));
        text.push_str(&format!("{}\n", options_table(understood, report, file)));
        text.push_str(&format!("\nOrder of flows: {}.\n", understood.checked.order));
        text.push_str("\nWhat a packet of each service costs:\n\n");
        understood.checked.costs.iter().for_each(|cost| text.push_str(&format!("  {cost}\n")));
        text.push_str(&format!(
            "\nRules, in the order in which they are tried; the first that matches a packet decides:\n\n{}\n",
            rules_table(understood)
        ));
        for warning in &understood.checked.warnings {
            text.push_str(&format!("\nwarning: {warning}\n"));
        }
        for note in &understood.checked.notes {
            text.push_str(&format!("\nnote: {note}\n"));
        }
        text.push('\n');
    }
    text
}

fn options_table(understood: &Understood, report: &Report, file: &ConfigurationFile) -> Sheet {
    let mut table = Sheet::of_text(&["option", "value", "set by"]);
    let rules = understood.checked.options.get("rule").map_or("", String::as_str);
    let by_rule = |key: &str| matches!(key, "guarantee" | "tolerance") && rules.contains(&format!(",{key}="));
    let from = |key: &str| match file.line_of(key) {
        _ if report.missing.contains(&key) => "the command line".to_owned(),
        Some(line) => format!("line {line}"),
        None if by_rule(key) => "the rules".to_owned(),
        None => "default".to_owned(),
    };
    let given = |key: &str, value: &str| {
        if report.missing.contains(&key) { "(to be given)".to_owned() } else { value.to_owned() }
    };
    table.add_row(["input".to_owned(), given("input", &understood.input), from("input")]);
    table.add_row(["policy".to_owned(), given("policy", &understood.policies.join(", ")), from("policy")]);
    let cores = if understood.command == "run" { "workers" } else { "cores" };
    table.add_row([cores.to_owned(), understood.cores.to_string(), from(cores)]);
    table.add_row(["seed".to_owned(), understood.seed.to_string(), from("seed")]);
    for (key, value) in understood.checked.options.iter().filter(|(key, _)| **key != "rule") {
        let value = if value.is_empty() { "none".to_owned() } else { value.clone() };
        table.add_row([(*key).to_owned(), value, from(key)]);
    }
    table
}

fn rules_table(understood: &Understood) -> Sheet {
    let by_rule = understood.checked.options.get("clients").is_some_and(|clients| clients == "rule");
    let mut table = Sheet::of_text(if by_rule {
        &["packets that match", "service", "client", "remark"]
    } else {
        &["packets that match", "service", "remark"]
    });
    for rule in &understood.checked.rules {
        let mut row = vec![rule.packets.replace(',', ", "), rule.service.clone()];
        row.extend(by_rule.then(|| rule.client.clone()));
        row.push(if rule.reached { "" } else { "never reached" }.to_owned());
        table.add_row(row);
    }
    table
}
