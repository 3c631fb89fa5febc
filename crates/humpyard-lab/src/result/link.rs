//! What came of the link behind the cores.

use std::collections::BTreeMap;

use humpyard_core::link::LinkOutcome;
use humpyard_core::measure::Delay;
use humpyard_core::mechanism::DropReason;
use serde::Serialize;

use crate::choice::link::LinkChoice;

/// What came of the link behind the cores. `in = sent + held + sum(dropped)`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkResult {
    /// Bits per second.
    pub rate_bps: u64,
    /// Its sharing policy.
    pub policy: String,
    /// Packets that came there from the cores.
    #[serde(rename = "in")]
    pub arrived: u64,
    /// Packets that left.
    pub sent: u64,
    /// Packets that were still there at the end.
    pub held: u64,
    /// Packets dropped there, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Bytes that left.
    pub bytes: u64,
    /// The part of the time in which it was sending.
    pub utilization: f64,
    /// From being done at the cores to having left.
    pub delay_ns: Delay,
    /// From coming in to having left.
    pub in_all_ns: Delay,
    /// The same by service, the last of its chain; those that had packets.
    pub services: BTreeMap<String, Delay>,
    /// Most packets of one client that waited there.
    pub queue_max: u32,
    /// How often a client was withheld from the cores.
    pub withheld: u64,
}

impl LinkResult {
    /// What came of the link of a run, if it had one.
    pub(crate) fn found(choice: Option<&LinkChoice>, outcome: Option<&LinkOutcome>) -> Option<Self> {
        choice.zip(outcome).map(|(choice, outcome)| Self::of(choice, outcome))
    }

    fn of(choice: &LinkChoice, outcome: &LinkOutcome) -> Self {
        let (account, summary) = (&outcome.account, &outcome.summary);
        let dropped = DropReason::ALL.into_iter().map(|reason| (reason.name(), account.dropped(reason)));
        Self {
            rate_bps: choice.rate_bps,
            policy: choice.share.to_string(),
            arrived: account.arrived,
            sent: account.processed,
            held: account.held,
            dropped: dropped.filter(|&(_, count)| count > 0).collect(),
            bytes: summary.bytes,
            utilization: summary.cores_detail.first().map_or(0.0, |core| core.utilization),
            delay_ns: summary.delay_ns,
            in_all_ns: Delay::of(&outcome.in_all),
            services: summary
                .services
                .iter()
                .zip(outcome.in_all_of.iter())
                .filter(|(_, delay)| delay.count() > 0)
                .map(|(service, delay)| (service.name.clone(), Delay::of(delay)))
                .collect(),
            queue_max: outcome.waiting_max,
            withheld: outcome.withheld,
        }
    }
}
