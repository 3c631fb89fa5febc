//! The packets that come to a simulated machine, and when.

mod packets;
mod windows;

use humpyard_core::measure::Measured;
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;

pub use packets::{Feed, Packets};
pub use windows::Windows;

/// The packets of a simulation. A workload learns the fate of each packet, so that a packet may
/// come because another left.
///
/// Packets of [`Traffic`](crate::Simulation) come at their source's times. [`Packets`] come at
/// their arrival times, or as fast as they are taken. [`Windows`] keep a number of packets of each
/// flow under way.
pub trait Workload<S, Q, A> {
    /// Whether a packet may come because another was given to a core, at the same instant.
    const IS_CLOSED: bool;

    /// Returns when a packet comes, or an event happens to one that has left the cores;
    /// [`Time::MAX`] if that is not known.
    fn next_event(&self) -> Time;

    /// Writes the next packet that comes by now, or returns that there is none.
    ///
    /// # Errors
    /// The packet cannot be classified.
    fn next_packet(
        &mut self,
        now: Time,
        packet: &mut Packet,
        measured: &mut Measured<S, Q, A>,
    ) -> Result<bool, TrafficError>;

    /// Whether the run is over.
    fn is_over(&self, measured: &Measured<S, Q, A>) -> bool;

    /// A packet was dropped, on arrival or later.
    fn on_loss(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>);

    /// A packet has been through all its services.
    fn on_departure(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>);

    /// Does the work at the start of an instant.
    fn begin(&mut self, _now: Time) {}

    /// Does the work after the packets of an instant, and before cores get any.
    fn end(&mut self, _now: Time, _: &mut Measured<S, Q, A>) {}

    /// Returns the number of flows known by now; their tables may exceed the caches.
    fn known_flows(&self) -> u64 {
        0
    }

    /// Whether an event is still to come, possibly at the last possible instant.
    fn awaits(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use humpyard_core::config::SchedulerConfig;
    use humpyard_core::cost::Span;
    use humpyard_core::id::FlowId;
    use humpyard_core::measure::Measurements;
    use humpyard_core::mechanism::Dispatch;
    use humpyard_policies::registry::{AnyAllocate, AnyShare, AnySteer};
    use humpyard_policies::spec::PolicySpec;

    use super::*;
    use crate::{Driver, TimedCores};

    const BUSY: Time = Time::from_ns(10);

    /// Six packets, of two flows in turn.
    fn packets() -> Vec<Packet> {
        let arrivals = [0, 1, 2, 3, 4, 50].map(Time::from_ns);
        let packet = |(number, arrival): (u32, Time)| Packet { arrival, flow: FlowId(number % 2), ..Packet::default() };
        (0..).zip(arrivals).map(packet).collect()
    }

    /// When each packet came and when it was started, in ns, on two cores.
    fn times(policy: &str, workload: impl Workload<AnySteer, AnyShare, AnyAllocate>) -> Vec<(u64, u64)> {
        let config = SchedulerConfig { flows: 2, ..SchedulerConfig::new(2) };
        let scheduler = policy.parse::<PolicySpec>().unwrap().build(&config).unwrap();
        let mut times = Vec::new();
        let cores = TimedCores::new(2, |now: Time, _, dispatch: &Dispatch<&Packet>| {
            times.push((dispatch.packet.arrival.as_ns(), now.as_ns()));
            Span { finished: now + BUSY, busy: BUSY }
        });
        let measured = Measured::new(scheduler, Measurements::new(&config));
        Driver::new(measured, workload, cores).drive().unwrap();
        times
    }

    #[test]
    fn packets_come_as_they_are_fed() {
        let fed = |policy, feed| times(policy, Packets::new(packets(), feed));
        assert_eq!(fed("fcfs", Feed::Arrivals), [(0, 0), (1, 1), (2, 10), (3, 11), (4, 20), (50, 50)]);
        assert_eq!(fed("fcfs", Feed::AtOnce), [(0, 0), (0, 0), (0, 10), (0, 10), (0, 20), (0, 20)]);
        assert_eq!(fed("fcfs", Feed::Buffer(1)), [(0, 0), (0, 0), (0, 10), (10, 10), (10, 20), (20, 20)]);
        assert_eq!(fed("fcfs", Feed::Idle), [(0, 0), (0, 0), (10, 10), (10, 10), (20, 20), (20, 20)]);
        assert_eq!(fed("rr", Feed::Saturated(0)), [(0, 0), (10, 10), (20, 20), (30, 30), (40, 40), (50, 50)]);
    }

    #[test]
    fn windows_end_with_the_first_flow_that_has_nothing_to_come() {
        let started = |windows: &[u32]| times("fcfs", Windows::new(&packets(), windows));
        assert_eq!(started(&[1, 1]), [(0, 0), (0, 0), (10, 10), (10, 10), (20, 20), (20, 20)]);
        assert_eq!(started(&[2, 1]), [(0, 0), (0, 0), (0, 10), (10, 10)]);
    }
}
