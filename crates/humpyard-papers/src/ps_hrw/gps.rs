//! The promises of the paper's section II: shares as in generalized processor sharing, a class that gets its
//! part whatever others do, and no idle core while packets wait.

use humpyard_core::id::{ClientId, FlowId, Id};
use humpyard_core::mechanism::{Limits, WhenFull};
use humpyard_core::packet::Packet;
use humpyard_core::policy::Topology;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use super::machine::{Feed, Trial, run};
use super::paper::{CORES, DRAWS, FULL, PAPER, TOPOLOGY, drawn_seed};
use super::workload::{Cost, Workload};
use crate::harness::{
    About, Column, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, columns, line, listed, logarithmic, short,
};
use humpyard_lab::{LabError, parse_topology};
use humpyard_plot::statistics::Statistic;
use humpyard_plot::{Axis, Line, LinePlot};

pub(super) struct Promises;

/// Policies that only steer, and policies that also share each core among clients.
const POLICIES: [&str; 9] = ["rr", "conn", "hrw", "ap", "gps-hrw", "ps-hrw", "ps-hrw:weight=class", "h-cahrw", "jsq"];
/// The policies with a sharing policy on every core.
const SHARED: [&str; 3] = ["steer=ps-hrw/share=drr", "steer=conn/share=drr", "steer=jsq/share=drr"];

/// Length and work of a packet that does not come from a trace.
const BYTES: u32 = 1_000;
const WORK_NS: u64 = 5_000;

const COLUMNS: &[Column] = columns![
    text promise, text case, text policy, integer draw, real at, real least, real greatest, real mean,
];

/// The promises of rows.
const SHARE: &str = "share";
const FLOOD: &str = "flood";
const IDLE: &str = "idle";

/// A function from a seed to the number of packets that each connection always has held.
type Windows = fn(u64) -> Vec<u32>;

/// Connections that always have packets held.
const CASES: [(&str, Windows); 4] = [
    ("three connections with 60, 30 and 10 packets", |_| vec![60, 30, 10]),
    ("20 connections with 8 packets each", |_| vec![8; 20]),
    ("20 connections with 32 packets, 20 with 8", |_| [[32; 20], [8; 20]].concat()),
    ("400 connections with 1 to 16 packets", |seed| {
        let mut random = Seed(seed).stream("ps-hrw/gps/windows");
        (0..400).map(|_| 1 + random.below(16) as u32).collect()
    }),
];
/// Loads of the second class, as parts of the capacity of all cores. The first class offers [`STEADY`].
const FLOODS: [f64; 5] = [0.2, 0.5, 1.0, 2.0, 4.0];
const STEADY: f64 = 0.4;
/// Connections of each class.
const CONNECTIONS: u64 = 16;
/// Loads at which no core should be idle while packets wait.
const LOADS: [f64; 3] = [0.5, 0.8, 0.95];

/// Returns a packet of a connection that does not come from a trace.
fn packet(flow: usize, client: usize, arrival: Time, key: u64) -> Packet {
    Packet {
        flow: FlowId::from_index(flow),
        client: ClientId::from_index(client),
        arrival,
        key,
        rss: (key >> 16) as u32,
        length: BYTES,
        estimate: WORK_NS,
        ..Packet::default()
    }
}

/// Returns the least, the greatest and the mean.
fn range(values: &[f64]) -> [f64; 3] {
    let found = Statistic::of(values.to_vec()).map_or((0.0, 0.0), |found| (found.min, found.max));
    [found.0, found.1, values.iter().sum::<f64>() / values.len().max(1) as f64]
}

fn row(promise: &str, case: &str, policy: &str, draw: usize, at: f64, [least, greatest, mean]: [f64; 3]) -> Row {
    vec![promise.into(), case.into(), policy.into(), draw.into(), at.into(), least.into(), greatest.into(), mean.into()]
}

/// Measures the service of each connection that always has packets, relative to its guarantee: equation 2.
fn share_rows(draw: usize, scale: Scale, seed: Seed, topology: &Topology) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    for (case, windows) in CASES {
        let windows = windows(seed.0);
        let mut random = seed.stream("ps-hrw/gps/keys");
        let keys: Vec<u64> = windows.iter().map(|_| random.bits()).collect();
        let whole: u64 = windows.iter().map(|&window| u64::from(window)).sum();
        let rounds = scale.pick(20_000, 400_000) / whole;
        // Eight times the packets that each needs for its part: the run ends when the first connection has none
        // left.
        let packets = keys.iter().enumerate().flat_map(|(flow, &key)| {
            let count = 8 * rounds * u64::from(windows[flow]);
            (0..count).map(move |_| packet(flow, flow, Time::ZERO, key))
        });
        let packets: Vec<Packet> = packets.collect();
        let (flows, clients, feed) = (windows.len(), windows.len(), Feed::Windows(&windows));
        let trial = Trial { packets: &packets, flows, clients, feed, ..Trial::on(topology, seed) };
        for policy in POLICIES {
            let came = run(&Trial { policy, ..trial })?;
            let time = came.makespan.as_ns() as f64 * CORES as f64;
            let over =
                |(flow, &served): (usize, &u64)| served as f64 / (time * f64::from(windows[flow]) / whole as f64);
            let over: Vec<f64> = came.served.iter().enumerate().map(over).collect();
            rows.push(row(SHARE, case, policy, draw, windows.len() as f64, range(&over)));
        }
    }
    Ok(rows)
}

/// Measures the part of a class's offered packets that is served, while another class offers more and more. The
/// mean is the 99 % quantile of its delays, in us.
fn flood_rows(draw: usize, scale: Scale, seed: Seed, topology: &Topology) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    let time_ns = scale.pick(20_000_000, 500_000_000);
    for flood in FLOODS {
        let mut random = seed.stream("ps-hrw/gps/flood");
        let keys: Vec<u64> = (0..2 * CONNECTIONS).map(|_| random.bits()).collect();
        let mut packets = Vec::new();
        for (class, load) in [STEADY, flood].into_iter().enumerate() {
            let gap = WORK_NS as f64 / (load * CORES as f64);
            let mut at = random.exponential(gap);
            while (at as u64) < time_ns {
                let flow = class * CONNECTIONS as usize + random.below(CONNECTIONS) as usize;
                packets.push(packet(flow, class, Time::from_ns(at as u64), keys[flow]));
                at += random.exponential(gap);
            }
        }
        packets.sort_by_key(|packet| packet.arrival);
        let offered = packets.iter().filter(|packet| packet.client == ClientId(0)).count() as f64;
        for policy in POLICIES.into_iter().chain(SHARED) {
            let when_full = if policy.contains("share=") { WhenFull::LongestQueue } else { WhenFull::Tail };
            let limits = Limits::default().with_queue(FULL).with_when_full(when_full);
            let flows = 2 * CONNECTIONS as usize;
            let trial = Trial { packets: &packets, flows, clients: 2, limits, ..Trial::on(topology, seed) };
            let came = run(&Trial { policy, ..trial })?;
            let delays = &came.delays[0];
            let late = delays.get(delays.len() * 99 / 100).copied().unwrap_or(0) as f64 / 1e3;
            let kept = 1.0 - came.dropped[0] as f64 / offered;
            rows.push(row(FLOOD, "two classes of 16 connections", policy, draw, flood, [kept, kept, late]));
        }
    }
    Ok(rows)
}

/// Measures the core time without work while packets wait for other cores, relative to all core time.
fn idle_rows(draw: usize, scale: Scale, seed: Seed, topology: &Topology) -> Result<Vec<Row>, LabError> {
    let mut rows = Vec::new();
    let packets = Workload::Trace("mit").packets(scale);
    for load in LOADS {
        let offered = Workload::Trace("mit").offered_at(load, Cost::Model, packets, seed)?;
        let trial = Trial::on(topology, seed).of(&offered);
        for policy in POLICIES {
            let came = run(&Trial { policy, ..trial })?;
            rows.push(row(IDLE, "mit", policy, draw, load, [came.idle_while_waiting; 3]));
        }
    }
    Ok(rows)
}

impl Experiment for Promises {
    fn about(&self) -> About {
        About {
            id: "ps-hrw-gps",
            figure: "section II, which has no experiment",
            title: "which promises of generalized processor sharing hold",
            description: "Equation 2 guarantees a connection with part p of all bytes held p of the service, as long \
                as it has some to be served. Here each connection always holds the same number of packets. The figure is \
                the service of each over p, so that 1 is its guarantee. A class of traffic should get as much as it is assigned, whatever \
                others do: here one offers 0.4 of what all cores can do, another from 0.2 to 4 times as much as these, \
                and queues have room for 64 packets. The figures are the part of the first's packets that is served, \
                and the 99 % of its delays. No core should be idle while packets wait: the figure is the part of all time of cores that \
                passes so. The machine is that of the figures. The paper promises this, and does not measure it.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        3 * scale.of(DRAWS)
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let draw = part / 3 + 1;
        let seed = drawn_seed(seed, draw);
        let topology = parse_topology(TOPOLOGY)?;
        match part % 3 {
            0 => share_rows(draw, scale, seed, &topology),
            1 => flood_rows(draw, scale, seed, &topology),
            _ => idle_rows(draw, scale, seed, &topology),
        }
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let shares = CASES.iter().flat_map(|(case, _)| {
            ["conn", "jsq", "h-cahrw", "ap", "gps-hrw", "ps-hrw"].map(|policy| share_note(data, case, policy))
        });
        let floods = POLICIES.into_iter().chain(SHARED).map(|policy| flood_note(data, policy));
        let idle = POLICIES.into_iter().map(|policy| idle_note(data, policy));
        shares.chain(floods).chain(idle).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let flood = |column: &'static str| {
            POLICIES.into_iter().chain(SHARED).map(move |policy| by_place(data, FLOOD, policy, column))
        };
        let part = |part: f64| format!("{part:.2}");
        let plot = |title: &str, x: Axis, y: Axis, lines: Vec<Line>| {
            LinePlot { title: title.to_owned(), description: self.about().description.to_owned(), x, y, lines }.svg()
        };
        let offered =
            || Axis::logarithmic("offered by the other class, over what all cores can do", |load| format!("{load:.1}"));
        vec![
            (
                "flood".to_owned(),
                plot(
                    "packets of a class that are served while another floods",
                    offered(),
                    Axis::linear("part", part).from_to(0.0, 1.0),
                    flood("least").collect(),
                ),
            ),
            (
                "flood-delay".to_owned(),
                plot(
                    "99 % of the delays of a class while another floods",
                    offered(),
                    logarithmic("us"),
                    flood("mean").collect(),
                ),
            ),
            (
                "idle".to_owned(),
                plot(
                    "time of cores that passes idle while packets wait",
                    Axis::linear("load", part),
                    Axis::linear("part", part),
                    POLICIES.into_iter().map(|policy| by_place(data, IDLE, policy, "mean")).collect(),
                ),
            ),
        ]
    }
}

/// Returns the rows of a promise and a policy.
fn rows<'a>(data: &'a Table, promise: &str, policy: &str) -> impl Rows<'a> {
    data.rows_of("promise", promise).of("policy", policy)
}

/// Returns the median of a column over the draws, by place.
fn by_place(data: &Table, promise: &str, policy: &str, column: &str) -> Line {
    let at = |place: f64| {
        let found = Statistic::of(rows(data, promise, policy).at("at", place).numbers(column).collect());
        found.map(|found| (place, found.median))
    };
    line(policy, if promise == FLOOD { &FLOODS[..] } else { &LOADS }.iter().filter_map(|&place| at(place)))
}

/// Returns the medians of a line.
fn medians(data: &Table, promise: &str, policy: &str, column: &str) -> Vec<f64> {
    by_place(data, promise, policy, column).points.iter().map(|point| point.y).collect()
}

/// The judged policy.
const JUDGED: &str = "ps-hrw";

static FIGURES: [Figure; 3] = [
    Figure { claim: "ps-hrw-gps-share", of: |data| vec![rows(data, SHARE, JUDGED).range("least").least] },
    Figure { claim: "ps-hrw-gps-independent", of: |data| vec![rows(data, FLOOD, JUDGED).range("least").least] },
    Figure { claim: "ps-hrw-gps-work-conserving", of: |data| vec![rows(data, IDLE, JUDGED).range("mean").greatest] },
];

fn share_note(data: &Table, case: &str, policy: &str) -> Note {
    let values = |column: &str| rows(data, SHARE, policy).of("case", case).numbers(column).collect();
    let median = |column: &str| Statistic::of(values(column)).map_or(0.0, |found| found.median);
    let (least, greatest) = (median("least"), median("greatest"));
    Note::new(
        format!("{policy}: service over the guarantee of equation 2, {case}"),
        "at least 1, of every connection",
        format!("{} to {}", short(least), short(greatest)),
    )
}

fn flood_note(data: &Table, policy: &str) -> Note {
    let (served, delays) = (medians(data, FLOOD, policy, "least"), medians(data, FLOOD, policy, "mean"));
    Note::new(
        format!("{policy}: what a class that offers 0.4 gets while another offers {}", listed(FLOODS)),
        "all that it offers",
        format!("{} of it, 99 % within {} us", listed(served), listed(delays)),
    )
}

fn idle_note(data: &Table, policy: &str) -> Note {
    let idle = medians(data, IDLE, policy, "mean");
    let percent: Vec<f64> = idle.iter().map(|part| 100.0 * part).collect();
    Note::new(
        format!("{policy}: % of the time of cores idle while packets wait, loads {}", listed(LOADS)),
        "0: work conserving",
        listed(percent),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_held_by_the_worst_case() {
        let of = |promise, policy, at, numbers| row(promise, "case", policy, 1, at, numbers);
        let rows = [
            of(SHARE, JUDGED, 3.0, [0.7, 1.2, 1.0]),
            of(SHARE, JUDGED, 20.0, [0.9, 1.6, 1.0]),
            of(SHARE, "rr", 3.0, [0.1, 1.6, 1.0]),
            of(FLOOD, JUDGED, 0.2, [1.0, 1.0, 20.0]),
            of(FLOOD, JUDGED, 4.0, [0.4, 0.4, 300.0]),
            of(IDLE, JUDGED, 0.5, [0.3; 3]),
            of(IDLE, JUDGED, 0.8, [0.1; 3]),
            of(IDLE, "jsq", 0.5, [0.8; 3]),
        ];
        let data = Table::of(COLUMNS, rows);
        let found: Vec<Vec<f64>> = FIGURES.iter().map(|figure| (figure.of)(&data)).collect();
        assert_eq!(found, [[0.7], [0.4], [0.3]]);
    }
}
