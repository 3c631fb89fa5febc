//! Packets in memory: an input that is read once and simulated often, whole or in parts.

use core::ops::Range;
use core::slice;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::measure::Offered;
use humpyard_core::unit::Time;
use humpyard_traffic::header::Headers;
use humpyard_traffic::pace::Pacer;
use humpyard_traffic::source::Source;
use humpyard_traffic::{TrafficError, Tunnels};

use crate::LabError;
use crate::config::RunConfig;
use crate::control::Control;
use crate::parts::setup::source;

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
    /// Reads the input of a run, at most this many packets.
    ///
    /// # Errors
    /// An input that cannot be opened, one without a packet, and being interrupted.
    pub(crate) fn read(config: &RunConfig, most: u64, control: &mut Control<'_>) -> Result<Self, LabError> {
        let mut source = source(config)?;
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

    /// What arrives when it is paced like this.
    pub(crate) fn arrived(&self, pacer: &mut Pacer) -> Offered {
        let mut offered = Offered::default();
        self.packets.iter().for_each(|packet| offered.on_packet(pacer.arrival(packet.time), packet.length));
        offered
    }

    /// The packets that have one of these times, by number, which is when they come; beyond them none.
    #[cfg(test)]
    pub(crate) fn arriving(&self, times: &[Option<Time>]) -> Self {
        let timed = self.packets.iter().zip(times);
        let packets = timed.filter_map(|(packet, time)| Some(RecordedPacket { time: (*time)?, ..*packet }));
        Self { packets: packets.collect(), is_whole: self.is_whole, damage: self.damage.clone() }
    }

    /// All packets, as they came.
    pub(crate) fn whole(&self) -> Playback {
        self.play(slice::from_ref(&(0..self.len())))
    }

    /// Ranges of its packets, one behind the other: each begins a mean gap after the end of the one before, unless it goes on where
    /// that ended.
    pub(crate) fn play(&self, ranges: &[Range<usize>]) -> Playback {
        let mut blocks: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match blocks.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None => blocks.push(range.clone()),
            }
        }
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
    use crate::choice::host::Host;

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
    fn ranges_follow_each_other() {
        let all = recorded(u64::MAX);
        let whole = times(all.whole());
        let played = times(all.play(&[10..30, 30..40, 100..110]));
        assert_eq!(played[..30], whole[10..40]);
        assert_eq!(played[30] - played[29], (whole[999] - whole[0]) / 999, "a mean gap");
        assert!((1..10).all(|at| played[30 + at] - played[30] == whole[100 + at] - whole[100]));
        assert_eq!(times(all.play(&[0..1, 1..400, 400..1000])), whole);
    }
}
