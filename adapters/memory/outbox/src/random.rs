//! Random numbers from a seed.

use std::sync::atomic::{AtomicU64, Ordering};

use handover_outbox::ports::RandomSource;

/// SplitMix64 random number generator: the same seed gives the same sequence of numbers.
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

/// The increment of SplitMix64: 2^64 divided by the golden ratio, rounded to an odd number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SeededRandom {
    /// Creates a generator with a seed.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(AtomicU64::new(seed))
    }
}

impl RandomSource for SeededRandom {
    fn next(&self) -> u64 {
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
