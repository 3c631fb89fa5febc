//! `map`: which policy suits which traffic, cores and host, by simulation of all of them.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use humpyard::lab::LabError;
use humpyard::lab::map::{MapOptions, Mapped, map as run};
use humpyard::lab::sweep::sweep;

use crate::commands::dask;
use crate::examples::MAP_EXAMPLES;
use crate::failure::Failure;
use crate::figures::{counted, percent};
use crate::options::whole;
use crate::output::{Output, OutputOptions};
use crate::progress::Progress;
use crate::stop;

/// What `humpyard map` takes.
#[derive(Debug, Args)]
#[command(after_help = MAP_EXAMPLES)]
pub(crate) struct MapArguments {
    /// The directory for the page, the tables, the rule, and the sweeps that they are made of
    #[arg(long, value_name = "DIR", default_value = "map")]
    pub(crate) out: String,
    /// Fewer loads and packets, and 4 cores alone: a few minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Map this capture, too, and judge the rule on it, which is not learnt from it; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Vec<String>,
    /// Map this class of traffic and no other that is not named; may be given several times [default: all]
    #[arg(long, value_name = "CLASS")]
    pub(crate) only: Vec<String>,
    /// Packets of a simulation, in one round [default: 30000, 100000, then 300000; with --quick 10000]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(100, 100_000_000))]
    pub(crate) packets: Option<u64>,
    /// Threads; they change nothing but the time it takes [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Have the workers of this Dask scheduler simulate, as `humpyard sweep --dask` does
    #[arg(long, value_name = "tcp://HOST:PORT", conflicts_with = "threads")]
    pub(crate) dask: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    /// No progress bar
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// `humpyard map`.
pub(crate) fn map(arguments: &MapArguments) -> Result<ExitCode, Failure> {
    if arguments.out.is_empty() {
        return Err(Failure::new("--out takes a directory, not an empty name"));
    }
    let options = MapOptions {
        directory: (&arguments.out).into(),
        is_quick: arguments.quick,
        captures: arguments.capture.clone(),
        only: arguments.only.clone(),
        packets: arguments.packets,
    };
    let threads = arguments.threads.and_then(|threads| NonZeroUsize::new(threads.into()));
    let threads = threads.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let stop = stop::on_signal()?;
    let progress = Progress::new("map", arguments.quiet);
    let mapped = run(
        &options,
        &stop,
        &mut |file, plan, directory, show| match &arguments.dask {
            Some(scheduler) => dask::sweep((&file.to_string_lossy(), plan), directory, scheduler, &stop, show)
                .map_err(|failure| LabError::option(failure.to_string())),
            None => sweep(plan, directory, threads, &stop, show),
        },
        &mut |done, part, place| {
            progress.count(done as u64, &format!("simulations, {} ({place})", percent(part)), Some(part));
        },
    );
    drop(progress);
    let mapped = mapped?;
    let output = Output::of(&arguments.output);
    if !mapped.interrupted {
        output.answer(&mapped, || text(&mapped))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !output.is_text() {
        output.answer(&mapped, String::new)?;
    }
    Err(Failure::new(format!(
        "interrupted: {} done; the same command continues, in {}",
        counted(mapped.simulations as u64, "simulation"),
        mapped.directory
    )))
}

fn text(mapped: &Mapped) -> String {
    let mut said = String::new();
    for (heading, lines) in
        [("If the order of flows must be kept", &mapped.order_kept), ("If it need not be kept", &mapped.any_order)]
    {
        said.push_str(&format!("{heading}:\n"));
        lines.iter().for_each(|line| said.push_str(&format!("  {line}\n")));
        said.push('\n');
    }
    if mapped.classes == 1 {
        said.push_str("These rules are of one class, and nothing judges them on other traffic.\n\n");
    }
    let before = if mapped.simulated < mapped.simulations { ", the others before" } else { "" };
    said.push_str(&format!(
        "{} of {} in {}; {} simulated now{before}. The page: {}/index.md\n",
        counted(mapped.simulations as u64, "simulation"),
        if mapped.classes == 1 {
            "1 class of traffic".to_owned()
        } else {
            format!("{} classes of traffic", mapped.classes)
        },
        counted(mapped.cells as u64, "cell"),
        mapped.simulated,
        mapped.directory
    ));
    said
}
