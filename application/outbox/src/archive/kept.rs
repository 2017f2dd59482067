//! The decision whether an event may leave the database. Pure functions.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, OutboxStatus};

use super::policy::RetentionPolicy;
use crate::ports::{Consumed, OutboxRow};

/// Reason why an event stays in the database. Of several reasons, the first one in this order is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeptBecause {
    /// The event is not published yet.
    Pending,
    /// Publishing failed permanently. Such an event stays until an operator redrives it.
    Failed,
    /// Its retention time is not over.
    Recent,
    /// A consumer that it concerns has not settled it.
    Unsettled,
    /// It is in a dead letter about which no operator has decided.
    DeadLetter,
    /// A webhook delivery of it is pending.
    PendingDelivery,
    /// The application needs it ([`NeededEvents`](super::NeededEvents)).
    Needed,
    /// A stored value that belongs to it cannot be read.
    Unreadable,
}

impl KeptBecause {
    /// Name of the reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            KeptBecause::Pending => "pending",
            KeptBecause::Failed => "failed",
            KeptBecause::Recent => "recent",
            KeptBecause::Unsettled => "unsettled",
            KeptBecause::DeadLetter => "deadLetter",
            KeptBecause::PendingDelivery => "pendingDelivery",
            KeptBecause::Needed => "needed",
            KeptBecause::Unreadable => "unreadable",
        }
    }
}

/// A consumer, as far as it decides about retention.
#[derive(Debug, Default)]
pub(super) struct Interest {
    /// Event types that any process applies for this consumer.
    pub(super) event_types: BTreeSet<String>,
    /// Outbox id after which the consumer receives events. `None`: it has not subscribed, so any event may wait for it in
    /// its queue.
    pub(super) after_id: Option<i64>,
}

impl Interest {
    fn concerns(&self, row: &OutboxRow) -> bool {
        self.event_types.contains(&row.event_type) && self.after_id.is_none_or(|after_id| row.id > after_id)
    }
}

/// What the database contains about events whose retention time is over.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) interests: BTreeMap<String, Interest>,
    pub(super) records: BTreeMap<EventId, Vec<Consumed>>,
    /// Events with a dead letter.
    pub(super) dead_lettered: BTreeSet<String>,
    /// Events with a dead letter about which no operator has decided.
    pub(super) undecided: BTreeSet<String>,
    pub(super) pending_deliveries: BTreeSet<EventId>,
    pub(super) needed: BTreeSet<EventId>,
}

/// The reasons for which no other table is read.
pub(super) fn by_row(row: &OutboxRow, policy: &RetentionPolicy, now: DateTime<Utc>) -> Option<KeptBecause> {
    match row.status {
        OutboxStatus::New | OutboxStatus::Retry => return Some(KeptBecause::Pending),
        OutboxStatus::Failed => return Some(KeptBecause::Failed),
        OutboxStatus::Sent => {}
    }
    // A row that was made SENT by SQL has no time of confirmation.
    let confirmed = row.sent_time.unwrap_or(row.update_time);
    let since = row.restored_time.map_or(confirmed, |restored| restored.max(confirmed));
    (!policy.is_over(&row.event_type, since, now)).then_some(KeptBecause::Recent)
}

/// The other reasons.
pub(super) fn by_evidence(row: &OutboxRow, evidence: &Evidence) -> Option<KeptBecause> {
    let event = &row.event_id;
    let records = evidence.records.get(event).map_or(&[][..], Vec::as_slice);
    let has_record = |consumer: &str| records.iter().any(|record| record.consumer == consumer);
    let awaits = |(consumer, interest): (&String, &Interest)| {
        interest.concerns(row) && !row.idle_consumers.contains(consumer) && !has_record(consumer)
    };
    let is_dead_lettered = evidence.dead_lettered.contains(event.as_str());
    let is_open = |record: &Consumed| match record.record.status {
        ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed => true,
        ConsumeStatus::Success => false,
        // Its message may still be in the broker, before it is parked for an operator.
        ConsumeStatus::Dead => !is_dead_lettered,
    };
    if evidence.interests.iter().any(awaits) || records.iter().any(is_open) {
        Some(KeptBecause::Unsettled)
    } else if evidence.undecided.contains(event.as_str()) {
        Some(KeptBecause::DeadLetter)
    } else if evidence.pending_deliveries.contains(event) {
        Some(KeptBecause::PendingDelivery)
    } else if evidence.needed.contains(event) {
        Some(KeptBecause::Needed)
    } else {
        None
    }
}
