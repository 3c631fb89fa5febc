//! The baseline of benchmarks of sharing policies, the loop without a policy, and the clock.

use std::time::Duration;

use humpyard_core::id::{ClientId, CoreId};
use humpyard_core::packet::Packet;
use humpyard_core::policy::{Policy, Share};
use humpyard_core::unit::{Time, Weight};
use nix::time::{ClockId, clock_gettime};

/// The policy that takes no time: it serves clients in the order of visits.
pub(crate) struct Nothing<'a> {
    order: &'a [ClientId],
    next: usize,
}

impl<'a> Nothing<'a> {
    /// Creates a policy that serves clients in this order.
    pub(crate) fn new(order: &'a [ClientId]) -> Self {
        Self { order, next: 0 }
    }
}

impl Policy for Nothing<'_> {}

impl Share for Nothing<'_> {
    fn on_wake(&mut self, _: Time, _: ClientId, _: &Packet) {}
    fn on_head(&mut self, _: Time, _: ClientId, _: &Packet) {}
    fn pick(&mut self, _: Time, _: CoreId) -> Option<ClientId> {
        Some(self.order[self.next])
    }
    fn on_dispatch(&mut self, _: Time, _: CoreId, _: ClientId, _: &Packet) {
        self.next = if self.next + 1 < self.order.len() { self.next + 1 } else { 0 };
    }
    fn on_idle(&mut self, _: Time, _: ClientId) {}
    fn on_client_end(&mut self, _: Time, _: ClientId) {}
    fn set_weight(&mut self, _: Time, _: ClientId, _: Weight) {}
}

/// Returns the processor time of this thread.
pub(crate) fn thread_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("threads have a clock").into()
}
