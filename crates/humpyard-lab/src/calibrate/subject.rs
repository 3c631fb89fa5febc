//! One service under the clock.

use core::hint::black_box;
use std::time::Instant;

use humpyard_core::frame::Frame;
use humpyard_core::hash::mix;
use humpyard_core::id::FlowId;
use humpyard_core::name::Named;
use humpyard_core::unit::Time;
use humpyard_services::{Context, Generated, Service, Verdict, prepare};

use super::fit::{median, sorted};
use super::{BATCH, FLOWS};
use crate::LabError;

/// Bytes that a buffer has room for: the longest packet and what services add to it.
const ROOM: usize = 4096;

/// A service with its buffers.
pub(super) struct Subject {
    service: Box<dyn Service>,
    /// Whether each packet is of a connection of its own: so a service that looks into the first packets of each works on all.
    anew: bool,
    buffers: Vec<Frame>,
    contexts: Vec<Context>,
    verdicts: Vec<Verdict>,
    generated: Generated,
    /// The number of the next packet.
    pub(super) next: usize,
    /// What reading the clock takes by itself, in ns.
    clock_ns: f64,
    /// What became of the packets.
    pub(super) tally: Tally,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Packets worked on, and those of them that went on.
    pub(super) packets: u64,
    pub(super) forwarded: u64,
    /// Bytes that came in and that went out, also in frames that the service made.
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl Tally {
    pub(super) const fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.forwarded += other.forwarded;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }

    /// Bytes that go out for each that comes in.
    pub(super) fn expansion(&self) -> f64 {
        self.bytes_out as f64 / self.bytes_in.max(1) as f64
    }
}

impl Subject {
    pub(super) fn new(named: &Named, clock_ns: f64) -> Result<Self, LabError> {
        Ok(Self {
            service: prepare(named)?.make(),
            anew: matches!(named.name.as_str(), "dpi" | "l7-filter"),
            buffers: (0..BATCH).map(|_| Frame::with_capacity(ROOM)).collect(),
            contexts: vec![Context::default(); BATCH],
            verdicts: vec![Verdict::Forward; BATCH],
            generated: Generated::new(2 * BATCH, ROOM),
            next: 0,
            clock_ns,
            tally: Tally::default(),
        })
    }

    /// Works on this number of packets of the pool in a row, and returns the time of one, in ns.
    pub(super) fn time(&mut self, pool: &[Frame], packets: usize) -> f64 {
        self.load(pool, packets);
        let started = Instant::now();
        for at in 0..packets {
            self.verdicts[at] =
                self.service.process(black_box(&mut self.buffers[at]), &self.contexts[at], &mut self.generated);
        }
        let taken = started.elapsed().as_nanos() as f64;
        self.count(packets);
        (taken - self.clock_ns).max(0.0) / packets as f64
    }

    /// Copies the next packets into the buffers, as a driver does before it hands them out.
    fn load(&mut self, pool: &[Frame], packets: usize) {
        for at in 0..packets {
            let number = self.next;
            self.next += 1;
            let (frame, buffer) = (&pool[number % pool.len()], &mut self.buffers[at]);
            (buffer.time, buffer.wire_length, buffer.link) = (frame.time, frame.wire_length, frame.link);
            buffer.data.clone_from(&frame.data);
            self.tally.bytes_in += u64::from(frame.wire_length);
            let flow = number % FLOWS;
            let connection = if self.anew { number } else { flow } as u64;
            self.contexts[at] = Context {
                now: Time::ZERO,
                connection: mix(connection),
                flow: FlowId(flow as u32),
                ..Context::default()
            };
        }
    }

    fn count(&mut self, packets: usize) {
        self.tally.packets += packets as u64;
        for at in 0..packets {
            if self.verdicts[at] == Verdict::Forward {
                self.tally.forwarded += 1;
                self.tally.bytes_out += u64::from(self.buffers[at].wire_length);
            }
        }
        let made: u64 = self.generated.frames().iter().map(|frame| u64::from(frame.wire_length)).sum();
        self.tally.bytes_out += made;
        self.generated.clear();
    }
}

/// What reading the clock twice takes, in ns.
pub(super) fn clock_ns() -> f64 {
    let reading = |_| {
        let started = Instant::now();
        black_box(started.elapsed().as_nanos() as f64)
    };
    median(&sorted((0..1001).map(reading)))
}

/// Memory that pushes out of the caches what was in them.
pub(super) struct Evictor {
    memory: Vec<u8>,
}

/// Bytes of a cache line.
const LINE: usize = 64;

impl Evictor {
    pub(super) fn new(bytes: usize) -> Self {
        Self { memory: vec![1; bytes] }
    }

    /// Touches this many bytes of it, line by line.
    pub(super) fn touch(&mut self, bytes: usize) {
        for line in self.memory[..bytes].iter_mut().step_by(LINE) {
            *line = line.wrapping_add(1);
        }
        black_box(&self.memory);
    }
}
