//! State shared by all sessions of a store.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use chrono::Duration;
use handover_outbox::ports::StoreError;

use crate::wakeup::CommitNotifier;

/// Maximum number of unreadable rows that one process reports.
const MAX_REPORTED: usize = 1_000;

/// State shared by all sessions of a store.
pub(crate) struct Shared {
    pub(crate) notifier: CommitNotifier,
    offset_us: AtomicI64,
    /// Ids of unreadable outbox rows that were reported.
    reported: Mutex<BTreeSet<i64>>,
}

impl Shared {
    pub(crate) fn new(notifier: CommitNotifier) -> Shared {
        Shared { notifier, offset_us: AtomicI64::new(0), reported: Mutex::default() }
    }

    /// Reports an unreadable outbox row, once per process: relays read it many times a second.
    pub(crate) fn report(&self, id: i64, corrupt: &StoreError) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() < MAX_REPORTED && reported.insert(id) {
            tracing::error!(error = %corrupt, "[Outbox] [ALERT] an outbox row cannot be read; it is neither published nor listed until its value is corrected");
        }
    }

    /// Adds to the offset of the database's clock.
    pub(crate) fn add_offset(&self, by: Duration) {
        self.offset_us.fetch_add(by.num_microseconds().unwrap_or(0), Ordering::Relaxed);
    }

    /// The offset that tests add to the database's clock.
    pub(crate) fn offset(&self) -> Duration {
        Duration::microseconds(self.offset_us.load(Ordering::Relaxed))
    }
}
