//! Figure 13: the cost of decisions while clients come and go all the time.

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
use super::subject::{RIVALS, Selecting, Subject, lines, plot, round, subjects, weights};
use crate::harness::{
    About, EFFORT, Effort, Experiment, Figure, Note, Plots, Row, Rows, Scale, Table, Timing, listed, measure, rows,
    short, summary_of_batches, thread_time,
};
use humpyard_lab::LabError;

/// The paper's numbers of groups, from 40 runnable tasks to 4000.
const GROUPS: [usize; 5] = [1, 10, 25, 50, 100];
/// Tasks per group if clients come and go at random.
const TASKS: usize = 80;
/// Messages from each writer to each reader (quick, full); the paper's are 100.
const MESSAGES: (u32, u32) = (5, 100);

/// The behaviour of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    /// They always want another slot; their number is that of the runnable ones in `Churn`.
    Ready,
    /// They block at random, and others wake.
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

    /// Returns the number of tasks of this many groups.
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

/// Half of the clients are blocked. A served client blocks with a probability of one half, and a blocked client
/// wakes.
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
        // Uses the upper bits, so that the bias is that of 32 bits.
        let at = ((bits >> 32) * self.blocked.len() as u64) >> 32;
        (Next::Blocked, Some(core::mem::replace(&mut self.blocked[at as usize], client)))
    }
}

/// Times of a select, the slots owed to clients at the end, and the slots that they got.
struct Found {
    timing: Timing,
    owed: u64,
    done: u64,
}

/// Clients that come and go at random. At the end, each runnable client has one more slot.
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

/// Tasks that send each other messages, from start to end, as often as the time allows.
struct Messaging {
    groups: usize,
    messages: u32,
    processors: usize,
    batches: usize,
    /// After this time, no new round starts.
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

/// Runs until no task wants a slot. Returns the selects and the slots.
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

/// One measurement: the policy, and the clients.
#[derive(Clone, Copy, Debug)]
struct Place {
    pattern: Pattern,
    subject: Subject,
    groups: usize,
}

fn places() -> Vec<Place> {
    let of_pattern = |pattern| {
        let of_subject = move |subject| GROUPS.map(|groups| Place { pattern, subject, groups });
        subjects().into_iter().flat_map(of_subject)
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
                let (messages, seconds) = (scale.of(MESSAGES), scale.pick(0, 1));
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
            description: "Time of all calls of a policy, over the number of selects, in processor time \
                of the thread; weights are random, from 1 to 40. By chance: 80 tasks a group, of which half are \
                runnable; who is served blocks every other time, and a random blocked one wakes. Best of 15 batches or \
                more. By messages, as hackbench does: in each group 20 writers send 100 messages (5 with --quick) to \
                each of 20 readers, whose queues hold 64; a slot is an attempt at one message, and who finds the queue \
                full, or empty, blocks. Best of as many runs, from start to end, as there was time for. Both are in \
                virtual time on one thread, with what the tasks themselves do; gr3-fig13-live has the messages on live \
                threads. gr3mp is on 8 processors that the thread simulates.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, _: Scale) -> usize {
        places().len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        Ok(vec![places()[part].row(scale, EFFORT, seed)?])
    }

    fn figures(&self) -> &'static [Figure] {
        &FIGURES
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let times = |pattern: Pattern, policy: &str| {
            let groups = listed(GROUPS.map(|groups| groups as f64));
            let found = listed(GROUPS.map(|groups| time(data, pattern, policy, groups)));
            Note::new(format!("{}, {policy}: ns with {groups} groups", pattern.name()), "", found)
        };
        let growth = |pattern: Pattern, policy: &str| {
            let found = time(data, pattern, policy, 100) / time(data, pattern, policy, 1);
            Note::new(format!("{}, {policy}: 100 groups over 1", pattern.name()), "", short(found))
        };
        let growths = RIVALS.map(|policy| growth(Pattern::Churn, policy));
        let patterns = [Pattern::Ready, Pattern::Churn, Pattern::Messages];
        let times = patterns.into_iter().flat_map(|pattern| RIVALS.map(|policy| times(pattern, policy)));
        growths.into_iter().chain(times).collect()
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

/// Returns the time of a select.
fn time(data: &Table, pattern: Pattern, policy: &str, groups: usize) -> f64 {
    let mut rows = data.rows_of("pattern", pattern.name()).of("policy", policy).at("groups", groups as f64);
    rows.next().map_or(f64::NAN, |row| row.number("select_ns"))
}

/// Returns the time among tasks that send messages.
fn messages(data: &Table, policy: &str, groups: usize) -> f64 {
    time(data, Pattern::Messages, policy, groups)
}

/// Returns that time over the one with clients that always want another slot, for each number of groups.
fn over_ready(data: &Table, policy: &str) -> [f64; 5] {
    GROUPS.map(|groups| messages(data, policy, groups) / time(data, Pattern::Ready, policy, groups))
}

/// Returns the smallest number; NaN if a number is NaN.
fn smallest(numbers: [f64; 5]) -> f64 {
    numbers
        .into_iter()
        .fold(f64::INFINITY, |least, number| if number.is_nan() || number < least { number } else { least })
}

static FIGURES: [Figure; 5] = [
    Figure {
        claim: "gr3-fig13-smallest",
        of: |data| {
            let over_gr3 = |policy| GROUPS.map(|groups| messages(data, policy, groups) / messages(data, "gr3", groups));
            ["vtrr", "wfq", "wfq-list", "linux24"].map(|policy| smallest(over_gr3(policy))).into()
        },
    },
    Figure { claim: "gr3-fig13-gr3-constant", of: |data| vec![messages(data, "gr3", 100) / messages(data, "gr3", 1)] },
    Figure {
        claim: "gr3-fig13-others-grow",
        of: |data| {
            let growth = |policy| messages(data, policy, 100) - messages(data, policy, 1);
            ["wfq", "wfq-list", "linux24", "vtrr"].map(growth).into()
        },
    },
    Figure {
        claim: "gr3-fig13-three-times",
        of: |data| {
            let mut ratios = over_ready(data, "gr3");
            ratios.sort_by(f64::total_cmp);
            vec![ratios[2]]
        },
    },
    Figure {
        claim: "gr3-fig13-above-fig12",
        of: |data| {
            let policies = ["gr3", "vtrr", "wfq", "wfq-list", "linux24"];
            policies.map(|policy| smallest(over_ready(data, policy))).into()
        },
    },
];

#[cfg(test)]
mod tests {
    use crate::harness::BRIEF;
    use std::collections::VecDeque;

    use super::super::subject::all_subjects;
    use super::*;

    fn last_of(pattern: Pattern, groups: usize) {
        for subject in all_subjects() {
            let row = Place { pattern, subject, groups }.row(Scale::Quick, BRIEF, Seed(1)).unwrap();
            let [.., owed, done] = &row[..] else { panic!("{row:?}") };
            assert_eq!(owed, done, "{row:?}");
        }
    }

    #[test]
    fn no_policy_forgets_who_comes_and_goes() {
        last_of(Pattern::Churn, 2);
        last_of(Pattern::Ready, 1);
    }

    #[test]
    fn no_policy_leaves_a_message_unread() {
        last_of(Pattern::Messages, 1);
    }

    /// Half of the served clients block, and the number of blocked clients is constant.
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
    fn figures_are_quotients_of_times() {
        let of = |pattern, policy, groups| {
            let best = match (pattern, policy) {
                (Pattern::Messages, "gr3") => 30.0,
                (Pattern::Ready, "gr3") => 10.0,
                (Pattern::Messages, _) => 90.0 + groups as f64,
                _ => 50.0,
            };
            let timing = Timing { best, median: best, batches: 15, slots: 1 };
            let subject = Subject { policy, processors: 1, is_linear: false };
            row(Place { pattern, subject, groups }, groups, &Found { timing, owed: 100, done: 100 })
        };
        let of_pattern =
            |pattern| RIVALS.into_iter().flat_map(move |policy| GROUPS.map(|groups| of(pattern, policy, groups)));
        let data = Table::of(COLUMNS, Pattern::ALL.into_iter().flat_map(of_pattern));
        let figure = |claim: &str| (FIGURES.iter().find(|figure| figure.claim == claim).unwrap().of)(&data);
        assert_eq!(figure("gr3-fig13-gr3-constant"), [1.0]);
        assert_eq!(figure("gr3-fig13-three-times"), [3.0]);
        assert_eq!(figure("gr3-fig13-smallest"), [91.0 / 30.0; 4]);
        assert_eq!(figure("gr3-fig13-others-grow"), [99.0; 4]);
        assert_eq!(figure("gr3-fig13-above-fig12")[..2], [3.0, 1.82]);
    }
}
