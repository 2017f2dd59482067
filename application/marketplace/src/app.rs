//! The application: what every use case, consumer and job works with.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, Trace};
use marketplace_domain::PointsRules;

use crate::event_types::event_types;
use crate::handlers::standard;
use crate::idempotency::RequestSettings;
use crate::ports::{Gateway, GatewayError, IdempotencyStore, MarketView, RefundRequest, Work};
use crate::{CommandContext, Ids, queues};
use handover_outbox::consumers::{Bound, Subscriber};
use handover_outbox::ports::{Broker, EventMetadata, NewEvent, OnFailed, StoreError};
use handover_outbox::{EventSpec, Outbox, Transactor};

/// The rules that are settings.
#[derive(Debug, Clone)]
pub struct Rules {
    /// How long an order may stay unpaid (`order.timeout.pending-minutes`).
    pub pending_timeout: Duration,
    /// How many failed publishes may be followed by another; goes into each outbox row (`outbox.retry`).
    pub max_retry_count: u32,
    /// What a given-up event means for later ones of its aggregate (`outbox.on-failed`).
    pub on_failed: OnFailed,
    /// What points are worth and how they are earned (`asset.points-per-unit`, `asset.earn-per-unit`).
    pub points: PointsRules,
}

impl Rules {
    /// Orders created at or before this moment are overdue now.
    pub fn overdue_line(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        TimeDelta::from_std(self.pending_timeout)
            .ok()
            .and_then(|t| now.checked_sub_signed(t))
            .unwrap_or_default()
    }
}

/// Where no gateway is given: refunds wait until there is one.
struct NoGateway;

#[async_trait]
impl Gateway for NoGateway {
    async fn refund(&self, _: &RefundRequest) -> Result<(), GatewayError> {
        Err(GatewayError::Unavailable("this process was given no payment gateway".to_owned()))
    }
}

/// The marketplace's way into a transaction.
pub type MarketTransactor = Transactor<Work, dyn MarketView>;

/// The application of one process. Clones share it.
#[derive(Clone)]
pub struct App {
    /// The way into a transaction; the outbox has its own into the same store.
    pub tx: MarketTransactor,
    /// Ids of this process.
    pub ids: Arc<Ids>,
    /// The outbox, and what carries and takes its events.
    pub outbox: Outbox,
    /// Who pays back.
    pub gateway: Arc<dyn Gateway>,
    /// The rules that are settings.
    pub rules: Arc<Rules>,
    /// Consumers beside the marketplace's own.
    pub added: Arc<[Subscriber<Work>]>,
    /// How long idempotency keys and answers last.
    pub requests: Arc<RequestSettings>,
    /// Where the keys of requests are that keep their answers afterwards, if not in the database.
    pub keys: Option<Arc<dyn IdempotencyStore>>,
}

impl App {
    /// An application on these adapters.
    pub fn new(tx: MarketTransactor, broker: Arc<dyn Broker>, rules: Rules) -> App {
        let outbox = Outbox {
            registry: Arc::new(event_types(rules.pending_timeout)),
            on_failed: rules.on_failed,
            ..Outbox::new(tx.outbox(), broker, queues::topology(rules.pending_timeout))
        };
        let app = App {
            ids: Arc::new(Ids::new(tx.clone())),
            tx,
            outbox,
            gateway: Arc::new(NoGateway),
            rules: Arc::new(rules),
            added: Arc::new([]),
            requests: Arc::default(),
            keys: None,
        };
        let outbox = standard(&app).iter().fold(app.outbox.clone(), Outbox::with_handler_of);
        App { outbox, ..app }
    }

    /// The same application with this payment gateway.
    pub fn with_gateway(self, gateway: Arc<dyn Gateway>) -> App {
        App { gateway, ..self }
    }

    /// The same application with one more event type. The marketplace's own stay as they are.
    pub fn with_event(self, spec: EventSpec) -> App {
        App { outbox: self.outbox.with_event(spec), ..self }
    }

    /// The same application with one more consumer, and the routing keys its queue is bound to.
    pub fn with_consumer(self, subscriber: Subscriber<Work>, bindings: &[&str]) -> App {
        let outbox = self.outbox.with_consumer(&subscriber, bindings);
        let added = self.added.iter().cloned().chain([subscriber]).collect();
        App { added, outbox, ..self }
    }

    /// Every consumer of this application with its queue.
    pub fn subscribers(&self) -> Vec<Subscriber<Work>> {
        standard(self).into_iter().chain(self.added.iter().cloned()).collect()
    }

    /// The same consumers, at work in this application's store.
    pub(crate) fn bound(&self) -> Vec<Bound> {
        self.subscribers().iter().map(|subscriber| subscriber.bind(&self.tx.store)).collect()
    }

    /// The same application with these limits of idempotency keys.
    pub fn with_requests(self, requests: RequestSettings) -> App {
        App { requests: Arc::new(requests), ..self }
    }

    /// The same application with these keys for requests that keep their answers afterwards
    /// ([`begin_afterwards`](crate::idempotency::begin_afterwards)).
    pub fn with_keys(self, keys: Arc<dyn IdempotencyStore>) -> App {
        App { keys: Some(keys), ..self }
    }

    /// The same application for what runs by itself: not in the queue of its callers.
    pub fn of_its_own(&self) -> App {
        App { tx: self.tx.of_its_own(), outbox: self.outbox.of_its_own(), ..self.clone() }
    }

    /// Now, by the deployment's clock.
    pub fn now(&self) -> DateTime<Utc> {
        self.tx.clock.now()
    }

    /// A view for reading.
    pub async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        self.tx.store.view().await
    }

    /// For what announces nothing.
    pub(crate) fn silent_announcer(&self, trace_id: &str, now: DateTime<Utc>) -> Announcer {
        let metadata = EventMetadata { trace_id: Some(trace_id.to_owned()), ..EventMetadata::default() };
        Announcer { ids: Vec::new(), metadata, now, max_retry_count: self.rules.max_retry_count }
    }

    /// What a command needs to announce up to `events` events: chosen now, before the first attempt.
    pub fn announcer(&self, context: &CommandContext, events: usize) -> Announcer {
        Announcer {
            ids: (0..events).map(|_| self.ids.event()).collect(),
            metadata: context.metadata(),
            now: self.now(),
            max_retry_count: self.rules.max_retry_count,
        }
    }
}

/// The circumstances under which a command announces its events, fixed before its first attempt.
#[derive(Debug, Clone)]
pub struct Announcer {
    ids: Vec<EventId>,
    metadata: handover_outbox::ports::EventMetadata,
    /// When the command happens.
    pub now: DateTime<Utc>,
    max_retry_count: u32,
}

impl Announcer {
    /// The id of the command's first event: in the outbox if and only if the command was committed.
    pub fn first_id(&self) -> Option<&EventId> {
        self.ids.first()
    }

    /// Whether the command was committed: whether its first event is in the outbox.
    pub(crate) async fn is_announced(&self, unit: &mut Work) -> Result<bool, StoreError> {
        match self.first_id() {
            Some(id) => Ok(!unit.outbox().outbox_by_event(std::slice::from_ref(id)).await?.is_empty()),
            None => Ok(false),
        }
    }

    /// The same announcer in another trace: that of the request whose work the command goes on with. Without one it stays
    /// in the trace of the command.
    pub(crate) fn continuing(&self, trace: Option<&Trace>) -> Announcer {
        let mut continuing = self.clone();
        if let Some(Trace { trace_id, traceparent }) = trace.cloned() {
            continuing.metadata.trace_id = Some(trace_id);
            continuing.metadata.traceparent = traceparent;
        }
        continuing
    }

    /// The trace of the command.
    pub fn trace_id(&self) -> &str {
        self.metadata.trace_id.as_deref().unwrap_or_default()
    }

    /// The outbox rows of these events of one aggregate change, with ids from the `skip`th on.
    pub fn rows(
        &self,
        skip: usize,
        tenant: handover_events::TenantId,
        aggregate_seq: i64,
        bodies: &[marketplace_domain::EventBody],
    ) -> Vec<NewEvent> {
        debug_assert!(skip + bodies.len() <= self.ids.len(), "the announcer was made for fewer events");
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
