//! What services cost: a table that comes with humpyard, a file that `calibrate` wrote, or what is measured when a run asks for it.
//!
//! All of them are lists of lines, one for each service with its parameters, in the format of [`file`].

mod auto;
mod file;
mod machine;
pub(crate) mod taken;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use humpyard_core::cost::{LinearCost, MovePenalties};
use humpyard_core::name::{Named, unknown};
use humpyard_services::{cost_spec, is_registered};
use serde::Serialize;

use crate::LabError;
use crate::figures::time;

pub use auto::AUTO;
pub use machine::{DescribedHost, MachineCosts};

/// What services cost, and the source of each line.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// How they are called for: `table:measured`, the name of a file, `auto`.
    pub name: String,
    /// Where the figures come from.
    pub source: String,
    /// Longest time that a core takes to go over to another service, in ns. `None`: nobody measured it.
    pub switch_upper_ns: Option<f64>,
    /// What a packet takes longer whose flow moves to another core; never measured.
    pub moves: MovePenalties,
    /// The lines, by the service with those of its parameters that change its cost: see [`cost_spec`].
    pub lines: BTreeMap<String, CostLine>,
    /// What the machine adds to them. `None`: nobody measured it.
    pub machine: Option<MachineCosts>,
}

/// What one service costs: a straight line over the length of packets.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CostLine {
    /// Time of a packet without length, in ns.
    pub fixed_ns: f64,
    /// Time of each byte, in ns.
    pub per_byte_ns: f64,
    /// Time added when the core's previous packet had another service, in ns.
    pub cold_ns: f64,
    /// Time of a batch whatever its packets, in ns. A packet that a core serves alone is a batch.
    pub per_batch_ns: f64,
    /// Bytes that go out for each that comes in. `None`: nobody measured it.
    pub expansion: Option<f64>,
    /// Where it was measured; empty: where the source of all lines says.
    pub source: String,
    /// Who gave it.
    pub origin: Origin,
}

/// Who gave a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// The table or file.
    #[default]
    Given,
    /// The calibration that the user has saved.
    Saved,
    /// Measured for this run.
    Measured,
    /// Nobody yet: it stands in until it is measured.
    Unmeasured,
}

/// The cost of a service of a run, and the source of that cost.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceCost {
    /// Name of the service in the run.
    pub service: String,
    /// The service as the costs list it: its name, with the parameters that change its cost.
    pub spec: String,
    /// Fixed time of each packet, in ns.
    pub fixed_ns: u64,
    /// Time of each byte of a packet, in ns.
    pub per_byte_ns: f64,
    /// Extra time of a packet if the core's previous packet had another service, in ns.
    pub cold_ns: u64,
    /// Time of a batch of packets, in ns, if it has a cost of its own. A packet alone is a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_batch_ns: Option<u64>,
    /// Bytes that leave the service for each byte that enters it.
    pub expansion: f64,
    /// Source of the cost: a table, a file, `saved calibration` or `measured now`. `estimated by`
    /// names the line of the same service with other parameters that replaces a missing line.
    pub source: String,
}

/// A line that was looked up.
#[derive(Clone, Debug)]
pub(crate) struct Found<'a> {
    /// The specification that was looked for.
    pub(crate) spec: String,
    pub(crate) line: &'a CostLine,
    /// Who says so.
    pub(crate) source: String,
}

impl CostLine {
    /// The cost of a packet that is served alone: in whole ns, and thousandths of them for each byte.
    pub fn cost(&self) -> LinearCost {
        LinearCost {
            fixed: self.fixed_ns.round() as u64 + self.per_batch(),
            per_byte_milli: (self.per_byte_ns * 1e3).round() as u64,
            cold: self.cold_ns.round() as u64,
        }
    }

    /// The part of it that the packets of a batch pay once, in whole ns.
    pub fn per_batch(&self) -> u64 {
        self.per_batch_ns.round() as u64
    }

    /// Bytes that go out for each that comes in; 1 where nobody measured it.
    pub fn expansion(&self) -> f64 {
        self.expansion.unwrap_or(1.0)
    }
}

impl Found<'_> {
    /// As a result tells it, of the service of this name.
    pub(crate) fn of(&self, service: &str) -> ServiceCost {
        let LinearCost { fixed, per_byte_milli, cold } = self.line.cost();
        let per_batch = self.line.per_batch();
        ServiceCost {
            service: service.to_owned(),
            spec: self.spec.clone(),
            fixed_ns: fixed - per_batch,
            per_byte_ns: per_byte_milli as f64 / 1e3,
            cold_ns: cold,
            per_batch_ns: Some(per_batch).filter(|&ns| ns > 0),
            expansion: self.line.expansion(),
            source: self.source.clone(),
        }
    }
}

impl fmt::Display for ServiceCost {
    /// `encrypt: 150 ns + 0.090 ns/B, cold 100 ns, batch 800 ns (table:measured)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fixed, cold) = (time(self.fixed_ns as f64), time(self.cold_ns as f64));
        write!(f, "{}: ", self.service)?;
        if self.service != self.spec {
            write!(f, "{} ", self.spec)?;
        }
        write!(f, "{fixed} + {:.3} ns/B, cold {cold}", self.per_byte_ns)?;
        if let Some(per_batch) = self.per_batch_ns {
            write!(f, ", batch {}", time(per_batch as f64))?;
        }
        write!(f, " ({})", self.source)
    }
}

/// Who says what the services of a run cost: once, if it is the same for all.
pub fn cost_sources(costs: &[ServiceCost]) -> String {
    match costs {
        [first, others @ ..] if others.iter().all(|other| other.source == first.source) => first.source.clone(),
        _ => costs.iter().map(|cost| format!("{} {}", cost.service, cost.source)).collect::<Vec<_>>().join(", "),
    }
}

/// The specification under which costs know a service: a name that is known by its cost alone stays as it is.
///
/// # Errors
/// Parameters that the service does not take.
pub(crate) fn cost_key(work: &Named) -> Result<String, LabError> {
    match work.parameters.is_empty() && !is_registered(&work.name) {
        true => Ok(work.name.clone()),
        false => Ok(cost_spec(work)?.to_string()),
    }
}

/// The name of the service of a specification.
pub(crate) fn name_of(spec: &str) -> &str {
    spec.split(':').next().unwrap_or(spec)
}

/// The tables that come with humpyard, by name.
const TEXTS: [(&str, &str); 4] = [
    ("measured", include_str!("tables/measured.toml")),
    ("predictive", include_str!("tables/predictive.toml")),
    ("everest", include_str!("tables/everest.toml")),
    ("ps-hrw", include_str!("tables/ps-hrw.toml")),
];

static TABLES: LazyLock<[Costs; TEXTS.len()]> = LazyLock::new(|| {
    TEXTS.map(|(name, text)| Costs::parse(&format!("{TABLE}{name}"), text).expect("tests read every table"))
});

/// The source of a line that was measured for this run.
pub const MEASURED_NOW: &str = "measured now";
/// What the name of a table begins with.
const TABLE: &str = "table:";

impl Costs {
    /// Costs of this name, with these lines and nothing else.
    pub fn of_lines(name: &str, source: &str, lines: impl IntoIterator<Item = (String, CostLine)>) -> Self {
        Self {
            name: name.to_owned(),
            source: source.to_owned(),
            switch_upper_ns: None,
            moves: MovePenalties::NONE,
            lines: lines.into_iter().collect(),
            machine: None,
        }
    }

    /// Every table that comes with humpyard, the default first.
    pub fn tables() -> &'static [Self] {
        &*TABLES
    }

    /// The table of this name.
    ///
    /// # Errors
    /// No such table; the message names those there are.
    pub fn table(name: &str) -> Result<&'static Self, LabError> {
        let found = Self::tables().iter().find(|table| table.title() == name);
        found.ok_or_else(|| LabError::option(unknown("cost table", name, TEXTS.map(|(name, _)| name))))
    }

    /// The name without what says that it is a table.
    pub fn title(&self) -> &str {
        self.name.strip_prefix(TABLE).unwrap_or(&self.name)
    }

    /// What a service costs, by its specification: `encrypt`, `encrypt:cipher=cast-128`.
    ///
    /// # Errors
    /// No line for it; the message names those there are.
    pub fn cost(&self, spec: &str) -> Result<LinearCost, LabError> {
        Ok(self.line(spec)?.cost())
    }

    /// As [`Self::cost`], with everything that is known.
    ///
    /// # Errors
    /// As [`Self::cost`].
    pub fn line(&self, spec: &str) -> Result<&CostLine, LabError> {
        Ok(self.find(&spec.parse()?)?.line)
    }

    /// The line of this service.
    pub(crate) fn find(&self, work: &Named) -> Result<Found<'_>, LabError> {
        let spec = cost_key(work)?;
        match self.lines.get(&spec) {
            Some(line) => Ok(Found { source: self.said_by(line), spec, line }),
            None => Err(LabError::option(self.missing(&spec))),
        }
    }

    /// The line of this service, else the line of the same service with other parameters as an estimate.
    pub(crate) fn estimate(&self, work: &Named) -> Result<Found<'_>, LabError> {
        self.find(work).or_else(|error| {
            let line = self.lines.get(&work.name).ok_or(error)?;
            let source = format!("{}, estimated by `{}`", self.said_by(line), work.name);
            Ok(Found { spec: cost_key(work)?, line, source })
        })
    }

    fn said_by(&self, line: &CostLine) -> String {
        match line.origin {
            Origin::Given => self.name.clone(),
            Origin::Saved => "saved calibration".to_owned(),
            Origin::Measured => MEASURED_NOW.to_owned(),
            Origin::Unmeasured => "to be measured".to_owned(),
        }
    }

    /// That there is no line for this service, which ones there are, and how to get one.
    fn missing(&self, spec: &str) -> String {
        let (name, service) = (&self.name, name_of(spec));
        let own: Vec<String> =
            self.lines.keys().filter(|key| name_of(key) == service).map(|key| format!("`{key}`")).collect();
        let advice = if is_registered(service) { "; measure it: @costs auto" } else { "" };
        if own.is_empty() {
            let names: BTreeSet<&str> = self.lines.keys().map(|key| name_of(key)).collect();
            return format!("costs `{name}`: {}{advice}", unknown("service", service, names));
        }
        let shown = own.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = match own.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("costs `{name}`: no line for `{}`; there are: {shown}{more}{advice}", shortened(spec))
    }

    /// What it takes a core to go over to another service, if that was measured.
    pub(crate) fn switch_cost(&self) -> Option<Duration> {
        self.switch_upper_ns.map(|switch| Duration::from_nanos(switch.ceil() as u64))
    }
}

/// Lines of a service that an error names at most.
const SHOWN: usize = 10;
/// Characters of a specification that an error shows at most.
const CHARACTERS_SHOWN: usize = 80;

/// The beginning of a long text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(CHARACTERS_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self::tables()[0].clone()
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Costs {
    type Err = LabError;

    /// `table:NAME`, the name of a table, `calibrated`, or the name of a file. What `auto` is, [`Costs::auto`] says.
    fn from_str(text: &str) -> Result<Self, LabError> {
        if text == "calibrated" {
            return Self::saved()?.ok_or_else(|| {
                LabError::option(match calibrated_path() {
                    Ok(path) => format!(
                        "nothing is calibrated yet, there is no {}: run `humpyard calibrate --save` once",
                        path.display()
                    ),
                    Err(error) => error.to_string(),
                })
            });
        }
        if let Some(name) = text.strip_prefix(TABLE) {
            return Self::table(name).cloned();
        }
        match Self::table(text) {
            Ok(table) => Ok(table.clone()),
            Err(said) if !text.contains(['.', '/']) && !Path::new(text).exists() => {
                Err(LabError::option(format!("{said}; and there is no file of this name")))
            }
            Err(_) => Self::read(text),
        }
    }
}

/// Where costs are kept for `calibrated`: the file that `HUMPYARD_COSTS` names, else `humpyard/costs.toml` in the user's directory
/// for data: below `XDG_DATA_HOME` if that is absolute, else below `.local/share` in `HOME`.
///
/// # Errors
/// None of `HUMPYARD_COSTS`, `XDG_DATA_HOME` and `HOME` is set.
pub fn calibrated_path() -> Result<PathBuf, LabError> {
    let named = |variable: &str| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    // One that is relative counts for nothing, says the XDG Base Directory Specification.
    let user_data = || named("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = || user_data().or_else(|| named("HOME").map(|home| home.join(".local/share")));
    named("HUMPYARD_COSTS").or_else(|| data().map(|data| data.join("humpyard/costs.toml"))).ok_or_else(|| {
        LabError::option("there is no place for calibrated costs: set HUMPYARD_COSTS to the name of a file, or HOME")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(costs: &Costs, spec: &str) -> String {
        costs.cost(spec).unwrap_err().to_string()
    }

    #[test]
    fn tables_hold_the_papers_figures() {
        let table = |name| Costs::table(name).unwrap();
        // PREDICTIVE section 3: encrypting 500 bytes takes 970 us at 167 MHz.
        assert_eq!(table("predictive").cost("encrypt").unwrap().work(500), 97_000);
        assert_eq!(table("predictive").line("fec").unwrap().expansion(), 1.14);
        assert_eq!(table("everest").cost("v4-v6-tcp").unwrap().work(1500), 18_220);
        assert_eq!(table("ps-hrw").moves, MovePenalties { shared_l2: 50, same_socket: 250, other_socket: 450 });
        for table in Costs::tables() {
            assert!(!table.source.is_empty() && !table.lines.is_empty(), "{table}");
        }
    }

    #[test]
    fn costs_keep_their_names() {
        for name in ["table:predictive", "predictive"] {
            assert_eq!(name.parse::<Costs>().unwrap().to_string(), "table:predictive");
        }
        assert_eq!(Costs::default().to_string(), "table:measured");
        let said = "table:everst".parse::<Costs>().unwrap_err().to_string();
        assert_eq!(
            said,
            "no cost table `everst`; did you mean `everest`? There are: measured, predictive, everest, ps-hrw"
        );
        let said = "predictve".parse::<Costs>().unwrap_err().to_string();
        assert!(said.contains("did you mean `predictive`?") && said.ends_with("no file of this name"), "{said}");
        let said = "none/c.toml".parse::<Costs>().unwrap_err().to_string();
        assert!(said.starts_with("none/c.toml: there is no such cost file"), "{said}");
    }

    /// Every service, and every value of a parameter that changes its cost and has a list of values, is in the default table.
    #[test]
    fn the_default_table_knows_every_service_and_every_choice() {
        let table = Costs::default();
        for entry in humpyard_services::entries() {
            table.cost(entry.name).unwrap();
            for parameter in entry.parameters.iter().filter(|parameter| !parameter.changes_cost.is_empty()) {
                let values: Vec<String> = match parameter.accepts.strip_prefix("one of ") {
                    Some(values) => values.split(' ').map(str::to_owned).collect(),
                    None if parameter.accepts == "true or false" => vec!["true".into(), "false".into()],
                    None => match parameter.accepts.split_once(" to ") {
                        Some((low, high)) => match (low.parse::<u64>(), high.parse::<u64>()) {
                            (Ok(low), Ok(high)) if high - low < 10 => (low..=high).map(|n| n.to_string()).collect(),
                            _ => continue,
                        },
                        None => continue,
                    },
                };
                for value in values {
                    let others = Some(parameter.changes_cost.as_str()).filter(|with| with.contains('='));
                    let parameters: Vec<String> =
                        others.map(str::to_owned).into_iter().chain([format!("{}={value}", parameter.name)]).collect();
                    table.cost(&format!("{}:{}", entry.name, parameters.join(","))).unwrap();
                }
            }
        }
    }

    #[test]
    fn parameters_that_change_the_cost_have_a_line_of_their_own() {
        let table = Costs::default();
        let work = |spec: &str| table.cost(spec).unwrap().work(500);
        assert!(work("encrypt:cipher=cast-128") > 10 * work("encrypt"));
        assert!(work("compress:codec=deflate,level=6") > 2 * work("compress:codec=deflate"));
        assert_eq!(work("encrypt:key=00112233445566778899aabbccddeeff"), work("encrypt"));
    }

    #[test]
    fn what_is_missing_is_answered_with_what_there_is() {
        let line = || CostLine { fixed_ns: 5.0, ..CostLine::default() };
        let specs = ["encrypt", "compress:codec=deflate", "compress:codec=deflate,level=3", "v4-v6-tcp"];
        let costs = Costs::of_lines("c.toml", "", specs.map(|spec| (spec.to_owned(), line())));
        assert_eq!(
            missing(&costs, "compress"),
            "costs `c.toml`: no line for `compress`; there are: `compress:codec=deflate`, `compress:codec=deflate,level=3`; \
             measure it: costs auto"
        );
        assert_eq!(
            missing(&costs, "encript"),
            "costs `c.toml`: no service `encript`; did you mean `encrypt`? There are: compress, encrypt, v4-v6-tcp"
        );
        assert!(missing(&costs, "forward").ends_with("v4-v6-tcp; measure it: costs auto"));
        assert!(missing(&costs, "encrypt:cipher=des").contains("`cipher` takes one of"));
        let many = (1..=12).map(|rule| (format!("firewall:rules=allow+{rule}"), line()));
        let said =
            missing(&Costs::of_lines("c.toml", "", many), &format!("firewall:rules=allow+tcp{}", "+tcp".repeat(40)));
        assert!(said.contains("+tcp...`; there are") && said.contains(" and 2 more"), "{said}");
    }

    #[test]
    fn an_estimate_is_that_of_the_service_as_it_is_by_default() {
        let costs =
            Costs::of_lines("c.toml", "", [("firewall".to_owned(), CostLine { fixed_ns: 5.0, ..CostLine::default() })]);
        let work: Named = "firewall:rules=allow+tcp".parse().unwrap();
        let found = costs.estimate(&work).unwrap();
        assert_eq!((found.spec.as_str(), found.line.fixed_ns), ("firewall:rules=allow+tcp", 5.0));
        assert_eq!(found.source, "c.toml, estimated by `firewall`");
        assert!(costs.estimate(&"dpi".parse().unwrap()).is_err());
    }
}
