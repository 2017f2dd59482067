//! How processes on PostgreSQL tell each other what they committed: LISTEN and NOTIFY.
//!
//! A NOTIFY goes out after the commit, on a connection of its own and at most once in a while: inside of transactions it
//! makes every commit wait for every other.

#![allow(
    clippy::disallowed_methods,
    reason = "wake-ups are paced on the machine's own time, and decide nothing"
)]

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPoolOptions};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::bells::Bells;

const CHANNEL: &str = "handover";
/// The shortest time between two that are sent.
const SPACING: Duration = Duration::from_millis(20);
/// How long to wait before connecting again.
const AGAIN: Duration = Duration::from_secs(1);
/// The longest that an answer is waited for.
const ANSWER: Duration = Duration::from_secs(5);

pub(super) async fn watch(connect: &PgConnectOptions, bells: &Bells) {
    loop {
        if let Err(error) = listen(connect, bells).await {
            tracing::debug!(%error, "wake-ups of other processes are not heard; connecting again");
        }
        sleep(AGAIN).await;
    }
}

async fn listen(connect: &PgConnectOptions, bells: &Bells) -> Result<(), sqlx::Error> {
    // The listener keeps its connection: one of the store's pool would be missing there.
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(connect.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    let own: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut listener).await?;
    // Before this nobody heard anything.
    bells.may_have_missed();
    let mut next = Instant::now();
    loop {
        tokio::select! {
            heard = listener.try_recv() => match heard? {
                Some(heard) if heard.process_id() == own.cast_unsigned() => {}
                Some(heard) => bells.heard(heard.payload()),
                // The connection was lost, and with it what was said meanwhile.
                None => return Ok(()),
            },
            () = untold(bells, next) => {
                if let Some(text) = bells.tell() {
                    let notify = sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(text);
                    timeout(ANSWER, notify.execute(&mut listener))
                        .await
                        .map_err(|late| sqlx::Error::Io(late.into()))??;
                    next = Instant::now() + SPACING;
                }
            }
        }
    }
}

/// Waits until there is something to tell, and it is time.
async fn untold(bells: &Bells, at: Instant) {
    bells.something_to_tell().await;
    sleep_until(at).await;
}

pub(super) async fn tell(connection: &mut PgConnection, text: &str) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(text).execute(connection).await?;
    Ok(())
}
