//! What a sweep simulates: a file of options that are the same in all cells, and of those that vary.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use humpyard_core::name::unknown;
use humpyard_core::random::Seed;
use humpyard_policies::spec::PolicySpec;
use humpyard_text::{TextError, TomlFile, read_text};
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::axes::{Axes, Range, Span, Values};
use super::places::Places;
use super::until::{Repeat, Until};
use crate::LabError;
use crate::choice::host::Host;
use crate::config::{OPTIONS, RunConfig, RunOption};
use crate::environment::{sha256, sha256_of};
use crate::meaning::find_named;
use crate::option::{RunCommand, Times};

/// The options that are no options of every command, and yet vary.
const POLICY: &str = "policy";
const CORES: &str = "cores";
/// Cores where nothing is said, as of `humpyard sim`.
const CORES_USUAL: usize = 2;
/// Options that write files, which cells would write over each other.
const WRITERS: [&str; 4] = ["journal", "timeline", "timeline-packets", "timeline-for"];
/// Options that say which packets are read.
const READ: [&str; 4] = ["input", "packets", "loop", "inner"];
/// Simulations of a plan at most, where cells are not repeated more often than they must.
const RUNS_MAX: usize = 10_000_000;
/// Steps of a range, points of a sample and repetitions at most.
const STEPS_MAX: u64 = 1_000_000;

const KEYS: [&str; 6] = ["seed", "options", "axes", "zip", "sample", "repeat"];
const RANGE_KEYS: [&str; 4] = ["from", "to", "steps", "scale"];
const REPEAT_KEYS: [&str; 4] = ["times", "until", "least", "most"];

/// What a sweep simulates.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Options that all cells have.
    options: BTreeMap<String, Values>,
    /// What varies: a cell for each combination, where the last varies first.
    axes: Vec<Axes>,
    repeat: Repeat,
    /// The seed of the first repetition.
    seed: u64,
    /// Policies of the program, which options name as they are shown.
    own_policies: Vec<PolicySpec>,
    /// What tells these from others of their names.
    own_code: String,
    /// Where the file has what.
    places: Places,
}

/// One combination of options.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell<'a> {
    /// Its number, from 0.
    pub number: usize,
    /// The options that vary, with their values here.
    pub settings: Vec<(&'a str, &'a [String])>,
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.settings.is_empty() {
            return out.write_str("the only cell");
        }
        let settings = self.settings.iter().map(|(name, values)| format!("{name} = {}", values.join(",")));
        write!(out, "cell {} ({})", self.number, settings.collect::<Vec<_>>().join(", "))
    }
}

impl Plan {
    /// Reads a plan from a file.
    ///
    /// # Errors
    /// A file that cannot be read or says what cannot be, with the place in it.
    pub fn read(path: &str) -> Result<Self, LabError> {
        let text = read_text(path).map_err(|error| {
            TextError::new(match error.kind() {
                io::ErrorKind::NotFound => format!("{path}: there is no such file of a sweep"),
                _ => format!("{path}: the file of the sweep cannot be read: {error}"),
            })
        })?;
        Self::parse(path, &text)
    }

    /// Reads a plan from text; errors name it as this file.
    ///
    /// # Errors
    /// Text that says what cannot be, with the place in it.
    pub fn parse(path: &str, text: &str) -> Result<Self, LabError> {
        Ok(PlanFile(TomlFile { path, text }).plan()?)
    }

    /// Returns how many cells there are.
    pub fn cells(&self) -> usize {
        self.axes.iter().map(|axes| axes.steps.len()).product()
    }

    /// Returns a cell.
    ///
    /// # Panics
    /// If the plan has no such cell.
    pub fn cell(&self, number: usize) -> Cell<'_> {
        assert!(number < self.cells(), "a cell of the plan");
        let mut rest = number;
        let mut settings: Vec<Vec<(&str, &[String])>> = Vec::with_capacity(self.axes.len());
        for axes in self.axes.iter().rev() {
            let step = &axes.steps[rest % axes.steps.len()];
            rest /= axes.steps.len();
            settings.push(axes.names.iter().map(String::as_str).zip(step.iter().map(Vec::as_slice)).collect());
        }
        Cell { number, settings: settings.into_iter().rev().flatten().collect() }
    }

    /// Returns a number of the input of a cell: the same for all cells that have the same options for what is read.
    pub(super) fn input_of(&self, number: usize) -> usize {
        let (mut rest, mut input) = (number, 0);
        for axes in self.axes.iter().rev() {
            let steps = axes.steps.len();
            if axes.names.iter().any(|name| READ.contains(&name.as_str())) {
                input = input * steps + rest % steps;
            }
            rest /= steps;
        }
        input
    }

    /// Returns the options that vary, in the order of the cells' settings.
    pub fn varied(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().flat_map(|axes| axes.names.iter().map(String::as_str))
    }

    /// Returns the seed of a repetition, from 0: the same in all cells.
    pub const fn seed(&self, repetition: u32) -> u64 {
        self.seed.wrapping_add(repetition as u64)
    }

    /// Returns what varies.
    pub(super) fn axes(&self) -> &[Axes] {
        &self.axes
    }

    /// Returns the options that all cells have.
    pub(super) const fn given(&self) -> &BTreeMap<String, Values> {
        &self.options
    }

    pub(super) const fn repeat(&self) -> Repeat {
        self.repeat
    }

    /// Returns what a repetition of a cell runs.
    ///
    /// # Errors
    /// Options that do not go together, and values that an option does not take.
    pub fn config(&self, number: usize, repetition: u32) -> Result<RunConfig, LabError> {
        let cell = self.cell(number);
        let mut given: BTreeMap<&str, Vec<String>> =
            self.options.iter().map(|(name, values)| (name.as_str(), values.clone())).collect();
        given.extend(cell.settings.iter().map(|&(name, values)| (name, values.to_vec())));
        given.retain(|name, values| !takes_nothing(name) || flag(values));
        let config = self.config_of(given, repetition);
        config.map_err(|error| self.places.blame(&cell, &error))
    }

    /// Returns the error of a cell with its place in the file.
    pub(super) fn blame(&self, number: usize, error: &LabError) -> LabError {
        self.places.blame(&self.cell(number), error)
    }

    fn config_of(&self, mut given: BTreeMap<&str, Vec<String>>, repetition: u32) -> Result<RunConfig, LabError> {
        let mut take = |name: &str| given.remove(name).and_then(|values| values.into_iter().next_back());
        let policy = take(POLICY)
            .ok_or_else(|| LabError::option("a cell needs a @policy: name one in [options], or several in [axes]"))?;
        let cores = take(CORES);
        let input = given.get("input").and_then(|inputs| inputs.first()).cloned();
        let input = input.ok_or_else(|| LabError::option("a cell needs an @input: a capture, or gen:PROFILE"))?;
        let mut config = RunConfig::new(Host::Sim, &input, find_named(&self.own_policies, &policy)?);
        config.own_policies.clone_from(&self.own_policies);
        let is_number = |cores: &String| cores.parse().ok().filter(|cores| (1..=16_384).contains(cores));
        config.cores = match &cores {
            Some(text) => {
                is_number(text).ok_or_else(|| LabError::of_option(CORES, format!("takes 1 to 16384, not `{text}`")))?
            }
            None => CORES_USUAL,
        };
        for option in OPTIONS.iter().filter(|option| given.contains_key(option.name)) {
            goes_together(option, &given)?;
        }
        config.apply(&given)?;
        if config.reads_once() {
            return Err(LabError::of_option(
                "input",
                "is read by every cell, which pipes and interfaces do not allow: use a file",
            ));
        }
        config.seed = Seed(self.seed(repetition));
        Ok(config)
    }

    /// Checks that every cell can be configured, until `stop` is set.
    ///
    /// # Errors
    /// As [`Self::config`], of the first cell that cannot.
    pub(super) fn check(&self, stop: &AtomicBool) -> Result<(), LabError> {
        let cells = (0..self.cells()).take_while(|_| !stop.load(Ordering::Relaxed));
        cells.into_iter().try_for_each(|cell| self.config(cell, 0).map(drop))
    }

    /// Returns what tells this plan from others, with the files that it names as they are now.
    ///
    /// # Errors
    /// A file that cannot be read, and a `stop` that is set.
    pub(super) fn identity(&self, stop: &AtomicBool) -> Result<Identity, LabError> {
        let mut files = BTreeMap::new();
        for name in self.values() {
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::option("interrupted before the first simulation: the same command begins again"));
            }
            if Path::new(name).is_file() && !files.contains_key(name) {
                let sum = sha256(Path::new(name));
                let sum = sum.map_err(|error| LabError::option(format!("`{name}` cannot be read: {error}")))?;
                files.insert(name.to_owned(), sum);
            }
        }
        let repeat = serde_json::to_string(&self.repeat).map_err(|error| LabError::option(error.to_string()))?;
        let plan = format!("{:?} {:?} {repeat} {} {files:?}", self.options, self.axes, self.seed);
        let text = format!("{} {plan}{}", env!("CARGO_PKG_VERSION"), self.own_code);
        Ok(Identity { sha256: sha256_of(text.as_bytes()), files })
    }

    /// Returns an option by which a cell goes by what was measured on this machine, so that others simulate it
    /// otherwise. `None`: there is none.
    pub fn of_this_machine(&self) -> Option<&str> {
        let given = self.options.iter().map(|(name, values)| (name.as_str(), values));
        let varied = self.axes.iter().flat_map(|axes| axes.steps.iter().map(move |step| (&axes.names, step)));
        let varied = varied.flat_map(|(names, step)| names.iter().map(String::as_str).zip(step));
        let of_machine = |name: &str| match name {
            "costs" => ["auto", "calibrated"].as_slice(),
            "host" => &["here"],
            _ => &[],
        };
        let found = given
            .chain(varied)
            .find(|(name, values)| values.iter().any(|value| of_machine(name).contains(&value.as_str())));
        found.map(|(name, _)| name)
    }

    /// Returns the plan with other places for files that it names.
    #[must_use]
    pub fn with_files(mut self, places: &BTreeMap<String, String>) -> Self {
        let varied = self.axes.iter_mut().flat_map(|axes| axes.steps.iter_mut().flatten());
        for value in self.options.values_mut().chain(varied).flatten() {
            if let Some(place) = places.get(value) {
                value.clone_from(place);
            }
        }
        self
    }

    /// Returns the plan with policies of the program, which options name as they are shown. `code` tells them from
    /// others of their names: a sweep goes on with the same ones alone.
    #[must_use]
    pub fn with_own_policies(self, own_policies: Vec<PolicySpec>, code: &str) -> Self {
        Self { own_policies, own_code: code.to_owned(), ..self }
    }

    /// Returns all values of options.
    fn values(&self) -> impl Iterator<Item = &str> {
        let varied = self.axes.iter().flat_map(|axes| axes.steps.iter().flatten());
        self.options.values().chain(varied).flatten().map(String::as_str)
    }
}

/// What tells a plan from others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Identity {
    /// Of the plan, the version of humpyard and the files.
    pub(super) sha256: String,
    /// SHA-256 of the files that options name: captures, costs, topologies.
    pub(super) files: BTreeMap<String, String>,
}

/// Checks that an option has beside it what it needs, and nothing that it excludes.
fn goes_together(option: &RunOption, given: &BTreeMap<&str, Vec<String>>) -> Result<(), LabError> {
    if let Some(other) = option.excludes.iter().find(|other| given.contains_key(*other)) {
        return Err(LabError::of_option(option.name, format!("does not go with @{other}: leave one of them out")));
    }
    match option.needs.filter(|needed| !given.contains_key(needed)) {
        Some(needed) => Err(LabError::of_option(option.name, format!("needs @{needed}: give it, too"))),
        None => Ok(()),
    }
}

/// The file of a plan.
struct PlanFile<'a>(TomlFile<'a>);

/// What the file is read into, or where it is wrong.
type Read<T> = Result<T, TextError>;

impl PlanFile<'_> {
    fn slip<T>(&self, start: usize, said: &str) -> Read<T> {
        Err(self.0.slip(start, said))
    }

    fn plan(&self) -> Read<Plan> {
        let table = self.0.table()?;
        let root = table.get_ref();
        self.0.keys(root, "key", &KEYS)?;
        let seed = self.whole(root, "seed", u64::from(u32::MAX))?.unwrap_or(1);
        let mut options = BTreeMap::new();
        for (name, value) in self.entries(root, "options")? {
            let name = self.option(name)?;
            let values = self.values(&name, value)?;
            options.insert(name, values);
        }
        let mut axes = Vec::new();
        for (name, value) in self.entries(root, "axes")? {
            let name = self.option(name)?;
            axes.push(Axes::one(name.clone(), self.steps(&name, value)?));
        }
        for (start, zip) in self.tables(root, "zip")? {
            axes.push(self.zipped(start, zip)?);
        }
        for (start, sample) in self.tables(root, "sample")? {
            axes.push(self.sample(start, sample, Seed(seed))?);
        }
        let repeat = self.repeat(root)?;
        let plan = Plan {
            options,
            axes,
            repeat,
            seed,
            own_policies: Vec::new(),
            own_code: String::new(),
            places: Places::of(self.0, root),
        };
        self.check_names(&plan)?;
        Ok(plan)
    }

    /// An option is given once, and there are not too many cells.
    fn check_names(&self, plan: &Plan) -> Read<()> {
        let mut seen: Vec<&str> = plan.options.keys().map(String::as_str).collect();
        for name in plan.varied() {
            if seen.contains(&name) {
                return self.slip(0, &format!("`{name}` is given twice: let it vary in one place, and nowhere else"));
            }
            seen.push(name);
        }
        let least = plan.repeat.least() as usize;
        let cells = plan.axes.iter().try_fold(least, |cells, axes| cells.checked_mul(axes.steps.len()));
        match cells {
            Some(0) => self.slip(0, "there is no cell: an axis has no value"),
            Some(runs) if runs <= RUNS_MAX => Ok(()),
            _ => {
                self.slip(0, &format!("there are more than {RUNS_MAX} simulations: take fewer values, or a [[sample]]"))
            }
        }
    }

    /// Returns what is in a table, in the order of the file.
    fn entries<'a, 'b>(&self, root: &'a DeTable<'b>, key: &str) -> Read<Vec<Entry<'a, 'b>>> {
        let Some(value) = root.get(key) else { return Ok(Vec::new()) };
        let DeValue::Table(table) = value.get_ref() else {
            return self.slip(value.span().start, &format!("`{key}` is a table: [{key}]"));
        };
        Ok(in_order(table))
    }

    /// Returns the tables of a list, or the only one, with their places.
    fn tables<'a, 'b>(&self, root: &'a DeTable<'b>, key: &str) -> Read<Vec<(usize, &'a DeTable<'b>)>> {
        let Some(value) = root.get(key) else { return Ok(Vec::new()) };
        let refuse = |start| self.slip(start, &format!("`{key}` is a list of tables: [[{key}]]"));
        match value.get_ref() {
            DeValue::Array(list) => list
                .iter()
                .map(|one| match one.get_ref() {
                    DeValue::Table(table) => Ok((one.span().start, table)),
                    _ => refuse(one.span().start),
                })
                .collect(),
            DeValue::Table(table) => Ok(vec![(value.span().start, table)]),
            _ => refuse(value.span().start).map(|one| vec![one]),
        }
    }

    /// Returns the name of an option that cells may have.
    fn option(&self, name: &Spanned<impl AsRef<str>>) -> Read<String> {
        let spelled = name.get_ref().as_ref().replace('_', "-");
        let of_simulations = || {
            let options = OPTIONS.iter().filter(|option| option.commands.contains(&RunCommand::Sim));
            let options = options.filter(|option| !WRITERS.contains(&option.name));
            [POLICY, CORES].into_iter().chain(options.map(|option| option.name))
        };
        if WRITERS.contains(&spelled.as_str()) {
            let said = format!("`{spelled}` writes a file, and cells would write over each other: use `humpyard sim`");
            return self.slip(name.span().start, &said);
        }
        if spelled == "seed" {
            return self
                .slip(name.span().start, "`seed` stands at the top of the file: each repetition has the next one");
        }
        if of_simulations().any(|known| known == spelled) {
            return Ok(spelled);
        }
        self.slip(name.span().start, &unknown("option", &spelled, of_simulations()))
    }

    /// Returns the values that an option has at once.
    fn values(&self, option: &str, value: &Spanned<DeValue<'_>>) -> Read<Values> {
        match value.get_ref() {
            DeValue::Array(list) if list.len() != 1 && takes_one(option) => {
                self.slip(value.span().start, &format!("`{option}` takes one value at a time"))
            }
            DeValue::Array(list) => list.iter().map(|one| self.text(option, one)).collect(),
            DeValue::Boolean(is_given) if takes_nothing(option) => Ok(vec![is_given.to_string()]),
            _ if takes_nothing(option) => {
                self.slip(value.span().start, &format!("`{option}` is given or not: true or false"))
            }
            _ => Ok(separated(option, &self.text(option, value)?)),
        }
    }

    /// Returns the values that an option has one after the other, each once.
    fn steps(&self, option: &str, value: &Spanned<DeValue<'_>>) -> Read<Vec<Values>> {
        let steps = self.steps_as_given(option, value)?;
        if steps.is_empty() {
            return self.slip(value.span().start, &format!("`{option}` has no value"));
        }
        let mut seen = BTreeSet::new();
        match steps.iter().find(|values| !seen.insert(values.iter().map(|value| alike(value)).collect::<Vec<_>>())) {
            Some(twice) => {
                let said = format!("`{option}` has the value {} twice", twice.join(","));
                self.slip(value.span().start, &said)
            }
            None => Ok(steps),
        }
    }

    fn steps_as_given(&self, option: &str, value: &Spanned<DeValue<'_>>) -> Read<Vec<Values>> {
        match value.get_ref() {
            DeValue::Array(list) => list.iter().map(|one| self.values(option, one)).collect(),
            DeValue::Table(table) => {
                let range = self.range(option, value.span().start, table)?;
                let steps = self.whole(table, "steps", STEPS_MAX)?.filter(|steps| *steps > 0);
                match steps {
                    Some(1) if range.from < range.to || range.to < range.from => {
                        self.slip(value.span().start, &format!("the range of `{option}` has two ends: 2 steps or more"))
                    }
                    Some(steps) => Ok(range.steps(steps as usize)),
                    None => self.slip(value.span().start, &format!("the range of `{option}` needs `steps`, from 1")),
                }
            }
            _ => Ok(vec![self.values(option, value)?]),
        }
    }

    fn zipped(&self, start: usize, zip: &DeTable<'_>) -> Read<Axes> {
        let mut axes = Vec::new();
        for (name, value) in in_order(zip) {
            let name = self.option(name)?;
            axes.push((name.clone(), self.steps(&name, value)?));
        }
        let Some((first, values)) = axes.first() else { return self.slip(start, "[[zip]] has no option") };
        if let Some((name, other)) = axes.iter().find(|(_, other)| other.len() != values.len()) {
            let said = format!(
                "`{first}` has {} values and `{name}` {}: what goes together has as many",
                values.len(),
                other.len()
            );
            return self.slip(start, &said);
        }
        Ok(Axes::zipped(axes))
    }

    fn sample(&self, start: usize, sample: &DeTable<'_>, seed: Seed) -> Read<Axes> {
        let Some(points) = self.whole(sample, "points", STEPS_MAX)?.filter(|points| *points > 0) else {
            return self.slip(start, "[[sample]] needs `points`, from 1");
        };
        let mut options = Vec::new();
        for (name, value) in in_order(sample).into_iter().filter(|(name, _)| name.get_ref() != "points") {
            let name = self.option(name)?;
            let span = match value.get_ref() {
                DeValue::Table(table) if table.get("steps").is_some() => {
                    let said =
                        format!("the range of `{name}` in [[sample]] has no `steps`: it has a value for each point");
                    return self.slip(value.span().start, &said);
                }
                DeValue::Table(table) => Span::Range(self.range(&name, value.span().start, table)?),
                _ => Span::Choice(self.steps(&name, value)?),
            };
            if matches!(&span, Span::Choice(values) if values.is_empty()) {
                return self.slip(value.span().start, &format!("`{name}` has no value"));
            }
            options.push((name, span));
        }
        if options.is_empty() {
            return self.slip(start, "[[sample]] has no option");
        }
        Ok(Axes::sample(&options, points as usize, seed))
    }

    fn range(&self, option: &str, start: usize, table: &DeTable<'_>) -> Read<Range> {
        self.0.keys(table, "key of a range", &RANGE_KEYS)?;
        let (Some(from), Some(to)) = (self.0.number(table, "from")?, self.0.number(table, "to")?) else {
            return self.slip(start, &format!("the range of `{option}` needs `from` and `to`"));
        };
        let is_logarithmic = match table.get("scale").map(|scale| (scale, self.text("scale", scale))) {
            None => false,
            Some((_, Ok(scale))) if scale == "log" => true,
            Some((_, Ok(scale))) if scale == "linear" => false,
            Some((scale, _)) => return self.slip(scale.span().start, "`scale` is \"linear\" or \"log\""),
        };
        if is_logarithmic && (from <= 0.0 || to <= 0.0) {
            return self.slip(start, &format!("the range of `{option}` has a logarithmic scale, so it is above 0"));
        }
        let is_whole =
            ["from", "to"].iter().all(|&key| matches!(table.get(key).map(Spanned::get_ref), Some(DeValue::Integer(_))));
        Ok(Range { from, to, is_whole, is_logarithmic })
    }

    fn repeat(&self, root: &DeTable<'_>) -> Read<Repeat> {
        let Some(value) = root.get("repeat") else { return Ok(Repeat::Times(1)) };
        let start = value.span().start;
        let DeValue::Table(table) = value.get_ref() else { return self.slip(start, "`repeat` is a table: [repeat]") };
        self.0.keys(table, "key of [repeat]", &REPEAT_KEYS)?;
        let [times, least, most] = ["times", "least", "most"].map(|key| self.whole(table, key, STEPS_MAX));
        let (times, least, most) = (times?, least?, most?);
        match (table.get("until"), times) {
            (None, Some(times)) if times > 0 && least.is_none() && most.is_none() => Ok(Repeat::Times(times as u32)),
            (Some(until), None) => {
                let text = self.text("until", until)?;
                let until_of =
                    Until::parse(&text).or_else(|error| self.slip(until.span().start, &error.to_string()))?;
                let least = least.map_or(Until::LEAST, |least| least as u32);
                let most = most.map_or(Until::MOST.max(least), |most| most as u32);
                if least < Until::LEAST || most < least {
                    let said = format!("`least` is {} or more, and `most` no less than that", Until::LEAST);
                    return self.slip(start, &said);
                }
                Ok(Repeat::Until(Until { least, most, ..until_of }))
            }
            _ => self.slip(start, "[repeat] has either `times`, from 1, or `until` with `least` and `most` beside it"),
        }
    }

    /// Returns a whole number. `None`: it is left out.
    fn whole(&self, table: &DeTable<'_>, key: &str, most: u64) -> Read<Option<u64>> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let number = match value.get_ref() {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        match number.filter(|number| *number <= most) {
            Some(number) => Ok(Some(number)),
            None => self.slip(value.span().start, &format!("`{key}` is a whole number from 0 to {most}")),
        }
    }

    /// Returns one value as the text that an option takes.
    fn text(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Read<String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Ok(number.to_string()),
                Err(_) => self.slip(value.span().start, &format!("`{key}` is too large a number")),
            },
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(_) => self.slip(value.span().start, &format!("`{key}` takes a text or a number")),
            _ => self.slip(value.span().start, &format!("`{key}` takes a text or a number here")),
        }
    }
}

/// A key and its value.
type Entry<'a, 'b> = (&'a Spanned<std::borrow::Cow<'b, str>>, &'a Spanned<DeValue<'b>>);

/// Returns what is in a table, in the order of the file.
fn in_order<'a, 'b>(table: &'a DeTable<'b>) -> Vec<Entry<'a, 'b>> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

fn option_named(name: &str) -> Option<&'static RunOption> {
    OPTIONS.iter().find(|option| option.name == name)
}

/// Whether an option has no more than one value.
fn takes_one(name: &str) -> bool {
    option_named(name).is_none_or(|option| option.times == Times::Once)
}

/// Writes a value so that numbers that are the same are written the same.
fn alike(value: &str) -> String {
    value.parse::<f64>().map_or_else(|_| value.to_owned(), |number| number.to_string())
}

/// Whether an option is given or not, without a value.
fn takes_nothing(name: &str) -> bool {
    option_named(name).is_some_and(|option| option.takes == crate::option::Takes::Nothing)
}

/// Returns whether a flag is given, and takes away the word that says so.
fn flag(values: &mut Values) -> bool {
    let is_given = values.iter().any(|value| value == "true");
    values.clear();
    is_given
}

/// Returns the values of a text: several, with commas between them, where the option takes that.
fn separated(name: &str, text: &str) -> Values {
    match option_named(name).map(|option| option.times) {
        Some(Times::Commas) => text.split(',').map(str::to_owned).collect(),
        _ => vec![text.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::parse("a.toml", text).unwrap()
    }

    const FILE: &str = "seed = 7
[options]
input = \"gen:poisson:packets=1000\"
services = \"dpi,encrypt\"
[axes]
policy = [\"hrw\", \"drr\"]
load = { from = 0.5, to = 0.9, steps = 3 }
[[zip]]
cores = [2, 4]
buffer = [64, 128]
[repeat]
times = 3
";

    #[test]
    fn cells_are_all_combinations_the_last_varies_first() {
        let plan = plan(FILE);
        assert_eq!((plan.cells(), plan.varied().collect::<Vec<_>>()), (12, vec!["policy", "load", "cores", "buffer"]));
        let text = |number| plan.cell(number).to_string();
        assert_eq!(text(0), "cell 0 (policy = hrw, load = 0.5, cores = 2, buffer = 64)");
        assert_eq!(text(1), "cell 1 (policy = hrw, load = 0.5, cores = 4, buffer = 128)");
        assert_eq!(text(11), "cell 11 (policy = drr, load = 0.9, cores = 4, buffer = 128)");
        assert!((0..12).all(|number| plan.input_of(number) == 0));
        let config = plan.config(7, 2).unwrap();
        assert_eq!((config.cores, config.buffer, config.seed), (4, 128, Seed(9)));
        assert_eq!(config.chains, [("dpi".to_owned(), vec!["encrypt".to_owned()])]);
        assert!(plan.check(&AtomicBool::new(false)).is_ok());
    }

    #[test]
    fn cells_with_the_same_input_are_known() {
        let plan = plan(
            "[options]\ncores = 2\n[axes]\npolicy = [\"hrw\", \"drr\"]\ninput = [\"gen:poisson\", \"gen:messages\"]\n\
            load = [0.5, 0.9]\npackets = [10, 20]\n",
        );
        let numbers: Vec<usize> = (0..plan.cells()).map(|number| plan.input_of(number)).collect();
        assert_eq!(numbers, [0, 2, 0, 2, 1, 3, 1, 3].repeat(2));
        assert!(READ.iter().all(|name| option_named(name).is_some()));
    }

    /// Else an ended sweep could not go on.
    #[test]
    fn a_plan_is_known_by_what_it_says() {
        let until = FILE.replace("times = 3", "until = \"p99 within 2%\"");
        let sha256 = |text: &str| plan(text).identity(&AtomicBool::new(false)).unwrap().sha256;
        assert!(!format!("{:?}", serde_json::to_string(&plan(&until).repeat).unwrap()).contains("0x"));
        assert_eq!(sha256(&until), sha256(&until));
        assert_ne!(sha256(&until), sha256(&until.replace("2%", "3%")));
        assert_ne!(sha256(FILE), sha256(&FILE.replace("seed = 7", "seed = 8")));
    }

    #[test]
    fn a_sample_has_its_points() {
        let plan = plan(
            "[options]\ninput = \"gen:poisson\"\npolicy = \"hrw\"\n[[sample]]\npoints = 5\n\
            cores = { from = 1, to = 16, scale = \"log\" }\nload = { from = 0.1, to = 1.0 }\n",
        );
        assert_eq!((plan.cells(), plan.repeat().least()), (5, 1));
        assert!((0..5).all(|cell| (1..=16).contains(&plan.config(cell, 0).unwrap().cores)));
    }

    #[test]
    fn a_flag_is_given_or_not() {
        let text = "[options]\ninput = \"gen:poisson\"\npolicy = \"hrw\"\n";
        let given = |text: &str, cell| plan(text).config(cell, 0).unwrap().interrupted;
        let axis = format!("{text}[axes]\ninterrupted = [true, false]\n");
        assert_eq!([given(&axis, 0), given(&axis, 1)], [true, false]);
        assert_eq!(plan(&axis).cell(1).to_string(), "cell 1 (interrupted = false)");
        assert!(given(&format!("{text}interrupted = true\n"), 0));
        assert!(!given(&format!("{text}interrupted = false\n"), 0));
    }

    #[test]
    fn slips_are_told_with_their_place() {
        for (text, said) in [
            ("axis = 1", "a.toml:1:1: no key `axis`; did you mean `axes`?"),
            ("[axes]\nplicy = [\"a\"]", "a.toml:2:1: no option `plicy`; did you mean `policy`?"),
            ("[options]\njournal = \"a\"", "a.toml:2:1: `journal` writes a file"),
            ("[axes]\nload = { from = 1 }", "a.toml:2:8: the range of `load` needs `from` and `to`"),
            ("[axes]\nload = { from = 1, to = 2 }", "a.toml:2:8: the range of `load` needs `steps`"),
            (
                "[axes]\nload = { from = 0, to = 2, steps = 2, scale = \"log\" }",
                "a.toml:2:8: the range of `load` has a log",
            ),
            ("[options]\nload = 1\n[axes]\nload = [1, 2]", "a.toml:1:1: `load` is given twice"),
            ("[axes]\nload = []", "a.toml:2:8: `load` has no value"),
            ("[axes]\nload = [0.5, \"0.50\"]", "a.toml:2:8: `load` has the value 0.50 twice"),
            ("[axes]\nload = [[0.5, 0.6]]", "a.toml:2:9: `load` takes one value at a time"),
            ("[axes]\nload = { from = 1, to = 2, steps = 1 }", "a.toml:2:8: the range of `load` has two ends"),
            ("[axes]\ninterrupted = [1]", "a.toml:2:16: `interrupted` is given or not: true or false"),
            ("[axes]\ninterrupted = [true, true]", "a.toml:2:15: `interrupted` has the value true twice"),
            ("[axes]\nseed = [1]", "a.toml:2:1: `seed` stands at the top"),
            ("[[sample]]\npoints = 2", "a.toml:1:1: [[sample]] has no option"),
            ("[[sample]]\npoints = 2\nload = { from = 1, to = 2, steps = 3 }", "a.toml:3:8: the range of `load` in"),
            (
                "[axes]\nload = { from = 1.0, to = 2.0, steps = 1000 }\n\
                buffer = { from = 1, to = 1000000, steps = 1000000 }",
                "a.toml:1:1: there are more than 10000000 simulations",
            ),
            ("[[zip]]\nload = [1, 2]\ncores = [1]", "a.toml:1:1: `load` has 2 values and `cores` 1"),
            ("[[sample]]\nload = [1]", "a.toml:1:1: [[sample]] needs `points`"),
            ("[repeat]\ntimes = 0", "a.toml:1:1: [repeat] has either `times`"),
            ("[repeat]\nuntil = \"p98 within 1%\"", "a.toml:2:9: no figure `p98`"),
            ("[repeat]\nuntil = \"p99 within 1%\"\nleast = 2", "a.toml:1:1: `least` is 6 or more"),
            ("seed = \"a\"", "a.toml:1:8: `seed` is a whole number"),
        ] {
            let error = Plan::parse("a.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_cell_cannot_have_is_told_with_the_cell() {
        let of = |text: &str| plan(text).check(&AtomicBool::new(false)).unwrap_err().to_string();
        assert_eq!(
            of("[options]\ninput = \"gen:poisson\"\n[axes]\npolicy = [\"hrw\", \"hrv\"]")[..53],
            *"a.toml:4:18: cell 1 (policy = hrv): no policy `hrv`; "
        );
        assert!(of("[options]\ninput = \"gen:poisson\"").contains("a cell needs a policy"));
        assert!(of("[options]\npolicy = \"hrw\"").contains("a cell needs an input"));
        let both = of("[options]\ninput = \"gen:poisson\"\npolicy = \"hrw\"\nrate = 5\n[axes]\nload = [0.5]");
        assert!(both.contains("does not go with"), "{both}");
    }
}
