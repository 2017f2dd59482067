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
mod in_time;
mod keys;
mod observed;
mod privacy;
mod recording;
mod recovery;

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

fn minutes(minutes: i64) -> TimeDelta {
    TimeDelta::minutes(minutes)
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
async fn failed_delivery_follows_the_schedule_with_the_same_body_and_ends_dead() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    let observer = world.create(to("https://b.example", &["webhook.*"])).await;
    world.event("event-1", 5).await;
    world.replies(std::iter::repeat_n(Reply::Status(500), 10));
    assert_eq!(world.dispatch().await, 1);
    let scheduled = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
    for (failed, seconds) in scheduled.into_iter().enumerate() {
        let delivery = world.only_delivery(endpoint.id).await;
        assert_eq!(delivery.attempts as usize, failed + 1);
        let delay = (delivery.due_time - world.tx.now()).num_milliseconds();
        assert!((seconds * 800..=seconds * 1200).contains(&delay), "{delay} ms after failure {}", failed + 1);
        world.next_attempt(endpoint.id).await;
    }
    let delivery = world.only_delivery(endpoint.id).await;
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Dead, 10));
    let seen = world.seen();
    assert_eq!(seen.len(), 10);
    assert!(seen.iter().all(|one| one.body == seen[0].body && one.message_id == "event-1"));
    let attempts = world.attempts(&delivery).await;
    assert_eq!(attempts.len(), 10);
    assert!(attempts.iter().all(|attempt| attempt.status == Some(500)));
    assert_eq!(attempts[0].response.as_deref(), Some("***"), "responses may contain personal data");
    // The event about it reaches the other endpoints of the tenant.
    assert_eq!(world.outbox_types().await, ["WEBHOOK_DELIVERY_DEAD"]);
    world.apply(world.latest_event().await.event_id.as_str()).await;
    assert_eq!(world.dispatch().await, 1);
    assert_eq!(world.only_delivery(observer.id).await.event_type, "webhook.delivery.dead");
    assert_eq!(world.deliveries(endpoint.id).await.len(), 1);
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
async fn receiver_can_ask_for_a_later_attempt_and_for_a_pause_of_the_endpoint() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let now = world.tx.now();
    world.replies([Reply::RetryAfter(503, "600".to_owned())]);
    world.dispatch().await;
    assert_eq!(world.only_delivery(endpoint.id).await.due_time, now + minutes(10));
    assert_eq!(world.endpoint(endpoint.id).await.health.paused_until, Some(now + minutes(10)));
    // Another event waits for the end of the pause.
    world.event("event-2", 6).await;
    assert_eq!(world.dispatch().await, 0);
    world.tx.sleep(Duration::from_secs(600)).await;
    assert_eq!(world.dispatch().await, 1, "a failing endpoint gets one request at a time");
    assert_eq!(world.dispatch().await, 1);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_a_date_or_seconds_and_at_most_a_day() {
    for (header, expected) in [
        ("Wed, 04 Feb 2026 12:30:00 GMT", minutes(120)),
        ("999999999", minutes(24 * 60)),
        ("1", minutes(1)),
        ("soon", minutes(1)),
        ("Wed, 04 Feb 2015 12:30:00 GMT", minutes(1)),
    ] {
        let world = World::new();
        let endpoint = world.create(to("https://a.example", &["*"])).await;
        world.event("event-1", 5).await;
        let now = world.tx.now();
        world.replies([Reply::RetryAfter(429, header.to_owned())]);
        world.dispatch().await;
        let paused = world.endpoint(endpoint.id).await.health.paused_until;
        assert_eq!(paused, Some(now + expected), "{header}");
    }
}

#[tokio::test(start_paused = true)]
async fn gone_endpoint_is_disabled_and_its_deliveries_wait_until_it_is_enabled() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.replies([Reply::Status(410)]);
    world.dispatch().await;
    let disabled = world.endpoint(endpoint.id).await;
    assert_eq!(disabled.status, EndpointStatus::Disabled);
    assert_eq!(disabled.disabled_reason.as_deref(), Some("the receiver answered 410 Gone"));
    assert_eq!(world.outbox_types().await, ["WEBHOOK_ENDPOINT_DISABLED"]);
    world.event("event-2", 6).await;
    world.tx.sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.dispatch().await, 0);
    assert!(world.deliveries(endpoint.id).await.iter().all(|it| it.state == DeliveryState::Pending));
    let enabled = world.webhooks.enable(&operator(TENANT), endpoint.id).await.unwrap();
    assert_eq!((enabled.status, enabled.health.failing_since), (EndpointStatus::Enabled, None));
    assert_eq!(world.dispatch().await, 2);
    let mut view = world.tx.view().await.unwrap();
    let audit = view.outbox_view().audit_page(&AuditFilter::default(), None, 100).await.unwrap();
    assert!(
        audit
            .iter()
            .any(|it| it.effect.actor == "webhook-dispatcher" && it.effect.action == "webhooks.disable")
    );
}

#[tokio::test(start_paused = true)]
async fn endpoint_that_fails_for_five_days_is_disabled() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    world.replies(std::iter::repeat_n(Reply::Status(500), 30));
    let mut days = 0;
    while world.endpoint(endpoint.id).await.status == EndpointStatus::Enabled {
        world.event(&format!("event-{days}"), days).await;
        world.dispatch().await;
        world.tx.sleep(Duration::from_secs(24 * 3600)).await;
        days += 1;
        assert!(days < 20, "the endpoint is still enabled");
    }
    assert_eq!(days, 6, "the sixth attempt is five days after the first");
    // Enabling resets the clock: one more failure does not disable it again.
    world.webhooks.enable(&operator(TENANT), endpoint.id).await.unwrap();
    world.dispatch().await;
    assert_eq!(world.endpoint(endpoint.id).await.status, EndpointStatus::Enabled);
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
async fn attempt_that_the_end_of_the_process_interrupts_is_not_counted() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.replies([Reply::Hang]);
    world.dispatcher().start();
    eventually(async || !world.receiver.seen.lock().unwrap().is_empty()).await;
    let began_at = world.receiver.seen.lock().unwrap()[0].at;
    world.tx.tasks().stop().await;
    let next = World::on(world.store.clone(), restarted(&world));
    let delivery = next.only_delivery(endpoint.id).await;
    assert_eq!((delivery.state, delivery.attempts, delivery.claims), (DeliveryState::Pending, 0, 0));
    assert_eq!(delivery.claim, None);
    let attempts = next.attempts(&delivery).await;
    assert_eq!(attempts.iter().map(|it| it.outcome).collect::<Vec<_>>(), [AttemptOutcome::Interrupted]);
    assert_eq!(attempts[0].at, began_at, "the begin of the attempt, not its end");
    assert!(attempts[0].duration_ms >= 5_000, "{attempts:?}");
    assert_eq!(next.endpoint(endpoint.id).await.health, EndpointHealth::default());
    assert_eq!(next.dispatch().await, 1, "the delivery is due at once");
}

/// Services of another process, with the same clock.
fn restarted(world: &World) -> Transactor {
    let random = Arc::new(SeededRandom::new(8));
    Transactor::new(outbox_of(&world.store), Arc::clone(world.tx.clock()), random, Tasks::default())
}

#[tokio::test(start_paused = true)]
async fn delivery_whose_claims_end_without_a_result_is_dead_after_five() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    for number in 1..=5 {
        let claim = WebhookClaim {
            id: ClaimId(format!("claim-{number}")),
            now: world.tx.now(),
            until: world.tx.now() + minutes(1),
            limit: 10,
            is_repeated: false,
        };
        // The process ends before it records a result.
        let claimed = with_tx(&world.tx, claim, |unit, claim, _| {
            Box::pin(async move { unit.outbox().claim_webhook_deliveries(claim).await })
        });
        assert_eq!(claimed.await.unwrap().len(), 1, "claim {number}");
        world.tx.sleep(Duration::from_secs(61)).await;
    }
    assert_eq!(world.dispatch().await, 1);
    assert_eq!(world.seen(), [], "nothing is sent");
    let delivery = world.only_delivery(endpoint.id).await;
    assert_eq!(delivery.state, DeliveryState::Dead);
    assert_eq!(delivery.last_error.as_deref(), Some("5 attempts ended without a result"));
}

#[tokio::test(start_paused = true)]
async fn endpoint_that_hangs_delays_no_other() {
    let world = World::new();
    let slow = world.create(to("https://slow.example", &["book.lent"])).await;
    let fast = world.create(to("https://fast.example", &["book.lent"])).await;
    for number in 0..20 {
        world.event(&format!("event-{number}"), number).await;
    }
    // The fake receiver decides by order of arrival: hang for the slow endpoint only.
    let receiver = Arc::new(HangsFor(slow.id, Receiver::default()));
    WebhookDispatcher::new(world.tx.clone(), receiver.clone(), WebhookSettings::default()).start();
    let delivered = async || {
        let deliveries = world.deliveries(fast.id).await;
        deliveries.iter().all(|it| it.state == DeliveryState::Delivered)
    };
    eventually(delivered).await;
    assert!(world.deliveries(slow.id).await.iter().all(|it| it.state == DeliveryState::Pending));
    world.tx.tasks().stop().await;
}

/// Never answers requests of one endpoint.
struct HangsFor(EndpointId, Receiver);

#[async_trait]
impl WebhookTransport for HangsFor {
    fn check_url(&self, url: &str) -> Result<(), String> {
        self.1.check_url(url)
    }

    fn check_header(&self, name: &str, value: &str) -> Result<(), String> {
        self.1.check_header(name, value)
    }

    fn new_secret(&self, endpoint: EndpointId) -> Result<NewSecret, SecretError> {
        self.1.new_secret(endpoint)
    }

    fn seal_headers(
        &self,
        endpoint: EndpointId,
        headers: &BTreeMap<String, String>,
    ) -> Result<EndpointHeaders, SecretError> {
        self.1.seal_headers(endpoint, headers)
    }

    fn reseal(&self, endpoint: &WebhookEndpoint) -> Result<Option<WebhookEndpoint>, SecretError> {
        self.1.reseal(endpoint)
    }

    async fn send(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        if request.endpoint.id == self.0 {
            std::future::pending::<()>().await;
        }
        self.1.send(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn other_tenants_endpoint_is_not_found_by_any_operation() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let delivery = world.only_delivery(endpoint.id).await.id;
    let outsider = operator(other_tenant());
    let webhooks = &world.webhooks;
    let id = endpoint.id;
    let recover = Recover { since: DateTime::UNIX_EPOCH, until: None, include_missing: true, dry_run: true };
    let all = DeliveryFilter::default();
    let errors = [
        webhooks.show(&outsider, id).await.err(),
        webhooks.update(&outsider, id, EndpointChange::default()).await.err(),
        webhooks.enable(&outsider, id).await.err(),
        webhooks.disable(&outsider, id, None).await.err(),
        webhooks.delete(&outsider, id).await.err(),
        webhooks.rotate_secret(&outsider, id, None).await.err(),
        webhooks.test(&outsider, id, "book.lent").await.err(),
        webhooks.deliveries(&outsider, id, &all, None, 10).await.err(),
        webhooks.delivery(&outsider, id, delivery).await.err(),
        webhooks.redeliver(&outsider, id, delivery).await.err(),
        webhooks.recover(&outsider, id, recover).await.err(),
    ];
    for error in errors {
        let error = error.unwrap();
        assert!(matches!(error, WebhookError::Operation(OperationError::NotFound { .. })), "{error}");
    }
    assert_eq!(webhooks.list(&outsider, None).await.unwrap(), []);
    assert_eq!(world.endpoint(id).await, endpoint);
}

#[tokio::test(start_paused = true)]
async fn tenant_has_at_most_fifty_endpoints_also_if_they_are_created_at_once() {
    let world = World::new();
    let create =
        || async { world.webhooks.create(&operator(TENANT), None, to("https://a.example", &["*"])).await };
    let results = futures_util::future::join_all((0..60).map(|_| create())).await;
    assert_eq!(results.iter().filter(|it| it.is_ok()).count(), 50);
    assert!(
        results
            .iter()
            .flat_map(|it| it.as_ref().err())
            .all(|it| matches!(it, WebhookError::TooManyEndpoints))
    );
    // A deleted endpoint makes room.
    let first = world.webhooks.list(&operator(TENANT), None).await.unwrap()[0].id;
    world.webhooks.delete(&operator(TENANT), first).await.unwrap();
    create().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn invalid_values_are_refused_with_the_name_of_the_field() {
    let world = World::new();
    let valid = to("https://a.example", &["*"]);
    let headers = BTreeMap::from([("host".to_owned(), "x".to_owned())]);
    let cases = [
        ("url", to("ftp://a.example", &["*"])),
        ("eventTypes", to("https://a.example", &[])),
        ("eventTypes", to("https://a.example", &["book.lend"])),
        ("eventTypes", to("https://a.example", &["bo*"])),
        ("description", EndpointChange { description: Some(Some("x".repeat(201))), ..valid.clone() }),
        ("perSecond", EndpointChange { per_second: Some(Some(0)), ..valid.clone() }),
        ("maxInFlight", EndpointChange { max_in_flight: Some(65), ..valid.clone() }),
        ("headers", EndpointChange { headers: Some(headers), ..valid.clone() }),
        ("url", EndpointChange::default()),
    ];
    for (field, change) in cases {
        let error = world.webhooks.create(&operator(TENANT), None, change).await.unwrap_err();
        let WebhookError::Invalid(error) = error else { panic!("{error}") };
        assert_eq!(error.field, field, "{error}");
    }
    let unknown = world.webhooks.offer.check_pattern("book.lend").unwrap_err();
    assert_eq!(unknown.nearest.as_deref(), Some("book.lent"));
}

#[tokio::test(start_paused = true)]
async fn replaced_secret_stays_valid_for_the_overlap_and_at_most_ten_are_kept() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    let rotate = |hours| world.webhooks.rotate_secret(&ROTATOR, endpoint.id, Some(hours));
    let now = world.tx.now();
    let rotated = rotate(24).await.unwrap();
    assert_eq!(rotated.secret.shown, "whsec_canary");
    let until: Vec<_> = rotated.endpoint.secrets.iter().map(|secret| secret.valid_until).collect();
    assert_eq!(until, [None, Some(now + TimeDelta::hours(24))]);
    for _ in 0..8 {
        rotate(168).await.unwrap();
    }
    let error = rotate(168).await.unwrap_err();
    assert!(matches!(error, WebhookError::Invalid(InvalidEndpoint { field: "overlapHours", .. })), "{error}");
    // An overlap of 0 ends the current secret at once, and expired secrets are removed.
    world.tx.sleep(Duration::from_secs(169 * 3600)).await;
    assert_eq!(rotate(0).await.unwrap().endpoint.secrets.len(), 1);
    assert_eq!(world.webhooks.rotate_key(&ROTATOR).await.unwrap().changed, 1);
    assert_eq!(world.webhooks.rotate_key(&ROTATOR).await.unwrap(), RotatedKeys::default());
    let dump = format!("{:?} {:?}", world.endpoint(endpoint.id).await, world.store.rows());
    assert!(!dump.contains("canary"), "a secret is stored or shown in clear text");
}

static ROTATOR: std::sync::LazyLock<Operator> = std::sync::LazyLock::new(|| operator(TENANT));

#[tokio::test(start_paused = true)]
async fn deleted_endpoint_keeps_its_deliveries_without_secrets() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    let deleted = world.webhooks.delete(&operator(TENANT), endpoint.id).await.unwrap();
    assert_eq!((deleted.status, deleted.secrets.len()), (EndpointStatus::Deleted, 0));
    assert_eq!(world.webhooks.list(&operator(TENANT), None).await.unwrap(), []);
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Cancelled);
    let again = world.webhooks.enable(&operator(TENANT), endpoint.id).await.unwrap_err();
    assert!(matches!(again, WebhookError::Operation(OperationError::NotFound { .. })), "{again}");
    assert_eq!(world.dispatch().await, 0);
}

#[tokio::test(start_paused = true)]
async fn delivery_written_during_the_deletion_of_its_endpoint_is_cancelled_where_webhooks_are_sent() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.webhooks.delete(&operator(TENANT), endpoint.id).await.unwrap();
    // The consumer had read the endpoint before the deletion was committed.
    let late = NewWebhookDelivery {
        endpoint: endpoint.id,
        tenant: TENANT,
        event_id: "event-1".parse().unwrap(),
        redelivery: 0,
        event_type: "book.lent".to_owned(),
        order_key: "Book/5".to_owned(),
        body: "{}".to_owned(),
        body_form: BodyForm::Thin,
        dead_because: None,
        at: world.tx.now(),
    };
    let mut unit = world.store.begin().await.unwrap();
    assert_eq!(unit.outbox().insert_webhook_deliveries(&[late]).await.unwrap(), 1);
    unit.commit().await.unwrap();
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Pending);
    world.dispatcher().start();
    eventually(async || world.only_delivery(endpoint.id).await.state == DeliveryState::Cancelled).await;
    assert_eq!(world.seen(), []);
    world.tx.tasks().stop().await;
}

#[tokio::test(start_paused = true)]
async fn redelivery_is_a_delivery_of_its_own_and_marked() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["*"])).await;
    world.event("event-1", 5).await;
    world.dispatch().await;
    let first = world.only_delivery(endpoint.id).await;
    let again = world.webhooks.redeliver(&operator(TENANT), endpoint.id, first.id).await.unwrap();
    assert_eq!((again.redelivery, &again.body), (1, &first.body));
    assert_eq!(world.dispatch().await, 1);
    let seen = world.seen();
    assert_eq!(seen.iter().map(|it| it.is_redelivery).collect::<Vec<_>>(), [false, true]);
    assert!(seen.iter().all(|it| it.message_id == "event-1"));
    assert_eq!(world.deliveries(endpoint.id).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn test_sends_the_example_of_a_type() {
    let world = World::new();
    let endpoint = world.create(to("https://a.example", &["book.lost"])).await;
    let delivery = world.webhooks.test(&operator(TENANT), endpoint.id, "book.lent").await.unwrap();
    assert!(delivery.event_id.as_str().starts_with("test-"));
    assert_eq!(world.dispatch().await, 1);
    assert!(world.seen()[0].body.contains(r#""copies":1"#));
    let unknown = world.webhooks.test(&operator(TENANT), endpoint.id, "book.lend").await.unwrap_err();
    assert!(unknown.to_string().contains("book.lent"), "{unknown}");
}

#[tokio::test(start_paused = true)]
async fn recovery_sends_dead_deliveries_and_missing_events() {
    let world = World::new();
    let since = world.tx.now();
    // An event before the endpoint exists.
    world.event("event-0", 1).await;
    mark_sent(&world, "event-0").await;
    let endpoint = world.create(to("https://a.example", &["book.lent"])).await;
    world.event("event-1", 1).await;
    mark_sent(&world, "event-1").await;
    world.replies(std::iter::repeat_n(Reply::Status(500), 10));
    world.dispatch().await;
    for _ in 0..9 {
        world.next_attempt(endpoint.id).await;
    }
    assert_eq!(world.only_delivery(endpoint.id).await.state, DeliveryState::Dead);
    world.webhooks.enable(&operator(TENANT), endpoint.id).await.unwrap();
    let recover = |include_missing, dry_run| {
        let command = Recover { since, until: None, include_missing, dry_run };
        world.webhooks.recover(&ROTATOR, endpoint.id, command)
    };
    let planned = recover(true, true).await.unwrap();
    assert_eq!(planned, Recovered { dry_run: true, resent: 1, created: 1, more: false });
    assert_eq!(world.dispatch().await, 0, "a dry run changes nothing");
    let done = recover(true, false).await.unwrap();
    assert_eq!(done, Recovered { dry_run: false, resent: 1, created: 1, more: false });
    world.seen();
    assert_eq!(world.dispatch().await, 2);
    let mut sent: Vec<String> = world.seen().into_iter().map(|it| it.message_id).collect();
    sent.sort_unstable();
    assert_eq!(sent, ["event-0", "event-1"]);
    assert_eq!(recover(true, false).await.unwrap(), Recovered::default());
    let reversed =
        Recover { since: world.tx.now(), until: Some(since), include_missing: false, dry_run: false };
    let error = world.webhooks.recover(&operator(TENANT), endpoint.id, reversed).await.unwrap_err();
    assert!(matches!(error, WebhookError::Invalid(InvalidEndpoint { field: "since", .. })), "{error}");
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
async fn body_that_is_too_large_is_not_sent() {
    let world = World::new();
    let full = EndpointChange { body_form: Some(BodyForm::Full), ..to("https://a.example", &["*"]) };
    let endpoint = world.create(full).await;
    let payload = format!(r#"{{"copies":[{}1]}}"#, "1,".repeat(40_000));
    world.event_of(TENANT, "event-1", 5, &payload).await;
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

#[tokio::test(start_paused = true)]
async fn limit_per_second_holds_for_two_dispatchers_together() {
    let world = World::new();
    let limited = EndpointChange {
        per_second: Some(Some(5)),
        max_in_flight: Some(64),
        ..to("https://a.example", &["book.lent"])
    };
    world.create(limited).await;
    for number in 0..40 {
        world.event(&format!("event-{number}"), number).await;
    }
    let other = World::on(world.store.clone(), world.tx.clone());
    for _ in 0..20 {
        tokio::join!(world.dispatch(), other.dispatch());
        world.tx.sleep(Duration::from_millis(200)).await;
    }
    let mut times: Vec<DateTime<Utc>> =
        world.seen().into_iter().chain(other.seen()).map(|it| it.at).collect();
    times.sort_unstable();
    // 4 seconds: a burst of one second, and 5 per second.
    assert!((20..=25).contains(&times.len()), "{} attempts in 4 s", times.len());
    for window in times.windows(11) {
        assert!(window[10] - window[0] >= TimeDelta::seconds(1), "more than 10 attempts in a second");
    }
}
