//! How a recording is divided: windows in which a policy is searched for, and blocks that are held out of the search.

use core::iter;
use core::ops::Range;

/// The recording is cut into this many stripes, each of which has windows and a block.
const STRIPES: usize = 8;
/// Windows of each stripe.
const WINDOWS: usize = 8;
/// The last one in this many packets of each stripe is held out.
const HELD_OUT: usize = 4;
/// Least packets of a block that is held out.
const BLOCK_PACKETS: usize = 250;
/// Least packets of a recording of which blocks are held out.
pub(super) const DIVISIBLE: usize = STRIPES * HELD_OUT * BLOCK_PACKETS;

/// What is played together, and how often it counts.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Piece {
    /// Packets, by number.
    pub(super) ranges: Vec<Range<usize>>,
    /// It stands for this many times as many packets.
    pub(super) weight: f64,
}

/// The windows and blocks of a recording.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Division {
    packets: usize,
    windows: Vec<Range<usize>>,
    held_out: Vec<Range<usize>>,
    /// Windows by number, those with the longest delays first; empty until that is known.
    peaks: Vec<usize>,
}

impl Division {
    /// Divides this many packets. Nothing is held out of fewer than [`DIVISIBLE`].
    pub(super) fn of(packets: usize) -> Self {
        let mut division = Self { packets, windows: Vec::new(), held_out: Vec::new(), peaks: Vec::new() };
        for stripe in 0..STRIPES {
            let (begin, end) = (packets * stripe / STRIPES, packets * (stripe + 1) / STRIPES);
            let held_out = if packets < DIVISIBLE { 0 } else { (end - begin) / HELD_OUT };
            let searched = end - begin - held_out;
            let window = |at: usize| begin + searched * at / WINDOWS..begin + searched * (at + 1) / WINDOWS;
            division.windows.extend((0..WINDOWS).map(window).filter(|window| !window.is_empty()));
            division.held_out.extend((held_out > 0).then_some(begin + searched..end));
        }
        division
    }

    /// Returns the windows with the longest delays, by number. Empty: they are not known.
    pub(super) fn peaks(&self) -> &[usize] {
        &self.peaks
    }

    /// Takes over the windows with the longest delays from another division of the same packets.
    pub(super) fn take_peaks(&mut self, peaks: Vec<usize>) {
        self.peaks = peaks.into_iter().filter(|&window| window < self.windows.len()).collect();
    }

    /// Returns all packets.
    pub(super) fn whole(&self) -> Piece {
        Piece { ranges: iter::once(0..self.packets).collect(), weight: 1.0 }
    }

    /// Returns the blocks that are held out.
    pub(super) fn held_out(&self) -> &[Range<usize>] {
        &self.held_out
    }

    /// Returns the windows.
    pub(super) fn windows(&self) -> &[Range<usize>] {
        &self.windows
    }

    /// Returns the packets that are searched.
    pub(super) fn searched(&self) -> usize {
        self.windows.iter().map(ExactSizeIterator::len).sum()
    }

    /// Takes over which windows have the longest delays, in several orders: samples have the first of each.
    pub(super) fn set_peaks(&mut self, orders: &[Vec<usize>]) {
        for rank in 0..self.windows.len() {
            for window in orders.iter().filter_map(|order| order.get(rank)) {
                if !self.peaks.contains(window) {
                    self.peaks.push(*window);
                }
            }
        }
    }

    /// Returns this part of the searched packets: half of them from the windows with the longest delays, each of which stands for
    /// itself, the others spread evenly over the rest, which they stand for. What is decided at the peaks is seen in every sample.
    pub(super) fn sample(&self, part: f64) -> Vec<Piece> {
        let all = self.windows.len();
        let wanted = ((part * all as f64).round() as usize).clamp(2.min(all), all);
        if wanted == all {
            return vec![Piece { ranges: self.windows.clone(), weight: 1.0 }];
        }
        let mut peaks = self.peaks[..(wanted / 2).min(self.peaks.len())].to_vec();
        peaks.sort_unstable();
        let rest: Vec<usize> = (0..all).filter(|window| !peaks.contains(window)).collect();
        let spread = wanted - peaks.len();
        let spread: Vec<usize> = (0..spread).map(|at| rest[at * rest.len() / spread]).collect();
        let weight = self.packets_of(&rest) as f64 / self.packets_of(&spread) as f64;
        let piece = |windows: &[usize], weight| Piece {
            ranges: windows.iter().map(|&window| self.windows[window].clone()).collect(),
            weight,
        };
        let peaks = (!peaks.is_empty()).then(|| piece(&peaks, 1.0));
        peaks.into_iter().chain([piece(&spread, weight)]).collect()
    }

    fn packets_of(&self, windows: &[usize]) -> usize {
        windows.iter().map(|&window| self.windows[window].len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(piece: &Piece) -> Vec<usize> {
        piece.ranges.iter().cloned().flatten().collect()
    }

    #[test]
    fn every_packet_is_searched_or_held_out() {
        for count in [DIVISIBLE, 10_007, 200_000] {
            let division = Division::of(count);
            assert_eq!((division.windows.len(), division.held_out.len()), (64, 8));
            let mut all: Vec<usize> = division.windows.iter().chain(&division.held_out).cloned().flatten().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..count));
            assert!(division.held_out.iter().all(|block| block.len() >= BLOCK_PACKETS));
            let part = division.searched() as f64 / count as f64;
            assert!((part - 0.75).abs() < 0.01, "{part}");
        }
    }

    #[test]
    fn nothing_is_held_out_of_a_short_recording() {
        for count in [1, 5, 100, DIVISIBLE - 1] {
            let division = Division::of(count);
            assert!(division.held_out().is_empty());
            assert!(packets(&division.sample(1.0)[0]).into_iter().eq(0..count));
            let sampled: usize = division.sample(0.1).iter().map(|piece| packets(piece).len()).sum();
            assert!(sampled > 0 && sampled <= count);
        }
    }

    #[test]
    fn samples_have_the_peaks_and_stand_for_all() {
        let mut division = Division::of(64_000);
        assert_eq!(division.sample(0.25).len(), 1, "no peak is known");
        division.set_peaks(&[vec![63, 5, 6, 1, 0], vec![5, 9, 63]]);
        assert_eq!(division.peaks, [63, 5, 9, 6, 1, 0]);
        let pieces = division.sample(0.125);
        let [peaks, spread] = &pieces[..] else { panic!("two pieces: {pieces:?}") };
        assert_eq!(peaks.ranges, [5, 6, 9, 63].map(|window: usize| division.windows[window].clone()));
        assert_eq!((spread.ranges.len(), peaks.weight), (4, 1.0));
        let stands_for = packets(peaks).len() as f64 + spread.weight * packets(spread).len() as f64;
        assert!((stands_for - 48_000.0).abs() < 1e-6, "{stands_for}");
        assert!(packets(spread).iter().all(|packet| !packets(peaks).contains(packet)));
        assert_eq!(division.sample(1.0), [Piece { ranges: division.windows.clone(), weight: 1.0 }]);
    }
}
