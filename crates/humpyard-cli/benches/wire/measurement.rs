//! One turn of one contender.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde::Serialize;

use crate::bed::Bed;
use crate::contender::Contender;

/// How long a contender may take until it forwards.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is sent to see whether it does, in seconds; also what it warms up with.
const PROBE: f64 = 0.2;
/// Frames under way come to the receiver in this time.
const SETTLE: Duration = Duration::from_millis(100);
/// What `/proc/stat` counts in.
const TICK: Duration = Duration::from_millis(10);

/// What came of one turn.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measurement {
    /// Whose turn it was.
    pub(crate) contender: &'static str,
    /// In which round, from 0.
    pub(crate) pair: usize,
    /// Bytes of a frame without its check sum.
    pub(crate) frame_bytes: usize,
    /// Frames that the sender gave away per second, in millions.
    pub(crate) offered_mpps: f64,
    /// Frames that came to the receiver per second, in millions.
    pub(crate) delivered_mpps: f64,
    /// Processor time of the contender's process for each frame delivered; none for the kernel, which has none.
    pub(crate) cpu_ns: Option<f64>,
    /// Processor time of the whole machine, sender and receiver too, for each frame delivered.
    pub(crate) machine_ns: f64,
}

impl Measurement {
    pub(crate) fn take(
        bed: &Bed,
        contender: Contender,
        pair: usize,
        frame_bytes: usize,
        seconds: f64,
    ) -> Result<Self, String> {
        let mut running = contender.start(bed)?;
        let since = Instant::now();
        loop {
            let before = bed.received();
            bed.send(frame_bytes, PROBE, None)?;
            sleep(SETTLE);
            if bed.received() > before + 1_000 {
                break;
            }
            if let Some(said) = running.ended() {
                return Err(format!("{} has ended: {said}", contender.name()));
            }
            if since.elapsed() > PATIENCE {
                return Err(format!("{} does not forward", contender.name()));
            }
        }
        let process = running.process();
        let (received, cpu, busy) = (bed.received(), process.map(cpu_time).transpose()?, busy_time()?);
        let sent = bed.send(frame_bytes, seconds, None)?;
        let (cpu_after, busy_after) = (process.map(cpu_time).transpose()?, busy_time()?);
        sleep(SETTLE);
        let delivered = (bed.received() - received) as f64;
        let of_each = |time: Duration| time.as_nanos() as f64 / delivered;
        Ok(Self {
            contender: contender.name(),
            pair,
            frame_bytes,
            offered_mpps: sent.frames as f64 / sent.seconds / 1e6,
            delivered_mpps: delivered / sent.seconds / 1e6,
            cpu_ns: cpu.zip(cpu_after).map(|(before, after)| of_each(after - before)),
            machine_ns: of_each(busy_after.saturating_sub(busy)),
        })
    }
}

/// Processor time that all threads of a process have had.
fn cpu_time(process: Pid) -> Result<Duration, String> {
    let time = clock_getcpuclockid(process).and_then(clock_gettime);
    time.map(Duration::from).map_err(|error| format!("the processor time of {process}: {error}"))
}

/// Time that all processors were not idle.
fn busy_time() -> Result<Duration, String> {
    let text = fs::read_to_string("/proc/stat").map_err(|error| format!("/proc/stat: {error}"))?;
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u32> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, waiting, interrupts, soft interrupts; the rest is of guests and of the host.
    match ticks[..] {
        [user, nice, system, _, _, hard, soft, ..] => Ok(TICK * (user + nice + system + hard + soft)),
        _ => Err("/proc/stat has no line of all processors".into()),
    }
}
