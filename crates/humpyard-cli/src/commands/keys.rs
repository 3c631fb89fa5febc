//! `explain` for documents and metrics: every key, its type and its meaning, from the JSON schema and the metrics themselves.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use humpyard::lab::metrics::{Family, families};
use humpyard::lab::schema::{DOCUMENTS, Document};
use serde_json::{Map, Value, json};

/// The name by which `explain` finds the metrics.
pub(crate) const METRICS: &str = "metrics";

/// Returns the metrics as text: `name{labels}: type`, then the meaning.
pub(crate) fn metrics_text() -> String {
    let mut text = format!("{METRICS} (document)\n\ndoes        /metrics of a run with --metrics\n\n");
    for Family { name, kind, labels, help } in families() {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(", ")) };
        let _ = writeln!(text, "{name}{labels}: {kind}\n    {help}");
    }
    text
}

/// Returns the metrics as one document.
pub(crate) fn metrics() -> Vec<Value> {
    let entry = |family: Family| {
        let Family { name, kind, labels, help } = family;
        json!({"name": name, "kind": kind, "labels": labels, "help": help})
    };
    families().into_iter().map(entry).collect()
}

/// Finds the document of this name.
pub(crate) fn find(name: &str) -> Option<Document> {
    DOCUMENTS.into_iter().find(|document| document.name == name)
}

/// Returns the keys of a document as text: `key: type`, then the meaning.
pub(crate) fn text(document: Document) -> String {
    let schema = joined((document.schema)());
    let keys = Keys { schema: &schema };
    let mut text = format!("{} (document)\n\ndoes        {}\n\n", document.name, document.summary);
    keys.write(&mut text, "", &schema, &keys.homes());
    text
}

/// The path at which each type of object has its keys.
type Homes<'a> = BTreeMap<&'a str, String>;

/// What there is under the keys of a document.
struct Keys<'a> {
    schema: &'a Value,
}

impl<'a> Keys<'a> {
    /// Finds the shortest path to each type of object.
    fn homes(&self) -> Homes<'a> {
        // What is a document of its own is explained there.
        let title = |document: &Document| (document.title, format!("humpyard explain {}", document.name));
        let mut homes: Homes<'_> = DOCUMENTS.iter().map(title).collect();
        let mut waiting = VecDeque::from([(String::new(), self.schema)]);
        while let Some((path, object)) = waiting.pop_front() {
            for (path, value, _) in properties(&path, object) {
                let held = self.held(&path, value);
                if let Some((name, object)) = held.object
                    && !homes.contains_key(name)
                {
                    homes.insert(name, held.path.clone());
                    waiting.push_back((held.path, object));
                }
            }
        }
        homes
    }

    /// Writes the keys of an object, and of the objects in it that are at home there.
    fn write(&self, text: &mut String, path: &str, object: &'a Value, homes: &Homes<'a>) {
        for (path, value, is_always) in properties(path, object) {
            let Held { path, mut words, object } = self.held(&path, value);
            if !is_always {
                words = format!("{}, or left out", words.trim_end_matches(" or null"));
            }
            let home = object.map(|(name, _)| &homes[name]);
            if let Some(home) = home.filter(|home| **home != path) {
                let _ = write!(words, ", with the keys of `{home}`");
            }
            let _ = writeln!(text, "{path}: {words}{}", meaning(value, is_always));
            if let (Some((_, object)), true) = (object, home == Some(&path)) {
                self.write(text, &path, object, homes);
            }
        }
    }

    /// Returns what a value is, in words, with the object in it.
    fn held(&self, path: &str, value: &'a Value) -> Held<'a> {
        let plain = |words: &str| Held { path: path.to_owned(), words: words.to_owned(), object: None };
        if let Some(name) = value["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/")) {
            let object = &self.schema["$defs"][name];
            return match object["properties"].is_object() {
                true => Held { object: Some((name, object)), ..plain("object") },
                false => self.held(path, object),
            };
        }
        if let Some(choices) = value["anyOf"].as_array() {
            let some = choices.iter().find(|choice| choice["type"] != "null");
            let held = some.map_or_else(|| plain("null"), |some| self.held(path, some));
            return Held { words: format!("{} or null", held.words), ..held };
        }
        if let Some(choices) = value["oneOf"].as_array() {
            return plain(&one_of(choices.iter().map(|choice| &choice["const"])));
        }
        if let Some(choices) = value["enum"].as_array() {
            return plain(&one_of(choices.iter()));
        }
        match &value["type"] {
            Value::Array(types) => plain(&format!("{} or null", type_name(&types[0]))),
            kind if kind == "array" && value["items"].is_object() => {
                let held = self.held(&format!("{path}[]"), &value["items"]);
                Held { words: format!("list, each {}", held.words), ..held }
            }
            kind if kind == "array" => plain("pair"),
            kind if kind == "object" && value["additionalProperties"].is_object() => {
                let held = self.held(&format!("{path}.NAME"), &value["additionalProperties"]);
                Held { words: format!("object, by name {}", held.words), ..held }
            }
            kind => plain(type_name(kind)),
        }
    }
}

/// What a value is.
struct Held<'a> {
    path: String,
    words: String,
    /// The object in it, by the name of its type.
    object: Option<(&'a str, &'a Value)>,
}

fn one_of<'a>(choices: impl Iterator<Item = &'a Value>) -> String {
    choices.map(|choice| format!("`{}`", choice.as_str().unwrap_or("?"))).collect::<Vec<_>>().join(" or ")
}

fn type_name(kind: &Value) -> &'static str {
    match kind.as_str() {
        Some("integer") => "whole number",
        Some("number") => "number",
        Some("boolean") => "true or false",
        Some("string") => "text",
        Some("array") => "list",
        Some("object") => "object",
        _ => "any",
    }
}

/// Returns the schema with each choice of objects, told apart by a key, as one object with the keys of all.
fn joined(mut schema: Value) -> Value {
    let types = schema["$defs"].as_object_mut();
    for of in types.into_iter().flat_map(|types| types.values_mut()) {
        let Some(choices) = of["oneOf"].as_array() else { continue };
        let mut keys = Map::new();
        for (key, value) in choices.iter().filter_map(|choice| choice["properties"].as_object()).flatten() {
            let tags = choices.iter().map(|choice| &choice["properties"][key]["const"]);
            let tags: Vec<Value> = tags.filter(|tag| !tag.is_null()).cloned().collect();
            let value = if tags.is_empty() { value.clone() } else { json!({ "enum": tags }) };
            keys.entry(key.clone()).or_insert(value);
        }
        if !keys.is_empty() {
            let is_always = |key: &&String| choices.iter().all(|choice| choice["properties"].get(*key).is_some());
            let required: Vec<&String> = keys.keys().filter(is_always).collect();
            *of = json!({ "required": required, "properties": keys });
        }
    }
    schema
}

/// Returns the keys of an object: the path and schema of each, and whether it is always there.
fn properties<'a>(path: &str, object: &'a Value) -> impl Iterator<Item = (String, &'a Value, bool)> {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
    let required = object["required"].as_array();
    let is_always = move |key: &str| required.is_some_and(|keys| keys.iter().any(|required| required == key));
    let keys = object["properties"].as_object().into_iter().flatten();
    keys.map(move |(key, value)| (format!("{prefix}{key}"), value, is_always(key)))
}

/// Returns the meaning of a key as a line of its own, as JSON names things; nothing if there is none.
fn meaning(value: &Value, is_always: bool) -> String {
    let Some(description) = value["description"].as_str() else { return String::new() };
    let description =
        description.replace("`None`", if is_always { "Null" } else { "Left out" }).replace(['[', ']'], "");
    format!("\n    {}", description.split_whitespace().collect::<Vec<_>>().join(" "))
}
