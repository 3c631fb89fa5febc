//! The web servers of figures 14 to 19 as threads that search a text.

use core::time::Duration;

use humpyard_core::id::{ClientId, Id};
use humpyard_core::random::Seed;
use humpyard_core::unit::Weight;

use super::super::costs::machine::Next;
use super::super::paper::PAPER;
use super::super::scheduled::{scheduled, total};
use super::super::web_servers::servers::{
    ALL_POLICIES, FIRST, Mix, PERIODS, PROCESSES, Run, SECOND, SHOWN, THIRD, each_server, over_slots, rivals, rows_of,
    run_name, stairs,
};
use super::super::web_servers::service::{Evenness, Watch};
use super::kernel::{KERNEL_WEIGHTS, alone, nice};
use super::names::{KERNEL, SIMULATED};
use super::notes::notes;
use super::processors::Processors;
use super::search::{Searcher, Text};
use super::turns::{STACK_BYTES, Task, Turn, Turns, Untaken};
use crate::harness::{About, Experiment, Note, Plots, Row, Rows, Scale, Table, TableRow, rows, whole};
use humpyard_lab::LabError;
use humpyard_plot::{Line, LinePlot, Svg};

/// The kernel's model in the simulator.
const KERNEL_MODEL: &str = "linux24";
/// If the kernel dispatches, services of a process at most this many slots apart are drawn as one.
const NEAR: u64 = 8;

rows! {
    COLUMNS, fn row(live: &Live, shown: &Shown<'_>, totals: &Totals) {
        let Shown { policy, server, weight, nice, point, scale, process, all } = *shown;
        let [by_weights, by_nice, by_service, by_time] = totals.ratios;
    } => {
        text policy = policy, integer processors = live.run.1, integer draw = live.draw, integer server = server,
        integer weight = weight, integer nice = nice, real slot = scale * point.slot as f64,
        real time_ms = 1e3 * point.at.as_secs_f64(), real service = scale * point.service as f64,
        integer process_gap_longest = process.gap_longest, real process_error_min = process.error_min,
        real process_error_max = process.error_max, integer server_gap_longest = all.gap_longest,
        real server_error_min = all.error_min, real server_error_max = all.error_max,
        integer slots = totals.slots, integer slots_as_simulated = totals.alike,
        real slots_in_a_row = totals.in_a_row, real turns_of_lightest = totals.turns_of_lightest,
        integer units_per_slot = totals.units, integer units_given = totals.given, integer units_done = totals.done,
        integer processes = totals.processes, integer processes_right = totals.right,
        real whole_ms = totals.whole_ms, real select_ns = totals.select_ns, real ratio_of_weights = by_weights,
        real ratio_of_nice = by_nice, real ratio_of_service = by_service, real ratio_of_processor_time = by_time,
        text note = totals.note.as_str(),
    }
}

/// The values of a row for one process.
#[derive(Clone, Copy, Default)]
struct Shown<'a> {
    policy: &'a str,
    server: usize,
    weight: u32,
    nice: usize,
    point: Service,
    /// Slots of the run per simulated slot.
    scale: f64,
    process: Evenness,
    all: Evenness,
}

/// The values common to all rows of a live run; simulated rows have none.
#[derive(Clone, Default)]
struct Totals {
    slots: usize,
    /// Slots given to the same process as in the simulator.
    alike: usize,
    in_a_row: f64,
    turns_of_lightest: f64,
    units: u64,
    given: u64,
    done: u64,
    processes: usize,
    /// Processes that found all matches in their texts.
    right: usize,
    whole_ms: f64,
    select_ns: f64,
    /// The heaviest over the lightest process: by weights, nice values, work and processor time.
    ratios: [f64; 4],
    note: String,
}

/// The length of turns and runs.
#[derive(Clone, Copy, Debug)]
enum Length {
    /// Units of work per turn (quick, full), for two periods of the schedule.
    Units(u64, u64),
    /// Turns about as long as the kernel's, for one period, or two in full runs.
    Long,
}

impl Length {
    /// Returns the units of work per turn.
    fn units(self, scale: Scale) -> u64 {
        match self {
            Self::Units(quick, full) => scale.pick(quick, full),
            Self::Long => 128,
        }
    }

    fn periods(self, scale: Scale) -> u64 {
        match self {
            Self::Units(..) => PERIODS,
            Self::Long => scale.pick(1, PERIODS),
        }
    }
}

/// Draws of random weights in full runs; quick runs have one. A schedule is simulated faster than it runs live.
const DRAWS: usize = 5;
const SHORT: Length = Length::Units(1, 8);

/// The kernel's time per unit of weight of a processor, in ms: its turns are about 3 ms long.
const KERNEL_MS: (u64, u64) = (5, 25);

/// The live web servers of a figure.
#[derive(Debug)]
pub(super) struct LiveServers {
    id: &'static str,
    figure: &'static str,
    title: &'static str,
    description: &'static str,
    mix: Mix,
    /// The runs; the first is that of the figure.
    runs: &'static [Run],
    length: Length,
}

/// The common setting.
const SETTING: &str = "Each server has 100 processes, which are threads that search a text for words without end, \
    pinned to the processors of the figure; a unit of work is the search of 16 KiB. Under a policy a thread waits for \
    its turn, searches, asks the policy who is next, hands the processor to that one, and parks: a slot is such a \
    turn. Where the kernel dispatches alone, threads have nice values, the heaviest that of this program, and a slot \
    is a unit of work; no value of nice is exact (1 to 10 is 110 to 1024, or 1 to 9.3), and what it comes to depends \
    on the kernel and on what else runs. A gap is the number of slots from one service of a process to its next, of \
    all processors together; the error is its service less its share. What is simulated is drawn beside it. Times are \
    of this machine.";

/// The text common to figures 14 to 19, with the text of one of them.
macro_rules! first {
    () => {
        "Six servers: the processes of one have weight 10, those of the others 1."
    };
    ($rest:literal) => {
        concat!(first!(), " ", $rest)
    };
}

const ALL_AND_SEVERAL: [Run; 11] = {
    let mut runs = [(KERNEL, 1); 11];
    let mut at = 0;
    while at < ALL_POLICIES.len() {
        runs[at] = ALL_POLICIES[at];
        at += 1;
    }
    runs[at] = ("gr3mp", 2);
    runs
};

pub(super) static SERVERS: [LiveServers; 8] = [
    LiveServers {
        id: "gr3-fig14-live",
        figure: "figure 14, live",
        title: "live web servers under the scheduler of the kernel",
        description: first!(
            "GR3 beside it has turns of 128 units of work, which are about as long as those of the kernel."
        ),
        mix: FIRST,
        runs: &[(KERNEL, 1), ("gr3", 1)],
        length: Length::Long,
    },
    LiveServers {
        id: "gr3-fig15-live",
        figure: "figure 15, live",
        title: "live web servers under weighted fair queueing",
        description: first!(),
        mix: FIRST,
        runs: &[("wfq", 1)],
        length: SHORT,
    },
    LiveServers {
        id: "gr3-fig16-live",
        figure: "figure 16, live",
        title: "live web servers under virtual-time round robin",
        description: first!(),
        mix: FIRST,
        runs: &[("vtrr", 1)],
        length: SHORT,
    },
    LiveServers {
        id: "gr3-fig17-live",
        figure: "figure 17, live",
        title: "live web servers under group ratio round robin, and under others",
        description: first!("The second plot has a process of weight 10 under several of them."),
        mix: FIRST,
        runs: &ALL_POLICIES,
        length: SHORT,
    },
    LiveServers {
        id: "gr3-fig18-live",
        figure: "figure 18, live",
        title: "live web servers under the scheduler of the kernel, on two processors",
        description: first!("Which of figures 18 and 19 it is cannot be read from the paper's text."),
        mix: FIRST,
        runs: &[(KERNEL, 2)],
        length: SHORT,
    },
    LiveServers {
        id: "gr3-fig19-live",
        figure: "figure 19, live",
        title: "live web servers under GR3MP, on two processors",
        description: first!(
            "Turns on different processors do not end together, so that the schedule is another each time. Which of \
                figures 18 and 19 it is cannot be read from the paper's text."
        ),
        mix: FIRST,
        runs: &[("gr3mp", 2)],
        length: SHORT,
    },
    LiveServers {
        id: "gr3-web2-live",
        figure: "section 5.2, second experiment, live",
        title: "live web servers whose processes have weights 1, 2, 3, 4 and 5",
        description: "Five servers: the processes of the first have weight 1, those of the fifth 5.",
        mix: SECOND,
        runs: &ALL_AND_SEVERAL,
        length: SHORT,
    },
    LiveServers {
        id: "gr3-web3-live",
        figure: "section 5.2, third experiment, live",
        title: "live web servers whose processes have random weights",
        description: "Five servers: each process has a weight of 1 to 10, all equally likely.",
        mix: THIRD,
        runs: &ALL_AND_SEVERAL,
        length: SHORT,
    },
];

/// A process, which does a number of units of work per turn.
struct Process<'a> {
    searcher: Searcher<'a>,
    units: u64,
}

impl Task for Process<'_> {
    fn turn(&mut self) -> (Next, Option<ClientId>) {
        (0..self.units).for_each(|_| self.searcher.search());
        (Next::Ready, None)
    }
}

/// The result of a run, under a policy or the kernel.
struct Served<'a> {
    searchers: Vec<Searcher<'a>>,
    /// The served process of each slot.
    noted: Vec<Turn>,
    /// The processor time of each thread; unknown under policies.
    times: Vec<f64>,
    units_given: u64,
    took: Duration,
    select_ns: f64,
    note: String,
}

/// The parameters of a run.
struct Live {
    run: Run,
    draw: usize,
    weights: Vec<Weight>,
    /// Units of work per slot.
    units: u64,
    periods: u64,
    kernel_time: Duration,
    seed: Seed,
}

impl Live {
    /// Runs and simulates it. Returns rows of [`COLUMNS`] for both: one for each service of the shown process
    /// of each server, one before all, and one at the end.
    fn rows(&self) -> Result<Vec<Row>, LabError> {
        let text = Text::new(self.seed)?;
        let searchers = (0..self.weights.len()).map(|number| Searcher::new(&text, number)).collect();
        let served = if self.is_alone() { self.alone(searchers) } else { self.dispatched(searchers) };
        let served = match served {
            Ok(served) => served,
            Err(Untaken::Threads(why)) => return Ok(vec![self.nothing(format!("not run: {why}"))]),
            Err(Untaken::Error(error)) => return Err(error),
        };
        let simulated = self.simulated()?;
        let near = if self.is_alone() { NEAR } else { 0 };
        let totals = self.totals(&served, &simulated);
        self.check(&totals)?;
        let mut rows = self.rows_of(self.run.0, &served.noted, near, 1.0, &totals);
        // Scales to the same time if the kernel does not count slots as its model does.
        let scale = served.noted.len() as f64 / simulated.len() as f64;
        let at = |slot: usize| served.took.mul_f64((slot + 1) as f64 / simulated.len() as f64);
        let turns: Vec<Turn> =
            simulated.iter().enumerate().map(|(slot, &client)| Turn { client, at: at(slot) }).collect();
        let name = format!("{SIMULATED}{}", self.model());
        rows.extend(self.rows_of(&name, &turns, 0, scale, &Totals::default()));
        Ok(rows)
    }

    /// Checks that all given work was done correctly, and, where it does not depend on the machine, in the
    /// order of the simulator.
    fn check(&self, totals: &Totals) -> Result<(), LabError> {
        let is_done = totals.given == totals.done && totals.slots as u64 * totals.units == totals.done;
        let is_right = totals.right == totals.processes;
        let is_alike = self.is_alone() || self.run.1 > 1 || totals.alike == totals.slots;
        if is_done && is_right && is_alike {
            return Ok(());
        }
        Err(LabError::option(format!(
            "{} on {}: of {} units of work {} were done, {} of {} processes found what is in their text, and {} of {} \
                slots were of the process that has them in the simulator",
            self.run.0,
            self.run.1,
            totals.given,
            totals.done,
            totals.right,
            totals.processes,
            totals.alike,
            totals.slots
        )))
    }

    fn is_alone(&self) -> bool {
        self.run.0 == KERNEL
    }

    /// Returns its model in the simulator.
    fn model(&self) -> &'static str {
        if self.is_alone() { KERNEL_MODEL } else { self.run.0 }
    }

    fn slots(&self) -> u64 {
        self.periods * total(&self.weights)
    }

    fn processes<'a>(&self, searchers: Vec<Searcher<'a>>) -> Vec<Process<'a>> {
        searchers.into_iter().map(|searcher| Process { searcher, units: self.units }).collect()
    }

    /// Runs the processes under the kernel alone.
    fn alone<'a>(&self, searchers: Vec<Searcher<'a>>) -> Result<Served<'a>, Untaken> {
        let processors = Processors::first(self.run.1);
        let found = alone(self.processes(searchers), &self.weights, &processors, self.kernel_time)?;
        if found.noted.is_empty() {
            return Err(Untaken::Threads("no unit of work was done in time".to_owned()));
        }
        Ok(Served {
            units_given: found.noted.len() as u64,
            note: processors.shortage(found.is_pinned),
            searchers: found.tasks.into_iter().map(|process| process.searcher).collect(),
            noted: found.noted,
            times: found.times.iter().map(Duration::as_secs_f64).collect(),
            took: found.took,
            select_ns: f64::NAN,
        })
    }

    /// Runs the processes under a policy.
    fn dispatched<'a>(&self, searchers: Vec<Searcher<'a>>) -> Result<Served<'a>, Untaken> {
        let processors = Processors::first(self.run.1);
        let turns = Turns {
            policy: self.run.0,
            weights: &self.weights,
            processors: &processors,
            limit: Some(self.slots()),
            always_ready: true,
            is_noted: true,
            seed: self.seed,
            stack_bytes: STACK_BYTES,
        };
        let taken = turns.take(self.processes(searchers))?.map(|process| process.searcher);
        Ok(Served {
            times: vec![f64::NAN; taken.tasks.len()],
            units_given: taken.given * self.units,
            note: processors.shortage(taken.is_pinned),
            searchers: taken.tasks,
            noted: taken.noted,
            took: taken.took,
            select_ns: taken.select.quantile(0.5) as f64,
        })
    }

    /// Returns the simulated client of each slot.
    fn simulated(&self) -> Result<Vec<ClientId>, LabError> {
        let slots = self.slots().div_ceil(self.run.1 as u64) as usize;
        let found = scheduled(self.model(), &self.weights, self.run.1, slots, self.seed)?;
        Ok(found.slots.into_iter().flatten().flatten().collect())
    }

    /// Returns the row of a run that could not take place.
    fn nothing(&self, note: String) -> Row {
        row(self, &Shown { policy: self.run.0, server: 1, ..Shown::default() }, &Totals { note, ..Totals::default() })
    }

    /// Returns the values common to all rows of a run.
    fn totals(&self, served: &Served<'_>, simulated: &[ClientId]) -> Totals {
        let Served { noted, searchers, .. } = served;
        let turns = turns_of(noted, self.weights.len());
        let done: Vec<f64> = searchers.iter().map(|searcher| searcher.searched() as f64).collect();
        let nice_weights: Vec<f64> = self.weights.iter().map(|weight| self.nice_weight(*weight)).collect();
        let weights: Vec<f64> = self.weights.iter().map(|weight| weight.get().into()).collect();
        Totals {
            slots: noted.len(),
            alike: simulated.iter().zip(noted).filter(|(simulated, live)| **simulated == live.client).count(),
            in_a_row: noted.len() as f64 / turns.iter().sum::<f64>(),
            turns_of_lightest: self.mean_of(&turns, self.lightest()),
            units: self.units,
            given: served.units_given,
            done: searchers.iter().map(Searcher::searched).sum(),
            processes: searchers.len(),
            right: searchers.iter().filter(|searcher| searcher.is_right()).count(),
            whole_ms: 1e3 * served.took.as_secs_f64(),
            select_ns: served.select_ns,
            ratios: [&weights, &nice_weights, &done, &served.times].map(|has| self.ratio(has)),
            note: served.note.clone(),
        }
    }

    fn heaviest(&self) -> Option<Weight> {
        self.weights.iter().copied().max()
    }

    fn lightest(&self) -> Option<Weight> {
        self.weights.iter().copied().min()
    }

    /// Returns the nice value of a process of this weight.
    fn nice(&self, weight: Weight) -> usize {
        if self.is_alone() { nice(weight.get(), self.heaviest().unwrap_or(weight).get()) } else { 0 }
    }

    /// Returns the kernel's weight of such a process.
    fn nice_weight(&self, weight: Weight) -> f64 {
        if self.is_alone() { KERNEL_WEIGHTS[self.nice(weight)].into() } else { f64::NAN }
    }

    /// Returns the mean of these values over the processes of this weight.
    fn mean_of(&self, has: &[f64], which: Option<Weight>) -> f64 {
        let of_them = || self.weights.iter().zip(has).filter(|(weight, _)| Some(**weight) == which);
        of_them().map(|(_, has)| has).sum::<f64>() / of_them().count() as f64
    }

    /// Returns the mean of these values over the heaviest processes, over that of the lightest.
    fn ratio(&self, has: &[f64]) -> f64 {
        self.mean_of(has, self.heaviest()) / self.mean_of(has, self.lightest())
    }

    /// Returns rows of the service, from its turns; each turn stands for `scale` slots of the run.
    fn rows_of(&self, policy: &str, turns: &[Turn], near: u64, scale: f64, totals: &Totals) -> Vec<Row> {
        let mut watch = Watch::new(&self.weights);
        turns.iter().for_each(|turn| watch.on_slot(&[turn.client]));
        let mut rows = Vec::new();
        for server in 0..self.weights.len() / PROCESSES {
            let (first, shown) = (server * PROCESSES, server * PROCESSES + SHOWN - 1);
            let (process, all) = (watch.evenness(shown..shown + 1), watch.evenness(first..first + PROCESSES));
            let (weight, nice) = (self.weights[shown].get(), self.nice(self.weights[shown]));
            let of = Shown { policy, server: server + 1, weight, nice, scale, process, all, ..Shown::default() };
            let points = points(turns, ClientId::from_index(shown), near);
            rows.extend(points.into_iter().map(|point| row(self, &Shown { point, ..of }, totals)));
        }
        rows
    }
}

/// The service of a process after a slot.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Service {
    slot: u64,
    at: Duration,
    service: u64,
}

/// Returns the services of this client, with a start before the first and an end after the last. Of consecutive
/// services at most `near` slots apart, it returns the first and the last.
fn points(turns: &[Turn], client: ClientId, near: u64) -> Vec<Service> {
    let mut points = vec![Service { slot: 0, at: Duration::ZERO, service: 0 }];
    let mut is_in_row = false;
    for (slot, turn) in (1..).zip(turns).filter(|(_, turn)| turn.client == client) {
        let last = points[points.len() - 1];
        let is_near = last.service > 0 && slot - last.slot <= near;
        if is_near && is_in_row {
            points.pop();
        }
        is_in_row = is_near;
        points.push(Service { slot, at: turn.at, service: last.service + 1 });
    }
    let (last, end) = (points[points.len() - 1], turns.len() as u64);
    if last.slot < end {
        points.push(Service { slot: end, at: turns[turns.len() - 1].at, ..last });
    }
    points
}

/// Returns the number of turns of each client: slots at most a few slots apart count as one turn.
fn turns_of(noted: &[Turn], clients: usize) -> Vec<f64> {
    let (mut last, mut turns) = (vec![None; clients], vec![0.0; clients]);
    for (slot, turn) in (1..).zip(noted) {
        let client = turn.client.index();
        let before: Option<u64> = last[client].replace(slot);
        if before.is_none_or(|before| slot - before > NEAR) {
            turns[client] += 1.0;
        }
    }
    turns
}

impl LiveServers {
    /// Returns the runs with their draws of the weights, from 1. The kernel takes long, and has only the first
    /// draw.
    fn places(&self, scale: Scale) -> Vec<(Run, usize)> {
        let draws = match self.mix {
            Mix::ByServer(_) => 1,
            Mix::Random(_) => scale.pick(1, DRAWS),
        };
        let places = (1..=draws).flat_map(|draw| self.runs.iter().map(move |&run| (run, draw)));
        places.filter(|&((policy, _), draw)| draw == 1 || policy != KERNEL).collect()
    }

    /// Plots two processes under the policy of the figure, live and simulated.
    fn beside(&self, data: &Table) -> Svg {
        let run = self.runs[0];
        let model = if run.0 == KERNEL { KERNEL_MODEL } else { run.0 };
        let simulated = format!("{SIMULATED}{model}");
        let servers = [1, data.rows().most("server").max(1.0) as usize];
        let lines = servers.into_iter().flat_map(|server| {
            let modelled = data.rows_of("policy", &simulated);
            [
                stairs(rows_of(data, run), server, over_slots, format!("server {server}, live")),
                stairs(modelled, server, over_slots, format!("server {server}, {simulated}")),
            ]
        });
        let lines = lines.collect();
        self.plot(format!("service under {}, and simulated", run_name(run)), "time (slots)", lines)
    }

    fn plot(&self, title: String, time: &str, lines: Vec<Line>) -> Svg {
        LinePlot {
            title,
            description: format!("{}: what a process was served, over time.", self.title),
            x: whole(time),
            y: whole(if time == TIME { "service (units of work)" } else { "service (slots)" }),
            lines,
        }
        .svg()
    }
}

const TIME: &str = "time (ms)";

fn over_time(row: &TableRow<'_>) -> (f64, f64) {
    (row.number("time_ms"), row.number("service") * row.number("units_per_slot"))
}

/// The common description.
const ABOUT: About = About { setting: SETTING, columns: COLUMNS, ..About::of(PAPER) };

impl Experiment for LiveServers {
    fn about(&self) -> About {
        About { id: self.id, figure: self.figure, title: self.title, description: self.description, ..ABOUT }
    }

    fn parts(&self, scale: Scale) -> usize {
        self.places(scale).len()
    }

    fn run(&self, part: usize, scale: Scale, seed: Seed) -> Result<Vec<Row>, LabError> {
        let (run, draw) = self.places(scale)[part];
        let weights = self.mix.weights(draw, seed);
        let total = total(&weights);
        let units = if run.0 == KERNEL { 1 } else { self.length.units(scale) };
        Live {
            run,
            draw,
            weights,
            units,
            periods: self.length.periods(scale),
            kernel_time: Duration::from_millis(scale.of(KERNEL_MS) * total / run.1 as u64),
            seed,
        }
        .rows()
    }

    fn notes(&self, data: &Table) -> Vec<Note> {
        notes(data)
    }

    fn plots(&self, data: &Table) -> Plots {
        let run = self.runs[0];
        let service = format!("service under {}, live", run_name(run));
        let mut plots = vec![
            ("service".to_owned(), self.plot(service, TIME, each_server(data, run, over_time))),
            ("simulated".to_owned(), self.beside(data)),
        ];
        if self.runs.len() > 1 {
            let title = "service of a process of server 1, live".to_owned();
            plots.push(("policies".to_owned(), self.plot(title, TIME, rivals(data, self.runs, over_time))));
        }
        plots
    }

    fn is_timed(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a run with two servers, one unit of work per slot, and little time for the kernel.
    fn live(run: Run, seed: Seed) -> Live {
        let weights = Mix::ByServer(&[10, 1]).weights(1, seed);
        Live { run, draw: 1, weights, units: 1, periods: 1, kernel_time: Duration::from_millis(80), seed }
    }

    fn data(runs: &[Run]) -> Table {
        Table::of(COLUMNS, runs.iter().flat_map(|&run| live(run, Seed(1)).rows().unwrap()))
    }

    fn run_row(data: &Table, run: Run) -> TableRow<'_> {
        rows_of(data, run).next().unwrap()
    }

    #[test]
    fn processes_do_what_they_are_given_as_the_simulator_gives_it() {
        for run in [("gr3", 1), ("wfq", 1), ("vtrr", 1), ("gr3mp", 2)] {
            let data = data(&[run]);
            let row = run_row(&data, run);
            let number = |column: &str| row.number(column);
            assert_eq!([number("slots"), number("units_given"), number("units_done")], [1100.0; 3], "{run:?}");
            assert_eq!([number("processes"), number("processes_right")], [200.0; 2]);
            assert_eq!((number("ratio_of_weights"), number("ratio_of_service")), (10.0, 10.0));
            if run.1 == 1 {
                assert_eq!(number("slots_as_simulated"), 1100.0, "{run:?}");
            }
            let served = |name: &str| data.rows_of("policy", name).most("service");
            assert_eq!((served(run.0), served(&format!("{SIMULATED}{}", run.0))), (10.0, 10.0));
        }
    }

    #[test]
    fn the_kernel_dispatches_alone_or_says_why_not() {
        let data = data(&[(KERNEL, 1)]);
        let row = run_row(&data, (KERNEL, 1));
        if row.number("slots") == 0.0 {
            assert!(row.text("note").starts_with("not run: "), "{}", row.text("note"));
            return;
        }
        assert_eq!(row.number("units_given"), row.number("units_done"));
        assert_eq!(row.number("processes_right"), 200.0);
        assert!((9.3..9.4).contains(&row.number("ratio_of_nice")));
        assert!(row.number("slots_in_a_row") >= 1.0 && row.number("whole_ms") >= 80.0);
    }

    #[test]
    fn notes_and_plots_come_of_every_run() {
        let data = data(&[("gr3", 1), (KERNEL, 1)]);
        let notes = notes(&data);
        assert!(notes.iter().any(|note| note.about.starts_with("gr3 on 1: longest gap")), "{notes:#?}");
        assert_eq!(SERVERS[0].plots(&data).len(), 3);
    }

    #[test]
    fn a_run_that_could_not_be_is_noted_as_such() {
        let data = Table::of(COLUMNS, [live((KERNEL, 2), Seed(1)).nothing("not run: no nice values".to_owned())]);
        let notes = notes(&data);
        let said: Vec<_> = notes.iter().map(|note| (note.about.as_str(), note.found.as_str())).collect();
        assert_eq!(said, [("kernel on 2: where it ran", "not run: no nice values")]);
        assert_eq!(SERVERS[4].plots(&data).len(), 2);
    }

    /// The kernel has one draw, whatever the number of draws.
    #[test]
    fn every_policy_has_every_draw() {
        let places = |at: usize, scale| SERVERS[at].places(scale);
        assert_eq!((places(0, Scale::Full).len(), places(3, Scale::Full).len()), (2, ALL_POLICIES.len()));
        let third = places(7, Scale::Full);
        assert_eq!(third.len(), DRAWS * (ALL_AND_SEVERAL.len() - 1) + 1);
        assert!(third.contains(&(("gr3mp", 2), DRAWS)) && third.contains(&((KERNEL, 1), 1)));
        assert_eq!(places(7, Scale::Quick).len(), ALL_AND_SEVERAL.len());
    }

    #[test]
    fn work_that_is_lost_is_an_error() {
        let right =
            Totals { slots: 11, alike: 11, units: 2, given: 22, done: 22, processes: 4, right: 4, ..Totals::default() };
        let live = live(("gr3", 1), Seed(1));
        assert!(live.check(&right).is_ok());
        let wrong = [
            Totals { done: 21, ..right.clone() },
            Totals { given: 23, ..right.clone() },
            Totals { right: 3, ..right.clone() },
            Totals { alike: 10, ..right.clone() },
        ];
        for totals in wrong {
            assert!(live.check(&totals).is_err(), "{}", totals.done);
        }
        let live = Live { run: ("gr3mp", 2), ..live };
        assert!(live.check(&Totals { alike: 10, ..right }).is_ok(), "slots of two processors end at any time");
    }

    fn turns(clients: &[u32]) -> Vec<Turn> {
        let at = |ms| Duration::from_millis(ms);
        (1..).zip(clients).map(|(ms, &client)| Turn { client: ClientId(client), at: at(ms) }).collect()
    }

    #[test]
    fn services_in_a_row_are_drawn_by_their_ends() {
        let turns = turns(&[1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 1]);
        let seen = |near| -> Vec<(u64, u64)> {
            points(&turns, ClientId(0), near).iter().map(|point| (point.slot, point.service)).collect()
        };
        assert_eq!(seen(0), [(0, 0), (2, 1), (3, 2), (5, 3), (6, 4), (11, 5), (12, 5)]);
        assert_eq!(seen(2), [(0, 0), (2, 1), (6, 4), (11, 5), (12, 5)]);
        assert_eq!(turns_of(&turns, 2), [1.0, 1.0]);
    }
}
