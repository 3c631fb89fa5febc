//! Who asks for the work of an input: its clients, and the flow with most of it.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{HashMap, HashSet};

use humpyard_core::frame::Frame;
use humpyard_core::id::{ClientId, Id};
use humpyard_traffic::header::{FlowKey, Headers};
use humpyard_traffic::source::Source;
use serde::Serialize;

use super::division::Piece;
use crate::LabError;
use crate::config::RunConfig;
use crate::offered::Offered;
use crate::parts::classifier;
use crate::parts::demand::PacketWork;
use crate::recorded::Recorded;

/// The flow with most work.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElephantFlow {
    /// Protocol, addresses and ports of the flow.
    pub flow: String,
    /// Number of packets of the flow.
    pub packets: u64,
    /// Work of the flow as a fraction of the work of all flows, from 0 to 1.
    pub work_fraction: f64,
    /// Number of cores that the flow alone keeps busy at the requested rate. `None`: all packets
    /// come at once.
    pub cores: Option<f64>,
    /// Multiple of the traffic at which the flow alone keeps one core busy. `None`: all packets
    /// come at once, or the flow has no work.
    pub fills_core_at: Option<f64>,
}

/// What is known of the packets of an input.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    /// The client of each packet, by number.
    clients: Vec<u32>,
    /// How many clients there are.
    pub(super) clients_count: usize,
    heaviest: Option<(FlowKey, FlowWork)>,
    /// Work of all packets, in ns.
    work: u128,
}

/// What a flow asks for.
#[derive(Clone, Copy, Default, Debug)]
struct FlowWork {
    work: u128,
    packets: u64,
    /// The number of its first packet.
    first: usize,
}

impl Workload {
    /// Reads the packets of an input, until `stop` is set.
    ///
    /// # Errors
    /// A configuration without classifier or costs, and more flows at once than there may be.
    pub(super) fn read(config: &RunConfig, recorded: &Recorded, stop: &AtomicBool) -> Result<Self, LabError> {
        let (costs, mut classifier) = (PacketWork::new(config)?, classifier(config)?);
        let mut source = recorded.whole();
        let (mut frame, mut headers) = (Frame::default(), Headers::default());
        let mut flows: HashMap<FlowKey, FlowWork> = HashMap::new();
        let mut clients = Vec::with_capacity(recorded.len());
        while source.next_headers(&mut frame, config.tunnels, &mut headers)? && !stop.load(Ordering::Relaxed) {
            let packet = classifier.classify_headers(&headers, frame.wire_length)?.packet;
            classifier.release(&packet);
            let flow = flows.entry(headers.key).or_insert(FlowWork { first: clients.len(), ..FlowWork::default() });
            flow.work += costs.of(&packet).0;
            flow.packets += 1;
            clients.push(packet.client.0);
        }
        let work = flows.values().map(|flow| flow.work).sum();
        let heaviest = flows.into_iter().max_by_key(|(_, flow)| (flow.work, core::cmp::Reverse(flow.first)));
        let clients_count = clients.iter().max().map_or(0, |&most| most as usize + 1);
        Ok(Self { clients, clients_count, heaviest, work })
    }

    /// Returns the flow with most work, where this is offered.
    pub(super) fn heaviest(&self, offered: &Offered) -> Option<ElephantFlow> {
        let (key, flow) = self.heaviest.as_ref()?;
        let work_fraction = if self.work == 0 { 0.0 } else { flow.work as f64 / self.work as f64 };
        let cores = offered.load.map(|load| work_fraction * load.value * load.cores as f64);
        Some(ElephantFlow {
            flow: key.to_string(),
            packets: flow.packets,
            work_fraction,
            cores,
            fills_core_at: cores.filter(|cores| *cores > 0.0).map(f64::recip),
        })
    }

    /// Returns the number that a client has where only a part of the input is played, for clients are numbered in order of
    /// appearance. `None`: none of its packets is there.
    pub(super) fn client_in(&self, client: ClientId, piece: &Piece) -> Option<ClientId> {
        let mut seen = HashSet::new();
        let played =
            piece.ranges.iter().cloned().flat_map(|range: Range<usize>| self.clients.get(range).unwrap_or(&[]));
        for &other in played {
            if other == client.0 {
                return Some(ClientId::from_index(seen.len()));
            }
            seen.insert(other);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::host::Host;
    use crate::choice::rate::Rate;
    use crate::control::Control;
    use crate::offered::OfferedLoad;

    fn workload(input: &str) -> Workload {
        let mut config = RunConfig::new(Host::Sim, input, "hrw".parse().expect("a policy"));
        config.rate = Rate::Trace;
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
        let recorded = Recorded::read(&config, 10_000, &mut Control::new(&stop, &mut progress)).expect("packets");
        Workload::read(&config, &recorded, &stop).expect("a workload")
    }

    #[test]
    fn the_heaviest_flow_has_most_work() {
        let workload = workload("gen:poisson:flows=4,packets=1k");
        assert_eq!(workload.clients_count, 4);
        let load = Some(OfferedLoad { value: 0.5, cores: 4 });
        let heaviest = workload.heaviest(&Offered { load, ..Offered::default() }).expect("a flow");
        assert!((0.25..0.4).contains(&heaviest.work_fraction), "{heaviest:?}");
        let cores = heaviest.cores.expect("a load");
        assert!((cores - 2.0 * heaviest.work_fraction).abs() < 1e-12);
        assert_eq!(heaviest.fills_core_at, Some(1.0 / cores));
        assert_eq!(workload.heaviest(&Offered::default()).expect("a flow").fills_core_at, None);
    }

    #[test]
    fn a_client_has_another_number_in_a_part() {
        let workload = Workload { clients: vec![0, 1, 0, 2, 1], clients_count: 3, heaviest: None, work: 0 };
        let piece = |ranges: &[Range<usize>]| Piece { ranges: ranges.to_vec(), weight: 1.0 };
        let number = |client, ranges: &[Range<usize>]| workload.client_in(ClientId(client), &piece(ranges));
        assert_eq!(number(1, &[0..3, 3..5]), Some(ClientId(1)));
        assert_eq!(number(1, &[2..3, 3..5]), Some(ClientId(2)));
        assert_eq!(number(2, &[0..1, 3..4]), Some(ClientId(1)));
        assert_eq!(number(1, &[2..3, 3..4]), None);
    }
}
