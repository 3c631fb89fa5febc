//! The cost of a decision if all cores bid, and if groups of them bid, over the number of cores.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, Id, IdVec};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{CoreView, Steer, Target, Topology, View};
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;
use humpyard_policies::registry::AnySteer;
use humpyard_policies::spec::PolicySpec;

use super::paper::PAPER;
use crate::harness::{
    About, EFFORT, Effort, Experiment, Figure, Note, Plots, Row, Scale, Table, Timing, line, listed, logarithmic,
    measure, rows,
};
use humpyard_lab::LabError;
use humpyard_plot::LinePlot;

pub(super) struct TreeCost;

/// The shape of a tree: fan-outs from the root down.
type Shape = &'static [usize];

/// Trees with two children at each node, and trees of real machines, by their number of cores.
const SHAPES: [(usize, Shape, Shape); 5] = [
    (8, &[2; 3], &[2, 2, 2]),
    (16, &[2; 4], &[2, 2, 4]),
    (64, &[2; 6], &[2, 8, 4]),
    (256, &[2; 8], &[4, 8, 8]),
    (1024, &[2; 10], &[4, 16, 16]),
];
/// Costs of leaving a group, from the cores up, in thousandths of the cost of staying.
const LEVEL_COSTS: [u32; 3] = [1_100, 1_400, 2_000];

/// The timed subjects: a policy, and whether its tree has two children at each node.
const SUBJECTS: [Subject; 7] = [
    ("conn", false),
    ("hrw", false),
    ("ahrw", false),
    ("ca-ahrw", false),
    ("h-cahrw", true),
    ("h-cahrw", false),
    ("ps-hrw", false),
];
/// A flat policy, and the tree with the same decisions.
const FLAT: Subject = ("ca-ahrw", false);
const TREE: Subject = ("h-cahrw", false);
/// The same, with two children at each node.
const BINARY_TREE: Subject = ("h-cahrw", true);

/// Number of connections whose packets are steered, in turn.
const CONNECTIONS: usize = 1024;

/// A policy, and whether its tree has two children at each node.
type Subject = (&'static str, bool);

rows! {
    COLUMNS, fn row((policy, is_binary): Subject, cores: usize, shape: Shape, timing: &Timing) {
        text policy = policy, text tree = tree_name(is_binary), integer cores = cores,
        integer bids = bids(policy, cores, shape), real best_ns = timing.best, real median_ns = timing.median,
        integer batches = timing.batches,
    }
}

fn topology(shape: Shape) -> Result<Topology, LabError> {
    let cost = |level: usize| LEVEL_COSTS[(shape.len() - 1 - level).min(LEVEL_COSTS.len() - 1)];
    let levels: Vec<(usize, u32)> = shape.iter().enumerate().map(|(level, &fan_out)| (fan_out, cost(level))).collect();
    Ok(Topology::regular(&levels)?)
}

/// Cores with packets, and a policy that knows about them.
struct Bench {
    policy: AnySteer,
    views: IdVec<CoreId, CoreView>,
    eligible: Vec<CoreId>,
    packets: Vec<Packet>,
}

impl Bench {
    fn new(policy: &str, tree: &Topology, seed: Seed) -> Result<Self, LabError> {
        let cores = tree.cores();
        let mut random = seed.stream("ps-hrw/treecost");
        let setup = SchedulerConfig {
            cores,
            topology: Some(tree.clone()),
            flows: CONNECTIONS,
            packets: 8 * cores,
            seed,
            rendezvous: humpyard_simd::rendezvous(),
            ..SchedulerConfig::default()
        };
        let spec: PolicySpec = policy.parse()?;
        let mut policy = spec.build_steer(&setup)?.expect("it steers");
        let connection = |flow: usize, key: u64| Packet {
            flow: FlowId::from_index(flow),
            key,
            rss: (key >> 32) as u32,
            length: 800,
            ..Packet::default()
        };
        let packets: Vec<Packet> = (0..CONNECTIONS).map(|flow| connection(flow, random.bits())).collect();
        let mut views = IdVec::from_fn(cores, |_| CoreView::default());
        for core in (0..cores).map(CoreId::from_index) {
            for _ in 0..random.below(8) {
                let packet = &packets[random.below(CONNECTIONS as u64) as usize];
                policy.on_enqueue(Time::ZERO, Target::Core(core), packet);
                views[core].packets += 1;
            }
        }
        Ok(Self { policy, views, eligible: (0..cores).map(CoreId::from_index).collect(), packets })
    }

    /// Steers this many packets. Returns a sum over their cores, so that the compiler removes nothing.
    fn steer(&mut self, packets: u64) -> u64 {
        let view = View { as_of: Time::ZERO, cores: &self.views, eligible: &self.eligible };
        let mut sum = 0;
        for at in 0..packets as usize {
            let target = self.policy.steer(Time::ZERO, &self.packets[at % CONNECTIONS], &view);
            sum += target.core().map_or(0, |core| u64::from(core.0));
        }
        sum
    }

    fn timing(&mut self, effort: Effort) -> Result<Timing, LabError> {
        measure(CONNECTIONS as u64, effort, |packets| {
            std::hint::black_box(self.steer(packets));
            packets
        })
    }
}

/// Returns the number of compared bids for a packet with a known home.
fn bids(policy: &str, cores: usize, shape: Shape) -> usize {
    match policy {
        "conn" => 0,
        "h-cahrw" => shape.iter().sum(),
        "ps-hrw" => 1,
        _ => cores,
    }
}

static FIGURES: [Figure; 2] = [
    Figure {
        claim: "ps-hrw-tree-lg-n",
        of: |data| {
            let growth = |subject| {
                let times = times(data, subject);
                times[times.len() - 1] / times[0]
            };
            [FLAT, BINARY_TREE].map(growth).into()
        },
    },
    Figure { claim: "ps-hrw-tree-cheaper", of: |data| vec![times(data, FLAT)[0] / times(data, TREE)[0]] },
];

impl Experiment for TreeCost {
    fn about(&self) -> About {
        About {
            id: "ps-hrw-treecost",
            figure: "section IV, which has no plot of it",
            title: "what a decision costs, flat and down a tree",
            description: "A packet of one of 1,024 connections is steered to cores with 0 to 7 packets each. Flat, \
                every core bids; down a tree, the children of a node do. Trees have two children everywhere, or are as \
                machines are: 2x2x2, 2x2x4, 2x8x4, 4x8x8 and 4x16x16. Times are those of the policy alone, on one \
                thread; the best batch counts.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        SHAPES.len()
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn run(&self, part: usize, _: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (cores, binary, machine) = SHAPES[part];
        let rows = SUBJECTS.into_iter().map(|(policy, is_binary)| {
            let shape = if is_binary { binary } else { machine };
            let timing = Bench::new(policy, &topology(shape)?, seed)?.timing(EFFORT)?;
            Ok(row((policy, is_binary), cores, shape, &timing))
        });
        rows.collect()
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let tree = times(data, TREE);
        let cheaper = |subject| {
            let at = times(data, subject).iter().zip(&tree).position(|(flat, tree)| tree < flat);
            at.map_or("never".to_owned(), |at| format!("from {} cores on", SHAPES[at].0))
        };
        let from = Note::new(
            "the tree is cheaper than ca-ahrw, and than ahrw, which knows no distances",
            "from 16 cores on (the specification's prototype)",
            format!("{}, {}", cheaper(FLAT), cheaper(("ahrw", false))),
        );
        let of_subject = |subject| {
            let about = format!("{}: ns with 8, 16, 64, 256 and 1,024 cores", subject_name(subject));
            Note::new(about, "", listed(times(data, subject)))
        };
        core::iter::once(from).chain(SUBJECTS.map(of_subject)).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let over_cores = |subject| {
            let cores = SHAPES.iter().map(|(cores, ..)| *cores as f64);
            line(subject_name(subject), cores.zip(times(data, subject)))
        };
        let plot = LinePlot {
            title: "ns for a decision".to_owned(),
            description: self.about().description.to_owned(),
            x: logarithmic("cores"),
            y: logarithmic("ns"),
            lines: SUBJECTS.map(over_cores).into(),
        };
        vec![("cost".to_owned(), plot.svg())]
    }
}

const fn tree_name(is_binary: bool) -> &'static str {
    if is_binary { "of two" } else { "of a machine" }
}

fn subject_name((policy, is_binary): Subject) -> String {
    if is_binary { format!("{policy}, two children") } else { policy.to_owned() }
}

/// Returns the times of a policy's decisions, by the number of cores.
fn times(data: &Table, (policy, is_binary): Subject) -> Vec<f64> {
    let rows = || data.rows_of("policy", policy).filter(|row| row.text("tree") == tree_name(is_binary));
    let at = |cores: usize| {
        rows().find(|row| row.number("cores") as usize == cores).map_or(f64::NAN, |row| row.number("best_ns"))
    };
    SHAPES.iter().map(|&(cores, ..)| at(cores)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_from_8_cores_to_1024() {
        let rows = SHAPES.into_iter().flat_map(|(cores, binary, _)| {
            [(FLAT, cores as f64), (TREE, 4.0), (BINARY_TREE, binary.len() as f64)].map(|(subject, best)| {
                row(subject, cores, binary, &Timing { best, median: best, batches: 1, slots: 1 })
            })
        });
        let data = Table::of(COLUMNS, rows);
        let found: Vec<Vec<f64>> = FIGURES.iter().map(|figure| (figure.of)(&data)).collect();
        assert_eq!(found, [vec![128.0, 10.0 / 3.0], vec![2.0]]);
        let lines = SUBJECTS.map(|subject| bids(subject.0, 8, &[2; 3]));
        assert_eq!(lines, [0, 8, 8, 8, 6, 6, 1]);
    }
}
