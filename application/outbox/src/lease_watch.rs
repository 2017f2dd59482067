//! When a lease has ended, as its observer sees it.
//!
//! **Invariant:** a lease that is not renewed ends within its length of the observer's monotonic clock, whatever the
//! database's clock does; a lease that is renewed does not end because that clock was set.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

/// The clocks of two processes are never further apart than this, but for a moment after one was set.
const MAX_CLOCK_SKEW: TimeDelta = TimeDelta::seconds(30);

/// Whether a row was written by a clock that was set back since: a lease in it says nothing. Who holds it in spite of
/// that is stopped by the fence of its commit.
pub fn is_of_the_future(written: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    written > now + MAX_CLOCK_SKEW
}

/// Watches leases of others, whose ends were written by the clock of the database.
///
/// That clock says what is left of a lease when its end is seen for the first time, at most the length of a lease; from
/// then on the observer's monotonic clock counts. A lease whose end was seen to change was renewed, and is watched anew.
#[derive(Debug)]
pub struct LeaseWatch<K> {
    length: Duration,
    last: Option<Moment>,
    seen: BTreeMap<K, Sighting>,
}

/// One moment by both clocks.
#[derive(Debug, Clone, Copy)]
struct Moment {
    database: DateTime<Utc>,
    here: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Sighting {
    until: DateTime<Utc>,
    ends: Instant,
}

impl<K: Ord + Clone> LeaseWatch<K> {
    /// Watches leases of this length.
    pub fn new(length: Duration) -> LeaseWatch<K> {
        LeaseWatch { length, last: None, seen: BTreeMap::new() }
    }

    /// Takes note of all leases with their ends, as they were read when the database's clock showed `now`; returns those
    /// that have ended. To be called at least once per length of a lease.
    pub fn ended(&mut self, now: DateTime<Utc>, leases: &[(K, DateTime<Utc>)]) -> BTreeSet<K> {
        let here = Instant::now();
        let stepped_forward = self.last.is_some_and(|last| {
            let by_database = now - last.database;
            let by_this_clock = TimeDelta::from_std(here - last.here).unwrap_or(TimeDelta::MAX);
            by_database > by_this_clock + TimeDelta::from_std(self.length / 3).unwrap_or_default()
        });
        let left = |until: DateTime<Utc>| {
            // The end may have been written before the step or after it.
            if stepped_forward {
                return self.length;
            }
            (until - now).to_std().unwrap_or_default().min(self.length)
        };
        let watched = |(key, until): &(K, DateTime<Utc>)| {
            let known = self.seen.get(key).filter(|sighting| sighting.until == *until);
            let sighting = known.copied().unwrap_or(Sighting { until: *until, ends: here + left(*until) });
            (key.clone(), sighting)
        };
        self.seen = leases.iter().map(watched).collect();
        self.last = Some(Moment { database: now, here });
        let has_ended = |(_, sighting): &(&K, &Sighting)| sighting.ends <= here;
        self.seen.iter().filter(has_ended).map(|(key, _)| key.clone()).collect()
    }
}
