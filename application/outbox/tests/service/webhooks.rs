//! Webhooks on the toolkit alone: which events get deliveries, schedule, pauses, disabling, order, shutdown, operations.

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
        let keep = WebhookRetention::DEFAULT;
        let webhooks = Webhooks { outbox, offer: Arc::new(offer), transport: receiver.clone(), keep };
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

#[tokio::test(start_paused = true)]
async fn event_is_delivered_once_to_each_endpoint_that_asked_for_it() {
    let world = World::new();
    let all = world.create(to("https://a.example/hook", &["*"])).await;
    let books = world.create(to("https://b.example/hook", &["book.*"])).await;
    let lost = world.create(to("https://c.example/hook", &["book.lost"])).await;
    world.webhooks.create(&operator(other_tenant()), None, to("https://d.example", &["*"])).await.unwrap();
    world.event("event-1", 5).await;
    world.apply("event-1").await;
    assert_eq!(world.dispatch().await, 2);
    assert_eq!(world.dispatch().await, 0, "a delivered event must not be sent again");
    let seen = world.seen();
    let mut receivers: Vec<EndpointId> = seen.iter().map(|seen| seen.endpoint).collect();
    receivers.sort_unstable();
    let mut expected = [all.id, books.id];
    expected.sort_unstable();
    assert_eq!(receivers, expected);
    assert!(seen.iter().all(|seen| seen.message_id == "event-1" && !seen.is_redelivery));
    assert_eq!(world.deliveries(lost.id).await, []);
    let delivery = world.only_delivery(all.id).await;
    assert_eq!(
        (delivery.state, delivery.attempts, delivery.last_status),
        (DeliveryState::Delivered, 0, Some(200))
    );
    assert_eq!(world.endpoint(all.id).await.health.last_success, delivery.settle_time);
}

#[tokio::test(start_paused = true)]
async fn body_is_thin_full_or_unmasked() {
    let world = World::new();
    let thin = world.create(to("https://a.example", &["book.lent"])).await;
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..to("https://b.example", &["book.lent"]) };
    let full = world.create(full).await;
    let unmasked =
        EndpointChange { body_form: Some(BodyForm::Unmasked), ..to("https://c.example", &["book.lent"]) };
    let refused = world.webhooks.create(&operator(TENANT), None, unmasked.clone()).await.unwrap_err();
    assert!(matches!(refused, WebhookError::Invalid(InvalidEndpoint { field: "unmasked", .. })), "{refused}");
    let trusted = Operator { sees_personal_data: true, ..operator(TENANT) };
    let unmasked = world.webhooks.create(&trusted, None, unmasked).await.unwrap().endpoint;
    world.event("event-1", 5).await;
    world.dispatch().await;
    let seen = world.seen();
    let body = |id| seen.iter().find(|seen| seen.endpoint == id).unwrap().body.clone();
    let begin = r#"{"type":"book.lent","timestamp":"2026-02-04T10:30:00.000000Z","data":{"tenantId":1,"eventId":"event-1","aggregateType":"Book","aggregateId":5,"copies":3"#;
    assert_eq!(body(thin.id), format!("{begin}}}}}"));
    assert_eq!(body(full.id), format!(r#"{begin},"reader":"***"}}}}"#));
    assert_eq!(body(unmasked.id), format!(r#"{begin},"reader":"Ada Lovelace"}}}}"#));
    // Whoever may not see personal data cannot redirect it.
    let elsewhere = to("https://evil.example", &["*"]);
    let refused = world.webhooks.update(&operator(TENANT), unmasked.id, elsewhere).await.unwrap_err();
    assert!(matches!(refused, WebhookError::Invalid(_)), "{refused}");
    assert_eq!(world.only_delivery(unmasked.id).await.body, "***");
}

#[tokio::test(start_paused = true)]
async fn response_is_stored_escaped_for_operators_who_may_see_it() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.replies([Reply::NoConnection]);
    world.dispatch().await;
    world.next_attempt(endpoint.id).await;
    let delivery = world.only_delivery(endpoint.id).await;
    let trusted = Operator { sees_personal_data: true, ..operator(TENANT) };
    let shown = world.webhooks.delivery(&trusted, endpoint.id, delivery.id).await.unwrap();
    let [failed, delivered] = shown.attempts.as_slice() else { panic!("{:?}", shown.attempts) };
    assert_eq!((failed.outcome, failed.status), (AttemptOutcome::Failed, None));
    assert_eq!(failed.error.as_deref(), Some("DNS: no such host"));
    assert_eq!(delivered.response.as_deref(), Some("thanks\\u{7}"));
}

#[tokio::test(start_paused = true)]
async fn ordered_endpoint_gets_the_events_of_an_aggregate_in_order() {
    let world = World::new();
    let ordered = EndpointChange {
        is_ordered: Some(true),
        max_in_flight: Some(10),
        ..to("https://a.example", &["book.lent"])
    };
    let endpoint = world.create(ordered).await;
    for (id, book) in [("a-1", 1), ("a-2", 1), ("b-1", 2), ("a-3", 1)] {
        world.event(id, book).await;
    }
    world.replies([Reply::Status(500)]);
    assert_eq!(world.dispatch().await, 2, "only the first event of each aggregate");
    let mut sent: Vec<String> = world.seen().into_iter().map(|seen| seen.message_id).collect();
    sent.sort_unstable();
    assert_eq!(sent, ["a-1", "b-1"]);
    // Whichever of the two failed is sent first again; then the rest of `a` follows in order.
    let mut rest = Vec::new();
    for _ in 0..60 {
        world.tx.sleep(Duration::from_secs(1)).await;
        world.dispatch().await;
        rest.extend(world.seen().into_iter().map(|seen| seen.message_id).filter(|id| id.starts_with('a')));
    }
    let expected: &[&str] = if rest.len() == 3 { &["a-1", "a-2", "a-3"] } else { &["a-2", "a-3"] };
    assert_eq!(rest, expected);
    assert!(world.deliveries(endpoint.id).await.iter().all(|it| it.state == DeliveryState::Delivered));
}

#[tokio::test(start_paused = true)]
async fn body_that_is_too_large_is_not_sent() {
    let world = World::new();
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..to("https://a.example", &["*"]) };
    let endpoint = world.create(full).await;
    world.event_of(TENANT, "event-1", 5, &large_payload()).await;
    assert_eq!(world.dispatch().await, 0);
    let delivery = world.only_delivery(endpoint.id).await;
    assert_eq!(delivery.state, DeliveryState::Dead);
    assert!(delivery.last_error.unwrap().contains("at most 65536"));
    // The other endpoints of the tenant learn about it, as about every dead delivery.
    assert_eq!(world.outbox_types().await, ["WEBHOOK_DELIVERY_DEAD"]);
    let observer = world.create(to("https://b.example", &["webhook.delivery.dead"])).await;
    let announced = world.latest_event().await;
    assert!(announced.payload.contains(&format!(r#""deliveryId":{}"#, delivery.id)), "{}", announced.payload);
    assert!(announced.payload.contains("at most 65536"), "{}", announced.payload);
    world.apply(announced.event_id.as_str()).await;
    assert_eq!(world.dispatch().await, 1);
    assert_eq!(world.only_delivery(observer.id).await.event_type, "webhook.delivery.dead");
}
