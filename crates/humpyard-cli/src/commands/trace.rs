//! `trace`: looking into captures, cutting and merging them, and making new ones.

use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicBool, Ordering};
use std::process::ExitCode;

use humpyard::frame::Frame;
use humpyard::random::Seed;
use humpyard::traffic::cut::{Cut, Part};
use humpyard::traffic::generate::ComposeOptions;
use humpyard::traffic::info::{Info, InfoOptions, info_with};
use humpyard::traffic::merge::open_all;
use humpyard::traffic::sink::create;
use humpyard::traffic::source::Source;
use humpyard::traffic::{compose, open, scale};
use humpyard::unit::Time;
use serde::Serialize;

use crate::arguments::{
    CommonOptions, TraceArguments, TraceCommand, TraceComposeArguments, TraceCutArguments, TraceInfoArguments,
    TraceMergeArguments, TraceScaleArguments,
};
use crate::commands::configuration::duration;
use crate::failure::Failure;
use crate::figures::{bit_rate, counted, date, packet_rate, percent, span, time};
use crate::output::{self, Output};
use crate::progress::{Progress, Watched};
use crate::stop;

/// Flows that `trace info` tells apart.
const FLOWS: usize = 1 << 20;

/// `humpyard trace`.
pub(crate) fn trace(arguments: &TraceArguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        TraceCommand::Info(arguments) => trace_info(arguments),
        TraceCommand::Compose(arguments) => trace_compose(arguments),
        TraceCommand::Scale(arguments) => trace_scale(arguments),
        TraceCommand::Cut(arguments) => trace_cut(arguments),
        TraceCommand::Merge(arguments) => trace_merge(arguments),
    }
}

fn trace_compose(arguments: &TraceComposeArguments) -> Result<ExitCode, Failure> {
    let TraceComposeArguments { arrivals, flows, payloads, concurrent, output, common } = arguments;
    let options = ComposeOptions {
        arrivals: arrivals.clone(),
        flows: flows.clone(),
        payloads: payloads.clone(),
        concurrent: *concurrent,
    };
    let stop = stop::on_signal()?;
    write(&mut *compose(&options, Seed(common.seed))?, Part::default(), output, common, &stop)
}

fn trace_scale(arguments: &TraceScaleArguments) -> Result<ExitCode, Failure> {
    let TraceScaleArguments { factor, input, output, common } = arguments;
    let stop = stop::on_signal()?;
    write(&mut *scale(input, *factor, Seed(common.seed), &stop)?, Part::default(), output, common, &stop)
}

/// What was written.
#[derive(Serialize)]
struct Written {
    /// Where packets came from.
    input: String,
    /// Where they went.
    output: String,
    /// Packets read.
    packets_read: u64,
    /// Packets written.
    packets: u64,
    /// Their bytes on the wire.
    bytes: u64,
    /// Their bytes written.
    captured_bytes: u64,
    /// Where and how an input is damaged, if one is; what came before it was written.
    damage: Option<String>,
}

fn trace_cut(arguments: &TraceCutArguments) -> Result<ExitCode, Failure> {
    let span = |option: &str, text: &Option<String>| -> Result<Option<Time>, Failure> {
        let span = text.as_deref().map(|text| duration(option, text)).transpose()?;
        Ok(span.map(|span| Time::from_ns(span.as_nanos() as u64)))
    };
    let everything = Part::default();
    let part = Part {
        packets: arguments.packets.as_deref().map_or(Ok(everything.packets), packets)?,
        from: span("--from", &arguments.from)?.unwrap_or(everything.from),
        to: span("--to", &arguments.to)?,
        matches: arguments.matches.as_deref().map_or(Ok(everything.matches), str::parse)?,
        flow: arguments.flow.as_deref().map(str::parse).transpose()?,
        tunnels: arguments.inner.parse()?,
        snap: arguments.snap.unwrap_or(everything.snap),
    };
    if part.to.is_some_and(|to| to <= part.from) {
        return Err(Failure::new("--to must be later than --from: there is nothing between them"));
    }
    let mut source = open(&arguments.input, Seed(arguments.common.seed))?;
    let stop = stop::on_signal()?;
    write(&mut *source, part, &arguments.output, &arguments.common, &stop)
}

/// `FIRST..LAST`, where one may be left out.
fn packets(text: &str) -> Result<RangeInclusive<u64>, Failure> {
    let number = |text: &str, otherwise: u64| if text.is_empty() { Some(otherwise) } else { text.parse().ok() };
    let range = text.split_once("..").and_then(|(first, last)| Some((number(first, 1)?, number(last, u64::MAX)?)));
    match range {
        Some((first, last)) if (1..=last).contains(&first) => Ok(first..=last),
        _ => {
            Err(Failure::new(format!("--packets takes numbers from 1, 10..20, 10.. or ..20 for example; not `{text}`")))
        }
    }
}

fn trace_merge(arguments: &TraceMergeArguments) -> Result<ExitCode, Failure> {
    let mut source = open_all(&arguments.inputs, Seed(arguments.common.seed))?;
    let stop = stop::on_signal()?;
    write(&mut *source, Part::default(), &arguments.output, &arguments.common, &stop)
}

/// Writes this part of what there is; what came before damage too, with exit code 1.
fn write(
    source: &mut dyn Source,
    part: Part,
    destination: &str,
    common: &CommonOptions,
    stop: &AtomicBool,
) -> Result<ExitCode, Failure> {
    let answer = Output::of(&common.output).beside_packets(destination == "-")?;
    let progress = Progress::new(source.description(), common.quiet);
    let mut source = Cut::new(Watched::new(source, &progress).until(stop), part);
    let mut sink = create(destination)?;
    let (mut frame, mut bytes, mut captured_bytes) = (Frame::default(), 0, 0);
    let damage = loop {
        match source.next(&mut frame) {
            Ok(true) => sink.write(&frame)?,
            Ok(false) => break None,
            Err(error) if error.is_damage() => break Some(error.to_string()),
            Err(error) => return Err(error.into()),
        }
        bytes += u64::from(frame.wire_length);
        captured_bytes += frame.data.len() as u64;
    };
    if stop.load(Ordering::Relaxed) {
        // The output that was begun goes.
        return Err(Failure::new("interrupted: nothing was written"));
    }
    let packets = sink.finish()?;
    let (input, output) = (source.description().to_owned(), destination.to_owned());
    let packets_read = source.read();
    // The progress bar goes before anything is said.
    drop(progress);
    let written = Written { input, output, packets_read, packets, bytes, captured_bytes, damage };
    report(&written, answer)
}

fn report(written: &Written, answer: Output) -> Result<ExitCode, Failure> {
    let Written { output, packets_read, packets, bytes, damage, .. } = written;
    let remark = if *packets == 0 { ": no packet matched, so it is empty" } else { "" };
    let text = || {
        format!(
            "{packets} of {}, {} on the wire, to {output}{remark}",
            counted(*packets_read, "packet"),
            counted(*bytes, "byte")
        )
    };
    answer.answer(written, || text() + "\n")?;
    Ok(verdict(damage.as_ref()))
}

/// Says how the input is damaged, if it is.
fn verdict(damage: Option<&String>) -> ExitCode {
    match damage {
        Some(damage) => {
            output::say(&format!("humpyard: {damage}"));
            ExitCode::from(1)
        }
        None => ExitCode::SUCCESS,
    }
}

fn trace_info(arguments: &TraceInfoArguments) -> Result<ExitCode, Failure> {
    let timeout = arguments.flow_timeout.as_deref().map(|text| duration("--flow-timeout", text)).transpose()?;
    let timeout = timeout.map(|timeout| Time::from_ns(timeout.as_nanos() as u64));
    let options = InfoOptions { flows: FLOWS, timeout, tunnels: arguments.inner.parse()? };
    let mut source = open(&arguments.input, Seed(arguments.common.seed))?;
    let stop = stop::on_signal()?;
    let progress = Progress::new("trace info", arguments.common.quiet);
    let info = info_with(&mut Watched::new(&mut *source, &progress).until(&stop), &options)?;
    drop(progress);
    if stop.load(Ordering::Relaxed) {
        output::say("humpyard: ended early: these are the packets that were read until then");
    }
    Output::of(&arguments.common.output).answer(&info, || match info.packets {
        0 => format!("{} holds no packet.\n", info.input),
        _ => text(&info),
    })?;
    Ok(verdict(info.damage.as_ref()))
}

/// The dates stand in this line, behind the duration.
const DATES_AT: usize = 4;

fn text(info: &Info) -> String {
    let counts = |counts: &mut dyn Iterator<Item = (String, u64)>| {
        counts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    let rates = match (info.mean_rate_pps, info.mean_rate_bps) {
        (Some(pps), Some(bps)) => format!(", {}, {}", packet_rate(pps), bit_rate(bps)),
        _ => String::new(),
    };
    let mut lines = vec![
        ("input", info.input.clone()),
        ("packets", format!("{} ({} bytes, {} captured)", info.packets, info.bytes, info.captured_bytes)),
        ("cut short", format!("{} packets, by the capture", info.truncated_packets)),
        ("duration", format!("{}{rates}", span(info.duration_ns))),
        ("link types", counts(&mut info.link_types.iter().map(|(link, &count)| (link.to_string(), count)))),
        (
            "network",
            format!(
                "IPv4 {}, IPv6 {}, other {}, fragments {}",
                info.ipv4_packets, info.ipv6_packets, info.other_packets, info.fragments
            ),
        ),
        ("protocols", counts(&mut info.protocols.iter().map(|(name, &count)| (name.clone(), count)))),
        (
            "flows",
            format!(
                "{}{} in {} connections",
                if info.flows_exact { "" } else { "at least " },
                info.flows,
                info.connections
            ),
        ),
        (
            "lengths",
            format!(
                "{} to {} bytes, mean {:.0}, p50 {}, p90 {}, p99 {}",
                info.lengths.minimum,
                info.lengths.maximum,
                info.lengths.mean,
                info.lengths.p50,
                info.lengths.p90,
                info.lengths.p99
            ),
        ),
    ];
    // The clock of a generator begins at 0, which is no date.
    if let (Some(first), Some(last)) = (info.first_time_ns, info.last_time_ns)
        && !info.input.starts_with("gen:")
    {
        let dates = [("first", date(first)), ("last", date(last))];
        lines.splice(DATES_AT..DATES_AT, dates);
    }
    if let Some(sizes) = &info.flow_sizes {
        let share = percent(sizes.heaviest_tenth_share);
        let (p50, p90, p99) = (sizes.p50, sizes.p90, sizes.p99);
        lines.push((
            "flow sizes",
            format!(
                "mean {:.1} packets, p50 {p50}, p90 {p90}, p99 {p99}, most {}; the heaviest tenth has {share}",
                sizes.mean, sizes.maximum
            ),
        ));
    }
    if let Some(burstiness) = &info.burstiness {
        lines.push((
            "burstiness",
            format!(
                "{:.1} packets/ms, deviation {:.3} of the mean, most {}",
                burstiness.mean_packets, burstiness.relative_deviation, burstiness.peak_packets
            ),
        ));
        lines.push((
            "hurst",
            match &burstiness.hurst {
                Some(hurst) => format!(
                    "{:.2} ({:.2} to {:.2}) by variance-time over {} to {}; 0.5 is independent, towards 1 bursts at every length",
                    hurst.estimate,
                    hurst.low,
                    hurst.high,
                    time(hurst.shortest_ns as f64),
                    time(hurst.longest_ns as f64)
                ),
                None => format!("too short to say: {} ms", burstiness.bins),
            },
        ));
    }
    if info.backward_jumps > 0 {
        let most = span(info.backward_jump_max_ns);
        lines.push(("clock", format!("goes back {} times, by at most {most}", info.backward_jumps)));
    }
    for (index, top) in info.top_flows.iter().enumerate() {
        let label = if index == 0 { "top flows" } else { "" };
        lines.push((label, format!("{}  {} packets, {}", percent(top.packet_share), top.packets, top.flow)));
    }
    lines.iter().map(|(label, value)| format!("{label:11} {value}\n")).collect()
}
