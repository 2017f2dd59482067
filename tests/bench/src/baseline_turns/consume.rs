//! The consumer of the baseline: receives messages, inserts consume-log records and effects, commits and acks. It does
//! not read the outbox.

use handover_outbox::ports::Clock as _;
use handover_system::SystemClock;
use tokio::time::{Duration, Instant};

use crate::error::{BenchError, baseline_error};
use crate::fixture::Fixture;
use crate::measurement::Measurement;

/// The consumer's name in the consume log.
const CONSUMER: &str = "fulfillment";

/// Applies `count` messages of a queue.
pub(crate) async fn consume(
    fixture: &Fixture,
    queue: &str,
    prefetch: u16,
    count: u64,
) -> Result<Measurement, BenchError> {
    let mut connection = fixture.connection().await?;
    let failed = || baseline_error("the consumer of the baseline");
    let mut left = count;
    let Some(rabbitmq) = fixture.rabbitmq().await? else {
        let started = Instant::now();
        while left > 0 {
            let now = SystemClock.now();
            let applied = connection.consume(queue, CONSUMER, u32::from(prefetch), now).await;
            let applied = applied.map_err(failed())?.len();
            left = left.saturating_sub(u64::try_from(applied).unwrap_or(u64::MAX));
        }
        let duration = started.elapsed();
        return Ok(Measurement::new(count, duration).with_step("take, apply and commit", duration));
    };
    let mut waiting = Duration::ZERO;
    let mut applying = Duration::ZERO;
    let mut acking = Duration::ZERO;
    let started = Instant::now();
    let mut deliveries = rabbitmq.consume(queue, prefetch).await.map_err(failed())?;
    while left > 0 {
        let step = Instant::now();
        let delivered = deliveries.next().await.map_err(failed())?;
        waiting += step.elapsed();
        let step = Instant::now();
        connection.begin().await.map_err(failed())?;
        connection.apply(CONSUMER, &delivered.bodies, SystemClock.now()).await.map_err(failed())?;
        connection.commit().await.map_err(failed())?;
        applying += step.elapsed();
        let step = Instant::now();
        deliveries.ack(&delivered).await.map_err(failed())?;
        acking += step.elapsed();
        left = left.saturating_sub(u64::try_from(delivered.bodies.len()).unwrap_or(u64::MAX));
    }
    let duration = started.elapsed();
    rabbitmq.close().await.map_err(baseline_error("RabbitMQ"))?;
    Ok(Measurement::new(count, duration)
        .with_step("wait", waiting)
        .with_step("apply and commit", applying)
        .with_step("ack", acking))
}
