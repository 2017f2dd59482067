//! The application of one process: its services, outbox and consumers. Only the edge of the process uses it: HTTP, jobs'
//! start, command line and tests.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use marketplace_domain::{FeeRate, PointsRules};

use crate::consumer::{Consumers, HandlerContext};
use crate::consumers;
use crate::event_types::event_types;
use crate::events::EventSource;
use crate::idempotency::{Idempotency, RequestSettings};
use crate::ids::Ids;
use crate::ports::{Gateway, GatewayError, IdempotencyStore, MarketTransactor, RefundRequest, Work};
use crate::retention::EventsOfOpenCases;
use crate::texts::texts;
use crate::use_cases::operations::Operations;
use crate::use_cases::{Invoicing, Ordering, Payments, Queries};
use handover_outbox::archive::{ArchiveStorage, RetentionPolicy};
use handover_outbox::consumers::{Bound, Subscriber};
use handover_outbox::ports::{Broker, OnFailed};
use handover_outbox::webhooks::WebhookRetention;
use handover_outbox::{Alert, Outbox};

/// Configurable rules of orders, outbox rows and points.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Time within which an order must be paid (`order.timeout.pending-minutes`).
    pub pending_timeout: Duration,
    /// Maximum number of publish retries, stored in each outbox row (`outbox.retry`).
    pub max_retry_count: u32,
    /// Exchange rate of points and how they are earned (`asset.points-per-unit`, `asset.earn-per-unit`).
    pub points: PointsRules,
    /// Fee of a completed order (`invoice.fee-bps`).
    pub fee_rate: FeeRate,
}

/// Gateway of a process without a configured gateway: every request fails as unavailable, so the refund is sent again
/// later.
struct NoGateway;

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
    pub consumers: Consumers,
    /// What the handlers of the consumers use.
    pub handlers: HandlerContext,
    pub idempotency: Idempotency,
    pub ordering: Ordering,
    pub payments: Payments,
    pub invoicing: Invoicing,
    pub operations: Operations,
    pub queries: Queries,
}

impl App {
    pub fn new(tx: MarketTransactor, broker: Arc<dyn Broker>, rules: Rules) -> App {
        let Rules { pending_timeout, points, fee_rate, .. } = rules;
        let registry = Arc::new(event_types(pending_timeout));
        let events = EventSource::new(
            Arc::clone(tx.clock()),
            Arc::clone(tx.random()),
            Arc::clone(&registry),
            rules.max_retry_count,
        );
        let handlers = HandlerContext { events: events.clone(), pending_timeout, points };
        let consumers = consumers::standard();
        let topology = consumers::topology_of(&consumers, pending_timeout);
        let outbox = Outbox::new(tx.outbox(), broker, topology).with_registry(registry).with_texts(texts());
        let ids = Arc::new(Ids::new(tx.clone()));
        let payments =
            Payments { tx: tx.clone(), ids: Arc::clone(&ids), events: events.clone(), pending_timeout };
        let invoicing = Invoicing { tx: tx.clone(), ids: Arc::clone(&ids), events: events.clone(), fee_rate };
        App {
            outbox: consumers.subscribers(&handlers).iter().fold(outbox, Outbox::with_handler_of),
            idempotency: Idempotency::new(tx.clone()),
            ordering: Ordering { tx: tx.clone(), ids: Arc::clone(&ids), events, points },
            operations: Operations {
                tx: tx.clone(),
                ids: Arc::clone(&ids),
                consumers: consumers.clone(),
                handlers: handlers.clone(),
                payments: payments.clone(),
                auto_completion: None,
                keep_deliveries: WebhookRetention::DEFAULT,
                archive: None,
            },
            queries: Queries { tx: tx.clone(), pending_timeout: handlers.pending_timeout },
            payments,
            invoicing,
            tx,
            ids,
            gateway: Arc::new(NoGateway),
            rules: Arc::new(rules),
            consumers,
            handlers,
        }
    }

    /// Replaces the transactor of the use cases. Ids and idempotency keys keep theirs.
    pub fn with_tx(self, tx: MarketTransactor) -> App {
        let payments = Payments { tx: tx.clone(), ..self.payments };
        App {
            ordering: Ordering { tx: tx.clone(), ..self.ordering },
            operations: Operations { tx: tx.clone(), payments: payments.clone(), ..self.operations },
            queries: Queries { tx: tx.clone(), ..self.queries },
            invoicing: Invoicing { tx: tx.clone(), ..self.invoicing },
            payments,
            tx,
            ..self
        }
    }

    pub fn with_gateway(self, gateway: Arc<dyn Gateway>) -> App {
        App { gateway, ..self }
    }

    /// Sets whether a FAILED event blocks the later events of its aggregate.
    pub fn with_alerts(self, alerts: Vec<Alert>) -> App {
        App { outbox: self.outbox.with_alerts(alerts), ..self }
    }

    pub fn with_on_failed(self, on_failed: OnFailed) -> App {
        App { outbox: self.outbox.with_on_failed(on_failed), ..self }
    }

    /// Sets the time after the shipment when an order is completed automatically, as operators see it; `None`: never.
    pub fn with_auto_completion(self, after: Option<Duration>) -> App {
        App { operations: Operations { auto_completion: after, ..self.operations }, ..self }
    }

    /// Sets the time for which webhook deliveries stay: an older event without a delivery is no finding.
    pub fn with_webhook_retention(self, keep: Duration) -> App {
        App { operations: Operations { keep_deliveries: keep, ..self.operations }, ..self }
    }

    /// Sets the storage of the archive, and how long events stay in the outbox.
    pub fn with_archive(self, storage: Arc<dyn ArchiveStorage>, policy: RetentionPolicy) -> App {
        let needed = Arc::new(EventsOfOpenCases::of(&self.tx));
        App {
            outbox: self.outbox.with_archive(Arc::clone(&storage), policy, needed),
            operations: Operations { archive: Some(storage), ..self.operations },
            ..self
        }
    }

    pub fn with_requests(self, settings: RequestSettings) -> App {
        App { idempotency: Idempotency { settings, ..self.idempotency }, ..self }
    }

    /// Sets the store for requests whose response is stored after the command
    /// ([`Idempotency::begin_with_deferred_response`]).
    pub fn with_idempotency_store(self, deferred: Arc<dyn IdempotencyStore>) -> App {
        App { idempotency: Idempotency { deferred, ..self.idempotency }, ..self }
    }

    /// Returns a copy for background tasks: its units of work have a concurrency limit separate from that of requests.
    pub fn for_background_tasks(&self) -> App {
        let outbox = self.outbox.for_background_tasks();
        App { outbox, ..self.clone().with_tx(self.tx.for_background_tasks()) }
    }

    /// Current time of the deployment's clock.
    pub fn now(&self) -> DateTime<Utc> {
        self.tx.now()
    }

    /// Returns every consumer of this application with its queue.
    pub fn subscribers(&self) -> Vec<Subscriber<Work>> {
        self.consumers.subscribers(&self.handlers)
    }

    /// Returns the consumers of this application, bound to its store.
    pub fn bound(&self) -> Vec<Bound> {
        self.subscribers().iter().map(|subscriber| subscriber.bind(self.tx.store())).collect()
    }
}
