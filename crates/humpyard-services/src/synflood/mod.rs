//! Finding SYN floods: more connections are opened than closed.
//!
//! # Work
//! In each `period` the segments with SYN (SYN and SYN/ACK) are counted, and those that close (FIN, and RST unless `reset=false`).
//! Their difference over F, the exponential average of the closing ones and at least `floor`, is X; the sum y = max(0, y + X -
//! `offset`) is above `threshold` in a flood. While it is, there is an alarm. It names the host that at least half of the excess
//! goes to, if there is one. Packets pass unchanged; with `drop=true` the segments with SYN to that host (to any, if there is
//! none) are dropped as long as the alarm lasts.
//!
//! Alarms are counters of the result: `alarm_01 flood to HOST at SECONDS`, or `flood to many hosts`, with the number of segments
//! with SYN: those of the period that raised it, as far as they were counted by host, and those to the host while it lasted. The
//! seconds are the end of that period. The last period of a run is judged by what there is of it.
//!
//! # Source
//! Wang, Zhang and Shin, *Detecting SYN flooding attacks* (INFOCOM 2002): the generalised SYN, F, X, the sum, a = .35, N = 1.05.
//! Periods are of 1 s, not 20 s.
//!
//! # Delay and false alarms
//! A flood of f segments a second, where connections are otherwise closed as they are opened, is found at the end of the first
//! period k with k (f/F - a) > N: with f = 2F at the end of the first that is all flood, with f = .7F after four. With f < aF it is
//! never found. No alarm is raised where no period has X > a. With independent periods of mean 0 and standard deviation s a false
//! alarm is less probable than exp(-2aN/s²) in a period, as a random walk exceeds N.
//!
//! # Memory
//! Sixteen hosts are counted in a period (Misra and Gries), whatever there are; `alarms` alarms are listed.
//!
//! # Several workers
//! All instances share the counts, with a lock that is taken for segments with SYN, FIN or RST alone. The
//! period ends for all with the first of those segments behind it: where one worker is ahead of another by a period, as in a
//! capture that is read as fast as it can be, segments are counted in another period than theirs.
//!
//! # Departures
//! * The paper counts three of four RST; here all count, or none. A flood that is answered by RST looks as if its connections were
//!   closed, and so does one with as many FIN: neither is found.
//! * The sum stays at or below 2N, so that an alarm ends at most N/a periods after the flood (three).
//! * A scan of ports that do not answer is a flood too, for what is counted: `portscan` tells them apart.
//! * Time is that of packets; where it jumps back it has stood still.

mod cusum;
mod frequent;

use core::fmt;
use core::net::IpAddr;
use std::sync::{Arc, Mutex};

use humpyard_core::frame::Frame;
use humpyard_core::params;
use humpyard_core::unit::Time;

use self::cusum::{Cusum, Judgement, Limits, ONE};
use self::frequent::Frequent;
use crate::alarms::{Alarms, Seen, lock};
use crate::packet_time::PacketTime;
use crate::segment::{Segment, cut_packets, flag, is_cut};
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};

params! {
    /// Parameters of the SYN flood detector.
    pub struct SynfloodParams {
        /// The time in which segments are counted together, by the times of packets.
        period: f64 = 1.0, in 0.001..=3600.0, unit "s";
        /// What each period takes off the sum: the paper's a.
        offset: f64 = 0.35, in 0.0..=1000.0;
        /// The sum above which there is an alarm: the paper's N.
        threshold: f64 = 1.05, in 0.0..=1_000_000.0;
        /// What of the average of closing segments stays at each period: the paper's alpha.
        keep: f64 = 0.9, in 0.0..=1.0;
        /// The average is taken for at least so much.
        floor: u64 = 50, in 1..=1_000_000_000, unit "segments a period";
        /// Whether RST counts as closing.
        reset: bool = true;
        /// Whether segments with SYN are dropped while there is an alarm.
        drop: bool = false;
        /// Alarms that are listed.
        alarms: u64 = 64, in 1..=4096;
    }
}

/// What an alarm is about: the host that is flooded, if it is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flood(Option<IpAddr>);

impl fmt::Display for Flood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(host) => write!(f, "flood to {host}"),
            None => f.write_str("flood to many hosts"),
        }
    }
}

impl Flood {
    fn is_at(self, host: IpAddr) -> bool {
        self.0.is_none_or(|flooded| flooded == host)
    }
}

/// What is counted in a period.
#[derive(Clone, Debug, Default)]
struct Period {
    openings: u64,
    closings: u64,
    hosts: Frequent,
}

impl Period {
    /// What the excess goes to, and the openings that tell of it.
    fn flood(&self) -> (Flood, u64) {
        let excess = self.openings.saturating_sub(self.closings);
        match self.hosts.first() {
            Some((host, openings)) if openings >= excess.div_ceil(2) => (Flood(Some(host)), openings),
            _ => (Flood(None), self.openings),
        }
    }
}

/// What all instances share and change.
#[derive(Debug)]
struct State {
    time: PacketTime,
    /// When the period ends.
    end: Time,
    period: Period,
    cusum: Cusum,
    /// What is flooded, while there is an alarm, and the number of that.
    flood: Option<(Flood, usize)>,
    alarms: Alarms<Flood>,
    /// Whether the period that the run ends in was judged.
    ended: bool,
}

/// What periods that are over come to.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// There is no alarm any more, or still none.
    Calm,
    /// An alarm goes on.
    Same,
    /// There is an alarm about this, which so many openings led to.
    Flood(Flood, u64),
}

impl State {
    /// Ends the period, and judges it.
    fn judge(&mut self) -> Outcome {
        let period = core::mem::take(&mut self.period);
        match self.cusum.close(period.openings, period.closings) {
            Judgement { alarm: false, .. } => Outcome::Calm,
            // What the last packets of a period go to when the flood is over does not tell what was flooded.
            Judgement { rising: false, .. } if self.flood.is_some() => Outcome::Same,
            Judgement { .. } => {
                let (flood, openings) = period.flood();
                if self.flood.is_some_and(|(known, _)| known == flood) {
                    Outcome::Same
                } else {
                    Outcome::Flood(flood, openings)
                }
            }
        }
    }
}

/// What all instances share.
#[derive(Debug)]
struct Shared {
    period: Time,
    closing: u8,
    drop: bool,
    state: Mutex<State>,
}

/// The SYN flood detector. See the [module](self) for what it does.
#[derive(Debug)]
pub struct Synflood {
    shared: Arc<Shared>,
    /// What came to this instance.
    openings: u64,
    closings: u64,
    /// Packets of which too little was captured to tell whether they open or close a connection.
    cut_packets: u64,
    seen: Seen,
}

impl Clone for Synflood {
    /// An instance like it, which has seen no frame.
    fn clone(&self) -> Self {
        Self::with(Arc::clone(&self.shared), self.seen.anew())
    }
}

impl Build for Synflood {
    type Params = SynfloodParams;

    const INFO: Info = Info {
        name: "synflood",
        summary: "SYN flood detector: the cumulative sum of connections opened and not closed, over what is closed on average",
        source: "Wang, Zhang and Shin, Detecting SYN flooding attacks (INFOCOM 2002); RFC 9293 (flags)",
    };

    fn new(params: &SynfloodParams) -> Result<Self, ServiceError> {
        let fixed = |value: f64| (value * ONE as f64).round() as u64;
        let limits = Limits {
            offset: fixed(params.offset),
            threshold: fixed(params.threshold),
            keep: fixed(params.keep),
            floor: params.floor * ONE,
        };
        let period = Time::from_ns((params.period * 1e9).round() as u64);
        let state = State {
            time: PacketTime::default(),
            end: period,
            period: Period::default(),
            cusum: Cusum::new(limits),
            flood: None,
            alarms: Alarms::new(params.alarms as usize),
            ended: false,
        };
        let closing = if params.reset { flag::FIN | flag::RST } else { flag::FIN };
        let shared = Shared { period, closing, drop: params.drop, state: Mutex::new(state) };
        Ok(Self::with(Arc::new(shared), Seen::new(params.alarms as usize)))
    }
}

impl Synflood {
    fn with(shared: Arc<Shared>, seen: Seen) -> Self {
        Self { shared, openings: 0, closings: 0, cut_packets: 0, seen }
    }

    /// Ends the periods that are over when a segment of this time comes.
    fn close_until(&mut self, state: &mut State, time: Time) {
        let now = state.time.advance(time);
        if now < state.end {
            return;
        }
        let behind = now.since(state.end);
        let outcome = state.judge();
        self.take_in(state, outcome, time.since(behind));
        let empty = behind.as_ns() / self.shared.period.as_ns();
        if empty > 0 {
            state.cusum.close_empty(empty - 1);
            let outcome = state.judge();
            self.take_in(state, outcome, time.since(behind));
        }
        state.end += Time::from_ns((empty + 1).saturating_mul(self.shared.period.as_ns()));
    }

    /// Raises an alarm that was found at the end of a period, at this time of packets.
    fn take_in(&mut self, state: &mut State, outcome: Outcome, time: Time) {
        match outcome {
            Outcome::Calm => state.flood = None,
            Outcome::Same => {}
            Outcome::Flood(flood, openings) => {
                let number = self.seen.raise(&mut state.alarms, flood, time, openings);
                state.flood = Some((flood, number));
            }
        }
    }

    /// Takes in a segment that opens or closes; whether it is part of a flood that there is an alarm about.
    fn segment(&mut self, segment: &Segment, frame: &Frame) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut state = lock(&shared.state);
        self.close_until(&mut state, frame.time);
        if !segment.has(flag::SYN) {
            self.closings += 1;
            state.period.closings += 1;
            return false;
        }
        self.openings += 1;
        state.period.openings += 1;
        let (_, host) = segment.addresses(frame);
        state.period.hosts.add(host);
        let Some((_, number)) = state.flood.filter(|(flood, _)| flood.is_at(host)) else { return false };
        self.seen.add(number, 1);
        true
    }
}

impl Service for Synflood {
    fn process(&mut self, frame: &mut Frame, context: &Context, _: &mut Generated) -> Verdict {
        let Some(segment) = Segment::of(frame, context) else {
            self.cut_packets += u64::from(is_cut(frame));
            return Verdict::Forward;
        };
        if !segment.has(flag::SYN | self.shared.closing) {
            return Verdict::Forward;
        }
        let flooding = self.segment(&segment, frame);
        if flooding && self.shared.drop { Verdict::Drop(DropReason::Flood) } else { Verdict::Forward }
    }

    fn counters(&self) -> Vec<Counter> {
        let mut counters = vec![Counter::new("openings", self.openings), Counter::new("closings", self.closings)];
        let mut state = lock(&self.shared.state);
        let mut seen = self.seen.clone();
        // By the first instance that is asked: the others would tell of the same alarm again.
        if !core::mem::replace(&mut state.ended, true) {
            let time = state.time.latest();
            if let Outcome::Flood(flood, openings) = state.judge() {
                seen.raise(&mut state.alarms, flood, time, openings);
            }
        }
        counters.extend(cut_packets(self.cut_packets));
        counters.extend(seen.counters(&state.alarms));
        counters
    }
}
