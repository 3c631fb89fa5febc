//! Plays sources several times, with a continuous clock.

use std::sync::Arc;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use crate::error::TrafficError;
use crate::header::Headers;
use crate::merge::open_all;
use crate::source::{Numbered, NumberedFlows, Polled, Source};
use crate::tunnel::Tunnels;

type Opened = Box<dyn Source + Send>;

/// Sources that are opened again when they end, for a number of rounds. Each round starts one mean gap of the
/// first round after the latest packet of the previous round. Its times are those of the first round, shifted,
/// so that the order of packets is the same in all rounds.
pub struct Repeat {
    open: Box<dyn Fn() -> Result<Opened, TrafficError> + Send>,
    source: Opened,
    /// The current round, from 0.
    round: u64,
    rounds: u64,
    /// Time from the start of a round to that of the next; known after the first round.
    period: Time,
    /// Added to the times of the current round.
    shift: Time,
    /// The earliest and the latest time of the first round.
    span: Option<(Time, Time)>,
    /// Packets of the first round.
    packets: u64,
}

impl Repeat {
    /// Opens sources for this many rounds; several are merged by the times of their frames.
    ///
    /// # Errors
    /// Those of [`open_all`]; and for a pipe, which cannot be played again.
    pub fn open(sources: &[String], seed: Seed, rounds: u64) -> Result<Self, TrafficError> {
        if sources.iter().any(|source| source == "-") && rounds > 1 {
            return Err(TrafficError::usage("the standard input can be played once only; use a file to repeat"));
        }
        let sources = sources.to_vec();
        Self::new(move || open_all(&sources, seed), rounds)
    }

    /// Opens a source for this many rounds.
    ///
    /// # Errors
    /// Those of `open`, which each round calls.
    pub fn new(
        open: impl Fn() -> Result<Opened, TrafficError> + Send + 'static,
        rounds: u64,
    ) -> Result<Self, TrafficError> {
        Ok(Self {
            source: open()?,
            open: Box::new(open),
            round: 0,
            rounds,
            period: Time::ZERO,
            shift: Time::ZERO,
            span: None,
            packets: 0,
        })
    }

    /// Starts the next round, if there is one and the first had a packet.
    fn again(&mut self) -> Result<bool, TrafficError> {
        let Some((earliest, latest)) = self.span.filter(|_| self.round + 1 < self.rounds) else { return Ok(false) };
        if self.round == 0 {
            let lasted = latest.since(earliest).as_ns();
            let gaps = self.packets.saturating_sub(1).max(1);
            self.period = Time::from_ns(lasted.saturating_add(lasted / gaps));
        }
        self.round += 1;
        self.source = (self.open)()?;
        self.shift = Time::from_ns(self.shift.as_ns().saturating_add(self.period.as_ns()));
        Ok(true)
    }

    /// Shifts the time of a frame for the current round.
    fn place(&mut self, time: &mut Time) {
        if self.round == 0 {
            let (earliest, latest) = self.span.unwrap_or((*time, *time));
            self.span = Some((earliest.min(*time), latest.max(*time)));
            self.packets += 1;
        }
        *time = Time::from_ns(time.as_ns().saturating_add(self.shift.as_ns()));
    }
}

impl Source for Repeat {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        while !self.source.next(frame)? {
            if !self.again()? {
                return Ok(false);
            }
        }
        self.place(&mut frame.time);
        Ok(true)
    }

    fn next_headers(
        &mut self,
        frame: &mut Frame,
        tunnels: Tunnels,
        headers: &mut Headers,
    ) -> Result<bool, TrafficError> {
        while !self.source.next_headers(frame, tunnels, headers)? {
            if !self.again()? {
                return Ok(false);
            }
        }
        self.place(&mut frame.time);
        Ok(true)
    }

    fn numbered_flows(&self) -> Option<Arc<dyn NumberedFlows>> {
        self.source.numbered_flows()
    }

    fn next_numbered(&mut self, packets: &mut Vec<Numbered>, most: usize) -> Result<bool, TrafficError> {
        let before = packets.len();
        let there_is = self.source.next_numbered(packets, most)?;
        if self.rounds > 1 {
            packets[before..].iter_mut().for_each(|packet| self.place(&mut packet.time));
        }
        Ok(there_is || self.again()?)
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        self.poll_burst(core::slice::from_mut(frame)).1
    }

    fn poll_burst(&mut self, frames: &mut [Frame]) -> (usize, Result<Polled, TrafficError>) {
        let mut filled = 0;
        loop {
            let rest = &mut frames[filled..];
            let (more, found) = self.source.poll_burst(rest);
            rest[..more].iter_mut().for_each(|frame| self.place(&mut frame.time));
            filled += more;
            if !matches!(found, Ok(Polled::End)) {
                return (filled, found);
            }
            match self.again() {
                Ok(true) => {}
                Ok(false) => return (filled, found),
                Err(error) => return (filled, Err(error)),
            }
        }
    }

    fn description(&self) -> &str {
        self.source.description()
    }

    fn progress(&self) -> Option<f64> {
        let within = self.source.progress()?;
        Some((self.round as f64 + within) / self.rounds as f64)
    }

    fn packets_left(&self) -> Option<u64> {
        let left = self.source.packets_left()?;
        let rounds_left = self.rounds - self.round - 1;
        if rounds_left == 0 { Some(left) } else { (self.packets + left).checked_mul(rounds_left)?.checked_add(left) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(sources: &[&str], rounds: u64) -> Vec<u64> {
        let sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
        let mut repeat = Repeat::open(&sources, Seed(1), rounds).unwrap();
        let (mut frame, mut times) = (Frame::default(), Vec::new());
        while repeat.next(&mut frame).unwrap() {
            times.push(frame.time.as_ns());
        }
        assert_eq!(repeat.progress(), Some(1.0));
        assert!(repeat.packets_left().is_none_or(|left| left == 0));
        times
    }

    fn capture(directory: &std::path::Path, times: &[u64]) -> String {
        let path = directory.join("times.pcapng").to_str().unwrap().to_owned();
        let mut sink = crate::create(&path).unwrap();
        for &time in times {
            sink.write(&Frame { time: Time::from_ns(time), ..Frame::default() }).unwrap();
        }
        sink.finish().unwrap();
        path
    }

    /// Bursts end within rounds, and cross the ends of rounds; the source ends once.
    #[test]
    fn bursts_have_the_frames_that_come_one_by_one() {
        let directory = tempfile::tempdir().unwrap();
        let source = capture(directory.path(), &[10, 20, 30, 50, 90]);
        let alone = times(&[&source], 4);
        for most in [1, 2, 7, 32] {
            let mut repeat = Repeat::open(core::slice::from_ref(&source), Seed(1), 4).unwrap();
            let (mut frames, mut times) = (vec![Frame::default(); most], Vec::new());
            loop {
                let (filled, found) = repeat.poll_burst(&mut frames);
                times.extend(frames[..filled].iter().map(|frame| frame.time.as_ns()));
                if found.unwrap() == Polled::End {
                    break;
                }
                assert_eq!(filled, most);
            }
            assert_eq!(times, alone, "{most} at a time");
            assert!(matches!(repeat.poll_burst(&mut frames), (0, Ok(Polled::End))));
        }
    }

    #[test]
    fn rounds_follow_each_other_in_time_and_are_alike() {
        let found = times(&["gen:poisson:flows=2,packets=5"], 4);
        assert_eq!(found.len(), 20);
        assert!(found.windows(2).all(|pair| pair[0] <= pair[1]), "{found:?}");
        let lasted = found[4] - found[0];
        for round in 1..4 {
            assert_eq!(found[5 * round] - found[5 * round - 1], lasted / 4, "the gap between rounds is the mean gap");
            assert!((0..5).all(|i| found[5 * round + i] - found[5 * round] == found[i] - found[0]));
        }
        // Two merged sources are one source.
        let both = times(&["gen:poisson:packets=5", "gen:poisson:packets=7,pps=1000"], 3);
        assert_eq!(both.len(), 36);
        assert!(both.windows(2).all(|pair| pair[0] <= pair[1]), "{both:?}");
    }

    #[test]
    fn a_clock_that_goes_back_within_a_round_does_not_go_back_between_rounds() {
        let directory = tempfile::tempdir().unwrap();
        let path = capture(directory.path(), &[100, 130, 90, 120]);
        let found = times(&[&path], 3);
        // From 90 to 130, and a third of that.
        assert_eq!(found, [100, 130, 90, 120, 153, 183, 143, 173, 206, 236, 196, 226]);
        let first = |round: usize| found[4 * round..4 * round + 4].iter().min().copied();
        let last = |round: usize| found[4 * round..4 * round + 4].iter().max().copied();
        assert!((1..3).all(|round| first(round) > last(round - 1)));
    }

    #[test]
    fn absurd_times_stop_at_the_last_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = capture(directory.path(), &[7, u64::MAX]);
        assert_eq!(times(&[&path], 3), [7, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX]);
    }

    #[test]
    fn a_pipe_plays_once() {
        assert!(Repeat::open(&["gen:poisson".into(), "-".into()], Seed(1), 2).is_err());
    }
}
