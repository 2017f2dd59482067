//! What a consumer knows, and the units of work it runs: read what is unsettled, apply, record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{AggregateRef, ConsumeStatus, Envelope, EventId, HistoryKind, TenantId};
use tracing::info;

use super::bound::{Bound, HandlerUnit};
use super::{Applied, Event, HandlerError};
use crate::counted::{CONSUMED, IDEMPOTENT, when_committed};
use crate::foreign::{hash, storable};
use crate::mutants::{Mutant, planted};
use crate::ports::{
    ConsumeQueries, ConsumeRecord, Consumption, DeadLetter, DeadLetterStatus, Delivery, Expected,
    HistoryEntry, MAX_LETTER_REASON_BYTES, Message, OutboxQueries, OutboxRow, StoreError, Unapplied,
};
use crate::relay::envelope_of;
use crate::settings::ConsumerSettings;
use crate::{EventRegistry, Outbox, Transactor, UnitError, texts};

/// Locks of others are waited for this long, and what a statement waits beyond it; then the delivery gives up its place.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// One consumer's side of the database.
#[derive(Clone)]
pub(super) struct Inbox {
    pub(super) outbox: Outbox,
    /// The way into the units in which its handler works.
    pub(super) tx: Transactor<dyn HandlerUnit>,
    pub(super) bound: Bound,
    pub(super) settings: Arc<ConsumerSettings>,
    /// Outbox rows up to this id are history.
    pub(super) after_id: i64,
}

/// Why a unit of a consumer ended without a commit.
#[derive(Debug, thiserror::Error)]
pub(super) enum InboxError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The handler refused.
    #[error(transparent)]
    Handler(HandlerError),
    /// What was read outside the unit no longer holds inside it: look again.
    #[error("the log has changed meanwhile")]
    Moved,
}

impl UnitError for InboxError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            InboxError::Store(error) | InboxError::Handler(HandlerError::Store(error)) => Some(error),
            InboxError::Handler(HandlerError::Recoverable(_) | HandlerError::Unrecoverable(_))
            | InboxError::Moved => None,
        }
    }
}

/// What a message turns out to be when it is held against the outbox.
#[derive(Debug)]
pub(super) enum Identity {
    /// It carries this event.
    Genuine(Box<OutboxRow>),
    /// It carries no event of ours, and why not.
    Foreign(String),
}

impl Identity {
    fn foreign(why: String) -> Identity {
        Identity::Foreign(storable(&why, MAX_LETTER_REASON_BYTES).into_owned())
    }
}

impl Inbox {
    pub(super) fn new(
        outbox: &Outbox,
        bound: &Bound,
        settings: &Arc<ConsumerSettings>,
        after_id: i64,
    ) -> Inbox {
        let mut outbox = outbox.clone();
        outbox.tx.policy.patience = LOCK_PATIENCE;
        Inbox {
            tx: outbox.tx.with_store(Arc::clone(&bound.store)),
            outbox,
            bound: bound.clone(),
            settings: Arc::clone(settings),
            after_id,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.bound.name
    }

    pub(super) fn queue(&self) -> &'static str {
        self.bound.queue
    }

    /// The unsettled events of these aggregates, with the targets that are older than the subscription.
    pub(super) async fn unapplied<V: ConsumeQueries + ?Sized>(
        &self,
        view: &mut V,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<Unapplied>, StoreError> {
        view.unapplied(self.name(), self.bound.takes, self.after_id, aggregates).await
    }

    /// Runs the handler on these events, in order and within the limit, and records them as applied; tells for each what
    /// it did. The envelopes that carry some of them need not be parsed again.
    pub(super) async fn apply(
        &self,
        unit: &mut dyn HandlerUnit,
        steps: &[&Unapplied],
        carriers: &BTreeMap<EventId, Arc<Envelope>>,
        limit: Duration,
    ) -> Result<Vec<Applied>, InboxError> {
        let begun = self.outbox.now();
        let event = |step: &&Unapplied| match carriers.get(&step.event.event_id) {
            Some(envelope) => Ok(Event { row: step.event.clone(), envelope: Arc::clone(envelope) }),
            None => Event::of(&step.event),
        };
        let events = steps.iter().map(event).collect::<Result<Vec<_>, _>>();
        let events = events.map_err(InboxError::Handler)?;
        let handled = async {
            if planted(Mutant::DedupeOutsideTransaction) {
                let mut effects = self.tx.store.begin().await?;
                let applied = effects.apply(&events).await?;
                return effects.commit().await.map(|()| applied).map_err(HandlerError::Store);
            }
            unit.apply(&events).await
        };
        let applied = tokio::time::timeout(limit, handled)
            .await
            .unwrap_or_else(|_| Err(HandlerError::Recoverable(format!("not done within {limit:?}"))))
            .map_err(InboxError::Handler)?;
        if applied.len() != events.len() {
            let why = format!("the handler answered for {} of {} events", applied.len(), events.len());
            return Err(InboxError::Handler(HandlerError::Recoverable(why)));
        }
        let now = self.outbox.now();
        let cost_ms = (now - begun).num_milliseconds();
        let records: Vec<Consumption> = steps
            .iter()
            .zip(applied.iter().cloned())
            .map(|(step, Applied { result, idempotency_key, .. })| {
                let attempts = match step.record.as_ref() {
                    // A counted attempt that runs is this one.
                    Some(record) if record.status == ConsumeStatus::Processing => record.attempts,
                    Some(record) => record.attempts.saturating_add(1),
                    None => 1,
                };
                let record = self.record(step, ConsumeStatus::Success, attempts, now);
                Consumption { cost_ms, consume_result: result, idempotency_key, ..record }
            })
            .collect();
        unit.outbox().record(&records).await?;
        when_committed(metrics::counter!(CONSUMED, "consumer" => self.name()), records.len());
        Ok(applied)
    }

    /// Says that an event was applied, once that is committed.
    pub(super) fn tell(&self, event: &Told<'_>, applied: &Applied) {
        let (result, key) = (applied.result.as_deref(), applied.idempotency_key.as_deref());
        let _span = self.outbox.registry.span(event.kind, event.aggregate).entered();
        info!(hop = "consume", eventId = %event.id, eventType = event.kind, traceId = event.trace,
            traceparent = event.traceparent, durationMs = event.took.num_milliseconds(), aggregateType = event.aggregate_type,
            aggregateId = event.aggregate, queue = self.queue(), consumer = self.name(), idempotencyKey = key, result,
            "[{}] Message consumed successfully", self.name());
        if applied.is_repeated {
            metrics::counter!(IDEMPOTENT, "consumer" => self.name()).increment(1);
        }
    }

    /// Logs and counts a delivery that was ignored, as its event had been applied; to be called after the commit.
    pub(super) fn log_duplicate(&self, event: &EventId, trace_id: &str) {
        metrics::counter!(IDEMPOTENT, "consumer" => self.name()).increment(1);
        info!(eventId = %event, traceId = trace_id, queue = self.queue(), consumer = self.name(), "{}", texts::DUPLICATE);
    }

    /// An ignored delivery of an event, as the history of the event keeps it.
    pub(super) fn duplicate(&self, row: &OutboxRow, at: DateTime<Utc>) -> HistoryEntry {
        HistoryEntry {
            tenant: row.aggregate.tenant,
            event_id: row.event_id.clone(),
            kind: HistoryKind::Duplicate,
            consumer: Some(self.name().to_owned()),
            attempts: 0,
            detail: None,
            at,
        }
    }

    /// A consume-log row that follows the one that was read.
    pub(super) fn record(
        &self,
        step: &Unapplied,
        status: ConsumeStatus,
        attempts: u32,
        now: DateTime<Utc>,
    ) -> Consumption {
        following(self.name(), &step.event, step.record.as_ref(), status, attempts, now)
    }

    /// The dead letter of an event of ours.
    pub(super) fn dead_letter(&self, row: &OutboxRow, reason: &str, now: DateTime<Utc>) -> DeadLetter {
        DeadLetter {
            queue: self.queue().to_owned(),
            key: row.event_id.as_str().to_owned(),
            tenant: row.aggregate.tenant,
            event_type: Some(row.event_type.clone()),
            trace_id: Some(row.trace_id().to_owned()),
            body: envelope_of(row).map_or_else(|_| row.payload.clone(), |envelope| envelope.to_json()),
            reason: reason.to_owned(),
            died_at: now,
            status: DeadLetterStatus::Open,
            decided_at: None,
            note: None,
        }
    }

    /// A target as the gate wants it: the row, and its place in the log.
    pub(super) async fn target<V: OutboxQueries + ConsumeQueries + ?Sized>(
        &self,
        view: &mut V,
        id: &EventId,
    ) -> Result<Option<Unapplied>, StoreError> {
        let Some(event) = view.outbox_by_event(std::slice::from_ref(id)).await?.pop() else {
            return Ok(None);
        };
        let record = view.consumption(self.name(), id).await?;
        Ok(Some(Unapplied { event, record }))
    }
}

/// An event, as the log line names it.
pub(super) struct Told<'a> {
    pub(super) id: &'a EventId,
    pub(super) kind: &'a str,
    pub(super) trace: &'a str,
    pub(super) traceparent: Option<&'a str>,
    /// How long it took, until it was committed.
    pub(super) took: TimeDelta,
    pub(super) aggregate_type: &'a str,
    pub(super) aggregate: i64,
}

/// The row of the log that follows the one that was read, if there was one.
pub(super) fn following(
    consumer: &str,
    event: &OutboxRow,
    record: Option<&ConsumeRecord>,
    status: ConsumeStatus,
    attempts: u32,
    now: DateTime<Utc>,
) -> Consumption {
    Consumption {
        consumer: consumer.to_owned(),
        event_id: event.event_id.clone(),
        event_type: event.event_type.clone(),
        aggregate: event.aggregate.clone(),
        aggregate_seq: event.aggregate_seq,
        expected: record.map_or(Expected::Absent, |record| Expected::At(record.status, record.attempts)),
        status,
        attempts,
        next_retry_time: None,
        lease_until: None,
        error_message: record.and_then(|record| record.error_message.clone()),
        idempotency_key: None,
        consume_result: None,
        payload_hash: hash(&event.payload),
        trace_id: event.trace_id().to_owned(),
        cost_ms: 0,
        consume_time: now,
    }
}

/// Holds a message against the outbox: the row is the event, the message only says that it is time. The reason why a
/// message is foreign may quote it, so it is bounded.
pub(super) async fn identify<V: OutboxQueries + ?Sized>(
    view: &mut V,
    registry: &EventRegistry,
    message: &Message,
) -> Result<Identity, StoreError> {
    let envelope = match Envelope::parse(&message.body) {
        Ok(envelope) => envelope,
        Err(error) => return Ok(Identity::foreign(format!("{}: {error}", texts::CONSUME_FAILED))),
    };
    let Some(row) = view.outbox_by_event(std::slice::from_ref(&envelope.event_id)).await?.pop() else {
        let Envelope { event_id, event_type, .. } = &envelope;
        return Ok(Identity::foreign(if registry.knows(event_type) {
            format!("{}: there is no outbox row of event {event_id}", texts::CONSUME_FAILED)
        } else {
            format!("{}: {event_type}", texts::UNSUPPORTED_TYPE)
        }));
    };
    if carries(&envelope, &row) {
        Ok(Identity::Genuine(Box::new(row)))
    } else {
        let id = &envelope.event_id;
        Ok(Identity::foreign(format!(
            "{}: the outbox row of event {id} has another payload",
            texts::CONSUME_FAILED
        )))
    }
}

/// Whether an envelope says what the outbox row says.
pub(super) fn carries(envelope: &Envelope, row: &OutboxRow) -> bool {
    envelope.event_id == row.event_id
        && envelope.event_type == row.event_type
        && envelope.aggregate_type == row.aggregate.kind
        && envelope.aggregate_id == row.aggregate.id
        && is_payload(&envelope.payload, &row.payload)
}

/// Whether a payload is the one of a row. Written as we write it, it needs no parsing.
fn is_payload(payload: &serde_json::Value, row: &str) -> bool {
    let written = payload.to_string();
    written == row || serde_json::from_str::<serde_json::Value>(row).is_ok_and(|parsed| parsed == *payload)
}

/// A delivery, and what it carries: parsed once.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) delivery: Delivery,
    /// Nothing where the body is no envelope.
    pub(super) envelope: Option<Arc<Envelope>>,
}

impl Taken {
    pub(super) fn of(delivery: Delivery) -> Taken {
        Taken { envelope: Envelope::parse(&delivery.message.body).ok().map(Arc::new), delivery }
    }

    /// The aggregate it says it is about; one that says nothing has a lane of its own.
    pub(super) fn lane(&self) -> AggregateRef {
        match &self.envelope {
            Some(envelope) => claimed_aggregate(envelope, &self.delivery.message),
            None => AggregateRef {
                tenant: TenantId::DEFAULT,
                kind: String::new(),
                id: i64::try_from(self.delivery.tag.0).unwrap_or(i64::MAX),
            },
        }
    }
}

/// The aggregate that a message says it is about; its outbox row has the last word.
pub(super) fn claimed_aggregate(envelope: &Envelope, message: &Message) -> AggregateRef {
    let tenant =
        message.headers.get("tenantId").and_then(|text| text.parse().ok()).unwrap_or(TenantId::DEFAULT);
    AggregateRef { tenant, kind: envelope.aggregate_type.clone(), id: envelope.aggregate_id }
}
