//! The options of runs on the command line, as the laboratory declares them.

use core::marker::PhantomData;
use core::ops::Deref;
use std::collections::BTreeMap;

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use humpyard::lab::option::{Group, RunCommand, Takes, Times, number_of};
use humpyard::lab::{OPTIONS, RunConfig, RunOption, parse_count, parse_whole, spelled};

use crate::failure::Failure;

/// The options of a run that were given, with their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(BTreeMap<&'static str, Vec<String>>);

impl Given {
    /// Returns the values of an option.
    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the value of an option that is given once.
    pub(crate) fn one(&self, name: &str) -> Option<&String> {
        self.all(name).last()
    }

    /// Returns the options that are given, in the order in which they apply.
    pub(crate) fn options(&self) -> impl Iterator<Item = &'static RunOption> {
        OPTIONS.iter().filter(|option| self.0.contains_key(option.name))
    }

    /// Does to a configuration what the options say.
    pub(crate) fn apply(&self, config: &mut RunConfig) -> Result<(), Failure> {
        Ok(config.apply(&self.0)?)
    }
}

/// A command that has options of runs.
pub(crate) trait MakesRuns {
    /// Which one it is.
    const COMMAND: RunCommand;
    /// The option instead of which required ones are given. `None`: they must be given.
    const INSTEAD: Option<&'static str> = None;
}

/// `humpyard run`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForRun;
/// `humpyard sim`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForSim;
/// `humpyard compare`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForCompare;
/// `humpyard recommend`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForRecommend;
/// `humpyard validate`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForValidate;

/// `humpyard why`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForWhy;

impl MakesRuns for ForRun {
    const COMMAND: RunCommand = RunCommand::Run;
}
impl MakesRuns for ForSim {
    const COMMAND: RunCommand = RunCommand::Sim;
}
impl MakesRuns for ForCompare {
    const COMMAND: RunCommand = RunCommand::Compare;
}
impl MakesRuns for ForRecommend {
    const COMMAND: RunCommand = RunCommand::Recommend;
}
impl MakesRuns for ForValidate {
    const COMMAND: RunCommand = RunCommand::Validate;
}
impl MakesRuns for ForWhy {
    const COMMAND: RunCommand = RunCommand::Why;
    const INSTEAD: Option<&'static str> = Some("journal");
}

/// The options of runs that a command has.
#[derive(Clone, Debug)]
pub(crate) struct OptionsOf<C> {
    given: Given,
    command: PhantomData<C>,
}

impl<C> Deref for OptionsOf<C> {
    type Target = Given;

    fn deref(&self) -> &Given {
        &self.given
    }
}

/// Returns the options that a command has.
fn options_of<C: MakesRuns>() -> impl Iterator<Item = &'static RunOption> {
    OPTIONS.iter().filter(|option| option.commands.contains(&C::COMMAND))
}

impl<C: MakesRuns> Args for OptionsOf<C> {
    fn augment_args(command: Command) -> Command {
        let mut options: Vec<&RunOption> = options_of::<C>().collect();
        options.sort_by_key(|option| option.group.place());
        options.into_iter().fold(command, |command, option| command.arg(argument(option, C::INSTEAD)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: MakesRuns> FromArgMatches for OptionsOf<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_typed = |option: &&RunOption| {
            matches.value_source(option.name).is_some_and(|source| source == ValueSource::CommandLine)
        };
        let values = |option: &RunOption| match option.takes {
            Takes::Nothing => Vec::new(),
            _ => matches.get_raw(option.name).into_iter().flatten().map(|text| text.to_string_lossy().into()).collect(),
        };
        let given = options_of::<C>().filter(is_typed).map(|option| (option.name, values(option))).collect();
        Ok(Self { given: Given(given), command: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Reads a number as options take it.
fn number(text: &str) -> Result<f64, &'static str> {
    number_of(text).ok_or("not a number, such as 0.9 or 90%")
}

/// Returns what reads a whole number in this range, such as 200000 or 200k.
pub(crate) fn whole<T: TryFrom<u64>>(least: u64, most: u64) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let Some(number) = parse_whole(text) else {
            let is_large = parse_count(text).is_some_and(|number| number >= u64::MAX as f64);
            let said = if is_large { "too large a number" } else { "not a whole number, such as 200000 or 200k" };
            return Err(said.to_owned());
        };
        let fits = (least..=most).contains(&number).then_some(number);
        fits.and_then(|number| number.try_into().ok()).ok_or_else(|| {
            if most == u64::MAX {
                format!("{number} is less than {least}")
            } else {
                format!("{number} is not in {least}..={most}")
            }
        })
    }
}

/// Declares an option for the parser of the command line; where it is required, `instead` may be given instead.
fn argument(option: &'static RunOption, instead: Option<&'static str>) -> Arg {
    let argument =
        Arg::new(option.name).long(option.name).help(spelled(option.help, "--")).conflicts_with_all(option.excludes);
    let argument = match option.takes {
        Takes::Nothing => argument.action(ArgAction::SetTrue),
        Takes::Whole(name, least, most) => argument.value_name(name).value_parser(whole::<u64>(least, most)),
        Takes::Number(name) => argument.value_name(name).value_parser(number).allow_negative_numbers(true),
        Takes::OneOf(names) => argument.value_name("CHOICE").value_parser(PossibleValuesParser::new(names)),
        Takes::Text(name) => argument.value_name(name),
        Takes::Time(name) => argument.value_name(name).allow_hyphen_values(true),
    };
    let argument = match (option.times, option.takes) {
        (_, Takes::Nothing) | (Times::Once, _) => argument,
        (Times::Several, _) => argument.action(ArgAction::Append),
        (Times::Commas, _) => argument.action(ArgAction::Append).value_delimiter(','),
    };
    let argument = match option.group {
        Group::First(place) => argument.display_order(place),
        Group::Under(heading) => argument.help_heading(heading),
    };
    let argument = option.needs.into_iter().fold(argument, Arg::requires);
    let argument = option.default.into_iter().fold(argument, Arg::default_value);
    match instead {
        Some(instead) if option.is_required => argument.required_unless_present(instead),
        _ => argument.required(option.is_required),
    }
}
