//! Builds the outbox rows of the events of a command.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, TenantId, Trace};
use marketplace_domain::{EventBody, EventKind, Order, Payable};

use crate::context::CommandContext;
use crate::idle_consumers;
use crate::ports::Work;
use handover_outbox::ports::{
    Clock, EventMetadata, IdleConsumers, NewEvent, OutboxRow, RandomSource, StoreError,
};
use handover_outbox::{EventRegistry, uuid_v7};

/// Chooses the ids and the time of events. Clones share clock and random source.
#[derive(Clone)]
pub struct EventSource {
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    registry: Arc<EventRegistry>,
    max_retry_count: u32,
}

impl EventSource {
    /// `registry` has the routing key of each event type, and `max_retry_count` is the maximum number of publish
    /// retries; both are stored in each outbox row.
    pub fn new(
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        registry: Arc<EventRegistry>,
        max_retry_count: u32,
    ) -> EventSource {
        EventSource { clock, random, registry, max_retry_count }
    }

    /// Clock of the deployment.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Random source of the deployment.
    pub(crate) fn random(&self) -> &Arc<dyn RandomSource> {
        &self.random
    }

    /// The registered event types.
    pub(crate) fn registry(&self) -> &Arc<EventRegistry> {
        &self.registry
    }

    /// Current time of the deployment's clock.
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Maximum number of publish retries of an event.
    pub(crate) const fn max_retry_count(&self) -> u32 {
        self.max_retry_count
    }

    /// Routing key of an event type, stored in each outbox row.
    pub(crate) fn routing_key(&self, event_type: EventKind) -> Option<String> {
        self.registry.routing_key(event_type.as_str()).map(str::to_owned)
    }

    /// Returns a new event id: a UUIDv7 with the current time of the clock.
    pub fn event_id(&self) -> EventId {
        uuid_v7(self.now(), self.random.as_ref()).into()
    }

    /// Returns an event factory without event ids, for a change that appends no events.
    pub(crate) fn empty_factory(&self, trace_id: &str, now: DateTime<Utc>) -> EventFactory {
        let metadata = EventMetadata { trace_id: Some(trace_id.to_owned()), ..EventMetadata::default() };
        EventFactory {
            ids: Vec::new(),
            metadata,
            now,
            registry: Arc::clone(&self.registry),
            max_retry_count: self.max_retry_count,
        }
    }

    /// Chooses the ids and the time for up to `events` events of a command, before its first attempt.
    pub fn factory(&self, context: &CommandContext, events: usize) -> EventFactory {
        EventFactory {
            ids: (0..events).map(|_| self.event_id()).collect(),
            metadata: context.metadata(),
            now: self.now(),
            registry: Arc::clone(&self.registry),
            max_retry_count: self.max_retry_count,
        }
    }
}

/// Builds the events of a command. Their ids and time are fixed before the first attempt, so that a repeated attempt
/// writes events with the same ids.
#[derive(Debug, Clone)]
pub struct EventFactory {
    ids: Vec<EventId>,
    metadata: EventMetadata,
    /// Time of the command.
    pub now: DateTime<Utc>,
    registry: Arc<EventRegistry>,
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

    /// Returns a copy of the factory whose events belong to the request that caused this event. With `None`, the events keep
    /// the trace of the command.
    pub(crate) fn in_request_of(&self, cause: Option<&OutboxRow>) -> EventFactory {
        let Some(cause) = cause else { return self.clone() };
        let mut events = self.in_trace(Some(&cause.trace()));
        events.metadata.request_id = cause.metadata.request_id.clone();
        events
    }

    /// Trace id of the command.
    pub fn trace_id(&self) -> &str {
        self.metadata.trace_id.as_deref().unwrap_or_default()
    }

    /// Builds the outbox rows of one change of an order, or of its payment or refund. Skips the first `skip` ids, which
    /// belong to earlier changes of the same command.
    pub fn rows(
        &self,
        skip: usize,
        order: &Order,
        aggregate_seq: i64,
        bodies: &[EventBody],
    ) -> Vec<NewEvent> {
        let idle = |body: &EventBody| idle_consumers::of_assets(body, order);
        self.rows_with(skip, (order.tenant, aggregate_seq), bodies, idle)
    }

    /// Builds the outbox rows of one change of a payment or refund. Skips the first `skip` ids.
    pub(crate) fn rows_of_payable(
        &self,
        skip: usize,
        payable: &Payable,
        aggregate_seq: i64,
        bodies: &[EventBody],
    ) -> Vec<NewEvent> {
        match payable {
            Payable::Order(order) => self.rows(skip, order, aggregate_seq, bodies),
            Payable::Invoice(invoice) => self.rows_of_tenant(skip, invoice.tenant, aggregate_seq, bodies),
        }
    }

    /// Builds the outbox rows of one change of an aggregate that belongs to no order. Skips the first `skip` ids.
    pub(crate) fn rows_of_tenant(
        &self,
        skip: usize,
        tenant: TenantId,
        aggregate_seq: i64,
        bodies: &[EventBody],
    ) -> Vec<NewEvent> {
        self.rows_with(skip, (tenant, aggregate_seq), bodies, |_| IdleConsumers::default())
    }

    fn rows_with(
        &self,
        skip: usize,
        (tenant, aggregate_seq): (TenantId, i64),
        bodies: &[EventBody],
        idle_consumers: impl Fn(&EventBody) -> IdleConsumers,
    ) -> Vec<NewEvent> {
        debug_assert!(skip + bodies.len() <= self.ids.len(), "more events than chosen ids");
        self.ids
            .iter()
            .skip(skip)
            .zip(bodies)
            .map(|(event_id, body)| NewEvent {
                event_id: event_id.clone(),
                event_type: body.event_type().as_str().to_owned(),
                aggregate: AggregateRef {
                    tenant,
                    kind: body.event_type().aggregate().to_owned(),
                    id: body.aggregate_id().into(),
                },
                aggregate_seq: Some(aggregate_seq),
                payload: body.to_json(),
                metadata: self.metadata.clone(),
                occurred_at: self.now,
                max_retry_count: self.max_retry_count,
                idle_consumers: idle_consumers(body),
                routing_key: self.registry.routing_key(body.event_type().as_str()).map(str::to_owned),
                due: None,
            })
            .collect()
    }
}
