//! Timelines: what each core did when, in a file that <https://ui.perfetto.dev> opens.
//!
//! There is a track for each core, with a slice for each packet (named after its service) and for each switch to another
//! service; a counter for each service, of its packets that wait; and a track of what takes no time: packets dropped, policies
//! that take over. Times are ns since the start of the run. In virtual time a run gives the same file, byte for byte.

pub mod format;

use core::time::Duration;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use humpyard_core::config::SchedulerConfig;
use humpyard_core::id::{CoreId, FlowId, Id, ServiceId, Slot};
use humpyard_core::measure::Observer;
use humpyard_core::mechanism::{Arrival, Completed, Dispatch, DropReason, Dropped, Switch};
use humpyard_core::packet::Packet;
use humpyard_core::unit::Time;
use humpyard_traffic::capture::PartialFile;
use humpyard_traffic::header::FlowKey;
use prost::Message;

use crate::LabError;
use format::{
    CounterDescriptor, DebugAnnotation, EXPLICIT, EventType, Trace, TracePacket, TrackDescriptor, TrackEvent,
};

/// A timeline that a run is to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimelineChoice {
    /// The file.
    pub path: String,
    /// It ends after this many packets, served or dropped: each takes about 200 bytes.
    pub packets: u64,
    /// It ends after this time.
    pub longest: Option<Duration>,
}

impl TimelineChoice {
    /// Returns a timeline in this file, with the usual bounds.
    ///
    /// # Errors
    /// The standard output, which takes no timeline.
    pub(crate) fn of_file(path: &str) -> Result<Self, LabError> {
        if path == "-" {
            return Err(LabError::of_option(
                "timeline",
                "takes the name of a file, run.perfetto-trace for example, not `-`",
            ));
        }
        Ok(Self { path: path.to_owned(), packets: TIMELINE_PACKETS, longest: None })
    }
}

/// Packets of a timeline, unless told otherwise: 20 MB.
pub const TIMELINE_PACKETS: u64 = 100_000;

/// A timeline that is being written, under a hidden name until it is complete.
#[derive(Clone, Debug)]
pub(crate) struct TimelineFile {
    writing: Arc<Mutex<Writing>>,
    path: String,
}

impl TimelineFile {
    /// Begins the timeline of a run under these policies.
    pub(crate) fn create(choice: &TimelineChoice, policy: &str, setup: &SchedulerConfig) -> Result<Self, LabError> {
        let path = choice.path.clone();
        let file = PartialFile::create(Path::new(&path)).map_err(|error| unwritable(&path, &error))?;
        let mut writing = Writing {
            file: Some(BufWriter::with_capacity(1 << 18, file)),
            error: None,
            scratch: Vec::new(),
            now: Time::ZERO,
            left: choice.packets,
            longest: choice.longest.map(|longest| Time::from_ns(longest.as_nanos() as u64)),
            is_over: false,
            services: setup.services.iter().map(|service| Service { name: service.name.clone(), waiting: 0 }).collect(),
            cores: setup.cores as u64,
            cold: Vec::new(),
            switching: vec![None; setup.cores],
            flows: Vec::new(),
        };
        writing.tracks();
        writing.instant(POLICIES, &format!("policy {policy}"), Vec::new());
        Ok(Self { writing: Arc::new(Mutex::new(writing)), path })
    }

    /// From now on this id names this flow.
    pub(crate) fn on_flow(&self, flow: FlowId, key: &FlowKey) {
        let mut writing = self.lock();
        if writing.is_over {
            return;
        }
        if writing.flows.len() <= flow.index() {
            writing.flows.resize(flow.index() + 1, FlowKey::default());
        }
        writing.flows[flow.index()] = *key;
    }

    /// Another policy takes over.
    pub(crate) fn on_swap(&self, now: Time, policy: &str) {
        let mut writing = self.lock();
        if writing.at(now) {
            writing.instant(POLICIES, &format!("policy {policy}"), Vec::new());
        }
    }

    /// Completes the file, once the run is done, and says whether it ends before the run.
    pub(crate) fn finish(self) -> Result<bool, LabError> {
        let mut writing = self.lock();
        writing.end_switches();
        let unwritable = |error: io::Error| unwritable(&self.path, &error);
        if let Some(error) = writing.error.take() {
            return Err(unwritable(error));
        }
        let file = writing.file.take().expect("it is completed once");
        let file = file.into_inner().map_err(|error| unwritable(error.into_error()))?;
        file.finish().map_err(unwritable)?;
        Ok(writing.is_over)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Writing> {
        self.writing.lock().expect("no writer panicked")
    }
}

impl Observer for TimelineFile {
    fn on_arrival(&mut self, now: Time, packet: &Packet, arrival: Arrival) {
        let mut writing = self.lock();
        if !writing.at(now) {
            return;
        }
        match arrival {
            Arrival::Queued(_) => writing.on_waiting(packet.service, 1),
            Arrival::Dropped(reason) if writing.has_room() => writing.dropped(packet, reason),
            Arrival::Dropped(_) => {}
        }
    }

    fn on_dispatch(&mut self, now: Time, _: CoreId, dispatch: &Dispatch) {
        let mut writing = self.lock();
        if writing.at(now) {
            let slot = dispatch.slot.index();
            if writing.cold.len() <= slot {
                writing.cold.resize(slot + 1, false);
            }
            writing.cold[slot] = dispatch.cold;
            writing.on_waiting(dispatch.packet.service, -1);
        }
    }

    fn on_completion(&mut self, core: CoreId, slot: Slot, completed: &Completed, finished: Time, busy: Time) {
        let mut writing = self.lock();
        if !writing.at(finished) || !writing.has_room() {
            return;
        }
        let cold = writing.cold[slot.index()];
        writing.served(core, &completed.packet, cold, finished, busy);
        if let Some(service) = completed.onward {
            writing.on_waiting(service, 1);
        }
    }

    fn on_preemption(&mut self, now: Time, core: CoreId, slot: Slot, packet: &Packet, busy: Time) {
        let mut writing = self.lock();
        if writing.at(now) && writing.has_room() {
            let cold = writing.cold[slot.index()];
            writing.served(core, packet, cold, now, busy);
            writing.on_waiting(packet.service, 1);
        }
    }

    fn on_drop(&mut self, dropped: &Dropped) {
        let mut writing = self.lock();
        if !writing.is_over && writing.has_room() {
            writing.on_waiting(dropped.packet.service, -1);
            writing.dropped(&dropped.packet, dropped.reason);
        }
    }

    fn on_switch(&mut self, switch: &Switch) {
        let mut writing = self.lock();
        if !writing.is_over {
            let began = writing.now;
            writing.switching[switch.core.index()] = Some((began, switch.to, switch.cost));
        }
    }

    fn on_switched(&mut self, now: Time, core: CoreId) {
        let mut writing = self.lock();
        if writing.at(now)
            && let Some((began, to, _)) = writing.switching[core.index()].take()
        {
            writing.switched(core, to, began, now);
        }
    }
}

#[derive(Debug)]
struct Service {
    name: String,
    waiting: i64,
}

#[derive(Debug)]
struct Writing {
    /// None once it is complete.
    file: Option<BufWriter<PartialFile>>,
    /// The first thing that went wrong.
    error: Option<io::Error>,
    scratch: Vec<u8>,
    /// The latest time that was told.
    now: Time,
    /// Packets until it ends.
    left: u64,
    longest: Option<Time>,
    /// Whether it has ended, and the run goes on.
    is_over: bool,
    services: Vec<Service>,
    cores: u64,
    /// By slot of the packets that are with a core.
    cold: Vec<bool>,
    /// By core, while it goes over: since when, where, for how long.
    switching: Vec<Option<(Time, ServiceId, Time)>>,
    /// By id, what the flow is called.
    flows: Vec<FlowKey>,
}

/// The track of policies.
const POLICIES: u64 = 1;
/// The track of dropped packets.
const DROPS: u64 = 2;
/// The track above those of the cores.
const CORES: u64 = 3;
/// The track above those of the services.
const WAITING: u64 = 4;
/// The track of core 0; those of the others, then those of the services, follow.
const FIRST: u64 = 16;

impl Writing {
    /// Says which tracks there are.
    fn tracks(&mut self) {
        let named = |uuid, name: &str| TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name.to_owned()),
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        };
        let below = |parent, rank: usize, track: TrackDescriptor| TrackDescriptor {
            parent_uuid: Some(parent),
            sibling_order_rank: Some(rank as i32),
            ..track
        };
        let mut tracks =
            vec![named(POLICIES, "policies"), named(DROPS, "drops"), named(CORES, "cores"), named(WAITING, "waiting")];
        let cores = (0..self.cores as usize)
            .map(|core| below(CORES, core, named(FIRST + core as u64, &format!("core {core}"))));
        tracks.extend(cores);
        let services = self.services.iter().enumerate().map(|(index, service)| {
            let track = named(FIRST + self.cores + index as u64, &format!("waiting: {}", service.name));
            let counter = Some(CounterDescriptor { unit_name: Some("packets".to_owned()) });
            below(WAITING, index, TrackDescriptor { counter, ..track })
        });
        tracks.extend(services);
        for track in tracks {
            self.write(TracePacket { track_descriptor: Some(track), ..TracePacket::default() });
        }
    }

    /// It is this time now. Whether the timeline goes on.
    fn at(&mut self, now: Time) -> bool {
        self.now = self.now.max(now);
        if !self.is_over && self.longest.is_some_and(|longest| now > longest) {
            self.end("--timeline-for");
        }
        !self.is_over
    }

    /// Whether there is room for one more packet that was served or dropped; if not, the timeline ends.
    fn has_room(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.end("--timeline-packets"),
        }
        !self.is_over
    }

    /// Ends the timeline before the run ends.
    fn end(&mut self, limit: &str) {
        self.end_switches();
        self.instant(POLICIES, &format!("the timeline ends here: {limit}"), Vec::new());
        self.is_over = true;
        self.flows = Vec::new();
    }

    /// Writes the switches that are under way as far as they are planned.
    fn end_switches(&mut self) {
        for core in 0..self.switching.len() {
            if let Some((began, to, cost)) = self.switching[core].take() {
                self.switched(CoreId::from_index(core), to, began, began + cost);
            }
        }
    }

    fn served(&mut self, core: CoreId, packet: &Packet, cold: bool, finished: Time, busy: Time) {
        let began = finished.since(busy);
        let about = vec![
            self.flow(packet),
            number("client", u64::from(packet.client.0)),
            number("length", u64::from(packet.length)),
            number("sequence", packet.sequence),
            DebugAnnotation { name: Some("cold".to_owned()), bool_value: Some(cold), ..DebugAnnotation::default() },
            number("waited_ns", began.since(packet.arrival).as_ns()),
        ];
        let name = self.services[packet.service.index()].name.clone();
        self.slice(FIRST + core.index() as u64, name, about, began, finished);
    }

    /// What the flow of a packet is called: its number, where nobody has said more.
    fn flow(&self, packet: &Packet) -> DebugAnnotation {
        let name = self.flows.get(packet.flow.index());
        text("flow", name.map_or_else(|| packet.flow.to_string(), FlowKey::to_string))
    }

    fn switched(&mut self, core: CoreId, to: ServiceId, began: Time, ended: Time) {
        let name = format!("switch to {}", self.services[to.index()].name);
        self.slice(FIRST + core.index() as u64, name, Vec::new(), began, ended);
    }

    fn slice(&mut self, track: u64, name: String, about: Vec<DebugAnnotation>, began: Time, ended: Time) {
        let begin = event(EventType::SliceBegin, track);
        self.event(began, TrackEvent { name: Some(name), debug_annotations: about, ..begin });
        self.event(ended, event(EventType::SliceEnd, track));
    }

    fn dropped(&mut self, packet: &Packet, reason: DropReason) {
        let service = self.services[packet.service.index()].name.clone();
        let service = text("service", service);
        let about = vec![service, self.flow(packet), number("length", u64::from(packet.length))];
        self.instant(DROPS, reason.name(), about);
    }

    fn instant(&mut self, track: u64, name: &str, about: Vec<DebugAnnotation>) {
        let instant = event(EventType::Instant, track);
        self.event(self.now, TrackEvent { name: Some(name.to_owned()), debug_annotations: about, ..instant });
    }

    /// Adds this number to the packets that wait for a service.
    fn on_waiting(&mut self, service: ServiceId, more: i64) {
        let index = service.index();
        self.services[index].waiting += more;
        let counter_value = Some(self.services[index].waiting);
        let track = FIRST + self.cores + index as u64;
        self.event(self.now, TrackEvent { counter_value, ..event(EventType::Counter, track) });
    }

    fn event(&mut self, at: Time, event: TrackEvent) {
        self.write(TracePacket { timestamp: Some(at.as_ns()), track_event: Some(event), ..TracePacket::default() });
    }

    /// Traces of one packet each, one after the other, are a trace of all of them.
    fn write(&mut self, packet: TracePacket) {
        let (Some(file), None) = (&mut self.file, &self.error) else { return };
        let packet = TracePacket { trusted_packet_sequence_id: Some(1), ..packet };
        self.scratch.clear();
        let encoded = Trace { packet: vec![packet] }.encode(&mut self.scratch).map_err(io::Error::other);
        self.error = encoded.and_then(|()| file.write_all(&self.scratch)).err();
    }
}

fn event(kind: EventType, track: u64) -> TrackEvent {
    TrackEvent { r#type: Some(kind as i32), track_uuid: Some(track), ..TrackEvent::default() }
}

fn text(name: &str, value: String) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), string_value: Some(value), ..DebugAnnotation::default() }
}

fn number(name: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation { name: Some(name.to_owned()), uint_value: Some(value), ..DebugAnnotation::default() }
}

fn unwritable(path: &str, error: &io::Error) -> LabError {
    LabError::option(format!("cannot write the timeline `{path}`: {error}"))
}
