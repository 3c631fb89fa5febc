//! The estimated cost of a packet.

use core::fmt::Debug;

use ambassador::delegatable_trait;

use super::Policy;
use crate::packet::Packet;
use crate::unit::Work;

/// An estimator of work, owned by the mechanism. The mechanism stamps every packet with the
/// estimate, for all policies and for the view of the cores.
#[delegatable_trait]
pub trait Estimate: Policy + Debug {
    /// The work that a warm core is believed to need for this packet, in the unit of the run, at least 1.
    fn estimate(&self, packet: &Packet) -> Work;

    /// The packet took `used` work. `cold`: the core's previous packet had another service.
    fn on_completion(&mut self, _packet: &Packet, _used: Work, _cold: bool) {}
}
