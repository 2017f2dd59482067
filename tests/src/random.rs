//! Random choices of a test. The seed is printed; it is fixed in CI and new with `HANDOVER_LONG`. `HANDOVER_SEED`
//! repeats the choices of a run; the timing of real processes still differs.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use handover_memory::SeededRandom;
use handover_outbox::ports::RandomSource as _;

const SEED_IN_CI: u64 = 1;

/// A stream of random numbers. Each task has its own stream, so that no choice depends on the speed of other tasks.
#[derive(Debug)]
pub struct RandomSource {
    seed: u64,
    numbers: SeededRandom,
}

impl RandomSource {
    /// Returns the stream of random numbers for the test with this name.
    pub fn of_test(name: &str) -> RandomSource {
        let seed = seed();
        println!("{name}: HANDOVER_SEED={seed}");
        RandomSource::of(mixed(seed, name))
    }

    fn of(seed: u64) -> RandomSource {
        RandomSource { seed, numbers: SeededRandom::new(seed) }
    }

    /// Returns a named sub-stream. It does not depend on how many numbers this stream has produced.
    #[must_use]
    pub fn stream(&self, name: &str) -> RandomSource {
        RandomSource::of(mixed(self.seed, name))
    }

    /// A number from 0 to `end`, exclusive.
    pub fn below(&self, end: i64) -> i64 {
        let number = self.numbers.next() % end.unsigned_abs();
        number.cast_signed()
    }

    /// Returns true once in `times` calls on average.
    pub fn one_in(&self, times: i64) -> bool {
        self.below(times) == 0
    }

    /// A random duration. The range is in milliseconds, end exclusive.
    pub fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.numbers.next() % (range.end - range.start))
    }

    /// A number from 0 to 1, exclusive.
    pub fn share(&self) -> f64 {
        self.below(1 << 32) as f64 / (1_u64 << 32) as f64
    }

    /// Returns the values in random order.
    pub fn shuffled<T>(&self, values: impl IntoIterator<Item = T>) -> Vec<T> {
        let mut keyed: Vec<(u64, T)> = values.into_iter().map(|value| (self.numbers.next(), value)).collect();
        keyed.sort_by_key(|(key, _)| *key);
        keyed.into_iter().map(|(_, value)| value).collect()
    }
}

/// One seed for all tests of a program.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| match std::env::var("HANDOVER_SEED") {
        Ok(seed) => seed.parse().expect("HANDOVER_SEED must be a number"),
        Err(_) if crate::long() => RandomState::new().hash_one(0) >> 32,
        Err(_) => SEED_IN_CI,
    })
}

/// FNV-1a: the same result on every machine and in every version of Rust.
fn mixed(seed: u64, name: &str) -> u64 {
    let offset = 0xcbf2_9ce4_8422_2325 ^ seed;
    name.bytes().fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
