//! Results as tables.

use humpyard::lab::bottleneck::bottleneck;
use humpyard::lab::statistics::{Figure, PolicyStatistics};
use humpyard::lab::{
    AssumedResult, Comparison, ExitCounts, HardwareThread, LinkResult, Offered, RunResult, ServiceCost, TopFlow,
};
use humpyard::measure::{CacheSummary, DelayOffered, WarmUp};

use crate::figures::{bit_rate, counted, figure, packet_rate, percent, range, time};
use crate::layout::Sheet;

/// What the columns of a comparison mean.
const LEGEND: &str = "\
delay         from arrival to completion; half of the packets had at most p50, 99 in 100 at most p99
late          packets delayed beyond the tolerance of their service (--tolerance, 2ms by default), or lost
out of order  packets that left after a later packet of their flow
jitter        how unevenly the packets of a flow leave: standard deviation of the gaps, mean over flows
cores busy    time that the least and the most busy core was busy
dropped       before service / by the service, with reasons in --json";

/// What a topology adds to [`LEGEND`].
const MOVED: &str = "
moved         packets served by another core than the one before of their flow
bytes away    bytes of those whose core does not share its second cache with that core, of all bytes";

/// The lines that loss adds to [`LEGEND`].
const LOST: &str = "
p50, p99 of all  the same over all packets offered; `lost` where that packet was lost";

/// What the table of repetitions adds to [`LEGEND`].
const REPEATED: &str = "\
of each figure the median of the repetitions; below it their range, where they differ";

/// A comparison, with what its columns mean.
pub(crate) fn comparison(comparison: &Comparison) -> String {
    let moved = if has_topology(&comparison.runs) { MOVED } else { "" };
    let offered: Vec<Offered> = comparison.runs.iter().map(|run| run.offered).collect();
    let offered = line("offered", format!("  {}", Offered::text(&offered)));
    let costs = comparison.runs.first().into_iter().flat_map(|run| &run.costs);
    let costs: String = costs.map(|cost| format!("costs of {cost}\n")).collect();
    let lost = if has_loss(&comparison.runs) { LOST } else { "" };
    if comparison.repetitions > 1 {
        let table = repeated(comparison, has_topology(&comparison.runs));
        let legend = LEGEND.replace("cores busy ", "least, most");
        format!(
            "{table}\n{offered}\n{costs}{} repetitions: {REPEATED}\n{legend}{lost}{moved}\n",
            comparison.repetitions
        )
    } else {
        format!("{}\n{offered}\n{costs}{LEGEND}{lost}{moved}\n", side_by_side(&comparison.runs))
    }
}

/// Whether any of these lost packets.
fn has_loss(runs: &[RunResult]) -> bool {
    runs.iter().any(|run| run.summary.late.lost > 0)
}

/// A percentile over all packets offered.
fn of_all(ns: Option<u64>) -> String {
    ns.map_or_else(|| "lost".to_owned(), |ns| time(ns as f64))
}

/// The columns of [`repeated`], by the key of their figure.
const REPEATED_COLUMNS: [(&str, &str); 12] = [
    ("packets/s", "throughput_pps"),
    ("delay p50", "delay_p50_ns"),
    ("delay p99", "delay_p99_ns"),
    ("delay max", "delay_max_ns"),
    ("late", "late_fraction"),
    ("out of order", "out_of_order_fraction"),
    ("jitter", "jitter_ns"),
    ("least busy", "utilization_min"),
    ("most busy", "utilization_max"),
    ("moved", "moves_per_packet"),
    ("bytes away", "bytes_away_fraction"),
    ("dropped", "dropped_fraction"),
];

/// A percentile over all packets offered: its heading, and how to find it.
type OfAll = (&'static str, fn(&DelayOffered) -> Option<u64>);

const OF_ALL: [OfAll; 2] = [("p50 of all", |delay| delay.p50), ("p99 of all", |delay| delay.p99)];

/// The median of a percentile over all packets offered, over the repetitions.
fn median_of_all<'a>(runs: impl Iterator<Item = &'a RunResult>, of: fn(&DelayOffered) -> Option<u64>) -> String {
    let mut values: Vec<u64> = runs.map(|run| of(&run.summary.delay_offered_ns).unwrap_or(u64::MAX)).collect();
    values.sort_unstable();
    // Of an even number the greater of the middle two: a half may be lost.
    let median = values.get(values.len() / 2).copied();
    of_all(median.filter(|&ns| ns < u64::MAX))
}

/// One row per policy: medians, and ranges below them; of moves between cores where that is asked for, and of all packets offered
/// where some were lost.
fn repeated(comparison: &Comparison, moved: bool) -> Sheet {
    let statistics: &[PolicyStatistics] = &comparison.statistics;
    let lost: &[OfAll] = if has_loss(&comparison.runs) { &OF_ALL } else { &[] };
    let is_told = |key: &str| {
        let is_known = statistics.iter().all(|policy| policy.figures.contains_key(key));
        is_known && (moved || !["moves_per_packet", "bytes_away_fraction"].contains(&key))
    };
    let columns: Vec<(&str, &str)> = REPEATED_COLUMNS.into_iter().filter(|(_, key)| is_told(key)).collect();
    let headings = columns.iter().map(|&(heading, _)| heading).chain(lost.iter().map(|&(heading, _)| heading));
    let mut table = Sheet::of_figures(&["policy"].into_iter().chain(headings).collect::<Vec<_>>());
    for (number, policy) in statistics.iter().enumerate() {
        let cell = |&(_, key): &(&str, &str)| {
            let (kind, statistic) = (Figure::find(key).kind, &policy.figures[key]);
            let median = figure(kind, statistic.median);
            let range = range(kind, statistic).replace(" to ", "\nto ");
            if range == median { median } else { format!("{median}\n{range}") }
        };
        let of_all = lost.iter().map(|&(_, of)| median_of_all(comparison.runs_of(number), of));
        table.add_row([policy.policy.clone()].into_iter().chain(columns.iter().map(cell)).chain(of_all));
    }
    table
}

/// Whether every run tells of moves between cores, and was asked to: live runs have the machine's topology unasked, and tell of
/// them in --json, the summary and the page.
fn has_topology(runs: &[RunResult]) -> bool {
    let unasked = |run: &RunResult| run.options.get("topology").is_some_and(|topology| topology == "machine");
    runs.iter().all(|run| run.summary.cache.is_some() && (run.host == "sim" || !unasked(run)))
}

/// One row per run.
fn side_by_side(runs: &[RunResult]) -> Sheet {
    let mut headings = vec![
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
    if has_loss(runs) {
        headings.extend(OF_ALL.map(|(heading, _)| heading));
    }
    if has_topology(runs) {
        headings.extend(["moved", "bytes away"]);
    }
    let mut table = Sheet::of_figures(&headings);
    for run in runs {
        let summary = &run.summary;
        let before: u64 = run.packets.dropped.values().sum();
        let mut row = vec![
            run.policies_text(),
            packet_rate(summary.throughput_pps),
            time(summary.delay_ns.p50 as f64),
            time(summary.delay_ns.p99 as f64),
            time(summary.delay_ns.max as f64),
            percent(summary.late.fraction),
            percent(summary.order.fraction),
            time(summary.jitter_ns),
            cores_busy(run),
            format!("{before} / {}", run.packets.dropped_total() - before),
        ];
        if has_loss(runs) {
            row.extend(OF_ALL.map(|(_, of)| of_all(of(&summary.delay_offered_ns))));
        }
        if let Some(cache) = summary.cache.filter(|_| has_topology(runs)) {
            row.extend([percent(cache.moves_per_packet), percent(cache.bytes_away_fraction)]);
        }
        table.add_row(row);
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
    let live = run.host == "live";
    let by_virtual_clock = run.options.get("clock").is_some_and(|clock| clock == "virtual");
    let host = if by_virtual_clock { "live by a virtual clock" } else { run.host };
    let mut cores = format!("{} {}", run.cores, if live { "workers" } else { "cores" });
    if run.dispatchers > 1 {
        cores += &format!(" of {} dispatchers", run.dispatchers);
    } else if run.dispatchers == 0 && !live {
        cores += " without a dispatcher";
    }
    let mut lines: Vec<String> = bottleneck(run).into_iter().collect();
    lines.extend([
        line("policy", format!("{} ({host}, {cores})", run.in_force_text())),
        line("input", format!("{}{}", run.input, how_it_ended(run))),
    ]);
    lines.push(line("offered", Offered::text(&[run.offered])));
    lines.extend(cost_lines(&run.costs, if live && !by_virtual_clock { "estimates" } else { "costs" }));
    lines.extend(run.assumed.iter().map(|assumed| host_line(run, assumed)));
    lines.extend(packet_lines(run, live));
    lines.extend(port_lines(run));
    lines.extend(measurement_lines(run));
    lines.extend(dispatcher_line(run));
    lines.extend(core_lines(run));
    lines.extend(run.link.iter().map(|link| line("link", link_text(link))));
    lines.extend(service_lines(run));
    lines.extend(hardware_lines(run));
    lines.push(line("decision", decisions(run, live && !by_virtual_clock)));
    for (index, seat) in threads(run).lines().take(LINES_MAX).enumerate() {
        lines.push(line(if index == 0 { "threads" } else { "" }, seat.trim_start().to_owned()));
    }
    lines.join("\n")
}

/// Cores and threads beyond this are left to --json.
const LINES_MAX: usize = 16;

fn line(label: &str, value: String) -> String {
    format!("{label:11} {value}")
}

/// Shows what each service costs, and the source of that.
fn cost_lines(costs: &[ServiceCost], label: &str) -> Vec<String> {
    let texts = costs.iter().take(LINES_MAX).enumerate();
    texts.map(|(index, cost)| line(if index == 0 { label } else { "" }, cost.to_string())).collect()
}

fn how_it_ended(run: &RunResult) -> &'static str {
    match (run.interrupted, &run.damage) {
        (_, Some(damage)) if damage.is_loss() => " (damaged: up to the damage)",
        (true, _) => " (ended early)",
        (false, Some(_)) => " (its clock jumps)",
        (false, None) => "",
    }
}

/// What the interfaces counted, in one line.
pub(crate) fn port_counts(run: &RunResult) -> String {
    port_texts(run).collect::<Vec<_>>().join("; ")
}

/// What the interfaces counted.
fn port_lines(run: &RunResult) -> Vec<String> {
    let texts = port_texts(run).enumerate();
    texts.map(|(index, counts)| line(if index == 0 { "ports" } else { "" }, counts)).collect()
}

fn port_texts(run: &RunResult) -> impl Iterator<Item = String> + '_ {
    let received = run.ports.received.iter().map(|port| {
        let passed = if port.passed > 0 { format!(", {} passed unseen", port.passed) } else { String::new() };
        format!(
            "{}: {} in, {} missed, {} left, {} malformed{passed}",
            port.port, port.frames, port.missed, port.left, port.malformed
        )
    });
    let sent = run.ports.sent.iter().map(|port| {
        let (frames, full, too_long, down) = (port.frames, port.full, port.too_long, port.down);
        let mut text = format!("{}: {frames} out, {full} full, {too_long} too long, {down} down", port.port);
        if port.made + port.discarded > 0 {
            text += &format!(", {} not forwarded, {} made by services", port.discarded, port.made);
        }
        text
    });
    received.chain(sent)
}

/// What came of the link behind the cores.
fn link_text(link: &LinkResult) -> String {
    let ns = |ns: u64| time(ns as f64);
    format!(
        "{} in = {} sent + {} held + {} dropped; {} of {} used; delay p50 {}, p99 {}, in all {}, {}; clients withheld {}",
        link.arrived,
        link.sent,
        link.held,
        reasons(&link.dropped),
        percent(link.utilization),
        bit_rate(link.rate_bps as f64),
        ns(link.delay_ns.p50),
        ns(link.delay_ns.p99),
        ns(link.in_all_ns.p50),
        ns(link.in_all_ns.p99),
        counted(link.withheld, "time")
    )
}

/// Shows the host that a simulation assumed, and how busy each of its dispatchers was; without them, each core.
fn host_line(run: &RunResult, assumed: &AssumedResult) -> String {
    let AssumedResult { host, processors, dispatcher_utilization, reader_utilization } = assumed;
    let each = run.dispatchers_detail.iter().filter_map(|one| one.utilization).map(percent);
    let busy = match run.dispatchers {
        0 => format!("no dispatcher, cores with reading and writing {}", each.collect::<Vec<_>>().join(", ")),
        1 => format!("dispatcher {}", percent(*dispatcher_utilization)),
        _ => format!("dispatchers {}", each.collect::<Vec<_>>().join(", ")),
    };
    let reader = reader_utilization.map_or_else(String::new, |busy| format!(", reader {}", percent(busy)));
    line("host", format!("{host}, {}, {busy}{reader} busy", counted(*processors as u64, "processor")))
}

fn packet_lines(run: &RunResult, live: bool) -> Vec<String> {
    let packets = &run.packets;
    let wasted = packets.wasted.map_or_else(String::new, |wasted| format!(", {wasted} after work on them"));
    let came = format!(
        "{} in = {} processed + {} held + {} dropped{wasted}",
        packets.arrived,
        packets.processed,
        packets.held,
        reasons(&packets.dropped)
    );
    let went = format!(
        "{} processed + {} generated = {} forwarded + {} consumed + {} held + {} dropped",
        packets.processed,
        packets.generated,
        packets.forwarded,
        packets.consumed,
        packets.held_out,
        reasons(&packets.dropped_out)
    );
    let mut lines = vec![line("packets", came)];
    // A simulation does no service's work, so it knows nothing of what goes out.
    lines.extend(live.then(|| line("", went)));
    lines
}

fn measurement_lines(run: &RunResult) -> Vec<String> {
    let summary = &run.summary;
    let delay = &summary.delay_ns;
    let ns = |ns: u64| time(ns as f64);
    let mut lines = vec![
        line(
            "throughput",
            format!(
                "{}, {}, for {}",
                packet_rate(summary.throughput_pps),
                bit_rate(summary.throughput_bps),
                ns(summary.duration_ns)
            ),
        ),
        line(
            "delay",
            format!(
                "mean {}, p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
                time(delay.mean),
                ns(delay.p50),
                ns(delay.p90),
                ns(delay.p99),
                ns(delay.p999),
                ns(delay.max)
            ),
        ),
        line("late", late(run)),
        line(
            "order",
            format!(
                "{} out of order ({}), promised {}, jitter {}",
                summary.order.out_of_order,
                percent(summary.order.fraction),
                summary.order.promised,
                time(summary.jitter_ns)
            ),
        ),
        line(
            "fairness",
            format!(
                "Jain {:.4} over {}, service error {:.0} to {:.0} {}",
                summary.fairness.jain,
                counted(summary.fairness.clients, "client"),
                summary.fairness.service_error_min,
                summary.fairness.service_error_max,
                run.unit
            ),
        ),
    ];
    if summary.late.lost > 0 {
        lines.insert(2, line("", delay_of_all(&summary.delay_offered_ns)));
    }
    lines.extend(flow_lines(run));
    lines.extend(run.exit.map(|exit| line("exit", waited(&exit))));
    lines.extend(summary.cache.map(|cache| line("cache", moves(&cache))));
    lines
}

/// Packets that were late, and how many of them were lost.
fn late(run: &RunResult) -> String {
    let late = &run.summary.late;
    let lost = if late.lost > 0 { format!(", {} of them lost", late.lost) } else { String::new() };
    format!("{} of {} ({}){lost}{}", late.count, late.packets, percent(late.fraction), warm_up(run))
}

/// The percentiles over all packets offered.
fn delay_of_all(delay: &DelayOffered) -> String {
    let [p50, p90, p99, p999] = [delay.p50, delay.p90, delay.p99, delay.p999].map(of_all);
    format!("of all offered: p50 {p50}, p90 {p90}, p99 {p99}, p99.9 {p999}")
}

/// How busy the dispatchers were.
fn dispatcher_line(run: &RunResult) -> Option<String> {
    let loads = &run.measured.dispatchers;
    let busy: Vec<String> = loads.iter().map(|load| percent(load.busy_fraction)).collect();
    match (busy.as_slice(), loads.first()?) {
        ([one], load) if run.cores == 0 => {
            let services = percent(load.workers_utilization);
            Some(line("dispatcher", format!("{one} busy, {services} with the services' work")))
        }
        ([one], _) => Some(line("dispatcher", format!("{one} busy"))),
        // Without a dispatcher: with the work of services, which `cores` has alone.
        (workers, _) if run.dispatchers == 0 => Some(line("workers", format!("{} busy", workers.join(", ")))),
        (several, _) => Some(line("dispatchers", format!("{} busy", several.join(", ")))),
    }
}

/// The heaviest flows, and what was split, with the heaviest elephants.
fn flow_lines(run: &RunResult) -> Vec<String> {
    let mut lines = vec![line("flows", run.flows.to_string())];
    lines.extend(named(&run.top_flows));
    if let Some(split) = &run.split {
        let elephants = format!("{} of {}", counted(split.packets, "packet"), counted(split.elephants, "elephant"));
        lines.push(line("split", elephants));
        lines.extend(named(&split.flows));
    }
    lines
}

/// The first of these flows, a line each.
fn named(flows: &[TopFlow]) -> impl Iterator<Item = String> {
    flows
        .iter()
        .take(FLOWS_SHOWN)
        .map(|top| line("", format!("{} {}, {}", percent(top.fraction), top.flow, counted(top.packets, "packet"))))
}

/// Flows beyond this are left to --json.
const FLOWS_SHOWN: usize = 3;

/// How packets left that are put back in order.
fn waited(exit: &ExitCounts) -> String {
    format!("{} waited for earlier ones, {} missed their turn", counted(exit.waited, "packet"), exit.missed_turn)
}

/// What moved between caches.
fn moves(cache: &CacheSummary) -> String {
    format!(
        "{} moved to another core ({}): {} shared L2, {} same socket, {} other socket; {} of the bytes away",
        counted(cache.moves, "packet"),
        percent(cache.moves_per_packet),
        cache.shared_l2.packets,
        cache.same_socket.packets,
        cache.other_socket.packets,
        percent(cache.bytes_away_fraction)
    )
}

/// What the figures leave out.
fn warm_up(run: &RunResult) -> String {
    match run.summary.warm_up {
        WarmUp { time_ns: 0, .. } => String::new(),
        WarmUp { time_ns, packets, .. } => {
            format!(
                "; delay, late, order and fairness without the {} of the first {}",
                counted(packets, "packet"),
                time(time_ns as f64)
            )
        }
    }
}

fn core_lines(run: &RunResult) -> Vec<String> {
    let cores = &run.summary.cores_detail;
    let mut lines: Vec<String> = cores
        .iter()
        .take(LINES_MAX)
        .enumerate()
        .map(|(core, detail)| {
            let busy = percent(detail.utilization);
            let switches = match detail.switches {
                0 => String::new(),
                1 => ", 1 switch".to_owned(),
                switches => format!(", {switches} switches"),
            };
            let label = if core == 0 { "cores" } else { "" };
            line(
                label,
                format!("{core}: {busy} busy, {}, {} cold{switches}", counted(detail.packets, "packet"), detail.cold),
            )
        })
        .collect();
    if cores.len() > LINES_MAX {
        lines.push(line("", format!("and {} more: see --json", cores.len() - LINES_MAX)));
    }
    if let Some(preemptions) = run.summary.preemptions {
        lines.push(line("", counted(preemptions, "preemption")));
    }
    lines
}

fn service_lines(run: &RunResult) -> Vec<String> {
    let service = |(index, service): (usize, &humpyard::measure::ServiceSummary)| {
        line(
            if index == 0 { "services" } else { "" },
            format!(
                "{}: {}, delay p99 {}, {} later than {}{}, at most {} waiting",
                service.name,
                counted(service.packets, "packet"),
                time(service.delay_ns.p99 as f64),
                service.late.count,
                time(service.tolerance_ns as f64),
                if service.late.lost > 0 { " or lost" } else { "" },
                service.queue_max
            ),
        )
    };
    let counted = |service: &humpyard::measure::ServiceSummary| {
        let counts: Vec<String> = service.counters.iter().map(|(name, count)| format!("{count} {name}")).collect();
        (!counts.is_empty()).then(|| line("", format!("{} counted {}", service.name, counts.join(", "))))
    };
    let services = run.summary.services.iter().enumerate();
    services.flat_map(|(index, one)| [Some(service((index, one))), counted(one)]).flatten().collect()
}

/// What hardware counted of each thread, and what it did not.
fn hardware_lines(run: &RunResult) -> Vec<String> {
    let Some(hardware) = &run.measured.hardware else { return Vec::new() };
    let of_thread = |thread: &HardwareThread| {
        let count = |name: &str, count: Option<u64>| count.map(|count| format!("{count} {name}"));
        let counts = [
            count("cycles", thread.cycles),
            count("instructions", thread.instructions),
            count("cache misses", thread.cache_misses),
        ];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        (!counts.is_empty()).then(|| format!("{}: {}", thread.thread, counts.join(", ")))
    };
    let missing = hardware.missing.iter().map(|missing| format!("not counted: {missing}"));
    let texts = hardware.threads.iter().filter_map(of_thread).take(LINES_MAX).chain(missing);
    texts.enumerate().map(|(index, text)| line(if index == 0 { "hardware" } else { "" }, text)).collect()
}

/// Only a run in real time has work to compare with.
fn decisions(run: &RunResult, real_time: bool) -> String {
    let decision = &run.measured.decision_ns;
    if decision.p99 == 0 {
        return match run.assumed {
            Some(_) => "not timed: on an assumed host decisions take the times of --host".to_owned(),
            None => "not timed: a run times few of its decisions, and this one has too few packets".to_owned(),
        };
    }
    let of_work =
        format!("; decisions take {} of all work, services the rest", percent(run.measured.overhead_fraction));
    let of_work = if real_time { of_work } else { String::new() };
    format!("mean {}, p99 {} in real time{of_work}", time(decision.mean), time(decision.p99 as f64))
}

/// Where each thread sat, a line each.
pub(crate) fn threads(run: &RunResult) -> String {
    let seats = &run.environment.threads;
    let line = |(at, seat): (usize, &humpyard::lab::ThreadSeat)| {
        let place = seat.processor.map_or("anywhere".to_owned(), |processor| format!("processor {processor}"));
        // A dispatcher does the work of the cores on its processor, and one worker that of all cores on another.
        let first = seats.iter().position(|other| other.processor.is_some() && other.processor == seat.processor);
        let shared = match first.filter(|_| seat.shared && run.dispatchers == 1) {
            Some(0) if at > 0 => ", in the dispatcher's thread".to_owned(),
            Some(first) if first < at => format!(", in the thread of {}", seats[first].thread),
            Some(_) => String::new(),
            None if seat.shared => ", shared with another".to_owned(),
            None => String::new(),
        };
        format!("  {} on {place}{shared}\n", seat.thread)
    };
    seats.iter().enumerate().map(line).collect()
}

fn reasons(counts: &std::collections::BTreeMap<&'static str, u64>) -> String {
    let total: u64 = counts.values().sum();
    if counts.is_empty() {
        return total.to_string();
    }
    let list: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    format!("{total} ({})", list.join(", "))
}
