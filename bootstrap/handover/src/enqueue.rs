//! Enqueues events in the caller's own transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, EventKey as _, EventType, Json, Partition, TenantId, Trace};
use handover_outbox::ports::{EventMetadata, IdleConsumers, NewEvent, RandomSource};
use handover_outbox::uuid_v7;

use crate::backend::{Backend, Started};
use crate::clock::OutboxClock;
use crate::error::EnqueueError;
use crate::registration::Registration;

/// Number of retries of a failed publish without [`Options::max_retries`].
const DEFAULT_RETRIES: u32 = 3;

/// Highest number of retries that the column of MySQL and MariaDB (`INT`) can hold.
const MAX_RETRIES: u32 = i32::MAX.unsigned_abs();

/// Maximum number of characters of an id in an error.
const MAX_SHOWN: usize = 64;

/// Options of one event, for [`Enqueuer::enqueue_with`].
///
/// ```
/// use handover::{Options, Trace};
///
/// let options = Options::default()
///     .trace(Trace::new("6f1d0c2a")) // of the request
///     .occurred_at("2026-02-04T10:30:00Z".parse()?)
///     .max_retries(1);
/// # let _ = options;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// See [`Options::occurred_at`].
    occurred_at: Option<DateTime<Utc>>,
    /// See [`Options::due`].
    due: Option<DateTime<Utc>>,
    /// See [`Options::tenant`].
    tenant: Option<TenantId>,
    /// See [`Options::trace`].
    trace: Option<Trace>,
    /// See [`Options::request_id`].
    request_id: Option<String>,
    /// See [`Options::sequence`].
    sequence: Option<i64>,
    /// See [`Options::max_retries`].
    max_retries: Option<u32>,
    /// See [`Options::idle_consumer`].
    idle_consumers: IdleConsumers,
}

impl Options {
    /// Sets the time at which the event occurred. The default is the current time of the database server.
    #[must_use]
    pub fn occurred_at(self, time: DateTime<Utc>) -> Options {
        Options { occurred_at: Some(time), ..self }
    }

    /// Sets the earliest time of publishing. Later events of the aggregate wait for this event.
    #[must_use]
    pub fn due(self, time: DateTime<Utc>) -> Options {
        Options { due: Some(time), ..self }
    }

    /// Sets the tenant that the aggregate belongs to. The default is tenant 1.
    #[must_use]
    pub fn tenant(self, tenant: TenantId) -> Options {
        Options { tenant: Some(tenant), ..self }
    }

    /// Sets the trace context of the request that causes the event. With the feature `otel`, a trace without a `traceparent` gets
    /// that of the current span, which is also the default.
    ///
    /// `enqueue` refuses an id with which the event could not be published; check the header of a client with
    /// [`Trace::is_valid_id`]. An invalid `traceparent` counts as none, as W3C Trace Context demands.
    #[must_use]
    pub fn trace(self, trace: Trace) -> Options {
        Options { trace: Some(trace), ..self }
    }

    /// Sets the id of the request that causes the event, such as its `X-Request-Id`. It is in every log line about the event, and
    /// in the header `requestId` of its message. `enqueue` refuses one that [`Trace::is_valid_id`] does not accept.
    #[must_use]
    pub fn request_id(self, id: impl Into<String>) -> Options {
        Options { request_id: Some(id.into()), ..self }
    }

    /// Sets the position within the aggregate, for example the version of the aggregate's row after the change. Positions begin
    /// at 1; `enqueue` refuses a smaller one. Either all events of an aggregate have one, or none.
    #[must_use]
    pub fn sequence(self, sequence: i64) -> Options {
        Options { sequence: Some(sequence), ..self }
    }

    /// Sets the maximum number of retries after a failed publish; the next failure makes the event `FAILED`. The default is 3, after
    /// 5 s, 30 s and 2 min. A greater number has no effect.
    #[must_use]
    pub fn max_retries(self, retries: u32) -> Options {
        Options { max_retries: Some(retries), ..self }
    }

    /// Names a consumer that has no work with the event; more than one by further calls. The event is not delivered to it, and it
    /// neither waits for the event nor records it. It MUST be a consumer of the same builder with
    /// [`selective`](crate::Handlers::selective).
    #[must_use]
    pub fn idle_consumer(mut self, consumer: impl Into<String>) -> Options {
        self.idle_consumers.insert(consumer);
        self
    }

    /// Refuses options with which the event could not be published, or applied by another service.
    fn check(&self, event: &'static str) -> Result<(), EnqueueError> {
        if let Some(sequence) = self.sequence.filter(|sequence| *sequence < 1) {
            return Err(EnqueueError::InvalidSequence { event, sequence });
        }
        let trace_id = self.trace.as_ref().map(|trace| trace.trace_id.as_str());
        for (what, id) in [("trace id", trace_id), ("request id", self.request_id.as_deref())] {
            if let Some(id) = id.filter(|id| !Trace::is_valid_id(id)) {
                let id = id.chars().take(MAX_SHOWN).collect();
                return Err(EnqueueError::InvalidId { event, what, id });
            }
        }
        Ok(())
    }
}

/// Enqueues events in transactions of an application. An [`Outbox`](crate::Outbox) dereferences to it, and a handler gets
/// it as `Data<Enqueuer<DB>>`. Clones share it.
pub struct Enqueuer<B: Backend> {
    inner: Arc<Inner<B>>,
}

struct Inner<B: Backend> {
    events: BTreeMap<&'static str, Registration>,
    /// Exchanges from which events of other services are received, by aggregate type.
    origins: BTreeMap<&'static str, String>,
    /// Names of the consumers that an event can exclude.
    selective: BTreeSet<String>,
    place: B::Place,
    clock: OutboxClock,
    random: Arc<dyn RandomSource>,
    /// Store and tasks while the outbox is running.
    running: Mutex<Option<Started>>,
}

impl<B: Backend> Clone for Enqueuer<B> {
    fn clone(&self) -> Enqueuer<B> {
        Enqueuer { inner: Arc::clone(&self.inner) }
    }
}

impl<B: Backend> Enqueuer<B> {
    /// Enqueues an event in the caller's transaction: it is published if, and only if, the transaction commits. `transaction`
    /// is `&mut tx` of sqlx, or the unit of work of an own store.
    ///
    /// The events of one aggregate are published in the order in which their transactions commit: a transaction waits here
    /// for the other ones that have enqueued an event of the aggregate. Change the row of the aggregate before this call,
    /// not after it, or two such transactions may deadlock.
    ///
    /// An event that is refused ([`EnqueueError`]) leaves the transaction usable, unless the database refused it.
    ///
    /// ```
    /// # use handover::{Event, Outbox};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Event)]
    /// # #[event(name = "book.lent", aggregate = "book")]
    /// # struct BookLent { #[event(key)] book: i64, reader: String }
    /// # use sqlx::{Sqlite, SqlitePool};
    /// # async fn lend(pool: SqlitePool, outbox: Outbox<Sqlite>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = pool.begin().await?;
    /// sqlx::query("UPDATE books SET reader = 'ann' WHERE id = 1").execute(&mut *tx).await?;
    /// outbox.enqueue(&mut tx, BookLent { book: 1, reader: "ann".to_owned() }).await?;
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue<E: EventType>(
        &self,
        transaction: &mut B::Transaction,
        event: E,
    ) -> Result<EventId, EnqueueError> {
        self.enqueue_with(transaction, event, Options::default()).await
    }

    /// Enqueues an event with options; see [`Enqueuer::enqueue`].
    ///
    /// ```
    /// # use handover::{Event, Options, Outbox, Trace};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Event)]
    /// # #[event(name = "book.lent", aggregate = "book")]
    /// # struct BookLent { #[event(key)] book: i64, reader: String }
    /// # use sqlx::{Sqlite, SqlitePool};
    /// # async fn lend(pool: SqlitePool, outbox: Outbox<Sqlite>) -> Result<(), Box<dyn std::error::Error>> {
    /// # let event = BookLent { book: 1, reader: "ann".to_owned() };
    /// let mut tx = pool.begin().await?;
    /// outbox.enqueue_with(&mut tx, event, Options::default().trace(Trace::new("6f1d0c2a"))).await?;
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue_with<E: EventType>(
        &self,
        transaction: &mut B::Transaction,
        event: E,
        options: Options,
    ) -> Result<EventId, EnqueueError> {
        let event = self.new_event(&event, options)?;
        let event_id = event.event_id.clone();
        B::append(&self.inner.place, self.running(), transaction, &[event]).await?;
        Ok(event_id)
    }

    /// Enqueues an event that is published at this time or later; see [`Enqueuer::enqueue`] and [`Options::due`].
    ///
    /// ```
    /// # use handover::{Event, Outbox};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Event)]
    /// # #[event(name = "book.lent", aggregate = "book")]
    /// # struct BookLent { #[event(key)] book: i64, reader: String }
    /// # use sqlx::{Sqlite, SqlitePool};
    /// # async fn lend(pool: SqlitePool, outbox: Outbox<Sqlite>) -> Result<(), Box<dyn std::error::Error>> {
    /// # let overdue = BookLent { book: 1, reader: "ann".to_owned() };
    /// let in_two_weeks = chrono::Utc::now() + chrono::TimeDelta::weeks(2);
    /// let mut tx = pool.begin().await?;
    /// outbox.enqueue_at(&mut tx, overdue, in_two_weeks).await?;
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue_at<E: EventType>(
        &self,
        transaction: &mut B::Transaction,
        event: E,
        time: DateTime<Utc>,
    ) -> Result<EventId, EnqueueError> {
        self.enqueue_with(transaction, event, Options::default().due(time)).await
    }

    /// Enqueues events of one type together, in this order; see [`Enqueuer::enqueue`]. Returns their ids.
    ///
    /// ```
    /// # use handover::{Event, Outbox};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize, Event)]
    /// # #[event(name = "book.lent", aggregate = "book")]
    /// # struct BookLent { #[event(key)] book: i64, reader: String }
    /// # use sqlx::{Sqlite, SqlitePool};
    /// # async fn lend(pool: SqlitePool, outbox: Outbox<Sqlite>) -> Result<(), Box<dyn std::error::Error>> {
    /// let lent = (1..=100).map(|book| BookLent { book, reader: "ann".to_owned() });
    /// let mut tx = pool.begin().await?;
    /// let ids = outbox.enqueue_many(&mut tx, lent).await?;
    /// tx.commit().await?;
    /// # assert_eq!(ids.len(), 100);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn enqueue_many<E: EventType>(
        &self,
        transaction: &mut B::Transaction,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Vec<EventId>, EnqueueError> {
        let events: Result<Vec<NewEvent>, EnqueueError> =
            events.into_iter().map(|event| self.new_event(&event, Options::default())).collect();
        let mut events = events?;
        let event_ids = events.iter().map(|event| event.event_id.clone()).collect();
        // In a fixed order of aggregates, so that two transactions with the same aggregates do not deadlock.
        events.sort_by(|one, other| one.aggregate.cmp(&other.aggregate));
        B::append(&self.inner.place, self.running(), transaction, &events).await?;
        Ok(event_ids)
    }

    /// Wakes the relays of all processes. Call it after a commit whose events must be published within milliseconds;
    /// without it they are published within 3 to 265 ms after `enqueue` in most cases.
    pub fn wake(&self) {
        if let Some(Started { store, .. }) = self.running() {
            store.wake_relays(Partition::all().collect());
        }
    }

    pub(crate) fn new_event<E: EventType>(
        &self,
        event: &E,
        options: Options,
    ) -> Result<NewEvent, EnqueueError> {
        let Some(registered) = self.inner.events.get(E::NAME) else {
            if let Some(exchange) = self.inner.origins.get(E::AGGREGATE) {
                return Err(EnqueueError::Received {
                    event: E::NAME,
                    aggregate: E::AGGREGATE,
                    exchange: exchange.clone(),
                });
            }
            return Err(EnqueueError::Unregistered {
                event: E::NAME,
                rust_type: std::any::type_name::<E>(),
                nearest: self.nearest(E::NAME),
            });
        };
        let payload =
            serde_json::to_string(event).map_err(|cause| EnqueueError::Payload { event: E::NAME, cause })?;
        if !payload.starts_with('{') {
            return Err(EnqueueError::NotAnObject { event: E::NAME });
        }
        let id = event.key().aggregate_id().map_err(|cause| EnqueueError::Key {
            event: E::NAME,
            key: E::KEY_FIELD,
            cause,
        })?;
        let written =
            Json::parse(&payload).map_err(|cause| EnqueueError::Unreadable { event: E::NAME, cause })?;
        let is_consistent = registered.spec.check(E::AGGREGATE, &id, &written);
        is_consistent.map_err(|why| EnqueueError::Contradiction { event: E::NAME, why })?;
        let is_unknown = |name: &&str| !self.inner.selective.contains(*name);
        if let Some(consumer) = options.idle_consumers.names().find(is_unknown) {
            return Err(EnqueueError::NotSelective { event: E::NAME, consumer: consumer.to_owned() });
        }
        options.check(E::NAME)?;
        let now = self.inner.clock.now();
        let valid = |trace: Trace| {
            let traceparent = trace.traceparent.and_then(|parent| Trace::parse_parent(&parent));
            Trace { traceparent, ..trace }
        };
        let trace = options.trace.map(valid);
        #[cfg(feature = "otel")]
        let trace = crate::otel::with_current_span(trace);
        let metadata = EventMetadata {
            trace_id: trace.as_ref().map(|trace| trace.trace_id.clone()),
            traceparent: trace.and_then(|trace| trace.traceparent),
            request_id: options.request_id,
            ..EventMetadata::default()
        };
        Ok(NewEvent {
            event_id: uuid_v7(now, self.inner.random.as_ref()).into(),
            event_type: E::NAME.to_owned(),
            aggregate: AggregateRef {
                tenant: options.tenant.unwrap_or(TenantId::DEFAULT),
                kind: E::AGGREGATE.to_owned(),
                id,
            },
            aggregate_seq: options.sequence,
            payload,
            metadata,
            occurred_at: options.occurred_at.unwrap_or(now),
            max_retry_count: options.max_retries.unwrap_or(DEFAULT_RETRIES).min(MAX_RETRIES),
            idle_consumers: options.idle_consumers,
            routing_key: Some(registered.routing_key.to_owned()),
            due: options.due,
        })
    }

    /// The registered name that is most similar to this one.
    fn nearest(&self, name: &str) -> Option<&'static str> {
        let names = self.inner.events.keys().copied();
        names.max_by(|one, other| strsim::jaro(one, name).total_cmp(&strsim::jaro(other, name)))
    }

    /// Store and tasks while the outbox is running.
    fn running(&self) -> Option<Started> {
        self.inner.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn new(
        events: BTreeMap<&'static str, Registration>,
        origins: BTreeMap<&'static str, String>,
        selective: BTreeSet<String>,
        place: B::Place,
        clock: OutboxClock,
        random: Arc<dyn RandomSource>,
    ) -> Enqueuer<B> {
        let inner = Inner { events, origins, selective, place, clock, random, running: Mutex::default() };
        Enqueuer { inner: Arc::new(inner) }
    }

    pub(crate) fn place(&self) -> &B::Place {
        &self.inner.place
    }

    pub(crate) fn events(&self) -> &BTreeMap<&'static str, Registration> {
        &self.inner.events
    }

    pub(crate) fn clock(&self) -> &OutboxClock {
        &self.inner.clock
    }

    /// Sets the store and the tasks of the running outbox. `false` if it is running already.
    pub(crate) fn set_running(&self, started: Started) -> bool {
        let mut running = self.inner.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return false;
        }
        *running = Some(started);
        true
    }

    pub(crate) fn set_stopped(&self) {
        self.inner.running.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
