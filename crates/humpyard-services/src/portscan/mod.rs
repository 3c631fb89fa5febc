//! Detects port scans: sources that try many ports of one host, or many hosts at one port.
//!
//! # Work
//! An attempt is a TCP segment with neither ACK nor RST: a SYN that asks for a connection, or a segment that
//! only scanners send (without flags, with FIN alone, with FIN, PSH and URG).
//!
//! For each pair of source and host, the detector keeps the different ports tried within `window`; for each
//! pair of source and port, the different hosts. It raises an alarm at `ports` ports (a vertical scan) or
//! `hosts` hosts (a horizontal scan). Packets pass unchanged. With `drop=true`, the attempts of a scan are
//! dropped, from the one that raises the alarm on.
//!
//! With `unused=` there is a third alarm, for a worm that spreads over the network. A source that tries to
//! reach two unused addresses is a victim of the worm. The detector compares the new victims in an interval
//! with their mean over the last `history` intervals. If they exceed the mean by `deviations` standard
//! deviations, in `intervals` intervals in a row, it raises the alarm.
//!
//! Alarms are counters of the result: `alarm_01 vertical SOURCE to HOST at SECONDS`, with the number of
//! attempts before and after the alarm. The seconds are those of the packet that raised it.
//!
//! # Source
//! Wu, Vangala, Gao and Kwiat (NDSS 2004), which the Everest paper names: the victims, and the detection of
//! scans by the number of different targets. Its constants are parameters here, because it gives none that suit
//! every network.
//!
//! # Delay and misses
//! A window begins with an attempt. After its end, the next attempt begins another. So a source that tries `k`
//! or more different targets in each `window` is found at the `k`th target. A source that tries fewer is never
//! found. Up to 2k-2 targets within one `window`, spread over the ends of two windows, may be missed.
//!
//! # Memory
//! `entries` pairs of each kind, in sets of four. If all four are taken, the pair with the oldest last attempt
//! is evicted, and its window starts again. So a flood from many addresses can hide scans, but no alarm can be
//! wrong. `alarms` alarms are listed; packets of further alarms are only counted.
//!
//! # Several workers
//! All instances share the table. It has parts by source, with a lock each, which only attempts take. Time is
//! that of the packets. If one worker is ahead of another by much of a window, as in a capture read at full
//! speed, attempts are counted late or not at all.
//!
//! # Departures
//! * TCP only: a UDP datagram does not show whether it is a request or an answer.
//! * Time is that of the packets. While it is set back, it stands still.

mod victims;
mod windows;

use core::fmt;
use core::net::IpAddr;
use std::sync::{Arc, Mutex};

use humpyard_core::frame::Frame;
use humpyard_core::hash::mix;
use humpyard_core::params;
use humpyard_core::policy::ParameterValue;
use humpyard_core::unit::Time;
use ipnet::IpNet;

use self::victims::{Limits, Victims};
use self::windows::{Step, Windows};
use crate::alarms::{Alarms, Seen, lock};
use crate::packet_time::PacketTime;
use crate::segment::{Segment, cut_packets, flag, hash, is_cut};
use crate::service::{Build, Context, Counter, DropReason, Generated, Info, Service, ServiceError, Verdict};

params! {
    /// Parameters of the port scan detector.
    pub struct PortscanParams {
        /// Different ports of one host that a source tries within `window` when an alarm is raised.
        ports: u64 = 64, in 2..=1024;
        /// Different hosts that a source tries at one port within `window` when an alarm is raised.
        hosts: u64 = 64, in 2..=1024;
        /// How long attempts count, by the times of packets.
        window: f64 = 60.0, in 0.001..=86400.0, unit "s";
        /// Pairs of source and host, and of source and port, that are remembered.
        entries: u64 = 16_384, in 64..=262_144;
        /// Whether the attempts of a scan are dropped once it is known.
        drop: bool = false;
        /// Alarms that are listed.
        alarms: u64 = 64, in 1..=4096;
        /// The prefixes of addresses that nobody has; without any there is no alarm about worms.
        unused: Prefixes = Prefixes(String::new());
        /// The interval of time in which new victims are counted.
        interval: f64 = 1.0, in 0.001..=86400.0, unit "s";
        /// Intervals that mean and standard deviation of new victims are over.
        history: u64 = 60, in 2..=4096;
        /// Standard deviations above the mean that are too many.
        deviations: f64 = 3.0, in 0.0..=1000.0;
        /// New victims in an interval that are never too many.
        victims: u64 = 2, in 0..=1_000_000;
        /// Intervals in a row with too many.
        intervals: u64 = 3, in 1..=1000;
    }
}

/// The text of prefixes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Debug)]
pub struct Prefixes(pub String);

/// Accepts every text; the service reports a wrong prefix more precisely.
impl ParameterValue for Prefixes {
    const ACCEPTS: &'static str = "prefixes separated by `;`, or nothing";

    fn parse(text: &str) -> Option<Self> {
        Some(Self(text.into()))
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

impl Prefixes {
    fn parsed(&self) -> Result<Vec<IpNet>, ServiceError> {
        let texts = self.0.split(';').map(str::trim).filter(|text| !text.is_empty());
        let wrong =
            |text: &str| ServiceError::new(format!("portscan: `unused`: `{text}` is no prefix, such as 10.0.0.0/8"));
        texts.map(|text| text.parse().map_err(|_| wrong(text))).collect()
    }
}

/// Parts of the table, by source, each with a lock of its own.
const PARTS: usize = 16;

/// The subject of an alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scan {
    /// A source tries many ports of a host.
    Vertical(IpAddr, IpAddr),
    /// A source tries many hosts at a port.
    Horizontal(IpAddr, u16),
    /// More and more sources try unused addresses.
    Worm,
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vertical(source, host) => write!(f, "vertical {source} to {host}"),
            Self::Horizontal(source, port) => write!(f, "horizontal {source} to port {port}"),
            Self::Worm => f.write_str("worm"),
        }
    }
}

/// One part of the table.
#[derive(Debug)]
struct Sources {
    time: PacketTime,
    vertical: Windows,
    horizontal: Windows,
}

/// The state that all instances share.
#[derive(Debug)]
struct Shared {
    drop: bool,
    parts: Box<[Mutex<Sources>]>,
    unused: Vec<IpNet>,
    victims: Mutex<Victims>,
    alarms: Mutex<Alarms<Scan>>,
}

/// The port scan detector; see the [module](self).
#[derive(Debug)]
pub struct Portscan {
    shared: Arc<Shared>,
    /// Attempts seen by this instance.
    attempts: u64,
    /// Attempts at unused addresses among them.
    attempts_unused: u64,
    /// Packets cut off before the fields that show an attempt.
    cut_packets: u64,
    seen: Seen,
}

impl Clone for Portscan {
    /// Returns another instance, which shares the table.
    fn clone(&self) -> Self {
        Self::with(Arc::clone(&self.shared), self.seen.anew())
    }
}

impl Build for Portscan {
    type Params = PortscanParams;

    const INFO: Info = Info {
        name: "portscan",
        summary: "port scan detector: sources that try many ports of a host, or many hosts at a port, within a window",
        source: "Wu, Vangala, Gao and Kwiat (NDSS 2004), as in the Everest paper; RFC 9293 (flags)",
    };

    fn new(params: &PortscanParams) -> Result<Self, ServiceError> {
        let entries = (params.entries as usize).div_ceil(PARTS);
        let window = seconds(params.window);
        let part = || {
            Mutex::new(Sources {
                time: PacketTime::default(),
                vertical: Windows::new(entries, params.ports as usize, window),
                horizontal: Windows::new(entries, params.hosts as usize, window),
            })
        };
        let limits = Limits {
            interval: seconds(params.interval),
            deviations_milli: (params.deviations * 1e3) as u64,
            victims: params.victims,
            intervals: params.intervals,
        };
        let unused = params.unused.parsed()?;
        // Without unused addresses, there are no victims to remember.
        let sources = if unused.is_empty() { 1 } else { params.entries as usize };
        let shared = Shared {
            drop: params.drop,
            parts: (0..PARTS).map(|_| part()).collect(),
            unused,
            victims: Mutex::new(Victims::new(limits, params.history as usize, sources)),
            alarms: Mutex::new(Alarms::new(params.alarms as usize)),
        };
        Ok(Self::with(Arc::new(shared), Seen::new(params.alarms as usize)))
    }
}

/// Returns a time span given in seconds.
fn seconds(value: f64) -> Time {
    Time::from_ns((value * 1e9).round() as u64)
}

impl Portscan {
    fn with(shared: Arc<Shared>, seen: Seen) -> Self {
        Self { shared, attempts: 0, attempts_unused: 0, cut_packets: 0, seen }
    }

    /// Handles an attempt. Returns whether it belongs to a scan with an alarm.
    fn attempt(&mut self, source: IpAddr, host: IpAddr, port: u16, time: Time) -> bool {
        self.attempts += 1;
        let shared = Arc::clone(&self.shared);
        if shared.unused.iter().any(|prefix| prefix.contains(&host)) {
            self.unused(&shared, source, time);
        }
        let (source_hash, host_hash) = (hash(source), hash(host));
        let mut part = lock(&shared.parts[(source_hash >> 60) as usize % PARTS]);
        let now = part.time.advance(time);
        let Sources { vertical, horizontal, .. } = &mut *part;
        // The two keys of a source differ even if port and address are the same number.
        let step = vertical.attempt(mix(source_hash ^ host_hash.rotate_left(1)), u32::from(port), now);
        let is_vertical = self.alarmed(&shared, step, Scan::Vertical(source, host), time);
        let step = horizontal.attempt(mix(source_hash.wrapping_add(u64::from(port))), host_hash as u32, now);
        let is_horizontal = self.alarmed(&shared, step, Scan::Horizontal(source, port), time);
        is_vertical || is_horizontal
    }

    /// Returns whether there is an alarm after this step.
    fn alarmed(&mut self, shared: &Shared, step: Step<'_>, scan: Scan, time: Time) -> bool {
        match step {
            Step::Few => return false,
            Step::Known(number) => self.seen.add(number, 1),
            Step::Reached { attempts, alarm } => {
                *alarm = Some(self.seen.raise(&mut lock(&shared.alarms), scan, time, attempts));
            }
        }
        true
    }

    /// Handles an attempt at an unused address.
    fn unused(&mut self, shared: &Shared, source: IpAddr, time: Time) {
        self.attempts_unused += 1;
        if let Some(victims) = lock(&shared.victims).attempt(hash(source), time) {
            self.seen.raise(&mut lock(&shared.alarms), Scan::Worm, time, victims);
        }
    }
}

impl Service for Portscan {
    fn process(&mut self, frame: &mut Frame, context: &Context, _: &mut Generated) -> Verdict {
        let Some(segment) = Segment::of(frame, context) else {
            self.cut_packets += u64::from(is_cut(frame));
            return Verdict::Forward;
        };
        if segment.has(flag::ACK | flag::RST) {
            return Verdict::Forward;
        }
        let (source, host) = segment.addresses(frame);
        let alarmed = self.attempt(source, host, segment.port, frame.time);
        if alarmed && self.shared.drop { Verdict::Drop(DropReason::Scan) } else { Verdict::Forward }
    }

    fn counters(&self) -> Vec<Counter> {
        let mut counters = vec![Counter::new("attempts", self.attempts)];
        if !self.shared.unused.is_empty() {
            counters.push(Counter::new("attempts_unused", self.attempts_unused));
        }
        counters.extend(cut_packets(self.cut_packets));
        counters.extend(self.seen.counters(&lock(&self.shared.alarms)));
        counters
    }
}
