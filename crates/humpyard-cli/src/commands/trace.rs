//! `trace`: looking into captures, and making new ones.

use std::process::ExitCode;

use humpyard::frame::Frame;
use humpyard::random::Seed;
use humpyard::traffic::create;
use humpyard::traffic::generate::{ComposeOptions, compose, scale};
use humpyard::traffic::info::{Info, info};
use humpyard::traffic::source::{Source, open};
use serde_json::json;

use crate::arguments::{
    CommonOptions, TraceArguments, TraceCommand, TraceComposeArguments, TraceInfoArguments, TraceScaleArguments,
};
use crate::failure::Failure;
use crate::figures::{bit_rate, packet_rate, percent, time};
use crate::output;
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
    write(&mut *compose(&options, Seed(common.seed))?, output, common)
}

fn trace_scale(arguments: &TraceScaleArguments) -> Result<ExitCode, Failure> {
    let TraceScaleArguments { factor, input, output, common } = arguments;
    write(&mut *scale(input, *factor, Seed(common.seed))?, output, common)
}

/// Frames between two looks at the clock.
const PROGRESS_EVERY: u64 = 1 << 14;

/// Writes a source to a capture and says how much it was.
fn write(source: &mut dyn Source, destination: &str, common: &CommonOptions) -> Result<ExitCode, Failure> {
    if destination == "-" && common.json {
        return Err(Failure::new("packets and --json both need the standard output: name a file for the packets"));
    }
    let mut sink = create(destination)?;
    let progress = Progress::new("writing", common.quiet);
    let stop = stop::on_signal()?;
    let mut frame = Frame::default();
    let (mut packets, mut bytes, mut damage) = (0u64, 0u64, None);
    loop {
        if packets.is_multiple_of(PROGRESS_EVERY) {
            progress.update(packets, source.progress());
            if stop.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(Failure::new(format!(
                    "interrupted after {packets} packets; {destination} was not written"
                )));
            }
        }
        match source.next(&mut frame) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if error.is_damage() => {
                damage = Some(error.to_string());
                break;
            }
            Err(error) => return Err(error.into()),
        }
        packets += 1;
        bytes += u64::from(frame.wire_length);
        sink.write(&frame)?;
    }
    sink.finish()?;
    drop(progress);
    let input = source.description();
    let summary = format!("{packets} packets, {bytes} bytes, in {destination}: {input}");
    if common.json {
        output::print_json(
            &json!({"input": input, "output": destination, "packets": packets, "bytes": bytes, "damage": damage}),
        )?;
    } else if destination == "-" {
        output::say(&summary);
    } else {
        output::print(&format!("{summary}\n"))?;
    }
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
    let mut source = open(&arguments.input, Seed(arguments.common.seed))?;
    let progress = Progress::new("trace info", arguments.common.quiet);
    let info = info(&mut Watched::new(&mut *source, &progress), FLOWS)?;
    drop(progress);
    if arguments.common.json {
        output::print_json(&info)?;
    } else {
        output::print(&text(&info))?;
    }
    Ok(verdict(info.damage.as_ref()))
}

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
        ("duration", format!("{}{rates}", time(info.duration_ns as f64))),
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
        let most = time(info.backward_jump_max_ns as f64);
        lines.push(("clock", format!("goes back {} times, by at most {most}", info.backward_jumps)));
    }
    for (index, top) in info.top_flows.iter().enumerate() {
        let label = if index == 0 { "top flows" } else { "" };
        lines.push((label, format!("{}  {} packets, {}", percent(top.packet_share), top.packets, top.flow)));
    }
    lines.iter().map(|(label, value)| format!("{label:11} {value}\n")).collect()
}
