//! How a simulation ends; it always ends in the same way.

use core::sync::atomic::{AtomicBool, Ordering};

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_policies::registry;
use humpyard_traffic::{Source, TrafficError, open};

use crate::support::{Outcome, Sim, capture};

#[test]
fn the_same_again_is_the_same_to_the_last_bit() {
    for entry in registry::entries() {
        let sim = Sim { policy: entry.info.name, input: "gen:messages:packets=20000", cores: 3, ..Sim::default() };
        let (first, second) = (sim.go(), sim.go());
        assert_eq!(first.measured.summary(), second.measured.summary(), "{}", entry.info.name);
        assert_eq!(first.measured.account(), second.measured.account(), "{}", entry.info.name);
    }
}

#[test]
fn every_policy_accounts_for_every_packet() {
    for entry in registry::entries() {
        for cores in [1, 2, 5] {
            let outcome = Sim { policy: entry.info.name, cores, packets: 50, ..Sim::default() }.go();
            let (account, summary) = (outcome.measured.account(), outcome.measured.summary());
            assert_eq!(account.arrived, 100_000);
            assert_eq!(summary.cores_detail.iter().map(|core| core.packets).sum::<u64>(), account.processed);
            assert_eq!(summary.bytes, 64 * account.processed);
            assert_eq!(outcome.flows, 64);
        }
    }
}

/// Sets the flag after this number of frames.
struct Stopping<'a>(Box<dyn Source + Send>, u64, &'a AtomicBool);

impl Source for Stopping<'_> {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        match self.1.checked_sub(1) {
            Some(left) => self.1 = left,
            None => self.2.store(true, Ordering::Relaxed),
        }
        self.0.next(frame)
    }

    fn description(&self) -> &str {
        self.0.description()
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

fn assert_served(outcome: &Outcome) {
    let account = outcome.measured.account();
    assert_eq!(account.arrived, account.processed, "what had arrived was served");
}

#[test]
fn a_stop_serves_what_has_arrived() {
    let endless = open("gen:poisson:packets=1000000000000,pps=900000", Seed(1)).expect("a profile");
    let outcome = Sim::default().with(Box::new(Stopping(endless, 1000, &STOP)), &STOP);
    assert!(outcome.interrupted);
    let arrived = outcome.measured.account().arrived;
    assert!((1000..2000).contains(&arrived), "each batch asks whether to stop, and {arrived} packets arrived");
    assert_served(&outcome);
}

#[test]
fn a_stop_before_the_start_is_an_empty_run() {
    let source = open("gen:poisson", Seed(1)).expect("a profile");
    let outcome = Sim::default().with(source, &AtomicBool::new(true));
    assert!(outcome.interrupted);
    assert_eq!((outcome.measured.account().arrived, outcome.measured.summary().duration_ns), (0, 0));
}

#[test]
fn a_damaged_capture_is_simulated_up_to_the_damage() {
    let mut cut = capture(&[(0, 14), (1, 14), (2, 14)]);
    cut.truncate(cut.len() - 3);
    let outcome = Sim::default().of_capture(&cut);
    assert_served(&outcome);
    assert_eq!(outcome.measured.account().processed, 2);
    let damage = outcome.damage.expect("the capture is cut");
    assert_eq!((damage.packets_before(), damage.offset()), (Some(2), Some(24 + 2 * 30)));
    assert!(!outcome.interrupted);
}

/// Gives this number of frames, and then ends abnormally.
struct Breaking(Box<dyn Source + Send>, u64, fn() -> Result<bool, TrafficError>);

impl Source for Breaking {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let Some(left) = self.1.checked_sub(1) else { return (self.2)() };
        self.1 = left;
        self.0.next(frame)
    }

    fn description(&self) -> &str {
        self.0.description()
    }
}

impl Breaking {
    /// Enough packets that a thread reads the last of them.
    const PACKETS: u64 = 50_000;

    fn after_many(end: fn() -> Result<bool, TrafficError>) -> Box<Self> {
        let endless = open("gen:poisson:packets=1000000000000,pps=900000", Seed(1)).expect("a profile");
        Box::new(Self(endless, Self::PACKETS, end))
    }
}

#[test]
fn damage_far_in_ends_arrivals_and_nothing_else() {
    let damaged = Breaking::after_many(|| Err(TrafficError::usage("damaged")));
    let outcome = Sim::default().with(damaged, &AtomicBool::new(false));
    assert_served(&outcome);
    assert_eq!(outcome.measured.account().arrived, Breaking::PACKETS);
    assert!(outcome.damage.is_some() && !outcome.interrupted);
    let undamaged = Sim { input: "gen:poisson:packets=50000,pps=900000", ..Sim::default() }.go();
    assert_eq!(outcome.measured.summary(), undamaged.measured.summary());
}

#[test]
#[should_panic(expected = "on purpose")]
fn a_panic_of_the_source_is_one_of_the_run() {
    let _ = Sim::default().with(Breaking::after_many(|| panic!("on purpose")), &AtomicBool::new(false));
}

#[test]
fn nothing_to_do_is_a_result() {
    let outcome = Sim { cores: 4, ..Sim::default() }.of_capture(&capture(&[]));
    let summary = outcome.measured.summary();
    assert_eq!((summary.duration_ns, summary.delay_ns.max, summary.late.fraction), (0, 0, 0.0));
    assert_eq!((summary.fairness.jain, summary.throughput_pps), (1.0, 0.0));
}
