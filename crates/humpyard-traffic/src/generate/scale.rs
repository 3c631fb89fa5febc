//! `scale`: the traffic of a capture, with more or fewer flows.

use core::sync::atomic::{AtomicBool, Ordering};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use humpyard_core::frame::{Frame, LinkType};
use humpyard_core::params;
use humpyard_core::random::{Random, Seed};
use humpyard_core::unit::Time;

use super::permutation::Permutation;
use super::profile::{OpenedSource, Opener, Profile};
use super::rewrite;
use super::specification::Specification;
use crate::error::TrafficError;
use crate::header::{Headers, KeyHasher};
use crate::source::Source;

params! {
    /// Parameters of scaled traffic.
    pub(super) struct ScaleParams {
        /// How many times as many flows there are to be.
        factor: f64 = 2.0, in 0.0001..=256.0;
        /// What is scaled: a capture file, or a generated source.
        input: Specification = Specification("gen:poisson".into());
    }
}

pub(super) struct Scale;

impl Profile for Scale {
    const NAME: &'static str = "scale";
    const SUMMARY: &'static str = "the traffic of a capture with several times as many flows, each as it was";
    const SOURCE: &'static str = "Barakat, Thiran, Iannaccone, Diot, Owezarski. Modeling Internet backbone traffic at the flow level. \
         2003; the Everest paper scales its traces so. The arrival rate of flows is multiplied and every flow keeps its packets \
         and gaps: the mean rate becomes s times, its standard deviation sqrt(s) times what it was. Copies of the capture, each \
         turned in time by another amount, are laid over it, the last one thinned to a fraction of its connections; below 1 the \
         capture itself is thinned. Copies have addresses of their own. The input is read once before and up to twice for each \
         copy; memory does not depend on its length.";
    type Params = ScaleParams;

    fn open(params: &ScaleParams, seed: Seed, description: String, open: Opener) -> OpenedSource {
        Ok(Box::new(Scaled {
            description,
            ..scaled(&params.input.text(), params.factor, seed, &AtomicBool::new(false), open)?
        }))
    }
}

/// Scales the traffic of a source that `open` opens.
pub(crate) fn scaled(
    input: &str,
    factor: f64,
    seed: Seed,
    stop: &AtomicBool,
    open: Opener,
) -> Result<Scaled, TrafficError> {
    if !(0.0001..=256.0).contains(&factor) {
        return Err(TrafficError::usage(format!("the factor lies between 0.0001 and 256, and is not {factor}")));
    }
    let is_again = input.starts_with("gen:") || std::fs::metadata(input).is_ok_and(|data| data.is_file());
    if input == "-" || (!is_again && std::fs::metadata(input).is_ok_and(|data| !data.is_dir())) {
        let reason =
            format!("`{input}` is read more than once to be scaled, and a pipe cannot be; write it to a file first");
        return Err(TrafficError::usage(reason));
    }
    let mut survey = Survey::of(&mut *open(input, seed)?, stop)?;
    let turns = turns(factor, survey.lasts_ns, &mut seed.stream("traffic/scale"));
    let maps = 2 * (turns.len() as u64 - 1);
    let mut random = seed.stream("traffic/scale/addresses");
    let ipv4 = survey.ipv4.plan(maps, input, &mut random)?;
    let ipv6 = survey.ipv6.plan(maps, input, &mut random)?;
    let mut scaled = Scaled {
        description: format!("{input} scaled by {factor}"),
        first: survey.first,
        lasts_ns: survey.lasts_ns,
        damage: survey.damage.take(),
        copies: Vec::new(),
        next: BinaryHeap::new(),
        latest_ns: 0,
    };
    let maps = std::sync::Arc::new([ipv4, ipv6]);
    for (number, turn) in turns.into_iter().enumerate() {
        let mut copy = Replica {
            input: input.to_owned(),
            seed,
            open,
            source: open(input, seed)?,
            turn,
            number: number as u64,
            hasher: KeyHasher::new(Seed(seed.0 ^ (number as u64 + 1))),
            maps: maps.clone(),
            turned: false,
            first: scaled.first,
            lasts_ns: scaled.lasts_ns,
            latest: Time::ZERO,
            frame: Frame::default(),
        };
        if let Some(time_ns) = copy.advance()? {
            scaled.next.push(Reverse((time_ns, number)));
        }
        scaled.copies.push(copy);
    }
    Ok(scaled)
}

/// A copy of the traffic.
struct Turn {
    /// Its start, in ns after the traffic's start; the traffic before this point follows behind its end.
    shift_ns: u64,
    /// The copy contains the connections whose hash is at most this.
    keep: u64,
}

/// Returns the traffic itself, and its copies.
fn turns(factor: f64, lasts_ns: u64, random: &mut Random) -> Vec<Turn> {
    let whole = factor as u64;
    let part = factor - whole as f64;
    let mut kept = vec![u64::MAX; whole as usize];
    if part > 0.0 {
        kept.push((part * u64::MAX as f64) as u64);
    }
    let all = kept.len() as f64;
    let one = |(number, keep): (usize, u64)| {
        // Copies are far apart, at irregular distances.
        let turned = (number as f64 - 0.5 + random.unit()) / all;
        Turn { shift_ns: if number == 0 { 0 } else { (turned * lasts_ns as f64) as u64 }, keep }
    };
    kept.into_iter().enumerate().map(one).collect()
}

/// Scaled traffic.
pub(crate) struct Scaled {
    description: String,
    first: Time,
    lasts_ns: u64,
    /// The damage of the input, if any.
    damage: Option<TrafficError>,
    copies: Vec<Replica>,
    /// The time of each copy's next packet, earliest first.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    latest_ns: u64,
}

impl Source for Scaled {
    fn next(&mut self, frame: &mut Frame) -> Result<bool, TrafficError> {
        let Some(mut top) = self.next.peek_mut() else {
            return self.damage.take().map_or(Ok(false), Err);
        };
        let Reverse((time_ns, number)) = *top;
        let copy = &mut self.copies[number];
        core::mem::swap(frame, &mut copy.frame);
        frame.time = Time::from_ns(self.first.as_ns().saturating_add(time_ns));
        match copy.advance()? {
            Some(next_ns) => *top = Reverse((next_ns, number)),
            None => {
                std::collections::binary_heap::PeekMut::pop(top);
            }
        }
        self.latest_ns = time_ns;
        Ok(true)
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn progress(&self) -> Option<f64> {
        Some(if self.next.is_empty() { 1.0 } else { self.latest_ns as f64 / self.lasts_ns as f64 })
    }
}

/// A copy's progress through the input.
struct Replica {
    input: String,
    seed: Seed,
    open: Opener,
    source: Box<dyn Source + Send>,
    turn: Turn,
    number: u64,
    hasher: KeyHasher,
    maps: std::sync::Arc<[Maps; 2]>,
    /// Whether it has passed the end of the input, and continues at its start.
    turned: bool,
    first: Time,
    lasts_ns: u64,
    latest: Time,
    /// The next packet.
    frame: Frame,
}

impl Replica {
    /// Reads this copy's next packet. Returns its time, from the start on.
    fn advance(&mut self) -> Result<Option<u64>, TrafficError> {
        let shift_ns = self.turn.shift_ns;
        loop {
            let more = match self.source.next(&mut self.frame) {
                Ok(more) => more,
                Err(error) if error.is_damage() => false,
                Err(error) => return Err(error),
            };
            // A clock that goes back stands still.
            self.latest = self.latest.max(self.frame.time);
            let elapsed_ns = self.latest.since(self.first).as_ns();
            if !more || (self.turned && elapsed_ns >= shift_ns) {
                if self.turned || shift_ns == 0 {
                    return Ok(None);
                }
                self.source = (self.open)(&self.input, self.seed)?;
                self.turned = true;
                self.latest = Time::ZERO;
                continue;
            }
            if !self.turned && elapsed_ns < shift_ns {
                continue;
            }
            if self.take() {
                let turn_ns = if self.turned { self.lasts_ns } else { 0 };
                return Ok(Some((elapsed_ns + turn_ns).saturating_sub(shift_ns)));
            }
        }
    }

    /// Returns whether this copy contains the packet's connection, and if so changes the packet's addresses to
    /// the copy's.
    fn take(&mut self) -> bool {
        let headers = Headers::parse(&self.frame);
        if self.turn.keep < u64::MAX && self.hasher.flow(&headers.key.connection()) > self.turn.keep {
            return false;
        }
        if self.number == 0 {
            return true;
        }
        // A flow cut by the end of the input becomes two flows.
        let map = 2 * (self.number - 1) + u64::from(self.turned);
        let [ipv4, ipv6] = &*self.maps;
        let is_v4 = headers.version() == Some(4);
        let maps = if is_v4 { ipv4 } else { ipv6 };
        let changed = rewrite::addresses(&mut self.frame, &headers, |source, destination| {
            maps.change(source, map);
            maps.change(destination, map);
        });
        if !changed && self.frame.link == LinkType::Ethernet && self.frame.data.len() >= 12 {
            // The sender's hardware address becomes a local one.
            let number = (map as u16 + 1).to_be_bytes();
            self.frame.data[6] |= 2;
            self.frame.data[7] ^= number[0];
            self.frame.data[8] ^= number[1];
        }
        true
    }
}

/// The properties of the input that must be known first.
struct Survey {
    first: Time,
    /// Time from the first packet to one mean gap after the last, in ns.
    lasts_ns: u64,
    damage: Option<TrafficError>,
    ipv4: Prefixes,
    ipv6: Prefixes,
}

impl Survey {
    fn of(source: &mut dyn Source, stop: &AtomicBool) -> Result<Self, TrafficError> {
        let mut frame = Frame::default();
        let (mut first, mut latest, mut packets) = (None, Time::ZERO, 0);
        let (mut ipv4, mut ipv6) = (Prefixes::ipv4(), Prefixes::ipv6());
        let damage = loop {
            if stop.load(Ordering::Relaxed) {
                return Err(TrafficError::usage("interrupted while the input was read: nothing was done"));
            }
            match source.next(&mut frame) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) if error.is_damage() => break Some(error),
                Err(error) => return Err(error),
            }
            packets += 1;
            first.get_or_insert(frame.time);
            latest = latest.max(frame.time);
            let key = Headers::parse(&frame).key;
            match key.source_address() {
                Some(address) if address.is_ipv4() => {
                    [key.source, key.destination].iter().for_each(|one| ipv4.note(&one[..4]))
                }
                Some(_) => [key.source, key.destination].iter().for_each(|one| ipv6.note(one)),
                None => {}
            }
        };
        let first = first.unwrap_or(Time::ZERO);
        let lasted_ns = latest.since(first).as_ns();
        let lasts_ns = lasted_ns.saturating_add(lasted_ns / u64::max(packets, 1)).saturating_add(1);
        Ok(Self { first, lasts_ns, damage, ipv4, ipv6 })
    }
}

/// The 24-bit prefixes of the input's addresses.
struct Prefixes {
    what: &'static str,
    /// Offset of the prefix in an address, in bytes.
    at: usize,
    /// Prefixes of the input.
    used: Bits,
    /// These prefixes, and those that no copy may use.
    taken: Bits,
}

impl Prefixes {
    fn ipv4() -> Self {
        let mut taken = Bits::new();
        let reserved = [(0, 0x01_0000), (0x7f_0000, 0x80_0000), (0xa9_fe00, 0xa9_ff00), (0xe0_0000, 0x100_0000)];
        reserved.into_iter().for_each(|(from, to)| taken.set_range(from, to));
        Self { what: "IPv4", at: 0, used: Bits::new(), taken }
    }

    /// The first two bytes of an IPv6 address give its kind; the next ones distinguish sites.
    fn ipv6() -> Self {
        Self { what: "IPv6", at: 2, used: Bits::new(), taken: Bits::new() }
    }

    /// Returns whether an address belongs to one host, so that a copy may change it.
    fn is_host(address: &[u8]) -> bool {
        match address.len() {
            4 => (1..224).contains(&address[0]),
            _ => address[0] != 0xff && address[..15].iter().any(|&byte| byte != 0),
        }
    }

    fn prefix(&self, address: &[u8]) -> u32 {
        u32::from_be_bytes([0, address[self.at], address[self.at + 1], address[self.at + 2]])
    }

    /// Adds an address of the input.
    fn note(&mut self, address: &[u8]) {
        if Self::is_host(address) {
            let prefix = self.prefix(address);
            self.used.set(prefix);
            self.taken.set(prefix);
        }
    }

    /// Prepares this many maps to free prefixes. The prefixes look random, so that linear hashes spread the
    /// copies.
    fn plan(mut self, maps: u64, input: &str, random: &mut Random) -> Result<Maps, TrafficError> {
        self.used.count();
        self.taken.count();
        let (used, free) = (self.used.ones(), Bits::SIZE - self.taken.ones());
        if used * maps > free {
            return Err(TrafficError::usage(format!(
                "{input}: {used} {} prefixes in use leave {free}, too few for the copies; use a factor up to {}",
                self.what,
                free / used / 2 + 1
            )));
        }
        Ok(Maps { spread: Permutation::new(free.max(1), random), prefixes: self })
    }
}

/// The prefixes of the copies, for those of the input.
struct Maps {
    prefixes: Prefixes,
    /// A permutation of the ranks of the free prefixes.
    spread: Permutation,
}

impl Maps {
    /// Writes the prefix of this map into an address. All prefixes of all maps are different.
    fn change(&self, address: &mut [u8], map: u64) {
        let Prefixes { at, used, taken, .. } = &self.prefixes;
        if Prefixes::is_host(address) {
            let rank = map * used.ones() + used.ones_before(self.prefixes.prefix(address));
            let prefix = taken.zero(self.spread.of(rank)).to_be_bytes();
            address[*at..at + 3].copy_from_slice(&prefix[1..]);
        }
    }
}

/// A set of 24-bit numbers, with the count of members below each number.
struct Bits {
    words: Vec<u64>,
    /// Members before each word, and in all; computed by [`Bits::count`].
    before: Vec<u32>,
}

impl Bits {
    const SIZE: u64 = 1 << 24;

    fn new() -> Self {
        Self { words: vec![0; Self::SIZE as usize / 64], before: Vec::new() }
    }

    fn set(&mut self, number: u32) {
        self.words[number as usize / 64] |= 1 << (number % 64);
    }

    fn set_range(&mut self, from: u32, to: u32) {
        (from..to).for_each(|number| self.set(number));
    }

    fn count(&mut self) {
        let mut ones = 0;
        self.before = vec![0];
        self.before.extend(self.words.iter().map(|word| {
            ones += word.count_ones();
            ones
        }));
    }

    fn ones(&self) -> u64 {
        u64::from(self.before.last().copied().unwrap_or(0))
    }

    fn ones_before(&self, number: u32) -> u64 {
        let (word, bit) = (number as usize / 64, number % 64);
        u64::from(self.before[word]) + u64::from((self.words[word] & ((1 << bit) - 1)).count_ones())
    }

    /// Returns the number that is not in the set and has this many such numbers below it.
    fn zero(&self, rank: u64) -> u32 {
        let zeros_before = |word: usize| 64 * word as u64 - u64::from(self.before[word]);
        let (mut low, mut high) = (0, self.words.len());
        while high - low > 1 {
            let middle = low.midpoint(high);
            if zeros_before(middle) <= rank {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut zeros = !self.words[low];
        for _ in 0..rank - zeros_before(low) {
            zeros &= zeros - 1;
        }
        low as u32 * 64 + zeros.trailing_zeros()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::packet::tests::{all_of, assert_sound};
    use super::*;
    use crate::header::FlowKey;
    use crate::opening::{open, scale};

    fn by_connection(frames: &[Frame]) -> BTreeMap<FlowKey, Vec<Frame>> {
        let mut found: BTreeMap<FlowKey, Vec<Frame>> = BTreeMap::new();
        for frame in frames {
            found.entry(Headers::parse(frame).key.connection()).or_default().push(frame.clone());
        }
        found
    }

    const INPUT: &str = "gen:messages:packets=20000,flows=400";

    #[test]
    fn copies_are_whole_sound_in_order_and_distinct() {
        let original = all_of(&mut *open(INPUT, Seed(1)).unwrap());
        let scaled = all_of(&mut *scale(INPUT, 3.0, Seed(1), &AtomicBool::new(false)).unwrap());
        assert_eq!(scaled.len(), 3 * original.len());
        assert!(scaled.windows(2).all(|pair| pair[0].time <= pair[1].time));
        scaled.iter().for_each(assert_sound);
        let (before, after) = (by_connection(&original), by_connection(&scaled));
        // The original traffic is unchanged.
        for (key, frames) in &before {
            assert_eq!(&after[key], frames);
        }
        // Flows that were active where a copy was cut are two flows.
        let cut = after.len() - 3 * before.len();
        assert!(cut <= 2 * 450, "{cut}");
        let hosts = |keys: &BTreeMap<FlowKey, Vec<Frame>>| -> BTreeSet<[u8; 16]> {
            keys.keys().flat_map(|key| [key.source, key.destination]).collect()
        };
        assert!(hosts(&after).len() >= 3 * hosts(&before).len(), "copies share no address with the original");
    }

    #[test]
    fn a_copy_keeps_the_gaps_of_a_flow() {
        let gaps = |frames: &Vec<Frame>| -> Vec<(u32, u64)> {
            frames.windows(2).map(|pair| (pair[1].wire_length, pair[1].time.since(pair[0].time).as_ns())).collect()
        };
        let original = by_connection(&all_of(&mut *open(INPUT, Seed(1)).unwrap()));
        let scaled = by_connection(&all_of(&mut *scale(INPUT, 2.0, Seed(1), &AtomicBool::new(false)).unwrap()));
        let mut known: BTreeMap<Vec<(u32, u64)>, u32> = BTreeMap::new();
        scaled.values().for_each(|frames| *known.entry(gaps(frames)).or_default() += 1);
        let twice = original.values().filter(|frames| known[&gaps(frames)] >= 2).count();
        assert!(twice * 10 > original.len() * 7, "{twice} of {}", original.len());
    }

    #[test]
    fn a_fraction_keeps_whole_connections() {
        let original = by_connection(&all_of(&mut *open(INPUT, Seed(1)).unwrap()));
        let scaled = by_connection(&all_of(&mut *scale(INPUT, 0.4, Seed(1), &AtomicBool::new(false)).unwrap()));
        assert!((scaled.len() as f64 / original.len() as f64 - 0.4).abs() < 0.05);
        for (key, frames) in &scaled {
            assert_eq!(&original[key], frames);
        }
    }

    #[test]
    fn what_cannot_be_scaled_says_why() {
        for (input, factor, expected) in [
            ("-", 2.0, "a pipe cannot be"),
            ("/no/such.pcap", 2.0, "there is no such file"),
            ("gen:poisson", 0.0, "between 0.0001 and 256"),
            ("gen:poisson", f64::NAN, "between 0.0001 and 256"),
        ] {
            let error = scale(input, factor, Seed(1), &AtomicBool::new(false)).err().expect(input).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_is_stopped_ends_in_the_first_reading() {
        let endless = "gen:poisson:packets=1000000000000";
        let error = scale(endless, 2.0, Seed(1), &AtomicBool::new(true)).err().unwrap().to_string();
        assert!(error.contains("interrupted"), "{error}");
    }

    #[test]
    fn nothing_scales_to_nothing() {
        assert!(
            all_of(&mut *scale("gen:poisson:packets=0", 2.5, Seed(1), &AtomicBool::new(false)).unwrap()).is_empty()
        );
    }

    #[test]
    fn bits_rank_and_select_as_a_naive_set_does() {
        let mut bits = Bits::new();
        let mut random = Seed(4).stream("test");
        let set: BTreeSet<u32> = (0..5_000).map(|_| random.below(20_000) as u32).collect();
        set.iter().for_each(|&number| bits.set(number));
        bits.count();
        assert_eq!(bits.ones(), set.len() as u64);
        let mut zeros = 0;
        for number in 0..21_000 {
            assert_eq!(bits.ones_before(number), set.range(..number).count() as u64);
            if !set.contains(&number) {
                assert_eq!(bits.zero(zeros), number);
                zeros += 1;
            }
        }
        assert_eq!(bits.zero(Bits::SIZE - bits.ones() - 1), Bits::SIZE as u32 - 1);
    }

    #[test]
    fn maps_never_meet() {
        let mut prefixes = Prefixes::ipv4();
        let used = [[10, 0, 0, 1], [10, 0, 1, 1], [192, 168, 1, 9], [255, 255, 255, 255]];
        used.iter().for_each(|address| prefixes.note(address));
        let random = || Seed(1).stream("test");
        let maps = prefixes.plan(6, "test", &mut random()).unwrap();
        let mut seen: BTreeSet<[u8; 4]> = used.into();
        for map in 0..6 {
            for mut address in used {
                maps.change(&mut address, map);
                let special = address == [255; 4];
                assert!(special || seen.insert(address), "{address:?}");
                assert!(special || Prefixes::is_host(&address));
            }
        }
        let refused = maps.prefixes.plan(10_000_000, "test", &mut random()).err().unwrap();
        assert!(refused.to_string().contains("use a factor up to"));
    }
}
