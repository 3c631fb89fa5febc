//! The sender of frames at a rate, as a wire brings them: it waits for nobody.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use humpyard::frame::Frame;
use humpyard::random::Seed;

use crate::bed::Bed;
use crate::frames::FrameOfFlow;

/// Frames that may wait to be sent. What is due beyond is lost, as at a card whose ring is full.
const RING: u64 = 4_096;
/// Frames that are sent together.
const BATCH: u64 = 32;
/// The time that a sender sleeps that is not behind.
const REST: Duration = Duration::from_micros(100);

/// What was sent so far.
#[derive(Default)]
pub(crate) struct Sent {
    /// Frames that were due.
    pub(crate) due: AtomicU64,
    /// Frames that the sender's interface was given.
    pub(crate) sent: AtomicU64,
}

/// Sends these frames again and again, `rate` a second, until `over`.
pub(crate) fn send(bed: &Bed, frames: &[FrameOfFlow], rate: f64, sent: &Sent, over: &AtomicBool) -> Result<(), String> {
    bed.left().within(|| {
        bed.on_first();
        before_others()?;
        let nothing = || humpyard::traffic::open("gen:poisson:packets=1", Seed(1));
        let ports = humpyard::wire::open(&[], "iface:va", false, nothing, humpyard::traffic::create);
        let failed = |error: &dyn std::fmt::Display| format!("the sender: {error}");
        let mut sink = ports.map_err(|error| failed(&error))?.sink;
        let mut numbers = Numbers::new(frames);
        let (begin, mut next, mut frame) = (Instant::now(), 0, Frame::default());
        while !over.load(Ordering::Relaxed) {
            let due = (begin.elapsed().as_secs_f64() * rate) as u64;
            sent.due.store(due, Ordering::Relaxed);
            next = next.max(due.saturating_sub(RING));
            let batch = (due - next).min(BATCH);
            for _ in 0..batch {
                numbers.next(&mut frame);
                sink.write(&frame).map_err(|error| failed(&error))?;
            }
            sink.send().map_err(|error| failed(&error))?;
            sent.sent.fetch_add(batch, Ordering::Relaxed);
            next += batch;
            if next == due {
                sleep(REST);
            }
        }
        Ok(())
    })
}

/// Has the calling thread run before all programs on its processor, as a card's interrupts do.
fn before_others() -> Result<(), String> {
    let thread = nix::unistd::gettid().to_string();
    let output = Command::new("chrt").args(["--fifo", "--pid", "1", &thread]).output();
    let output = output.map_err(|error| format!("chrt (package util-linux): {error}"))?;
    let said = || format!("chrt: {}", String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// Gives frames their numbers.
struct Numbers<'a> {
    frames: &'a [FrameOfFlow],
    place: usize,
    /// By flow: the number of its next frame.
    next: Vec<u64>,
}

impl<'a> Numbers<'a> {
    fn new(frames: &'a [FrameOfFlow]) -> Self {
        let flows = frames.iter().map(|frame| frame.flow as usize + 1).max().unwrap_or(0);
        Self { frames, place: 0, next: vec![0; flows] }
    }

    fn next(&mut self, frame: &mut Frame) {
        let which = &self.frames[self.place];
        self.place = (self.place + 1) % self.frames.len();
        let number = &mut self.next[which.flow as usize];
        which.number(*number, &mut frame.data);
        *number += 1;
        frame.wire_length = frame.data.len() as u32;
    }
}
