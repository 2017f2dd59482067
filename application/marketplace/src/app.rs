//! The application: the dependencies and settings that every use case, consumer and job uses.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use marketplace_domain::PointsRules;

use crate::consumer::{Consumers, HandlerContext};
use crate::ids::Ids;
use crate::ports::{Gateway, GatewayError, IdempotencyStore, MarketTransactor, MarketView, RefundRequest};
use handover_outbox::Outbox;
use handover_outbox::ports::{OnFailed, StoreError};

/// Configurable rules of orders, outbox rows and points.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Time within which an order must be paid (`order.timeout.pending-minutes`).
    pub pending_timeout: Duration,
    /// Maximum number of publish retries, stored in each outbox row (`outbox.retry`).
    pub max_retry_count: u32,
    /// Exchange rate of points and how they are earned (`asset.points-per-unit`, `asset.earn-per-unit`).
    pub points: PointsRules,
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
    pub consumers: Consumers,
    /// What the handlers of the consumers use.
    pub handlers: HandlerContext,
    /// Lease, retention and sweep interval of idempotency keys.
    pub requests: Arc<RequestSettings>,
    /// Store for requests whose response is stored after the command; `None`: the database.
    pub keys: Option<Arc<dyn IdempotencyStore>>,
}

impl App {
    pub fn with_gateway(self, gateway: Arc<dyn Gateway>) -> App {
        App { gateway, ..self }
    }

    /// Sets whether a FAILED event blocks the later events of its aggregate.
    pub fn with_on_failed(self, on_failed: OnFailed) -> App {
        App { outbox: self.outbox.with_on_failed(on_failed), ..self }
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
        self.tx.now()
    }

    /// Opens a view for reading.
    pub async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        self.tx.view().await
    }
}
