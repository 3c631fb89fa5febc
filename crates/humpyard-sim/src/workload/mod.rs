//! Which packets come to a simulated machine, and when.

mod packets;
mod windows;

use humpyard_core::measure::Measured;
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_traffic::TrafficError;

pub use packets::{Feed, Packets};
pub use windows::Windows;

/// The packets of a simulation. It hears what becomes of each of them, so that the next may come because another left.
///
/// [`Traffic`](crate::Simulation) comes when its source says; [`Packets`] come when they arrive, or as fast as they are taken;
/// [`Windows`] keep so many packets of each flow under way.
pub trait Workload<S, Q, A> {
    /// Whether a packet may come because another was given to a core, at the same instant.
    const IS_CLOSED: bool;

    /// When a packet comes, or something happens to one that has left the cores; [`Time::MAX`] if that is not known.
    fn next_event(&self) -> Time;

    /// Writes the next packet that comes by now, or says that there is none.
    ///
    /// # Errors
    /// If it cannot be classified.
    fn next_packet(
        &mut self,
        now: Time,
        packet: &mut Packet,
        measured: &mut Measured<S, Q, A>,
    ) -> Result<bool, TrafficError>;

    /// Whether the run is over.
    fn is_over(&self, measured: &Measured<S, Q, A>) -> bool;

    /// A packet was dropped, as it arrived or later.
    fn on_loss(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>);

    /// A packet has been through all its services.
    fn on_departure(&mut self, now: Time, packet: &Packet, measured: &mut Measured<S, Q, A>);

    /// Does what comes first at an instant.
    fn begin(&mut self, _now: Time) {}

    /// Does what comes after the packets of an instant, and before cores get any.
    fn end(&mut self, _now: Time, _: &mut Measured<S, Q, A>) {}

    /// Whether something is to come, be it at the last instant that there is.
    fn awaits(&self) -> bool {
        false
    }
}
