//! The figures of an interface as they stand, in the document of a live run: `/metrics` and `humpyard top` know it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use humpyard_traffic::steer_record::{HeavyFlow, SteerSample};
use humpyard_wire::FLOW_SAMPLE;

use crate::LabError;
use crate::metrics::{Core, Endpoint, KernelFigures, PacketsBy, Serving, Snapshot, TopFlow};

/// Why the kernel drops packets that steering has to do with: too many wait for a processor.
const BACKLOG: &str = "backlog";

/// What came by an interface so far. Copies count together.
#[derive(Clone, Debug)]
pub struct LiveFigures(Arc<Mutex<Figures>>);

#[derive(Debug)]
struct Figures {
    snapshot: Snapshot,
    packets_by: PacketsBy,
    /// Packets that have come since flows were named.
    since_flows: u64,
}

impl LiveFigures {
    /// Returns the figures of an interface before its first sample. `policy` is what steers it; `now`: nothing does.
    pub fn new(input: &str, policy: &str, packets_by: PacketsBy) -> Self {
        let snapshot = Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process: std::process::id(),
            policy: policy.to_owned(),
            input: input.to_owned(),
            output: "kernel".to_owned(),
            kernel: Some(KernelFigures { packets_by, order: false }),
            ..Snapshot::default()
        };
        Self(Arc::new(Mutex::new(Figures { snapshot, packets_by, since_flows: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sample. `processor_of` is by bucket where its packets went; without it, they stayed on the processor that
    /// took them.
    pub fn add(&self, sample: &SteerSample, processor_of: Option<&[u32]>) {
        let mut locked = self.lock();
        let Figures { snapshot: figures, packets_by, since_flows } = &mut *locked;
        figures.elapsed_ns = sample.time_ns;
        for found in &sample.buckets {
            let processor = processor_of.map_or(found.processor, |all| all[found.bucket as usize]);
            core(figures, processor).packets += found.packets;
            figures.packets.arrived += found.packets;
            *since_flows += found.packets;
            figures.bytes += found.bytes;
        }
        // A socket has the number of no processor.
        if *packets_by != PacketsBy::Socket {
            for found in &sample.processors {
                core(figures, found.processor).busy_ns += found.softirq_ns + found.system_ns;
            }
        }
        figures.kernel = Some(KernelFigures { packets_by: *packets_by, order: sample.handed.is_some() });
        // The kernel counts drops of all interfaces together.
        let (missing, overtaken) = sample.handed.map_or((0, 0), |handed| (handed.missing, handed.overtaken));
        let dropped = sample.processors.iter().map(|one| one.dropped).sum::<u64>() + missing;
        figures.out_of_order += overtaken;
        let arrived = figures.packets.arrived;
        let all = figures.packets.dropped.entry(BACKLOG.to_owned()).or_default();
        *all = (*all + dropped).min(arrived);
        figures.packets.processed = arrived - *all;
        if !sample.flows.is_empty() {
            figures.top_flows = top(&sample.flows, *since_flows);
            let packets: u64 = sample.flows.iter().map(|flow| flow.packets).sum();
            figures.flows_sampled = (packets / FLOW_SAMPLE) as usize;
            *since_flows = 0;
        }
    }

    /// Sets how often a bucket went to another processor so far.
    pub fn set_moves(&self, moves: u64) {
        self.lock().snapshot.bucket_moves = Some(moves);
    }

    /// Serves them, until what this gives is dropped.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn serve(&self, endpoint: Endpoint) -> Result<Serving, LabError> {
        let figures = self.clone();
        endpoint.serve_snapshots(move || Ok(figures.lock().snapshot.clone()))
    }
}

fn core(figures: &mut Snapshot, processor: u32) -> &mut Core {
    let processor = processor as usize;
    if figures.cores.len() <= processor {
        figures.cores.resize_with(processor + 1, Core::default);
    }
    &mut figures.cores[processor]
}

/// The flows of a sample by their part of the `arrived` packets that came since flows were named before.
fn top(flows: &[HeavyFlow], arrived: u64) -> Vec<TopFlow> {
    // What is estimated may be more than what came.
    let all: u64 = flows.iter().map(|flow| flow.packets).sum::<u64>().max(arrived);
    let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
    flows.iter().for_each(|flow| *parts.entry(&flow.flow).or_default() += flow.packets);
    let mut top: Vec<TopFlow> = parts
        .into_iter()
        .map(|(flow, packets)| TopFlow { flow: flow.to_owned(), fraction: packets as f64 / all.max(1) as f64 })
        .collect();
    top.sort_by(|one, other| other.fraction.total_cmp(&one.fraction));
    top
}

#[cfg(test)]
mod tests {
    use humpyard_traffic::steer_record::{BucketSample, ProcessorSample};

    use super::*;

    #[test]
    fn packets_count_for_the_processor_that_they_went_to() {
        let processor = |processor, dropped| ProcessorSample {
            processor,
            softirq_ns: 30,
            system_ns: 20,
            user_ns: 0,
            idle_ns: 50,
            packets: 9,
            dropped,
        };
        let flow = |flow: &str, packets| HeavyFlow { flow: flow.into(), protocol: 6, port: 1, packets, bytes: 0 };
        let sample = SteerSample {
            time_ns: 100,
            buckets: vec![
                BucketSample { bucket: 0, processor: 0, packets: 6, bytes: 600 },
                BucketSample { bucket: 1, processor: 0, packets: 4, bytes: 400 },
            ],
            processors: vec![processor(0, 1), processor(1, 0)],
            flows: vec![flow("a > b", 10), flow("c > d", 30)],
            ..SteerSample::default()
        };
        let [stay, steered] = [None, Some(&[0, 1][..])].map(|table| {
            let figures = LiveFigures::new("eth0", "now", PacketsBy::ReceivingProcessor);
            figures.add(&sample, table);
            figures.add(&SteerSample { flows: Vec::new(), ..sample.clone() }, table);
            figures.lock().snapshot.clone()
        });
        let packets = |figures: &Snapshot| figures.cores.iter().map(|core| core.packets).collect::<Vec<_>>();
        assert_eq!((packets(&stay), packets(&steered)), (vec![20, 0], vec![12, 8]));
        assert_eq!((steered.packets.arrived, steered.packets.processed, steered.bytes), (20, 18, 2000));
        assert_eq!((steered.packets.dropped[BACKLOG], steered.cores[1].busy_ns), (2, 100));
        assert_eq!((steered.top_flows[0].flow.as_str(), steered.top_flows[0].fraction), ("c > d", 0.75));
        let readers = LiveFigures::new("fanout:lb.o", "rss++", PacketsBy::Socket);
        readers.add(&sample, Some(&[0, 1]));
        let readers = readers.lock().snapshot.clone();
        assert_eq!((packets(&readers), readers.cores[0].busy_ns), (vec![6, 4], 0), "processors are no sockets");
    }

    #[test]
    fn a_flow_has_its_part_of_all_packets() {
        let flow = |packets| HeavyFlow { flow: "a > b".into(), protocol: 6, port: 1, packets, bytes: 0 };
        let figures = LiveFigures::new("eth0", "now", PacketsBy::ReceivingProcessor);
        let buckets = vec![BucketSample { bucket: 0, processor: 0, packets: 100, bytes: 600 }];
        figures.add(&SteerSample { buckets: buckets.clone(), ..SteerSample::default() }, None);
        figures.add(&SteerSample { buckets: buckets.clone(), flows: vec![flow(50)], ..SteerSample::default() }, None);
        assert_eq!(figures.lock().snapshot.top_flows[0].fraction, 0.25);
        figures.add(&SteerSample { buckets, flows: vec![flow(120)], ..SteerSample::default() }, None);
        assert_eq!(figures.lock().snapshot.top_flows[0].fraction, 1.0);
    }
}
