//! What became of each packet of a run, in columns, for programs that want more than figures.

use core::mem;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use humpyard_core::id::{CoreId, Id, QueueId, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, DropReason, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;

/// Rows of a chunk: what grows is a list of chunks, so that no column is copied.
const CHUNK: usize = 1 << 16;

/// Where a packet has no core, queue or time.
pub const NOWHERE: u16 = u16::MAX;
/// As [`NOWHERE`], for times.
pub const NEVER: u64 = u64::MAX;

/// What became of packets that came one after the other. Times are ns of the run's clock.
#[derive(Clone, Debug, Default)]
pub struct PacketChunk {
    /// When each arrived.
    pub arrival: Vec<u64>,
    /// Its flow. A flow that ends gives its number to another.
    pub flow: Vec<u32>,
    /// Its client.
    pub client: Vec<u32>,
    /// Its first service.
    pub service: Vec<u16>,
    /// Its length on the wire, in bytes.
    pub length: Vec<u32>,
    /// The queue in which it waited last; [`NOWHERE`]: it left no queue.
    pub queue: Vec<u16>,
    /// The core that served it last; [`NOWHERE`]: none did.
    pub core: Vec<u16>,
    /// When its first service began; [`NEVER`]: it was not served.
    pub start: Vec<u64>,
    /// When its last service ended; [`NEVER`]: it was not served.
    pub end: Vec<u64>,
    /// When it left: later than `end` where it waited for earlier packets of its flow; [`NEVER`]: it did not.
    pub left: Vec<u64>,
    /// Its fate: an index into [`FATES`].
    pub fate: Vec<u8>,
}

/// What may become of a packet.
pub const FATES: [&str; 6] = ["held", "served", "buffer_full", "queue_full", "client_full", "pushed_out"];

const HELD: u8 = 0;
const SERVED: u8 = 1;

fn dropped_fate(reason: DropReason) -> u8 {
    let name = reason.name();
    FATES.iter().position(|fate| *fate == name).map_or(HELD, |fate| fate as u8)
}

/// A time in which a core did one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreSpan {
    /// The core.
    pub core: u16,
    /// When it began, in ns.
    pub start: u64,
    /// When it ended, in ns.
    pub end: u64,
    /// The service of the packet, or to which the core went over.
    pub service: u16,
    /// The row of the packet. `None`: the core went over to another service.
    pub packet: Option<u64>,
}

/// What became of each packet, and when cores went over to other services.
#[derive(Debug, Default)]
pub struct PacketRecord {
    /// The packets, in the order in which they came.
    pub chunks: Vec<PacketChunk>,
    /// What cores did beside serving each packet once: services of packets that go through several, turns of
    /// packets that had several, and switches.
    pub spans: Vec<CoreSpan>,
    /// Whether packets go through several services: then `spans` has all of their services.
    pub has_chains: bool,
    /// The row of the packet in each slot.
    rows: Vec<u64>,
    /// The rows of packets that wait for earlier ones of their flows, by number among the accepted.
    leaving: HashMap<u64, u64>,
    /// When something happened last.
    now: u64,
    /// The span of each core that goes over to another service.
    switching: HashMap<u16, usize>,
}

impl PacketRecord {
    /// Returns how many packets there are.
    pub fn packets(&self) -> u64 {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        (full + self.chunks.last().map_or(0, |last| last.arrival.len())) as u64
    }

    fn push(&mut self, packet: &Packet, fate: u8) -> u64 {
        if self.chunks.last().is_none_or(|last| last.arrival.len() == CHUNK) {
            self.chunks.push(PacketChunk::with_capacity());
        }
        let row = self.packets();
        let chunk = self.chunks.last_mut().expect("there is one");
        chunk.arrival.push(packet.arrival.as_ns());
        chunk.flow.push(packet.flow.0);
        chunk.client.push(packet.client.0);
        chunk.service.push(packet.service.0);
        chunk.length.push(packet.length);
        chunk.queue.push(NOWHERE);
        chunk.core.push(NOWHERE);
        for times in [&mut chunk.start, &mut chunk.end, &mut chunk.left] {
            times.push(NEVER);
        }
        chunk.fate.push(fate);
        row
    }

    /// The chunk of a row, and its place there.
    fn at(&mut self, row: u64) -> (&mut PacketChunk, usize) {
        (&mut self.chunks[row as usize / CHUNK], row as usize % CHUNK)
    }

    fn row_of(&self, slot: Slot) -> u64 {
        self.rows[slot.index()]
    }

    fn on_completion(&mut self, core: CoreId, slot: Slot, completed: &Completed, finished: Time, busy: Time) {
        let row = self.row_of(slot);
        let (start, end) = (finished.as_ns().saturating_sub(busy.as_ns()), finished.as_ns());
        self.now = end;
        let is_over = completed.onward.is_none();
        let has_chains = self.has_chains;
        let (chunk, at) = self.at(row);
        let had_turn = chunk.start[at] < start && !has_chains;
        chunk.core[at] = core.0;
        chunk.start[at] = chunk.start[at].min(start);
        chunk.end[at] = end;
        if is_over {
            chunk.fate[at] = SERVED;
            chunk.left[at] = end;
        }
        if completed.exit.is_some() {
            self.leaving.insert(completed.packet.sequence, row);
        }
        if has_chains || had_turn {
            let service = completed.packet.service.0;
            self.spans.push(CoreSpan { core: core.0, start, end, service, packet: Some(row) });
        }
    }
}

impl PacketChunk {
    fn with_capacity() -> Self {
        Self {
            arrival: Vec::with_capacity(CHUNK),
            flow: Vec::with_capacity(CHUNK),
            client: Vec::with_capacity(CHUNK),
            service: Vec::with_capacity(CHUNK),
            length: Vec::with_capacity(CHUNK),
            queue: Vec::with_capacity(CHUNK),
            core: Vec::with_capacity(CHUNK),
            start: Vec::with_capacity(CHUNK),
            end: Vec::with_capacity(CHUNK),
            left: Vec::with_capacity(CHUNK),
            fate: Vec::with_capacity(CHUNK),
        }
    }
}

/// Records a run: an observer, of which this side keeps a handle.
#[derive(Clone, Debug)]
pub struct PacketRecorder {
    record: Arc<Mutex<PacketRecord>>,
}

impl PacketRecorder {
    /// Returns a recorder for a run; `has_chains` says whether packets may go through several services.
    pub fn new(has_chains: bool) -> Self {
        Self { record: Arc::new(Mutex::new(PacketRecord { has_chains, ..PacketRecord::default() })) }
    }

    /// Takes what was recorded.
    pub fn take(&self) -> PacketRecord {
        mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, PacketRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for PacketRecorder {
    fn on_arrival(&mut self, now: Time, packet: &Packet, arrival: Arrival) {
        let mut record = self.lock();
        record.now = now.as_ns();
        match arrival {
            Arrival::Dropped(reason) => {
                record.push(packet, dropped_fate(reason));
            }
            Arrival::Queued(slot) => {
                let row = record.push(packet, HELD);
                if record.rows.len() <= slot.index() {
                    record.rows.resize(slot.index() + 1, 0);
                }
                record.rows[slot.index()] = row;
            }
        }
    }

    fn on_unqueue(&mut self, slot: Slot, queue: QueueId) {
        let mut record = self.lock();
        let row = record.row_of(slot);
        let (chunk, at) = record.at(row);
        chunk.queue[at] = queue.0;
    }

    fn on_dispatch(&mut self, now: Time, _: CoreId, _: &Dispatch) {
        self.lock().now = now.as_ns();
    }

    fn on_completion(&mut self, core: CoreId, slot: Slot, completed: &Completed, finished: Time, busy: Time) {
        self.lock().on_completion(core, slot, completed, finished, busy);
    }

    fn on_preemption(&mut self, now: Time, core: CoreId, slot: Slot, packet: &Packet, busy: Time) {
        let mut record = self.lock();
        let row = record.row_of(slot);
        let (start, end) = (now.since(busy).as_ns(), now.as_ns());
        record.now = end;
        record.spans.push(CoreSpan { core: core.0, start, end, service: packet.service.0, packet: Some(row) });
        let (chunk, at) = record.at(row);
        chunk.start[at] = chunk.start[at].min(start);
    }

    fn on_departure(&mut self, now: Time, packet: &Packet) {
        let mut record = self.lock();
        if let Some(row) = record.leaving.remove(&packet.sequence) {
            let (chunk, at) = record.at(row);
            chunk.left[at] = now.as_ns();
        }
    }

    fn on_drop(&mut self, dropped: &Dropped) {
        let mut record = self.lock();
        let row = record.row_of(dropped.slot);
        let (chunk, at) = record.at(row);
        chunk.fate[at] = dropped_fate(dropped.reason);
    }

    fn on_switch(&mut self, switch: &Switch) {
        let mut record = self.lock();
        let (core, start) = (switch.core.0, record.now);
        // A run may end before the switch does.
        let end = start.saturating_add(switch.cost.as_ns());
        let span = record.spans.len();
        record.spans.push(CoreSpan { core, start, end, service: switch.to.0, packet: None });
        record.switching.insert(core, span);
    }

    fn on_switched(&mut self, now: Time, core: CoreId) {
        let mut record = self.lock();
        record.now = now.as_ns();
        if let Some(span) = record.switching.remove(&core.0) {
            record.spans[span].end = now.as_ns();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::{Control, Host, RunConfig, RunResult, simulate};

    fn recorded(policy: &str, change: impl FnOnce(&mut RunConfig)) -> (RunResult, PacketRecord) {
        let input = "gen:poisson:packets=100000,flows=50,pps=2000000";
        let mut config = RunConfig::new(Host::Sim, input, policy.parse().expect("a policy"));
        change(&mut config);
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
        let mut control = Control::new(&stop, &mut progress);
        let recorder = PacketRecorder::new(!config.chains.is_empty());
        control.observer = Some(Box::new(recorder.clone()));
        let result = simulate(&config, &mut control).expect("a run");
        (result, recorder.take())
    }

    fn all<T: Copy>(record: &PacketRecord, column: impl Fn(&PacketChunk) -> &Vec<T>) -> Vec<T> {
        record.chunks.iter().flat_map(|chunk| column(chunk).clone()).collect()
    }

    #[test]
    fn every_packet_has_a_row_and_the_rows_have_the_figures_of_the_run() {
        for policy in ["drr", "hrw", "sprayer", "everest"] {
            let (result, record) = recorded(policy, |config| (config.cores, config.buffer) = (4, 200));
            assert_eq!(record.packets(), result.packets.arrived, "{policy}");
            let fates = all(&record, |chunk| &chunk.fate);
            let count = |fate: u8| fates.iter().filter(|&&found| found == fate).count() as u64;
            assert_eq!(count(SERVED), result.packets.processed, "{policy}");
            assert_eq!(count(HELD), result.packets.held, "{policy}");
            for (&reason, &dropped) in &result.packets.dropped {
                let fate = FATES.iter().position(|fate| *fate == reason).expect("a fate");
                assert_eq!(count(fate as u8), dropped, "{policy}: {reason}");
            }
            let (arrivals, left) = (all(&record, |chunk| &chunk.arrival), all(&record, |chunk| &chunk.left));
            let delays: Vec<u64> = left
                .iter()
                .zip(&arrivals)
                .filter(|(left, _)| **left != NEVER)
                .map(|(left, arrival)| left - arrival)
                .collect();
            let mean = delays.iter().sum::<u64>() as f64 / delays.len() as f64;
            assert!((mean - result.summary.delay_ns.mean).abs() <= 0.01 * mean, "{policy}: {mean}");
            assert_eq!(delays.iter().max(), Some(&result.summary.delay_ns.max), "{policy}");
            let (starts, ends) = (all(&record, |chunk| &chunk.start), all(&record, |chunk| &chunk.end));
            let cores = all(&record, |chunk| &chunk.core);
            let busy: u64 = starts
                .iter()
                .zip(&ends)
                .zip(&cores)
                .filter(|(_, core)| **core == 1)
                .map(|((start, end), _)| end - start)
                .sum();
            let utilization = busy as f64 / result.summary.duration_ns as f64;
            assert!((utilization - result.summary.cores_detail[1].utilization).abs() < 0.02, "{policy}: {utilization}");
        }
    }

    #[test]
    fn switches_and_chains_are_spans_of_cores() {
        let (result, record) = recorded("cohort", |config| {
            let services = crate::ServiceChoice::parse_all(&["tcp=forward,other=encrypt"]).expect("services");
            (config.services, config.chains) = services;
            config.input = "gen:onoff:packets=20000".to_owned();
            config.cores = 4;
        });
        assert!(result.summary.switches > 20);
        let switches = record.spans.iter().filter(|span| span.packet.is_none()).count() as u64;
        assert_eq!(switches, result.summary.switches);
        assert!(record.spans.iter().all(|span| span.end - span.start == 50_000), "each takes 50 us");
        let (result, record) = recorded("hrw", |config| {
            (config.services, config.chains) = crate::ServiceChoice::parse_all(&["forward,encrypt"]).expect("a chain");
        });
        assert_eq!(record.spans.len() as u64, 2 * result.packets.processed);
    }
}
