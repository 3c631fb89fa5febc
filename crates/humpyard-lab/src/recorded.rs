//! Packets in memory: an input that is read once and simulated often, whole or in parts.

use core::iter;
use core::ops::Range;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::unit::Time;
use humpyard_traffic::header::Headers;
use humpyard_traffic::source::Source;
use humpyard_traffic::{TrafficError, Tunnels};

use crate::LabError;
use crate::config::RunConfig;
use crate::parts;
use crate::run::Control;

/// What a simulation needs of a packet.
#[derive(Clone, Copy, Debug)]
struct RecordedPacket {
    time: Time,
    length: u32,
    headers: Headers,
}

/// The first packets of an input.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    packets: Arc<[RecordedPacket]>,
    /// Whether that is all of it.
    pub(crate) is_whole: bool,
    /// The damage at which the input ended, if it did not end well.
    pub(crate) damage: Option<String>,
}

/// How often progress is told, in packets.
const PROGRESS_EVERY: u64 = 1 << 14;

impl Recorded {
    /// Reads the input of a run, at most so many packets.
    ///
    /// # Errors
    /// An input that cannot be opened, one without a packet, and being interrupted.
    pub(crate) fn read(config: &RunConfig, most: u64, control: &mut Control<'_>) -> Result<Self, LabError> {
        let mut source = parts::source(config)?;
        let (mut frame, mut headers) = (Frame::default(), Headers::default());
        let (mut packets, mut damage, mut is_whole) = (Vec::new(), None, false);
        while (packets.len() as u64) < most && !control.stop.load(Ordering::Relaxed) {
            if (packets.len() as u64).is_multiple_of(PROGRESS_EVERY) {
                (control.progress)(packets.len() as u64, source.progress());
            }
            match source.next_headers(&mut frame, config.tunnels, &mut headers) {
                Ok(true) => {}
                ended => {
                    is_whole = true;
                    damage = ended.err().map(|error| error.to_string());
                    break;
                }
            }
            packets.push(RecordedPacket { time: frame.time, length: frame.wire_length, headers });
        }
        if control.stop.load(Ordering::Relaxed) {
            return Err(LabError::option("interrupted while the input was read: nothing was done"));
        }
        if packets.is_empty() {
            let said = damage.unwrap_or_else(|| format!("there is no packet in `{}`", config.input_name()));
            return Err(LabError::option(said));
        }
        Ok(Self { packets: packets.into(), is_whole, damage })
    }

    /// How many packets there are.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// The packets that have one of these times, by number, which is when they come; beyond them none.
    pub(crate) fn arriving(&self, times: &[Option<Time>]) -> Self {
        let timed = self.packets.iter().zip(times);
        let packets = timed.filter_map(|(packet, time)| Some(RecordedPacket { time: (*time)?, ..*packet }));
        Self { packets: packets.collect(), is_whole: self.is_whole, damage: self.damage.clone() }
    }

    /// All packets, as they came.
    pub(crate) fn whole(&self) -> Playback {
        self.play(iter::once(0..self.len()).collect())
    }

    /// This part of it (0 to 1), as a few blocks that lie evenly over all of it.
    pub(crate) fn sample(&self, part: f64) -> Playback {
        let length = ((self.len() as f64 * part / SPREAD as f64).ceil() as usize).max(1);
        let apart = self.len() / SPREAD;
        if part >= 1.0 || apart <= length {
            return self.whole();
        }
        self.play((0..SPREAD).map(|block| block * apart..block * apart + length).collect())
    }

    /// One of so many blocks that make up all of it.
    pub(crate) fn block(&self, block: usize, of: usize) -> Playback {
        self.play(iter::once(self.len() * block / of..self.len() * (block + 1) / of).collect())
    }

    /// Blocks of it, one behind the other: each begins a mean gap after the end of the one before.
    fn play(&self, blocks: Vec<Range<usize>>) -> Playback {
        let (first, last) = (self.packets[0].time.as_ns(), self.packets[self.len() - 1].time.as_ns());
        Playback {
            packets: Arc::clone(&self.packets),
            all: blocks.iter().map(ExactSizeIterator::len).sum(),
            blocks: blocks.into_iter(),
            block: 0..0,
            gap: last.saturating_sub(first) / (self.len() as u64).saturating_sub(1).max(1),
            shift: 0,
            latest: None,
            given: 0,
        }
    }
}

/// A sample consists of so many blocks.
const SPREAD: usize = 8;

/// Recorded packets, played.
#[derive(Clone, Debug)]
pub(crate) struct Playback {
    packets: Arc<[RecordedPacket]>,
    blocks: std::vec::IntoIter<Range<usize>>,
    /// What is left of this block.
    block: Range<usize>,
    /// The mean gap of all packets, in ns.
    gap: u64,
    /// What is added to the times of this block, in ns.
    shift: i128,
    /// The latest time that was given.
    latest: Option<u64>,
    given: usize,
    all: usize,
}

impl Playback {
    /// The place of the next packet, if there is one.
    fn advance(&mut self) -> Option<usize> {
        loop {
            if let Some(at) = self.block.next() {
                return Some(at);
            }
            self.block = self.blocks.next()?;
            let begins = self.packets.get(self.block.start)?.time.as_ns();
            if let Some(latest) = self.latest {
                self.shift = i128::from(latest) + i128::from(self.gap) - i128::from(begins);
            }
        }
    }
}

impl Source for Playback {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        self.next_headers(frame, Tunnels::NONE, &mut Headers::default())
    }

    fn next_headers(&mut self, frame: &mut Frame, _: Tunnels, headers: &mut Headers) -> Result<bool, TrafficError> {
        let Some(at) = self.advance() else { return Ok(false) };
        let packet = &self.packets[at];
        let time = (i128::from(packet.time.as_ns()) + self.shift).clamp(0, i128::from(u64::MAX)) as u64;
        self.latest = Some(self.latest.map_or(time, |latest| latest.max(time)));
        self.given += 1;
        (frame.time, frame.wire_length, *headers) = (Time::from_ns(time), packet.length, packet.headers);
        Ok(true)
    }

    fn description(&self) -> &str {
        "packets in memory"
    }

    fn progress(&self) -> Option<f64> {
        Some(self.given as f64 / self.all.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::config::Host;

    fn recorded(most: u64) -> Recorded {
        let config = RunConfig::new(Host::Sim, "gen:poisson:packets=1000,flows=7", "hrw".parse().expect("a policy"));
        let (stop, mut progress) = (AtomicBool::new(false), |_, _| {});
        Recorded::read(&config, most, &mut Control::new(&stop, &mut progress)).expect("packets")
    }

    fn times(mut playback: Playback) -> Vec<u64> {
        let (mut frame, mut headers, mut times) = (Frame::default(), Headers::default(), Vec::new());
        while playback.next_headers(&mut frame, Tunnels::NONE, &mut headers).expect("no damage") {
            times.push(frame.time.as_ns());
        }
        assert_eq!(playback.progress(), Some(1.0));
        times
    }

    #[test]
    fn what_was_read_is_played() {
        let all = recorded(u64::MAX);
        assert!(all.is_whole && all.len() == 1000);
        let part = recorded(400);
        assert!(!part.is_whole);
        assert_eq!(times(part.whole()), times(all.whole())[..400]);
    }

    #[test]
    fn a_sample_lies_over_all_and_its_blocks_follow_each_other() {
        let all = recorded(u64::MAX);
        let whole = times(all.whole());
        let sample = times(all.sample(0.25));
        assert_eq!(sample.len(), 8 * 32);
        assert!(sample.is_sorted());
        let gap = (whole[999] - whole[0]) / 999;
        for block in 0..8 {
            let (from, of) = (32 * block, 125 * block);
            assert!((1..32).all(|at| sample[from + at] - sample[from] == whole[of + at] - whole[of]), "{block}");
            assert!(block == 0 || sample[from] - sample[from - 1] == gap);
        }
        assert_eq!(times(all.sample(1.0)), whole);
    }

    #[test]
    fn blocks_make_up_all() {
        let all = recorded(u64::MAX);
        let lengths: Vec<usize> = (0..7).map(|block| times(all.block(block, 7)).len()).collect();
        assert_eq!(lengths.iter().sum::<usize>(), 1000);
        assert!(lengths.iter().all(|length| (142..=143).contains(length)));
    }
}
