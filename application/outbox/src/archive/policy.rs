//! The time for which published events stay in the database.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

/// Shortest time for which events should stay in the database. For a shorter time, an event could leave it while a publish or
/// a unit of work with unknown outcome is still repeated.
pub const MIN_RETENTION: Duration = Duration::from_secs(3_600);

/// Time for which events stay in the database after the broker has confirmed them, by event type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionPolicy {
    default: Duration,
    by_type: BTreeMap<String, Duration>,
}

impl RetentionPolicy {
    /// A policy under which events of every type stay for this time.
    pub fn new(default: Duration) -> RetentionPolicy {
        RetentionPolicy { default, by_type: BTreeMap::new() }
    }

    /// The same policy with another time for one event type.
    pub fn with_type(mut self, event_type: impl Into<String>, after: Duration) -> RetentionPolicy {
        self.by_type.insert(event_type.into(), after);
        self
    }

    /// Whether the retention time of an event of this type that was confirmed at `at` is over.
    pub(super) fn is_over(&self, event_type: &str, at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        has_passed(*self.by_type.get(event_type).unwrap_or(&self.default), at, now)
    }

    /// The shortest time of all event types.
    pub fn shortest(&self) -> Duration {
        self.by_type.values().fold(self.default, |shortest, after| shortest.min(*after))
    }

    /// Whether there is an event type whose retention time is over for an event that was confirmed at `at`.
    pub(super) fn may_be_over(&self, at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        has_passed(self.shortest(), at, now)
    }
}

/// Whether `at` is at least this long ago. A time that the clock cannot represent has not passed.
fn has_passed(after: Duration, at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    let end = TimeDelta::from_std(after).ok().and_then(|after| at.checked_add_signed(after));
    end.is_some_and(|end| end <= now)
}
