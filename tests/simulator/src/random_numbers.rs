//! Random numbers of a run, generated from its seed.

use std::sync::Arc;
use std::time::Duration;

use handover_memory::SeededRandom;
use handover_outbox::ports::RandomSource;

/// Random number generator of one run. Clones share the sequence.
#[derive(Clone)]
pub(crate) struct RandomNumbers(Arc<SeededRandom>);

impl RandomNumbers {
    pub(crate) fn new(seed: u64) -> RandomNumbers {
        RandomNumbers(Arc::new(SeededRandom::new(seed)))
    }

    /// Generator for the decisions about the archive: a run without one draws the same other numbers as if no run had one.
    pub(crate) fn of_archive(seed: u64) -> RandomNumbers {
        RandomNumbers::new(seed ^ 0x6172_6368_6976_6500)
    }

    /// A new generator, seeded with the next number of this one.
    pub(crate) fn fork(&self) -> RandomNumbers {
        RandomNumbers::new(self.0.next())
    }

    /// Draws a number from `0..n`; returns 0 if `n` is 0.
    pub(crate) fn below(&self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.0.next() % n }
    }

    /// Draws an index from `0..n`.
    pub(crate) fn index(&self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap_or(0)
    }

    /// True with a probability of `rate` in 1,000.
    pub(crate) fn permille(&self, rate: u64) -> bool {
        self.below(1_000) < rate
    }

    pub(crate) fn millis(&self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }

    pub(crate) fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }
}

impl RandomSource for RandomNumbers {
    fn next(&self) -> u64 {
        self.0.next()
    }
}
