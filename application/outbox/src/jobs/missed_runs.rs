//! How far a job is behind its plan, from its record.

use chrono::{DateTime, Utc};

use crate::ports::JobRecord;

/// Time between two records of a job.
const RECORD_SECONDS: f64 = 10.0;
const MAX_MISSED_RUNS: f64 = 1_000.0;

/// Intervals without a successful run; `None` without a known interval.
pub(crate) fn missed_runs(record: &JobRecord, now: DateTime<Utc>) -> Option<f64> {
    let interval = record.interval?.as_secs_f64().max(RECORD_SECONDS);
    let Some(last) = record.last_success else { return Some(MAX_MISSED_RUNS) };
    let age = (now - last).to_std().unwrap_or_default().as_secs_f64();
    Some(((age - RECORD_SECONDS).max(0.0) / interval).min(MAX_MISSED_RUNS))
}
