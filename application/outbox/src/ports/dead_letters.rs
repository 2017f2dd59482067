//! Dead letters: what no consumer could do, kept where a person sees it.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;

use super::{Changed, Numbered, StoreError};
use crate::foreign::{hash, storable};

/// The longest body that a dead letter keeps, in bytes. Twice what MySQL's `payload` column holds, so that no event of
/// ours is shortened there, and far below the packet limits of servers (`max_allowed_packet`).
pub const MAX_LETTER_BODY_BYTES: usize = 128 * 1024;
/// The longest reason, in bytes.
pub const MAX_LETTER_REASON_BYTES: usize = 4 * 1024;
/// The longest queue, key, event type and trace id, in bytes: that of an AMQP short string.
pub const MAX_LETTER_NAME_BYTES: usize = 255;

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterStatus {
    /// A person has to decide.
    Open,
    /// On its way back to the consumer it died at; stays so if the process ends before the broker confirms.
    Replaying,
    /// The broker confirmed that it is back at the consumer it died at.
    Replayed,
    /// Given up by a person.
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

    /// Its name in columns and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            DeadLetterStatus::Open => "OPEN",
            DeadLetterStatus::Replaying => "REPLAYING",
            DeadLetterStatus::Replayed => "REPLAYED",
            DeadLetterStatus::Discarded => "DISCARDED",
        }
    }

    /// The status of that name.
    pub fn named(name: &str) -> Option<DeadLetterStatus> {
        DeadLetterStatus::ALL.iter().copied().find(|status| status.as_str() == name)
    }
}

/// A message that died at a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The queue at whose consumer it died.
    pub queue: String,
    /// What identifies it there: its event id, or a hash of its body if it has none.
    pub key: String,
    /// Its tenant, where known.
    pub tenant: TenantId,
    /// Its event type, where known.
    pub event_type: Option<String>,
    /// The trace, where known.
    pub trace_id: Option<String>,
    /// The message, as far as it is kept: see [`DeadLetter::storable`].
    pub body: String,
    /// Why it died.
    pub reason: String,
    /// When.
    pub died_at: DateTime<Utc>,
    /// What has become of it.
    pub status: DeadLetterStatus,
    /// When a person last decided about it.
    pub decided_at: Option<DateTime<Utc>>,
    /// What that person said.
    pub note: Option<String>,
}

impl DeadLetter {
    /// The letter in the form in which every store can hold it: a NUL is written `\x00`, and what is longer than its
    /// limit is shortened. The reason of a letter with a shortened body states length and SHA-256 of the whole message.
    /// Of a letter in this form it changes nothing.
    pub fn storable(&self) -> DeadLetter {
        self.shortened(MAX_LETTER_BODY_BYTES)
    }

    /// The same with a shorter body.
    pub fn shortened(&self, most: usize) -> DeadLetter {
        let name = |text: &str| storable(text, MAX_LETTER_NAME_BYTES).into_owned();
        let body = storable(&self.body, usize::MAX);
        let note = if body.len() > most {
            let (bytes, hash) = (self.body.len(), hash(&self.body));
            format!("; the message has {bytes} bytes, at most {most} are kept; SHA-256 {hash}")
        } else {
            String::new()
        };
        let reason = storable(&self.reason, MAX_LETTER_REASON_BYTES.saturating_sub(note.len()));
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

/// Which dead letters a person wants to see; `None` is any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterFilter {
    /// Of which tenant.
    pub tenant: Option<TenantId>,
    /// Died at which queue.
    pub queue: Option<String>,
    /// Of which event type.
    pub event_type: Option<String>,
    /// In which status.
    pub status: Option<DeadLetterStatus>,
}

/// What a person decided about a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The queue at which it died.
    pub queue: String,
    /// Its key there.
    pub key: String,
    /// Where it has to stand for the decision to hold.
    pub from: Vec<DeadLetterStatus>,
    /// Where it stands then.
    pub to: DeadLetterStatus,
    /// What the person says; `None` leaves what was said before.
    pub note: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

/// Reads dead letters.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait DeadLetterQueries: Send {
    /// One dead letter.
    async fn dead_letter(&mut self, queue: &str, key: &str) -> Result<Option<DeadLetter>, StoreError>;

    /// At most `limit` dead letters numbered below `before`, greatest number first: the last parked comes first. One
    /// that is opened again keeps its number.
    async fn dead_letters_page(
        &mut self,
        filter: &DeadLetterFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError>;

    /// The dead letters under these keys, at whatever queue, in the order in which they were first parked.
    async fn dead_letters_of(&mut self, keys: &[String]) -> Result<Vec<DeadLetter>, StoreError>;

    /// How many dead letters of a tenant (`None`: of all) are `Open` or `Replaying`.
    async fn undecided_dead_letters(&mut self, tenant: Option<TenantId>) -> Result<u64, StoreError>;
}

/// Writes dead letters.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait DeadLetterRepo: Send {
    /// Parks dead letters, each in its [storable form](DeadLetter::storable), whatever texts it has: a letter that a store
    /// cannot hold would come back for ever. One that is already `Open` under its queue and key MUST stay as it is;
    /// one that is being replayed, was replayed or discarded is opened again with the new reason and time, and keeps
    /// what was decided before.
    async fn park(&mut self, letters: &[DeadLetter]) -> Result<(), StoreError>;

    /// Carries out a decision if the letter stands where it says: one conditional write.
    async fn decide(&mut self, decision: &Decision) -> Result<Changed, StoreError>;
}
