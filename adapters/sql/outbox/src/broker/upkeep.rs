//! Maintenance, run by `subscribe` and `next`: renews the sessions of this process, ends expired sessions, moves
//! expired messages.
//!
//! **Invariant:** a session is ended and its messages are returned to the queue in one transaction. If the session has
//! expired, the transaction checks again that it was not renewed.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_outbox::LeaseWatch;
use handover_outbox::ports::StoreError;

use super::inner::{Inner, lock};
use super::messages::{COLUMNS, Cause, MessageTable, move_by_dead_letter_key};
use super::upkeep_state::SESSION_MS;
use crate::dialect::{padded, placeholders};
use crate::row::Row;
use crate::session::Session;
use crate::table::Table as _;
use crate::value::{Value, values};

/// Interval of renewing and checking sessions: a third of their validity.
const UPKEEP_INTERVAL: chrono::Duration = chrono::Duration::milliseconds(SESSION_MS as i64 / 3);
/// Poll interval of a waiting consumer: another process may have published.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// While many expired messages wait for their batch, consumers that have none must not poll all the time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of expired messages that one transaction moves.
const EXPIRED_BATCH: i64 = 200;

/// When sessions are maintained: only if [`UPKEEP_INTERVAL`] has passed since the last run, or immediately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upkeep {
    WhenDue,
    Now,
}

impl Inner {
    pub(super) async fn upkeep(&self, when: Upkeep) -> Result<(), StoreError> {
        self.return_ended().await?;
        let mut state = match when {
            Upkeep::Now => self.upkeep_state.lock().await,
            // A waiting consumer checks again soon.
            Upkeep::WhenDue => match self.upkeep_state.try_lock() {
                Ok(state) => state,
                Err(_) => return Ok(()),
            },
        };
        let now = self.now();
        let is_due = state.last_run.is_none_or(|last| (now - last).abs() >= UPKEEP_INTERVAL);
        if is_due || when == Upkeep::Now {
            self.maintain_sessions(&mut state.sessions).await?;
            state.last_run = Some(now);
        }
        // One batch per call: while messages expire all the time, consumers would wait for the last one, and sessions would not be
        // renewed.
        if lock(&self.next_expiry).is_some_and(|next| next <= now) {
            self.expire(now).await?;
        }
        Ok(())
    }

    /// Returns the time that a consumer waits before the next poll after it found no message.
    pub(super) fn pause(&self) -> Duration {
        let until_expiry =
            lock(&self.next_expiry).map(|next| (next - self.now()).to_std().unwrap_or_default());
        until_expiry.map_or(POLL_INTERVAL, |pause| pause.clamp(SHORTEST_PAUSE, POLL_INTERVAL))
    }

    async fn maintain_sessions(&self, watch: &mut LeaseWatch<i64>) -> Result<(), StoreError> {
        let mut session = self.store.transaction().await?;
        let (now, until) = session.now_and(SESSION_MS).await?;
        let live: Vec<i64> = lock(&self.live).keys().copied().collect();
        let renewed = renew(&mut session, &live, until).await?;
        let sql = "SELECT session_id, queue, alive_until FROM outbox_broker_sessions";
        let rows = session.fetch(sql, values![]).await?;
        let sessions = rows.iter().map(stored_session).collect::<Result<Vec<_>, _>>()?;
        let alive_until: Vec<_> = sessions.iter().map(|stored| (stored.id, stored.alive_until)).collect();
        let ended = watch.ended(now, &alive_until);
        let mut queues = BTreeSet::new();
        for stored in sessions.into_iter().filter(|stored| ended.contains(&stored.id)) {
            // The condition on alive_until skips a session that was renewed in the meantime.
            let sql = "DELETE FROM outbox_broker_sessions WHERE session_id = ? AND alive_until = ?";
            if session.execute(sql, values![stored.id, stored.alive_until]).await? == 1 {
                release(&mut session, &[stored.id]).await?;
                queues.insert(stored.queue);
            }
        }
        let next_expiry = next_expiry(&mut session).await?;
        session.commit_now().await?;
        *lock(&self.next_expiry) = next_expiry;
        queues.iter().for_each(|queue| self.notify_queue(queue));
        for id in live.iter().filter(|id| !renewed.contains(id)) {
            if let Some(subscription) = lock(&self.live).remove(id) {
                subscription.end();
            }
        }
        Ok(())
    }

    /// Returns the messages of dropped and closed subscriptions to the queue.
    pub(super) async fn return_ended(&self) -> Result<(), StoreError> {
        let ended = lock(&self.ended).clone();
        if ended.is_empty() {
            return Ok(());
        }
        self.end_sessions(&ended).await?;
        lock(&self.ended).retain(|id| !ended.contains(id));
        Ok(())
    }

    /// Ends these sessions and returns their messages to the queue.
    pub(super) async fn end_sessions(&self, ids: &[i64]) -> Result<(), StoreError> {
        let mut session = self.store.transaction().await?;
        let padded = padded(ids);
        let list = placeholders(padded.len());
        let ids_of = || padded.iter().copied().map(Value::from).collect::<Vec<_>>();
        let sql =
            format!("SELECT session_id, queue FROM outbox_broker_sessions WHERE session_id IN ({list})");
        let rows = session.fetch(&sql, ids_of()).await?;
        session
            .execute(&format!("DELETE FROM outbox_broker_sessions WHERE session_id IN ({list})"), ids_of())
            .await?;
        release(&mut session, &padded).await?;
        session.commit_now().await?;
        for row in &rows {
            self.notify_queue(row.of("outbox_broker_sessions", "session_id").text("queue")?);
        }
        Ok(())
    }

    pub(super) async fn end_all_sessions(&self) -> Result<(), StoreError> {
        let mut session = self.store.transaction().await?;
        session.execute("DELETE FROM outbox_broker_sessions", values![]).await?;
        let sql = "UPDATE outbox_broker_messages SET session_id = NULL, redelivered = 1 WHERE session_id IS NOT NULL";
        session.execute(sql, values![]).await?;
        session.commit_now().await?;
        self.store.notifier().notify_local_queues();
        Ok(())
    }

    /// Moves one batch of messages that have expired.
    async fn expire(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        // Not from the cache: a message of a queue that another process has just declared must not be dropped.
        let routes = self.read_routes().await?;
        let mut session = self.store.transaction().await?;
        let sql = format!(
            "SELECT {COLUMNS} FROM outbox_broker_messages {key} WHERE expires_at <= ? AND session_id IS NULL \
             ORDER BY expires_at, id LIMIT ? {lock}",
            key = session.dialect.lock_index("idx_outbox_broker_expiry"),
            lock = session.dialect.for_update(),
        );
        let rows = session.fetch(&sql, values![now, EXPIRED_BATCH]).await?;
        let expired = rows.iter().map(MessageTable::read).collect::<Result<Vec<_>, _>>()?;
        let moved = move_by_dead_letter_key(&mut session, &routes, &expired, Cause::Expired, now).await?;
        let next_expiry = next_expiry(&mut session).await?;
        session.commit_now().await?;
        *lock(&self.next_expiry) = next_expiry;
        moved.queues.iter().for_each(|queue| self.notify_queue(queue));
        Ok(())
    }
}

/// A session of any process, as read from the database.
struct StoredSession {
    id: i64,
    queue: String,
    alive_until: DateTime<Utc>,
}

fn stored_session(row: &Row) -> Result<StoredSession, StoreError> {
    let row = row.of("outbox_broker_sessions", "session_id");
    Ok(StoredSession {
        id: row.int("session_id")?,
        queue: row.string("queue")?,
        alive_until: row.time("alive_until")?,
    })
}

/// Renews sessions and returns those that still exist.
async fn renew(session: &mut Session, live: &[i64], until: DateTime<Utc>) -> Result<Vec<i64>, StoreError> {
    if live.is_empty() {
        return Ok(Vec::new());
    }
    let padded = padded(live);
    let list = placeholders(padded.len());
    let ids = || padded.iter().copied().map(Value::from);
    let sql = format!("UPDATE outbox_broker_sessions SET alive_until = ? WHERE session_id IN ({list})");
    let updated = session.execute(&sql, values![until].into_iter().chain(ids()).collect()).await?;
    if updated == live.len() as u64 {
        return Ok(live.to_vec());
    }
    let sql = format!("SELECT session_id FROM outbox_broker_sessions WHERE session_id IN ({list})");
    let rows = session.fetch(&sql, ids().collect()).await?;
    rows.iter().map(|row| row.of("outbox_broker_sessions", "session_id").int("session_id")).collect()
}

/// Returns the messages of sessions to the queue, at their original position.
async fn release(session: &mut Session, ids: &[i64]) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE outbox_broker_messages SET session_id = NULL, redelivered = 1 WHERE session_id IN ({})",
        placeholders(ids.len())
    );
    session.execute(&sql, ids.iter().copied().map(Value::from).collect()).await?;
    Ok(())
}

async fn next_expiry(session: &mut Session) -> Result<Option<DateTime<Utc>>, StoreError> {
    let sql = "SELECT id, expires_at FROM outbox_broker_messages WHERE expires_at IS NOT NULL AND session_id IS NULL \
               ORDER BY expires_at, id LIMIT 1";
    match session.fetch_one(sql, values![]).await? {
        Some(row) => row.of("outbox_broker_messages", "id").opt_time("expires_at"),
        None => Ok(None),
    }
}
