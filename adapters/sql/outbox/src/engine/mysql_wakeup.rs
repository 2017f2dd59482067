//! Wake-up notifications between processes on MySQL: polling, more often while there is activity.

#![allow(
    clippy::disallowed_methods,
    reason = "the local clock determines only how often the database is polled"
)]

use std::time::Duration;

use sqlx::{AssertSqlSafe, MySql, Pool};
use tokio::time::{sleep, timeout};

use crate::dialect::{padded, placeholders};
use crate::prefix::TablePrefix;
use crate::wakeup::CommitNotifier;

/// Pause after a poll that found a change.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause, reached while polls find no change.
const MAX_PAUSE: Duration = Duration::from_millis(250);
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// Time limit of a poll. A connection that the network has dropped silently never answers.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Work that a poll found.
#[derive(Debug, Default, PartialEq, Eq)]
struct PollResult {
    /// An event without any publish attempt. The relay itself schedules events that wait for a retry time.
    event: Option<i64>,
    /// Queues with ready messages, among those that consumers of this process wait for.
    queues: Vec<String>,
}

pub(super) async fn watch(pool: &Pool<MySql>, prefix: &TablePrefix, notifier: &CommitNotifier) {
    let mut last = PollResult::default();
    let mut pause = MIN_PAUSE;
    loop {
        sleep(pause).await;
        // Other processes poll the database, so nothing has to be sent to them.
        drop(notifier.take_pending());
        let found = timeout(RESPONSE_TIMEOUT, poll(pool, prefix, notifier)).await;
        match found.unwrap_or_else(|elapsed| Err(sqlx::Error::Io(elapsed.into()))) {
            Ok(found) => {
                if found.event.is_some() {
                    notifier.on_notification(&format!("{:x}", u64::MAX));
                }
                found.queues.iter().for_each(|queue| notifier.on_notification(&format!("0\n{queue}")));
                pause = if found == last { (pause * 2).clamp(MIN_PAUSE, MAX_PAUSE) } else { MIN_PAUSE };
                last = found;
            }
            Err(error) => {
                tracing::debug!(%error, "store: polling for commits of other processes failed; retrying in 1 s");
                pause = ERROR_PAUSE;
            }
        }
    }
}

async fn poll(
    pool: &Pool<MySql>,
    prefix: &TablePrefix,
    notifier: &CommitNotifier,
) -> Result<PollResult, sqlx::Error> {
    // Safe: the statements consist of constants, placeholders and known names.
    let prefixed = |sql: &str| AssertSqlSafe(prefix.statement(sql).into_owned());
    let mut connection = pool.acquire().await?;
    let new = "SELECT id FROM outbox_events FORCE INDEX (idx_status_time) WHERE status = 'NEW' LIMIT 1";
    let event: Option<i64> = sqlx::query_scalar(prefixed(new)).fetch_optional(&mut *connection).await?;
    let subscribed = padded(&notifier.subscribed_queues());
    if subscribed.is_empty() {
        return Ok(PollResult { event, queues: Vec::new() });
    }
    let ready = format!(
        "SELECT q.queue FROM outbox_broker_queues q WHERE q.queue IN ({}) AND EXISTS (SELECT 1 FROM outbox_broker_messages m \
         FORCE INDEX (idx_outbox_broker_ready) WHERE m.queue = q.queue AND m.session_id IS NULL) ORDER BY q.queue",
        placeholders(subscribed.len())
    );
    let mut query = sqlx::query_scalar(prefixed(&ready));
    for queue in subscribed {
        query = query.bind(queue);
    }
    Ok(PollResult { event, queues: query.fetch_all(&mut *connection).await? })
}
