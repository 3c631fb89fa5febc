//! Order and jitter of flows.

use super::summary::{OrderSummary, fraction};
use crate::id::{FlowId, IdVec};
use crate::unit::Time;

/// The state of one flow.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// The highest sequence number that has departed, plus one; 0 before the first departure.
    departed: u64,
    last_departure: Time,
    /// Times between departures, in ns: their number, their sum, and the sum of their squares. A
    /// sum of squares is at most the square of the longest possible time.
    gaps: u64,
    gap_sum: u64,
    gap_squared: u128,
}

/// A flow with fewer gaps has no meaningful jitter.
const GAPS_MIN: u64 = 3;

/// Counts packets that left after a later packet of their flow. Also measures how far packets were
/// moved, and how evenly flows leave.
#[derive(Debug)]
pub struct Order {
    flows: IdVec<FlowId, Flow>,
    dispatched: u64,
    /// Dispatched packets that are measured.
    displaced: u64,
    departed: u64,
    out_of_order: u64,
    displacement: i64,
    displacement_squared: u128,
    jitter_sum: f64,
    jitter_flows: u64,
}

impl Order {
    /// Returns measurements of the flow ids below `flows`.
    pub fn new(flows: usize) -> Self {
        Self {
            flows: IdVec::from_fn(flows, |_| Flow::default()),
            dispatched: 0,
            displaced: 0,
            departed: 0,
            out_of_order: 0,
            displacement: 0,
            displacement_squared: 0,
            jitter_sum: 0.0,
            jitter_flows: 0,
        }
    }

    /// Records that the packet with this sequence number starts. A packet that is not measured
    /// still takes its rank.
    #[inline(always)]
    pub fn on_dispatch(&mut self, sequence: u64, measured: bool) {
        let moved = self.dispatched as i64 - sequence as i64;
        self.dispatched += 1;
        if !measured {
            return;
        }
        self.displaced += 1;
        self.displacement += moved;
        self.displacement_squared += u128::from(moved.unsigned_abs()) * u128::from(moved.unsigned_abs());
    }

    /// Records that the packet with this sequence number is done.
    #[inline(always)]
    pub fn on_departure(&mut self, flow: FlowId, sequence: u64, now: Time) {
        let flow = &mut self.flows[flow];
        self.departed += 1;
        if flow.departed > 0 {
            self.out_of_order += u64::from(sequence < flow.departed);
            flow.add_gap(now.since(flow.last_departure).as_ns());
        }
        flow.departed = flow.departed.max(sequence + 1);
        flow.last_departure = now;
    }

    /// Ends a flow.
    pub fn on_flow_end(&mut self, flow: FlowId) {
        let flow = core::mem::take(&mut self.flows[flow]);
        if let Some(jitter) = flow.jitter() {
            self.jitter_sum += jitter;
            self.jitter_flows += 1;
        }
    }

    /// Returns the packets of this flow that have left so far.
    pub(super) fn departures(&self, flow: FlowId) -> u64 {
        let flow = &self.flows[flow];
        // The first has no gap before it.
        flow.gaps + u64::from(flow.departed > 0)
    }

    /// Returns the packets so far that left after a later packet of their flow.
    pub(super) fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// Sums up several of these, each of its own flows.
    pub(super) fn sum<'a>(several: impl Iterator<Item = &'a Self>) -> Self {
        let mut sum = Self::new(0);
        for one in several {
            let (jitter_sum, jitter_flows) = one.jitters();
            sum.dispatched += one.dispatched;
            sum.displaced += one.displaced;
            sum.departed += one.departed;
            sum.out_of_order += one.out_of_order;
            sum.displacement += one.displacement;
            sum.displacement_squared += one.displacement_squared;
            sum.jitter_sum += jitter_sum;
            sum.jitter_flows += jitter_flows;
        }
        sum
    }

    pub(super) fn summary(&self) -> OrderSummary {
        let n = self.displaced.max(1) as f64;
        let mean = self.displacement as f64 / n;
        let variance = self.displacement_squared as f64 / n - mean * mean;
        OrderSummary {
            promised: "free",
            out_of_order: self.out_of_order,
            fraction: fraction(self.out_of_order, self.departed),
            displacement_std: libm::sqrt(variance.max(0.0)),
        }
    }

    /// Mean over the flows of the standard deviation of the time between their departures, in ns.
    pub(super) fn jitter_ns(&self) -> f64 {
        let (sum, flows) = self.jitters();
        if flows == 0 { 0.0 } else { sum / flows as f64 }
    }

    /// Returns the sum of the jitters of all flows, ended or not, and their number.
    fn jitters(&self) -> (f64, u64) {
        let known = self.flows.iter().filter_map(Flow::jitter);
        known.fold((self.jitter_sum, self.jitter_flows), |(sum, flows), jitter| (sum + jitter, flows + 1))
    }
}

impl Flow {
    fn add_gap(&mut self, gap: u64) {
        self.gaps += 1;
        self.gap_sum += gap;
        self.gap_squared += u128::from(gap) * u128::from(gap);
    }

    /// The standard deviation of the gaps.
    fn jitter(&self) -> Option<f64> {
        let mean = self.gap_sum as f64 / self.gaps as f64;
        let variance = || self.gap_squared as f64 / self.gaps as f64 - mean * mean;
        (self.gaps >= GAPS_MIN).then(|| libm::sqrt(variance().max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: FlowId = FlowId(0);
    const G: FlowId = FlowId(1);

    #[test]
    fn late_packets_of_a_flow_are_out_of_order() {
        let mut order = Order::new(2);
        for (flow, sequence, time) in [(F, 1, 10), (F, 0, 20), (G, 2, 30), (F, 4, 40), (F, 3, 50)] {
            order.on_departure(flow, sequence, Time::from_ns(time));
        }
        assert_eq!(order.summary().out_of_order, 2);
        assert_eq!((order.departures(F), order.departures(G)), (4, 1));
        assert_eq!(order.summary().fraction, 0.4);
    }

    #[test]
    fn displacement_is_the_spread_of_start_rank_minus_arrival_rank() {
        let mut order = Order::new(1);
        [1, 0, 2, 3].into_iter().for_each(|sequence| order.on_dispatch(sequence, true));
        assert_eq!(order.summary().displacement_std, (2.0f64 / 4.0).sqrt());
    }

    #[test]
    fn jitter_is_the_spread_of_gaps_of_flows_with_three_or_more() {
        let mut order = Order::new(2);
        for (time, sequence) in [0, 10, 30, 40].into_iter().zip(0..) {
            order.on_departure(F, sequence, Time::from_ns(time));
        }
        order.on_departure(G, 9, Time::from_ns(100));
        // Gaps 10, 20, 10: variance 200/9.
        assert!((order.jitter_ns() - (200.0f64 / 9.0).sqrt()).abs() < 1e-12);
        order.on_flow_end(F);
        assert!((order.jitter_ns() - (200.0f64 / 9.0).sqrt()).abs() < 1e-12, "an ended flow still counts");
    }
}
