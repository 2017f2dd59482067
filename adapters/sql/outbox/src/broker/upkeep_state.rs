//! State of the maintenance.

use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_outbox::LeaseWatch;

/// Time for which a session is valid without a heartbeat, in milliseconds.
pub(super) const SESSION_MS: u32 = 15_000;

/// Data that a maintenance run keeps for the next one.
pub(super) struct UpkeepState {
    pub(super) last_run: Option<DateTime<Utc>>,
    pub(super) sessions: LeaseWatch<i64>,
}

impl UpkeepState {
    pub(super) fn new() -> UpkeepState {
        let validity = Duration::from_millis(u64::from(SESSION_MS));
        UpkeepState { last_run: None, sessions: LeaseWatch::new(validity) }
    }
}
