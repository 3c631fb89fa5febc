//! Least squares: for each service, a straight line in the packet length, fitted to the measured
//! work of past packets.
//!
//! **Idea.** Processing time has a fixed part and a part per byte. Each packet that a warm core
//! completes adds one point; a factor reduces the weight of older points.
//!
//! **Source.** EFQ and LAP paper, section 3 (equations 2 and 3), with the missing 1/n of equation
//! **Source.** EFQ and LAP paper, section 3 (equations 2 and 3). Equation 3 lacks 1/n, which is
//! added here. The sums are in centred form, because plain sums lose the slope to rounding after
//! some hundred thousand packets.
//! **Promises.** The result equals weighted least squares over all points. Neither part is
//! negative. If all packets had one length, the estimate at that length is their mean.
//!
//! **Cost.** O(1) time and memory per service.
//!
//! **Invariants.** From a packet on a cold core the estimator learns the cost of coldness only.
//!
//! With `group`, a unit adds one point when its last part is done. The estimator assumes that the
//! first part bears the fixed cost and that the parts of a flow complete in order. Services
//! distinguish kinds of units, such as types of frames.
//!
//! **Departures.** Until packets of two lengths were seen, the slope is the table's. Until the
//! first packet, the whole line is the table's.

use humpyard_core::config::SchedulerConfig;
use humpyard_core::cost::LinearCost;
use humpyard_core::id::{FlowId, IdVec, ServiceId};
use humpyard_core::packet::{Packet, Part};
use humpyard_core::params;
use humpyard_core::policy::{Build, BuildError, Estimate, Family, Info, Policy};
use humpyard_core::unit::Work;

params! {
    /// Parameters of least squares.
    pub struct LeastSquaresParams {
        /// The factor by which the weight of a point falls with each later point; 1 keeps all
        /// weights.
        forgetting: f64 = 0.999, in 0.5..=1.0;
        /// Whether the packets of a longer unit, such as a frame of a film, are one point together.
        /// The line is then over the length of whole units.
        group: bool = false;
    }
}

/// The weight of a new observation in the average of the cold cost.
const COLD_GAIN: f64 = 1.0 / 16.0;

/// The points of one service, as moments about their means.
#[derive(Clone, Copy, Debug)]
struct Line {
    table: LinearCost,
    /// Weight of the points (n).
    points: f64,
    /// Mean length (ml) and mean work (mt).
    length: f64,
    work: f64,
    /// Sums of products about the means (Cll, Clt, Ctt).
    length_length: f64,
    length_work: f64,
    work_work: f64,
    /// The work that a cold core adds (pi).
    cold: f64,
}

impl Line {
    fn new(table: LinearCost) -> Self {
        Self {
            table,
            points: 0.0,
            length: 0.0,
            work: 0.0,
            length_length: 0.0,
            length_work: 0.0,
            work_work: 0.0,
            cold: table.cold as f64,
        }
    }

    fn learn(&mut self, forgetting: f64, length: f64, work: f64) {
        self.points = forgetting * self.points + 1.0;
        // One division is the main cost of this function.
        let part = 1.0 / self.points;
        let (from_length, from_work) = (length - self.length, work - self.work);
        self.length += from_length * part;
        self.work += from_work * part;
        self.length_length = forgetting * self.length_length + from_length * (length - self.length);
        self.length_work = forgetting * self.length_work + from_length * (work - self.work);
        self.work_work = forgetting * self.work_work + from_work * (work - self.work);
    }

    fn learn_cold(&mut self, length: f64, work: f64) {
        let added = (work - self.at(length)).max(0.0);
        self.cold += COLD_GAIN * (added - self.cold);
    }

    /// Whether the lengths of the points differ by more than rounding.
    fn has_slope(&self) -> bool {
        self.length_length > 1e-9 * self.points * (self.length * self.length).max(1.0)
    }

    /// Returns the fixed part and the part per byte.
    fn parts(&self) -> (f64, f64) {
        if self.points == 0.0 {
            return (self.table.fixed as f64, self.table.per_byte_milli as f64 / 1000.0);
        }
        if !self.has_slope() {
            let per_byte = self.table.per_byte_milli as f64 / 1000.0;
            return (self.work - per_byte * self.length, per_byte);
        }
        let per_byte = (self.length_work / self.length_length).max(0.0);
        ((self.work - per_byte * self.length).max(0.0), per_byte)
    }

    fn at(&self, length: f64) -> f64 {
        let (fixed, per_byte) = self.parts();
        fixed + per_byte * length
    }

    fn variance(&self) -> f64 {
        if self.points == 0.0 {
            return 0.0;
        }
        let (_, per_byte) = self.parts();
        (self.work_work - per_byte * self.length_work).max(0.0) / self.points
    }
}

/// The parts of a unit that are done so far.
#[derive(Clone, Copy, Debug, Default)]
struct Unit {
    length: u64,
    work: Work,
    /// Whether the core was cold for at least one of these parts.
    cold: bool,
}

/// Lines fitted to the measured work of packets.
#[derive(Clone, Debug)]
pub struct LeastSquares {
    forgetting: f64,
    lines: IdVec<ServiceId, Line>,
    /// The current unit of each flow; empty unless `group` is set.
    units: IdVec<FlowId, Unit>,
}

impl LeastSquares {
    /// Returns the estimate of the work that a cold core adds to a packet of this service.
    pub fn cold(&self, service: ServiceId) -> Work {
        self.lines[service].cold as Work
    }

    #[inline]
    fn learn(&mut self, service: ServiceId, length: u64, used: Work, cold: bool) {
        let (length, work) = (length as f64, used as f64);
        let line = &mut self.lines[service];
        if cold {
            line.learn_cold(length, work);
        } else {
            line.learn(self.forgetting, length, work);
        }
    }

    /// Returns the variance of the work of a service's packets about its line.
    pub fn variance(&self, service: ServiceId) -> f64 {
        self.lines[service].variance()
    }
}

impl Build for LeastSquares {
    type Params = LeastSquaresParams;
    const INFO: Info = Info {
        name: "least-squares",
        family: Family::Estimate,
        summary: "a straight line in the length, per service, learned from what packets did cost",
        source: "EFQ and LAP paper, section 3",
        promises: &[],
        complexity: "O(1)",
    };

    fn new(params: &LeastSquaresParams, config: &SchedulerConfig) -> Result<Self, BuildError> {
        let lines = config.estimates.iter().map(|&table| Line::new(table)).collect();
        let flows = if params.group { config.flows } else { 0 };
        Ok(Self { forgetting: params.forgetting, lines, units: IdVec::from_fn(flows, |_| Unit::default()) })
    }
}

impl Policy for LeastSquares {
    fn check(&self) {
        for line in &self.lines {
            let (fixed, per_byte) = line.parts();
            assert!(fixed.is_finite() && per_byte >= 0.0 && line.cold >= 0.0, "{line:?}");
        }
    }
}

impl Estimate for LeastSquares {
    #[inline]
    fn estimate(&self, packet: &Packet) -> Work {
        let length = f64::from(packet.length);
        let line = &self.lines[packet.service];
        let is_later_part = matches!(packet.part, Part::Middle | Part::Last) && self.units.get(packet.flow).is_some();
        let work = if is_later_part { line.parts().1 * length } else { line.at(length) };
        // Rounds to the nearest integer; the cast turns negative values into 0.
        ((work + 0.5) as Work).max(1)
    }

    #[inline]
    fn on_completion(&mut self, packet: &Packet, used: Work, cold: bool) {
        if packet.part == Part::Whole || self.units.get(packet.flow).is_none() {
            self.learn(packet.service, u64::from(packet.length), used, cold);
            return;
        }
        let unit = &mut self.units[packet.flow];
        if packet.part == Part::First {
            *unit = Unit::default();
        }
        unit.length += u64::from(packet.length);
        unit.work += used;
        unit.cold |= cold;
        if packet.part == Part::Last {
            let Unit { length, work, cold } = core::mem::take(unit);
            self.learn(packet.service, length, work, cold);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;
    use alloc::vec::Vec;
    use humpyard_core::random::Seed;

    fn estimator(forgetting: f64) -> LeastSquares {
        LeastSquares::new(&LeastSquaresParams { forgetting, ..LeastSquaresParams::default() }, &config(1, 1, &[]))
            .unwrap()
    }

    fn packet(length: u32) -> Packet {
        Packet { length, ..Packet::default() }
    }

    /// Returns points with lengths of 40 to 1,500 bytes, whose work differs from a line by up to `noise`.
    fn points(count: usize, fixed: f64, per_byte: f64, noise: f64) -> Vec<(u32, f64)> {
        let mut random = Seed(3).stream("points");
        let mut point = || {
            let length = 40 + random.below(1461) as u32;
            let off = (random.below(2001) as f64 / 1000.0 - 1.0) * noise;
            (length, fixed + per_byte * f64::from(length) + off)
        };
        (0..count).map(|_| point()).collect()
    }

    /// PREDICTIVE section 2: ordinary least squares by its definition, with the sums in order.
    fn batch(points: &[(u32, f64)], forgetting: f64) -> (f64, f64) {
        let mut sums = [0.0; 5];
        let mut weight = 1.0;
        for &(length, work) in points.iter().rev() {
            let length = f64::from(length);
            for (sum, term) in sums.iter_mut().zip([1.0, length, work, length * length, length * work]) {
                *sum += weight * term;
            }
            weight *= forgetting;
        }
        let [n, l, t, ll, lt] = sums;
        let per_byte = (lt - l * t / n) / (ll - l * l / n);
        ((t - per_byte * l) / n, per_byte)
    }

    fn learned(forgetting: f64, points: &[(u32, f64)]) -> Line {
        let mut line = Line::new(LinearCost::BYTES);
        points.iter().for_each(|&(length, work)| line.learn(forgetting, f64::from(length), work));
        line
    }

    #[test]
    fn equals_batch_least_squares() {
        let points = points(1000, 320.0, 1.3, 50.0);
        for forgetting in [1.0, 0.99, 0.999] {
            let (expected, found) = (batch(&points, forgetting), learned(forgetting, &points).parts());
            assert!((found.0 / expected.0 - 1.0).abs() < 1e-9, "{found:?}, not {expected:?}");
            assert!((found.1 / expected.1 - 1.0).abs() < 1e-9, "{found:?}, not {expected:?}");
        }
    }

    /// PREDICTIVE section 2: after the jump from (320, 1.3) to (400, 2.0), a thousand packets are enough.
    #[test]
    fn recovers_from_a_jump() {
        let mut line = learned(0.99, &points(2000, 320.0, 1.3, 0.0));
        points(1000, 400.0, 2.0, 0.0).iter().for_each(|&(length, work)| line.learn(0.99, f64::from(length), work));
        let (fixed, per_byte) = line.parts();
        assert!((fixed - 400.0).abs() < 0.1 && (per_byte - 2.0).abs() < 0.01, "({fixed}, {per_byte})");
    }

    #[test]
    fn keeps_the_slope_over_many_packets_of_nearly_one_length() {
        let mut line = Line::new(LinearCost::BYTES);
        let mut random = Seed(4).stream("points");
        for _ in 0..200_000 {
            let length = 1400.0 + random.below(101) as f64;
            line.learn(1.0, length, 320.0 + 1.3 * length);
        }
        let (fixed, per_byte) = line.parts();
        assert!((per_byte - 1.3).abs() < 1e-9 && (fixed - 320.0).abs() < 1e-6, "({fixed}, {per_byte})");
    }

    #[test]
    fn one_length_gives_its_mean() {
        let mut estimator = estimator(1.0);
        [900, 1100, 1300].into_iter().for_each(|work| estimator.on_completion(&packet(500), work, false));
        assert_eq!(estimator.estimate(&packet(500)), 1100);
        // The slope is the table's, one unit per byte, until a packet of another length was seen.
        assert_eq!(estimator.estimate(&packet(600)), 1200);
        estimator.check();
    }

    #[test]
    fn the_table_holds_until_something_is_seen() {
        assert_eq!(estimator(1.0).estimate(&packet(64)), 64);
    }

    #[test]
    fn parts_are_never_negative() {
        let mut estimator = estimator(1.0);
        for (length, work) in [(100, 1000), (1000, 100), (1500, 1)] {
            estimator.on_completion(&packet(length), work, false);
            estimator.check();
        }
        assert_eq!(
            estimator.estimate(&packet(100)),
            estimator.estimate(&packet(1500)),
            "a falling line is a level one"
        );
    }

    #[test]
    fn cold_packets_teach_only_what_cold_costs() {
        let mut estimator = estimator(1.0);
        estimator.on_completion(&packet(100), 100, false);
        for _ in 0..200 {
            estimator.on_completion(&packet(100), 350, true);
        }
        assert_eq!(estimator.estimate(&packet(100)), 100);
        assert!((249..=250).contains(&estimator.cold(ServiceId(0))), "{}", estimator.cold(ServiceId(0)));
    }

    #[test]
    fn the_variance_is_that_of_the_noise() {
        let line = learned(1.0, &points(20_000, 320.0, 1.3, 60.0));
        // Uniform over ±60: 60² / 3.
        assert!((line.variance() / 1200.0 - 1.0).abs() < 0.05, "{}", line.variance());
    }

    /// Frames of 1 to 20 packets; the first packet of each takes 900 more. One line describes whole frames.
    #[test]
    fn parts_of_a_unit_are_one_point() {
        let params = LeastSquaresParams { forgetting: 1.0, group: true };
        let mut grouped = LeastSquares::new(&params, &config(1, 2, &[])).unwrap();
        let mut single = estimator(1.0);
        let mut random = Seed(5).stream("frames");
        let part =
            |flow: u32, length: u32, part: Part| Packet { flow: FlowId(flow), length, part, ..Packet::default() };
        for _ in 0..500 {
            // Two flows interleave.
            let packets = [2 + random.below(19), 2 + random.below(19)];
            for number in 0..20 {
                for flow in 0..2u32 {
                    let last = packets[flow as usize] - 1;
                    let kind = match number {
                        0 => Part::First,
                        number if number == last => Part::Last,
                        number if number < last => Part::Middle,
                        _ => continue,
                    };
                    let packet = part(flow, 100 + random.below(1400) as u32, kind);
                    let used = 2 * u64::from(packet.length) + if number == 0 { 900 } else { 0 };
                    grouped.on_completion(&packet, used, false);
                    single.on_completion(&packet, used, false);
                    grouped.check();
                }
            }
        }
        let of = |estimator: &LeastSquares| {
            [Part::First, Part::Middle, Part::Last].map(|kind| estimator.estimate(&part(0, 1000, kind)))
        };
        assert_eq!(of(&grouped), [2900, 2000, 2000]);
        assert!(of(&single).iter().all(|&estimate| estimate > 2030 && estimate < 2200), "{:?}", of(&single));
    }

    /// A unit with a cold part changes the cold cost only.
    #[test]
    fn a_unit_with_a_cold_part_is_cold() {
        let params = LeastSquaresParams { forgetting: 1.0, group: true };
        let mut grouped = LeastSquares::new(&params, &config(1, 1, &[])).unwrap();
        for cold in [false, true] {
            for part in [Part::First, Part::Last] {
                let packet = Packet { length: 100, part, ..Packet::default() };
                grouped.on_completion(
                    &packet,
                    if cold && part == Part::First { 260 } else { 100 },
                    cold && part == Part::First,
                );
            }
        }
        assert_eq!((grouped.lines[ServiceId(0)].points, grouped.cold(ServiceId(0))), (1.0, 10));
    }
}
