//! The relay of the baseline: claims a batch, publishes it, marks it as SENT and commits, until no event is pending. It
//! has no ordering, leases or fencing.

use chrono::TimeDelta;
use handover_outbox::ports::Clock as _;
use handover_system::SystemClock;
use marketplace::queues::EXCHANGE;
use tokio::time::{Duration, Instant};

use super::{queues, routing_key};
use crate::baseline::Event;
use crate::error::{BenchError, baseline_error};
use crate::fixture::Fixture;
use crate::measurement::Measurement;

/// Publishes all pending events, `batch` at a time.
pub(crate) async fn drain(fixture: &Fixture, batch: u32) -> Result<Measurement, BenchError> {
    let mut connection = fixture.connection().await?;
    let rabbitmq = fixture.rabbitmq().await?;
    let failed = || baseline_error("the drain of the baseline");
    let mut claiming = Duration::ZERO;
    let mut publishing = Duration::ZERO;
    let mut marking = Duration::ZERO;
    let mut count = 0;
    let started = Instant::now();
    loop {
        let step = Instant::now();
        connection.begin().await.map_err(failed())?;
        let events = connection.claim(batch).await.map_err(failed())?;
        claiming += step.elapsed();
        if events.is_empty() {
            connection.commit().await.map_err(failed())?;
            break;
        }
        let keys = events
            .iter()
            .map(|event| routing_key(fixture, &event.event_type))
            .collect::<Result<Vec<_>, _>>()?;
        let step = Instant::now();
        match &rabbitmq {
            Some(rabbitmq) => {
                let keyed: Vec<(&str, &Event)> = keys.iter().map(String::as_str).zip(&events).collect();
                let published = rabbitmq.publish(EXCHANGE, &keyed).await;
                published.map_err(baseline_error("the publisher of the baseline"))?;
            }
            None => {
                let now = SystemClock.now();
                let mut rows = Vec::new();
                for (key, event) in keys.iter().zip(&events) {
                    rows.extend(queues(fixture, key).into_iter().map(|(queue, ttl)| {
                        let expires = ttl.and_then(|ttl| Some(now + TimeDelta::from_std(ttl).ok()?));
                        (queue, expires, event)
                    }));
                }
                connection.enqueue(&rows).await.map_err(failed())?;
            }
        }
        publishing += step.elapsed();
        count += u64::try_from(events.len()).unwrap_or(0);
        let step = Instant::now();
        connection.mark_sent(&events, SystemClock.now()).await.map_err(failed())?;
        connection.commit().await.map_err(failed())?;
        marking += step.elapsed();
    }
    let duration = started.elapsed();
    if let Some(rabbitmq) = rabbitmq {
        rabbitmq.close().await.map_err(baseline_error("RabbitMQ"))?;
    }
    Ok(Measurement::new(count, duration)
        .with_step("claim", claiming)
        .with_step("publish", publishing)
        .with_step("mark and commit", marking))
}
