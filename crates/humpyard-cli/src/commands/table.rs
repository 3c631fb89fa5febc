//! Results as tables.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use humpyard::lab::RunResult;

use crate::figures::{bit_rate, packet_rate, percent, time};

/// What the columns of [`side_by_side`] mean.
pub(crate) const LEGEND: &str = "\
delay         from arrival to completion; half of the packets had at most p50, 99 in 100 at most p99
late          packets delayed beyond what their service tolerates (2ms unless --tolerance says otherwise)
out of order  packets that left after a later packet of their flow
jitter        how unevenly the packets of a flow leave: standard deviation of the gaps, mean over flows
cores busy    least and most busy core
dropped       before service / by the service, with reasons in --json";

/// An empty table with these headings, all but the first to the right.
pub(crate) fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.iter().copied());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// One row per run.
pub(crate) fn side_by_side(runs: &[RunResult]) -> Table {
    let headings = [
        "policy",
        "packets/s",
        "delay p50",
        "delay p99",
        "delay max",
        "late",
        "out of order",
        "jitter",
        "cores busy",
        "dropped",
    ];
    let mut table = table(&headings);
    for run in runs {
        let summary = &run.summary;
        let before: u64 = run.packets.dropped.values().sum();
        table.add_row([
            run.policy.clone(),
            packet_rate(summary.throughput_pps),
            time(summary.delay_ns.p50 as f64),
            time(summary.delay_ns.p99 as f64),
            time(summary.delay_ns.max as f64),
            percent(summary.late.fraction),
            percent(summary.order.fraction),
            time(summary.jitter_ns),
            cores_busy(run),
            format!("{before} / {}", run.packets.dropped_total() - before),
        ]);
    }
    table
}

fn cores_busy(run: &RunResult) -> String {
    let busy = run.summary.cores_detail.iter().map(|core| 100.0 * core.utilization);
    let (least, most) = busy.fold((f64::INFINITY, 0.0f64), |(least, most), busy| (least.min(busy), most.max(busy)));
    format!("{least:.0}-{most:.0} %")
}

/// One run, line by line.
pub(crate) fn summary(run: &RunResult) -> String {
    let (summary, packets) = (&run.summary, &run.packets);
    let mut lines = vec![
        (
            "policy",
            format!(
                "{} ({}, {} {})",
                run.policy,
                run.host,
                run.cores,
                if run.host == "sim" { "cores" } else { "workers" }
            ),
        ),
        ("input", format!("{}{}", run.input, if run.interrupted { " (ended early)" } else { "" })),
        (
            "packets",
            format!(
                "{} in = {} processed + {} held + {} dropped",
                packets.arrived,
                packets.processed,
                packets.held,
                reasons(&packets.dropped)
            ),
        ),
        (
            "",
            format!(
                "{} processed + {} generated = {} forwarded + {} consumed + {} held + {} dropped",
                packets.processed,
                packets.generated,
                packets.forwarded,
                packets.consumed,
                packets.held_out,
                reasons(&packets.dropped_out)
            ),
        ),
        (
            "throughput",
            format!(
                "{}, {}, for {}",
                packet_rate(summary.throughput_pps),
                bit_rate(summary.throughput_bps),
                time(summary.duration_ns as f64)
            ),
        ),
        (
            "delay",
            format!(
                "mean {}, p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
                time(summary.delay_ns.mean),
                time(summary.delay_ns.p50 as f64),
                time(summary.delay_ns.p90 as f64),
                time(summary.delay_ns.p99 as f64),
                time(summary.delay_ns.p999 as f64),
                time(summary.delay_ns.max as f64)
            ),
        ),
        ("late", format!("{} ({})", summary.late.count, percent(summary.late.fraction))),
        (
            "order",
            format!(
                "{} out of order ({}), jitter {}",
                summary.order.out_of_order,
                percent(summary.order.fraction),
                time(summary.jitter_ns)
            ),
        ),
        ("fairness", format!("Jain {:.4} over {} clients", summary.fairness.jain, summary.fairness.clients)),
    ];
    for (core, detail) in summary.cores_detail.iter().enumerate() {
        lines.push((
            if core == 0 { "cores" } else { "" },
            format!("{core}: {} busy, {} packets, {} cold", percent(detail.utilization), detail.packets, detail.cold),
        ));
    }
    for (index, service) in summary.services.iter().enumerate() {
        lines.push((
            if index == 0 { "services" } else { "" },
            format!(
                "{}: {} packets, delay p99 {}, {} later than {}, at most {} waiting",
                service.name,
                service.packets,
                time(service.delay_ns.p99 as f64),
                service.late.count,
                time(service.tolerance_ns as f64),
                service.queue_max
            ),
        ));
    }
    lines.push((
        "decision",
        format!(
            "mean {}, p99 {} (real time; {} of the work)",
            time(run.measured.decision_ns.mean),
            time(run.measured.decision_ns.p99 as f64),
            percent(run.measured.overhead_fraction)
        ),
    ));
    let mut text: String = lines.iter().map(|(label, value)| format!("{label:11} {value}\n")).collect();
    for (index, line) in threads(run).lines().enumerate() {
        text.push_str(&format!("{:11} {}\n", if index == 0 { "threads" } else { "" }, line.trim_start()));
    }
    text.truncate(text.trim_end().len());
    text
}

/// Where each thread sat, a line each.
pub(crate) fn threads(run: &RunResult) -> String {
    let line = |seat: &humpyard::lab::ThreadSeat| {
        let place = seat.processor.map_or("anywhere".to_owned(), |processor| format!("processor {processor}"));
        format!("  {} on {place}{}\n", seat.thread, if seat.shared { ", shared with another" } else { "" })
    };
    run.environment.threads.iter().map(line).collect()
}

fn reasons(counts: &std::collections::BTreeMap<&'static str, u64>) -> String {
    let total: u64 = counts.values().sum();
    if counts.is_empty() {
        return total.to_string();
    }
    let list: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    format!("{total} ({})", list.join(", "))
}
