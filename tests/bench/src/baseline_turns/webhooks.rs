//! The webhooks of the baseline: a loop that signs a request, posts it and records the result in a transaction of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError};

use handover_outbox::ports::Clock as _;
use handover_system::SystemClock;
use handover_webhooks::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use crate::baseline::{Connection, WebhookDelivery};
use crate::error::{BenchError, baseline_error, service_error};
use crate::fixture::Fixture;
use crate::measurement::Measurement;
use crate::webhooks::{CONCURRENCY, Endpoint};

/// What the loops share.
struct Work {
    client: reqwest::Client,
    endpoints: BTreeMap<String, Endpoint>,
    waiting: std::sync::Mutex<VecDeque<WebhookDelivery>>,
}

/// Sends all pending deliveries with as many concurrent loops as the service has requests in progress, and as many
/// connections to the database.
pub(crate) async fn webhooks(fixture: &Fixture, endpoints: Vec<Endpoint>) -> Result<Measurement, BenchError> {
    let mut connections = Vec::new();
    for _ in 0..fixture.connections() {
        connections.push(fixture.connection().await?);
    }
    let started = Instant::now();
    let first = connections.first_mut().ok_or_else(|| service_error("no connection"))?;
    let waiting = first.pending_deliveries().await.map_err(baseline_error("cannot read the deliveries"))?;
    let count = u64::try_from(waiting.len()).unwrap_or(u64::MAX);
    let work = Arc::new(Work {
        client: reqwest::Client::builder().no_proxy().build().map_err(service_error)?,
        endpoints: endpoints.into_iter().map(|endpoint| (endpoint.id(), endpoint)).collect(),
        waiting: std::sync::Mutex::new(waiting.into()),
    });
    let connections: Vec<Arc<Mutex<Connection>>> =
        connections.into_iter().map(|connection| Arc::new(Mutex::new(connection))).collect();
    let mut loops = JoinSet::new();
    for (_, connection) in (0..CONCURRENCY).zip(connections.iter().cycle()) {
        loops.spawn(send_all(Arc::clone(&work), Arc::clone(connection)));
    }
    let mut steps = BTreeMap::<_, Duration>::new();
    while let Some(ended) = loops.join_next().await {
        for (step, time) in ended.map_err(service_error)?? {
            *steps.entry(step).or_default() += time;
        }
    }
    Ok(Measurement::new(count, started.elapsed()).by_workers(CONCURRENCY).with_steps(steps))
}

async fn send_all(
    work: Arc<Work>,
    connection: Arc<Mutex<Connection>>,
) -> Result<[(&'static str, Duration); 3], BenchError> {
    let mut posting = Duration::ZERO;
    let mut waiting = Duration::ZERO;
    let mut recording = Duration::ZERO;
    loop {
        let next = work.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(delivery) = next else { break };
        let step = Instant::now();
        post(&work, &delivery).await?;
        posting += step.elapsed();
        let step = Instant::now();
        let mut connection = connection.lock().await;
        waiting += step.elapsed();
        let step = Instant::now();
        let recorded = connection.record_delivery(&delivery, SystemClock.now()).await;
        recorded.map_err(baseline_error("cannot record a delivery of the baseline"))?;
        recording += step.elapsed();
    }
    Ok([("post", posting), ("wait for a connection", waiting), ("record", recording)])
}

async fn post(work: &Work, delivery: &WebhookDelivery) -> Result<(), BenchError> {
    let unknown = || service_error("a delivery has no endpoint");
    let endpoint = work.endpoints.get(&delivery.endpoint).ok_or_else(unknown)?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let timestamp = SystemClock.now().timestamp();
    let message = Message { id: &delivery.event_id, timestamp, body: delivery.body.as_bytes() };
    message.sign(&mut headers, &endpoint.keys).map_err(service_error)?;
    let request = work.client.post(&endpoint.url).headers(headers).body(delivery.body.clone());
    let response = request.send().await.and_then(reqwest::Response::error_for_status);
    response.map_err(service_error)?.bytes().await.map(drop).map_err(service_error)
}
