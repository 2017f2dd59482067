//! Detects the end of leases by the observer's monotonic clock.
//!
//! **Invariant:** a lease that is not renewed ends at most one lease length after its first observation, measured by
//! the observer's monotonic clock, even if the database clock is set. A lease that is renewed does not end because the
//! database clock was set.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

/// Largest expected clock difference between two processes, except shortly after a clock was set.
const MAX_CLOCK_SKEW: TimeDelta = TimeDelta::seconds(30);

/// Whether a row was written by a clock that has since been set back. A lease in such a row is not valid; if its
/// owner is still working, the fence stops it at commit.
pub fn is_in_the_future(written: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    written > now + MAX_CLOCK_SKEW
}

/// Watches the leases of other processes, whose end times were written by the database clock.
///
/// When an end time is first seen, the remaining time is computed with the database clock and limited to the length of
/// a lease. If the database clock has stepped forward since the previous call, a full lease length is assumed, because
/// the end time may have been written before the step. After this first computation, only the observer's monotonic
/// clock is used. A changed end time means that the lease was renewed, and starts a new observation.
#[derive(Debug)]
pub struct LeaseWatch<K> {
    length: Duration,
    last: Option<Moment>,
    seen: BTreeMap<K, Observation>,
}

/// One instant, as shown by the database clock and by the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Moment {
    database: DateTime<Utc>,
    monotonic: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Observation {
    until: DateTime<Utc>,
    ends: Instant,
}

impl<K: Ord + Clone> LeaseWatch<K> {
    /// Creates a watch for leases of this length.
    pub fn new(length: Duration) -> LeaseWatch<K> {
        LeaseWatch { length, last: None, seen: BTreeMap::new() }
    }

    /// Records the end times of all leases, as read when the database clock showed `now`, and returns the leases that
    /// have ended. MUST be called at least once per lease length.
    pub fn ended(&mut self, now: DateTime<Utc>, leases: &[(K, DateTime<Utc>)]) -> BTreeSet<K> {
        let monotonic = Instant::now();
        let stepped_forward = self.last.is_some_and(|last| {
            let elapsed_database = now - last.database;
            let elapsed_monotonic = TimeDelta::from_std(monotonic - last.monotonic).unwrap_or(TimeDelta::MAX);
            elapsed_database > elapsed_monotonic + TimeDelta::from_std(self.length / 3).unwrap_or_default()
        });
        let left = |until: DateTime<Utc>| {
            // The end time may have been written before the clock step, so the full lease length is assumed.
            if stepped_forward {
                return self.length;
            }
            (until - now).to_std().unwrap_or_default().min(self.length)
        };
        let watched = |(key, until): &(K, DateTime<Utc>)| {
            let known = self.seen.get(key).filter(|observation| observation.until == *until);
            let observation =
                known.copied().unwrap_or(Observation { until: *until, ends: monotonic + left(*until) });
            (key.clone(), observation)
        };
        self.seen = leases.iter().map(watched).collect();
        self.last = Some(Moment { database: now, monotonic });
        let has_ended = |(_, observation): &(&K, &Observation)| observation.ends <= monotonic;
        self.seen.iter().filter(has_ended).map(|(key, _)| key.clone()).collect()
    }
}
