//! Every choice of a run, drawn from its seed.

use std::sync::Arc;
use std::time::Duration;

use handover_application::ports::Chance;
use handover_memory::SeededChance;

/// The dice of one run. Clones draw from the same sequence.
#[derive(Clone)]
pub struct Dice(Arc<SeededChance>);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Arc::new(SeededChance::new(seed)))
    }

    pub fn next(&self) -> u64 {
        self.0.next()
    }

    /// One of `0..n`.
    pub fn below(&self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }

    /// True this often in 1,000.
    pub fn permille(&self, rate: u64) -> bool {
        self.below(1_000) < rate
    }

    pub fn millis(&self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }

    pub fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(usize::try_from(self.below(items.len() as u64)).unwrap_or(0))
    }
}

impl Chance for Dice {
    fn next(&self) -> u64 {
        self.0.next()
    }
}
