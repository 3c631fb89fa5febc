//! The per-packet operations of steering policies, with SIMD instructions that only some processors have.
//!
//! A host puts [`rendezvous`] into the configuration of its policies. They then decide as they do without it,
//! in less time. The crate detects the processor's instructions at run time. Code that needs them is `unsafe`
//! to call: so this is a separate crate.
//!
//! ```
//! use humpyard_core::config::SchedulerConfig;
//! use humpyard_core::rendezvous::highest;
//!
//! let config = SchedulerConfig { rendezvous: humpyard_simd::rendezvous(), ..SchedulerConfig::new(64) };
//! let salts: Vec<u64> = (0..64).map(humpyard_core::hash::salt).collect();
//! for key in 0..100 {
//!     assert_eq!((config.rendezvous.highest)(key, &salts), highest(key, &salts));
//! }
//! ```

#[cfg(target_arch = "x86_64")]
mod x86_64;

use humpyard_core::rendezvous::Rendezvous;

/// Returns the fastest implementation for this processor: AVX-512, AVX2, or the portable one.
pub fn rendezvous() -> Rendezvous {
    all().pop().unwrap_or_default()
}

/// Returns the implementations that this processor can run, the fastest last.
fn all() -> Vec<Rendezvous> {
    #[cfg(target_arch = "x86_64")]
    return x86_64::all();
    #[cfg(not(target_arch = "x86_64"))]
    vec![Rendezvous::default()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use humpyard_core::rendezvous::Home;
    use proptest::prelude::*;

    /// Some salts are equal. Some lengths lie close together, some at the limit, and some are 0 (no bid).
    fn candidates() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let salt = prop_oneof![any::<u64>(), 0..4u64];
        let length = prop_oneof![0..3u64, 1000..1004u64, (1u64 << 33) - 3..=1 << 33, 1..1u64 << 33];
        proptest::collection::vec((salt, length), 1..100)
    }

    fn home() -> impl Strategy<Value = Home> {
        let home = |(place, away_permille)| Home { place, away_permille };
        prop_oneof![Just(Home::ANYWHERE), (0..100usize, 1..=1_000_000u32).prop_map(home)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn winners_are_those_of_every_processor(
            key in any::<u64>(),
            candidates in candidates(),
            home in home(),
        ) {
            let (salts, lengths): (Vec<u64>, Vec<u64>) = candidates.into_iter().unzip();
            for found in all() {
                prop_assert_eq!((found.highest)(key, &salts), (Rendezvous::default().highest)(key, &salts));
                let by_length = (Rendezvous::default().highest_bid)(key, &salts, &lengths, home);
                prop_assert_eq!((found.highest_bid)(key, &salts, &lengths, home), by_length);
            }
        }
    }

    #[test]
    fn more_candidates_than_have_places_of_their_own() {
        let salts: Vec<u64> = (0..5000).map(humpyard_core::hash::salt).collect();
        let lengths: Vec<u64> = (0..5000).map(|i| i % 3).collect();
        let expected = Rendezvous::default();
        for found in all() {
            for key in 0..500 {
                assert_eq!((found.highest)(key, &salts), (expected.highest)(key, &salts));
                let by_length = (expected.highest_bid)(key, &salts, &lengths, Home::ANYWHERE);
                assert_eq!((found.highest_bid)(key, &salts, &lengths, Home::ANYWHERE), by_length);
            }
        }
    }
}
