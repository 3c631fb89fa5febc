//! The simulator, given what each packet took live, has the throughput and the utilization of the
//! live run.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

use humpyard_sim::Timing;
use humpyard_traffic::pace::{Pace, Pacer};

use super::recorder::{Observed, Recorder};
use crate::RunConfig;
use crate::choice::host::Host;
use crate::choice::rate::Rate;
use crate::choice::service::ServiceChoice;
use crate::control::Control;
use crate::recorded::Recorded;
use crate::run::{Feed, run_live, simulated};

/// More packets than the run has.
const PACKETS: usize = 10_000;

/// The figures of a run live, and of the simulation of what it took.
fn figures(workers: usize, policy: &str) -> [Observed; 2] {
    let mut config = RunConfig::new(Host::Live, "gen:imix:packets=4k", policy.parse().unwrap());
    config.rate = Rate::PacketsPerSecond(100_000.0);
    config.cores = workers;
    (config.services, config.chains) = ServiceChoice::parse_all(&["encrypt"]).unwrap();
    let (stop, mut progress) = (AtomicBool::new(false), |_, _| ());
    let mut control = Control::new(&stop, &mut progress);
    let recorded = Recorded::read(&config, PACKETS as u64, &mut control).unwrap();
    let live = Recorder::new(workers, PACKETS);
    control.observer = Some(Box::new(live.clone()));
    assert_eq!(run_live(&config, &mut control).unwrap().packets.processed, 4_000);
    let record = live.record();
    let arriving = recorded.arriving(&record.reached);
    let simulation = RunConfig {
        host: Host::Sim,
        cores: workers.max(1),
        rate: Rate::Trace,
        hand_over: Some(Duration::ZERO),
        ..config.clone()
    };
    let simulator = Recorder::new(workers, PACKETS);
    control.observer = Some(Box::new(simulator.clone()));
    let timing = Timing::default().with_measured(Some(record.times.clone()));
    simulated(&simulation, &mut control, |_| {
        let pacer = Pacer::new(Pace::Trace).with_long_gaps();
        Ok(Feed { pacer, source: Box::new(arriving.whole()), timing })
    })
    .unwrap();
    let simulated = simulator.record().observed();
    [record.observed(), simulated]
}

#[test]
fn the_same_packets_make_the_same_work() {
    for (workers, policy) in [(0, "hrw"), (0, "fcfs"), (1, "hrw"), (1, "fcfs")] {
        let [live, simulated] = figures(workers, policy);
        let of = |live: f64, simulated: f64| (simulated / live - 1.0).abs();
        assert!(of(live.throughput_pps, simulated.throughput_pps) < 0.1, "{workers} {policy}: {live:?} {simulated:?}");
        assert!(of(live.utilization, simulated.utilization) < 0.1, "{workers} {policy}: {live:?} {simulated:?}");
    }
}
