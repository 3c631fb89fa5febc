//! Figure 12: the cost of choosing the next among clients that always want another slot.

use humpyard_core::random::Seed;

use super::super::paper::PAPER;
use super::subject::{FOR_SEVERAL, PROCESSORS, Selecting, Subject, lines, plot, subjects, weights};
use crate::harness::{
    About, EFFORT, Effort, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, Timing, listed, rows, short,
};
use humpyard_lab::LabError;

/// The paper's numbers of clients, and two more.
const CLIENTS: [usize; 7] = [25, 50, 100, 200, 400, 1600, 8192];
/// The paper's numbers of clients.
const PAPERS_CLIENTS: [usize; 5] = [25, 50, 100, 200, 400];
/// The paper's policies on two processors.
const ON_TWO: [Subject; 2] = [
    Subject { policy: FOR_SEVERAL, processors: 2, is_linear: false },
    Subject { policy: "linux24", processors: 2, is_linear: true },
];
/// With `--full`, for policies that do not visit every client.
const CLIENTS_MANY: [usize; 1] = [1 << 16];

rows! {
    COLUMNS, fn row(subject: Subject, clients: usize, timing: &Timing, served: Option<u64>) {
        text policy = subject.policy, integer processors = subject.processors, integer clients = clients,
        real select_ns = timing.best, real select_ns_median = timing.median, integer batches = timing.batches,
        integer slots_per_batch = timing.slots, integer served_at_end = served.unwrap_or(0),
    }
}

/// Figure 12.
pub(super) struct SelectCost;

/// Returns policies with numbers of clients.
fn places(scale: Scale) -> Vec<(Subject, usize)> {
    let clients = |subject: Subject| {
        let many = if scale == Scale::Full && !subject.is_linear { &CLIENTS_MANY[..] } else { &[] };
        CLIENTS.iter().chain(many).map(move |&clients| (subject, clients))
    };
    let on_two = ON_TWO.into_iter().flat_map(|subject| PAPERS_CLIENTS.map(|clients| (subject, clients)));
    subjects().into_iter().flat_map(clients).chain(on_two).collect()
}

fn run(subject: Subject, clients: usize, effort: Effort, seed: Seed) -> Result<Row, LabError> {
    let weights = weights(clients, seed);
    let selecting = Selecting { weights: &weights, processors: subject.processors, effort };
    let (timing, served) = subject.visit(&weights, seed, selecting)??;
    Ok(row(subject, clients, &timing, served))
}

impl Experiment for SelectCost {
    fn about(&self) -> About {
        About {
            id: "gr3-fig12",
            figure: "figure 12",
            title: "what it costs to choose the next client",
            description: "Clients of random weights from 1 to 40 always want another slot of one unit of work. A \
                select is the choice, the calls that report the slot and the client's next packet, and the loop \
                around them, without queues and packets: processor time of the thread, the best of 15 batches. \
                gr3mp is on 8 processors that one thread simulates, and on 2, as in the paper, with linux24 beside it: \
                what locks cost is not in it, as it is in the paper. Policies that look at every client have at most \
                8192. The paper's times are of kernels of 2004: only ratios \
                can be compared.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn version(&self) -> u32 {
        2
    }

    fn parts(&self, scale: Scale) -> usize {
        places(scale).len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (subject, clients) = places(scale)[part];
        Ok(vec![run(subject, clients, EFFORT, seed)?])
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let note = |policy: &str, processors: usize| {
            let rows = data.rows_of("policy", policy).at("processors", processors as f64);
            let about = format!("{policy}: ns with {}", listed(rows.clone().numbers("clients")));
            Note::new(about, "", rows.listed("select_ns"))
        };
        let times = subjects().into_iter().map(|subject| note(subject.policy, subject.processors));
        let growth = |policy| short(time(data, (policy, 1), 8192) / time(data, (policy, 1), 25));
        let growths =
            ["gr3", "wfq"].map(|policy| Note::new(format!("{policy}: 8192 clients over 25"), "", growth(policy)));
        let several = PAPERS_CLIENTS
            .map(|clients| time(data, (FOR_SEVERAL, PROCESSORS), clients) / time(data, ("gr3", 1), clients));
        let several = Note::new("gr3mp on 8 processors over gr3, 25 to 400 clients", "", listed(several));
        growths.into_iter().chain([several]).chain(times).collect()
    }

    fn plots(&self, data: &Table) -> Plots {
        let lines = lines(data.rows(), "clients", "select_ns");
        vec![("select".to_owned(), plot(self.about(), "time of a select", "clients", lines))]
    }

    fn is_timed(&self) -> bool {
        true
    }
}

/// Returns the time of a select of a policy on this number of processors.
fn time(data: &Table, (policy, processors): (&str, usize), clients: usize) -> f64 {
    let mut rows = data.rows_of("policy", policy).at("processors", processors as f64).at("clients", clients as f64);
    rows.next().map_or(f64::NAN, |row| row.number("select_ns"))
}

/// Returns the time with 400 clients over that of GR3.
fn over_gr3(data: &Table, policy: &str) -> f64 {
    time(data, (policy, 1), 400) / time(data, ("gr3", 1), 400)
}

/// Returns the time with 400 clients over that with 25.
fn growth(data: &Table, run: (&str, usize)) -> f64 {
    time(data, run, 400) / time(data, run, 25)
}

/// Returns the smallest quotient of two times over the paper's numbers of clients.
fn smallest(data: &Table, above: (&str, usize), below: (&str, usize)) -> f64 {
    let ratios = PAPERS_CLIENTS.map(|clients| time(data, above, clients) / time(data, below, clients));
    ratios.into_iter().reduce(|one, other| if one <= other { one } else { other }).unwrap_or(f64::NAN)
}

static FIGURES: [Figure; 10] = [
    Figure { claim: "gr3-fig12-gr3-constant", of: |data| vec![growth(data, ("gr3", 1))] },
    Figure {
        claim: "gr3-fig12-smallest",
        of: |data| {
            let others = ["vtrr", "wfq", "wfq-list", "linux24"];
            others.map(|policy| smallest(data, (policy, 1), ("gr3", 1))).into()
        },
    },
    Figure { claim: "gr3-fig12-vtrr-constant", of: |data| vec![growth(data, ("vtrr", 1))] },
    Figure {
        claim: "gr3-fig12-linear",
        of: |data| {
            let increments = |policy| {
                let [first, second, third] = [100, 200, 400].map(|clients| time(data, (policy, 1), clients));
                (third - second) / (second - first)
            };
            ["linux24", "wfq-list"].map(increments).into()
        },
    },
    Figure {
        claim: "gr3-fig12-200-times",
        of: |data| ["linux24", "wfq-list"].map(|policy| over_gr3(data, policy)).into(),
    },
    Figure { claim: "gr3-fig12-heap-8", of: |data| vec![over_gr3(data, "wfq")] },
    Figure {
        claim: "gr3-fig12-heap-below-linear",
        of: |data| ["linux24", "wfq-list"].map(|policy| over_gr3(data, policy) / over_gr3(data, "wfq")).into(),
    },
    Figure { claim: "gr3-fig12-mp-constant", of: |data| vec![growth(data, (FOR_SEVERAL, 2))] },
    Figure {
        claim: "gr3-fig12-mp-between",
        of: |data| {
            let mp = (FOR_SEVERAL, 2);
            vec![smallest(data, mp, ("gr3", 1)), smallest(data, ("linux24", 2), mp)]
        },
    },
    Figure { claim: "gr3-fig12-linux26", of: |data| vec![over_gr3(data, "linux-o1")] },
];

#[cfg(test)]
mod tests {
    use super::super::subject::{RIVALS, all_subjects};
    use super::*;
    use crate::harness::BRIEF;
    use crate::harness::testing::judge;

    #[test]
    fn the_full_scale_has_the_most_clients() {
        let quick = places(Scale::Quick);
        assert_eq!(quick.len(), RIVALS.len() * CLIENTS.len() + ON_TWO.len() * PAPERS_CLIENTS.len());
        let full = places(Scale::Full);
        assert!(quick.iter().all(|place| full.contains(place)));
        for (policy, most) in [("linux24", 8192), ("wfq-list", 8192), ("vtrr", 1 << 16), ("gr3", 1 << 16)] {
            let of_policy = full.iter().filter(|(subject, _)| subject.policy == policy);
            assert_eq!(of_policy.map(|&(_, clients)| clients).max(), Some(most), "{policy}");
        }
    }

    #[test]
    fn every_policy_serves_everybody_once_more() {
        for subject in all_subjects() {
            let row = run(subject, 50, BRIEF, Seed(1)).unwrap();
            assert_eq!(row.last(), Some(&50u32.into()), "{row:?}");
        }
    }

    #[test]
    fn figures_are_quotients_of_times() {
        let of = |(subject, clients): (Subject, usize)| {
            let n = clients as f64;
            let best = match subject.policy {
                "gr3" => 10.0,
                "linux24" | "wfq-list" => 100.0 + 10.0 * n,
                "wfq" => 20.0 * n.log2(),
                _ => 15.0,
            };
            row(subject, clients, &Timing { best, median: best, batches: 1, slots: 1 }, None)
        };
        let data = Table::of(COLUMNS, places(Scale::Quick).into_iter().map(of));
        let figure = |claim: &str| (FIGURES.iter().find(|figure| figure.claim == claim).unwrap().of)(&data);
        assert_eq!(figure("gr3-fig12-gr3-constant"), [1.0]);
        assert_eq!(figure("gr3-fig12-linear"), [2.0, 2.0]);
        assert_eq!(figure("gr3-fig12-200-times"), [410.0, 410.0]);
        assert_eq!(figure("gr3-fig12-smallest")[0], 1.5);
        assert_eq!(figure("gr3-fig12-mp-between")[0], 1.5);
        assert!((figure("gr3-fig12-mp-between")[1] - 350.0 / 15.0).abs() < 1e-9);
        assert!(judge(&SelectCost, &[data], Scale::Quick).iter().all(|verdict| !verdict.found.contains(&vec![None])));
    }
}
