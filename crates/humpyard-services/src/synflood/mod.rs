//! Detects SYN floods: more connections are opened than closed.
//!
//! # Work
//! In each `period`, the detector counts opening segments (SYN and SYN/ACK) and closing ones (FIN, and RST
//! unless `reset=false`). F is the exponential average of the closing ones, at least `floor`. X is openings
//! minus closings, over F. In a flood, the sum y = max(0, y + X - `offset`) is above `threshold`.
//!
//! While it is above, there is an alarm. The alarm names the host that gets at least half of the excess, if
//! there is one. Packets pass unchanged. With `drop=true`, segments with SYN to that host (to any host, if none
//! is named) are dropped while the alarm lasts.
//!
//! Alarms are counters of the result: `alarm_01 flood to HOST at SECONDS`, or `flood to many hosts`. The count
//! is the segments with SYN: those of the period that raised the alarm, as far as they were counted by host,
//! and those to the host while it lasted. The seconds are the end of that period. The last period of a run may
//! be incomplete, and is judged as it is.
//!
//! # Source
//! Wang, Zhang and Shin, *Detecting SYN flooding attacks* (INFOCOM 2002): the generalised SYN, F, X, the sum, a
//! = .35, N = 1.05. Periods are 1 s here, not 20 s.
//!
//! # Delay and false alarms
//! Let a flood have f segments/s, and let other connections be closed as fast as they are opened. The flood is
//! found at the end of the first period k with k (f/F - a) > N. With f = 2F, that is the first period that is
//! all flood; with f = .7F, the fourth. With f < aF, it is never found.
//!
//! There is no alarm while no period has X > a. With independent periods of mean 0 and standard deviation s, a
//! false alarm in a period has a probability below exp(-2aN/s²), as for a random walk that exceeds N.
//!
//! # Memory
//! Sixteen hosts are counted in a period (Misra and Gries), for any number of hosts; `alarms` alarms are
//! listed.
//!
//! # Several workers
//! All instances share the counts, with a lock that only segments with SYN, FIN or RST take. The period ends
//! for all with the first such segment after it. If one worker is ahead of another by a period, as in a capture
//! read at full speed, segments count in a wrong period.
//!
//! # Departures
//! * The paper counts three of four RST; here all count, or none. A flood that the host answers with RST looks
//!   like closed connections, and so does a flood with as many FIN: neither is found.
//! * The sum is at most 2N, so that an alarm ends at most N/a periods after the flood (three).
//! * A scan of ports that do not answer counts as a flood, too; `portscan` distinguishes them.
//! * Time is that of the packets. While it is set back, it stands still.

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

/// The subject of an alarm: the flooded host. `None`: many hosts.
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

/// The counts of a period.
#[derive(Clone, Debug, Default)]
struct Period {
    openings: u64,
    closings: u64,
    hosts: Frequent,
}

impl Period {
    /// Returns the target of the excess, and the openings that show it.
    fn flood(&self) -> (Flood, u64) {
        let excess = self.openings.saturating_sub(self.closings);
        match self.hosts.first() {
            Some((host, openings)) if openings >= excess.div_ceil(2) => (Flood(Some(host)), openings),
            _ => (Flood(None), self.openings),
        }
    }
}

/// The mutable state that all instances share.
#[derive(Debug)]
struct State {
    time: PacketTime,
    /// The end of the period.
    end: Time,
    period: Period,
    cusum: Cusum,
    /// The current flood, and the number of its alarm. `None`: there is no alarm.
    flood: Option<(Flood, usize)>,
    alarms: Alarms<Flood>,
    /// Whether the last period of the run was judged.
    ended: bool,
}

/// The result of the periods that ended.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// There is no alarm.
    Calm,
    /// The alarm continues.
    Same,
    /// There is an alarm about this flood, with this many openings.
    Flood(Flood, u64),
}

impl State {
    /// Ends the period, and judges it.
    fn judge(&mut self) -> Outcome {
        let period = core::mem::take(&mut self.period);
        match self.cusum.close(period.openings, period.closings) {
            Judgement { alarm: false, .. } => Outcome::Calm,
            // After the flood, the targets of the last packets of a period do not show the flooded host.
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

/// The state that all instances share.
#[derive(Debug)]
struct Shared {
    period: Time,
    closing: u8,
    drop: bool,
    state: Mutex<State>,
}

/// The SYN flood detector; see the [module](self).
#[derive(Debug)]
pub struct Synflood {
    shared: Arc<Shared>,
    /// Openings seen by this instance.
    openings: u64,
    closings: u64,
    /// Packets cut off before the flags.
    cut_packets: u64,
    seen: Seen,
}

impl Clone for Synflood {
    /// Returns another instance, which shares the counts.
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

    /// Ends the periods that are over at the time of this segment.
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

    /// Raises an alarm found at the end of a period, at this packet time.
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

    /// Handles a segment that opens or closes. Returns whether it belongs to a flood with an alarm.
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
        // Only the first instance judges the last period: the others would raise the same alarm again.
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
