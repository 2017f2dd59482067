//! Random numbers from a seed: the same seed gives the same plan of the day.

use handover_memory::SeededRandom;
use handover_outbox::ports::RandomSource;

/// Random number generator of one day.
pub(super) struct RandomNumbers(SeededRandom);

impl RandomNumbers {
    pub(super) fn new(seed: u64) -> RandomNumbers {
        RandomNumbers(SeededRandom::new(seed))
    }

    /// Draws a number from `0..n`; returns 0 if `n` is 0.
    pub(super) fn below(&self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        self.0.next().checked_rem(n).and_then(|drawn| usize::try_from(drawn).ok()).unwrap_or(0)
    }

    /// Picks one item; `None` if there are no items.
    pub(super) fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// Shuffles the items uniformly (Fisher-Yates).
    pub(super) fn shuffle<T>(&self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffle_of_same_seed_repeats_and_keeps_every_item() {
        let shuffled = |seed| {
            let mut items: Vec<usize> = (0..100).collect();
            RandomNumbers::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(shuffled(7), shuffled(7));
        assert_ne!(shuffled(7), shuffled(8));
        let mut items = shuffled(7);
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn pick_from_empty_slice_returns_none() {
        assert_eq!(RandomNumbers::new(1).pick::<u8>(&[]), None);
        assert_eq!(RandomNumbers::new(1).below(1), 0);
    }
}
