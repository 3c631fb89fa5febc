//! Merges several sources by the times of their frames.

use core::cmp::Reverse;
use core::mem;
use std::collections::BinaryHeap;

use humpyard_core::frame::Frame;
use humpyard_core::random::Seed;
use humpyard_core::unit::Time;

use crate::error::TrafficError;
use crate::opening::open;
use crate::source::{Polled, Source};

/// A source of the frames of several sources, in the order of their times, as on one wire. Among equal times, the
/// source named first comes first.
///
/// The order within each source stays: a frame whose time went back keeps its place there. If a source is
/// damaged, the others continue, and the damage is reported at the end. Memory is one frame per source.
pub struct Merge {
    description: String,
    sources: Vec<Input>,
    /// The sources whose next frame was read, by its time.
    ready: BinaryHeap<Reverse<(Time, usize)>>,
    /// The first damage, if any.
    damage: Option<TrafficError>,
}

struct Input {
    source: Box<dyn Source + Send>,
    head: Frame,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its next frame was read, and it is in `ready`.
    Ready,
    /// Its next frame was not read yet.
    Open,
    Ended,
}

impl Merge {
    /// Returns these sources as one.
    pub fn new(sources: Vec<Box<dyn Source + Send>>) -> Self {
        let description = sources.iter().map(|source| source.description()).collect::<Vec<_>>().join(" + ");
        let ready = BinaryHeap::with_capacity(sources.len());
        let input = |source| Input { source, head: Frame::default(), state: State::Open };
        Self { description, sources: sources.into_iter().map(input).collect(), ready, damage: None }
    }

    /// Reads the next frame of every source that has none. Returns false if a source has no frame now, but may
    /// have one later.
    fn fill(&mut self, read: impl Fn(&mut dyn Source, &mut Frame) -> Result<Polled, TrafficError>) -> bool {
        let mut all = true;
        if self.ready.len() == self.sources.len() {
            return all;
        }
        for (number, input) in self.sources.iter_mut().enumerate().filter(|(_, input)| input.state == State::Open) {
            match read(&mut *input.source, &mut input.head) {
                Ok(Polled::Frame) => {
                    input.state = State::Ready;
                    self.ready.push(Reverse((input.head.time, number)));
                }
                Ok(Polled::NotYet) => all = false,
                Ok(Polled::End) => input.state = State::Ended,
                Err(damage) => {
                    input.state = State::Ended;
                    self.damage.get_or_insert(damage);
                }
            }
        }
        all
    }

    /// Returns the earliest of the frames that were read; at the end, the damage, if any.
    fn take(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let Some(Reverse((_, number))) = self.ready.pop() else {
            return self.damage.take().map_or(Ok(false), Err);
        };
        let input = &mut self.sources[number];
        mem::swap(frame, &mut input.head);
        input.state = State::Open;
        Ok(true)
    }
}

impl Source for Merge {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        self.fill(|source, head| Ok(if source.next(head)? { Polled::Frame } else { Polled::End }));
        self.take(frame)
    }

    fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
        if !self.fill(|source, head| source.poll(head)) {
            return Ok(Polled::NotYet);
        }
        Ok(if self.take(frame)? { Polled::Frame } else { Polled::End })
    }

    fn description(&self) -> &str {
        &self.description
    }

    /// Every source has the same weight.
    fn progress(&self) -> Option<f64> {
        let parts: Option<Vec<f64>> = self.sources.iter().map(|input| input.source.progress()).collect();
        parts.map(|parts| parts.iter().sum::<f64>() / parts.len().max(1) as f64)
    }
}

/// Opens sources like [`open`]; several are merged by the times of their frames.
///
/// # Errors
/// Those of [`open`]; if there is no source, or the standard input is named twice.
pub fn open_all(sources: &[String], seed: Seed) -> Result<Box<dyn Source + Send>, TrafficError> {
    if sources.iter().filter(|source| *source == "-").count() > 1 {
        return Err(TrafficError::usage("the standard input can be read once only; use a file for the other"));
    }
    match sources {
        [] => Err(TrafficError::usage("there is no source; name a capture file, `-`, or `gen:PROFILE`")),
        [one] => open(one, seed),
        several => {
            let opened: Result<Vec<_>, _> = several.iter().map(|source| open(source, seed)).collect();
            Ok(Box::new(Merge::new(opened?)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Damage;

    /// Times, each with a name. Name 0 is a pause, and 255 is damage.
    struct Listed(&'static str, Vec<(u64, u8)>);

    impl Source for Listed {
        fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
            loop {
                match self.poll(frame)? {
                    Polled::Frame => return Ok(true),
                    Polled::End => return Ok(false),
                    Polled::NotYet => {}
                }
            }
        }

        fn poll(&mut self, frame: &mut Frame) -> Result<Polled, TrafficError> {
            if self.1.is_empty() {
                return Ok(Polled::End);
            }
            let (time, name) = self.1.remove(0);
            if name == 255 {
                return Err(TrafficError::damaged(self.0, 1, false, Damage { offset: 9, reason: "cut".into() }));
            }
            frame.time = Time::from_ns(time);
            frame.data = vec![name];
            Ok(if name == 0 { Polled::NotYet } else { Polled::Frame })
        }

        fn description(&self) -> &str {
            self.0
        }
    }

    fn merge(lists: Vec<(&'static str, Vec<(u64, u8)>)>) -> Merge {
        Merge::new(lists.into_iter().map(|(name, list)| Box::new(Listed(name, list)) as _).collect())
    }

    fn names(source: &mut Merge) -> (Vec<u8>, Option<String>) {
        let (mut frame, mut names) = (Frame::default(), Vec::new());
        loop {
            match source.next(&mut frame) {
                Ok(true) => names.push(frame.data[0]),
                Ok(false) => return (names, None),
                Err(error) => {
                    assert!(!source.next(&mut frame).unwrap(), "an error comes once");
                    return (names, Some(error.to_string()));
                }
            }
        }
    }

    #[test]
    fn frames_come_by_their_times_and_those_of_one_time_by_their_source() {
        let mut merged =
            merge(vec![("a", vec![(1, 1), (5, 2), (9, 3)]), ("b", vec![(0, 4), (5, 5), (5, 6)]), ("c", vec![])]);
        assert_eq!(merged.description(), "a + b + c");
        assert_eq!(names(&mut merged), (vec![4, 1, 2, 5, 6, 3], None));
    }

    #[test]
    fn a_clock_that_goes_back_keeps_the_order_of_its_source() {
        let mut merged = merge(vec![("a", vec![(10, 1), (2, 2), (11, 3)]), ("b", vec![(3, 4), (12, 5)])]);
        assert_eq!(names(&mut merged), (vec![4, 1, 2, 3, 5], None));
    }

    #[test]
    fn damage_of_one_is_told_when_the_others_have_ended() {
        let mut merged = merge(vec![("a", vec![(1, 1), (0, 255)]), ("b", vec![(2, 2), (3, 3)])]);
        let (found, damage) = names(&mut merged);
        assert_eq!(found, [1, 2, 3]);
        assert!(damage.unwrap().starts_with("a: damaged at byte 9"));
    }

    #[test]
    fn who_polls_waits_for_nobody_and_misses_nothing() {
        let mut merged = merge(vec![("a", vec![(1, 1), (0, 0), (4, 2)]), ("b", vec![(2, 3), (3, 4)])]);
        let mut frame = Frame::default();
        let mut polled = || (merged.poll(&mut frame).unwrap(), frame.data[0]);
        assert_eq!(polled(), (Polled::Frame, 1));
        assert_eq!(polled().0, Polled::NotYet);
        assert_eq!([polled(), polled(), polled()], [(Polled::Frame, 3), (Polled::Frame, 4), (Polled::Frame, 2)]);
        assert_eq!(polled().0, Polled::End);
    }

    #[test]
    fn sources_are_one_at_least_and_pipes_one_at_most() {
        let refused = |sources: &[&str]| {
            let sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
            open_all(&sources, Seed(1)).err().unwrap().to_string()
        };
        assert!(refused(&["-", "-"]).contains("once only"));
        assert!(refused(&[]).contains("no source"));
        assert!(refused(&["gen:poisson", "gen:poison"]).contains("did you mean"));
    }
}
