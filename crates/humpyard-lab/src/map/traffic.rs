//! What a rule may look at: figures of the traffic, the cores and the host that are known before any policy runs.

use std::collections::HashMap;

use humpyard_core::frame::Frame;
use humpyard_traffic::header::{FlowKey, Headers};
use humpyard_traffic::source::Source;
use serde::Serialize;

use crate::LabError;
use crate::config::RunConfig;
use crate::parts::classifier;
use crate::parts::demand::PacketWork;
use crate::parts::setup::source;

/// Packets of an input that are looked at.
pub(super) const LOOKED_AT: usize = 30_000;

/// A figure that a rule may look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Feature {
    LargestFlow,
    FlowsPerCore,
    Variation,
    Load,
    Services,
    Cores,
    Dispatcher,
}

/// How many there are.
const FEATURES_COUNT: usize = 7;

impl Feature {
    /// All of them, in the order of [`Features`].
    pub(super) const ALL: [Self; FEATURES_COUNT] = [
        Self::LargestFlow,
        Self::FlowsPerCore,
        Self::Variation,
        Self::Load,
        Self::Services,
        Self::Cores,
        Self::Dispatcher,
    ];

    /// Says that it is at most this, for people.
    pub(super) fn at_most(self, threshold: f64) -> String {
        let number = short(threshold);
        match self {
            Self::LargestFlow => {
                format!("your largest flow carries at most {} % of a core's work", short(threshold * 100.0))
            }
            Self::FlowsPerCore => format!("there are at most {number} flows a core"),
            Self::Variation => {
                format!("the squared coefficient of variation of the service times is at most {number}")
            }
            Self::Load => format!("the load is at most {number}"),
            Self::Services => format!("there are at most {number} services"),
            Self::Cores => format!("there are at most {number} cores"),
            Self::Dispatcher => "the host has no dispatcher".to_owned(),
        }
    }
}

/// Rounds a number to three digits.
pub(super) fn rounded(number: f64) -> f64 {
    format!("{number:.2e}").parse().unwrap_or(number)
}

/// Writes a number with three digits.
pub(super) fn short(number: f64) -> String {
    rounded(number).to_string()
}

/// The figures of a cell, in the order of [`Feature::ALL`].
pub(crate) type Features = [f64; FEATURES_COUNT];

/// What packets ask for, whatever the load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct TrafficFigures {
    /// Part of all work that is of the flow with most.
    largest: f64,
    flows: usize,
    /// Squared coefficient of variation of service times.
    variation: f64,
    services: usize,
}

impl TrafficFigures {
    /// Reads the first packets of an input.
    ///
    /// # Errors
    /// An input that cannot be read, and costs that are missing.
    pub(super) fn read(config: &RunConfig) -> Result<Self, LabError> {
        Self::of(config, &mut *source(config)?)
    }

    /// Reads the first packets of a source.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub(crate) fn of(config: &RunConfig, source: &mut dyn Source) -> Result<Self, LabError> {
        let (costs, mut classifier) = (PacketWork::new(config)?, classifier(config)?);
        let (mut frame, mut headers) = (Frame::default(), Headers::default());
        let mut flows: HashMap<FlowKey, u128> = HashMap::new();
        let (mut packets, mut sum, mut squares) = (0, 0, 0_u128);
        while packets < LOOKED_AT && source.next_headers(&mut frame, config.tunnels, &mut headers)? {
            let packet = classifier.classify_headers(&headers, frame.wire_length)?.packet;
            classifier.release(&packet);
            let work = costs.of(&packet).0;
            *flows.entry(headers.key).or_default() += work;
            packets += 1;
            sum += work;
            squares += work * work;
        }
        let largest = flows.values().max().copied().unwrap_or_default();
        let mean = sum as f64 / packets.max(1) as f64;
        let variation = squares as f64 / packets.max(1) as f64 / (mean * mean).max(1.0) - 1.0;
        Ok(Self {
            largest: largest as f64 / sum.max(1) as f64,
            flows: flows.len(),
            variation: variation.max(0.0),
            services: config.services.len(),
        })
    }

    /// Returns the figures of a cell.
    pub(crate) fn features(self, load: f64, cores: usize, has_dispatcher: bool) -> Features {
        let count = cores as f64;
        let dispatcher = if has_dispatcher { 1.0 } else { 0.0 };
        let flows = self.flows as f64 / count;
        [self.largest * load * count, flows, self.variation, load, self.services as f64, count, dispatcher]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::host::Host;

    fn figures(input: &str) -> TrafficFigures {
        let mut config = RunConfig::new(Host::Sim, input, "hrw".parse().expect("a policy"));
        config.costs = "table:predictive".parse().expect("a table");
        TrafficFigures::read(&config).expect("packets")
    }

    #[test]
    fn the_largest_flow_is_an_elephant() {
        let found = figures("gen:messages:packets=20000,elephant=0.25,elephants=1");
        let [largest, flows, variation, load, services, cores, dispatcher] = found.features(0.8, 4, true);
        // `forward` takes as long for every packet: a quarter of 3.2 cores.
        assert!((largest - 0.8).abs() < 0.05, "{largest}");
        assert!(flows > 100.0 && variation < 1e-9, "{found:?}");
        assert_eq!((load, services, cores, dispatcher), (0.8, 1.0, 4.0, 1.0));
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!((short(0.42368), short(64.0), short(65_536.0)), ("0.424".into(), "64".into(), "65500".into()));
    }
}
