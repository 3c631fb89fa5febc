//! What a machine adds to the work of packets.

use core::time::Duration;

use serde::Serialize;

use crate::costs::MachineCosts;
use crate::costs::taken::{Taken, ns};

/// The time that a machine adds to the work of packets.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Time that an engine needs to be handed a packet, beside the work, in ns.
    #[serde(rename = "hand_over_ns", serialize_with = "ns")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub hand_over: Duration,
    /// Number of packets that an engine has at a time, from 1.
    pub in_flight: u32,
    /// Bound on the time that other programs take from the engines.
    pub taken: Taken,
}

impl Machine {
    /// One that does nothing but the work.
    pub const IDEAL: Self = Self { hand_over: Duration::ZERO, in_flight: 1, taken: Taken::NOTHING };

    /// The machine that was measured, with one packet at a time. `margin` is the part of its time that is kept free: the greatest
    /// known part up to that counts, with the amount that the machine takes at once beside it.
    pub fn measured(machine: &MachineCosts, margin: f64) -> Self {
        let within = machine.taken.iter().filter(|taken| taken.part <= margin);
        let taken = within.max_by(|one, other| one.part.total_cmp(&other.part));
        Self {
            hand_over: Duration::from_nanos(machine.hand_over_ns.ceil() as u64),
            in_flight: 1,
            taken: taken.copied().unwrap_or(Taken::NOTHING),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_counts_as_far_as_it_is_kept_free() {
        let taken = [(0.0, 900), (0.05, 500), (0.2, 100)];
        let taken = taken.map(|(part, us)| Taken { part, at_once: Duration::from_micros(us) });
        let measured = MachineCosts { hand_over_ns: 1500.2, taken: taken.to_vec(), ..MachineCosts::default() };
        let machine = Machine::measured(&measured, 0.1);
        assert_eq!(machine, Machine { hand_over: Duration::from_nanos(1501), in_flight: 1, taken: taken[1] });
        let unknown = Machine::measured(&MachineCosts::default(), 0.1);
        assert_eq!(unknown, Machine::IDEAL);
    }
}
