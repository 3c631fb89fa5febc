//! `demo`: calls and downloads on this machine under several policies, simulated and live.

use std::process::ExitCode;

use humpyard::lab::{CallDelay, Comparison, Control, DEMO_POLICIES, Demo, DemoOptions, RunResult, demo as run_demo};

use crate::arguments::DemoArguments;
use crate::commands::page::Page;
use crate::commands::run::verdict;
use crate::commands::validate::usual_workers;
use crate::failure::Failure;
use crate::figures::time;
use crate::layout::Sheet;
use crate::output::Output;
use crate::progress::Progress;
use crate::stop;

/// `humpyard demo`.
pub(crate) fn demo(arguments: &DemoArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    let options = DemoOptions {
        packets: arguments.packets,
        repetitions: arguments.repeat,
        workers: usize::from(arguments.workers.unwrap_or_else(usual_workers)),
        seed: common.seed,
    };
    let page = Page::create(Some(arguments.report.as_str()))?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("", common.quiet);
    let mut show = |packets, part| progress.update(packets, part);
    let mut control = Control::new(&stop, &mut show);
    let demo = run_demo(&options, &mut control, |step| progress.relabel(step))?;
    drop(progress);
    let about = format!("{}. {}", demo.traffic(), demo.learnt);
    page.write_with("A demonstration of humpyard", &about, &demo.comparison, &[demo.plot().svg()])?;
    let output = Output::of(&common.output);
    output.answer(&demo, || story(&demo, &arguments.report, options.workers))?;
    say_if_cut(output, &demo.comparison, DEMO_POLICIES.len());
    Ok(verdict(&demo.comparison.runs.iter().collect::<Vec<&RunResult>>()))
}

fn story(demo: &Demo, report: &str, workers: usize) -> String {
    let runs = &demo.comparison.runs;
    if runs.is_empty() {
        return String::new();
    }
    let hands = match workers {
        0 => "one thread".to_owned(),
        1 => "a dispatcher and 1 worker thread".to_owned(),
        workers => format!("a dispatcher and {workers} worker threads"),
    };
    let mut text = format!(
        "{}. Threads: {hands}. Each policy has the same packets; median of {} repetitions.\n\n",
        demo.traffic(),
        demo.comparison.repetitions
    );
    for run in &demo.comparison.statistics {
        if let Some(entry) = humpyard::policies::registry::find(&run.policy) {
            text.push_str(&format!("  {:5} {} ({})\n", run.policy, entry.info.summary, entry.info.family.name()));
        }
    }
    text.push_str(&format!("\nHow long calls wait:\n{}\n", delays(&demo.calls)));
    if report != "null:" {
        text.push_str(&format!("All figures, with plots, for a browser: {report}\n"));
    }
    text.push_str(
        "Next:\n  humpyard run --input YOUR.pcap --policy hrw\n  humpyard recommend --help\n  humpyard list policies\n",
    );
    text.push_str(&format!("\n{}\n", demo.learnt));
    text
}

fn delays(calls: &[CallDelay]) -> Sheet {
    let mut rows = Sheet::of_figures(&["", "simulated p99", "live p99", "calls dropped"]);
    for delay in calls {
        rows.add_row([
            delay.policy.clone(),
            time(delay.simulated_p99_ns),
            time(delay.live_p99_ns),
            delay.live_dropped.to_string(),
        ]);
    }
    rows
}

/// Reports that a comparison of this many policies ended early.
fn say_if_cut(output: Output, comparison: &Comparison, policies: usize) {
    let planned = policies * comparison.repetitions as usize;
    if comparison.runs.iter().any(|run| run.interrupted) {
        output.remark(&format!(
            "ended early: the last of these runs is not whole, and {} of {planned} runs were not made",
            planned - comparison.runs.len()
        ));
    }
}
