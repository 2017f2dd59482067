//! Selection of dead letters by an operator.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use handover_events::{Json, TenantId};

use super::known_names::FilterNames;
use super::{Named, OperationError, Operator, present_fields, rfc3339};
use crate::outbox::Outbox;
use crate::ports::{DeadLetter, DeadLetterFilter, DeadLetterStatus};

/// Maximum number of dead letters that a filter selects per call.
pub const MAX_DEAD_LETTERS_PER_CALL: u32 = 1_000;

/// Statuses in which an operator still has to decide.
pub(super) const UNDECIDED: [DeadLetterStatus; 2] = [DeadLetterStatus::Open, DeadLetterStatus::Replaying];

/// Selects dead letters by key or by filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetterSelection {
    /// Dead letters with these keys, in any status.
    Keys {
        /// Keys: event ids, or body hashes of unknown messages.
        keys: Named<String>,
        /// Only dead letters of this queue: an event can be dead-lettered at several queues.
        queue: Option<String>,
    },
    /// Undecided dead letters, the oldest first.
    Filter {
        /// Queue at which the messages were dead-lettered.
        queue: Option<String>,
        /// Event type.
        event_type: Option<String>,
        /// Tenant.
        tenant: Option<TenantId>,
        /// Only messages that were dead-lettered last at or after this time.
        from: Option<DateTime<Utc>>,
        /// Only messages that were dead-lettered last before this time.
        to: Option<DateTime<Utc>>,
    },
}

/// A dead letter that a call did not discard or replay as requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Queue at which the message was dead-lettered.
    pub queue: String,
    /// Key within the queue.
    pub key: String,
    /// Reason; for some reasons also what the operator can do.
    pub why: String,
}

/// Returns the reason why a replayed or discarded dead letter cannot be changed; `None` for other statuses.
pub(super) fn already_decided(status: DeadLetterStatus) -> Option<&'static str> {
    match status {
        DeadLetterStatus::Open | DeadLetterStatus::Replaying => None,
        DeadLetterStatus::Replayed => Some("the dead letter was already replayed"),
        DeadLetterStatus::Discarded => Some("the dead letter was discarded"),
    }
}

pub(super) struct Selected {
    /// Selected dead letters, in the order in which they were parked.
    pub(super) dead_letters: Vec<DeadLetter>,
    /// Requested keys that do not exist or that belong to another tenant.
    pub(super) missing: Vec<String>,
    /// Whether the filter matches further dead letters.
    pub(super) more: bool,
}

impl DeadLetterSelection {
    pub(super) async fn select(
        &self,
        outbox: &Outbox,
        operator: &Operator,
    ) -> Result<Selected, OperationError> {
        match self {
            DeadLetterSelection::Keys { keys, queue } => {
                let tenant = operator.visible(None)?;
                let mut dead_letters =
                    outbox.view().await?.outbox_view().dead_letters_of(keys.as_slice()).await?;
                dead_letters.retain(|dead_letter| {
                    tenant.is_none_or(|tenant| dead_letter.tenant == tenant)
                        && queue.as_ref().is_none_or(|queue| dead_letter.queue == *queue)
                });
                let found: BTreeSet<&str> =
                    dead_letters.iter().map(|dead_letter| dead_letter.key.as_str()).collect();
                let missing = keys.as_slice().iter().filter(|key| !found.contains(key.as_str()));
                let missing = missing.cloned().collect();
                Ok(Selected { dead_letters, missing, more: false })
            }
            DeadLetterSelection::Filter { queue, event_type, tenant, from, to } => {
                let filter = DeadLetterFilter {
                    tenant: operator.visible(*tenant)?,
                    key: None,
                    queue: queue.clone(),
                    event_type: event_type.clone(),
                    status: None,
                    from: *from,
                    to: *to,
                    above_id: None,
                };
                let selected = undecided(outbox, &filter).await?;
                if selected.dead_letters.is_empty() {
                    let (event_type, queue) = (event_type.as_deref(), queue.as_deref());
                    FilterNames { event_type, queue, ..FilterNames::default() }.require_known(outbox)?;
                }
                Ok(selected)
            }
        }
    }

    /// Tenant, if the filter names one.
    pub(super) fn tenant(&self) -> Option<TenantId> {
        match self {
            DeadLetterSelection::Keys { .. } => None,
            DeadLetterSelection::Filter { tenant, .. } => *tenant,
        }
    }

    /// The selection as JSON fields, for the audit log.
    pub(super) fn selection(&self) -> Vec<(String, Json)> {
        match self {
            DeadLetterSelection::Keys { keys, queue } => present_fields([
                ("keys", Some(keys.as_slice().iter().map(String::as_str).collect())),
                ("queue", queue.as_deref().map(Json::from)),
            ]),
            DeadLetterSelection::Filter { queue, event_type, tenant, from, to } => {
                let filter = present_fields([
                    ("queue", queue.as_deref().map(Json::from)),
                    ("eventType", event_type.as_deref().map(Json::from)),
                    ("tenantId", tenant.map(|tenant| tenant.get().into())),
                    ("from", from.map(rfc3339)),
                    ("to", to.map(rfc3339)),
                ]);
                present_fields([("filter", Some(Json::Object(filter)))])
            }
        }
    }
}

/// The oldest undecided dead letters that match a filter.
async fn undecided(outbox: &Outbox, filter: &DeadLetterFilter) -> Result<Selected, OperationError> {
    let mut view = outbox.view().await?;
    let mut dead_letters = Vec::new();
    for status in UNDECIDED {
        let filter = DeadLetterFilter { status: Some(status), ..filter.clone() };
        let limit = MAX_DEAD_LETTERS_PER_CALL + 1;
        dead_letters.extend(view.outbox_view().dead_letters_after(&filter, None, limit).await?);
    }
    dead_letters.sort_by_key(|dead_letter| dead_letter.id);
    // A dead letter whose status changed between the queries can be in the results for both statuses.
    dead_letters.dedup_by_key(|dead_letter| dead_letter.id);
    let more = dead_letters.len() > MAX_DEAD_LETTERS_PER_CALL as usize;
    dead_letters.truncate(MAX_DEAD_LETTERS_PER_CALL as usize);
    Ok(Selected {
        dead_letters: dead_letters.into_iter().map(|dead_letter| dead_letter.effect).collect(),
        missing: Vec::new(),
        more,
    })
}
