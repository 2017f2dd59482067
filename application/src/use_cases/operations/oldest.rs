//! The oldest of what can only be read newest first.

/// Finds the oldest `most` rows of a list whose pages come newest first: all of them, where there are no more;
/// otherwise by halving the range of their numbers, some twenty pages for a million. Read the page below
/// [`Oldest::before`] with [`Oldest::limit`] and [`Oldest::tell`] it, until there is nothing more to ask.
pub(super) struct Oldest<T> {
    most: u32,
    number: fn(&T) -> i64,
    search: Search<T>,
}

enum Search<T> {
    /// Nothing is known.
    First,
    /// Below `low` there are at most `most` rows, below `high` there are more. Numbers are whole, so it ends at the
    /// row where the count is `most`.
    Between { low: i64, high: i64 },
    /// Oldest first.
    Done { rows: Vec<T>, more: bool },
}

impl<T> Oldest<T> {
    pub(super) fn new(most: u32, number: fn(&T) -> i64) -> Oldest<T> {
        Oldest { most, number, search: Search::First }
    }

    /// Below which number the next page begins (`Some(None)`: at the newest row); `None`: there is none to read.
    #[allow(clippy::option_option, reason = "whether to read, and from where")]
    pub(super) fn before(&self) -> Option<Option<i64>> {
        match self.search {
            Search::First => Some(None),
            Search::Between { low, high } => Some(Some(middle(low, high))),
            Search::Done { .. } => None,
        }
    }

    /// How many rows the page may have.
    pub(super) fn limit(&self) -> u32 {
        self.most.saturating_add(1)
    }

    /// The page that was read.
    pub(super) fn tell(&mut self, mut page: Vec<T>) {
        let most = self.most as usize;
        self.search = match self.search {
            Search::First if page.len() <= most => {
                page.reverse();
                Search::Done { rows: page, more: false }
            }
            Search::First => {
                let newest = page.first().map_or(0, self.number);
                Search::Between { low: 1, high: newest.saturating_add(1) }
            }
            Search::Between { low, high } => {
                let tried = middle(low, high);
                if page.len() > most {
                    Search::Between { low, high: tried }
                } else if page.len() == most || tried == low {
                    page.reverse();
                    Search::Done { rows: page, more: true }
                } else {
                    Search::Between { low: tried, high }
                }
            }
            Search::Done { .. } => return,
        };
    }

    /// The oldest rows, oldest first, and whether there are more.
    pub(super) fn found(self) -> (Vec<T>, bool) {
        match self.search {
            Search::Done { rows, more } => (rows, more),
            Search::First | Search::Between { .. } => (Vec::new(), true),
        }
    }
}

fn middle(low: i64, high: i64) -> i64 {
    low + (high - low) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found among these numbers, and how many pages that took.
    fn found(numbers: &[i64], most: u32) -> (Vec<i64>, bool, u32) {
        let mut oldest = Oldest::new(most, |number: &i64| *number);
        let mut pages = 0;
        while let Some(before) = oldest.before() {
            let below = numbers.iter().rev().filter(|number| before.is_none_or(|before| **number < before));
            let page = below.take(oldest.limit() as usize).copied().collect();
            oldest.tell(page);
            pages += 1;
        }
        let (rows, more) = oldest.found();
        (rows, more, pages)
    }

    #[test]
    fn what_fits_is_found_whole_with_one_page() {
        assert_eq!(found(&[], 3), (vec![], false, 1));
        assert_eq!(found(&[5, 7, 9], 3), (vec![5, 7, 9], false, 1));
    }

    #[test]
    fn of_more_the_oldest_are_found_however_their_numbers_lie() {
        let sparse: Vec<i64> = (1..=500).map(|n| n * n * n).collect();
        let dense: Vec<i64> = (1..=500).collect();
        let far: Vec<i64> = (0..500).map(|n| 1_000_000_007 + n).collect();
        let both_ends: Vec<i64> = [1, 2, 3, 4].into_iter().chain(9_000_000..9_000_100).collect();
        for numbers in [sparse, dense, far, both_ends] {
            for most in [1, 2, 4, 5, 99] {
                let (rows, more, pages) = found(&numbers, most);
                assert_eq!((rows.as_slice(), more), (&numbers[..most as usize], true));
                assert!(pages <= 33, "{pages} pages for {most}");
            }
        }
    }
}
