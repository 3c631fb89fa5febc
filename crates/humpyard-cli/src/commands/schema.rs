//! The JSON schema of configuration files, from the declarations of the options.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction};
use humpyard::lab::RuleChoice;
use serde_json::{Map, Value, json};

use crate::configuration_file::{RULE, is_flag, options, takes_pairs};

/// The schema: a key for every option of `run`, `sim` and `compare`.
pub(crate) fn schema() -> Value {
    let options = options();
    let properties = options.iter().filter_map(|option| Some((option.get_long()?.to_owned(), property(option))));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "humpyard configuration",
        "description": "Options of `humpyard run`, `sim` and `compare`, by their long names. What is given on the command line counts.",
        "type": "object",
        "additionalProperties": false,
        "properties": properties.collect::<Map<_, _>>(),
    })
}

fn property(option: &Arg) -> Value {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    let mut property = match option.get_long() {
        Some(RULE) => json!({"type": "array", "items": {"anyOf": [rule(), {"type": "string"}]}}),
        _ if is_flag(option) => json!({"type": "boolean"}),
        _ => with_lists(option, value(option)),
    };
    property["description"] = help.into();
    let defaults: Vec<&str> = option.get_default_values().iter().filter_map(|value| value.to_str()).collect();
    if let ([default], false) = (defaults.as_slice(), is_flag(option)) {
        let number = default.parse::<u64>().ok().filter(|_| is_whole_number(option));
        property["default"] = number.map_or_else(|| (*default).into(), Value::from);
    }
    property
}

/// What one value of an option is.
fn value(option: &Arg) -> Value {
    let names: Vec<String> = option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    match names.as_slice() {
        [] if is_whole_number(option) => json!({"type": "integer", "minimum": 0}),
        [] => json!({"type": ["string", "number"]}),
        names => json!({"enum": names}),
    }
}

/// A value, or as many as the option takes: a list; a table, where values read NAME=VALUE.
fn with_lists(option: &Arg, value: Value) -> Value {
    let several = matches!(option.get_action(), ArgAction::Append);
    let separated = option.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains(",...")));
    let mut forms = vec![value.clone()];
    if several || separated || option.get_value_names().is_some_and(|names| names.iter().any(|name| name.contains(',')))
    {
        forms.push(json!({"type": "array", "items": value}));
    }
    if several && takes_pairs(option) {
        let of = json!({"anyOf": [value, {"type": "array", "items": value}]});
        forms.push(json!({"type": "object", "additionalProperties": of}));
    }
    if forms.len() == 1 { value } else { json!({"anyOf": forms}) }
}

fn is_whole_number(option: &Arg) -> bool {
    let kinds: [ValueParser; 3] =
        [clap::value_parser!(u16).into(), clap::value_parser!(u32).into(), clap::value_parser!(u64).into()];
    kinds.iter().any(|kind| option.get_value_parser().type_id() == kind.type_id())
}

/// A rule: everything that it can say.
fn rule() -> Value {
    let one = json!({"type": ["string", "number", "boolean"]});
    let property = |key: &humpyard::traffic::rule::Key| {
        let form = json!({
            "description": format!("{}: {}", key.summary, key.accepts),
            "anyOf": [one, {"type": "array", "items": one}],
        });
        (key.name.to_owned(), form)
    };
    let properties: Map<String, Value> = RuleChoice::keys().map(property).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}
