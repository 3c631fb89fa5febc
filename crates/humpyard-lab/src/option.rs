//! How an option of a run is declared: its name, its help, the values it takes, and where these go.

use core::fmt::Display;
use core::ops::RangeInclusive;
use core::str::FromStr;
use core::time::Duration;
use std::collections::BTreeMap;

use humpyard_core::name::unknown;
use humpyard_text::quantity::{parse_duration, parse_whole};

use crate::LabError;

/// An option that decides what a run of type `C` does: `--name` on the command line, `name` in configuration files and results.
#[derive(Clone, Copy, Debug)]
pub struct OptionOf<C> {
    /// Its name.
    pub name: &'static str,
    /// A sentence without its full stop, for people, with names of options behind `@`: see [`spelled`](crate::spelled).
    pub help: &'static str,
    /// The values that it takes.
    pub takes: Takes,
    /// How often it may be given.
    pub times: Times,
    /// The value that holds where none is given. `None`: the help says what holds.
    pub default: Option<&'static str>,
    /// Where it stands in the help.
    pub group: Group,
    /// The commands that have it.
    pub commands: &'static [RunCommand],
    /// Options that cannot be given beside it.
    pub excludes: &'static [&'static str],
    /// The option without which it cannot be given.
    pub needs: Option<&'static str>,
    /// Whether a command without it does nothing.
    pub is_required: bool,
    set: Set<C>,
    show: fn(&C) -> Option<String>,
}

/// What the values of an option do to a run.
#[derive(Clone, Copy, Debug)]
enum Set<C> {
    Plain(fn(&mut C, Values<'_>)),
    Reading(fn(&mut C, Values<'_>) -> Result<(), LabError>),
}

/// The commands that make runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunCommand {
    /// One live run.
    Run,
    /// One simulation.
    Sim,
    /// Several policies, live or simulated.
    Compare,
    /// A search for a policy.
    Recommend,
    /// The simulator beside a live run.
    Validate,
    /// The story of a packet of a simulation.
    Why,
}

/// What an option takes. Names in capitals stand for values in the help.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Takes {
    /// Nothing: it is given or not.
    Nothing,
    /// A whole number in this range.
    Whole(&'static str, u64, u64),
    /// A number, or its percentage.
    Number(&'static str),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A text.
    Text(&'static str),
    /// A text that may begin with a hyphen, such as a negative time, which is then rejected with the reason.
    Time(&'static str),
}

/// How often an option may be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    /// Once.
    Once,
    /// Several times.
    Several,
    /// Several times, or once with commas between values.
    Commas,
}

/// Where an option stands in the help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Among those that one needs first, in this place.
    First(usize),
    /// Under this heading.
    Under(&'static str),
}

impl Group {
    /// Returns the place of the group in the help.
    pub fn place(self) -> usize {
        match self {
            Self::First(_) => 0,
            Self::Under(heading) => 1 + HEADINGS.iter().take_while(|&&other| other != heading).count(),
        }
    }
}

/// The headings of the help, in order.
const HEADINGS: [&str; 7] =
    ["Traffic", "Policy", "Services and costs", "Cores", "Order and buffers", "Output and records", "Live"];

impl<C> OptionOf<C> {
    /// Declares an option that is a flag of all commands.
    pub(crate) const fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            takes: Takes::Nothing,
            times: Times::Once,
            default: None,
            group: TRAFFIC,
            commands: &[
                RunCommand::Run,
                RunCommand::Sim,
                RunCommand::Compare,
                RunCommand::Recommend,
                RunCommand::Validate,
                RunCommand::Why,
            ],
            excludes: &[],
            needs: None,
            is_required: false,
            set: Set::Plain(|_, _| ()),
            show: |_| None,
        }
    }

    /// Sets the values that it takes, and how often.
    pub(crate) const fn takes(self, takes: Takes, times: Times) -> Self {
        Self { takes, times, ..self }
    }

    /// Sets the value that holds where none is given.
    pub(crate) const fn default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Requires it.
    pub(crate) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// Sets where it stands in the help.
    pub(crate) const fn group(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// Sets the commands that have it.
    pub(crate) const fn of(self, commands: &'static [RunCommand]) -> Self {
        Self { commands, ..self }
    }

    /// Sets the options that cannot be given beside it.
    pub(crate) const fn excludes(self, excludes: &'static [&'static str]) -> Self {
        Self { excludes, ..self }
    }

    /// Sets the option without which it cannot be given.
    pub(crate) const fn needs(self, needs: &'static str) -> Self {
        Self { needs: Some(needs), ..self }
    }

    /// Sets what its values do, which it cannot reject.
    pub(crate) const fn sets(self, set: fn(&mut C, Values<'_>)) -> Self {
        Self { set: Set::Plain(set), ..self }
    }

    /// Sets what its values do, if they can be read.
    pub(crate) const fn reads(self, set: fn(&mut C, Values<'_>) -> Result<(), LabError>) -> Self {
        Self { set: Set::Reading(set), ..self }
    }

    /// Sets how results show it.
    pub(crate) const fn shows(self, show: fn(&C) -> Option<String>) -> Self {
        Self { show, ..self }
    }

    /// Whether it is for live runs alone.
    pub fn is_live_only(&self) -> bool {
        self.commands.contains(&RunCommand::Run) && !self.commands.contains(&RunCommand::Sim)
    }

    /// Returns what a result says of it. `None`: nothing.
    pub(crate) fn shown(&self, config: &C) -> Option<String> {
        (self.show)(config)
    }

    /// Checks values and does what they say. A flag has none.
    pub(crate) fn apply(&self, config: &mut C, values: &[String]) -> Result<(), LabError> {
        let values = Values { name: self.name, texts: values };
        values.texts.iter().try_for_each(|text| self.check(text))?;
        match self.set {
            Set::Plain(set) => set(config, values),
            Set::Reading(set) => set(config, values).map_err(|error| error.of(self.name))?,
        }
        Ok(())
    }

    fn check(&self, text: &str) -> Result<(), LabError> {
        let refuse =
            |accepts: &dyn Display| Err(LabError::of_option(self.name, format!("takes {accepts}, not `{text}`")));
        match self.takes {
            Takes::Whole(_, least, most)
                if !parse_whole(text).is_some_and(|number| (least..=most).contains(&number)) =>
            {
                refuse(&format_args!("{least} to {most}"))
            }
            Takes::Number(_) if number_of(text).is_none() => refuse(&"a number"),
            Takes::OneOf(names) if !names.contains(&text) => {
                Err(LabError::option(unknown("value", text, names.iter().copied())).of(self.name))
            }
            _ => Ok(()),
        }
    }
}

/// Applies values to a run, in the order of its options.
///
/// # Errors
/// An unknown option, and a value that an option does not take.
pub(crate) fn apply<C>(
    options: &[OptionOf<C>],
    config: &mut C,
    given: &BTreeMap<&str, Vec<String>>,
) -> Result<(), LabError> {
    let names = || options.iter().map(|option| option.name);
    if let Some(name) = given.keys().find(|&&name| names().all(|known| known != name)) {
        return Err(LabError::option(unknown("option", name, names())));
    }
    let mut in_order = options.iter().filter_map(|option| Some((option, given.get(option.name)?)));
    in_order.try_for_each(|(option, values)| option.apply(config, values))
}

/// Returns the number of a text: `0.9`, or `90%`. `None`: it is none.
pub fn number_of(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

/// The values of an option, as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    name: &'static str,
    texts: &'a [String],
}

impl<'a> Values<'a> {
    /// Returns all of them.
    pub(crate) fn all(self) -> impl Iterator<Item = &'a str> {
        self.texts.iter().map(String::as_str)
    }

    /// Returns the last; a flag has an empty one.
    pub(crate) fn one(self) -> &'a str {
        self.texts.last().map_or("", String::as_str)
    }

    /// Returns the last, of whatever reads it.
    pub(crate) fn parsed<T: FromStr<Err: Into<LabError>>>(self) -> Result<T, LabError> {
        self.one().parse().map_err(Into::into)
    }

    /// Returns all of them, read by a function.
    pub(crate) fn each<T>(self, parse: impl Fn(&str) -> Result<T, LabError>) -> Result<Vec<T>, LabError> {
        self.all().map(parse).collect()
    }

    /// Returns the last, a whole number.
    pub(crate) fn whole<T: TryFrom<u64>>(self) -> Result<T, LabError> {
        let number = parse_whole(self.one()).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| LabError::of_option(self.name, format!("takes a whole number, not `{}`", self.one())))
    }

    /// Returns the last, a number in a range.
    pub(crate) fn within(self, range: &RangeInclusive<f64>, example: &str) -> Result<f64, LabError> {
        let number = number_of(self.one()).unwrap_or(f64::NAN);
        if range.contains(&number) {
            return Ok(number);
        }
        let (least, most) = (range.start(), range.end());
        Err(LabError::of_option(
            self.name,
            format!("takes a number from {least} to {most}, {example} for example, not {number:?}"),
        ))
    }

    /// Returns the last, a time.
    pub(crate) fn time(self) -> Result<Duration, LabError> {
        Ok(parse_duration(self.one())?)
    }

    /// Returns what each value says of a service: see [`by_service`].
    pub(crate) fn by_service<T>(
        self,
        parse: impl Fn(&str) -> Result<(String, T), LabError>,
    ) -> Result<Vec<(String, T)>, LabError> {
        by_service(self.name, self.texts, parse)
    }
}

/// Returns what each value of an option says of a service, which it may name once; without a name, of all others.
///
/// # Errors
/// What `parse` returns, and a service that is named twice.
pub fn by_service<T, E: From<LabError>>(
    option: &'static str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<(String, T), E>,
) -> Result<Vec<(String, T)>, E> {
    let mut given: Vec<(String, T)> = Vec::with_capacity(texts.len());
    for text in texts {
        let (service, value) = parse(text)?;
        if given.iter().any(|(other, _)| *other == service) {
            let what = if service.is_empty() { "what holds for all others".to_owned() } else { format!("`{service}`") };
            return Err(LabError::of_option(option, format!("`{text}`: {what} is given twice: give it once")).into());
        }
        given.push((service, value));
    }
    Ok(given)
}

/// Reads `TIME`, which holds for all services, or `SERVICE=TIME`.
pub(crate) fn time_of_service(text: &str) -> Result<(String, Duration), LabError> {
    match text.split_once('=') {
        Some(("", _)) => Err(LabError::option(format!("reads TIME or SERVICE=TIME, not `{text}`"))),
        Some((service, time)) => Ok((service.to_owned(), parse_duration(time)?)),
        None => Ok((String::new(), parse_duration(text)?)),
    }
}

/// The commands of live runs.
pub(crate) const LIVE: &[RunCommand] = &[RunCommand::Run, RunCommand::Compare];
pub(crate) const LIVE_AND_SIM: &[RunCommand] =
    &[RunCommand::Run, RunCommand::Sim, RunCommand::Compare, RunCommand::Why];
pub(crate) const RUN: &[RunCommand] = &[RunCommand::Run];
pub(crate) const WITH_DISPATCHERS: &[RunCommand] =
    &[RunCommand::Run, RunCommand::Sim, RunCommand::Compare, RunCommand::Recommend, RunCommand::Validate];
pub(crate) const RUN_AND_SIM: &[RunCommand] = &[RunCommand::Run, RunCommand::Sim];

/// Places in the help.
pub(crate) const TRAFFIC: Group = Group::Under(HEADINGS[0]);
pub(crate) const POLICY: Group = Group::Under(HEADINGS[1]);
pub(crate) const SERVICES: Group = Group::Under(HEADINGS[2]);
pub(crate) const CORES: Group = Group::Under(HEADINGS[3]);
pub(crate) const ORDER: Group = Group::Under(HEADINGS[4]);
pub(crate) const RECORDS: Group = Group::Under(HEADINGS[5]);
pub(crate) const LIVE_ONLY: Group = Group::Under(HEADINGS[6]);

/// How results show that there is nothing of a kind.
pub(crate) const NONE: &str = "none";

/// Joins values with commas.
pub(crate) fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

/// Shows a limit, the greatest of which is none.
pub(crate) fn limit(packets: u32) -> String {
    if packets == u32::MAX { NONE.to_owned() } else { packets.to_string() }
}
