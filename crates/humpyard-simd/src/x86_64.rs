//! Compares several candidates at a time, with AVX2 or AVX-512.
//!
//! The bits below a candidate's score hold its place, counted backwards. The greatest such word therefore names
//! the winner; among equal scores, it names the first candidate. One instruction compares several candidates.

use core::arch::x86_64::{
    __m512d, __m512i, __mmask8, _mm512_add_epi64, _mm512_castpd_si512, _mm512_cmpeq_epi64_mask,
    _mm512_cmpge_epu64_mask, _mm512_cvtepu64_pd, _mm512_div_pd, _mm512_mask_blend_pd, _mm512_mask_cmpneq_epi64_mask,
    _mm512_maskz_and_epi64, _mm512_maskz_loadu_epi64, _mm512_max_epu64, _mm512_min_epu64, _mm512_mul_pd,
    _mm512_mullo_epi64, _mm512_or_si512, _mm512_reduce_max_epu64, _mm512_set1_epi64, _mm512_set1_pd, _mm512_setr_epi64,
    _mm512_setzero_si512, _mm512_srli_epi64, _mm512_sub_epi64, _mm512_xor_si512,
};

use humpyard_core::hash::mix;
use humpyard_core::rendezvous::{self, Home, Rendezvous};

/// Returns the implementations that this processor can run, the fastest last.
pub(crate) fn all() -> Vec<Rendezvous> {
    let mut all = vec![Rendezvous::default()];
    if is_x86_feature_detected!("avx2") {
        all.push(Rendezvous { highest: highest_by_avx2, ..Rendezvous::default() });
    }
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
        all.push(Rendezvous { highest: highest_by_avx512, highest_bid: highest_bid_by_avx512 });
    }
    all
}

fn highest_by_avx2(key: u64, salts: &[u64]) -> usize {
    #[target_feature(enable = "avx2")]
    fn by_avx2(key: u64, salts: &[u64]) -> usize {
        highest(key, salts)
    }
    // SAFETY: `rendezvous` names this function only where the processor has AVX2.
    unsafe { by_avx2(key, salts) }
}

fn highest_by_avx512(key: u64, salts: &[u64]) -> usize {
    #[target_feature(enable = "avx512f,avx512dq")]
    fn by_avx512(key: u64, salts: &[u64]) -> usize {
        highest(key, salts)
    }
    // SAFETY: `rendezvous` names this function only where the processor has AVX-512F and DQ.
    unsafe { by_avx512(key, salts) }
}

fn highest_bid_by_avx512(key: u64, salts: &[u64], lengths: &[u64], home: Home) -> usize {
    if salts.len() <= FEW || salts.len() > TOGETHER {
        return rendezvous::highest_bid(key, salts, lengths, home);
    }
    // SAFETY: `rendezvous` names this function only where the processor has AVX-512F and DQ.
    unsafe { highest_bid(key, salts, lengths, home) }
}

/// The bits of a word below the score: they hold the place.
const PLACES: u64 = (1 << 11) - 1;
/// Candidates that can have different places.
const TOGETHER: usize = PLACES as usize + 1;

/// Up to this many candidates, the scalar loop is faster.
const FEW: usize = 8;

/// [`rendezvous::highest`], inlined so that the compiler uses the instructions that the caller enables.
#[inline(always)]
fn highest(key: u64, salts: &[u64]) -> usize {
    assert!(!salts.is_empty(), "at least one candidate");
    let mut winner = (0, 0);
    for (chunk, salts) in salts.chunks(TOGETHER).enumerate() {
        let mut best = 0;
        for (&salt, place) in salts.iter().zip(0..) {
            best = u64::max(best, (mix(key ^ salt) | PLACES) - place);
        }
        if chunk == 0 || best >> 11 > winner.0 {
            winner = (best >> 11, chunk * TOGETHER + place(best));
        }
    }
    winner.1
}

/// Returns the place in the low bits of a score or bid.
#[inline(always)]
fn place(word: u64) -> usize {
    (!word & PLACES) as usize
}

/// [`rendezvous::highest_bid`] for at most [`TOGETHER`] candidates. Bids are rounded; bids too close for that
/// are compared again, exactly.
#[target_feature(enable = "avx512f,avx512dq")]
fn highest_bid(key: u64, salts: &[u64], lengths: &[u64], home: Home) -> usize {
    let at_home = _mm512_set1_epi64(home.place as i64);
    let away = _mm512_set1_pd(f64::from(home.away_permille));
    let places = _mm512_set1_epi64(PLACES as i64);
    let mut place_of = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    // The highest and the second-highest word of each lane.
    let (mut highest, mut second) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (salts, lengths) in salts.chunks(8).zip(lengths.chunks(8)) {
        let is_home = _mm512_cmpeq_epi64_mask(place_of, at_home);
        let bids = bids(key, salts, lengths, _mm512_mask_blend_pd(is_home, away, _mm512_set1_pd(1000.0)));
        let words = _mm512_sub_epi64(_mm512_or_si512(bids, places), place_of);
        second = _mm512_max_epu64(second, _mm512_min_epu64(highest, words));
        highest = _mm512_max_epu64(highest, words);
        place_of = _mm512_add_epi64(place_of, _mm512_set1_epi64(8));
    }
    let best = _mm512_reduce_max_epu64(highest);
    // Bids that differ only by rounding (three half units of the last of 53 bits) differ by less than one unit
    // of bit 11.
    let close = _mm512_set1_epi64((best & !PLACES).saturating_sub(PLACES + 1) as i64);
    let others =
        _mm512_cmpge_epu64_mask(highest, close).count_ones() + u32::from(_mm512_cmpge_epu64_mask(second, close));
    if others > 1 { rendezvous::highest_bid(key, salts, lengths, home) } else { place(best) }
}

/// Returns the bids of at most eight candidates, as the bits of floating-point numbers: their order is the
/// same. A candidate that does not bid has 0. Products of length and thousandths are exact.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn bids(key: u64, salts: &[u64], lengths: &[u64], permille: __m512d) -> __m512i {
    let (salts, there) = load(salts);
    let (lengths, _) = load(lengths);
    let scores = _mm512_srli_epi64::<11>(mix_eight(_mm512_xor_si512(_mm512_set1_epi64(key as i64), salts)));
    let heights = _mm512_or_si512(_mm512_add_epi64(scores, scores), _mm512_set1_epi64(1));
    let bids = _mm512_div_pd(_mm512_cvtepu64_pd(heights), _mm512_mul_pd(_mm512_cvtepu64_pd(lengths), permille));
    let bidders = _mm512_mask_cmpneq_epi64_mask(there, lengths, _mm512_setzero_si512());
    let bids = _mm512_castpd_si512(bids);
    _mm512_maskz_and_epi64(bidders, bids, bids)
}

/// Loads at most eight numbers, and returns a mask of the lanes in use.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn load(numbers: &[u64]) -> (__m512i, __mmask8) {
    let there = (0xFF_u32 >> (8 - numbers.len().min(8))) as __mmask8;
    // SAFETY: only the first `numbers.len()` lanes are read.
    (unsafe { _mm512_maskz_loadu_epi64(there, numbers.as_ptr().cast()) }, there)
}

/// [`mix`] of eight words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn mix_eight(words: __m512i) -> __m512i {
    let all = |word: u64| _mm512_set1_epi64(word as i64);
    let z = _mm512_add_epi64(words, all(0x9E37_79B9_7F4A_7C15));
    let z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64::<30>(z)), all(0xBF58_476D_1CE4_E5B9));
    let z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64::<27>(z)), all(0x94D0_49BB_1331_11EB));
    _mm512_xor_si512(z, _mm512_srli_epi64::<31>(z))
}
