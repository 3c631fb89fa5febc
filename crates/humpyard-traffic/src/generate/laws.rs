//! Probability laws of the models, besides those of [`Random`]: packets per flow, durations of silence.

use humpyard_core::name::{Named, unknown};
use humpyard_core::params;
use humpyard_core::policy::Params;
use humpyard_core::random::Random;

use crate::error::TrafficError;

/// Draws from the normal law with mean 0 and standard deviation 1 (Box and Muller).
pub(super) fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * libm::log(random.unit())).sqrt();
    radius * libm::cos(core::f64::consts::TAU * random.unit())
}

/// A law whose logarithm is normal.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogNormal {
    pub(super) median: f64,
    pub(super) sigma: f64,
}

impl LogNormal {
    pub(super) fn draw(&self, random: &mut Random) -> f64 {
        self.median * libm::exp(self.sigma * normal(random))
    }

    pub(super) fn mean(&self) -> f64 {
        self.median * libm::exp(self.sigma * self.sigma / 2.0)
    }

    /// Returns the length-biased law: that of the span that contains a random time.
    pub(super) fn biased(&self) -> Self {
        Self { median: self.median * libm::exp(self.sigma * self.sigma), sigma: self.sigma }
    }
}

/// The Pareto law between two limits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct BoundedPareto {
    pub(super) shape: f64,
    pub(super) minimum: f64,
    pub(super) maximum: f64,
}

impl BoundedPareto {
    /// Returns the law with this shape, maximum and mean; the mean must lie between 0 and the maximum.
    pub(super) fn with_mean(shape: f64, mean: f64, maximum: f64) -> Self {
        let of = |minimum| Self { shape, minimum, maximum };
        // The mean rises with the minimum, from 0 to the maximum.
        let (mut low, mut high) = (0.0, mean);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if of(middle).mean() < mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        of(high)
    }

    pub(super) fn mean(&self) -> f64 {
        let Self { shape, minimum, maximum } = *self;
        if minimum <= 0.0 {
            return 0.0;
        }
        if minimum >= maximum {
            return maximum;
        }
        let ratio = minimum / maximum;
        let whole = 1.0 - libm::pow(ratio, shape);
        if (shape - 1.0).abs() < 1e-9 {
            return -minimum * libm::log(ratio) / whole;
        }
        shape / (shape - 1.0) * minimum * (1.0 - libm::pow(ratio, shape - 1.0)) / whole
    }

    pub(super) fn draw(&self, random: &mut Random) -> f64 {
        random.bounded_pareto(self.shape, self.minimum, self.maximum)
    }

    /// Draws the remaining part of the span that contains a random time.
    pub(super) fn draw_residual(&self, random: &mut Random) -> f64 {
        // The length-biased law is a Pareto law with a tail exponent smaller by one.
        random.bounded_pareto(self.shape - 1.0, self.minimum, self.maximum) * random.unit()
    }
}

/// The law of packets per flow: at least 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum FlowSize {
    /// A constant number.
    Constant(u64),
    /// The flow ends after each packet with the same probability.
    Geometric { mean: f64 },
    /// A few flows have most of the packets.
    Pareto(BoundedPareto),
}

params! {
    /// Parameters of flows of one size.
    struct ConstantParams {
        /// Packets of a flow.
        packets: u64 = 10, in 1..=1_000_000_000, unit "packets";
    }
}

params! {
    /// Parameters of flows that end with the same probability after each packet.
    struct GeometricParams {
        /// Mean number of packets of a flow.
        mean: f64 = 10.0, in 1.0..=1_000_000.0, unit "packets";
    }
}

params! {
    /// Parameters of flows few of which have most of the packets.
    struct ParetoParams {
        /// Tail exponent.
        shape: f64 = 1.3, in 1.01..=5.0;
        /// Mean number of packets of a flow.
        mean: f64 = 10.0, in 1.0..=1_000_000.0, unit "packets";
        /// The most packets of a flow.
        max: f64 = 5_000.0, in 2.0..=1_000_000_000.0, unit "packets";
    }
}

impl FlowSize {
    /// Names of the laws that [`FlowSize::parse`] reads.
    pub(super) const NAMES: [&'static str; 3] = ["constant", "geometric", "pareto"];

    pub(super) fn pareto(shape: f64, mean: f64, maximum: f64) -> Self {
        Self::Pareto(BoundedPareto::with_mean(shape, mean, maximum))
    }

    /// Reads the law that `constant:packets=..`, `geometric:mean=..` or `pareto:shape=..,mean=..,max=..` names.
    pub(super) fn parse(text: &str) -> Result<Self, TrafficError> {
        let Named { name, parameters } = text.parse()?;
        Ok(match name.as_str() {
            "constant" => Self::Constant(ConstantParams::from_pairs(&name, &parameters)?.packets),
            "geometric" => Self::Geometric { mean: GeometricParams::from_pairs(&name, &parameters)?.mean },
            "pareto" => {
                let ParetoParams { shape, mean, max } = ParetoParams::from_pairs(&name, &parameters)?;
                if mean >= max {
                    return Err(TrafficError::usage(format!("pareto: `mean` is {mean}; it lies below `max`, {max}")));
                }
                Self::pareto(shape, mean, max)
            }
            _ => return Err(TrafficError::usage(unknown("law of flow sizes", &name, Self::NAMES))),
        })
    }

    pub(super) fn mean(&self) -> f64 {
        match self {
            Self::Constant(packets) => *packets as f64,
            Self::Geometric { mean } => *mean,
            Self::Pareto(law) => law.mean().max(1.0),
        }
    }

    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        match *self {
            Self::Constant(packets) => packets,
            Self::Geometric { mean } => geometric(mean, random),
            // Random rounding keeps the mean.
            Self::Pareto(law) => ((law.draw(random) + random.unit()) as u64).max(1),
        }
    }

    /// Draws the remaining packets of the flow of a random packet, this packet included.
    pub(super) fn draw_residual(&self, random: &mut Random) -> u64 {
        match *self {
            Self::Constant(packets) => 1 + random.below(packets),
            // The law has no memory.
            Self::Geometric { mean } => geometric(mean, random),
            Self::Pareto(law) => law.draw_residual(random) as u64 + 1,
        }
    }
}

fn geometric(mean: f64, random: &mut Random) -> u64 {
    if mean <= 1.0 {
        return 1;
    }
    1 + (libm::log(random.unit()) / libm::log(1.0 - 1.0 / mean)) as u64
}

#[cfg(test)]
mod tests {
    use humpyard_core::random::Seed;

    use super::*;

    fn mean_of(n: u32, mut draw: impl FnMut() -> f64) -> f64 {
        (0..n).map(|_| draw()).sum::<f64>() / f64::from(n)
    }

    #[test]
    fn laws_have_the_means_they_are_made_for() {
        let mut random = Seed(1).stream("test");
        for mean in [8.5, 9.6, 12.0, 200.0] {
            let law = FlowSize::pareto(1.3, mean, 5_000.0);
            assert!((law.mean() / mean - 1.0).abs() < 1e-9);
            let found = mean_of(1_000_000, || law.draw(&mut random) as f64);
            assert!((found / mean - 1.0).abs() < 0.03, "{found} {mean}");
        }
        let law = FlowSize::Geometric { mean: 10.0 };
        let found = mean_of(200_000, || law.draw(&mut random) as f64);
        assert!((found / 10.0 - 1.0).abs() < 0.02, "{found}");
        let law = LogNormal { median: 80.0, sigma: 0.8 };
        let found = mean_of(200_000, || law.draw(&mut random));
        assert!((found / law.mean() - 1.0).abs() < 0.02, "{found} {}", law.mean());
        assert!((law.mean() - 110.17).abs() < 0.1);
    }

    /// Compares with flows in sequence: the remaining packets from a random packet on.
    #[test]
    fn residuals_are_those_of_a_packet_in_the_midst() {
        let mut random = Seed(2).stream("test");
        for law in [FlowSize::Constant(7), FlowSize::Geometric { mean: 9.0 }, FlowSize::pareto(2.5, 12.0, 400.0)] {
            let (mut packets, mut sum) = (0.0, 0.0);
            for _ in 0..200_000 {
                let size = law.draw(&mut random) as f64;
                packets += size;
                sum += size * (size + 1.0) / 2.0;
            }
            let found = mean_of(200_000, || law.draw_residual(&mut random) as f64);
            assert!((found / (sum / packets) - 1.0).abs() < 0.05, "{law:?}: {found} {}", sum / packets);
        }
    }

    #[test]
    fn laws_are_read() {
        assert_eq!(FlowSize::parse("constant:packets=3").unwrap(), FlowSize::Constant(3));
        assert_eq!(FlowSize::parse("geometric").unwrap(), FlowSize::Geometric { mean: 10.0 });
        assert_eq!(FlowSize::parse("pareto:mean=8.5").unwrap(), FlowSize::pareto(1.3, 8.5, 5_000.0));
        for (text, expected) in [
            ("pareta", "no law of flow sizes `pareta`; did you mean `pareto`? There are: constant, geometric, pareto"),
            ("pareto:mean=9,max=8", "pareto: `mean` is 9; it lies below `max`, 8"),
            ("constant:packets=0", "constant: `packets` takes 1 to 1000000000 (in packets), not `0`"),
        ] {
            assert_eq!(FlowSize::parse(text).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_mean_near_the_maximum_is_met() {
        let law = BoundedPareto::with_mean(1.3, 4_999.0, 5_000.0);
        assert!((law.mean() - 4_999.0).abs() < 1e-6 && law.minimum < law.maximum);
    }
}
