//! Which dead letters an operator decides about.

use std::collections::{BTreeSet, VecDeque};

use handover_events::TenantId;
use serde_json::{Map, Value};

use super::{Named, OperationError, Operator, asked};
use crate::Outbox;
use crate::ports::{DeadLetter, DeadLetterFilter, DeadLetterStatus};

/// The greatest number of dead letters that one call decides about.
pub const MAX_LETTERS: u32 = 1_000;

/// Letters read at a time where the oldest are looked for.
const PAGE: u32 = 500;

/// Where a letter stands as long as a person has to decide about it.
pub(super) const UNDECIDED: [DeadLetterStatus; 2] = [DeadLetterStatus::Open, DeadLetterStatus::Replaying];

/// Which dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Letters {
    /// Those under these keys, whatever was decided about them.
    Keys {
        /// The keys: event ids, or hashes of what was no event of ours.
        keys: Named<String>,
        /// Only those that died at this queue: an event can have died at several.
        queue: Option<String>,
    },
    /// Those that nobody decided about, the oldest first.
    Filter {
        /// Died at this queue.
        queue: Option<String>,
        /// Of this event type.
        event_type: Option<String>,
        /// Of this tenant.
        tenant: Option<TenantId>,
    },
}

/// A letter that was left as it was, or could only be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The queue at which it died.
    pub queue: String,
    /// Its key there.
    pub key: String,
    /// Why, and what can be done.
    pub why: String,
}

/// Why nothing more can be done about a letter that somebody decided about.
pub(super) fn decided(status: DeadLetterStatus) -> Option<&'static str> {
    match status {
        DeadLetterStatus::Open | DeadLetterStatus::Replaying => None,
        DeadLetterStatus::Replayed => Some("it was replayed already"),
        DeadLetterStatus::Discarded => Some("it was discarded"),
    }
}

/// What was chosen.
pub(super) struct Chosen {
    /// In the order in which they were parked.
    pub(super) letters: Vec<DeadLetter>,
    /// Keys that were named and are not there, or another tenant's.
    pub(super) missing: Vec<String>,
    /// Whether the filter chooses further ones.
    pub(super) more: bool,
}

impl Letters {
    pub(super) async fn choose(
        &self,
        outbox: &Outbox,
        operator: &Operator,
    ) -> Result<Chosen, OperationError> {
        match self {
            Letters::Keys { keys, queue } => {
                let tenant = operator.visible(None)?;
                let mut letters = outbox.view().await?.outbox_view().dead_letters_of(keys.as_slice()).await?;
                letters.retain(|letter| {
                    tenant.is_none_or(|tenant| letter.tenant == tenant)
                        && queue.as_ref().is_none_or(|queue| letter.queue == *queue)
                });
                let there: BTreeSet<&str> = letters.iter().map(|letter| letter.key.as_str()).collect();
                let missing = keys.as_slice().iter().filter(|key| !there.contains(key.as_str()));
                let missing = missing.cloned().collect();
                Ok(Chosen { letters, missing, more: false })
            }
            Letters::Filter { queue, event_type, tenant } => {
                let filter = DeadLetterFilter {
                    tenant: operator.visible(*tenant)?,
                    queue: queue.clone(),
                    event_type: event_type.clone(),
                    status: None,
                };
                undecided(outbox, &filter).await
            }
        }
    }

    /// Of which tenant, if one is named.
    pub(super) fn tenant(&self) -> Option<TenantId> {
        match self {
            Letters::Keys { .. } => None,
            Letters::Filter { tenant, .. } => *tenant,
        }
    }

    /// What was asked for, for the audit log.
    pub(super) fn selection(&self) -> Map<String, Value> {
        match self {
            Letters::Keys { keys, queue } => asked([
                ("keys", Some(keys.as_slice().iter().map(String::as_str).collect())),
                ("queue", queue.as_deref().map(Value::from)),
            ]),
            Letters::Filter { queue, event_type, tenant } => {
                let filter = asked([
                    ("queue", queue.as_deref().map(Value::from)),
                    ("eventType", event_type.as_deref().map(Value::from)),
                    ("tenantId", tenant.map(|tenant| tenant.get().into())),
                ]);
                asked([("filter", Some(Value::Object(filter)))])
            }
        }
    }
}

/// The oldest that a filter chooses among those that nobody decided about.
async fn undecided(outbox: &Outbox, filter: &DeadLetterFilter) -> Result<Chosen, OperationError> {
    let mut view = outbox.view().await?;
    let (mut letters, mut more) = (Vec::new(), false);
    for status in UNDECIDED {
        let filter = DeadLetterFilter { status: Some(status), ..filter.clone() };
        // Pages come newest first: those that were read last are the oldest.
        let (mut oldest, mut before) = (VecDeque::new(), None);
        loop {
            let page = view.outbox_view().dead_letters_page(&filter, before, PAGE).await?;
            before = page.last().map(|letter| letter.id);
            let is_last = page.len() < PAGE as usize;
            oldest.extend(page);
            let surplus = oldest.len().saturating_sub(MAX_LETTERS as usize);
            more |= surplus > 0;
            oldest.drain(..surplus);
            if is_last {
                break;
            }
        }
        letters.extend(oldest);
    }
    letters.sort_by_key(|letter| letter.id);
    // One whose status changed between the pages is there twice.
    letters.dedup_by_key(|letter| letter.id);
    more |= letters.len() > MAX_LETTERS as usize;
    letters.truncate(MAX_LETTERS as usize);
    Ok(Chosen {
        letters: letters.into_iter().map(|letter| letter.effect).collect(),
        missing: Vec::new(),
        more,
    })
}
