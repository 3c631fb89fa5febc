//! What came of the link behind the cores.

use std::collections::BTreeMap;

use humpyard_core::link::LinkOutcome;
use humpyard_core::measure::Delay;
use humpyard_core::mechanism::DropReason;
use serde::Serialize;

use crate::choice::link::LinkChoice;

/// Packets at the link behind the cores. `in = sent + held + sum(dropped)`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkResult {
    /// Rate of the link, in bits per second.
    pub rate_bps: u64,
    /// Sharing policy of the link.
    pub policy: String,
    /// Packets that reached the link.
    #[serde(rename = "in")]
    pub arrived: u64,
    /// Packets that the link sent.
    pub sent: u64,
    /// Packets that were still at the link at the end.
    pub held: u64,
    /// Packets that the link dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Bytes that the link sent.
    pub bytes: u64,
    /// Fraction of the time, from 0 to 1, during which the link was sending.
    pub utilization: f64,
    /// Delay of packets at the link in ns, from completion at the cores to departure from the link.
    pub delay_ns: Delay,
    /// Delay of packets in ns, from arrival in the run to departure from the link.
    pub in_all_ns: Delay,
    /// Delay of packets in ns, from arrival in the run to departure from the link, by service: the
    /// last of the chain. Services without packets are left out.
    pub services: BTreeMap<String, Delay>,
    /// The most packets of one client that waited at the link at once.
    pub queue_max: u32,
    /// Number of times that the cores stopped serving a client, because too many of its packets
    /// waited at the link.
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
