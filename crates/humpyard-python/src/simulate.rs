//! Runs of the laboratory: in virtual time, and on real threads.

use std::collections::BTreeMap;

use ::humpyard::lab::option::{RunCommand, Times};
use ::humpyard::lab::record::PacketRecorder;
use ::humpyard::lab::{
    self, AssumedHost, Comparison, Control, Host, LabError, OPTIONS, RunConfig, RunResult, calibrate,
};
use ::humpyard::name::unknown;
use ::humpyard::policies::spec::PolicySpec;
use ::humpyard::random::Seed;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;

use crate::frames::{Record, table_of};
use crate::packets::packets;
use crate::policy::{own_policies, policy_spec};
use crate::supervise::{Watch, supervised};

/// The option that is no keyword, but the first argument.
const INPUT: &str = "input";

/// Options by name, with the texts that a command line would have, and the policies written in Python that they name.
pub(crate) type Given<'py> = (Vec<(String, Vec<String>)>, Vec<Bound<'py, PyAny>>);

/// What a run came to: its document as JSON, the record of its packets, and warnings.
type Answer = (String, Option<Record>, Vec<String>);

/// One run.
#[pyfunction]
#[pyo3(signature = (policy, cores, seed, options, table, is_live, record, progress))]
#[expect(clippy::too_many_arguments, reason = "they are one call of the Python functions, which name them")]
pub(crate) fn run(
    py: Python<'_>,
    policy: &Bound<'_, PyAny>,
    cores: usize,
    seed: u64,
    options: Given<'_>,
    table: Option<&Bound<'_, PyAny>>,
    is_live: bool,
    record: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Answer> {
    let command = if is_live { RunCommand::Run } else { RunCommand::Sim };
    let mut config = configured(command, &parsed(policy)?, cores, seed, options, table)?;
    if record && config.timeline.is_some() {
        return Err(PyValueError::new_err("timeline and record: a run has one of them: leave one out"));
    }
    let recorder = record.then(|| {
        PacketRecorder::new(!config.chains.is_empty() || config.rules.iter().any(|rule| rule.chain.is_some()))
    });
    let (result, config) = supervised(py, progress, |watch| {
        measured(&mut config, watch)?;
        let mut show = |packets, part| watch.see(packets, part, "packets");
        let mut control = Control::new(watch.stop(), &mut show);
        control.observer = recorder.clone().map(|recorder| Box::new(recorder) as _);
        lab::run(&config, &mut control).map(|result| (result, config))
    })?
    .map_err(error)?;
    check(&result)?;
    let services = config.services.iter().map(|choice| choice.name.clone()).collect();
    let record = recorder.map(|recorder| Record::new(recorder.take(), services)).transpose()?;
    Ok((document(&result)?, record, remarks(&config, &result)))
}

/// Several policies on identical arrivals.
#[pyfunction]
#[pyo3(signature = (policies, cores, seed, repeat, options, table, is_live, progress))]
#[expect(clippy::too_many_arguments, reason = "they are one call of the Python function, which names them")]
pub(crate) fn compare(
    py: Python<'_>,
    policies: Vec<Bound<'_, PyAny>>,
    cores: usize,
    seed: u64,
    repeat: u32,
    options: Given<'_>,
    table: Option<&Bound<'_, PyAny>>,
    is_live: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Answer> {
    let (mut config, policies) = compared(&policies, cores, seed, options, table)?;
    config.host = if is_live { Host::Live } else { Host::Sim };
    let (comparison, config) = supervised(py, progress, |watch| {
        measured(&mut config, watch)?;
        let current = core::cell::RefCell::new(String::new());
        let mut show = |packets, part| watch.see(packets, part, &current.borrow());
        let mut control = Control::new(watch.stop(), &mut show);
        let starting = |policy: &PolicySpec, repetition: u32| {
            *current.borrow_mut() = format!("{policy} ({repetition} of {repeat})")
        };
        lab::compare(&config, &policies, repeat, &mut control, starting).map(|comparison| (comparison, config))
    })?
    .map_err(error)?;
    let comparison: Comparison = comparison;
    comparison.runs.iter().try_for_each(check)?;
    let remarks = comparison.runs.first().map_or_else(Vec::new, |run| remarks(&config, run));
    Ok((document(&comparison)?, None, remarks))
}

/// The configuration of a comparison, with the first of its policies, and all of them.
pub(crate) fn compared(
    policies: &[Bound<'_, PyAny>],
    cores: usize,
    seed: u64,
    options: Given<'_>,
    table: Option<&Bound<'_, PyAny>>,
) -> PyResult<(RunConfig, Vec<PolicySpec>)> {
    let policies = policies.iter().map(parsed).collect::<PyResult<Vec<_>>>()?;
    let Some(first) = policies.first() else {
        return Err(PyValueError::new_err("policies: there are none: name two or more to be compared"));
    };
    Ok((configured(RunCommand::Compare, first, cores, seed, options, table)?, policies))
}

/// The policies that a text names, or that are written in Python.
fn parsed(policy: &Bound<'_, PyAny>) -> PyResult<PolicySpec> {
    let Ok(text) = policy.extract::<String>() else { return policy_spec(policy) };
    text.parse().map_err(|refused| PyValueError::new_err(format!("policy: {refused}")))
}

/// The configuration that options and a table describe.
fn configured(
    command: RunCommand,
    policy: &PolicySpec,
    cores: usize,
    seed: u64,
    options: Given<'_>,
    table: Option<&Bound<'_, PyAny>>,
) -> PyResult<RunConfig> {
    let host = if command == RunCommand::Run { Host::Live } else { Host::Sim };
    let mut config = RunConfig::new(host, "", policy.clone());
    (config.cores, config.seed) = (cores, Seed(seed));
    let (mut options, own) = options;
    config.own_policies = own_policies(&own)?;
    if let Some(table) = table {
        let packets = packets(&table_of(table)?)?;
        if !packets.services.is_empty() && !options.iter().any(|(name, _)| name == "services") {
            options.push(("services".to_owned(), packets.services.clone()));
        }
        let mut rules = packets.rules();
        match options.iter_mut().find(|(name, _)| name == "rule") {
            Some((_, given)) => given.splice(..0, rules).for_each(drop),
            None if rules.is_empty() => {}
            None => options.push(("rule".to_owned(), core::mem::take(&mut rules))),
        }
        config.table = Some(packets.table);
    }
    let known = || OPTIONS.iter().filter(|option| option.commands.contains(&command) && option.name != INPUT);
    if let Some((unknown_name, _)) = options.iter().find(|(name, _)| OPTIONS.iter().all(|option| option.name != name)) {
        let names: Vec<String> = known().map(|option| as_keyword(option.name)).collect();
        let said = unknown("option", &as_keyword(unknown_name), names.iter().map(String::as_str));
        return Err(PyValueError::new_err(said));
    }
    let texts: BTreeMap<&str, Vec<String>> =
        options.iter().map(|(name, texts)| (name.as_str(), joined(name, texts))).collect();
    if let Some(other) =
        OPTIONS.iter().find(|option| texts.contains_key(option.name) && !option.commands.contains(&command))
    {
        let of = if other.is_live_only() { "live runs" } else { "other commands" };
        return Err(PyValueError::new_err(format!("{} is an option of {of}: leave it out", as_keyword(other.name))));
    }
    for option in OPTIONS.iter().filter(|option| texts.contains_key(option.name)) {
        if let Some(other) = option.excludes.iter().find(|other| texts.contains_key(**other)) {
            return Err(PyValueError::new_err(format!(
                "{} and {} cannot both be given: leave one out",
                as_keyword(other),
                as_keyword(option.name)
            )));
        }
    }
    config.apply(&texts).map_err(error)?;
    Ok(config)
}

/// The texts of an option, as one if it is given once.
fn joined(name: &str, texts: &[String]) -> Vec<String> {
    let is_once = OPTIONS.iter().any(|option| option.name == name && option.times == Times::Once);
    if is_once && texts.len() > 1 { vec![texts.join(",")] } else { texts.to_vec() }
}

/// Measures what the configuration leaves to be measured: costs that are `auto`, and the host `here`.
fn measured(config: &mut RunConfig, watch: &Watch) -> Result<(), LabError> {
    if config.costs.is_auto() {
        // An error is reported now, not after a measurement of seconds.
        lab::check(config)?;
        config.costs.measure(watch.stop(), &mut |done, all, what| {
            watch.see(done as u64, Some(done as f64 / all as f64), what)
        })?;
    }
    if config.assumed.as_ref().is_some_and(AssumedHost::is_unmeasured) {
        lab::check(config)?;
        let mut show =
            |done: usize, all: usize, what: &str| watch.see(done as u64, Some(done as f64 / all as f64), what);
        let machine = calibrate::machine(config.seed, watch.stop(), &mut show)?;
        config.assumed = Some(AssumedHost::measured(machine));
    }
    Ok(())
}

/// What is asserted of every run: every packet is accounted for.
pub(crate) fn check(result: &RunResult) -> PyResult<()> {
    let is_accounted = result.packets.balance() && result.ports.agree(&result.packets) && result.unaccounted.is_none();
    if is_accounted {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!("a defect of humpyard: packets are unaccounted for: {:?}", result.packets)))
}

/// What there is to warn of.
pub(crate) fn remarks(config: &RunConfig, result: &RunResult) -> Vec<String> {
    let mut remarks = lab::without_effect(config);
    remarks.extend(lab::late_by_a_switch(config).unwrap_or_default());
    remarks.extend(lab::full_before_late(config).unwrap_or_default());
    remarks.extend(lab::came_to_nothing(config, result));
    remarks.extend(result.damage.as_ref().map(|damage| damage.message.clone()));
    remarks.iter().map(|remark| keywords(&lab::spelled(remark, MARK), MARK)).collect()
}

pub(crate) fn document(of: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(of).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// An error as Python knows it, with options named as keywords.
pub(crate) fn error(error: LabError) -> PyErr {
    let said = match &error {
        LabError::Option(of_option) => keywords(&of_option.spelled(MARK), MARK),
        other => other.to_string(),
    };
    PyValueError::new_err(said)
}

/// What no text has, before names of options.
const MARK: &str = "\u{1}";

/// Returns a text with names of options, each behind a mark, with the keywords of Python instead.
pub(crate) fn keywords(text: &str, mark: &str) -> String {
    let mut parts = text.split(mark);
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|next: char| !next.is_ascii_lowercase() && next != '-').unwrap_or(part.len());
        said.push_str(if end == 0 { mark } else { "" });
        said.push_str(&as_keyword(&part[..end]));
        said.push_str(&part[end..]);
    }
    said
}

/// Returns the keyword for an option. A word of Python has a `_` behind it.
pub(crate) fn as_keyword(option: &str) -> String {
    let keyword = option.replace('-', "_");
    if keyword == "for" { "for_".to_owned() } else { keyword }
}

/// The options of a command, each with its keyword and its help.
#[pyfunction]
pub(crate) fn options(command: &str) -> Vec<(String, String)> {
    let command = match command {
        "run" => RunCommand::Run,
        "compare" => RunCommand::Compare,
        _ => RunCommand::Sim,
    };
    let of_command = OPTIONS.iter().filter(|option| option.commands.contains(&command) && option.name != INPUT);
    of_command.map(|option| (as_keyword(option.name), keywords(&lab::spelled(option.help, MARK), MARK))).collect()
}
