//! `list` and `explain`: what there is, from the registries.

use std::process::ExitCode;

use clap::CommandFactory;
use humpyard::cost::MovePenalties;
use humpyard::lab::map::NearBest;
use humpyard::lab::schema::{DOCUMENTS, Document};
use humpyard::lab::{CostLine, Costs, RuleChoice};
use humpyard::name::unknown_of_many;
use humpyard::papers::{self, About};
use humpyard::policies::registry;
use humpyard::policy::{CoreDistance, Entry, Parameter};
use humpyard::{services, traffic};
use serde_json::{Value, json};

use crate::arguments::{Arguments, ExplainArguments, ListArguments, Listed};
use crate::commands::keys;
use crate::failure::Failure;
use crate::layout::Sheet;
use crate::output::Output;

/// `humpyard list`.
pub(crate) fn list(arguments: &ListArguments) -> Result<ExitCode, Failure> {
    let entries = match arguments.what {
        Some(what) => listed(what)?,
        None => {
            use Listed::{Costs, Documents, Experiments, Policies, Profiles, Services};
            [Policies, Services, Profiles, Costs, Experiments, Documents]
                .map(listed)
                .into_iter()
                .collect::<Result<Vec<_>, _>>()?
                .concat()
        }
    };
    let text = || {
        let mut table = Sheet::of_text(&["name", "family", "summary"]);
        for entry in &entries {
            table.add_row(["name", "family", "summary"].map(|key| entry[key].as_str().unwrap_or_default().to_owned()));
        }
        let more = if matches!(arguments.what, Some(Listed::Costs)) { COST_FILES } else { "" };
        format!("{table}\n{more}")
    };
    Output::of(&arguments.common.output).answer(&entries, text)?;
    Ok(ExitCode::SUCCESS)
}

/// The entries of one kind.
fn listed(what: Listed) -> Result<Vec<Value>, Failure> {
    Ok(match what {
        Listed::Policies => policies()?,
        Listed::Services => values(&services::entries())?,
        Listed::Experiments => experiments()?,
        Listed::Profiles => values(&traffic::generate::entries())?,
        Listed::Costs => costs(),
        Listed::Protocols => protocols(),
        Listed::Documents => documents(),
    })
}

/// What else `--costs` takes.
const COST_FILES: &str = "Use a table as --costs table:NAME, or measure this machine: `humpyard calibrate --output FILE` writes a \
                          file for --costs FILE, --costs auto measures the services of a run. `humpyard explain NAME` prints \
                          the lines of a table.\n";

/// `humpyard explain`.
pub(crate) fn explain(arguments: &ExplainArguments) -> Result<ExitCode, Failure> {
    if let Some(document) = keys::find(&arguments.name) {
        Output::of(&arguments.common.output).answer(&(document.schema)(), || keys::text(document))?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.name == keys::METRICS {
        Output::of(&arguments.common.output).answer(&keys::metrics(), keys::metrics_text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut entries = policies()?;
    entries.extend(values(&services::entries())?);
    entries.extend(experiments()?);
    entries.extend(values(&traffic::generate::entries())?);
    entries.push(serde_json::to_value(rule())?);
    entries.extend(costs());
    let names = entries.iter().filter_map(|entry| entry["name"].as_str());
    let names = names.chain(DOCUMENTS.iter().map(|document| document.name)).chain([keys::METRICS]);
    let entry = entries.iter().find(|entry| entry["name"] == arguments.name.as_str());
    let entry = entry.ok_or_else(|| {
        if let Some(said) = option_named(&arguments.name) {
            return Failure::new(said);
        }
        Failure::new(unknown_of_many(
            "policy, service, experiment, profile, cost table or document",
            &arguments.name,
            names,
            "humpyard list",
        ))
    })?;
    let text = text(entry)?;
    Output::of(&arguments.common.output).answer(entry, || text)?;
    Ok(ExitCode::SUCCESS)
}

/// Says where an option is explained. `None`: no command has an option of this name.
fn option_named(name: &str) -> Option<String> {
    let name = name.strip_prefix("--").unwrap_or(name);
    let root = Arguments::command();
    let commands = root.get_subcommands().filter(|command| {
        command.get_arguments().any(|option| option.get_long() == Some(name) && !option.is_hide_set())
    });
    let commands: Vec<&str> = commands.map(clap::Command::get_name).collect();
    let first = commands.first()?;
    let list = commands.join(", ");
    Some(format!("`{name}` is an option, --{name} of {list}: `humpyard {first} --help` explains it"))
}

/// What rules can say, as an entry.
fn rule() -> Entry {
    let parameter = |key: &traffic::rule::Key| Parameter {
        name: key.name.to_owned(),
        summary: format!("{}.", key.summary),
        default: String::new(),
        // What becomes of a packet is one thing, not a list.
        accepts: match key.name {
            "service" | "client" | "weight" | "tolerance" | "guarantee" | "chain" => key.accepts.to_owned(),
            _ => format!("{}; lists are joined by `+`", key.accepts),
        },
        unit: String::new(),
        changes_cost: String::new(),
    };
    Entry {
        name: "rule",
        family: "configuration",
        summary: "which packets get which service, and belong to which client; the first rule that matches counts",
        source: "conditions first, all of which must hold; then what becomes of the packets",
        parameters: RuleChoice::keys().map(parameter).collect(),
    }
}

fn values(entries: &[impl serde::Serialize]) -> Result<Vec<Value>, Failure> {
    Ok(entries.iter().map(serde_json::to_value).collect::<Result<_, _>>()?)
}

/// The policies, as entries, each with where it is near the best in the map.
fn policies() -> Result<Vec<Value>, Failure> {
    let mut entries = values(&registry::entries())?;
    for entry in &mut entries {
        if let Some(near_best) = entry["name"].as_str().and_then(NearBest::of) {
            entry["near_best"] = serde_json::to_value(near_best)?;
        }
    }
    Ok(entries)
}

/// The experiments, as entries.
fn experiments() -> Result<Vec<Value>, Failure> {
    let about: Vec<About> = papers::all().into_iter().map(|experiment| experiment.about()).collect();
    let mut entries = values(&about)?;
    for (entry, about) in entries.iter_mut().zip(about) {
        entry["description"] = about.whole_description().into();
        entry["family"] = "experiment".into();
        entry["parameters"] = json!([]);
    }
    Ok(entries)
}

/// The protocols that `l7-filter` knows, as entries.
fn protocols() -> Vec<Value> {
    let entry = |(name, source): (&str, &str)| json!({"name": name, "family": "protocol", "summary": source});
    services::l7_filter::protocols().map(entry).collect()
}

/// The documents that commands print, as entries.
fn documents() -> Vec<Value> {
    let entry = |document: &Document| json!({"name": document.name, "family": "document", "summary": document.summary});
    let metrics = json!({"name": keys::METRICS, "family": "document", "summary": "/metrics of a run with --metrics"});
    DOCUMENTS.iter().map(entry).chain([metrics]).collect()
}

fn costs() -> Vec<Value> {
    let table = |table: &Costs| {
        let line = |(spec, line): (&String, &CostLine)| {
            json!({
                "service": spec,
                "fixed_ns": line.fixed_ns,
                "per_byte_ns": line.per_byte_ns,
                "cold_ns": line.cold_ns,
                "expansion": line.expansion(),
                "source": if line.source.is_empty() { &table.source } else { &line.source },
            })
        };
        let lines: Vec<Value> = table.lines.iter().map(line).collect();
        let mut entry = json!({"name": table.title(), "family": "costs", "summary": table.source, "services": lines});
        if table.moves != MovePenalties::NONE {
            let part =
                |apart: CoreDistance| (apart.name().to_owned(), json!(f64::from(table.moves.permille(apart)) / 1e3));
            entry["moves"] = Value::Object(CoreDistance::ALL.map(part).into_iter().collect());
        }
        entry
    };
    Costs::tables().iter().map(table).collect()
}

fn text(entry: &Value) -> Result<String, Failure> {
    let line = |label: &str, key: &str| match entry[key].as_str() {
        Some(value) => format!("{label:11} {value}\n"),
        None => String::new(),
    };
    let mut text = format!(
        "{} ({})\n\n",
        entry["name"].as_str().unwrap_or_default(),
        entry["family"].as_str().unwrap_or_default()
    );
    text.push_str(&line("does", "summary"));
    text.push_str(&line("source", "source"));
    text.push_str(&line("figure", "figure"));
    text.push_str(&line("how", "description"));
    for (index, promise) in entry["promises"].as_array().into_iter().flatten().enumerate() {
        let label = if index == 0 { "promises" } else { "" };
        text.push_str(&format!("{label:11} {}\n", promise.as_str().unwrap_or_default()));
    }
    text.push_str(&line("cost", "complexity"));
    if let Some(near_best) = serde_json::from_value::<Option<NearBest>>(entry["near_best"].clone())? {
        text.push_str(&format!("{:11} {}\n", "wins", near_best.text()));
    }
    if entry["family"] == "experiment" {
        return Ok(format!("{text}\nUse it as: {}\n", usage(entry)));
    }
    if let Some(lines) = entry["services"].as_array() {
        return Ok(format!("{text}\n{}\nUse it as: {}\n", cost_table(entry, lines), usage(entry)));
    }
    let parameters: Vec<Parameter> = serde_json::from_value(entry["parameters"].clone())?;
    if parameters.is_empty() {
        text.push_str("parameters  none\n");
    }
    for parameter in parameters {
        let unit = parameter.in_unit();
        text.push_str(&format!(
            "\n  {}{}\n      {}\n      takes {}{unit}\n{}",
            parameter.name,
            if parameter.default.is_empty() { String::new() } else { format!("={}", parameter.default) },
            parameter.summary,
            parameter.accepts,
            changes_cost(&parameter)
        ));
    }
    text.push_str(&format!("\nUse it as: {}\n", usage(entry)));
    Ok(text)
}

/// The lines of a cost table, with notes on those from elsewhere than the table says.
fn cost_table(entry: &Value, lines: &[Value]) -> String {
    let mut table = Sheet::of_figures(&["service", "fixed, ns", "per byte, ns", "cold, ns", "out / in"]);
    let mut notes: Vec<&Value> = Vec::new();
    for line in lines {
        let mut name = line["service"].as_str().unwrap_or_default().to_owned();
        let source = &line["source"];
        if *source != entry["summary"] {
            let known = notes.iter().position(|note| *note == source);
            let at = known.unwrap_or_else(|| {
                notes.push(source);
                notes.len() - 1
            });
            name.push_str(&format!(" [{}]", at + 1));
        }
        let figures = ["fixed_ns", "per_byte_ns", "cold_ns", "expansion"].map(|key| line[key].to_string());
        table.add_row([name].into_iter().chain(figures));
    }
    let mut text = format!("{table}\n");
    for (at, note) in notes.into_iter().enumerate() {
        text.push_str(&format!("[{}] {}\n", at + 1, note.as_str().unwrap_or_default()));
    }
    let moves: Vec<String> =
        entry["moves"].as_object().into_iter().flatten().map(|(name, part)| format!("{part} ({name})")).collect();
    if !moves.is_empty() {
        let parts = moves.join(", ");
        text.push_str(&format!(
            "\nA packet whose flow moves to another core takes longer, by this part of its work: {parts}\n"
        ));
    }
    text
}

/// That another value has a line of its own in costs.
fn changes_cost(parameter: &Parameter) -> String {
    match parameter.changes_cost.as_str() {
        "" => String::new(),
        Parameter::ALWAYS => "      changes the cost: another value has a line of its own in --costs\n".to_owned(),
        with => format!("      changes the cost with {with}: another value has a line of its own in --costs\n"),
    }
}

fn usage(entry: &Value) -> String {
    let name = entry["name"].as_str().unwrap_or_default();
    match entry["family"].as_str() {
        Some("service") => format!("humpyard run --input in.pcap --policy hrw --services {name}"),
        Some("configuration") => {
            "humpyard sim --input in.pcap --policy sfq --rule protocol=tcp,port=80+443,client=web".to_owned()
        }
        Some("experiment") => format!("humpyard reproduce {name}"),
        Some("costs") => format!("humpyard sim --input in.pcap --policy hrw --costs table:{name}"),
        Some("profile") => format!("humpyard sim --input gen:{name} --policy drr"),
        _ => format!("humpyard sim --input in.pcap --policy {name}"),
    }
}
