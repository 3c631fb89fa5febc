//! `demo`: composed traffic, live, under several policies.

use std::process::ExitCode;

use humpyard::lab::{Comparison, Control, DEMO_POLICIES, Demo, DemoOptions, OFFERED, RunResult, demo as run_demo};

use crate::arguments::DemoArguments;
use crate::commands::findings;
use crate::commands::page::Page;
use crate::commands::run::verdict;
use crate::commands::table;
use crate::failure::Failure;
use crate::figures::{bit_rate, packet_rate, percent};
use crate::output::Output;
use crate::progress::Progress;
use crate::stop;

/// `humpyard demo`.
pub(crate) fn demo(arguments: &DemoArguments) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    let options = DemoOptions {
        packets: arguments.packets,
        repetitions: arguments.repeat,
        workers: usize::from(arguments.workers),
        seed: common.seed,
    };
    let page = Page::create(Some(arguments.report.as_str()))?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("", common.quiet);
    let mut show = |packets, part| progress.update(packets, part);
    let mut control = Control::new(&stop, &mut show);
    let demo = run_demo(&options, &mut control, |step| progress.relabel(step))?;
    drop(progress);
    page.write("A demonstration of humpyard", &about(&demo), &demo.comparison)?;
    let output = Output::of(&common.output);
    output.answer(&demo, || story(&demo, &arguments.report, options.workers))?;
    say_if_cut(output, &demo.comparison, DEMO_POLICIES.len());
    Ok(verdict(&demo.comparison.runs.iter().collect::<Vec<&RunResult>>()))
}

/// What was run, for the page.
fn about(demo: &Demo) -> String {
    format!(
        "Messages of our own over TCP and UDP, IPv4 and IPv6, in bursts, one flow much heavier than the others, offered at {}: \
         {} of the {} that this machine took at full speed just before. The service is IP forwarding, for real.",
        packet_rate(demo.offered_pps),
        percent(OFFERED),
        packet_rate(demo.capacity_pps),
    )
}

fn story(demo: &Demo, report: &str, workers: usize) -> String {
    let runs = &demo.comparison.runs;
    let Some(first) = runs.first() else { return String::new() };
    let hands = match workers {
        0 => "one thread".to_owned(),
        1 => "a dispatcher and 1 worker thread".to_owned(),
        workers => format!("a dispatcher and {workers} worker threads"),
    };
    let mut text = format!(
        "Traffic: {} packets of {} flows, {}: messages of our own over TCP and UDP, IPv4 and IPv6, in bursts,\n\
         one flow much heavier than the others. Offered at {}, {} of the {} that this machine took at\n\
         full speed just now. Service: IP forwarding, for real. Hands: {hands}.\n\
         The same packets under each policy:\n\n{}\nWhat the policies do:\n",
        first.packets.arrived,
        first.flows,
        bit_rate(first.summary.throughput_bps),
        packet_rate(demo.offered_pps),
        percent(OFFERED),
        packet_rate(demo.capacity_pps),
        findings::comparison(&demo.comparison),
    );
    for run in demo.comparison.statistics.iter() {
        if let Some(entry) = humpyard::policies::registry::find(&run.policy) {
            text.push_str(&format!("  {:5} {} ({})\n", run.policy, entry.info.summary, entry.info.family.name()));
        }
    }
    text.push_str("\nWhere the threads sat:\n");
    text.push_str(&table::threads(first));
    text.push_str(
        "\nHow to read it: `rr` spreads packets evenly; those of a flow wait for each other when they leave. `conn` and \
         `hrw` keep\na flow on one core; packets that share it with the heavy flow wait behind that. `drr` gives each flow its \
         turn on\nwhichever core is free, so that light flows pass the heavy one. The delays are real: what else this machine does \
         shows in them.\n",
    );
    if report != "null:" {
        text.push_str(&format!("\nThe same with plots, for a browser: {report}\n"));
    }
    text.push_str(
        "\nNext:\n  humpyard run --input YOUR.pcap --policy hrw\n  humpyard sim --help\n  humpyard list policies\n",
    );
    text
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
