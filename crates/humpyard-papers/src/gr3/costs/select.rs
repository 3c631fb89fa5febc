//! What it costs to choose the next of clients that always want another slot: figure 12.

use humpyard_core::random::Seed;

use super::super::paper::PAPER;
use super::subject::{
    FOR_SEVERAL, RIVALS, Selecting, Subject, everywhere, lines, plot, subjects, times_listed, weights,
};
use crate::harness::{About, Bound, Effort, Experiment, Plots, Row, Scale, Table, TableRow, Timing, Verdict, rows};
use humpyard_lab::LabError;

/// Those of the paper, and two more.
const CLIENTS: [usize; 7] = [25, 50, 100, 200, 400, 1600, 8192];
/// With `--full`, for policies that do not look at every client.
const CLIENTS_MANY: [usize; 2] = [1 << 16, 1 << 20];

rows! {
    COLUMNS, fn row(subject: Subject, clients: usize, timing: &Timing, served: Option<u64>) {
        text policy = subject.policy, integer processors = subject.processors, integer clients = clients,
        real select_ns = timing.best, real select_ns_median = timing.median, integer batches = timing.batches,
        integer slots_per_batch = timing.slots, integer served_at_end = served.unwrap_or(0),
    }
}

/// Figure 12.
pub(super) struct SelectCost;

/// Policies with numbers of clients.
fn places(scale: Scale) -> Vec<(Subject, usize)> {
    let clients = |subject: Subject| {
        let many = if scale == Scale::Full && !subject.is_linear { &CLIENTS_MANY[..] } else { &[] };
        CLIENTS.iter().chain(many).map(move |&clients| (subject, clients))
    };
    subjects(scale).into_iter().flat_map(clients).collect()
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
                select is the choice, what the policy is told of the slot and of the client's next, and the loop \
                around it, without queues and packets: processor time of the thread, the best of 15 batches or more. \
                gr3mp is on 8 processors that one thread simulates, so what locks cost is not in it, as it is in the \
                paper. Policies that look at every client have at most 8192; fcfs, which knows no clients, is left \
                out. The paper's times are of kernels of 2004, the listed ones of other implementations on another \
                machine: only ratios can be compared, and nothing hangs on these.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        places(scale).len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (subject, clients) = places(scale)[part];
        Ok(vec![run(subject, clients, Effort::of(scale), seed)?])
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let claim = "when each client is to have one more slot, each has one, and no more";
        let is_served = |row: &TableRow<'_>| row.number("served_at_end") == row.number("clients");
        let mut verdicts = Vec::from_iter(everywhere(data.rows(), claim, "clients", is_served));
        verdicts.extend(ratios(data));
        verdicts.extend(RIVALS.map(|policy| {
            let said = match policy {
                "gr3" => "6.6, 6.5, 6.9, 6.3, 7.3, 8.2, 8.0",
                FOR_SEVERAL => "6.2 to 9.8",
                "vtrr" => "2.7 to 3.0, then 4.1, 5.4",
                "wfq" => "22, 27, 30, 35, 41, 55, 63",
                "wfq-list" => "42, 88, 144, 272, 521, 2057, 10717",
                _ => "not said",
            };
            let claim = format!("{policy}: ns with {} clients", CLIENTS.map(|clients| clients.to_string()).join(", "));
            times_listed(
                claim,
                said,
                data.rows_of("policy", policy).take(CLIENTS.len()).map(|row| row.number("select_ns")),
            )
        }));
        verdicts
    }

    fn plots(&self, data: &Table) -> Plots {
        let lines = lines(data.rows(), "clients", "select_ns");
        vec![("select".to_owned(), plot(self.about(), "time of a select", "clients", lines))]
    }

    fn is_timed(&self) -> bool {
        true
    }
}

/// The acceptance of PROPORTIONAL_SHARE section 5.2, and what the paper says beyond it.
fn ratios(data: &Table) -> Vec<Verdict> {
    let time = |policy: &str, clients: usize| {
        let mut rows = data.rows_of("policy", policy);
        let row = rows.find(|row| row.number("clients") as usize == clients);
        row.expect("every scale has these places").number("select_ns")
    };
    let over_gr3 = |policy: &str| time(policy, 400) / time("gr3", 400);
    let growth = |policy: &str, from: usize, to: usize| time(policy, to) / time(policy, from);
    let for_several = CLIENTS.map(|clients| time(FOR_SEVERAL, clients) / time("gr3", clients));
    vec![
        Verdict::beside("gr3: 8192 clients over 25", Bound::AtMost(2.0), growth("gr3", 25, 8192)),
        Verdict::beside("wfq over gr3, 400 clients (paper: 8)", Bound::AtLeast(3.0), over_gr3("wfq")),
        Verdict::beside(
            "wfq-list over gr3, 400 clients (paper: more than 200)",
            Bound::AtLeast(30.0),
            over_gr3("wfq-list"),
        ),
        Verdict::beside("wfq-list: 400 clients over 100", Bound::Within(3.0, 5.0), growth("wfq-list", 100, 400)),
        Verdict::beside("wfq: 8192 clients over 25", Bound::Within(1.5, 5.0), growth("wfq", 25, 8192)),
        Verdict::beside(
            "gr3mp over gr3, the most of all",
            Bound::AtMost(2.0),
            for_several.into_iter().fold(0.0, f64::max),
        ),
        Verdict::beside("linux24 over gr3, 400 clients (paper)", Bound::AtLeast(200.0), over_gr3("linux24")),
        Verdict::beside("linux-o1 over gr3, 400 clients (paper)", Bound::AtLeast(1.3), over_gr3("linux-o1")),
        Verdict::beside("vtrr over gr3, 400 clients (paper)", Bound::AtLeast(1.0), over_gr3("vtrr")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::BRIEF;

    #[test]
    fn the_full_scale_has_every_policy_with_clients_and_the_most_clients() {
        let quick = places(Scale::Quick);
        assert_eq!(quick.len(), RIVALS.len() * CLIENTS.len());
        let full = places(Scale::Full);
        assert!(quick.iter().all(|place| full.contains(place)));
        for (policy, most) in [("linux24", 8192), ("wfq-list", 8192), ("vtrr", 1 << 20), ("qfq", 1 << 20)] {
            let of_policy = full.iter().filter(|(subject, _)| subject.policy == policy);
            assert_eq!(of_policy.map(|&(_, clients)| clients).max(), Some(most), "{policy}");
        }
        assert!(full.iter().all(|(subject, _)| subject.policy != "fcfs"));
    }

    #[test]
    fn every_policy_serves_everybody_once_more() {
        for subject in subjects(Scale::Full) {
            let row = run(subject, 50, BRIEF, Seed(1)).unwrap();
            assert_eq!(row.last(), Some(&50u32.into()), "{row:?}");
        }
    }

    #[test]
    fn verdicts_say_where_a_ratio_lies_and_do_not_fail_by_it() {
        let of = |policy, clients, served| {
            let ns = if policy == "wfq" { 10.0 } else { 1.0 };
            let timing = Timing { best: ns, median: ns, batches: 1, slots: 1 };
            row(Subject { policy, processors: 1, is_linear: false }, clients, &timing, Some(served))
        };
        let places = RIVALS.into_iter().flat_map(|policy| CLIENTS.map(|clients| of(policy, clients, clients as u64)));
        let mut data = Table::of(COLUMNS, places);
        let verdicts = SelectCost.verdicts(&data);
        assert!(verdicts.iter().all(|verdict| verdict.pass != Some(false)), "{verdicts:#?}");
        let measured = |claim: &str| {
            let verdict = verdicts.iter().find(|verdict| verdict.claim.starts_with(claim)).unwrap();
            (verdict.expected.as_str(), verdict.measured.as_str())
        };
        assert_eq!(measured("wfq over gr3"), ("at least 3", "10: inside"));
        assert_eq!(measured("wfq-list: 400"), ("3 to 5", "1: outside"));
        data.push(of("vtrr", 9, 8));
        let served = &SelectCost.verdicts(&data)[0];
        assert_eq!((served.pass, served.measured.as_str()), (Some(false), "not of vtrr with 9 clients"));
    }
}
