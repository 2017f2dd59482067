//! Webhooks on the toolkit alone. This file has the process and the receiver of the tests.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{AggregateRef, EventId, Json, OutboxStatus, TenantId, Trace};
use handover_memory::{MemoryBroker, MemoryStore, SeededRandom, VirtualClock};
use handover_outbox::consumers::{Event, Handler as _};
use handover_outbox::dispatch::dispatch_once;
use handover_outbox::operations::{OperationError, Operator};
use handover_outbox::ports::*;
use handover_outbox::topology::Topology;
use handover_outbox::webhooks::*;
use handover_outbox::{EventSpec, Outbox, Tasks, Transactor, WakeupNotifier, with_tx};

use crate::library::eventually;

mod announcements;
mod delivery;
mod endpoints;
mod in_time;
mod keys;
mod observed;
mod privacy;
mod recipients;
mod recording;
mod recovery;
mod retention;
mod schedule;

/// What the receiver does with a request.
#[derive(Debug, Clone)]
enum Reply {
    Status(u16),
    RetryAfter(u16, String),
    NoConnection,
    /// The process has another key than the endpoint.
    NotSigned,
    Hang,
}

/// A request as the receiver saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    endpoint: EndpointId,
    message_id: String,
    at: DateTime<Utc>,
    body: String,
    is_redelivery: bool,
}

/// Answers requests with scripted replies, then with 200. "Encrypts" secrets so that a test can find them.
#[derive(Default)]
struct Receiver {
    replies: Mutex<VecDeque<Reply>>,
    seen: Mutex<Vec<Seen>>,
    /// The endpoint whose secrets cannot be decrypted.
    other_key: Mutex<Option<EndpointId>>,
}

#[async_trait]
impl WebhookTransport for Receiver {
    fn check_url(&self, url: &str) -> Result<(), String> {
        if url.starts_with("https://") { Ok(()) } else { Err("must begin with https://".to_owned()) }
    }

    fn check_header(&self, name: &str, _: &str) -> Result<(), String> {
        if name == "host" { Err("the header host is reserved".to_owned()) } else { Ok(()) }
    }

    fn new_secret(&self, endpoint: EndpointId) -> Result<NewSecret, SecretError> {
        let stored = EndpointSecret {
            sealed: Sealed(format!("key-1 {endpoint}")),
            public_key: "whpk_x".to_owned(),
            valid_until: None,
        };
        Ok(NewSecret { shown: "whsec_canary".to_owned(), stored })
    }

    fn seal_headers(
        &self,
        _: EndpointId,
        headers: &BTreeMap<String, String>,
    ) -> Result<EndpointHeaders, SecretError> {
        Ok(EndpointHeaders { names: headers.keys().cloned().collect(), sealed: Sealed("key-1".to_owned()) })
    }

    fn reseal(&self, endpoint: &WebhookEndpoint) -> Result<Option<WebhookEndpoint>, SecretError> {
        if *self.other_key.lock().unwrap() == Some(endpoint.id) {
            return Err(SecretError::OtherKey(endpoint.id));
        }
        let mut after = endpoint.clone();
        for secret in &mut after.secrets {
            secret.sealed = Sealed(secret.sealed.0.replace("key-1", "key-2"));
        }
        Ok((after != *endpoint).then_some(after))
    }

    async fn send(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        self.seen.lock().unwrap().push(Seen {
            endpoint: request.endpoint.id,
            message_id: request.message_id.clone(),
            at: request.at,
            body: request.body.to_owned(),
            is_redelivery: request.is_redelivery,
        });
        let reply = self.replies.lock().unwrap().pop_front().unwrap_or(Reply::Status(200));
        let response =
            |status, retry_after| WebhookResponse { status, retry_after, body: b"thanks\x07".to_vec() };
        match reply {
            Reply::Status(status) => Ok(response(status, None)),
            Reply::RetryAfter(status, header) => Ok(response(status, Some(header))),
            Reply::NoConnection => Err(SendError::NoResponse("DNS: no such host".to_owned())),
            Reply::NotSigned => Err(SecretError::OtherKey(request.endpoint.id).into()),
            Reply::Hang => std::future::pending().await,
        }
    }
}

/// A process with webhooks on a database in memory.
struct World {
    store: Arc<MemoryStore>,
    tx: Transactor,
    receiver: Arc<Receiver>,
    webhooks: Webhooks,
}

const TENANT: TenantId = TenantId::DEFAULT;

fn operator(tenant: TenantId) -> Operator {
    Operator {
        name: "user:9".to_owned(),
        tenant,
        sees_all_tenants: false,
        sees_personal_data: false,
        trace: Trace { trace_id: "trace-1".to_owned(), traceparent: None },
    }
}

fn other_tenant() -> TenantId {
    2.try_into().unwrap()
}

fn to(url: &str, patterns: &[&str]) -> EndpointChange {
    EndpointChange {
        url: Some(url.to_owned()),
        event_types: Some(patterns.iter().map(|pattern| (*pattern).to_owned()).collect()),
        ..EndpointChange::default()
    }
}

fn lent() -> OfferedType {
    OfferedType {
        event_type: "BOOK_LENT".to_owned(),
        name: "book.lent".to_owned(),
        aggregate: "Book".to_owned(),
        summary: "A book was lent.".to_owned(),
        thin: vec!["copies".to_owned()],
        schema: serde_json::json!({ "type": "object" }),
        example: Json::parse(r#"{"copies":1,"reader":"Ada"}"#).unwrap(),
    }
}

const PAYLOAD: &str = r#"{"copies":3,"reader":"Ada Lovelace"}"#;

fn new_event(tenant: TenantId, id: &str, book: i64, at: DateTime<Utc>, payload: &str) -> NewEvent {
    NewEvent {
        event_id: id.parse().unwrap(),
        event_type: "BOOK_LENT".to_owned(),
        aggregate: AggregateRef { tenant, kind: "Book".to_owned(), id: book.into() },
        aggregate_seq: None,
        payload: payload.to_owned(),
        metadata: EventMetadata::default(),
        occurred_at: at,
        max_retry_count: 3,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

async fn append(tx: &Transactor, events: Vec<NewEvent>) {
    with_tx(tx, events, |unit, events, _| Box::pin(async move { unit.outbox().append(events).await }))
        .await
        .unwrap();
}

fn trusted() -> Operator {
    Operator { sees_personal_data: true, ..operator(TENANT) }
}

static ROTATOR: std::sync::LazyLock<Operator> = std::sync::LazyLock::new(|| operator(TENANT));

impl World {
    fn new() -> World {
        let clock = Arc::new(VirtualClock::new("2026-02-04T10:30:00Z".parse().unwrap()));
        let store = Arc::new(MemoryStore::new(clock.clone(), WakeupNotifier::default()));
        let random = Arc::new(SeededRandom::new(7));
        let tx = Transactor::new(outbox_of(&store), clock, random, Tasks::default());
        World::on(store, tx)
    }

    fn on(store: Arc<MemoryStore>, tx: Transactor) -> World {
        let broker = Arc::new(MemoryBroker::new(Arc::clone(tx.clock())));
        let outbox = Outbox::new(tx.clone(), broker, Topology::new("x", "dead", "dead"))
            .with_event(EventSpec::new("BOOK_LENT", "book.lent").visible(&["copies"]));
        let outbox = event_descriptions()
            .iter()
            .fold(outbox, |outbox, about| outbox.with_event(EventSpec::described(about)));
        let about_webhooks = event_descriptions();
        let offer = about_webhooks.iter().map(OfferedType::described).fold(
            Offer::default().with(lent()).with(OfferedType {
                event_type: "BOOK_LOST".to_owned(),
                name: "book.lost".to_owned(),
                ..lent()
            }),
            Offer::with,
        );
        let receiver = Arc::new(Receiver::default());
        let webhooks = Webhooks { outbox, offer: Arc::new(offer), transport: receiver.clone() };
        World { store, tx, receiver, webhooks }
    }

    fn writer(&self) -> DeliveryWriter {
        DeliveryWriter {
            offer: Arc::clone(&self.webhooks.offer),
            registry: Arc::clone(&self.webhooks.outbox.registry),
            clock: Arc::clone(self.tx.clock()),
            random: Arc::clone(self.tx.random()),
            max_retry_count: 3,
        }
    }

    fn dispatcher(&self) -> WebhookDispatcher {
        WebhookDispatcher::new(self.tx.clone(), self.receiver.clone(), WebhookSettings::default())
    }

    async fn create(&self, change: EndpointChange) -> WebhookEndpoint {
        self.webhooks.create(&operator(TENANT), None, change).await.unwrap().endpoint
    }

    /// Publishes an event of a book and applies it at the consumer.
    async fn event(&self, id: &str, book: i64) {
        self.event_of(TENANT, id, book, PAYLOAD).await;
    }

    async fn event_of(&self, tenant: TenantId, id: &str, book: i64, payload: &str) {
        append(&self.tx, vec![new_event(tenant, id, book, self.tx.now(), payload)]).await;
        self.apply(id).await;
    }

    /// Applies an appended event at the consumer of webhooks.
    async fn apply(&self, id: &str) {
        let id: EventId = id.parse().unwrap();
        let writer = self.writer();
        let mut unit = self.store.begin().await.unwrap();
        let row = unit.outbox().outbox_by_event(&[id]).await.unwrap().pop().unwrap();
        let events = [Event::of(&row).unwrap()];
        writer.apply(unit.as_mut(), &events).await.unwrap();
        unit.commit().await.unwrap();
    }

    async fn dispatch(&self) -> usize {
        let limit = NonZeroU32::new(100).unwrap();
        dispatch_once(&self.tx, &self.dispatcher(), limit).await.unwrap()
    }

    fn replies(&self, replies: impl IntoIterator<Item = Reply>) {
        self.receiver.replies.lock().unwrap().extend(replies);
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.receiver.seen.lock().unwrap())
    }

    async fn deliveries(&self, endpoint: EndpointId) -> Vec<WebhookDelivery> {
        let all = DeliveryFilter::default();
        let page = self.webhooks.deliveries(&operator(TENANT), endpoint, &all, None, 100).await.unwrap();
        page.items
    }

    async fn only_delivery(&self, endpoint: EndpointId) -> WebhookDelivery {
        let mut deliveries = self.deliveries(endpoint).await;
        assert_eq!(deliveries.len(), 1);
        deliveries.pop().unwrap()
    }

    async fn endpoint(&self, id: EndpointId) -> WebhookEndpoint {
        self.webhooks.show(&operator(TENANT), id).await.unwrap().endpoint
    }

    async fn attempts(&self, delivery: &WebhookDelivery) -> Vec<WebhookAttempt> {
        let shown = self.webhooks.delivery(&operator(TENANT), delivery.endpoint, delivery.id).await.unwrap();
        shown.attempts
    }

    /// Waits until the delivery is due and sends it.
    async fn next_attempt(&self, endpoint: EndpointId) {
        let due = self.only_delivery(endpoint).await.due_time;
        self.tx.sleep((due - self.tx.now()).to_std().unwrap_or_default()).await;
        assert_eq!(self.dispatch().await, 1);
    }

    /// Gives up a delivery at its first failed attempt.
    fn impatient(&self) -> WebhookDispatcher {
        let settings = WebhookSettings { delays: Vec::new(), ..WebhookSettings::default() };
        WebhookDispatcher::new(self.tx.clone(), self.receiver.clone(), settings)
    }

    /// Sends every due delivery once; those that fail are `DEAD`.
    async fn fail(&self) {
        self.replies(std::iter::repeat_n(Reply::Status(500), 20));
        dispatch_once(&self.tx, &self.impatient(), NonZeroU32::new(20).unwrap()).await.unwrap();
        self.receiver.replies.lock().unwrap().clear();
        self.seen();
    }

    /// The ids of the events about webhooks, the newest first.
    async fn about_webhooks(&self) -> Vec<EventId> {
        let mut view = self.tx.view().await.unwrap();
        let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await.unwrap();
        rows.into_iter().filter(|row| row.event_type.starts_with("WEBHOOK")).map(|row| row.event_id).collect()
    }

    async fn outbox_types(&self) -> Vec<String> {
        let mut view = self.tx.view().await.unwrap();
        let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await.unwrap();
        rows.into_iter().map(|row| row.event_type).filter(|it| it.starts_with("WEBHOOK")).collect()
    }

    async fn latest_event(&self) -> OutboxRow {
        let mut view = self.tx.view().await.unwrap();
        let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 1).await.unwrap();
        rows.into_iter().next().unwrap()
    }
}

/// A payload that is sent to nobody.
fn large_payload() -> String {
    format!(r#"{{"copies":[{}1]}}"#, "1,".repeat(40_000))
}

fn minutes(minutes: i64) -> TimeDelta {
    TimeDelta::minutes(minutes)
}

/// Services of another process, with the same clock.
fn restarted(world: &World) -> Transactor {
    let random = Arc::new(SeededRandom::new(8));
    Transactor::new(outbox_of(&world.store), Arc::clone(world.tx.clock()), random, Tasks::default())
}

/// Sets the row of an event to `SENT`, as the relay does.
async fn mark_sent(world: &World, id: &str) {
    let id: EventId = id.parse().unwrap();
    let now = world.tx.now();
    let confirmed = crate::versions::confirmed(id.as_str());
    with_tx(&world.tx, confirmed, move |unit, confirmed, _| {
        Box::pin(async move { unit.outbox().mark_sent(&[confirmed], now).await })
    })
    .await
    .unwrap();
    let mut view = world.tx.view().await.unwrap();
    let rows = view.outbox_view().outbox_by_event(&[id]).await.unwrap();
    assert_eq!(rows[0].status, OutboxStatus::Sent);
}
