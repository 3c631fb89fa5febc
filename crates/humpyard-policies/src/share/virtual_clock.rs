//! Virtual clock: serves the client whose next packet would be done first if each client had its
//! own line with its reserved rate.
//!
//! **Idea.** As in time division, each client has a clock. A packet advances it by the packet's
//! time at the client's rate. A client that sends more than its rate runs ahead of real time, and
//! is served later.
//!
//! **Source.** Zhang. VirtualClock: a new traffic control algorithm for packet switching networks. SIGCOMM 1990.
//! PROPORTIONAL_SHARE section 2.5.
//!
//! **Promises.** Work conserving. Not fair: a client pays later for its use of idle capacity.
//!
//! **Cost.** `pick` and the events O(log n) in the ready clients.
//!
//! **Invariants.** Exactly the clients whose head may be served are ready.
//!
//! **Departures.** Clocks are divided by the sum of the reserved weights: they are work per weight,
//! as all tags. Real time is the work done, or time at the rate of the cores while any client is in
//! the system. A new weight is a new reservation: from then on real time is divided by the new sum.
//! The estimate is charged at dispatch and corrected at completion.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{ClientId, CoreId, Id};
use humpyard_core::packet::Packet;
use humpyard_core::params;
use humpyard_core::policy::{Auto, Build, BuildError, Family, Info, Policy, Promise, Share};
use humpyard_core::unit::{Time, Weight, Work};

use super::finish_order::{FinishOrder, finish_handlers};
use super::tournament::Tournament;
use super::virtual_time::{Clock, VirtualTime};

params! {
    /// Parameters of virtual clock.
    pub struct VirtualClockParams {
        /// The source of real time: `wall` is time at the rate of the cores, `work` is the work
        /// that they do, `auto` is `wall` if the unit of work is time.
        clock: Clock = Clock::Work;
        /// Sum of the weights that have a rate reserved; `auto` is that of all clients there can be.
        total: Auto = Auto::Auto, unit "weight";
    }
}

/// Virtual clock.
#[derive(Debug)]
pub struct VirtualClock {
    /// Real time over the reserved weights.
    virtual_time: VirtualTime,
    /// The sum of the weights of all clients. `None`: a fixed sum is reserved.
    reserved: Option<u64>,
    /// Clients by the time of their clock after their head.
    order: FinishOrder<Tournament<ClientId>>,
}

impl Build for VirtualClock {
    type Params = VirtualClockParams;
    const INFO: Info = Info {
        name: "virtual-clock",
        family: Family::Share,
        summary: "the client whose clock, moved on by each packet at its reserved rate, shows the least; forgives nothing",
        source: "Zhang. VirtualClock. SIGCOMM 1990",
        promises: &[Promise::WorkConserving],
        complexity: "O(log n)",
    };
    const VARIANTS: &'static [&'static str] = &["clock=auto", "total=7"];

    fn new(params: &VirtualClockParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let all = || (0..config.clients).map(|id| u64::from(config.weight(ClientId::from_index(id)).get())).sum();
        let (total, reserved) = match params.total {
            Auto::Given(total) => (total, None),
            Auto::Auto => {
                let all = all();
                (all, Some(all))
            }
        };
        let virtual_time = VirtualTime::new(Self::INFO.name, params.clock, Some(total), config)?;
        Ok(Self { virtual_time, reserved, order: FinishOrder::new(config) })
    }
}

impl Policy for VirtualClock {
    fn check(&self) {
        self.virtual_time.check();
        self.order.check(self.virtual_time.busy());
    }
}

impl Share for VirtualClock {
    // Tags start at the virtual time of the arrival; heads are served by their finish tags.
    finish_handlers!();

    fn on_idle(&mut self, now: Time, id: ClientId) {
        self.virtual_time.leave(now, self.order.weight(id));
        self.order.idle(id);
    }

    fn set_weight(&mut self, now: Time, id: ClientId, weight: Weight) {
        let before = self.order.weight(id);
        if self.order.is_busy(id) {
            self.virtual_time.reweigh(now, before, weight);
        }
        if let Some(reserved) = &mut self.reserved {
            *reserved = *reserved - u64::from(before.get()) + u64::from(weight.get());
            self.virtual_time.elapse(now);
            self.virtual_time.share_among(*reserved);
        }
        self.order.set_weight(id, weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::testing::{
        A, B, Desk, V, after_ten_alone, churn_errors, sequence, unit_errors, unit_sequence, v_work,
    };
    use crate::testing::config;
    use alloc::string::ToString;

    const VIRTUAL_CLOCK: VirtualClockParams = VirtualClockParams { clock: Clock::Work, total: Auto::Auto };

    #[test]
    fn vectors_of_the_specification() {
        assert_eq!(unit_sequence::<VirtualClock>(&VIRTUAL_CLOCK, &A, 12), "121123121123");
        assert_eq!(unit_sequence::<VirtualClock>(&VIRTUAL_CLOCK, &B, 48), "111123114561123111123456".repeat(2));
        assert_eq!(unit_errors::<VirtualClock>(&VIRTUAL_CLOCK, &B, 24), (-22, 60), "-11/12 to 5/2 of 24");
        assert_eq!(sequence::<VirtualClock>(&VIRTUAL_CLOCK, &V, 14, 10, v_work), "11212131121213");
    }

    /// PROPORTIONAL_SHARE section 2.5: a client that was alone for ten quanta then waits for five.
    #[test]
    fn use_of_idle_capacity_is_punished() {
        assert_eq!(after_ten_alone::<VirtualClock>(&VIRTUAL_CLOCK, 11), "22222121212");
    }

    /// PROPORTIONAL_SHARE section 5.5: [-11, 8.4]; twice that is accepted, over 5,000 quanta. There
    /// is no bound: errors grow with time.
    #[test]
    fn clients_that_come_and_go() {
        let (least, greatest) = churn_errors::<VirtualClock>(&VIRTUAL_CLOCK, 1, 5000);
        assert!(-22.0 <= least && greatest <= 16.8, "{least} to {greatest}");
        let longer = churn_errors::<VirtualClock>(&VIRTUAL_CLOCK, 1, 100_000);
        assert!(longer.0 < 2.0 * least && 2.0 * greatest < longer.1, "{longer:?} after {least} to {greatest}");
    }

    /// A reservation of three quarters, and one of nine tenths.
    #[test]
    fn a_new_weight_is_a_new_reservation() {
        let mut desk = Desk::<VirtualClock>::new(&VIRTUAL_CLOCK, &[3, 1]);
        desk.wake(&[1, 2]);
        assert_eq!(desk.serve(8), "11121112");
        desk.set_weight(1, 9);
        assert_eq!(desk.serve(20), "1111111112".repeat(2));
    }

    #[test]
    fn a_total_is_positive_and_can_be_counted_with() {
        let refused = |total| {
            let params = VirtualClockParams { total: Auto::Given(total), ..VIRTUAL_CLOCK };
            VirtualClock::new(&params, &config(1, 1, &[])).unwrap_err().to_string()
        };
        assert_eq!(
            refused(1 << 60),
            "virtual-clock: `total` must be at most 4503599627370496, not 1152921504606846976"
        );
    }
}
