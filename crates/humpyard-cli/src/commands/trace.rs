//! `trace`: looking into captures.

use std::process::ExitCode;

use humpyard::random::Seed;
use humpyard::traffic::info::{Info, info};
use humpyard::traffic::source::open;

use crate::arguments::{TraceArguments, TraceCommand, TraceInfoArguments};
use crate::failure::Failure;
use crate::figures::{bit_rate, packet_rate, percent, time};
use crate::output;
use crate::progress::{Progress, Watched};

/// Flows that `trace info` tells apart.
const FLOWS: usize = 1 << 20;

/// `humpyard trace`.
pub(crate) fn trace(arguments: &TraceArguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        TraceCommand::Info(arguments) => trace_info(arguments),
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
    Ok(match &info.damage {
        Some(damage) => {
            output::say(&format!("humpyard: {damage}"));
            ExitCode::from(1)
        }
        None => ExitCode::SUCCESS,
    })
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
