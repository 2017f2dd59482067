//! A sliding window of time.

use std::collections::VecDeque;
use std::time::Duration;

use chrono::{DateTime, Utc};

/// The time that the figures cover.
pub const PERIOD: Duration = Duration::from_secs(300);

/// Number of parts of the window. The oldest part is dropped as a whole, so the window is up to one part shorter.
const PARTS: i64 = 10;

/// Values of the last parts of [`PERIOD`].
#[derive(Debug)]
pub(super) struct Window<T> {
    /// Number of the part since 1970, and its values; the newest last.
    parts: VecDeque<(i64, T)>,
}

impl<T> Default for Window<T> {
    fn default() -> Self {
        Window { parts: VecDeque::new() }
    }
}

impl<T: Default> Window<T> {
    /// The values of the part of this time. A clock that was set back counts to the newest part.
    pub(super) fn at(&mut self, now: DateTime<Utc>) -> &mut T {
        let part = part_of(now);
        if self.parts.back().is_none_or(|(newest, _)| *newest < part) {
            self.parts.push_back((part, T::default()));
            while self.parts.front().is_some_and(|(oldest, _)| *oldest <= part - PARTS) {
                self.parts.pop_front();
            }
        }
        // The branch above has added a part if there was none.
        let last = self.parts.len() - 1;
        &mut self.parts[last].1
    }

    /// The values within the window that ends now.
    pub(super) fn recent(&self, now: DateTime<Utc>) -> impl Iterator<Item = &T> {
        let oldest = part_of(now) - PARTS;
        self.parts.iter().filter(move |(part, _)| *part > oldest).map(|(_, values)| values)
    }
}

fn part_of(now: DateTime<Utc>) -> i64 {
    let seconds = i64::try_from(PERIOD.as_secs()).unwrap_or(i64::MAX) / PARTS;
    now.timestamp().div_euclid(seconds)
}
