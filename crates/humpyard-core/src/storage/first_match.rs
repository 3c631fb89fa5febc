//! The first of many rules that matches, found without trying all rules.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::steps;

/// Most rules in a leaf, which are tried one after the other.
const LEAF: usize = 8;
/// Most references to rules that splitting may make, for each rule and side: a range becomes
/// several prefixes.
const REFERENCES: usize = 64;

/// All 128-bit numbers that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix {
    length: u8,
    bits: u128,
}

impl Prefix {
    /// Returns the numbers whose first `length` bits, up to 128, equal those of `bits`.
    pub const fn new(bits: u128, length: u8) -> Self {
        let mask = if length == 0 { 0 } else { u128::MAX << (128 - length as u32) };
        Self { length, bits: bits & mask }
    }

    /// Converts a 16-bit number to the 128 bits that [`Self::of_range`] uses.
    pub const fn short(number: u16) -> u128 {
        (number as u128) << 112
    }

    /// Returns the prefixes that together cover the 16-bit numbers from `first` to `last`.
    pub fn of_range(first: u16, last: u16) -> impl Iterator<Item = Self> {
        let (mut next, end) = (u32::from(first), u32::from(last) + 1);
        core::iter::from_fn(move || {
            let left = end.checked_sub(next).filter(|&left| left > 0)?;
            // The largest block that begins here and fits into the rest.
            let bits = next.trailing_zeros().min(left.ilog2()).min(16);
            let prefix = Self::new(Self::short(next as u16), (16 - bits) as u8);
            next += 1 << bits;
            Some(prefix)
        })
    }
}

/// The condition of a rule: on each side one of the prefixes. An empty list accepts anything.
#[derive(Clone, Debug)]
pub struct Asked<const SIDES: usize> {
    /// The number of the rule. Rules come in ascending order; a rule with alternatives comes once
    /// for each.
    pub rule: u32,
    /// The prefixes that it accepts on each side.
    pub sides: [Vec<Prefix>; SIDES],
}

/// An index of rules by their conditions on several sides, such as addresses and ports.
///
/// The index is a tree. Each node divides its rules by their prefixes on one side. It chooses the
/// side that leaves the smallest part to search. A search visits one part for each prefix length
/// that occurs, and the part of the rules without a condition there. It skips parts whose lowest
/// rule comes after a rule already found. A leaf of up to eight rules, or of rules that no side
/// divides, is tried in order.
#[derive(Clone, Debug)]
pub struct FirstMatch<const SIDES: usize> {
    root: Node,
}

#[derive(Clone, Debug)]
struct Node {
    /// The lowest rule.
    least: u32,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Rules in ascending order.
    Leaf(Vec<u32>),
    Parted(Box<Parted>),
}

#[derive(Clone, Debug)]
struct Parted {
    side: usize,
    /// Lengths of the prefixes.
    lengths: Vec<u8>,
    /// Nodes by prefix, in ascending order.
    parts: Vec<(Prefix, Node)>,
    /// Rules without a condition on this side.
    rest: Option<Node>,
}

impl<const SIDES: usize> FirstMatch<SIDES> {
    /// Returns an index of these rules.
    pub fn new(asked: &[Asked<SIDES>]) -> Self {
        let mut left = asked.len().saturating_mul(REFERENCES * SIDES);
        Self { root: Node::new(asked, (0..asked.len() as u32).collect(), &mut left) }
    }

    /// Returns the lowest rule whose prefixes accept this point and for which `matches` returns
    /// true.
    #[inline]
    pub fn find(&self, point: &[u128; SIDES], mut matches: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut bound = u32::MAX;
        self.root.search(&point.each_ref().map(core::slice::from_ref), &mut bound, &mut matches);
        (bound < u32::MAX).then_some(bound)
    }

    /// Calls `visit` with the rules below `bound` that accept one of these points on each side.
    /// Once it returns true for a rule, that rule and higher ones are not visited any more. Rules
    /// may be visited twice, and in any order.
    pub fn visit(&self, points: &[&[u128]; SIDES], bound: u32, mut visit: impl FnMut(u32) -> bool) {
        self.root.search(points, &mut { bound }, &mut visit);
    }
}

impl Node {
    /// Builds the node of these entries; `left` is the number of references that may still be made.
    fn new<const SIDES: usize>(asked: &[Asked<SIDES>], entries: Vec<u32>, left: &mut usize) -> Self {
        let least = entries.first().map_or(u32::MAX, |&first| asked[first as usize].rule);
        let part = || {
            if entries.len() <= LEAF {
                return None;
            }
            let cuts = (0..SIDES).map(|side| Cut::of(asked, &entries, side));
            cuts.min_by_key(|cut| cut.largest).filter(|cut| cut.largest < entries.len() && cut.references() <= *left)
        };
        let kind = match part() {
            Some(cut) => Kind::Parted(Box::new(cut.part(asked, left))),
            None => {
                let mut rules: Vec<u32> = entries.iter().map(|&entry| asked[entry as usize].rule).collect();
                rules.dedup();
                Kind::Leaf(rules)
            }
        };
        Self { least, kind }
    }

    fn search<const SIDES: usize>(
        &self,
        points: &[&[u128]; SIDES],
        bound: &mut u32,
        matches: &mut impl FnMut(u32) -> bool,
    ) {
        if self.least >= *bound {
            return;
        }
        match &self.kind {
            Kind::Leaf(rules) => {
                for &rule in rules.iter().take_while(|&&rule| rule < *bound) {
                    steps::taken(1);
                    if matches(rule) {
                        *bound = rule;
                        return;
                    }
                }
            }
            Kind::Parted(parted) => parted.search(points, bound, matches),
        }
    }
}

impl Parted {
    fn search<const SIDES: usize>(
        &self,
        points: &[&[u128]; SIDES],
        bound: &mut u32,
        matches: &mut impl FnMut(u32) -> bool,
    ) {
        for &point in points[self.side] {
            for &length in &self.lengths {
                steps::taken(self.parts.len().ilog2() as usize + 1);
                let prefix = Prefix::new(point, length);
                if let Ok(at) = self.parts.binary_search_by_key(&prefix, |(prefix, _)| *prefix) {
                    self.parts[at].1.search(points, bound, matches);
                }
            }
        }
        if let Some(rest) = &self.rest {
            rest.search(points, bound, matches);
        }
    }
}

/// A division of entries by their prefixes on one side.
struct Cut {
    side: usize,
    /// Each prefix with the entries that have it, in ascending order.
    parts: Vec<(Prefix, u32)>,
    /// Entries without a condition on this side.
    rest: Vec<u32>,
    /// The most entries that a point may leave, if the prefixes all have one length.
    largest: usize,
}

impl Cut {
    fn of<const SIDES: usize>(asked: &[Asked<SIDES>], entries: &[u32], side: usize) -> Self {
        let prefixes = |entry: u32| &asked[entry as usize].sides[side];
        let (asks, rest): (Vec<u32>, Vec<u32>) = entries.iter().partition(|&&entry| !prefixes(entry).is_empty());
        let mut parts: Vec<(Prefix, u32)> =
            asks.iter().flat_map(|&entry| prefixes(entry).iter().map(move |&prefix| (prefix, entry))).collect();
        parts.sort_unstable();
        parts.dedup();
        let greatest = parts.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).max().unwrap_or(0);
        Self { side, parts, largest: greatest + rest.len(), rest }
    }

    fn references(&self) -> usize {
        self.parts.len() + self.rest.len()
    }

    fn part<const SIDES: usize>(self, asked: &[Asked<SIDES>], left: &mut usize) -> Parted {
        *left -= self.references();
        let mut lengths: Vec<u8> = self.parts.iter().map(|(prefix, _)| prefix.length).collect();
        lengths.dedup();
        let node = |entries: Vec<u32>, left: &mut usize| Node::new(asked, entries, left);
        let by_prefix = self.parts.chunk_by(|a, b| a.0 == b.0);
        let parts = by_prefix.map(|part| (part[0].0, node(part.iter().map(|&(_, entry)| entry).collect(), left)));
        let parts = parts.collect();
        let rest = (!self.rest.is_empty()).then(|| node(self.rest, left));
        Parted { side: self.side, lengths, parts, rest }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    #[cfg(feature = "steps")]
    use std::vec;

    use super::*;
    use crate::random::{Random, Seed};

    fn covers(prefix: &Prefix, point: u128) -> bool {
        Prefix::new(point, prefix.length) == *prefix
    }

    fn asks(asked: &Asked<3>, point: &[u128; 3]) -> bool {
        asked.sides.iter().zip(point).all(|(side, &point)| side.is_empty() || side.iter().any(|one| covers(one, point)))
    }

    /// Returns points and prefixes that differ in few bits, so that many match.
    fn number(random: &mut Random) -> u128 {
        u128::from(random.below(16)) << 124 | u128::from(random.below(4)) << 100
    }

    fn rules(random: &mut Random, rules: u32) -> Vec<Asked<3>> {
        let mut asked = Vec::new();
        for rule in 0..rules {
            for _ in 0..1 + random.below(2) {
                let sides = core::array::from_fn(|_| {
                    (0..random.below(3)).map(|_| Prefix::new(number(random), random.below(129) as u8)).collect()
                });
                asked.push(Asked { rule, sides });
            }
        }
        asked
    }

    #[test]
    fn the_first_match_is_that_of_a_scan() {
        let mut random = Seed(1).stream("test");
        for size in (0..60).chain([300, 2_000]) {
            let asked = rules(&mut random, size);
            let index = FirstMatch::new(&asked);
            for _ in 0..200 {
                let point = core::array::from_fn(|_| number(&mut random));
                // A condition that the index does not know: it holds only for some of the rules.
                let odd = |rule: u32| rule % 5 != 3;
                let expected = asked.iter().find(|one| odd(one.rule) && asks(one, &point)).map(|one| one.rule);
                let matches = |rule| odd(rule) && asked.iter().any(|one| one.rule == rule && asks(one, &point));
                assert_eq!(index.find(&point, matches), expected);
            }
        }
    }

    #[test]
    fn a_visit_sees_all_rules_that_ask_for_the_points() {
        let mut random = Seed(2).stream("test");
        for size in [5, 50, 500] {
            let asked = rules(&mut random, size);
            let index = FirstMatch::new(&asked);
            for bound in [0, size / 2, u32::MAX] {
                let points: [Vec<u128>; 3] =
                    core::array::from_fn(|_| (0..random.below(3)).map(|_| number(&mut random)).collect());
                let mut seen = BTreeSet::new();
                index.visit(&points.each_ref().map(Vec::as_slice), bound, |rule| {
                    seen.insert(rule);
                    false
                });
                let asks = |one: &&Asked<3>| {
                    let side = |(side, points): (&Vec<Prefix>, &Vec<u128>)| {
                        side.is_empty() || side.iter().any(|one| points.iter().any(|&point| covers(one, point)))
                    };
                    one.rule < bound && one.sides.iter().zip(&points).all(side)
                };
                assert!(asked.iter().filter(asks).all(|one| seen.contains(&one.rule)));
                assert!(seen.iter().all(|&rule| rule < bound));
            }
        }
    }

    #[test]
    fn ranges_are_prefixes() {
        for (first, last) in [(0, 0), (0, u16::MAX), (1, 65_534), (80, 80), (1_024, 65_535), (7, 1_000)] {
            let prefixes: Vec<Prefix> = Prefix::of_range(first, last).collect();
            assert!(prefixes.len() <= 30, "{prefixes:?}");
            for number in 0..=u16::MAX {
                let found = prefixes.iter().filter(|prefix| covers(prefix, Prefix::short(number))).count();
                assert_eq!(found, usize::from((first..=last).contains(&number)), "{number}");
            }
        }
    }

    /// Rules as firewalls have them: a rule among 100,000 is found in few steps, whatever the
    /// conditions.
    #[cfg(feature = "steps")]
    #[test]
    fn few_steps_find_one_of_many() {
        let mut random = Seed(3).stream("test");
        let mut random_prefix = |lengths: &[u8]| {
            let length = lengths[random.below(lengths.len() as u64) as usize];
            vec![Prefix::new(u128::from(random.bits()) << 64, length)]
        };
        let kinds: [&mut dyn FnMut(u32) -> [Vec<Prefix>; 3]; 4] = [
            // Addresses of hosts; networks of all sizes and ports; ports of few hosts; a mixture.
            &mut |_| [vec![], random_prefix(&[32]), vec![]],
            &mut |rule| {
                let lengths: Vec<u8> = (8..=32).collect();
                let port = (rule % 1_000) as u16;
                [
                    vec![],
                    vec![Prefix::new(u128::from(rule.wrapping_mul(2_654_435_761)) << 96, lengths[rule as usize % 25])],
                    Prefix::of_range(port, port).collect(),
                ]
            },
            &mut |rule| {
                let host = Prefix::new(u128::from(rule / 50_000) << 96, 32);
                [vec![], vec![host], Prefix::of_range(rule as u16, rule as u16).collect()]
            },
            &mut |rule| {
                let far = u128::from(rule.wrapping_mul(2_654_435_761)) << 96;
                match rule % 3 {
                    0 => [vec![Prefix::new(far, 24)], vec![], vec![]],
                    1 => [vec![], vec![Prefix::new(far, 24)], vec![]],
                    _ => [vec![], vec![], Prefix::of_range(rule as u16, (rule as u16).saturating_add(9)).collect()],
                }
            },
        ];
        for (at, kind) in kinds.into_iter().enumerate() {
            let asked: Vec<Asked<3>> = (0..100_000).map(|rule| Asked { rule, sides: kind(rule) }).collect();
            let index = FirstMatch::new(&asked);
            for rule in (0..100_000).step_by(997) {
                let sides = &asked[rule].sides;
                let point: [u128; 3] =
                    core::array::from_fn(|side| sides[side].first().map_or(77, |prefix| prefix.bits));
                let mut found = None;
                let taken = steps::count(|| found = index.find(&point, |rule| asks(&asked[rule as usize], &point)));
                assert!(found.is_some_and(|found| found <= rule as u32));
                assert!(taken <= 1_000, "kind {at}: {taken} steps for rule {rule} of 100,000");
            }
        }
    }
}
