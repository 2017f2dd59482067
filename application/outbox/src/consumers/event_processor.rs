//! Reads the unsettled events of one consumer, applies them in units of work, and records the results.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt as _;
use handover_events::{ConsumeStatus, Envelope, EventId, HistoryKind};

use tracing::Span;

use super::bound::{Bound, HandlerUnit};
use super::breaker::Breaker;
use super::counted_attempt::{ExternalEffect, attempts_after};
use super::gate_marks::GateMarks;
use crate::event_line::{EVENT_TARGET, EventFields, event_line};
use crate::handler::{Applied, Event, ExternalHandler, HandlerError};
use crate::message::dead_letter_body;
use crate::metrics::{
    COMMIT_TO_EFFECT, CONSUMED, CONSUMER_ATTEMPTS, HANDLER_SECONDS, IDEMPOTENT, LEFT, count_on_commit,
    on_commit, record_on_commit, seconds, time_on_commit,
};
use crate::outbox::Outbox;
use crate::ports::{
    ConsumeQueries, ConsumeRecord, Consumption, DeadLetter, DeadLetterStatus, Expected, HistoryEntry,
    MAX_DEAD_LETTER_REASON_BYTES, OutboxQueries, OutboxRow, StoreError, Unapplied, UnorderedTypes,
};
use crate::settings::{ConsumeOrder, ConsumerSettings};
use crate::spans::Processed;
use crate::storable_text::{hash, storable};
use crate::summary::Happened;
use crate::transaction::{Transactor, UnitError};

/// Time limit for the lock waits of a unit of work; its last statement may exceed the limit by one lock timeout. After
/// this time a group is divided into single deliveries, and a single event is left to the sweep.
pub(super) const LOCK_WAIT_LIMIT: Duration = Duration::from_secs(1);

/// Reads and applies the events of one consumer.
#[derive(Clone)]
pub(super) struct EventProcessor {
    pub(super) outbox: Outbox,
    /// Begins the units of work in which the handler runs.
    pub(super) tx: Transactor<dyn HandlerUnit>,
    pub(super) bound: Bound,
    pub(super) settings: Arc<ConsumerSettings>,
    /// The order gate ignores outbox rows up to this id, unless they are delivered or requested by the sweep.
    pub(super) after_id: i64,
    pub(super) breaker: Arc<Breaker>,
    /// Where the order gate begins its searches.
    pub(super) marks: Arc<Mutex<GateMarks>>,
    /// Trace contexts in which the events of the current deliveries were published.
    pub(super) published: Arc<BTreeMap<EventId, String>>,
    /// Event types that this consumer applies in any order.
    pub(super) unordered: Arc<UnorderedTypes>,
}

/// Reason why a unit of work of a consumer was not committed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProcessError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Handler(HandlerError),
    /// Data that was read before the unit of work has changed: read it again.
    #[error("the consume log has changed since it was read")]
    Stale,
}

impl UnitError for ProcessError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            ProcessError::Store(error) | ProcessError::Handler(HandlerError::Store(error)) => Some(error),
            ProcessError::Handler(HandlerError::Recoverable(_) | HandlerError::Unrecoverable(_))
            | ProcessError::Stale => None,
        }
    }
}

impl EventProcessor {
    pub(super) fn new(
        outbox: &Outbox,
        bound: &Bound,
        settings: &Arc<ConsumerSettings>,
        after_id: i64,
    ) -> EventProcessor {
        let mut outbox = outbox.clone();
        outbox.tx = outbox.tx.with_max_elapsed(LOCK_WAIT_LIMIT);
        let settings = Arc::new(settings.with(&bound.settings));
        let unordered = match bound.settings.order {
            ConsumeOrder::Sequence => outbox.registry.unordered().clone(),
            ConsumeOrder::Any => bound.event_types().into_iter().collect(),
        };
        let mut tx = outbox.tx.with_store(Arc::clone(&bound.store));
        if let Some(tasks) = outbox.handler_tasks.as_ref().filter(|_| bound.external.is_none()) {
            tx = tx.with_tasks(tasks);
        }
        EventProcessor {
            tx,
            bound: bound.clone(),
            after_id,
            breaker: Breaker::new(
                bound.name.clone(),
                bound.queue.clone(),
                settings.breaker,
                Arc::clone(&outbox.figures),
            ),
            outbox,
            settings,
            marks: Arc::default(),
            published: Arc::default(),
            unordered: Arc::new(unordered),
        }
    }

    /// The same processor for deliveries of events that were published in these trace contexts.
    pub(super) fn with_published(&self, published: BTreeMap<EventId, String>) -> EventProcessor {
        EventProcessor { published: Arc::new(published), ..self.clone() }
    }

    /// Opens the span in which a group of events is processed, or a single event.
    pub(super) fn span(&self, events: &[(&EventId, &str)]) -> Span {
        let Some(spans) = &self.outbox.spans else { return Span::none() };
        let contexts: Vec<&str> =
            events.iter().filter_map(|(id, _)| self.published.get(*id)).map(String::as_str).collect();
        let first_type = events.first().map_or("", |(_, event_type)| event_type);
        let is_one_type = events.iter().all(|(_, event_type)| *event_type == first_type);
        let routing_key = self.outbox.registry.routing_key(first_type).filter(|_| is_one_type);
        let processed = Processed {
            exchange: &self.outbox.topology.exchange,
            routing_key: routing_key.unwrap_or_default(),
            queue: self.queue(),
            consumer: self.name(),
            event_id: events.first().filter(|_| events.len() == 1).map(|(id, _)| id.as_str()),
            events: u64::try_from(events.len()).unwrap_or(u64::MAX),
        };
        spans.process(&processed, &contexts)
    }

    /// Fields of the event of a row, for a log line.
    pub(super) fn fields<'e>(&self, row: &'e OutboxRow) -> EventFields<'e> {
        EventFields::of(&self.outbox.registry, row)
    }

    pub(super) fn name(&self) -> &str {
        &self.bound.name
    }

    pub(super) fn queue(&self) -> &str {
        &self.bound.queue
    }

    /// Runs the handler on these events, in order and within the time limit, and records them as applied. Returns the
    /// handler's result for each event. Envelopes that are already parsed are passed in `envelopes`. If the handler is an
    /// external one, it has run already; `effect` is its result.
    pub(super) async fn apply(
        &self,
        unit: &mut dyn HandlerUnit,
        steps: &[&Unapplied],
        envelopes: &BTreeMap<EventId, Arc<Envelope>>,
        limit: Duration,
        effect: Option<ExternalEffect>,
    ) -> Result<Vec<Applied>, ProcessError> {
        let started_at = self.outbox.now();
        let event = |step: &&Unapplied| {
            let attempt = attempts_after(step);
            let published = self.published.get(&step.event.event_id).cloned();
            match envelopes.get(&step.event.event_id) {
                Some(envelope) => {
                    Ok(Event { row: step.event.clone(), envelope: Arc::clone(envelope), attempt, published })
                }
                None => Ok(Event { attempt, published, ..Event::of(&step.event)? }),
            }
        };
        let events = steps.iter().map(event).collect::<Result<Vec<_>, _>>();
        let events = events.map_err(ProcessError::Handler)?;
        let effect_ms = effect.as_ref().map(|effect| effect.cost_ms);
        let applied = match effect {
            Some(effect) => vec![effect.applied],
            None => in_time(&self.tx, limit, unit.apply(&events)).await.map_err(ProcessError::Handler)?,
        };
        if applied.len() != events.len() {
            let why = format!("the handler returned {} results for {} events", applied.len(), events.len());
            return Err(ProcessError::Handler(HandlerError::Recoverable(why)));
        }
        let now = self.outbox.now();
        // Of a group, each event has its share.
        let events = i64::try_from(steps.len()).unwrap_or(i64::MAX).max(1);
        let cost_ms = effect_ms.unwrap_or_else(|| (now - started_at).num_milliseconds() / events);
        if effect_ms.is_none() {
            self.measure_handler(now - started_at);
        }
        let to_effect = metrics::histogram!(COMMIT_TO_EFFECT, "consumer" => self.bound.name.clone());
        let attempts = metrics::histogram!(CONSUMER_ATTEMPTS, "consumer" => self.bound.name.clone());
        for step in steps {
            time_on_commit(to_effect.clone(), now - step.event.create_time);
            record_on_commit(attempts.clone(), f64::from(attempts_after(step)));
        }
        let records: Vec<Consumption> = steps
            .iter()
            .zip(applied.iter().cloned())
            .map(|(step, Applied { result, idempotency_key, .. })| {
                let record = self.record(step, ConsumeStatus::Success, attempts_after(step), now);
                // Texts of the handler, possibly from another system: a text that a store rejects would repeat the effect.
                let [consume_result, idempotency_key] = [result, idempotency_key]
                    .map(|text| text.map(|text| storable(&text, MAX_DEAD_LETTER_REASON_BYTES).into_owned()));
                Consumption { cost_ms, consume_result, idempotency_key, ..record }
            })
            .collect();
        unit.outbox().record(&records).await?;
        let (figures, consumer) = (Arc::clone(&self.outbox.figures), self.bound.name.clone());
        let times: Vec<TimeDelta> = steps.iter().map(|step| now - step.event.create_time).collect();
        on_commit(move || {
            for after in times {
                figures.applied(now, &consumer, after);
                figures.attempted(now, &consumer, cost_ms);
            }
        });
        count_on_commit(metrics::counter!(CONSUMED, "consumer" => self.bound.name.clone()), records.len());
        Ok(applied)
    }

    /// Calls the external handler with an event, within the time limit of an attempt. A panic of the handler is a failed attempt,
    /// as in a unit of work: otherwise it would end the task of the sweep, or of a lane.
    pub(super) async fn call(
        &self,
        handler: &dyn ExternalHandler,
        step: &Unapplied,
    ) -> Result<ExternalEffect, HandlerError> {
        let started_at = self.outbox.now();
        let published = self.published.get(&step.event.event_id).cloned();
        let event = Event { attempt: attempts_after(step), published, ..Event::of(&step.event)? };
        let calling = AssertUnwindSafe(async { handler.call(&event).await }).catch_unwind();
        let calling = async { calling.await.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))) };
        let applied = in_time(&self.tx, self.settings.attempt_timeout, calling).await?;
        let took = self.outbox.now() - started_at;
        self.measure_handler(took);
        Ok(ExternalEffect { applied, cost_ms: took.num_milliseconds() })
    }

    fn measure_handler(&self, took: TimeDelta) {
        metrics::histogram!(HANDLER_SECONDS, "consumer" => self.bound.name.clone()).record(seconds(took));
    }

    /// Logs that an event was applied; called after the commit.
    pub(super) fn log_applied(&self, delivery: &DeliveryFields<'_>, applied: &Applied) {
        let result = applied.result.as_deref();
        let key = applied.idempotency_key.as_deref();
        event_line!(target: EVENT_TARGET, INFO, delivery.event, code = "consumer.event.applied",
            traceparent = delivery.traceparent, durationMs = delivery.elapsed.num_milliseconds(), queue = self.queue(),
            consumer = self.name(), idempotencyKey = key, result, "[{}] Message consumed successfully", self.name());
        self.outbox.summary().consumer(&self.bound.name, Happened::Done(delivery.since_commit));
        if applied.is_repeated {
            metrics::counter!(IDEMPOTENT, "consumer" => self.bound.name.clone()).increment(1);
        }
    }

    /// Logs and counts an ignored duplicate; called after the commit.
    pub(super) fn log_duplicate(&self, event: EventFields<'_>) {
        metrics::counter!(IDEMPOTENT, "consumer" => self.bound.name.clone()).increment(1);
        event_line!(target: EVENT_TARGET, INFO, event, code = "consumer.event.duplicate", queue = self.queue(),
            consumer = self.name(), "{}", self.outbox.texts.duplicate);
    }

    /// Logs and counts a delivery that is left to another process because this one does not apply events of its type;
    /// called after the event was recorded as WAITING.
    pub(super) fn log_left(&self, event: EventFields<'_>) {
        if self.bound.takes(event.kind) {
            return;
        }
        metrics::counter!(LEFT, "consumer" => self.bound.name.clone()).increment(1);
        event_line!(
            INFO,
            event,
            code = "consumer.event.left",
            queue = self.queue(),
            consumer = self.name(),
            "[{}] event left to a process that has registered its type",
            self.name()
        );
    }

    /// Types that other processes have registered for this consumer and that this process does not apply.
    pub(super) async fn foreign_types<V: ConsumeQueries + ?Sized>(
        &self,
        view: &mut V,
    ) -> Result<Vec<String>, StoreError> {
        let registered = view.registered_types().await?.into_iter();
        let of_consumer = registered.filter(|it| it.consumer == self.name());
        Ok(of_consumer.map(|it| it.event_type).filter(|event_type| !self.bound.takes(event_type)).collect())
    }

    pub(super) fn duplicate_entry(&self, row: &OutboxRow, at: DateTime<Utc>) -> HistoryEntry {
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

    pub(super) fn record(
        &self,
        step: &Unapplied,
        status: ConsumeStatus,
        attempts: u32,
        now: DateTime<Utc>,
    ) -> Consumption {
        next_record(self.name(), &step.event, step.record.as_ref(), status, attempts, now)
    }

    /// Builds the dead letter of an event of this outbox.
    pub(super) fn dead_letter(&self, row: &OutboxRow, reason: &str, now: DateTime<Utc>) -> DeadLetter {
        DeadLetter {
            queue: self.queue().to_owned(),
            key: row.event_id.as_str().to_owned(),
            tenant: row.aggregate.tenant,
            event_type: Some(row.event_type.clone()),
            trace_id: Some(row.trace_id().to_owned()),
            body: dead_letter_body(&self.outbox.registry, row),
            reason: reason.to_owned(),
            died_at: now,
            status: DeadLetterStatus::Open,
            decided_at: None,
            note: None,
        }
    }

    /// Reads the outbox row and the consume-log record of one event for the order gate.
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

/// Runs a handler within its time limit. If the process begins to stop, the handler gets a little more time; an attempt
/// that is interrupted then is not failed.
async fn in_time<T>(
    tx: &Transactor<impl ?Sized, impl ?Sized>,
    limit: Duration,
    work: impl Future<Output = Result<T, HandlerError>>,
) -> Result<T, HandlerError> {
    let timed_out = |_| Err(HandlerError::Recoverable(format!("handler timed out after {limit:?}")));
    tokio::select! {
        biased;
        done = tokio::time::timeout(limit, work) => done.unwrap_or_else(timed_out),
        () = tx.end_of_grace() => {
            Err(HandlerError::Store(StoreError::Unavailable("the process stopped during the attempt".into())))
        }
    }
}

fn panicked(panic: &(dyn Any + Send)) -> HandlerError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    HandlerError::Recoverable(format!("the handler panicked: {text}"))
}

/// Fields of the log line for an applied event.
pub(super) struct DeliveryFields<'a> {
    pub(super) event: EventFields<'a>,
    pub(super) traceparent: Option<&'a str>,
    /// Time from the start of the unit of work to its commit.
    pub(super) elapsed: TimeDelta,
    /// Time from the creation of the event to the commit of its effect.
    pub(super) since_commit: TimeDelta,
}

/// Consume-log record that replaces the record that was read, or the first record of the event.
pub(super) fn next_record(
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
