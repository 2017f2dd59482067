//! The relay of the baseline: claims a batch, publishes it, marks it as SENT and commits, until no event is pending. It
//! has no ordering, leases or fencing.

use handover_outbox::ports::Clock as _;
use handover_system::SystemClock;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use super::routes::Routes;
use crate::baseline::{BaselineError, Connection, RabbitConnection};
use crate::error::{BenchError, baseline_error, service_error};
use crate::fixture::Fixture;
use crate::measurement::Measurement;

/// Number of events that a relay published, and the time of each step.
#[derive(Default)]
pub(super) struct Drained {
    count: u64,
    claiming: Duration,
    publishing: Duration,
    marking: Duration,
}

/// Publishes all pending events, `batch` at a time, with as many relays as `relays`, each with its own connections.
pub(crate) async fn drain(fixture: &Fixture, batch: u32, relays: u32) -> Result<Measurement, BenchError> {
    let routes = Routes::of(fixture);
    let mut running = JoinSet::new();
    let mut opened = Vec::new();
    for _ in 0..relays {
        opened.push((fixture.connection().await?, fixture.rabbitmq().await?));
    }
    let started = Instant::now();
    for (mut connection, rabbitmq) in opened {
        let routes = routes.clone();
        running.spawn(async move {
            let mut drained = Drained::default();
            while publish_batch(&mut connection, rabbitmq.as_ref(), &routes, batch, &mut drained).await? > 0 {
            }
            Ok::<_, BaselineError>((drained, rabbitmq))
        });
    }
    let mut all = Drained::default();
    let mut rabbitmqs = Vec::new();
    while let Some(done) = running.join_next().await {
        let (drained, rabbitmq) =
            done.map_err(service_error)?.map_err(baseline_error("the drain of the baseline"))?;
        all.count += drained.count;
        all.claiming += drained.claiming;
        all.publishing += drained.publishing;
        all.marking += drained.marking;
        rabbitmqs.extend(rabbitmq);
    }
    let duration = started.elapsed();
    for rabbitmq in rabbitmqs {
        rabbitmq.close().await.map_err(baseline_error("RabbitMQ"))?;
    }
    Ok(Measurement::new(all.count, duration)
        .by_workers(relays)
        .with_step("claim", all.claiming)
        .with_step("publish", all.publishing)
        .with_step("mark and commit", all.marking))
}

/// Publishes at most `batch` pending events and returns their number.
pub(super) async fn publish_batch(
    connection: &mut Connection,
    rabbitmq: Option<&RabbitConnection>,
    routes: &Routes,
    batch: u32,
    drained: &mut Drained,
) -> Result<usize, BaselineError> {
    let step = Instant::now();
    connection.begin().await?;
    let events = connection.claim(batch).await?;
    drained.claiming += step.elapsed();
    if events.is_empty() {
        connection.commit().await?;
        return Ok(0);
    }
    let step = Instant::now();
    routes.publish(connection, rabbitmq, &events).await?;
    drained.publishing += step.elapsed();
    let step = Instant::now();
    connection.mark_sent(&events, SystemClock.now()).await?;
    connection.commit().await?;
    drained.marking += step.elapsed();
    drained.count += u64::try_from(events.len()).unwrap_or(0);
    Ok(events.len())
}
