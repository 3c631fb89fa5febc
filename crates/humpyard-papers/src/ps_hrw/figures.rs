//! Figures 7 to 10, 13 and 14: the results of the policies with the same packets.

use humpyard_core::random::Seed;

use super::claims;
use super::found::Found;
use super::machine::{Feed, MachineRun, Trial, run};
use super::notes;
use super::paper::{DRAWS, FULL, PAPER, QUICK_SATURATED, TOPOLOGY, drawn_seed};
use super::shown::Shown;
use super::workload::{ALL, Cost, FFMPEG, L7, Offered, Workload};
use crate::harness::{About, Experiment, Figure, Note, Plots, Row, Scale, Table, group, mean, rows};
use humpyard_lab::{LabError, parse_topology};
use humpyard_plot::BarGroup;
use humpyard_plot::statistics::Statistic;

/// The compared policies: the paper's, then other known ones, then variants.
const POLICIES: [&str; 14] = [
    "rr",
    "conn",
    "hrw",
    "ap",
    "gps-hrw",
    "ps-hrw",
    "h-cahrw",
    "ca-ahrw",
    "ahrw",
    "jsq",
    "jsq2",
    "ps-hrw:residual=literal",
    "ps-hrw:guard=true",
    "ps-hrw:weight=work",
];

rows! {
    COLUMNS, fn row(place: Place, policy: &str, offered: &Offered, came: &MachineRun) {
        let packets = offered.packets.len() as f64;
        let utilization = Statistic::of(came.summary.cores_detail.iter().map(|core| core.utilization).collect());
        let utilization = utilization.expect("at least one core");
        let cache = came.summary.cache.expect("there is a topology");
    } => {
        text workload = place.workload.name(), text cost = place.cost.name(), text feed = place.feed.name(),
        text policy = policy, integer draw = place.draw, integer packets = offered.packets.len(),
        integer connections = offered.flows, real packet_mean_bytes = offered.bytes() as f64 / packets,
        real work_mean_us = offered.mean_work() / 1e3, real throughput_per_s = came.summary.throughput_pps,
        real utilization_min = utilization.min, real utilization_mean = mean(&utilization.values),
        real utilization_max = utilization.max, real out_of_order_percent = 100.0 * came.summary.order.fraction,
        real jitter_us = came.summary.jitter_ns / 1e3, real moves_per_packet = cache.moves_per_packet,
        real bytes_missed_percent = 100.0 * cache.bytes_away_fraction,
        real rebuilds_per_packet = came.rebuilt as f64 / packets,
        real idle_while_waiting_percent = 100.0 * came.idle_while_waiting,
        real delay_p99_us = came.summary.delay_ns.p99 as f64 / 1e3,
    }
}

/// A figure that compares policies.
#[derive(Debug)]
pub(super) struct Comparison {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    workloads: &'static [Workload],
    /// Further workloads for the claims, which are not in plots.
    besides: &'static [Workload],
    feeds: &'static [Feed<'static>],
    /// Draws of traffic (quick, full).
    draws: (usize, usize),
    costs: &'static [Cost],
    figures: &'static [Figure],
    notes: fn(&Table) -> Vec<Note>,
    plots: &'static [Shown],
}

/// The common setting.
pub(super) const SETTING: &str = "The paper's machine is a model in virtual time: two sockets of two L2 caches of two \
    cores each. A packet takes 5 % longer if its connection moves to the core beside, 25 % within the socket and 45 % \
    beyond it: a choice of ours, for the paper measures real caches. Its traces are not public; models of them have as \
    many packets in a connection, as many bytes in a packet, and as many packets in all (quick runs 100,000, or 50,000 \
    where order is not looked at). In the L7 filter a packet takes 1 us, and 8 ns for each byte of its connection's \
    buffer, while its connection is to be matched, then 1.5 us. A group of pictures takes 18 ms in the mean, from 4 to \
    50 by the format. Beside these costs are those that were measured: `l7-filter` for a packet; and for a group of \
    pictures what libav took to transcode one (`ps-hrw-gop-costs`), 9 ms in the mean, films of three codecs in turn. A \
    saturated machine has a dispatcher that waits while the core it has chosen has more than 64 packets; at a load of \
    0.8 packets arrive by themselves, such that cores would be busy for 0.8 of the time if no connection moved. \
    Numbers are medians over draws of the traffic, with their range.";

const BOTH: &[Cost] = &[Cost::Model, Cost::Measured];
const MODEL: &[Cost] = &[Cost::Model];
const SATURATED: &[Feed<'static>] = &[Feed::Saturated(FULL)];
const EACH: &[Feed<'static>] = &[Feed::Arrivals, Feed::Saturated(FULL)];

/// Draws for figures in which the ranking of policies depends on the draw.
const ALL_DRAWS: (usize, usize) = (DRAWS.1, DRAWS.1);

const THROUGHPUT: Shown =
    Shown::of("throughput", "packets per second", "throughput_per_s", |number| format!("{:.0} k", number / 1e3));
const UTILIZATION: Shown = Shown {
    name: "utilization",
    axis: "time that cores are busy: mean, least and greatest",
    format: |part| format!("{part:.3}"),
    column: "utilization_mean",
    range: Some(("utilization_min", "utilization_max")),
};

pub(super) static COMPARISONS: [Comparison; 6] = [
    Comparison {
        id: "ps-hrw-fig7",
        figure: "figure 7 and table 2",
        title: "throughput of the L7 filter",
        description: "Three traces, saturated.",
        workloads: &L7,
        feeds: SATURATED,
        draws: DRAWS,
        costs: BOTH,
        besides: &FFMPEG,
        figures: claims::THROUGHPUT,
        notes: notes::throughput,
        plots: &[THROUGHPUT],
    },
    Comparison {
        id: "ps-hrw-fig8",
        figure: "figure 8 and table 3",
        title: "throughput of FFmpeg",
        description: "20 films at a time, five for each of four formats, saturated. A packet stands for a group of \
            pictures.",
        workloads: &FFMPEG,
        feeds: SATURATED,
        draws: DRAWS,
        costs: BOTH,
        besides: &[],
        figures: &[],
        notes: notes::throughput,
        plots: &[Shown {
            axis: "groups of pictures per second",
            format: |number| format!("{number:.0}"),
            ..THROUGHPUT
        }],
    },
    Comparison {
        id: "ps-hrw-fig9",
        figure: "figure 9",
        title: "load balance of the L7 filter",
        description: "How long each core is busy, from the first arrival to the last completion of a saturated run.",
        workloads: &L7,
        feeds: SATURATED,
        draws: ALL_DRAWS,
        costs: MODEL,
        besides: &FFMPEG,
        figures: claims::BALANCE,
        notes: notes::balance,
        plots: &[UTILIZATION],
    },
    Comparison {
        id: "ps-hrw-fig10",
        figure: "figure 10",
        title: "load balance of FFmpeg",
        description: "As figure 9, with films.",
        workloads: &FFMPEG,
        feeds: SATURATED,
        draws: DRAWS,
        costs: BOTH,
        besides: &[],
        figures: &[],
        notes: notes::balance,
        plots: &[UTILIZATION],
    },
    Comparison {
        id: "ps-hrw-fig13",
        figure: "figure 13",
        title: "L2 misses",
        description: "The paper counts misses of real caches. Here a packet's bytes are missed if the packet before it \
            of its connection was on a core that shares no L2 cache with its own; and a packet is moved if that was \
            another core.",
        workloads: &L7,
        feeds: EACH,
        draws: DRAWS,
        costs: MODEL,
        besides: &[],
        figures: claims::MISSES,
        notes: notes::misses,
        plots: &[
            Shown::of("misses", "of all bytes are in no cache of the core", "bytes_missed_percent", |percent| {
                format!("{percent:.1} %")
            }),
            Shown::of("moves", "of all packets are on another core than the one before", "moves_per_packet", |part| {
                format!("{part:.3}")
            }),
        ],
    },
    Comparison {
        id: "ps-hrw-fig14",
        figure: "figure 14",
        title: "out of order departures, and jitter",
        description: "A packet is out of order if a later one of its connection has left before it; jitter is the \
            deviation of times between departures of a connection, in the mean over connections with at least three of \
            these. Claims are of a saturated machine. At a load of 0.8 there are moments with few packets, in which a \
            connection has most of the bytes held, so several cores, and its packets overtake: about a fifth more than \
            under h-cahrw. Jitter of the traces is mostly that of their arrivals.",
        workloads: &ALL,
        feeds: EACH,
        draws: DRAWS,
        costs: MODEL,
        besides: &[],
        figures: claims::ORDER,
        notes: notes::order,
        plots: &[
            Shown::of("order", "of packets leave out of order", "out_of_order_percent", |percent| {
                format!("{percent:.2} %")
            }),
            Shown::of("jitter", "jitter", "jitter_us", |us| format!("{:.2} ms", us / 1e3)),
        ],
    },
];

/// A part: a workload, its cost, its arrivals, and the number of the draw, from 1.
#[derive(Clone, Copy)]
struct Place {
    workload: Workload,
    cost: Cost,
    feed: Feed<'static>,
    draw: usize,
}

impl Comparison {
    /// Returns all parts of a draw.
    fn kinds(&self, draw: usize) -> impl Iterator<Item = Place> {
        let of = move |&workload: &Workload| {
            let of = move |&cost: &Cost| self.feeds.iter().map(move |&feed| Place { workload, cost, feed, draw });
            self.costs.iter().flat_map(of)
        };
        self.workloads.iter().chain(self.besides).flat_map(of)
    }
}

impl Place {
    fn group(&self, data: &Table, shown: &Shown) -> BarGroup {
        let found = Found { data, workload: self.workload, cost: self.cost, feed: self.feed.name() };
        let bars = POLICIES.map(|policy| shown.bar(policy, |column| found.statistic(policy, column)));
        group(found.name(), bars)
    }
}

/// The common description.
const ABOUT: About = About { setting: SETTING, columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for Comparison {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn parts(&self, scale: Scale) -> usize {
        self.kinds(1).count() * scale.of(self.draws)
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let kinds = self.kinds(1).count();
        let place = self.kinds(part / kinds + 1).nth(part % kinds).expect("a part of this scale");
        let seed = drawn_seed(seed, place.draw);
        let most = if self.feeds.len() > 1 { u64::MAX } else { scale.pick(QUICK_SATURATED, u64::MAX) };
        let offered = place.workload.offered(place.cost, place.workload.packets(scale).min(most), seed)?;
        let topology = parse_topology(TOPOLOGY)?;
        let trial = Trial { feed: place.feed, ..Trial::on(&topology, seed).of(&offered) };
        let rows = POLICIES.iter().map(|policy| Ok(row(place, policy, &offered, &run(&Trial { policy, ..trial })?)));
        rows.collect()
    }

    fn version(&self) -> u32 {
        2
    }

    fn figures(&self) -> &'static [Figure] {
        self.figures
    }

    fn seed_column(&self) -> Option<&'static str> {
        Some("draw")
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        (self.notes)(data)
    }

    fn plots(&self, data: &Table) -> Plots {
        let is_drawn = |kind: &Place| self.workloads.contains(&kind.workload);
        let groups = |shown| self.kinds(1).filter(is_drawn).map(|kind| kind.group(data, shown)).collect();
        let plots = self.plots.iter().map(|shown| shown.plot(self.title, self.description, groups(shown)));
        plots.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::SATURATED as SATURATED_NAME;
    use super::*;
    use crate::harness::testing::parts;

    const PS: &str = "ps-hrw";
    const LITERAL: &str = "ps-hrw:residual=literal";

    /// Returns the data of the first part of an experiment, whose first workload has one draw.
    fn first(id: &str) -> Table {
        parts(COMPARISONS.iter().find(|one| one.id == id).unwrap(), [0])
    }

    fn found(data: &Table, workload: Workload) -> Found<'_> {
        Found { data, workload, cost: Cost::Model, feed: SATURATED_NAME }
    }

    /// The literal form of the residual has the same results.
    #[test]
    fn films_are_shared_more_evenly_than_by_connections() {
        let data = first("ps-hrw-fig8");
        let films = found(&data, FFMPEG[0]);
        // Mean work of a group of pictures of each format, in million pixels/s: decoded and encoded.
        let work = films.value(PS, "packet_mean_bytes") / 100.0 / ((3.1 + 3.7 + 10.4 + 39.0) / 4.0);
        assert!((0.95..=1.05).contains(&work), "table 3: {work}");
        for policy in [PS, LITERAL] {
            assert!(films.ratio("throughput_per_s", policy, "conn") >= 1.1, "{policy}");
            assert!(films.spread(policy) <= 0.5 * films.spread("conn"), "{policy}");
        }
    }

    #[test]
    fn packets_stay_under_connections_and_move_most_in_turn() {
        let data = first("ps-hrw-fig7");
        let mit = found(&data, L7[0]);
        let moves = |policy| mit.value(policy, "moves_per_packet");
        assert_eq!((moves("conn"), moves("hrw")), (0.0, 0.0));
        assert!(moves("rr") > moves("ap") && moves("ap") > moves(PS));
        for policy in [PS, LITERAL] {
            assert!(mit.ratio("bytes_missed_percent", policy, "ap") <= 0.6, "{policy}");
            assert!(mit.ratio("throughput_per_s", policy, "conn") >= 1.1, "{policy}");
            assert!(mit.spread(policy) <= 0.5 * mit.spread("conn"), "{policy}");
        }
    }

    /// EXPERIMENTS section 4.
    #[test]
    fn others_reorder_more() {
        // The first workload, saturated.
        let data = parts(COMPARISONS.iter().find(|one| one.id == "ps-hrw-fig14").unwrap(), [1]);
        let mit = found(&data, L7[0]);
        for policy in [PS, LITERAL] {
            for (other, times) in [("rr", 5.0), ("ap", 1.0), ("ahrw", 1.5)] {
                let ratio = mit.ratio("out_of_order_percent", other, policy);
                assert!(ratio >= times, "{other} over {policy}: {ratio}");
            }
        }
        assert_eq!(mit.value("conn", "out_of_order_percent"), 0.0);
    }
}
