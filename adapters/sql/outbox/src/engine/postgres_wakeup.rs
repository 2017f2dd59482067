//! Wake-up notifications between processes on PostgreSQL: LISTEN and NOTIFY.
//!
//! NOTIFY is sent after the commit: inside a transaction it serializes all commits. `watch` sends it on a dedicated
//! connection and at a limited rate.

#![allow(
    clippy::disallowed_methods,
    reason = "the local clock determines only how often notifications are sent"
)]

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::postgres_settings::set_up;
use crate::prefix::TablePrefix;
use crate::wakeup::CommitNotifier;

/// The channel of an outbox without prefix.
const CHANNEL: &str = "handover";
/// Minimum interval between two notifications.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Interval of the checks of the connection. One that the network has dropped silently receives nothing and reports no error.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Time limit for sending a notification, and for a check.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn watch(connect: &PgConnectOptions, prefix: &TablePrefix, notifier: &CommitNotifier) {
    let channel = prefix.before(CHANNEL);
    loop {
        if let Err(error) = listen(connect, &channel, notifier).await {
            tracing::debug!(%error, "store: LISTEN connection lost; reconnecting in 1 s");
        }
        sleep(RECONNECT_PAUSE).await;
    }
}

async fn listen(
    connect: &PgConnectOptions,
    channel: &str,
    notifier: &CommitNotifier,
) -> Result<(), sqlx::Error> {
    // A separate pool: the listener occupies its connection permanently, and the store needs all connections of its
    // pool.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .after_connect(|connection, _| Box::pin(set_up(connection)))
        .connect_lazy_with(connect.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(channel).await?;
    let own_pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut listener).await?;
    // Notifications that were sent before LISTEN were missed, so every waiter is woken.
    notifier.notify_all_local();
    let mut next = Instant::now();
    let mut next_check = Instant::now() + CHECK_INTERVAL;
    loop {
        tokio::select! {
            received = listener.try_recv() => match received? {
                Some(notification) if notification.process_id() == own_pid.cast_unsigned() => {}
                Some(notification) => notifier.on_notification(notification.payload()),
                // The connection was lost. The caller listens again and wakes every waiter, because notifications
                // may have been missed.
                None => return Ok(()),
            },
            () = pending_at(notifier, next) => {
                if let Some(payload) = notifier.take_pending() {
                    let notify = sqlx::query("SELECT pg_notify($1, $2)").bind(channel).bind(payload);
                    in_time(notify.execute(&mut listener)).await?;
                    next = Instant::now() + MIN_INTERVAL;
                }
            }
            () = sleep_until(next_check) => {
                in_time(sqlx::query("SELECT 1").execute(&mut listener)).await?;
                next_check = Instant::now() + CHECK_INTERVAL;
            }
        }
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    timeout(RESPONSE_TIMEOUT, call).await.map_err(|elapsed| sqlx::Error::Io(elapsed.into()))?
}

/// Waits until notifications are pending and the time `earliest` has passed.
async fn pending_at(notifier: &CommitNotifier, earliest: Instant) {
    notifier.wait_for_pending().await;
    sleep_until(earliest).await;
}

pub(super) async fn notify(
    connection: &mut PgConnection,
    prefix: &TablePrefix,
    text: &str,
) -> Result<(), sqlx::Error> {
    let notify = sqlx::query("SELECT pg_notify($1, $2)").bind(prefix.before(CHANNEL)).bind(text);
    notify.execute(connection).await.map(drop)
}
