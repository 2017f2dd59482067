//! State shared by all sessions of a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use chrono::Duration;
use handover_outbox::ports::{StoreError, SystemFaultKind};
use tokio::time::Instant;

use crate::prefix::TablePrefix;
use crate::wakeup::CommitNotifier;

/// Maximum number of unreadable rows that one process reports.
const MAX_REPORTED: usize = 1_000;

/// A system fault ends when no statement has failed with one of its kind for this time.
const FAULT_OVER_AFTER: std::time::Duration = std::time::Duration::from_secs(60);

/// State shared by all sessions of a store.
pub(crate) struct Shared {
    pub(crate) notifier: CommitNotifier,
    pub(crate) prefix: TablePrefix,
    offset_us: AtomicI64,
    /// Ids of unreadable outbox rows that were reported.
    reported: Mutex<BTreeSet<i64>>,
    /// The current system faults, and when a statement last failed with each.
    faults: Mutex<BTreeMap<SystemFaultKind, Instant>>,
    has_faults: AtomicBool,
    /// Whether no relay of an older version was live when an event of a text key was appended.
    accepts_text_keys: AtomicBool,
}

impl Shared {
    pub(crate) fn new(notifier: CommitNotifier, prefix: TablePrefix) -> Shared {
        Shared {
            notifier,
            prefix,
            offset_us: AtomicI64::new(0),
            reported: Mutex::default(),
            faults: Mutex::default(),
            has_faults: AtomicBool::new(false),
            accepts_text_keys: AtomicBool::new(false),
        }
    }

    /// Reports an unreadable outbox row, once per process: relays read it many times a second.
    pub(crate) fn report(&self, id: i64, corrupt: &StoreError) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() < MAX_REPORTED && reported.insert(id) {
            tracing::error!(code = "outbox.row-unreadable", error = %corrupt, "[Outbox] [ALERT] an outbox row cannot be read; it is neither published nor listed until its value is corrected");
        }
    }

    /// Alerts when the database begins to refuse statements because of a fault of the system, once per fault: every
    /// consumer, the relay and every request then fail many times. Logs the end of a fault.
    pub(crate) fn observe<T>(&self, outcome: &Result<T, StoreError>) {
        let fault = outcome.as_ref().err().and_then(StoreError::system_fault);
        if fault.is_none() && !self.has_faults.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.retain(|kind, last| {
            let is_current = now - *last < FAULT_OVER_AFTER;
            if !is_current {
                tracing::info!(code = "database.accepts-statements", %kind, "[Database] no statement was refused for {FAULT_OVER_AFTER:?}");
            }
            is_current
        });
        if let Some(fault) = fault
            && faults.insert(fault.kind, now).is_none()
        {
            tracing::error!(code = "database.refuses-statements", error = %fault.cause, kind = %fault.kind, remedy = fault.kind.remedy(),
                "[Database] [ALERT] the database refuses statements; work waits and no attempt is counted");
        }
        self.has_faults.store(!faults.is_empty(), Ordering::Relaxed);
    }

    pub(crate) fn accepts_text_keys(&self) -> bool {
        self.accepts_text_keys.load(Ordering::Relaxed)
    }

    pub(crate) fn accept_text_keys(&self) {
        self.accepts_text_keys.store(true, Ordering::Relaxed);
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
