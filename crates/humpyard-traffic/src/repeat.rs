//! A source played several times, its clock running on.

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use crate::error::TrafficError;
use crate::source::{Polled, Source, open};

/// A source that is opened anew when it ends, so many times in all. Each round starts one mean gap after the one before.
pub struct Repeat {
    specification: String,
    seed: Seed,
    source: Box<dyn Source + Send>,
    /// This round, from 0.
    round: u64,
    rounds: u64,
    /// What is added to the times of this round.
    shift: Time,
    first: Option<Time>,
    latest: Time,
    packets: u64,
}

impl Repeat {
    /// Opens a source to be played so many times.
    ///
    /// # Errors
    /// As [`open`]; and a pipe, which cannot be played again.
    pub fn open(specification: &str, seed: Seed, rounds: u64) -> Result<Self, TrafficError> {
        if specification == "-" && rounds > 1 {
            return Err(TrafficError::usage("the standard input can be played once only; use a file to repeat"));
        }
        Ok(Self {
            specification: specification.to_owned(),
            seed,
            source: open(specification, seed)?,
            round: 0,
            rounds,
            shift: Time::ZERO,
            first: None,
            latest: Time::ZERO,
            packets: 0,
        })
    }

    /// Starts the next round, if there is one and this round had a packet.
    fn again(&mut self) -> Result<bool, TrafficError> {
        let Some(first) = self.first.filter(|_| self.round + 1 < self.rounds) else { return Ok(false) };
        self.round += 1;
        self.source = open(&self.specification, self.seed)?;
        let lasted = self.latest.since(first).as_ns();
        self.shift = Time::from_ns(lasted.saturating_add(lasted / self.packets.max(1)));
        Ok(true)
    }

    /// Puts a frame in its place in time.
    fn count(&mut self, frame: &mut Frame) {
        frame.time = Time::from_ns(frame.time.as_ns().saturating_add(self.shift.as_ns()));
        self.first.get_or_insert(frame.time);
        self.latest = self.latest.max(frame.time);
        self.packets += 1;
    }
}

impl Source for Repeat {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        while !self.source.next(frame)? {
            if !self.again()? {
                return Ok(false);
            }
        }
        self.count(frame);
        Ok(true)
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        loop {
            match self.source.poll(frame)? {
                Polled::End if self.again()? => {}
                Polled::Frame => {
                    self.count(frame);
                    return Ok(Polled::Frame);
                }
                other => return Ok(other),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_follow_each_other_in_time() {
        let mut repeat = Repeat::open("gen:poisson:flows=2,packets=5", Seed(1), 3).unwrap();
        let mut frame = Frame::default();
        let mut times = Vec::new();
        while repeat.next(&mut frame).unwrap() {
            times.push(frame.time);
        }
        assert_eq!(times.len(), 15);
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
        let gap = |a: usize, b: usize| times[b].since(times[a]);
        assert_eq!(gap(0, 4), gap(5, 9));
        assert_eq!(gap(5, 9), gap(10, 14));
        assert_eq!(repeat.progress(), Some(1.0));
    }

    #[test]
    fn absurd_times_stop_at_the_last_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("absurd.pcapng");
        let mut sink = crate::create(path.to_str().unwrap()).unwrap();
        for time in [Time::from_ns(7), Time::MAX] {
            sink.write(&Frame { time, ..Frame::default() }).unwrap();
        }
        sink.finish().unwrap();
        let mut repeat = Repeat::open(path.to_str().unwrap(), Seed(1), 3).unwrap();
        let mut frame = Frame::default();
        let mut times = Vec::new();
        while repeat.next(&mut frame).unwrap() {
            times.push(frame.time);
        }
        assert_eq!(times, [Time::from_ns(7), Time::MAX, Time::MAX, Time::MAX, Time::MAX, Time::MAX]);
    }

    #[test]
    fn a_pipe_plays_once() {
        assert!(Repeat::open("-", Seed(1), 2).is_err());
    }
}
