//! Test fixture: the HTTP API with the in-memory adapters, and faulty dependencies.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use chrono::{DateTime, TimeZone, Utc};
use handover_events::TenantId;
use handover_http::routes::metrics::Render;
use handover_http::{Limits, Problem, Readiness, Tokens};
use handover_memory::{MemoryArchive, MemoryBroker, SeededRandom, VirtualClock};
use handover_outbox::archive::RetentionPolicy;
use handover_outbox::ports::{BodyForm, EndpointId, NewWebhookDelivery, OnFailed, Store, StoreError};
use handover_outbox::state::ALERTS;
use handover_outbox::webhooks::{WebhookRetention, Webhooks};
use handover_outbox::{Tasks, Transactor, WakeupNotifier};
use marketplace::consumers::webhook_offer;
use marketplace::ports::{
    Bucket, IdempotencyStore, LimitKey, MarketStore, MarketView, RateLimitDecision, RateLimiter, Work,
};
use marketplace::{App, Role, Rules, service};
use marketplace_domain::{FeeRate, PointsRules};
use marketplace_http::{CallbackVerifier, Edge, RateLimits, router_with, split_routers};
use marketplace_memory::MemoryStore;
use serde_json::json;

use crate::client::{ApiResponse, Request};
use crate::webhook_transport::NoTransport;

pub(crate) const SECRET: &[u8] = b"a secret of at least thirty-two bytes";
pub(crate) const GATEWAY_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) const SELLER: i64 = 7;
pub(crate) const BUYER: i64 = 8;
pub(crate) const OTHER_USER: i64 = 9;

pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) operators: Option<Router>,
    pub(crate) app: App,
    pub(crate) broker: MemoryBroker,
    /// The in-memory store; unused if [`Setup::store`] is set.
    pub(crate) memory: MemoryStore,
    pub(crate) tokens: Tokens,
    pub(crate) callbacks: CallbackVerifier,
    keys: AtomicU64,
}

/// Options of a [`World`].
pub(crate) struct Setup {
    pub(crate) limits: Limits,
    /// `None`: no rate limit.
    pub(crate) admission: Option<RateLimits>,
    pub(crate) readiness: Arc<dyn Readiness>,
    pub(crate) store: Option<Arc<MarketStore>>,
    /// `None`: the store of the marketplace contains the idempotency keys.
    pub(crate) keys: Option<Arc<dyn IdempotencyStore>>,
    pub(crate) on_failed: OnFailed,
    pub(crate) points: PointsRules,
    pub(crate) metrics: Option<Render>,
    pub(crate) tokens: Option<Tokens>,
    /// `gateway.require-reference`.
    pub(crate) requires_reference: bool,
    /// Separate routers for users and operators.
    pub(crate) split_routers: bool,
    /// Whether the process has webhooks.
    pub(crate) webhooks: bool,
    /// The archive, if the process has one. Settled events may leave the outbox at once.
    pub(crate) archive: Option<MemoryArchive>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            limits: Limits::default(),
            admission: None,
            readiness: Arc::new(Vec::<Problem>::new),
            store: None,
            keys: None,
            on_failed: OnFailed::Continue,
            points: PointsRules::default(),
            metrics: None,
            tokens: None,
            requires_reference: false,
            split_routers: false,
            webhooks: true,
            archive: Some(MemoryArchive::new()),
        }
    }
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(Setup::default()).await
    }

    /// Creates a world with `outbox.on-failed = "hold"`.
    pub(crate) async fn with_hold() -> World {
        World::with(Setup { on_failed: OnFailed::Hold, ..Setup::default() }).await
    }

    pub(crate) async fn with(setup: Setup) -> World {
        let is_split = setup.split_routers;
        let metrics = setup.metrics.clone();
        let (edge, broker, memory) = World::edge(setup).await;
        let app = edge.app.clone();
        let callbacks = edge.callbacks.clone();
        let tokens = Tokens::new(SECRET).unwrap();
        let (router, operators) = if is_split {
            let (public, operators) = split_routers(edge, metrics);
            (public, Some(operators))
        } else {
            (router_with(edge, metrics), None)
        };
        World { router, operators, app, broker, memory, tokens, callbacks, keys: AtomicU64::new(0) }
    }

    /// The dependencies of a router.
    pub(crate) async fn edge(setup: Setup) -> (Edge, MemoryBroker, MemoryStore) {
        let clock = Arc::new(VirtualClock::new(start()));
        let broker = MemoryBroker::new(clock.clone());
        let uses_memory = setup.store.is_none();
        let memory = MemoryStore::new(clock.clone(), WakeupNotifier::default());
        let store = setup.store.unwrap_or_else(|| Arc::new(memory.clone()));
        let tx = Transactor::new(store, clock, Arc::new(SeededRandom::new(1)), Tasks::default());
        let rules = Rules {
            pending_timeout: Duration::from_secs(900),
            max_retry_count: 3,
            points: setup.points,
            fee_rate: FeeRate::DEFAULT,
        };
        let auto_completion = Some(Duration::from_secs(10 * 24 * 3600));
        let app = App::new(tx, Arc::new(broker.clone()), rules)
            .with_on_failed(setup.on_failed)
            .with_auto_completion(auto_completion);
        let app = app.with_alerts(ALERTS.iter().chain(marketplace::ALERTS).copied().collect());
        if uses_memory {
            service::prepare(&app).await.unwrap();
        }
        let app = match setup.keys {
            Some(keys) => app.with_idempotency_store(keys),
            None => app,
        };
        let app = match setup.archive {
            Some(archive) => app.with_archive(Arc::new(archive), RetentionPolicy::new(Duration::ZERO)),
            None => app,
        };
        let webhooks = setup.webhooks.then(|| Webhooks {
            outbox: app.outbox.clone(),
            offer: Arc::new(webhook_offer()),
            transport: Arc::new(NoTransport),
            keep: WebhookRetention::DEFAULT,
        });
        let edge = Edge {
            webhooks,
            app,
            tokens: setup.tokens.unwrap_or_else(|| Tokens::new(SECRET).unwrap()),
            callbacks: CallbackVerifier::new(GATEWAY_SECRET).unwrap(),
            requires_reference: setup.requires_reference,
            readiness: setup.readiness,
            admission: setup.admission.unwrap_or_else(unlimited),
            limits: setup.limits,
        };
        (edge, broker, memory)
    }

    pub(crate) fn token(&self, user: i64, tenant: i64, roles: &[Role]) -> String {
        let tenant = TenantId::try_from(tenant).unwrap();
        let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        self.tokens.issue(user, tenant, &roles, HOUR, self.app.tx.now()).unwrap()
    }

    /// Options for routers with `/metrics`; the route returns no metrics.
    pub(crate) fn with_metrics() -> Setup {
        Setup { metrics: Some(Arc::new(String::new)), ..Setup::default() }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request::new(&self.router, method, path)
    }

    pub(crate) fn get(&self, path: &str) -> Request {
        self.request("GET", path)
    }

    pub(crate) fn post(&self, path: &str) -> Request {
        self.request("POST", path)
    }

    /// GET as a user of tenant 1.
    pub(crate) fn get_as(&self, user: i64, path: &str) -> Request {
        self.get(path).token(&self.token(user, 1, &[Role::User]))
    }

    /// GET as an operator of tenant 1.
    pub(crate) fn get_as_operator(&self, path: &str) -> Request {
        self.get(path).token(&self.token(OTHER_USER, 1, &[Role::Operator]))
    }

    /// POST as an operator of tenant 1.
    pub(crate) fn post_as_operator(&self, path: &str) -> Request {
        self.post(path).token(&self.token(OTHER_USER, 1, &[Role::Operator]))
    }

    /// POST as a user of tenant 1, with a new idempotency key if the route requires one.
    pub(crate) fn post_as(&self, user: i64, path: &str) -> Request {
        let request = self.post(path).token(&self.token(user, 1, &[Role::User]));
        if path != "/api/v1/orders" && !path.ends_with("/payments") {
            return request;
        }
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        request.header("x-idempotency-key", &format!("world-{key}"))
    }

    /// Creates a product of the seller for 88.50.
    pub(crate) async fn product(&self) -> i64 {
        let response = self
            .post_as(SELLER, "/api/v1/products")
            .json(r#"{"title":"a bicycle","price":88.50}"#)
            .send()
            .await;
        response.expect(201, "00000").id("productId")
    }

    /// Creates an order of the buyer for a new product.
    pub(crate) async fn order(&self) -> i64 {
        let body = json!({ "productId": self.product().await }).to_string();
        self.post_as(BUYER, "/api/v1/orders").json(body).send().await.expect(201, "00000").id("orderId")
    }

    /// Creates an order with a payment in `PROCESSING`; returns the ids of both.
    pub(crate) async fn order_with_payment(&self) -> (i64, i64) {
        let order = self.order().await;
        let response = self.post_as(BUYER, &format!("/api/v1/orders/{order}/payments")).send().await;
        (order, response.expect(201, "00000").id("paymentId"))
    }

    /// Creates a paid order.
    pub(crate) async fn paid_order(&self) -> i64 {
        let (order, payment) = self.order_with_payment().await;
        self.callback(&report(payment, "txn-1", "SUCCESS", "88.50")).await.expect(200, "00000");
        order
    }

    /// Sends a payment callback with the gateway's signature.
    pub(crate) async fn callback(&self, body: &str) -> ApiResponse {
        self.signed("/api/v1/payments/callback", body).await
    }

    /// Sends a body with the gateway's signature.
    pub(crate) async fn signed(&self, path: &str, body: &str) -> ApiResponse {
        self.post(path).json(body).signed(GATEWAY_SECRET, 0).send().await
    }

    /// Creates a webhook endpoint of tenant 1 for every event type; returns its id.
    pub(crate) async fn webhook(&self) -> String {
        let body = r#"{"url":"https://erp.example/hooks","eventTypes":["*"]}"#;
        let created = self.post_as_operator("/api/v1/webhooks").json(body).send().await.expect(201, "00000");
        created.data["endpointId"].as_str().unwrap().to_owned()
    }

    /// Writes a delivery to an endpoint of tenant 1 that is `DEAD`; returns its id.
    pub(crate) async fn dead_webhook_delivery(&self, endpoint: &str) -> i64 {
        let delivery = NewWebhookDelivery {
            endpoint: EndpointId(endpoint.parse().unwrap()),
            tenant: TenantId::DEFAULT,
            event_id: "event-1".parse().unwrap(),
            redelivery: 0,
            event_type: "order.paid".to_owned(),
            order_key: "Order/1".to_owned(),
            body: "{}".to_owned(),
            body_form: BodyForm::Thin,
            dead_because: Some("given up".to_owned()),
            at: self.app.tx.now(),
        };
        let mut unit = self.app.tx.begin().await.unwrap();
        unit.outbox().insert_webhook_deliveries(std::slice::from_ref(&delivery)).await.unwrap();
        let written = unit.outbox().webhook_deliveries_of(&[delivery.event_id]).await.unwrap();
        unit.commit().await.unwrap();
        written[0].id
    }

    pub(crate) async fn order_status(&self, order: i64) -> String {
        let response = self.get_as(BUYER, &format!("/api/v1/orders/{order}")).send().await;
        response.expect(200, "00000").data["status"].as_str().unwrap().to_owned()
    }
}

/// The body of a payment callback.
pub(crate) fn report(payment: i64, transaction: &str, result: &str, amount: &str) -> String {
    format!(
        r#"{{"paymentId":{payment},"gatewayTxnId":"{transaction}","result":"{result}","amount":{amount}}}"#
    )
}

pub(crate) fn start() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 1, 31, 8, 0, 0).unwrap()
}

/// A rate limit that rejects no request.
fn unlimited() -> RateLimits {
    struct Unlimited;

    #[async_trait]
    impl RateLimiter for Unlimited {
        async fn take(&self, _: &LimitKey, bucket: Bucket) -> RateLimitDecision {
            RateLimitDecision::Token { remaining: bucket.capacity().get() }
        }
    }
    RateLimits::new(Arc::new(Unlimited), Bucket::new(NonZeroU32::MIN, 1).unwrap())
}

/// A store that always fails with the same error.
pub(crate) struct FailingStore(pub(crate) fn() -> StoreError);

#[async_trait]
impl Store for FailingStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        Err((self.0)())
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        Err((self.0)())
    }
}
