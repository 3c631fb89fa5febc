//! A policy's description of itself.

use serde::Serialize;

/// The decision that a policy makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Which queue an arriving packet joins.
    Steer,
    /// Which client an idle core serves.
    Share,
    /// Which service a core works for.
    Allocate,
    /// The estimated cost of a packet.
    Estimate,
}

impl Family {
    /// The name on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steer => "steer",
            Self::Share => "share",
            Self::Allocate => "allocate",
            Self::Estimate => "estimate",
        }
    }
}

/// A property that holds for every history; tests check that the policy keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// No core that may serve a waiting packet is idle.
    WorkConserving,
    /// The packets of a flow leave in the order in which they came, while the cores stay the same.
    FlowOrder,
    /// When a core goes, only its own flows move; when one comes, flows move only to it.
    MinimalDisruption,
    /// How far the service of clients strays from their weights, as a formula.
    Fair(&'static str),
    /// Each service has its guaranteed cores, whatever the other services do.
    Isolation,
    /// Every client with waiting packets is served eventually.
    Served,
}

impl Promise {
    /// The promise in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::WorkConserving => "work conserving",
            Self::FlowOrder => "flow order",
            Self::MinimalDisruption => "minimal disruption",
            Self::Fair(bound) => bound,
            Self::Isolation => "isolation",
            Self::Served => "all are served",
        }
    }
}

impl Serialize for Promise {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

/// A policy's description of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Info {
    /// Its name on the command line.
    pub name: &'static str,
    /// The family of decisions that it makes.
    pub family: Family,
    /// A summary in one sentence.
    pub summary: &'static str,
    /// The publication that it comes from.
    pub source: &'static str,
    /// The properties that it promises.
    pub promises: &'static [Promise],
    /// Cost of a decision as clients (n) and cores (N) grow.
    pub complexity: &'static str,
}
