//! The work that is the same for all programs, and its measurements.

use core::time::Duration;

use humpyard::config::SchedulerConfig;
use humpyard::mechanism::{ExitOrder, Never, Scheduler};
use humpyard::policies::share::fcfs::Fcfs;
use humpyard::policies::steer::conn::Conn;
use humpyard::policies::steer::rr::Rr;
use humpyard::policy::{Build, Params, Share, Steer};
use humpyard::unit::{Time, WorkUnit};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The work of every program: a number of events circulate, and every hop of every event is a
/// decision.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// The two processors.
    pub(crate) processors: [usize; 2],
    /// Events that circulate.
    pub(crate) in_flight: usize,
    /// Flows; a power of two.
    pub(crate) flows: u32,
    /// Events that are taken at a time.
    pub(crate) burst: usize,
    /// Most events that a worker on another processor may have at a time.
    pub(crate) depth: u32,
    /// The number added to an event's flow at each hop.
    pub(crate) hop: u32,
    /// How long it runs before it is measured.
    pub(crate) warm_up: Duration,
    /// How long it is measured.
    pub(crate) time: Duration,
}

impl Work {
    /// The flow of an event at its next hop.
    pub(crate) const fn next_flow(&self, flow: u32) -> u32 {
        (flow + self.hop) & (self.flows - 1)
    }
}

/// The order that the events of a flow need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// One worker at a time has them, so they stay in order.
    Atomic,
    /// Any worker may have them; they leave in order.
    Ordered,
    /// Any worker may have them, and they leave in any order.
    Parallel,
}

impl Order {
    /// Its name, both here and in DPDK.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Atomic => "atomic",
            Self::Ordered => "ordered",
            Self::Parallel => "parallel",
        }
    }

    /// The policy that keeps it.
    pub(crate) const fn policy(self) -> &'static str {
        match self {
            Self::Atomic => "conn",
            Self::Ordered | Self::Parallel => "rr",
        }
    }

    /// Whether events are put back in order when they leave.
    pub(crate) const fn exit(self) -> Option<ExitOrder> {
        match self {
            Self::Ordered => Some(ExitOrder { packets: 1024, timeout: Time::from_ns(1_000_000_000) }),
            Self::Atomic | Self::Parallel => None,
        }
    }
}

/// A function on a scheduler of any type.
pub(crate) trait Host {
    /// Runs the work with schedulers from `make`.
    fn run<S: Steer + Send, Q: Share + Send>(self, make: impl Fn() -> Scheduler<S, Q, Never> + Sync) -> Figures;
}

/// Lets a host run the work under the policy of this order. The host knows the policy's type, as a
/// user's program does.
pub(crate) fn host(order: Order, in_flight: u32, work: &Work, host: impl Host) -> Figures {
    let config = SchedulerConfig {
        flows: work.flows as usize,
        packets: work.in_flight,
        in_flight,
        unit: WorkUnit::Packets,
        exit: order.exit(),
        ..SchedulerConfig::default()
    };
    match order.policy() {
        "conn" => host.run(|| scheduler::<Conn>(&config)),
        _ => host.run(|| scheduler::<Rr>(&config)),
    }
}

fn scheduler<S: Build + Steer>(config: &SchedulerConfig) -> Scheduler<S, Fcfs, Never> {
    let scheduler = Scheduler::new(config, Some(policy(config)), None, || Ok(policy(config)));
    scheduler.expect("a set-up that can be")
}

/// Returns a policy with its default parameters.
fn policy<P: Build>(config: &SchedulerConfig) -> P {
    let parameters = P::Params::from_pairs(P::INFO.name, &[]).expect("none is needed");
    P::new(&parameters, config).expect("a set-up that can be")
}

/// The measurements of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) events: u64,
    pub(crate) time: Duration,
}

impl Figures {
    /// Events per second, in millions.
    pub(crate) fn rate(self) -> f64 {
        self.events as f64 / self.time.as_secs_f64() / 1e6
    }
}

/// Keeps the calling thread on this processor.
pub(crate) fn pin(processor: usize) {
    let mut set = CpuSet::new();
    let pinned = set.set(processor).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    pinned.unwrap_or_else(|error| panic!("cannot run on processor {processor}: {error}"));
}
