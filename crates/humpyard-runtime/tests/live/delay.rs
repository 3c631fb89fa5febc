//! Delay counts from the time at which a packet was to arrive. If one packet stalls the run, the
//! delay of all that wait for it grows, whether they were read or not.

use core::time::Duration;
use std::thread::sleep;

use humpyard_core::frame::Frame;
use humpyard_runtime::Overload;
use humpyard_services::{Context, Factory, Generated, Service, Verdict};
use humpyard_traffic::pace::Pace;

use crate::support::Run;

/// Packets a second.
const RATE: f64 = 10_000.0;
/// The service time of one packet in the middle.
const STALL: Duration = Duration::from_millis(100);
/// Packets that arrive meanwhile.
const STALLED: u64 = 1_000;

/// Takes its time at one packet.
#[derive(Default)]
struct Stalling {
    packets: u64,
}

impl Service for Stalling {
    fn process(&mut self, _: &mut Frame, _: &Context, _: &mut Generated) -> Verdict {
        self.packets += 1;
        if self.packets == 500 {
            sleep(STALL);
        }
        Verdict::Forward
    }
}

#[test]
fn who_waits_for_a_stalled_worker_is_late_even_if_unread() {
    let rate = Some(Pace::PacketsPerSecond(RATE));
    let run = Run {
        input: "gen:messages:packets=3000",
        factory: Some(|| Factory::new("stalling", Stalling::default)),
        pace: rate,
        overload: Overload::Wait,
        ..Run::default()
    };
    // With room for all packets, so that they are read while the worker stalls. With room for few,
    // so that they are not. With a dispatcher that does the work itself, and stalls too.
    for (workers, packets, in_flight) in [(1, 4_096, 32), (1, 4, 1), (0, 4_096, 1)] {
        let (outcome, _) = Run { workers, packets, in_flight, ..run }.go();
        let summary = outcome.measured.summary();
        // Of the packets that came while it stalled, all but the last few waited for more than 2 ms.
        let expected = STALLED - STALLED * 2 / 100;
        assert!(summary.late.count >= expected, "{workers} {packets}: {:?}", summary.late);
        // A tenth of all packets are less than a third of the delayed ones.
        let least = STALL.as_nanos() as u64 * 6 / 10;
        assert!(summary.delay_ns.p90 >= least, "{workers} {packets}: {:?}", summary.delay_ns);
        assert!(summary.delay_ns.max >= STALL.as_nanos() as u64 * 99 / 100, "{:?}", summary.delay_ns);
    }
}
