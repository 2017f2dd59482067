//! Dead letters: messages that no consumer could process, parked for an operator.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;

use super::error::{Changed, StoreError};
use super::numbered::Numbered;
use crate::storable_text::{hash, storable};

/// Longest body of a dead letter in bytes. It is twice the size of MySQL's `payload` column, so that no event of this
/// outbox is truncated, and far below the servers' packet limits (`max_allowed_packet`).
pub const MAX_DEAD_LETTER_BODY_BYTES: usize = 128 * 1024;
/// Longest reason in bytes.
pub const MAX_DEAD_LETTER_REASON_BYTES: usize = 4 * 1024;
/// Longest queue name, key, event type and trace id in bytes: the limit of an AMQP short string.
pub const MAX_DEAD_LETTER_NAME_BYTES: usize = 255;

/// Status of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterStatus {
    /// An operator has to decide.
    Open,
    /// The message is being sent to its consumer again. The status stays until the broker confirms the message.
    Replaying,
    /// The broker confirmed that the message is in the consumer's queue again, or the event was already applied.
    Replayed,
    /// Discarded by an operator.
    Discarded,
}

impl DeadLetterStatus {
    /// Every status.
    pub const ALL: &'static [DeadLetterStatus] = &[
        DeadLetterStatus::Open,
        DeadLetterStatus::Replaying,
        DeadLetterStatus::Replayed,
        DeadLetterStatus::Discarded,
    ];

    /// Name of the status in columns and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            DeadLetterStatus::Open => "OPEN",
            DeadLetterStatus::Replaying => "REPLAYING",
            DeadLetterStatus::Replayed => "REPLAYED",
            DeadLetterStatus::Discarded => "DISCARDED",
        }
    }

    /// Returns the status with this name, if there is one.
    pub fn named(name: &str) -> Option<DeadLetterStatus> {
        DeadLetterStatus::ALL.iter().copied().find(|status| status.as_str() == name)
    }

    /// Whether the decision of an operator is missing or not carried out yet.
    pub const fn is_undecided(self) -> bool {
        matches!(self, DeadLetterStatus::Open | DeadLetterStatus::Replaying)
    }
}

/// A message that was dead-lettered at a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Queue whose consumer could not process the message.
    pub queue: String,
    /// Key within the queue: the event id, or a hash of the body if the message is not an event of this outbox.
    pub key: String,
    /// Tenant; the default tenant if it is unknown.
    pub tenant: TenantId,
    /// Event type, if known.
    pub event_type: Option<String>,
    /// Trace id, if known.
    pub trace_id: Option<String>,
    /// Message body, possibly truncated: see [`DeadLetter::storable`].
    pub body: String,
    /// Reason for the dead-lettering.
    pub reason: String,
    /// Time of the dead-lettering.
    pub died_at: DateTime<Utc>,
    /// Status.
    pub status: DeadLetterStatus,
    /// Time of the last decision by an operator.
    pub decided_at: Option<DateTime<Utc>>,
    /// Reason given by the operator who made the last decision.
    pub note: Option<String>,
}

impl DeadLetter {
    /// The dead letter in a form that every store accepts: NUL is written as `\x00`, and texts are truncated to
    /// their limits. If the body is truncated, the reason states length and SHA-256 of the whole body.
    /// Idempotent.
    pub fn storable(&self) -> DeadLetter {
        self.shortened(MAX_DEAD_LETTER_BODY_BYTES)
    }

    /// Like [`DeadLetter::storable`], with a body of at most `most` bytes.
    pub fn shortened(&self, most: usize) -> DeadLetter {
        let name = |text: &str| storable(text, MAX_DEAD_LETTER_NAME_BYTES).into_owned();
        let body = storable(&self.body, usize::MAX);
        let note = if body.len() > most {
            let bytes = self.body.len();
            let hash = hash(&self.body);
            format!("; the message has {bytes} bytes, at most {most} are kept; SHA-256 {hash}")
        } else {
            String::new()
        };
        let reason = storable(&self.reason, MAX_DEAD_LETTER_REASON_BYTES.saturating_sub(note.len()));
        DeadLetter {
            queue: name(&self.queue),
            key: name(&self.key),
            event_type: self.event_type.as_deref().map(name),
            trace_id: self.trace_id.as_deref().map(name),
            body: storable(&body, most).into_owned(),
            reason: format!("{reason}{note}"),
            tenant: self.tenant,
            died_at: self.died_at,
            status: self.status,
            decided_at: self.decided_at,
            note: self.note.clone(),
        }
    }
}

/// Selects dead letters; `None` matches any value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterFilter {
    /// Tenant of the message.
    pub tenant: Option<TenantId>,
    /// Key within the queue.
    pub key: Option<String>,
    /// Queue at which the message was dead-lettered.
    pub queue: Option<String>,
    /// Event type.
    pub event_type: Option<String>,
    /// Status.
    pub status: Option<DeadLetterStatus>,
    /// Only messages that were dead-lettered last at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Only messages that were dead-lettered last before this time.
    pub to: Option<DateTime<Utc>>,
    /// Only dead letters with an id above this one: bounds the number of dead letters that a page without an index reads.
    pub above_id: Option<i64>,
}

/// An operator's decision about a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Queue at which the message was dead-lettered.
    pub queue: String,
    /// Key within the queue.
    pub key: String,
    /// Statuses of the dead letter in which the decision may be applied.
    pub from: Vec<DeadLetterStatus>,
    /// Status of the dead letter after the operator's decision.
    pub to: DeadLetterStatus,
    /// Reason given by the operator; `None` keeps the previous reason.
    pub note: Option<String>,
    /// Time of the operator's decision.
    pub at: DateTime<Utc>,
}

/// Reads dead letters.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait DeadLetterQueries: Send {
    /// Dead letter with this queue and key.
    async fn dead_letter(&mut self, queue: &str, key: &str) -> Result<Option<DeadLetter>, StoreError>;

    /// At most `limit` matching dead letters with an id below `before`, greatest id first: the last parked comes first.
    /// A dead letter that is reopened keeps its id.
    async fn dead_letters_page(
        &mut self,
        filter: &DeadLetterFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError>;

    /// At most `limit` matching dead letters with an id above `after`, smallest id first.
    async fn dead_letters_after(
        &mut self,
        filter: &DeadLetterFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError>;

    /// Dead letters with these keys at any queue, in the order in which they were first parked.
    async fn dead_letters_of(&mut self, keys: &[String]) -> Result<Vec<DeadLetter>, StoreError>;

    /// Numbers of the dead letters of a tenant (`None`: all tenants) that are `Open` or `Replaying`, by queue, ordered by its
    /// name. Queues without any are omitted.
    async fn undecided_dead_letters(
        &mut self,
        tenant: Option<TenantId>,
    ) -> Result<Vec<(String, u64)>, StoreError>;
}

/// Writes dead letters.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait DeadLetterRepo: Send {
    /// Parks dead letters, each in its [storable form](DeadLetter::storable): a dead letter that a store rejects would
    /// be redelivered forever. If a dead letter with the same queue and key is already `Open`, it MUST stay unchanged.
    /// If it is `Replaying`, `Replayed` or `Discarded`, it is reopened with the new reason and time, and keeps the
    /// earlier decision.
    async fn park(&mut self, dead_letters: &[DeadLetter]) -> Result<(), StoreError>;

    /// Applies a decision if the dead letter has one of the expected statuses: one conditional write.
    async fn decide(&mut self, decision: &Decision) -> Result<Changed, StoreError>;
}
