//! The application: the dependencies and settings that every use case, consumer and job uses.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, Trace};
use marketplace_domain::PointsRules;

use crate::ports::{
    Gateway, GatewayError, IdempotencyStore, MarketTransactor, MarketView, RefundRequest, Work,
};
use crate::{CommandContext, Ids};
use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::{EventMetadata, NewEvent, OnFailed, StoreError};
use handover_outbox::{EventSpec, Outbox};

/// Configurable rules of orders, outbox rows and points.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Time within which an order must be paid (`order.timeout.pending-minutes`).
    pub pending_timeout: Duration,
    /// Maximum number of publish retries, stored in each outbox row (`outbox.retry`).
    pub max_retry_count: u32,
    /// Whether a FAILED event blocks the later events of its aggregate (`outbox.on-failed`).
    pub on_failed: OnFailed,
    /// Exchange rate of points and how they are earned (`asset.points-per-unit`, `asset.earn-per-unit`).
    pub points: PointsRules,
}

impl Rules {
    /// Creation time at or before which a pending order is overdue.
    pub fn overdue_cutoff(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        TimeDelta::from_std(self.pending_timeout)
            .ok()
            .and_then(|timeout| now.checked_sub_signed(timeout))
            .unwrap_or_default()
    }
}

/// Lease, retention and sweep interval of idempotency keys.
#[derive(Debug, Clone)]
pub struct RequestSettings {
    /// Time for which an attempt at a request excludes other attempts (`idempotency.lease`).
    pub lease: Duration,
    /// Retention of stored responses (`idempotency.keep`).
    pub keep: Duration,
    /// Interval of the sweep that removes expired idempotency keys (`idempotency.sweep-interval`).
    pub sweep_interval: Duration,
}

impl Default for RequestSettings {
    fn default() -> Self {
        RequestSettings {
            lease: Duration::from_secs(40),
            keep: Duration::from_secs(24 * 60 * 60),
            sweep_interval: Duration::from_secs(60),
        }
    }
}

/// Gateway of a process without a configured gateway: every request fails as unavailable, so the refund is sent again
/// later.
pub(crate) struct NoGateway;

#[async_trait]
impl Gateway for NoGateway {
    async fn refund(&self, _: &RefundRequest) -> Result<(), GatewayError> {
        Err(GatewayError::Unavailable("no payment gateway is configured for this process".to_owned()))
    }
}

/// The application of one process. Clones share its state.
#[derive(Clone)]
pub struct App {
    /// Runs units of work. The outbox has its own transactor for the same store.
    pub tx: MarketTransactor,
    pub ids: Arc<Ids>,
    /// The outbox with its broker, topology, event types and consumers.
    pub outbox: Outbox,
    /// Payment gateway used for refunds.
    pub gateway: Arc<dyn Gateway>,
    pub rules: Arc<Rules>,
    /// Consumers in addition to those of the marketplace.
    pub added: Arc<[Subscriber<Work>]>,
    /// Lease, retention and sweep interval of idempotency keys.
    pub requests: Arc<RequestSettings>,
    /// Store for requests whose response is stored after the command; `None`: the database.
    pub keys: Option<Arc<dyn IdempotencyStore>>,
}

impl App {
    pub fn with_gateway(self, gateway: Arc<dyn Gateway>) -> App {
        App { gateway, ..self }
    }

    /// Adds an event type. A name that is already registered keeps its first registration.
    pub fn with_event(self, spec: EventSpec) -> App {
        App { outbox: self.outbox.with_event(spec), ..self }
    }

    pub fn with_requests(self, requests: RequestSettings) -> App {
        App { requests: Arc::new(requests), ..self }
    }

    /// Sets the store for requests whose response is stored after the command
    /// ([`begin_with_deferred_response`](crate::idempotency::begin_with_deferred_response)).
    pub fn with_idempotency_store(self, keys: Arc<dyn IdempotencyStore>) -> App {
        App { keys: Some(keys), ..self }
    }

    /// Returns a copy for background tasks: its units of work have a concurrency limit separate from that of requests.
    pub fn for_background_tasks(&self) -> App {
        App { tx: self.tx.for_background_tasks(), outbox: self.outbox.for_background_tasks(), ..self.clone() }
    }

    /// Current time of the deployment's clock.
    pub fn now(&self) -> DateTime<Utc> {
        self.tx.clock.now()
    }

    /// Opens a view for reading.
    pub async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        self.tx.store.view().await
    }

    /// Returns an event factory without event ids, for a change that appends no events.
    pub(crate) fn empty_event_factory(&self, trace_id: &str, now: DateTime<Utc>) -> EventFactory {
        let metadata = EventMetadata { trace_id: Some(trace_id.to_owned()), ..EventMetadata::default() };
        EventFactory { ids: Vec::new(), metadata, now, max_retry_count: self.rules.max_retry_count }
    }

    /// Chooses the ids and the time for up to `events` events of a command, before its first attempt.
    pub fn event_factory(&self, context: &CommandContext, events: usize) -> EventFactory {
        EventFactory {
            ids: (0..events).map(|_| self.ids.event()).collect(),
            metadata: context.metadata(),
            now: self.now(),
            max_retry_count: self.rules.max_retry_count,
        }
    }
}

/// Builds the events of a command. Their ids and time are fixed before the first attempt, so that a repeated attempt
/// writes events with the same ids.
#[derive(Debug, Clone)]
pub struct EventFactory {
    ids: Vec<EventId>,
    metadata: handover_outbox::ports::EventMetadata,
    /// Time of the command.
    pub now: DateTime<Utc>,
    max_retry_count: u32,
}

impl EventFactory {
    /// Id of the command's first event. If the command appends events, this id is in the outbox exactly when the
    /// command was committed.
    pub fn first_id(&self) -> Option<&EventId> {
        self.ids.first()
    }

    /// Whether an earlier attempt committed the command: its first event is in the outbox.
    pub(crate) async fn is_announced(&self, unit: &mut Work) -> Result<bool, StoreError> {
        match self.first_id() {
            Some(id) => Ok(!unit.outbox().outbox_by_event(std::slice::from_ref(id)).await?.is_empty()),
            None => Ok(false),
        }
    }

    /// Returns a copy of the factory whose events have this trace, for a command that continues an earlier request.
    /// With `None`, the events keep the trace of the command.
    pub(crate) fn in_trace(&self, trace: Option<&Trace>) -> EventFactory {
        let mut events = self.clone();
        if let Some(Trace { trace_id, traceparent }) = trace.cloned() {
            events.metadata.trace_id = Some(trace_id);
            events.metadata.traceparent = traceparent;
        }
        events
    }

    /// Trace id of the command.
    pub fn trace_id(&self) -> &str {
        self.metadata.trace_id.as_deref().unwrap_or_default()
    }

    /// Builds the outbox rows of one aggregate change. Skips the first `skip` ids, which belong to earlier changes of
    /// the same command.
    pub fn rows(
        &self,
        skip: usize,
        tenant: handover_events::TenantId,
        aggregate_seq: i64,
        bodies: &[marketplace_domain::EventBody],
    ) -> Vec<NewEvent> {
        debug_assert!(skip + bodies.len() <= self.ids.len(), "more events than chosen ids");
        self.ids
            .iter()
            .skip(skip)
            .zip(bodies)
            .map(|(event_id, body)| NewEvent {
                event_id: event_id.clone(),
                event_type: body.event_type().as_str().to_owned(),
                aggregate: handover_events::AggregateRef {
                    tenant,
                    kind: body.event_type().aggregate().as_str().to_owned(),
                    id: body.aggregate_id(),
                },
                aggregate_seq,
                payload: body.to_json(),
                metadata: self.metadata.clone(),
                occurred_at: self.now,
                max_retry_count: self.max_retry_count,
            })
            .collect()
    }
}
