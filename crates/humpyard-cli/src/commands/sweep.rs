//! `sweep`: many simulations, one for each combination of options.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use clap::{Args, Subcommand};
use humpyard::lab::report::ReportFile;
use humpyard::lab::sweep::{Difference, Plan, PlotRequest, Swept, difference, plot, sweep as run};
use serde::Serialize;

use crate::caller::{self, OwnPolicies};
use crate::commands::dask;
use crate::examples::{DIFF_EXAMPLES, PLOT_EXAMPLES, SWEEP_EXAMPLES};
use crate::failure::Failure;
use crate::figures::counted;
use crate::layout::Sheet;
use crate::output::{Output, OutputOptions};
use crate::progress::Progress;
use crate::stop;

/// What `humpyard sweep` takes.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = SWEEP_EXAMPLES)]
pub(crate) struct SweepArguments {
    #[command(subcommand)]
    pub(crate) command: Option<SweepCommand>,
    /// A file that says which options vary, and over what
    #[arg(value_name = "FILE.toml", required = true)]
    pub(crate) file: Option<String>,
    /// The directory for the dataset and its manifest [default: the name of the file without .toml]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<String>,
    /// Threads; they change nothing but the time it takes [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Have the workers of this Dask scheduler simulate, by the Python package humpyard; HUMPYARD_PYTHON names the
    /// Python that has it [default: python3]
    #[arg(long, value_name = "tcp://HOST:PORT", conflicts_with = "threads")]
    pub(crate) dask: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    /// No progress bar
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// What is done with sweeps that are over.
#[derive(Debug, Subcommand)]
pub(crate) enum SweepCommand {
    /// Draw a figure over an option, with a line for each value of another
    #[command(after_help = PLOT_EXAMPLES)]
    Plot(PlotArguments),
    /// Compare two sweeps, simulation by simulation
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArguments),
}

#[derive(Debug, Args)]
pub(crate) struct PlotArguments {
    /// The directory of a sweep
    #[arg(value_name = "DIR")]
    pub(crate) directory: String,
    /// The option of the horizontal axis
    #[arg(long, value_name = "OPTION")]
    pub(crate) x: String,
    /// The figure of the vertical axis: p50, p99, or a column of the dataset
    #[arg(long, value_name = "FIGURE")]
    pub(crate) y: String,
    /// The option that has a line for each of its values
    #[arg(long, value_name = "OPTION")]
    pub(crate) line: Option<String>,
    /// Show only simulations with this value; may be given several times
    #[arg(long, value_name = "OPTION=VALUE")]
    pub(crate) only: Vec<String>,
    /// Axes with equal distances for equal ratios
    #[arg(long, value_name = "x|y|xy")]
    pub(crate) log: Option<String>,
    /// The file of the plot (SVG) [default: DIR/FIGURE.svg]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    #[command(flatten)]
    pub(crate) answer: OutputOptions,
}

/// What `sweep plot` answers.
#[derive(Debug, Serialize)]
struct Drawn<'a> {
    /// The file.
    plot: &'a str,
}

impl PlotArguments {
    /// Returns the file of the plot.
    pub(crate) fn path(&self) -> String {
        let beside = || Path::new(&self.directory).join(format!("{}.svg", self.y)).display().to_string();
        self.output.clone().unwrap_or_else(beside)
    }
}

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The directory of a sweep
    #[arg(value_name = "DIR")]
    pub(crate) first: String,
    /// The directory of another
    #[arg(value_name = "DIR")]
    pub(crate) second: String,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// `humpyard sweep`.
pub(crate) fn sweep(arguments: &SweepArguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Some(SweepCommand::Plot(arguments)) => draw(arguments),
        Some(SweepCommand::Diff(arguments)) => diff(arguments),
        None => simulate(arguments),
    }
}

fn simulate(arguments: &SweepArguments) -> Result<ExitCode, Failure> {
    let file = arguments.file.as_deref().ok_or_else(|| Failure::new("sweep: name a file of what varies"))?;
    let OwnPolicies { policies, code } = caller::own_policies();
    let plan = Plan::read(file)?.with_own_policies(policies, &code);
    let directory = directory(arguments, file)?;
    let threads = arguments.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    let threads = threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let stop = stop::on_signal()?;
    let progress = Progress::new("sweep", arguments.quiet);
    let mut show = |done: usize, all: usize| {
        progress.count(done as u64, &format!("of {all} simulations"), Some(done as f64 / all.max(1) as f64));
    };
    let swept = match &arguments.dask {
        Some(scheduler) => dask::sweep((file, &plan), &directory, scheduler, &stop, &mut show),
        None => run(&plan, &directory, threads, &stop, &mut show).map_err(Failure::from),
    };
    drop(progress);
    let swept = swept?;
    let output = Output::of(&arguments.output);
    if !swept.interrupted {
        output.answer(&swept, || text(&swept))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !output.is_text() {
        output.answer(&swept, String::new)?;
    }
    Err(Failure::new(format!(
        "interrupted: {} of {} done; the same command continues, in {}",
        swept.runs,
        counted(swept.planned as u64, "simulation"),
        directory.display()
    )))
}

/// Returns the directory of a sweep: the one that was named, or the file without its ending.
fn directory(arguments: &SweepArguments, file: &str) -> Result<PathBuf, Failure> {
    match (&arguments.out, file.strip_suffix(".toml")) {
        (Some(directory), _) if directory.is_empty() => Err(Failure::new("--out takes a directory, not an empty name")),
        (Some(directory), _) => Ok(directory.into()),
        (None, Some(directory)) if !directory.is_empty() => Ok(directory.into()),
        _ => Err(Failure::new(format!("`{file}` does not end in .toml: name a directory with --out"))),
    }
}

fn text(swept: &Swept) -> String {
    let before = if swept.simulated < swept.runs { ", the others before" } else { "" };
    format!(
        "{} in {}; {} simulated now{before}. Dataset: {}; what it was made of: {}\n",
        counted(swept.runs as u64, "simulation"),
        counted(swept.cells as u64, "cell"),
        swept.simulated,
        swept.dataset,
        swept.manifest
    )
}

fn draw(arguments: &PlotArguments) -> Result<ExitCode, Failure> {
    let pair = |text: &String| {
        let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| Failure::new(format!("--only reads OPTION=VALUE, not `{text}`")))
    };
    let log = arguments.log.as_deref().unwrap_or_default();
    if !["", "x", "y", "xy"].contains(&log) {
        return Err(Failure::new(format!("--log takes x, y or xy, not `{log}`")));
    }
    let request = PlotRequest {
        x: arguments.x.clone(),
        y: arguments.y.clone(),
        line: arguments.line.clone(),
        only: arguments.only.iter().map(pair).collect::<Result<_, _>>()?,
        logarithmic: [log.contains('x'), log.contains('y')],
    };
    let svg = plot(Path::new(&arguments.directory), &request)?;
    let path = arguments.path();
    ReportFile::create(&path)?.write(&svg.file())?;
    Output::of(&arguments.answer).answer(&Drawn { plot: &path }, || format!("{path}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn diff(arguments: &DiffArguments) -> Result<ExitCode, Failure> {
    let found = difference(Path::new(&arguments.first), Path::new(&arguments.second))?;
    Output::of(&arguments.output).answer(&found, || difference_text(&found))?;
    Ok(ExitCode::from(u8::from(!found.is_none())))
}

fn difference_text(found: &Difference) -> String {
    let mut said = format!("{} in both", counted(found.both as u64, "simulation"));
    for (count, place) in [(found.only_first, "first"), (found.only_second, "second")] {
        if count > 0 {
            said.push_str(&format!(", {count} in the {place} only"));
        }
    }
    if found.figures.is_empty() {
        return format!("{said}; what both have is the same.\n");
    }
    let mut table = Sheet::of_text(&["figure", "simulations", "most at", "first", "second"]);
    for figure in &found.figures {
        table.add_row([
            figure.figure.as_str(),
            &figure.runs.to_string(),
            &figure.at,
            &figure.first.to_string(),
            &figure.second.to_string(),
        ]);
    }
    format!("{said}. These figures differ:\n{table}\n")
}
