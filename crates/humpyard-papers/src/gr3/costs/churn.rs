//! What decisions cost where clients come and go all the time: figure 13.

use std::time::Duration;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::policy::Share;
use humpyard_core::random::Random;
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;
use humpyard_policies::registry::ShareVisitor;

use super::super::paper::PAPER;
use super::machine::{Clients, Machine, Next};
use super::messages::{self, Messages};
use super::subject::{RIVALS, Selecting, Subject, everywhere, lines, plot, round, subjects, times_listed, weights};
use crate::harness::{
    About, Bound, Effort, Experiment, Plots, Row, Scale, Table, TableRow, Timing, Verdict, measure, rows, short,
    summary_of_batches, thread_time,
};
use humpyard_lab::LabError;

/// Those of the paper, from 40 runnable tasks to 4000.
const GROUPS: [usize; 5] = [1, 10, 25, 50, 100];
/// Tasks of a group where clients come and go by chance.
const TASKS: usize = 80;
/// Messages from each writer to each reader; the paper's are 100.
const MESSAGES: (u32, u32) = (5, 100);

/// What clients do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    /// They always want another slot: as many as are runnable in `Churn`.
    Ready,
    /// They block by chance, and others wake.
    Churn,
    /// They send each other messages.
    Messages,
}

impl Pattern {
    const ALL: [Self; 3] = [Self::Ready, Self::Churn, Self::Messages];

    const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Churn => "churn",
            Self::Messages => "messages",
        }
    }

    /// The tasks of so many groups.
    const fn tasks(self, groups: usize) -> usize {
        match self {
            Self::Ready => groups * TASKS / 2,
            Self::Churn => groups * TASKS,
            Self::Messages => groups * messages::TASKS,
        }
    }
}

rows! {
    COLUMNS, fn row(place: Place, tasks: usize, found: &Found) {
        let Place { pattern, subject, groups } = place;
    } => {
        text pattern = pattern.name(), text policy = subject.policy, integer processors = subject.processors,
        integer groups = groups, integer tasks = tasks, real select_ns = found.timing.best,
        real select_ns_median = found.timing.median, integer batches = found.timing.batches,
        integer slots_per_batch = found.timing.slots, integer owed_at_end = found.owed,
        integer done_at_end = found.done,
    }
}

/// Half of the clients are blocked. Who is served blocks by chance, every other time, and one of those that were
/// blocked wakes.
struct Churn {
    random: Random,
    blocked: Vec<ClientId>,
}

impl Clients for Churn {
    #[inline]
    fn on_slot(&mut self, client: ClientId) -> (Next, Option<ClientId>) {
        let bits = self.random.bits();
        if bits & 1 == 0 {
            return (Next::Ready, None);
        }
        // Upper bits for the choice, whose bias is that of 32 bits.
        let at = ((bits >> 32) * self.blocked.len() as u64) >> 32;
        (Next::Blocked, Some(core::mem::replace(&mut self.blocked[at as usize], client)))
    }
}

/// Times of a select, with what was owed to clients at the end, and what they got.
struct Found {
    timing: Timing,
    owed: u64,
    done: u64,
}

/// Clients that come and go by chance; at the end each that is runnable has one more slot.
struct Churning<'a> {
    weights: &'a [Weight],
    processors: usize,
    effort: Effort,
    random: Random,
}

impl ShareVisitor for Churning<'_> {
    type Answer = Result<Found, LabError>;

    fn visit<Q: Share>(self, policy: Q) -> Self::Answer {
        let tasks = self.weights.len();
        let mut machine = Machine::new(policy, self.processors);
        let (runnable, blocked) = (0..tasks / 2, tasks / 2..tasks);
        runnable.map(ClientId::from_index).for_each(|client| machine.wake(client));
        let mut churn = Churn { random: self.random, blocked: blocked.map(ClientId::from_index).collect() };
        let run = |slots| (0..slots).map(|_| machine.slot(&mut churn)).sum();
        let timing = measure(round(self.weights, self.processors), self.effort, run)?;
        let owed = (tasks - churn.blocked.len()) as u64;
        Ok(Found { timing, owed, done: machine.drain(tasks).unwrap_or(0) })
    }
}

/// Tasks that send each other messages, from their start to their end, as often as there is time for.
struct Messaging {
    groups: usize,
    messages: u32,
    processors: usize,
    batches: usize,
    /// When no more is begun.
    time: Duration,
}

impl ShareVisitor for Messaging {
    type Answer = Result<Found, LabError>;

    fn visit<Q: Share>(self, policy: Q) -> Self::Answer {
        let mut machine = Machine::new(policy, self.processors);
        let (mut times, mut spent) = (Vec::with_capacity(self.batches), Duration::ZERO);
        let (mut owed, mut done, mut slots) = (0, 0, 0);
        while times.is_empty() || times.len() < self.batches && spent < self.time {
            let mut tasks = Messages::new(self.groups, self.messages);
            let begun = thread_time()?;
            (0..Pattern::Messages.tasks(self.groups)).map(ClientId::from_index).for_each(|task| machine.wake(task));
            let (selects, took) = to_the_end(&mut machine, &mut tasks);
            let time = thread_time()?.saturating_sub(begun);
            times.push(time.as_nanos() as f64 / selects.max(1) as f64);
            spent += time;
            slots = took;
            owed += tasks.owed();
            done += tasks.read();
        }
        Ok(Found { timing: summary_of_batches(times, slots), owed, done })
    }
}

/// Runs until no task wants anything: the selects, and the slots.
fn to_the_end<Q: Share>(machine: &mut Machine<Q>, tasks: &mut Messages) -> (u64, u64) {
    let (mut selects, mut slots) = (0, 0);
    loop {
        let selected = machine.slot(tasks);
        if selected == 0 {
            return (selects, slots);
        }
        selects += selected;
        slots += 1;
    }
}

/// One figure: who chooses among whom.
#[derive(Clone, Copy, Debug)]
struct Place {
    pattern: Pattern,
    subject: Subject,
    groups: usize,
}

fn places(scale: Scale) -> Vec<Place> {
    let of_pattern = |pattern| {
        let of_subject = move |subject| GROUPS.map(|groups| Place { pattern, subject, groups });
        subjects(scale).into_iter().flat_map(of_subject)
    };
    Pattern::ALL.into_iter().flat_map(of_pattern).collect()
}

impl Place {
    fn row(self, scale: Scale, effort: Effort, seed: Seed) -> Result<Row, LabError> {
        let tasks = self.pattern.tasks(self.groups);
        let found = self.found(scale, effort, seed)?;
        Ok(row(self, tasks, &found))
    }

    fn found(self, scale: Scale, effort: Effort, seed: Seed) -> Result<Found, LabError> {
        let Self { pattern, subject, groups } = self;
        let weights = &weights(pattern.tasks(groups), seed);
        let processors = subject.processors;
        match pattern {
            Pattern::Ready => {
                let (timing, served) = subject.visit(weights, seed, Selecting { weights, processors, effort })??;
                Ok(Found { timing, owed: weights.len() as u64, done: served.unwrap_or(0) })
            }
            Pattern::Churn => {
                let random = seed.stream("gr3-costs/churn");
                subject.visit(weights, seed, Churning { weights, processors, effort, random })?
            }
            Pattern::Messages => {
                let (messages, seconds) = (scale.of(MESSAGES), scale.pick(0, 5));
                let (batches, time) = (effort.batches, effort.most.max(Duration::from_secs(seconds)));
                subject.visit(weights, seed, Messaging { groups, messages, processors, batches, time })?
            }
        }
    }
}

/// Figure 13.
pub(super) struct ChurnCost;

impl Experiment for ChurnCost {
    fn about(&self) -> About {
        About {
            id: "gr3-fig13",
            figure: "figure 13",
            title: "what decisions cost where clients come and go",
            description: "Time of all that a policy is told and asked, over the number of selects, in processor time \
                of the thread; weights are random, from 1 to 40. By chance: 80 tasks a group, of which half are \
                runnable; who is served blocks every other time, and a random blocked one wakes. Best of 15 batches or \
                more. By messages, as hackbench does: in each group 20 writers send 100 messages (5 with --quick) to \
                each of 20 readers, whose queues hold 64; a slot is an attempt at one message, and who finds the queue \
                full, or empty, blocks. Best of as many runs, from start to end, as there was time for. Both are in \
                virtual time on one thread, with what the tasks themselves do; gr3-fig13-live has the messages on live \
                threads. gr3mp is on 8 processors that the thread simulates. fcfs, which knows no clients, is left \
                out. Times that are listed beside ours are of other implementations on another machine.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        places(scale).len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        Ok(vec![places(scale)[part].row(scale, Effort::of(scale), seed)?])
    }

    fn verdicts(&self, data: &Table) -> Vec<Verdict> {
        let is_done = |row: &TableRow<'_>| row.number("owed_at_end") == row.number("done_at_end");
        let done = |pattern: Pattern, claim: &str| {
            everywhere(data.rows_of("pattern", pattern.name()), claim, "groups", is_done)
        };
        let claims = [
            (Pattern::Ready, "ready: when each client is to have one more slot, each has one, and no more"),
            (Pattern::Churn, "churn: when each that is runnable is to have one more slot, each has one, and no more"),
            (Pattern::Messages, "messages: all are read, and all tasks come to their end"),
        ];
        let mut verdicts: Vec<Verdict> =
            claims.into_iter().filter_map(|(pattern, claim)| done(pattern, claim)).collect();
        verdicts.extend(ratios(data));
        for pattern in [Pattern::Churn, Pattern::Messages] {
            verdicts.push(order(data, pattern));
            verdicts.extend(RIVALS.map(|policy| all_times(data, pattern, policy)));
        }
        verdicts
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |(pattern, title): (Pattern, &str)| {
            let lines = lines(data.rows_of("pattern", pattern.name()), "groups", "select_ns");
            (pattern.name().to_owned(), plot(self.about(), title, "groups", lines))
        };
        [
            (Pattern::Churn, "time of a select, where clients block and wake by chance"),
            (Pattern::Messages, "time of a select, where tasks send messages"),
        ]
        .map(plot)
        .into()
    }

    fn is_timed(&self) -> bool {
        true
    }
}

/// Time of a select.
fn time(data: &Table, pattern: Pattern, policy: &str, groups: usize) -> f64 {
    let is_it = |row: &TableRow<'_>| row.text("pattern") == pattern.name() && row.number("groups") as usize == groups;
    let row = data.rows_of("policy", policy).find(is_it);
    row.expect("every scale has these places").number("select_ns")
}

/// The acceptance of PROPORTIONAL_SHARE section 5.3 but for the order, and the same of messages.
fn ratios(data: &Table) -> Vec<Verdict> {
    let growth = |pattern| time(data, pattern, "gr3", 100) / time(data, pattern, "gr3", 1);
    let over_gr3 = |policy| time(data, Pattern::Churn, policy, 100) / time(data, Pattern::Churn, "gr3", 100);
    let over_ready =
        GROUPS.map(|groups| time(data, Pattern::Churn, "gr3", groups) / time(data, Pattern::Ready, "gr3", groups));
    vec![
        Verdict::beside("churn: gr3, 100 groups over 1", Bound::AtMost(1.5), growth(Pattern::Churn)),
        Verdict::beside(
            "gr3: churn over the same clients always ready, the most of all (paper: 3)",
            Bound::AtMost(6.0),
            over_ready.into_iter().fold(0.0, f64::max),
        ),
        Verdict::beside("churn: vtrr over gr3, 100 groups", Bound::AtLeast(20.0), over_gr3("vtrr")),
        Verdict::beside("churn: wfq-list over gr3, 100 groups", Bound::AtLeast(100.0), over_gr3("wfq-list")),
        Verdict::beside("churn: wfq over gr3, 100 groups", Bound::AtLeast(2.0), over_gr3("wfq")),
        Verdict::beside("messages: gr3, 100 groups over 1", Bound::AtMost(1.5), growth(Pattern::Messages)),
    ]
}

/// Who is slower than whom from 10 groups on.
fn order(data: &Table, pattern: Pattern) -> Verdict {
    const ORDER: [&str; 4] = ["gr3", "wfq", "vtrr", "wfq-list"];
    let time = |policy: &str, groups| time(data, pattern, policy, groups);
    let is_broken = |groups: &usize| !ORDER.is_sorted_by(|a, b| time(a, *groups) < time(b, *groups));
    let broken: Vec<String> = GROUPS[1..]
        .iter()
        .copied()
        .filter(is_broken)
        .map(|groups| {
            let times = ORDER.map(|policy| short(time(policy, groups)));
            format!("with {groups} groups {} ns: outside", times.join(", "))
        })
        .collect();
    let measured = if broken.is_empty() { "inside".to_owned() } else { broken.join("; ") };
    let claim = format!("{}: order of times, with 10 groups and more", pattern.name());
    Verdict::measured(claim, ORDER.join(" < "), measured)
}

/// The times of a policy beside those of the specification.
fn all_times(data: &Table, pattern: Pattern, policy: &str) -> Verdict {
    let said = match (pattern, policy) {
        (Pattern::Churn, "gr3") => "25.7, 24.5, 26.2, 27.0, 27.8",
        (Pattern::Churn, "vtrr") => "29, 102, 406, 1195, 3001",
        (Pattern::Churn, "wfq") => "38, 57, 67, 70, 85",
        (Pattern::Churn, "wfq-list") => "88, 585, 1909, 6874, 13009",
        _ => "not said",
    };
    let claim =
        format!("{}, {policy}: ns with {} groups", pattern.name(), GROUPS.map(|groups| groups.to_string()).join(", "));
    times_listed(claim, said, GROUPS.iter().map(|&groups| time(data, pattern, policy, groups)))
}

#[cfg(test)]
mod tests {
    use crate::harness::BRIEF;
    use std::collections::VecDeque;

    use super::*;

    fn last_of(pattern: Pattern, groups: usize, scale: Scale) {
        for subject in subjects(scale) {
            let row = Place { pattern, subject, groups }.row(Scale::Quick, BRIEF, Seed(1)).unwrap();
            let [.., owed, done] = &row[..] else { panic!("{row:?}") };
            assert_eq!(owed, done, "{row:?}");
        }
    }

    #[test]
    fn no_policy_forgets_who_comes_and_goes() {
        last_of(Pattern::Churn, 2, Scale::Full);
        last_of(Pattern::Ready, 1, Scale::Full);
    }

    #[test]
    fn no_policy_leaves_a_message_unread() {
        last_of(Pattern::Messages, 1, Scale::Full);
    }

    /// Half of the served block, and as many are blocked at all times.
    #[test]
    fn half_are_blocked() {
        let blocked: Vec<ClientId> = (40..80).map(ClientId).collect();
        let mut churn = Churn { random: Seed(1).stream("test"), blocked };
        let mut runnable: VecDeque<ClientId> = (0..40).map(ClientId).collect();
        let (mut blocks, mut woken) = (0, vec![0u32; 80]);
        for slot in 0..8000 {
            let client = runnable.pop_front().unwrap();
            let (next, who) = churn.on_slot(client);
            assert_eq!(next == Next::Blocked, who.is_some());
            let who = who.unwrap_or(client);
            runnable.push_back(who);
            if next == Next::Blocked {
                blocks += 1;
                woken[who.index()] += 1;
            }
            assert!(runnable.iter().all(|client| !churn.blocked.contains(client)), "after {slot} slots");
            assert_eq!(churn.blocked.len(), 40, "after {slot} slots");
        }
        assert!((3800..4200).contains(&blocks), "{blocks} of 8000");
        assert!(woken.iter().all(|&woken| woken > 20), "everybody wakes: {woken:?}");
    }

    #[test]
    fn verdicts_say_who_is_out_of_order() {
        let of = |pattern, policy, groups| {
            let ns = match (pattern, policy) {
                (Pattern::Churn, "gr3") => 30.0,
                (_, "gr3") => 10.0,
                (_, "wfq") => 80.0,
                (Pattern::Churn, "vtrr") if groups == 10 => 70.0,
                (_, "vtrr") => 90.0,
                _ => 5000.0,
            };
            let timing = Timing { best: ns, median: ns, batches: 15, slots: 1 };
            let done = if policy == "linux24" && pattern == Pattern::Messages { 99 } else { 100 };
            let subject = Subject { policy, processors: 1, is_linear: false };
            row(Place { pattern, subject, groups }, groups, &Found { timing, owed: 100, done })
        };
        let of_pattern =
            |pattern| RIVALS.into_iter().flat_map(move |policy| GROUPS.map(|groups| of(pattern, policy, groups)));
        let data = Table::of(COLUMNS, Pattern::ALL.into_iter().flat_map(of_pattern));
        let verdicts = ChurnCost.verdicts(&data);
        let found = |claim: &str| {
            let verdict = verdicts.iter().find(|verdict| verdict.claim.starts_with(claim)).unwrap();
            (verdict.measured.as_str(), verdict.pass)
        };
        assert_eq!(found("churn: order"), ("with 10 groups 30, 80, 70, 5000 ns: outside", None));
        assert_eq!(found("messages: order"), ("inside", None));
        assert_eq!(found("gr3: churn over"), ("3: inside", None));
        assert_eq!(found("churn: wfq-list over"), ("166.7: inside", None));
        assert_eq!(found("messages: all"), ("not of linux24 with 1 groups", Some(false)));
        assert_eq!(found("churn: when"), ("at all 35 places", Some(true)));
    }
}
