//! What a flow reserves, and the ways to say it.

use std::io;

use humpyard_core::name::{Named, unknown};
use humpyard_core::policy::ParameterError;
use humpyard_text::{TextError, TomlFile, read_text};
use serde::Serialize;
use toml::de::{DeTable, DeValue};

use crate::LabError;
use humpyard_text::quantity::{parse_bit_rate, parse_bytes};

/// The reservation of a flow.
///
/// The flow keeps to a token bucket. In any time t it sends at most `burst_bytes` plus t times its
/// bandwidth. It sends no more packets than these bytes make at its mean length.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reservation {
    /// Name of the flow.
    pub name: String,
    /// Service that processes the packets of the flow.
    pub service: String,
    /// Bandwidth of the flow, in bits per second.
    pub bandwidth_bps: f64,
    /// Mean length of the packets of the flow, in bytes.
    pub length_bytes: f64,
    /// Bytes that the flow may send at once.
    pub burst_bytes: f64,
    /// Length of the longest packet of the flow, in bytes: from `length_bytes` to `burst_bytes`.
    pub longest_bytes: f64,
    /// Node at which the flow enters the network. `None`: there is one router and no network.
    pub from: Option<String>,
    /// Node at which the flow leaves the network. `None`: there is one router and no network.
    pub to: Option<String>,
}

/// What a reservation says.
const KEYS: [&str; 8] = ["name", "service", "rate", "length", "burst", "longest", "from", "to"];
/// The longest packet of a flow that does not tell: an Ethernet frame without its header.
const LONGEST: f64 = 1500.0;

impl Reservation {
    /// From names and values; a flow without a name is called by its `number`.
    ///
    /// # Errors
    /// What is missing, empty, unknown or cannot be, without the place.
    fn of(pairs: &[(String, String)], number: usize) -> Result<Self, String> {
        let keys: Vec<&str> = pairs.iter().map(|(key, _)| key.as_str()).collect();
        check_keys(&keys)?;
        if let Some((key, _)) = pairs.iter().find(|(_, value)| value.is_empty()) {
            return Err(format!("`{key}` is empty: give it a value, or leave it out"));
        }
        let text = |key: &str| pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
        let must = |key: &str, what: &str| text(key).ok_or_else(|| format!("a flow has a `{key}`: {what}"));
        let name = text("name").unwrap_or_else(|| format!("flow{number}"));
        let service = must("service", "encrypt for example")?;
        let rate = must("rate", "bits per second, 10Mbit for example")?;
        let bandwidth_bps = parse_bit_rate(&rate)
            .ok_or_else(|| format!("`rate` takes bits per second from 1 to 1e15, 10Mbit for example, not `{rate}`"))?;
        let bytes = |key: &str, text: &str| {
            parse_bytes(text)
                .ok_or_else(|| format!("`{key}` takes bytes from 1 to 1e12, 500 or 8k for example, not `{text}`"))
        };
        let length_bytes = bytes("length", &must("length", "the mean length of its packets in bytes")?)?;
        let burst_bytes = bytes("burst", &must("burst", "the bytes that it may send at once, 8k for example")?)?;
        if burst_bytes < length_bytes {
            return Err(format!(
                "a `burst` of {burst_bytes} bytes has no room for a packet of {length_bytes}: raise it"
            ));
        }
        let longest_bytes = match text("longest") {
            Some(text) => bytes("longest", &text)?,
            None => LONGEST.max(length_bytes).min(burst_bytes),
        };
        if !(length_bytes..=burst_bytes).contains(&longest_bytes) {
            return Err(format!(
                "`longest` is between `length` ({length_bytes}) and `burst` ({burst_bytes}), not {longest_bytes}"
            ));
        }
        let (from, to) = (text("from"), text("to"));
        Ok(Self { name, service, bandwidth_bps, length_bytes, burst_bytes, longest_bytes, from, to })
    }

    /// As an option says it: `name=video,service=encrypt,rate=10Mbit,length=500,burst=8k`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str, number: usize) -> Result<Self, LabError> {
        let named: Named =
            format!("@flow:{text}").parse().map_err(|error: ParameterError| LabError::from(error).of("flow"))?;
        Self::of(&named.parameters, number).map_err(|said| LabError::option(format!("@flow {text}: {said}")))
    }

    /// All that a file has: TOML with a `[[flow]]` for each, or CSV with a line of names.
    ///
    /// # Errors
    /// A file that cannot be read, or a flow in it that cannot be, with its place.
    pub fn read(path: &str, first: usize) -> Result<Vec<Self>, LabError> {
        let text = read_text(path).map_err(|error| {
            LabError::option(match error.kind() {
                io::ErrorKind::NotFound => format!("@flows: there is no file `{path}`"),
                _ => format!("@flows: `{path}` cannot be read: {error}"),
            })
        })?;
        let flows = if is_csv(path, &text) { of_csv(path, &text, first)? } else { of_toml(path, &text, first)? };
        if flows.is_empty() {
            return Err(LabError::option(format!("@flows: there is no flow in `{path}`")));
        }
        Ok(flows)
    }

    /// Packets per second in the mean.
    pub fn packets_per_second(&self) -> f64 {
        self.bandwidth_bps / (8.0 * self.length_bytes)
    }
}

/// Refuses what no flow has, and what is there twice.
fn check_keys(keys: &[&str]) -> Result<(), String> {
    if let Some(key) = keys.iter().find(|key| !KEYS.contains(key)) {
        return Err(unknown("key of a flow", key, KEYS));
    }
    match (1..keys.len()).find(|&i| keys[..i].contains(&keys[i])) {
        Some(twice) => Err(format!("`{}` is given twice", keys[twice])),
        None => Ok(()),
    }
}

/// Whether a file is CSV, by its name or by a first line of names.
fn is_csv(path: &str, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    path.ends_with(".csv") || (first.contains(',') && !first.contains(['=', '[', '#']))
}

fn of_csv(path: &str, text: &str, first: usize) -> Result<Vec<Reservation>, LabError> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let slip = |error: csv::Error| LabError::option(format!("@flows: {path}: this is no CSV: {error}"));
    let headers = reader.headers().map_err(slip)?.clone();
    let names: Vec<&str> = headers.iter().collect();
    let line = headers.position().map_or(1, csv::Position::line);
    check_keys(&names).map_err(|said| LabError::option(format!("@flows: {path}:{line}: {said}")))?;
    let mut flows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(slip)?;
        let line = record.position().map_or(0, csv::Position::line);
        // What a line says nothing of is not told.
        let told = names.iter().zip(record.iter()).filter(|(_, value)| !value.is_empty());
        let pairs: Vec<(String, String)> = told.map(|(&name, value)| (name.to_owned(), value.to_owned())).collect();
        let flow = Reservation::of(&pairs, first + flows.len());
        flows.push(flow.map_err(|said| LabError::option(format!("@flows: {path}:{line}: {said}")))?);
    }
    Ok(flows)
}

fn of_toml(path: &str, text: &str, first: usize) -> Result<Vec<Reservation>, LabError> {
    let place = TomlFile { path, text };
    let table = place.table()?;
    let table = table.get_ref();
    place.keys(table, "key of a file of flows", &["flow"])?;
    let mut flows = Vec::new();
    for (start, table) in tables(&place, table, "flow")? {
        let pairs = pairs(&place, table)?;
        flows.push(Reservation::of(&pairs, first + flows.len()).map_err(|said| place.slip(start, &said))?);
    }
    Ok(flows)
}

/// The tables of an array such as `[[flow]]`, and where they start; empty if the key is not given.
pub(super) fn tables<'a, 't>(
    place: &TomlFile<'_>,
    table: &'t DeTable<'a>,
    key: &str,
) -> Result<Vec<(usize, &'t DeTable<'a>)>, TextError> {
    let Some(array) = table.get(key) else { return Ok(Vec::new()) };
    let wrong =
        |start: usize| place.slip(start, &format!("`{key}` is an array of tables: [[{key}]] and its keys below"));
    let DeValue::Array(items) = array.get_ref() else { return Err(wrong(array.span().start)) };
    let mut tables = Vec::new();
    for item in items.iter() {
        let DeValue::Table(table) = item.get_ref() else { return Err(wrong(item.span().start)) };
        tables.push((item.span().start, table));
    }
    Ok(tables)
}

/// The keys of a table with their values as text.
pub(super) fn pairs(place: &TomlFile<'_>, table: &DeTable<'_>) -> Result<Vec<(String, String)>, TextError> {
    let mut pairs = Vec::new();
    for (key, value) in table.iter() {
        let name = key.get_ref().to_string();
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.as_str().to_owned(),
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(value) => value.to_string(),
            _ => return Err(place.slip(value.span().start, &format!("`{name}` is a text or a number"))),
        };
        pairs.push((name, text));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIDEO: &str = "name=video,service=encrypt,rate=10Mbit,length=500,burst=8k";

    #[test]
    fn options_and_files_say_the_same() {
        let video = Reservation::parse(VIDEO, 1).unwrap();
        assert_eq!((video.bandwidth_bps, video.burst_bytes, video.packets_per_second()), (1e7, 8_000.0, 2_500.0));
        assert_eq!(video.longest_bytes, 1_500.0);
        let toml =
            "[[flow]]\nname = \"video\"\nservice = \"encrypt\"\nrate = \"10Mbit\"\nlength = 500\nburst = \"8k\"\n";
        assert_eq!(of_toml("f.toml", toml, 1).unwrap(), std::slice::from_ref(&video));
        let csv = "name,service,rate,length,burst,longest\nvideo,encrypt,1e7,500,8000,\n,forward,1G,100,100,\n";
        let flows = of_csv("f.csv", csv, 1).unwrap();
        assert_eq!(flows[0], video);
        assert_eq!((flows[1].name.as_str(), flows[1].longest_bytes), ("flow2", 100.0));
    }

    #[test]
    fn slips_are_told() {
        let slip = |text: &str| Reservation::parse(text, 1).unwrap_err().to_string();
        let said = slip(&VIDEO.replace("rate", "rat"));
        assert!(said.contains("no key of a flow `rat`; did you mean `rate`?"), "{said}");
        for (change, to, words) in [
            ("rate=10Mbit,", "", "a flow has a `rate`: bits per second"),
            ("rate=10Mbit", "rate=fast", "`rate` takes bits per second from 1 to 1e15, 10Mbit for example, not `fast`"),
            ("burst=8k", "burst=400", "a `burst` of 400 bytes has no room for a packet of 500"),
            ("burst=8k", "burst=8k,longest=9k", "`longest` is between `length` (500) and `burst` (8000), not 9000"),
            ("name=video", "service=dpi", "`service` is given twice"),
            ("name=video", "name=", "`name` is empty: give it a value, or leave it out"),
            ("length=500", "length", "a parameter reads name=value, not `length`"),
        ] {
            let said = slip(&VIDEO.replace(change, to));
            assert!(said.contains(words), "{said}");
        }
        let slip = |text: &str| of_toml("f.toml", text, 1).unwrap_err().to_string();
        assert!(slip("[[flow]]\nservice = \"dpi\"\n").starts_with("f.toml:1:1: a flow has a `rate`"));
        assert!(slip("flow = 3\n").starts_with("f.toml:1:8: `flow` is an array of tables"));
        let slip = |text: &str| of_csv("f.csv", text, 1).unwrap_err().to_string();
        assert!(slip("service\ndpi\n").contains("f.csv:2: a flow has a `rate`"));
        assert!(slip("service,rat\n\ndpi,1M\n").contains("f.csv:1: no key of a flow `rat`; did you mean `rate`?"));
        assert!(slip("rate,service,rate\n1M,dpi,1M\n").contains("f.csv:1: `rate` is given twice"));
    }
}
