//! Multipliers that give every core its intended fraction of connections.
//!
//! **Idea.** Let each core bid its hash g, uniform on (0, 1), times a multiplier x. With these x, core k has
//! the highest bid with probability p_k. Their product is 1; equal fractions have equal multipliers.
//!
//! **Source.** Ross. Hash routing for collections of shared web caches. IEEE Network 11 (1997): the
//! multipliers of CARP; theorem 1 of Guo, Bhuyan. PS-HRW. STEERING section 6.
//!
//! **Limits.** The theorem holds for uniform hashes alone, not for hashes over a queue. The fewest
//! possible connections move only if fractions stay equal or one factor changes a whole group. Bids
//! of -p_k / ln g always have this property.
//!
//! The functions use floats through `libm`, so results are the same on every machine. The recursion
//! works with logarithms, which keep twelve digits for any number of cores; `f32` would lose them.

use alloc::vec;
use alloc::vec::Vec;

use libm::{exp, log, log1p};

/// Returns the multipliers for these fractions, which sum to 1. A core with fraction 0 gets
/// multiplier 0: it never wins.
///
/// # Panics
/// If a fraction is negative or not a number.
pub fn multipliers(fractions: &[f64]) -> Vec<f64> {
    let mut cores: Vec<usize> = (0..fractions.len()).filter(|&core| fractions[core] != 0.0).collect();
    cores.sort_by(|&a, &b| fractions[a].partial_cmp(&fractions[b]).expect("a fraction is a number"));
    let mut multipliers = vec![0.0; fractions.len()];
    let (mut product, mut last, mut below) = (0.0, f64::NEG_INFINITY, 0.0);
    for (place, &core) in cores.iter().enumerate() {
        assert!(fractions[core] > 0.0, "a fraction is not negative");
        let left = (cores.len() - place) as f64;
        let step = log(left * (fractions[core] - below)) - product;
        last = log_add(step, left * last) / left;
        product += last;
        below = fractions[core];
        multipliers[core] = exp(last);
    }
    multipliers
}

/// Returns the multipliers of two classes, the low one first, in closed form: see [`multipliers`]. Each of the
/// `high` cores gets 1/`low_over_high` times the share of each other core, of `cores` in all.
///
/// # Panics
/// Unless at least one core is of each kind, and `low_over_high` is above 0 and at most 1.
pub fn two_classes(cores: usize, high: usize, low_over_high: f64) -> (f64, f64) {
    assert!(0 < high && high < cores && low_over_high > 0.0 && low_over_high <= 1.0, "two classes of cores");
    let (cores, high) = (cores as f64, high as f64);
    let fraction_high = 1.0 / (high + (cores - high) * low_over_high);
    let fraction_low = low_over_high * fraction_high;
    let low = log(cores * fraction_low) / cores;
    let step = log(high * (fraction_high - fraction_low)) - (cores - high) * low;
    (exp(low), exp(log_add(step, high * low) / high))
}

/// ln(e^a + e^b).
fn log_add(a: f64, b: f64) -> f64 {
    let (greater, less) = if a > b { (a, b) } else { (b, a) };
    if less == f64::NEG_INFINITY { greater } else { greater + log1p(exp(less - greater)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steer::testing::{keys, moved, shares};
    use humpyard_core::hash::{salt, score, unit_score};
    use humpyard_core::id::{CoreId, Id};
    use humpyard_core::random::{Random, Seed};

    /// Returns the fractions that these multipliers give: equation 7 of the paper, for multipliers
    /// whose product is 1.
    fn fractions(multipliers: &[f64]) -> Vec<f64> {
        let mut cores: Vec<usize> = (0..multipliers.len()).filter(|&core| multipliers[core] != 0.0).collect();
        cores.sort_by(|&a, &b| multipliers[a].total_cmp(&multipliers[b]));
        let mut fractions = vec![0.0; multipliers.len()];
        let (mut sum, mut product, mut last): (f64, f64, f64) = (0.0, 1.0, 0.0);
        for (place, &core) in cores.iter().enumerate() {
            let left = (cores.len() - place) as i32;
            sum += product * (multipliers[core].powi(left) - last.powi(left)) / f64::from(left);
            product *= multipliers[core];
            last = multipliers[core];
            fractions[core] = sum;
        }
        fractions
    }

    fn random_fractions(random: &mut Random, cores: usize) -> Vec<f64> {
        let parts: Vec<f64> = (0..cores).map(|_| (1 + random.below(1000)) as f64).collect();
        let whole: f64 = parts.iter().sum();
        parts.into_iter().map(|part| part / whole).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= tolerance * expected.abs(), "{found}, not {expected}");
        }
    }

    fn hash(key: u64, core: usize) -> f64 {
        unit_score(score(key, salt(core as u64)))
    }

    /// Returns the core with the highest bid for each key.
    fn winners(keys: &[u64], cores: usize, bid: impl Fn(f64, usize) -> f64) -> Vec<CoreId> {
        let winner = |&key: &u64| {
            let bids: Vec<f64> = (0..cores).map(|core| bid(hash(key, core), core)).collect();
            CoreId::from_index((0..cores).fold(0, |best, core| if bids[core] > bids[best] { core } else { best }))
        };
        keys.iter().map(winner).collect()
    }

    fn by_multiplier(keys: &[u64], fractions: &[f64]) -> Vec<CoreId> {
        let multipliers = multipliers(fractions);
        winners(keys, fractions.len(), |hash, core| multipliers[core] * hash)
    }

    fn by_logarithm(keys: &[u64], fractions: &[f64]) -> Vec<CoreId> {
        winners(keys, fractions.len(), |hash, core| -fractions[core] / log(hash))
    }

    #[test]
    fn vectors_of_the_specification() {
        let vectors: [(&[f64], &[f64]); 3] = [
            (&[0.1, 0.2, 0.3, 0.4], &[0.795270729, 0.958357797, 1.086675600, 1.207417333]),
            (
                &[0.05, 0.05, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2],
                &[
                    0.891779529,
                    0.891779529,
                    0.978957505,
                    0.978957505,
                    0.978957505,
                    1.102548816,
                    1.102548816,
                    1.102548816,
                ],
            ),
            (&[0.001, 0.009, 0.09, 0.9], &[0.251486686, 0.481076724, 1.253176174, 6.595664074]),
        ];
        for (given, expected) in vectors {
            assert_close(&multipliers(given), expected, 1e-9);
        }
    }

    #[test]
    fn two_classes_of_the_specification() {
        for (cores, high, ratio, low_x, high_x) in
            [(8, 4, 0.8, 0.985384972, 1.014831795), (8, 2, 0.4, 0.960975162, 1.126843261)]
        {
            let (low, high) = two_classes(cores, high, ratio);
            assert_close(&[low, high], &[low_x, high_x], 1e-9);
        }
        assert_close(&[1.0 / 7.2, 0.8 / 7.2], &[0.138889, 0.111111], 4e-6);
    }

    #[test]
    fn the_closed_form_is_the_recursion() {
        for (cores, high) in [(2, 1), (8, 4), (8, 1), (8, 7), (64, 5), (1024, 1000)] {
            for ratio in [1e-6, 0.1, 0.8, 1.0] {
                let whole = high as f64 + (cores - high) as f64 * ratio;
                let fraction = |core| if core < high { 1.0 / whole } else { ratio / whole };
                let recursion = multipliers(&(0..cores).map(fraction).collect::<Vec<_>>());
                let (low, greater) = two_classes(cores, high, ratio);
                assert_close(&[recursion[cores - 1], recursion[0]], &[low, greater], 1e-9);
            }
        }
    }

    #[test]
    fn multipliers_grow_with_fractions_have_product_1_and_give_the_fractions_back() {
        let mut random = Seed(1).stream("test");
        for cores in (1..=64).chain([256, 1024]) {
            let given = random_fractions(&mut random, cores);
            let found = multipliers(&given);
            assert!(found.iter().map(|&multiplier| log(multiplier)).sum::<f64>().abs() < 1e-11);
            let mut order: Vec<usize> = (0..cores).collect();
            order.sort_by(|&a, &b| given[a].total_cmp(&given[b]));
            assert!(order.is_sorted_by(|&a, &b| found[a] <= found[b] * (1.0 + 1e-15)));
            assert_close(&fractions(&found), &given, 1e-12);
        }
    }

    #[test]
    fn who_swaps_fractions_swaps_multipliers() {
        let mut random = Seed(2).stream("test");
        for cores in 2..40 {
            let mut given = random_fractions(&mut random, cores);
            let mut found = multipliers(&given);
            given.reverse();
            found.reverse();
            assert_eq!(multipliers(&given), found);
        }
    }

    #[test]
    fn equal_fractions_have_the_multiplier_1() {
        for cores in [1, 2, 7, 1000] {
            assert_close(&multipliers(&vec![1.0 / cores as f64; cores]), &vec![1.0; cores], 1e-12);
        }
    }

    #[test]
    fn a_core_without_a_fraction_is_left_out() {
        assert_eq!(multipliers(&[0.0, 0.5, 0.0, 0.5])[..], [0.0, 1.0, 0.0, 1.0]);
        let (with, without) = (multipliers(&[0.1, 0.0, 0.4, 0.5]), multipliers(&[0.1, 0.4, 0.5]));
        assert_eq!((with[0], with[1], with[2], with[3]), (without[0], 0.0, without[1], without[2]));
    }

    #[test]
    fn connections_are_spread_as_asked() {
        let keys = keys(200_000);
        for given in [[0.1, 0.2, 0.3, 0.4].as_slice(), &[0.05, 0.05, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2]] {
            for found in [by_multiplier(&keys, given), by_logarithm(&keys, given)] {
                for (found, expected) in shares(&found, given.len()).iter().zip(given) {
                    assert!((found - expected).abs() < 4e-3, "{found}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn multipliers_do_not_hold_over_queues_and_logarithms_do() {
        let (keys, fractions, weights) = (keys(200_000), [0.1, 0.2, 0.3, 0.4], [1.0, 0.25, 1.0, 1.0]);
        let multipliers = multipliers(&fractions);
        let carp = winners(&keys, 4, |hash, core| multipliers[core] * weights[core] * hash);
        let logarithm = winners(&keys, 4, |hash, core| -fractions[core] * weights[core] / log(hash));
        for (found, expected) in
            [(carp, [0.1596, 0.0033, 0.3686, 0.4686]), (logarithm, [0.1176, 0.0588, 0.3529, 0.4706])]
        {
            for (found, expected) in shares(&found, 4).iter().zip(expected) {
                assert!((found - expected).abs() < 4e-3, "{found}, not {expected}");
            }
        }
    }

    /// Compares the connections that move when fractions change with the fewest that must move.
    #[test]
    fn logarithms_move_no_more_than_must_move_and_multipliers_do() {
        let keys = keys(200_000);
        let of = |parts: &[f64]| -> Vec<f64> { parts.iter().map(|part| part / parts.iter().sum::<f64>()).collect() };
        let eight = of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let seven = of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0]);
        let two = of(&[1.0, 1.0, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.0]);
        let three = of(&[1.0, 1.0, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 1.0]);
        for (before, after, minimum, carp) in [(eight, seven, 0.2222, 0.2422), (two, three, 0.1852, 0.2079)] {
            let found = moved(&by_logarithm(&keys, &before), &by_logarithm(&keys, &after));
            assert!((found - minimum).abs() < 4e-3, "{found} moved, {minimum} must");
            let found = moved(&by_multiplier(&keys, &before), &by_multiplier(&keys, &after));
            assert!((found - carp).abs() < 8e-3, "{found} moved, not {carp}");
        }
    }
}
