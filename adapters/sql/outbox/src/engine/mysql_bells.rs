//! How processes on MySQL learn what others committed: they look, often while there is something to find.

#![allow(
    clippy::disallowed_methods,
    reason = "wake-ups are paced on the machine's own time, and decide nothing"
)]

use std::time::Duration;

use sqlx::{AssertSqlSafe, MySql, Pool};
use tokio::time::sleep;

use crate::bells::Bells;
use crate::dialect::{marks, padded};

/// The shortest pause: something new was found.
const SHORTEST: Duration = Duration::from_millis(20);
/// The longest: nothing, or always the same.
const LONGEST: Duration = Duration::from_millis(250);
/// After a failure.
const AGAIN: Duration = Duration::from_secs(1);

/// What there was to do.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// An event that was never tried; those that wait for a time are known to their relay.
    event: Option<i64>,
    /// Queues with messages, among those that somebody here waits for.
    queues: Vec<String>,
}

pub(super) async fn watch(pool: &Pool<MySql>, bells: &Bells) {
    let (mut last, mut pause) = (Seen::default(), SHORTEST);
    loop {
        sleep(pause).await;
        // What was rung here is in the database, where the others look.
        drop(bells.tell());
        match look(pool, bells).await {
            Ok(seen) => {
                if seen.event.is_some() {
                    bells.heard(&format!("{:x}", u64::MAX));
                }
                seen.queues.iter().for_each(|queue| bells.heard(&format!("0\n{queue}")));
                pause = if seen == last { (pause * 2).clamp(SHORTEST, LONGEST) } else { SHORTEST };
                last = seen;
            }
            Err(error) => {
                tracing::debug!(%error, "what other processes committed is not seen; looking again");
                pause = AGAIN;
            }
        }
    }
}

async fn look(pool: &Pool<MySql>, bells: &Bells) -> Result<Seen, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let new = "SELECT id FROM outbox_events FORCE INDEX (idx_status_time) WHERE status = 'NEW' LIMIT 1";
    let event: Option<i64> = sqlx::query_scalar(new).fetch_optional(&mut *connection).await?;
    let waited = padded(&bells.waited_for());
    if waited.is_empty() {
        return Ok(Seen { event, queues: Vec::new() });
    }
    let ready = format!(
        "SELECT q.queue FROM outbox_broker_queues q WHERE q.queue IN ({}) AND EXISTS (SELECT 1 FROM outbox_broker_messages m \
         FORCE INDEX (idx_outbox_broker_ready) WHERE m.queue = q.queue AND m.session_id IS NULL) ORDER BY q.queue",
        marks(waited.len())
    );
    // Safe: nothing but marks was put in.
    let mut query = sqlx::query_scalar(AssertSqlSafe(ready));
    for queue in waited {
        query = query.bind(queue);
    }
    Ok(Seen { event, queues: query.fetch_all(&mut *connection).await? })
}
