//! Every choice of a run, drawn from its seed.

use std::sync::Arc;
use std::time::Duration;

use handover_memory::SeededChance;
use handover_outbox::ports::Chance;

/// The dice of one run. Clones draw from the same sequence.
#[derive(Clone)]
pub(crate) struct Dice(Arc<SeededChance>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(Arc::new(SeededChance::new(seed)))
    }

    /// Dice of their own, from the next number of these.
    pub(crate) fn fork(&self) -> Dice {
        Dice::new(self.0.next())
    }

    /// One of `0..n`; 0 of none.
    pub(crate) fn below(&self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.0.next() % n }
    }

    /// One of `0..n`, as an index.
    pub(crate) fn index(&self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap_or(0)
    }

    /// True this often in 1,000.
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

impl Chance for Dice {
    fn next(&self) -> u64 {
        self.0.next()
    }
}
