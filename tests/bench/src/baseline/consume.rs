//! Take what is there, write the log and the effects, commit, ack. Nothing is looked up.

use handover_application::ports::Clock as _;
use handover_system::SystemClock;
use tokio::time::{Duration, Instant};

use crate::error::failed;
use crate::fixture::Ground;
use crate::measurement::Took;
use handover::Failure;

/// The name in the log.
const CONSUMER: &str = "fulfillment";

/// Applies `count` messages of a queue.
pub(crate) async fn consume(
    ground: &Ground,
    queue: &str,
    prefetch: u16,
    count: u64,
) -> Result<Took, Failure> {
    let mut session = ground.session().await?;
    let plain = || failed("the plain consumer");
    let (mut wait, mut apply, mut ack) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut left = count;
    let Some(broker) = ground.queue().await? else {
        let begun = Instant::now();
        while left > 0 {
            let now = SystemClock.now();
            let done = session.consume(queue, CONSUMER, u32::from(prefetch), now).await.map_err(plain())?;
            left = left.saturating_sub(u64::try_from(done.len()).unwrap_or(u64::MAX));
        }
        let all = begun.elapsed();
        return Ok(Took::new(count, all).with("take, apply and commit", all));
    };
    let begun = Instant::now();
    let mut deliveries = broker.consume(queue, prefetch).await.map_err(plain())?;
    while left > 0 {
        let at = Instant::now();
        let delivered = deliveries.next().await.map_err(plain())?;
        wait += at.elapsed();
        let at = Instant::now();
        session.begin().await.map_err(plain())?;
        session.apply(CONSUMER, &delivered.bodies, SystemClock.now()).await.map_err(plain())?;
        session.commit().await.map_err(plain())?;
        apply += at.elapsed();
        let at = Instant::now();
        deliveries.ack(&delivered).await.map_err(plain())?;
        ack += at.elapsed();
        left = left.saturating_sub(u64::try_from(delivered.bodies.len()).unwrap_or(u64::MAX));
    }
    let all = begun.elapsed();
    broker.close().await.map_err(failed("RabbitMQ"))?;
    Ok(Took::new(count, all).with("wait", wait).with("apply and commit", apply).with("ack", ack))
}
