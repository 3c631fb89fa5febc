//! Whether a dispatcher keeps a run from doing more.

use humpyard_core::unit::Time;
use humpyard_runtime::Load;

use crate::figures::percent;
use crate::result::{DispatcherLoad, RunResult};

/// From this part of the time on a dispatcher has no time left.
pub(crate) const FULL: f64 = 0.95;
/// Below this part of the time its workers could do more.
const ROOM: f64 = 0.8;
/// A shorter time says nothing.
const LEAST: Time = Time::from_ns(100_000_000);
/// How long the load of a run is watched before it is judged.
const WINDOW: Time = Time::from_ns(1_000_000_000);
/// A packet is overdue when it has been due for this many ns.
pub const OVERDUE_NS: u64 = 20_000_000;

/// How busy a dispatcher was, and whether packets came to harm before it had taken them in.
#[derive(Clone, Copy, Debug)]
struct Judged {
    number: usize,
    elapsed: Time,
    busy: f64,
    utilization: f64,
    /// Workers of all dispatchers.
    workers: usize,
    fell_behind: bool,
}

impl Judged {
    /// Whether this dispatcher has no time left while its workers have, or while packets wait for it or are lost.
    fn is_bottleneck(&self) -> bool {
        self.elapsed >= LEAST && self.busy > FULL && (self.utilization < ROOM || self.fell_behind)
    }

    fn said(&self, dispatchers: usize) -> String {
        let name = if dispatchers == 1 { "the dispatcher".to_owned() } else { format!("dispatcher {}", self.number) };
        let (busy, utilization) = (percent(self.busy), percent(self.utilization));
        let of_workers = if self.workers > 0 {
            format!("its workers {utilization}")
        } else {
            format!("{utilization} with the services' work")
        };
        format!(
            "{name} is the bottleneck: busy {busy} of the time, {of_workers}; try {}",
            remedy(self.workers, dispatchers)
        )
    }
}

/// Names the options that help a run with these workers and dispatchers, each of which needs a worker.
pub(crate) fn remedy(workers: usize, dispatchers: usize) -> String {
    let more = dispatchers + 1;
    match workers {
        0 => "--workers 1".to_owned(),
        workers if workers < more => format!("--workers {more} --dispatchers {more}"),
        _ => format!("--dispatchers {more}"),
    }
}

/// Returns the remedies for a simulation whose busiest dispatcher has no time left. `dispatchers` is their number.
pub(crate) fn simulated_remedy(cores: usize, dispatchers: usize) -> String {
    let fewer = "offer fewer packets (--load, --multiplier)";
    let faster = "name a faster host (--host FILE)";
    if cores == 0 || dispatchers == 0 {
        return format!("{fewer}, or {faster}");
    }
    let more = match dispatchers + 1 {
        more if more <= cores => format!("have --dispatchers {more} (0 for hrw or conn)"),
        _ => faster.to_owned(),
    };
    if dispatchers > 1 {
        return format!("{fewer}, or {more}");
    }
    format!("{fewer}, {more}, or run to completion (--cores 0; live: run --workers 0)")
}

/// Names the dispatcher of an assumed host as the bottleneck of a simulation: it was busy for more than 95 % of the time, and its
/// cores for less than 80 %. Virtual times have no noise, so a run of any length is judged.
fn simulated(run: &RunResult, busy: f64) -> Option<String> {
    let cores = &run.summary.cores_detail;
    let utilization = cores.iter().map(|core| core.utilization).sum::<f64>() / cores.len().max(1) as f64;
    if busy <= FULL || utilization >= ROOM {
        return None;
    }
    let (busy, worked) = (percent(busy), percent(utilization));
    let beside =
        if run.cores == 0 { format!("{worked} with the services' work") } else { format!("its cores {worked}") };
    let remedy = simulated_remedy(run.cores, run.dispatchers);
    let name = if run.dispatchers == 1 { "the dispatcher" } else { "the busiest dispatcher" };
    Some(format!("{name} is the bottleneck: busy {busy} of the time, {beside}; {remedy}"))
}

/// The remedies for a reader that has no time left.
pub(crate) const READER_REMEDY: &str = "more dispatchers do not help: offer fewer packets (--load, --multiplier), name \
                                        a faster host (--host FILE), or have no dispatcher (--dispatchers 0)";

/// Names the reader, which deals out the packets of all dispatchers, as the bottleneck of a simulation.
fn reader_full(run: &RunResult, busy: f64) -> String {
    let (busy, dispatchers) = (percent(busy), run.dispatchers);
    format!("the reader is the bottleneck: busy {busy} of the time, for {dispatchers} dispatchers; {READER_REMEDY}")
}

/// The busiest of the dispatchers that are bottlenecks, in words.
fn first(judged: &[Judged]) -> Option<String> {
    let limits = judged.iter().filter(|one| one.is_bottleneck()).max_by(|a, b| a.busy.total_cmp(&b.busy))?;
    Some(limits.said(judged.len()))
}

/// Names the dispatcher that is the bottleneck of a run, with figures and a remedy. `None`: none is, or nobody can tell.
///
/// In a simulation it is that of the assumed host. In a live run it is one where it was busy for more than 95 % of at least 100 ms, and either its workers for less than 80 %, or packets were
/// due for 20 ms before it took them in, or its interfaces lost some. Workers without a dispatcher have no such bottleneck.
pub fn bottleneck(run: &RunResult) -> Option<String> {
    if run.dispatchers == 0 {
        return None;
    }
    if let Some(assumed) = &run.assumed {
        let reader = assumed.reader_utilization.filter(|&busy| busy > FULL);
        return reader.map(|busy| reader_full(run, busy)).or_else(|| simulated(run, assumed.dispatcher_utilization));
    }
    let missed = run.packets.dropped.get("port_missed").is_some_and(|&missed| missed > 0);
    let fell_behind = missed || run.measured.overdue_max_ns > OVERDUE_NS;
    let judge = |(number, load): (usize, &DispatcherLoad)| Judged {
        number,
        elapsed: Time::from_ns(run.measured.wall_ns),
        busy: load.busy_fraction,
        utilization: load.workers_utilization,
        workers: run.cores,
        fell_behind,
    };
    first(&run.measured.dispatchers.iter().enumerate().map(judge).collect::<Vec<_>>())
}

/// Watches the load of a live run while it goes on.
#[derive(Debug, Default)]
pub struct LoadWatch {
    earlier: Vec<Load>,
    busiest: Option<f64>,
    has_said: bool,
}

impl LoadWatch {
    /// The dispatchers have this load by now. Returns, once in a run, that one is the bottleneck, with figures of the last second.
    pub fn look(&mut self, loads: &[Load]) -> Option<String> {
        if self.earlier.len() != loads.len() {
            self.earlier = vec![Load::default(); loads.len()];
        }
        let recent: Vec<Load> = loads.iter().zip(&self.earlier).map(|(now, earlier)| now.since(earlier)).collect();
        if recent.iter().all(|load| load.elapsed < WINDOW) {
            return None;
        }
        self.earlier = loads.to_vec();
        self.busiest = recent.iter().map(Load::busy_fraction).reduce(f64::max);
        let said = bottleneck_of(&recent).filter(|_| !self.has_said);
        self.has_said |= said.is_some();
        said
    }

    /// The part of the last second or more in which the busiest dispatcher was busy; `None`: the first second lasts.
    pub fn busiest(&self) -> Option<f64> {
        self.busiest
    }
}

/// Names the dispatcher that is the bottleneck by its load over an interval. `None`: none is.
pub fn bottleneck_of(loads: &[Load]) -> Option<String> {
    let workers = loads.iter().map(|load| load.cores).sum();
    if workers == 0 && loads.len() > 1 {
        // Workers without a dispatcher.
        return None;
    }
    let judge = |(number, load): (usize, &Load)| Judged {
        number,
        elapsed: load.elapsed,
        busy: load.busy_fraction(),
        utilization: load.utilization(),
        workers,
        fell_behind: false,
    };
    first(&loads.iter().enumerate().map(judge).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load in ms.
    fn load(elapsed: u64, busy: u64, cores_busy: u64, cores: usize) -> Load {
        let [elapsed, busy, cores_busy] = [elapsed, busy, cores_busy].map(|ms| Time::from_ns(ms * 1_000_000));
        Load { elapsed, busy, cores_busy, cores }
    }

    #[test]
    fn a_dispatcher_without_time_left_is_the_bottleneck_where_its_workers_have_some() {
        let said = |elapsed, busy, cores_busy, cores| bottleneck_of(&[load(elapsed, busy, cores_busy, cores)]);
        assert_eq!(
            said(1000, 996, 620, 2).unwrap(),
            "the dispatcher is the bottleneck: busy 99.6 % of the time, its workers 31.0 %; try --dispatchers 2"
        );
        assert_eq!(
            said(1000, 1000, 300, 0).unwrap(),
            "the dispatcher is the bottleneck: busy 100.0 % of the time, 30.0 % with the services' work; try --workers 1"
        );
        assert_eq!(said(1000, 1000, 1700, 2), None, "the workers have no time left, either");
        assert_eq!(said(1000, 1000, 900, 0), None, "services take most of it");
        assert_eq!(said(1000, 940, 100, 2), None);
        assert_eq!(said(90, 90, 0, 1), None, "too short");
    }

    #[test]
    fn the_busiest_of_several_is_named() {
        let loads = [load(1000, 100, 0, 1), load(1000, 970, 0, 1), load(1000, 990, 0, 1)];
        let said = bottleneck_of(&loads).unwrap();
        assert!(
            said.starts_with("dispatcher 2 is the bottleneck: busy 99.0 %")
                && said.ends_with("try --workers 4 --dispatchers 4"),
            "{said}"
        );
        assert_eq!(bottleneck_of(&[load(1000, 990, 300, 0); 2]), None, "workers without a dispatcher");
    }

    #[test]
    fn packets_that_wait_for_a_busy_dispatcher_tell() {
        let judged = Judged {
            number: 0,
            elapsed: Time::from_ns(1_000_000_000),
            busy: 0.97,
            utilization: 0.9,
            workers: 2,
            fell_behind: false,
        };
        assert!(!judged.is_bottleneck());
        assert!(Judged { fell_behind: true, ..judged }.is_bottleneck());
        assert!(!Judged { fell_behind: true, busy: 0.5, ..judged }.is_bottleneck());
    }

    #[test]
    fn a_watch_says_it_once_and_judges_the_last_second() {
        let mut watch = LoadWatch::default();
        assert_eq!((watch.look(&[load(900, 900, 0, 1)]), watch.busiest()), (None, None));
        assert_eq!((watch.look(&[load(1000, 500, 500, 1)]), watch.busiest()), (None, Some(0.5)));
        assert_eq!(watch.look(&[load(1900, 1400, 500, 1)]), None, "a second is not over");
        assert!(watch.look(&[load(2000, 1490, 600, 1)]).is_some());
        assert_eq!((watch.look(&[load(3100, 2590, 700, 1)]), watch.busiest()), (None, Some(1.0)));
    }
}
