//! Where a run of the archive begins.

use chrono::{DateTime, TimeDelta, Utc};

/// Time after which a run begins with the oldest event again: events that stayed may leave now.
const FULL_PASS: TimeDelta = TimeDelta::days(1);

/// Low-water mark of the runs of one process: events up to it were examined within the last day.
#[derive(Debug, Default)]
pub struct ArchiveMark {
    pub(super) after: Option<i64>,
    /// Time at which the pass over all events began.
    began: Option<DateTime<Utc>>,
}

impl ArchiveMark {
    /// The id after which the next run examines events.
    pub(super) fn begin(&mut self, now: DateTime<Utc>) -> Option<i64> {
        // The clock may have been set back.
        let lasts = |began: DateTime<Utc>| (began..began + FULL_PASS).contains(&now);
        if !self.began.is_some_and(lasts) {
            *self = ArchiveMark { after: None, began: Some(now) };
        }
        self.after
    }
}
