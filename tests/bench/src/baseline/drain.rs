//! Claim, publish, mark, commit; again until nothing is left. No order, no lease, no fence.

use crate::baseline::Event;
use chrono::TimeDelta;
use handover_application::ports::Clock as _;
use handover_application::topology::EXCHANGE;
use handover_system::SystemClock;
use tokio::time::{Duration, Instant};

use super::{queues, routing_key};
use crate::error::failed;
use crate::fixture::Ground;
use crate::measurement::Took;
use handover::Failure;

/// Sends all that is pending, `batch` at a time.
pub(crate) async fn drain(ground: &Ground, batch: u32) -> Result<Took, Failure> {
    let mut session = ground.session().await?;
    let queue = ground.queue().await?;
    let database = || failed("the plain drain");
    let (mut claim, mut publish, mut mark) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut count = 0;
    let begun = Instant::now();
    loop {
        let at = Instant::now();
        session.begin().await.map_err(database())?;
        let events = session.claim(batch).await.map_err(database())?;
        claim += at.elapsed();
        if events.is_empty() {
            session.commit().await.map_err(database())?;
            break;
        }
        let keys = events
            .iter()
            .map(|event| routing_key(ground, &event.event_type))
            .collect::<Result<Vec<_>, _>>()?;
        let at = Instant::now();
        match &queue {
            Some(queue) => {
                let keyed: Vec<(&str, &Event)> = keys.iter().map(String::as_str).zip(&events).collect();
                queue.publish(EXCHANGE, &keyed).await.map_err(failed("the plain publish"))?;
            }
            None => {
                let now = SystemClock.now();
                let mut rows = Vec::new();
                for (key, event) in keys.iter().zip(&events) {
                    rows.extend(queues(ground, key).into_iter().map(|(queue, ttl)| {
                        let expires = ttl.and_then(|ttl| Some(now + TimeDelta::from_std(ttl).ok()?));
                        (queue, expires, event)
                    }));
                }
                session.enqueue(&rows).await.map_err(database())?;
            }
        }
        publish += at.elapsed();
        count += u64::try_from(events.len()).unwrap_or(0);
        let at = Instant::now();
        session.mark(&events, SystemClock.now()).await.map_err(database())?;
        session.commit().await.map_err(database())?;
        mark += at.elapsed();
    }
    let all = begun.elapsed();
    if let Some(queue) = queue {
        queue.close().await.map_err(failed("RabbitMQ"))?;
    }
    Ok(Took::new(count, all).with("claim", claim).with("publish", publish).with("mark and commit", mark))
}
