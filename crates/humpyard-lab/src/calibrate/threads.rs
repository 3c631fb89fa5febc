//! Measures the time of the threads around the services, by live runs of some traffic.
//!
//! If all packets are due and the buffer is short, the time between two is that of one thread under full
//! load, with warm caches. With the whole buffer, frames have left the caches before their service.
//! At 40 % of the load packets come one by one, so the median delay is that of a packet alone. The
//! difference between a run on one thread and a run with a worker is the time of handing over.
//!
//! A shared machine is faster at one moment than at the next. So all runs take turns, several times,
//! and the medians count.

use core::time::Duration;

use humpyard_runtime::{HELD_BACK_MAX, Overload};
use humpyard_sim::HostCosts;

use super::fit::{median, sorted};
use crate::LabError;
use crate::choice::host::Host;
use crate::choice::rate::Rate;
use crate::config::RunConfig;
use crate::control::Control;
use crate::defaults::BUFFER;
use crate::result::RunResult;
use crate::run::run_live;

/// Rounds of which the median counts.
pub(super) const ROUNDS: usize = 3;
/// Packets from which the length of the runs follows.
const PROBED: u64 = 20_000;
/// Length of a run, in seconds, and its least and most packets.
const LASTS: f64 = 0.2;
const PACKETS: (f64, f64) = (2_000.0, 1_000_000.0);
/// Length of a run that shows interruptions, in seconds.
const INTERRUPTED: f64 = 0.6;
/// Packets per second, more than any thread takes.
const ALL_DUE: f64 = 1e9;
/// Load at which packets come one by one and threads stay awake.
const HALF: f64 = 0.4;
/// Time of a turn of the dispatcher's loop, about, in ns.
const TURN: f64 = 200.0;
/// Packets held in a short buffer: two bursts.
const SHORT: usize = 64;
/// Packets held in a buffer that exceeds the nearest caches.
const LONG: usize = 512;
/// Packets that a turn takes in under full load.
pub(super) const BURST: f64 = 32.0;
/// Fraction of the dispatcher's time for a packet that comes after its service. This is an estimate:
/// a run cannot tell the two parts apart.
const AFTER: f64 = 0.25;

/// The times of a packet in one run, in ns.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct PacketTimes {
    /// From one packet to the next.
    pub(super) apart: f64,
    /// Median delay.
    pub(super) delay: f64,
    /// Time in which its cores were busy with it.
    pub(super) busy: f64,
    /// The dispatcher's working time.
    pub(super) at_work: f64,
    /// Services that it went through.
    pub(super) hops: f64,
    /// Its length, in bytes.
    pub(super) length: f64,
}

impl PacketTimes {
    /// Returns the rate at which packets come one by one, in packets per nanosecond. Each then takes turns
    /// of its own: to be taken in, and to be taken back from each service.
    fn one_by_one(&self) -> f64 {
        HALF / (self.apart + (1.0 + self.hops) * TURN)
    }
}

/// Some traffic, its services, and one dispatcher.
#[derive(Clone)]
pub(super) struct MeasuredRun {
    config: RunConfig,
}

impl MeasuredRun {
    /// Returns the traffic and the services of a run, under its policy.
    pub(super) fn new(config: &RunConfig) -> Self {
        Self {
            config: RunConfig {
                host: Host::Live,
                cores: 0,
                dispatchers: Some(1),
                output: "null:".to_owned(),
                rounds: u64::MAX,
                // The user's may be longer than a run, and would leave no delays.
                warm_up: Duration::ZERO,
                journal: None,
                timeline: None,
                ..config.clone()
            },
        }
    }

    pub(super) fn with_workers(&self, workers: usize) -> Self {
        Self { config: RunConfig { cores: workers, ..self.config.clone() } }
    }

    pub(super) fn with_buffer(&self, packets: usize) -> Self {
        Self { config: RunConfig { buffer: packets, ..self.config.clone() } }
    }

    /// Measures this many packets that are taken one after the other.
    pub(super) fn full(&self, packets: u64, control: &mut Control<'_>) -> Result<PacketTimes, LabError> {
        times(&RunConfig { packets: Some(packets), ..all_due(&self.config) }, control)
    }

    /// Measures packets that come evenly, this many per nanosecond.
    pub(super) fn at(&self, rate: f64, control: &mut Control<'_>) -> Result<PacketTimes, LabError> {
        self.evenly(rate, LASTS, control)
    }

    /// Measures packets that come evenly, this many per nanosecond, for this many seconds.
    fn evenly(&self, rate: f64, seconds: f64, control: &mut Control<'_>) -> Result<PacketTimes, LabError> {
        let pps = pps_of(rate);
        let packets = Some(lasting(pps, seconds));
        times(&RunConfig { rate: Rate::PacketsPerSecond(pps), packets, ..self.config.clone() }, control)
    }

    /// Runs packets one by one, at the rate of this round, for long enough to be interrupted.
    pub(super) fn one_by_one(&self, round: &ThreadTimes, control: &mut Control<'_>) -> Result<PacketTimes, LabError> {
        self.evenly(round.short.one_by_one(), INTERRUPTED, control)
    }

    /// Returns the number of packets of [`MeasuredRun::one_by_one`].
    pub(super) fn packets_one_by_one(&self, round: &ThreadTimes) -> u64 {
        lasting(pps_of(round.short.one_by_one()), INTERRUPTED)
    }

    /// Returns the number of packets that one thread takes in the time of a run.
    pub(super) fn packets(&self, control: &mut Control<'_>) -> Result<u64, LabError> {
        Ok(lasting(1e9 / self.full(PROBED, control)?.apart, LASTS))
    }
}

/// Returns this live run with packets that are all due when it begins, and wait until they are taken.
///
/// At [`Rate::Line`] a dispatcher reads many frames at a time. Frames that have a time are read one by one, which takes
/// longer.
pub(crate) fn all_due(config: &RunConfig) -> RunConfig {
    let rate = Rate::PacketsPerSecond(ALL_DUE);
    RunConfig { host: Host::Live, rate, overload: Some(Overload::Wait), ..config.clone() }
}

/// Returns a rate in packets per nanosecond as packets per second.
fn pps_of(rate: f64) -> f64 {
    (rate * 1e9).round().max(1.0)
}

/// Returns the packets of a run at this rate, in packets per second, that lasts this many seconds.
fn lasting(pps: f64, seconds: f64) -> u64 {
    (pps * seconds).clamp(PACKETS.0, PACKETS.1) as u64
}

fn times(config: &RunConfig, control: &mut Control<'_>) -> Result<PacketTimes, LabError> {
    let result: RunResult = run_live(config, control)?;
    if result.interrupted {
        return Err(LabError::option("interrupted before the host was measured"));
    }
    let summary = &result.summary;
    let packets = result.packets.processed.max(1) as f64;
    let busy: f64 = summary.cores_detail.iter().map(|core| core.utilization).sum();
    let served: u64 = summary.cores_detail.iter().map(|core| core.packets).sum();
    let apart = 1e9 / summary.throughput_pps;
    Ok(PacketTimes {
        apart,
        delay: summary.delay_ns.p50 as f64,
        busy: busy * summary.duration_ns as f64 / packets,
        at_work: result.measured.dispatchers.first().map_or(0.0, |load| load.busy_fraction) * apart,
        hops: served as f64 / packets,
        length: summary.bytes as f64 / packets,
    })
}

/// Returns the median of each time.
pub(super) fn medians(runs: &[PacketTimes]) -> PacketTimes {
    let of = |time: fn(&PacketTimes) -> f64| median(&sorted(runs.iter().map(time)));
    PacketTimes {
        apart: of(|times| times.apart),
        delay: of(|times| times.delay),
        busy: of(|times| times.busy),
        at_work: of(|times| times.at_work),
        hops: of(|times| times.hops),
        length: of(|times| times.length),
    }
}

/// The runs from which the times around the services follow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct ThreadTimes {
    /// On one thread at a line rate, with a short, a longer and the whole buffer.
    pub(super) short: PacketTimes,
    long: PacketTimes,
    whole: PacketTimes,
    /// On one thread, packets one by one.
    pub(super) half: PacketTimes,
    /// With a worker, at a line rate and one by one.
    handed: Option<[PacketTimes; 2]>,
}

impl ThreadTimes {
    /// Measures one round.
    pub(super) fn measure(
        subject: &MeasuredRun,
        packets: u64,
        with_worker: bool,
        control: &mut Control<'_>,
    ) -> Result<Self, LabError> {
        let short = subject.with_buffer(SHORT).full(packets, control)?;
        let half = subject.at(short.one_by_one(), control)?;
        let handed = if with_worker {
            let worker = subject.with_workers(1);
            Some([worker.full(packets, control)?, worker.at(short.one_by_one(), control)?])
        } else {
            None
        };
        Ok(Self {
            short,
            half,
            long: subject.with_buffer(LONG).full(packets, control)?,
            whole: subject.with_buffer(BUFFER).full(packets, control)?,
            handed,
        })
    }

    /// Returns the medians of the rounds.
    pub(super) fn medians(rounds: &[Self]) -> Self {
        let of = |times: fn(&Self) -> PacketTimes| medians(&rounds.iter().map(times).collect::<Vec<_>>());
        let handed = |at: usize| {
            let runs: Vec<PacketTimes> = rounds.iter().filter_map(|round| Some(round.handed?[at])).collect();
            (!runs.is_empty()).then(|| medians(&runs))
        };
        Self {
            short: of(|round| round.short),
            long: of(|round| round.long),
            whole: of(|round| round.whole),
            half: of(|round| round.half),
            handed: handed(0).zip(handed(1)).map(<[PacketTimes; 2]>::from),
        }
    }

    /// Returns the times of a host, of which `known` has its own times in services, the time of a byte,
    /// of going on in a chain, and those of rested threads.
    pub(super) fn around(&self, known: &HostCosts) -> HostCosts {
        let Self { short, long, whole, half, handed } = self;
        let hops = short.hops.max(1.0);
        let onward = hops - 1.0;
        let dispatcher = |times: &PacketTimes| (times.at_work - times.busy).max(0.0);
        let each = (dispatcher(short) - onward * known.onward).max(0.0);
        let (before, take_back) = ((1.0 - AFTER) * each, AFTER * each);
        // One by one, a turn takes a packet in and another takes each of its services back. Under full
        // load a turn does so for a burst.
        let turn = ((dispatcher(half) - dispatcher(short)) / (1.0 + hops - hops / BURST)).max(0.0);
        let bytes = known.per_byte * short.length;
        let take_in = (before - hops * turn / BURST - bytes).max(0.0);
        let onward_delay = onward * (turn + known.onward);
        let notice = (half.delay - half.busy - turn - take_in - bytes - onward_delay).max(0.0);
        let more = |times: &PacketTimes| (dispatcher(times) - dispatcher(short)).max(0.0);
        let longer = |times: &PacketTimes| ((times.busy - short.busy) / hops).max(0.0);
        let by_held = |[long, whole]: [f64; 2]| vec![(SHORT as u64, 0.0), (LONG as u64, long), (BUFFER as u64, whole)];
        let mut times = HostCosts {
            turn,
            notice,
            take_in,
            take_back,
            held: by_held([more(long), more(whole)]),
            served: by_held([longer(long), longer(whole)]),
            ..known.clone()
        };
        if let Some([line, awake]) = handed {
            let handed = ((line.at_work - dispatcher(whole)) / hops).max(0.0);
            (times.give, times.fetch) = (handed / 2.0, handed / 2.0);
            // One by one, each packet is the first that its turn gives or fetches.
            let first = ((awake.at_work - dispatcher(half)) / hops - handed).max(0.0);
            (times.give_first, times.fetch_first) = (first / 2.0, first / 2.0);
            let longer = ((awake.busy - half.busy) / hops).max(0.0);
            let held = (line.busy - awake.busy) / hops;
            times.worker_first = (-held).clamp(0.0, known.own + longer);
            times.worker = known.own + longer - times.worker_first;
            times.worker_served = vec![(SHORT as u64, 0.0), (BUFFER as u64, held.max(0.0))];
            times.hold_back = HELD_BACK_MAX.as_ns() as f64;
            let fetched = times.fetch + times.fetch_first;
            let on_the_way = awake.delay - half.delay - onward * (notice + fetched);
            times.hand_over = (on_the_way / hops - times.give - times.give_first - longer).max(0.0);
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host whose times can be told apart.
    fn host() -> HostCosts {
        HostCosts {
            turn: 160.0,
            notice: 50.0,
            take_in: 145.0,
            take_back: 51.0,
            own: 30.0,
            worker: 90.0,
            hand_over: 70.0,
            give: 40.0,
            give_first: 60.0,
            fetch: 40.0,
            fetch_first: 60.0,
            held: vec![(64, 0.0), (512, 10.0), (4_096, 40.0)],
            served: vec![(64, 0.0), (512, 100.0), (4_096, 200.0)],
            ..HostCosts::default()
        }
    }

    #[test]
    fn the_times_of_a_host_are_found_again() {
        let (host, service) = (host(), 500.0);
        let busy = service + host.own;
        let dispatcher = host.turn / BURST + host.take_in + host.take_back;
        let full = |held: f64, served: f64| PacketTimes {
            at_work: dispatcher + held + busy + served,
            busy: busy + served,
            hops: 1.0,
            length: 64.0,
            ..PacketTimes::default()
        };
        let half = PacketTimes {
            at_work: 2.0 * host.turn + host.take_in + host.take_back + busy,
            delay: host.notice + host.turn + host.take_in + busy,
            ..full(0.0, 0.0)
        };
        let line = PacketTimes { at_work: dispatcher + 40.0 + host.give + host.fetch, ..full(0.0, 0.0) };
        let line = PacketTimes { busy: service + host.worker + 80.0, ..line };
        let awake = PacketTimes {
            delay: half.delay + host.give + host.give_first + host.hand_over + host.worker - host.own,
            busy: service + host.worker,
            at_work: half.at_work - busy + host.give + host.give_first + host.fetch + host.fetch_first,
            ..half
        };
        let times = ThreadTimes {
            short: full(0.0, 0.0),
            long: full(10.0, 100.0),
            whole: full(40.0, 200.0),
            half,
            handed: Some([line, awake]),
        };
        let known = HostCosts { own: host.own, ..HostCosts::default() };
        let found = ThreadTimes::medians(&[times; 3]).around(&known);
        let near = |one: f64, other: f64| assert!((one - other).abs() < 1.5, "{found:?}");
        near(found.turn, host.turn);
        near(found.notice, host.notice);
        near(found.take_in, host.take_in);
        near(found.take_back, host.take_back);
        near(found.worker, host.worker);
        near(found.hand_over, host.hand_over);
        near(found.give + found.fetch, host.give + host.fetch);
        near(found.give_first + found.fetch_first, host.give_first + host.fetch_first);
        near(found.worker_first, 0.0);
        assert_eq!(found.worker_served, [(64, 0.0), (4_096, 80.0)]);
        for (points, expected) in [(&found.held, &host.held), (&found.served, &host.served)] {
            for (&(place, ns), &(expected_place, expected_ns)) in points.iter().zip(expected) {
                assert_eq!(place, expected_place);
                near(ns, expected_ns);
            }
        }
        // Packets that come together take a worker less time than each alone.
        let together = PacketTimes { busy: service + host.worker - 50.0, ..line };
        let found = ThreadTimes { handed: Some([together, awake]), ..times }.around(&known);
        assert_eq!((found.worker_first, found.worker), (50.0, host.worker - 50.0));
        assert_eq!(found.worker_served, [(64, 0.0), (4_096, 0.0)]);
    }
}
