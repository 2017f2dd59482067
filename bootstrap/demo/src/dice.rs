//! Every choice of a day, drawn from its seed: the same seed plans the same day.

use handover_memory::SeededChance;
use handover_outbox::ports::Chance;

/// The dice of one day.
pub(super) struct Dice(SeededChance);

impl Dice {
    /// The numbers of this seed, from the first.
    pub(super) fn new(seed: u64) -> Dice {
        Dice(SeededChance::new(seed))
    }

    /// One of `0..n`; 0 where there is none.
    pub(super) fn below(&self, n: usize) -> usize {
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        self.0.next().checked_rem(n).and_then(|drawn| usize::try_from(drawn).ok()).unwrap_or(0)
    }

    /// One of these.
    pub(super) fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }

    /// Any order, each as likely (Fisher and Yates).
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
    fn the_same_seed_gives_the_same_order_and_loses_nothing() {
        let shuffled = |seed| {
            let mut items: Vec<usize> = (0..100).collect();
            Dice::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(shuffled(7), shuffled(7));
        assert_ne!(shuffled(7), shuffled(8));
        let mut items = shuffled(7);
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn of_nothing_nothing_is_picked() {
        assert_eq!(Dice::new(1).pick::<u8>(&[]), None);
        assert_eq!(Dice::new(1).below(1), 0);
    }
}
