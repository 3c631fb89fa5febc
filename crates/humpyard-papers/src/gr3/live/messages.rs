//! Figure 13 on live threads: the message pattern of hackbench, between threads that a policy dispatches.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use humpyard_core::id::{ClientId, Id};
use humpyard_core::random::Seed;

use super::super::costs::machine::Next;
use super::super::costs::messages::{QUEUE, READERS, TASKS, WRITERS};
use super::super::costs::subject::{lines, plot, weights};
use super::super::paper::PAPER;
use super::processors::Processors;
use super::turns::{STACK_BYTES, Taken, Task, Turns, Untaken};
use crate::harness::{About, Experiment, Note, Plots, Row, Rows, Scale, Table, TableRow, listed, rows};
use humpyard_lab::LabError;

/// The paper's numbers of groups; a quick run has the first.
const GROUPS: [usize; 5] = [1, 10, 25, 50, 100];
const GROUPS_QUICK: usize = 3;
/// Messages from each writer to each reader; the paper's are 100.
const MESSAGES: u32 = 100;
/// Messages in quick runs.
const MESSAGES_QUICK: u32 = 5;
/// With more than this many groups, there are fewer messages because there are many threads. A select stays the
/// same.
const GROUPS_WHOLE: usize = 25;
const MESSAGES_MANY: u32 = 25;
/// Length of a message, with its number, in bytes, as in hackbench.
const BYTES: usize = 96;
/// The dispatching policies.
const POLICIES: [&str; 5] = ["gr3", "wfq", "vtrr", "wfq-list", "linux-o1"];

rows! {
    COLUMNS, fn row(place: Place, found: &Found) {
        let Times { select, select_mean, turn, whole_ms } = found.times;
    } => {
        text policy = place.policy, integer processors = PROCESSORS, integer groups = place.groups,
        integer tasks = found.tasks, integer messages = found.messages, integer turns = found.turns,
        real select_ns = select, real select_ns_mean = select_mean, real turn_ns = turn, real whole_ms = whole_ms,
        integer owed = found.owed, integer sent = found.sent, integer received = found.received,
        integer received_right = found.right, text note = found.note.as_str(),
    }
}

/// Processors to which the threads are pinned.
const PROCESSORS: usize = 1;

/// The result of a run.
#[derive(Default)]
struct Found {
    tasks: usize,
    messages: u32,
    turns: u64,
    times: Times,
    owed: u64,
    sent: u64,
    received: u64,
    right: u64,
    note: String,
}

impl Found {
    /// Checks that every message was sent and received, once, whole, and in the order of its writer.
    fn check(&self, place: Place) -> Result<(), LabError> {
        if [self.sent, self.received, self.right] == [self.owed; 3] {
            return Ok(());
        }
        let Self { owed, sent, received, right, .. } = self;
        let policy = place.policy;
        Err(LabError::option(format!(
            "of {owed} messages under {policy} {sent} were sent, {received} received, {right} of them right"
        )))
    }
}

/// The time of a select, of a turn, and of the run.
struct Times {
    select: f64,
    select_mean: f64,
    turn: f64,
    whole_ms: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self { select: f64::NAN, select_mean: f64::NAN, turn: f64::NAN, whole_ms: f64::NAN }
    }
}

/// A message: its number among those of its writer to its reader, and contents that follow from the number.
#[derive(Clone, Copy, Debug)]
struct Message {
    writer: u32,
    number: u32,
    body: [u8; BYTES],
}

impl Message {
    fn new(writer: u32, number: u32) -> Self {
        Self { writer, number, body: [(writer.wrapping_mul(31) ^ number) as u8; BYTES] }
    }
}

/// The queue of a reader.
#[derive(Debug, Default)]
struct Mailbox {
    messages: VecDeque<Message>,
    /// Whether its reader waits for a message.
    is_awaited: bool,
    /// Writers that wait for room, in order.
    writers: VecDeque<ClientId>,
}

/// The mailboxes of all groups, one after the other.
struct Mail {
    boxes: Vec<Mutex<Mailbox>>,
    /// Messages from each writer to each reader of its group.
    messages: u32,
}

impl Mail {
    fn new(groups: usize, messages: u32) -> Self {
        Self { boxes: (0..groups * READERS).map(|_| Mutex::default()).collect(), messages }
    }

    fn mailbox(&self, group: usize, reader: usize) -> MutexGuard<'_, Mailbox> {
        self.boxes[group * READERS + reader].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tasks of each group, first its writers.
    fn correspondents(&self) -> Vec<Correspondent<'_>> {
        let groups = self.boxes.len() / READERS;
        let correspondent = |number: usize| {
            let (group, at) = (number / TASKS, number % TASKS);
            let role = match at.checked_sub(WRITERS) {
                None => Role::Writer { writer: at, sent: 0 },
                Some(reader) => Role::Reader { reader, received: [0; WRITERS], right: 0 },
            };
            Correspondent { mail: self, client: ClientId::from_index(number), group, role }
        };
        (0..groups * TASKS).map(correspondent).collect()
    }
}

/// The role of a task, and its progress.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// Sends to each reader of its group in turn.
    Writer { writer: usize, sent: u32 },
    /// Receives, and knows the next message of each writer.
    Reader { reader: usize, received: [u32; WRITERS], right: u32 },
}

/// A task, which attempts one message per turn.
struct Correspondent<'a> {
    mail: &'a Mail,
    client: ClientId,
    group: usize,
    role: Role,
}

impl Task for Correspondent<'_> {
    fn turn(&mut self) -> (Next, Option<ClientId>) {
        match &mut self.role {
            Role::Writer { writer, sent } => {
                let to = *sent as usize % READERS;
                let mut mailbox = self.mail.mailbox(self.group, to);
                if mailbox.messages.len() == QUEUE as usize {
                    mailbox.writers.push_back(self.client);
                    return (Next::Blocked, None);
                }
                mailbox.messages.push_back(Message::new(*writer as u32, *sent / READERS as u32));
                *sent += 1;
                let wakes = core::mem::take(&mut mailbox.is_awaited);
                let woken = wakes.then(|| ClientId::from_index(self.group * TASKS + WRITERS + to));
                let is_last = *sent == READERS as u32 * self.mail.messages;
                (if is_last { Next::Ended } else { Next::Ready }, woken)
            }
            Role::Reader { reader, received, right } => {
                let mut mailbox = self.mail.mailbox(self.group, *reader);
                let Some(message) = mailbox.messages.pop_front() else {
                    mailbox.is_awaited = true;
                    return (Next::Blocked, None);
                };
                let next = &mut received[message.writer as usize];
                *right +=
                    u32::from(message.body == Message::new(message.writer, *next).body && message.number == *next);
                *next += 1;
                let is_last = received.iter().sum::<u32>() == WRITERS as u32 * self.mail.messages;
                (if is_last { Next::Ended } else { Next::Ready }, mailbox.writers.pop_front())
            }
        }
    }
}

/// One measurement: the policy, and the number of groups.
#[derive(Clone, Copy, Debug)]
struct Place {
    policy: &'static str,
    groups: usize,
    messages: u32,
}

fn places(scale: Scale) -> Vec<Place> {
    let groups = &GROUPS[..scale.pick(GROUPS_QUICK, GROUPS.len())];
    let messages = |groups| scale.pick(MESSAGES_QUICK, if groups > GROUPS_WHOLE { MESSAGES_MANY } else { MESSAGES });
    let of_policy = |policy| groups.iter().map(move |&groups| Place { policy, groups, messages: messages(groups) });
    POLICIES.into_iter().flat_map(of_policy).collect()
}

impl Place {
    /// Runs the tasks until all messages are sent.
    fn take(self, mail: &Mail, processors: &Processors, is_noted: bool, seed: Seed) -> Result<Taken<Role>, Untaken> {
        let weights = weights(self.groups * TASKS, seed);
        let turns = Turns {
            policy: self.policy,
            weights: &weights,
            processors,
            limit: None,
            always_ready: false,
            is_noted,
            seed,
            stack_bytes: STACK_BYTES,
        };
        let taken = turns.take(mail.correspondents())?;
        Ok(taken.map(|task| task.role))
    }

    /// Returns the row of a run whose threads could not be started.
    fn nothing(self, why: &str) -> Row {
        row(self, &Found { note: format!("not run: {why}"), ..Found::default() })
    }

    fn found(self, seed: Seed) -> Result<Row, LabError> {
        let (mail, processors) = (Mail::new(self.groups, self.messages), Processors::first(PROCESSORS));
        let taken = match self.take(&mail, &processors, false, seed) {
            Ok(taken) => taken,
            Err(Untaken::Threads(why)) => return Ok(self.nothing(&why)),
            Err(Untaken::Error(error)) => return Err(error),
        };
        let mut found = Found {
            tasks: taken.tasks.len(),
            messages: self.messages,
            turns: taken.handed_back,
            times: Times {
                select: taken.select.quantile(0.5) as f64,
                select_mean: taken.select.mean(),
                turn: taken.took.as_nanos() as f64 / taken.handed_back.max(1) as f64,
                whole_ms: 1e3 * taken.took.as_secs_f64(),
            },
            owed: (self.groups * WRITERS * READERS) as u64 * u64::from(self.messages),
            note: processors.shortage(taken.is_pinned),
            ..Found::default()
        };
        for task in &taken.tasks {
            match task {
                Role::Writer { sent, .. } => found.sent += u64::from(*sent),
                Role::Reader { received, right, .. } => {
                    found.received += received.iter().map(|&some| u64::from(some)).sum::<u64>();
                    found.right += u64::from(*right);
                }
            }
        }
        found.check(self)?;
        Ok(row(self, &found))
    }
}

/// Figure 13, live.
pub(super) struct LiveMessages;

impl Experiment for LiveMessages {
    fn about(&self) -> About {
        About {
            id: "gr3-fig13-live",
            figure: "figure 13, live",
            title: "what decisions cost among live threads that send each other messages",
            description: "As hackbench does: in each group 20 writers send 100 messages (25 in more than 25 groups, 5 \
                with --quick) to each of 20 readers, whose queues hold 64. Each writer and reader is a thread, with a \
                random weight from 1 to 40; all are pinned to one processor. In its turn a thread writes or reads one \
                message, or finds the queue full, or empty, and blocks; then it asks the policy who is next, hands the \
                processor to that one, and parks. A select is all calls of the policy and of the mechanism around it \
                at the end of a turn, by the clock; the time of a turn is the whole time over the number of \
                turns, with the switch of the kernel from thread to thread. gr3-fig13 has policies without threads and \
                without the mechanism.",
            columns: COLUMNS,
            ..About::of(PAPER)
        }
    }

    fn parts(&self, scale: Scale) -> usize {
        places(scale).len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        Ok(vec![places(scale)[part].found(seed)?])
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        let mut notes = Vec::new();
        for policy in POLICIES {
            let rows = || lived(data).of("policy", policy);
            let groups = listed(rows().numbers("groups"));
            let times = |what: &str, column| {
                let times: Vec<String> = rows().map(|row| format!("{:.1}", row.number(column))).collect();
                Note::new(format!("{policy}: {what} with {groups} groups"), "", times.join(", "))
            };
            notes.extend([
                times("ns of a select, median", "select_ns"),
                times("ns of a select, mean", "select_ns_mean"),
                times("ns of a turn", "turn_ns"),
                times("ms from the first message to the last", "whole_ms"),
            ]);
        }
        let noted = data.rows().filter(|row| !row.text("note").is_empty());
        notes.extend(noted.map(|row| {
            let about = format!("{} with {} groups: where it ran", row.text("policy"), row.number("groups"));
            Note::new(about, "on one processor", row.text("note"))
        }));
        notes
    }

    fn plots(&self, data: &Table) -> Plots {
        let plot = |(name, column, title): (&str, &str, &str)| {
            (name.to_owned(), plot(self.about(), title, "groups", lines(lived(data), "groups", column)))
        };
        [
            ("select", "select_ns", "time of a select among live threads that send messages"),
            ("turn", "turn_ns", "whole time over selects, of live threads that send messages"),
        ]
        .map(plot)
        .into()
    }

    fn is_timed(&self) -> bool {
        true
    }
}

/// Returns the rows of runs that took place.
fn lived(data: &Table) -> impl Iterator<Item = TableRow<'_>> + Clone {
    data.rows().filter(|row| row.number("tasks") > 0.0)
}

#[cfg(test)]
mod tests {
    use humpyard_core::config::SchedulerConfig;
    use humpyard_core::policy::Share;
    use humpyard_policies::registry::ShareVisitor;
    use humpyard_policies::spec::PolicySpec;

    use super::super::super::costs::machine::{Clients, Machine};
    use super::super::super::costs::messages::Messages;
    use super::*;

    /// Records the attempts, by task.
    struct Noted(Messages, Vec<ClientId>);

    impl Clients for Noted {
        fn on_slot(&mut self, client: ClientId) -> (Next, Option<ClientId>) {
            self.1.push(client);
            self.0.on_slot(client)
        }
    }

    /// The same without threads.
    struct Simulated {
        groups: usize,
        messages: u32,
    }

    impl ShareVisitor for Simulated {
        type Answer = Vec<ClientId>;

        fn visit<Q: Share>(self, policy: Q) -> Vec<ClientId> {
            let mut machine = Machine::new(policy, 1);
            (0..self.groups * TASKS).map(ClientId::from_index).for_each(|client| machine.wake(client));
            let mut noted = Noted(Messages::new(self.groups, self.messages), Vec::new());
            while machine.slot(&mut noted) > 0 {}
            noted.1
        }
    }

    #[test]
    fn threads_attempt_messages_in_the_order_of_the_simulation() {
        let (groups, messages) = (2, 9);
        let weights = weights(groups * TASKS, Seed(1));
        let setup = SchedulerConfig {
            clients: weights.len(),
            longest: 1,
            weights: weights.to_vec(),
            seed: Seed(1),
            ..SchedulerConfig::default()
        };
        for policy in POLICIES {
            let spec: PolicySpec = policy.parse().unwrap();
            let expected = spec.build_share(&setup).unwrap().visit(Simulated { groups, messages });
            let (mail, place) = (Mail::new(groups, messages), Place { policy, groups, messages });
            let taken = place.take(&mail, &Processors::first(1), true, Seed(1)).unwrap();
            assert!(taken.noted.iter().map(|turn| turn.client).eq(expected), "{policy}");
        }
    }

    #[test]
    fn every_message_arrives() {
        let mut data = Table::new(COLUMNS);
        for policy in POLICIES {
            data.push(Place { policy, groups: 1, messages: 3 }.found(Seed(1)).unwrap());
        }
        assert_eq!(data.rows().total("received_right"), 6000.0);
        assert_eq!(LiveMessages.plots(&data).len(), 2);
    }

    #[test]
    fn a_message_that_comes_out_of_order_is_not_right() {
        let mail = Mail::new(1, 2);
        let mut reader = mail.correspondents().swap_remove(WRITERS);
        for message in [Message::new(3, 1), Message::new(4, 0), Message { body: [9; BYTES], ..Message::new(5, 0) }] {
            mail.mailbox(0, 0).messages.push_back(message);
        }
        for _ in 0..3 {
            assert_eq!(reader.turn(), (Next::Ready, None));
        }
        assert_eq!(reader.turn(), (Next::Blocked, None));
        assert!(matches!(reader.role, Role::Reader { right: 1, .. }), "{:?}", reader.role);
    }

    #[test]
    fn threads_that_could_not_be_are_noted_as_such() {
        let mut data = Table::new(COLUMNS);
        data.push(Place { policy: "gr3", groups: 100, messages: 1 }.nothing("thread 9 of 4000 cannot be started"));
        data.push(Place { policy: "wfq", groups: 1, messages: 1 }.found(Seed(1)).unwrap());
        let notes = LiveMessages.notes(&data);
        let told = notes.iter().find(|note| note.about == "gr3 with 100 groups: where it ran").unwrap();
        assert_eq!(told.found, "not run: thread 9 of 4000 cannot be started");
    }

    #[test]
    fn a_lost_message_is_an_error() {
        let place = Place { policy: "gr3", groups: 1, messages: 1 };
        let found = Found { owed: 400, sent: 400, received: 400, right: 400, ..Found::default() };
        assert!(found.check(place).is_ok());
        let error = Found { right: 399, ..found }.check(place).unwrap_err().to_string();
        assert!(error.contains("of 400 messages under gr3 400 were sent, 400 received, 399 of them right"), "{error}");
    }
}
