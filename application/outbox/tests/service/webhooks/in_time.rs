//! Times, on a clock that jumps: the end of a process, and endpoints beside others that never answer.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::Transactor;
use handover_outbox::ports::*;
use handover_outbox::webhooks::{EndpointChange, WebhookDispatcher, WebhookSettings};
use tokio::time::Instant;

use crate::alerts::Refusing;

use super::{PAYLOAD, Receiver, World, eventually, operator, other_tenant, restarted, to};

/// Answers after a pause for each endpoint, or never.
struct Timed {
    tx: Transactor,
    pauses: BTreeMap<EndpointId, Duration>,
    /// Begin of the first attempt at each delivery.
    first: Mutex<BTreeMap<(EndpointId, String), DateTime<Utc>>>,
    requests: AtomicUsize,
    others: Receiver,
}

impl Timed {
    fn new(world: &World, pauses: BTreeMap<EndpointId, Duration>) -> Arc<Timed> {
        let others = Receiver::default();
        let first = Mutex::default();
        Arc::new(Timed { tx: world.tx.clone(), pauses, first, requests: AtomicUsize::new(0), others })
    }

    fn start(self: &Arc<Timed>, world: &World, settings: WebhookSettings) {
        WebhookDispatcher::new(world.tx.clone(), self.clone(), settings).start();
    }

    fn attempted(&self) -> usize {
        self.first.lock().unwrap().len()
    }
}

#[async_trait]
impl WebhookTransport for Timed {
    fn check_url(&self, url: &str) -> Result<(), String> {
        self.others.check_url(url)
    }

    fn check_header(&self, name: &str, value: &str) -> Result<(), String> {
        self.others.check_header(name, value)
    }

    fn new_secret(&self, endpoint: EndpointId) -> Result<NewSecret, SecretError> {
        self.others.new_secret(endpoint)
    }

    fn seal_headers(
        &self,
        endpoint: EndpointId,
        headers: &BTreeMap<String, String>,
    ) -> Result<EndpointHeaders, SecretError> {
        self.others.seal_headers(endpoint, headers)
    }

    fn reseal(&self, endpoint: &WebhookEndpoint) -> Result<Option<WebhookEndpoint>, SecretError> {
        self.others.reseal(endpoint)
    }

    async fn send(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        let id = request.endpoint.id;
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.first.lock().unwrap().entry((id, request.message_id.clone())).or_insert(request.at);
        match self.pauses.get(&id) {
            Some(pause) => {
                self.tx.sleep(*pause).await;
                Ok(WebhookResponse { status: 204, retry_after: None, body: Vec::new() })
            }
            None => {
                self.tx.sleep(request.deadline).await;
                Err(SendError::NoResponse("no complete response".to_owned()))
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_get_five_seconds_when_the_process_stops() {
    let world = World::new();
    let slow = world.create(to("https://slow.example", &["book.lent"])).await;
    let hanging = world.create(to("https://hanging.example", &["book.lent"])).await;
    world.event("event-1", 5).await;
    let receiver = Timed::new(&world, [(slow.id, Duration::from_secs(4))].into());
    receiver.start(&world, WebhookSettings::default());
    eventually(async || receiver.attempted() == 2).await;
    let stopping = Instant::now();
    world.tx.tasks().stop().await;
    let took = stopping.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_millis(5_100)).contains(&took), "{took:?}");
    let next = World::on(world.store.clone(), restarted(&world));
    assert_eq!(next.only_delivery(slow.id).await.state, DeliveryState::Delivered);
    let delivery = next.only_delivery(hanging.id).await;
    assert_eq!((delivery.state, delivery.attempts, &delivery.claim), (DeliveryState::Pending, 0, &None));
    assert!(delivery.due_time <= next.tx.now());
}

/// The claims end during the outage. The offsets vary which loop of the dispatcher is the first to find the database again; the
/// results are more than are recorded in one transaction.
#[tokio::test(start_paused = true)]
async fn responses_received_in_an_outage_of_the_database_are_recorded_and_no_request_is_repeated() {
    const EVENTS: usize = 50;
    for offset_ms in [0, 300, 600, 900] {
        let world = World::new();
        let refuses = Arc::new(AtomicBool::new(false));
        let database = Refusing { inner: Arc::clone(world.tx.store()), refuses: Arc::clone(&refuses) };
        let world = World::on(world.store.clone(), world.tx.with_store(Arc::new(database)));
        let mut endpoints = Vec::new();
        for number in 0..3 {
            let change = to(&format!("https://{number}.example"), &["book.lent"]);
            let change = EndpointChange { max_in_flight: Some(64), ..change };
            endpoints.push(world.create(change).await.id);
        }
        for number in 0..EVENTS {
            world.event(&format!("event-{number}"), number.try_into().unwrap()).await;
        }
        let pauses = endpoints.iter().map(|id| (*id, Duration::from_secs(4))).collect();
        let receiver = Timed::new(&world, pauses);
        receiver.start(&world, WebhookSettings::default());
        eventually(async || receiver.attempted() == 3 * EVENTS).await;
        refuses.store(true, Ordering::Relaxed);
        world.tx.sleep(Duration::from_secs(60) + Duration::from_millis(offset_ms)).await;
        refuses.store(false, Ordering::Relaxed);
        world.tx.sleep(Duration::from_secs(10)).await;
        assert_eq!(receiver.requests.load(Ordering::Relaxed), 3 * EVENTS, "{offset_ms} ms");
        for endpoint in endpoints {
            let states = world.deliveries(endpoint).await.into_iter().map(|delivery| delivery.state);
            assert_eq!(states.collect::<Vec<_>>(), [DeliveryState::Delivered; EVENTS]);
        }
        world.event("afterwards", 5).await;
        eventually(async || receiver.attempted() == 3 * EVENTS + 3).await;
        world.tx.tasks().stop().await;
    }
}

/// Receivers that answer slowly never count as failing, so their endpoints keep their limits.
#[tokio::test(start_paused = true)]
async fn slow_endpoints_with_high_limits_leave_room_for_others_of_their_tenant_and_of_other_tenants() {
    const SLOW: usize = 8;
    const EVENTS: usize = 100;
    let world = World::new();
    let mut pauses = BTreeMap::new();
    for number in 0..SLOW {
        let change = to(&format!("https://{number}.example"), &["book.lent"]);
        let slow = world.create(EndpointChange { max_in_flight: Some(64), ..change }).await;
        pauses.insert(slow.id, Duration::from_secs(14));
    }
    for number in 0..EVENTS {
        world.event(&format!("backlog-{number}"), number.try_into().unwrap()).await;
    }
    let change = to("https://sibling.example", &["book.lent"]);
    let sibling = world.create(change.clone()).await;
    let other = world.webhooks.create(&operator(other_tenant()), None, change).await.unwrap().endpoint;
    pauses.extend([sibling.id, other.id].map(|id| (id, Duration::ZERO)));
    let receiver = Timed::new(&world, pauses);
    receiver.start(&world, WebhookSettings::default());
    // All limits together are the whole capacity of the process.
    world.tx.sleep(Duration::from_secs(5)).await;
    let in_progress = receiver.attempted();
    assert!((300..512).contains(&in_progress), "{in_progress}");
    let written = world.tx.now();
    world.event("of-sibling", 1).await;
    world.event_of(other_tenant(), "of-other", 1, PAYLOAD).await;
    let first =
        |id: EndpointId, event: &str| receiver.first.lock().unwrap().get(&(id, event.to_owned())).copied();
    eventually(async || first(sibling.id, "of-sibling").is_some() && first(other.id, "of-other").is_some())
        .await;
    for (id, event) in [(sibling.id, "of-sibling"), (other.id, "of-other")] {
        let waited = first(id, event).unwrap() - written;
        assert!(waited <= TimeDelta::seconds(1), "{event} waited for {waited}");
    }
    world.tx.tasks().stop().await;
}

/// The 99th percentile of the time from an event to the first attempt at an endpoint that answers, beside these numbers of
/// endpoints that answer and that never answer.
async fn p99_of_first_attempts(answering: usize, hanging: usize) -> Duration {
    const EVENTS: i64 = 40;
    let world = World::new();
    let mut answers = BTreeMap::new();
    for number in 0..answering + hanging {
        let endpoint = world.create(to(&format!("https://{number}.example"), &["book.lent"])).await;
        if number < answering {
            answers.insert(endpoint.id, Duration::from_millis(50));
        }
    }
    let answering: BTreeSet<EndpointId> = answers.keys().copied().collect();
    let receiver = Timed::new(&world, answers);
    // A twentieth of the default, as the endpoints are a twentieth of those of the full test.
    let concurrency = NonZeroU32::new(512 / 20).unwrap();
    receiver.start(&world, WebhookSettings { concurrency, ..WebhookSettings::default() });
    let mut events = BTreeMap::new();
    for number in 0..EVENTS {
        let id = format!("event-{number}");
        world.event(&id, number).await;
        events.insert(id, world.tx.now());
        world.tx.sleep(Duration::from_millis(700)).await;
    }
    let first = || receiver.first.lock().unwrap().clone();
    let expected = answering.len() * events.len();
    eventually(async || first().keys().filter(|(to, _)| answering.contains(to)).count() == expected).await;
    world.tx.tasks().stop().await;
    let mut waits: Vec<Duration> = first()
        .iter()
        .filter(|((to, _), _)| answering.contains(to))
        .map(|((_, id), at)| (*at - events[id]).to_std().unwrap_or_default())
        .collect();
    waits.sort_unstable();
    waits[waits.len() * 99 / 100]
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_never_answer_hardly_delay_the_first_attempts_at_others() {
    let alone = p99_of_first_attempts(45, 0).await;
    let beside = p99_of_first_attempts(45, 5).await;
    println!("{beside:?} beside endpoints that hang, {alone:?} without them");
    assert!(alone > Duration::ZERO);
    assert!(beside <= alone * 3 / 2, "{beside:?} beside endpoints that hang, {alone:?} without them");
}
