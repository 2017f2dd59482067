//! What whoever waits does for all: prolongs this process' sessions, ends those of dead ones, moves what expired.
//!
//! **Invariant:** a session and what it holds end in one transaction; a lapsed one only if it is lapsed still.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_outbox::LeaseWatch;
use handover_outbox::ports::StoreError;

use super::messages::{COLUMNS, Cause, Queued, move_on};
use super::{Inner, lock};
use crate::dialect::{marks, padded};
use crate::row::Row;
use crate::session::Session;
use crate::value::{Value, values};

/// How long a session lives without a heartbeat.
pub(super) const SESSION_MS: u32 = 15_000;
/// How often sessions are prolonged and others' looked at: a third of it.
const UPKEEP: chrono::Duration = chrono::Duration::milliseconds(SESSION_MS as i64 / 3);
/// How often a waiting consumer looks by itself: another process may have published.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// How many expired messages move in one transaction.
const EXPIRED_BATCH: i64 = 200;

/// Whether sessions are looked after although it is not time yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upkeep {
    WhenDue,
    Now,
}

/// State of upkeep between two runs.
pub(super) struct Upkept {
    /// When sessions and expiries were last looked after.
    at: Option<DateTime<Utc>>,
    sessions: LeaseWatch<i64>,
}

impl Upkept {
    pub(super) fn new() -> Upkept {
        let length = Duration::from_millis(u64::from(SESSION_MS));
        Upkept { at: None, sessions: LeaseWatch::new(length) }
    }
}

impl Inner {
    pub(super) async fn upkeep(&self, when: Upkeep) -> Result<(), StoreError> {
        self.return_ended().await?;
        let now = self.now();
        let mut upkept = self.upkept.lock().await;
        let is_due = upkept.at.is_none_or(|last| (now - last).abs() >= UPKEEP);
        if is_due || when == Upkeep::Now {
            self.look_after_sessions(&mut upkept.sessions).await?;
            upkept.at = Some(now);
        }
        while lock(&self.next_expiry).is_some_and(|next| next <= now) {
            self.expire(now).await?;
        }
        Ok(())
    }

    /// How long a consumer that found nothing may sleep.
    pub(super) fn pause(&self) -> Duration {
        let until_expiry =
            lock(&self.next_expiry).map(|next| (next - self.now()).to_std().unwrap_or_default());
        until_expiry.map_or(LOOK, |pause| pause.clamp(Duration::from_millis(1), LOOK))
    }

    async fn look_after_sessions(&self, watch: &mut LeaseWatch<i64>) -> Result<(), StoreError> {
        let mut session = self.store.transaction().await?;
        let (now, until) = session.now_and(SESSION_MS).await?;
        let live: Vec<i64> = lock(&self.live).keys().copied().collect();
        let kept = prolong(&mut session, &live, until).await?;
        let sql = "SELECT session_id, queue, alive_until FROM outbox_broker_sessions";
        let rows = session.fetch(sql, values![]).await?;
        let sessions = rows.iter().map(seen_session).collect::<Result<Vec<_>, _>>()?;
        let alive_until: Vec<_> = sessions.iter().map(|seen| (seen.id, seen.alive_until)).collect();
        let ended = watch.ended(now, &alive_until);
        let mut queues = BTreeSet::new();
        for seen in sessions.into_iter().filter(|seen| ended.contains(&seen.id)) {
            // Only as it was seen: it may have been prolonged since.
            let sql = "DELETE FROM outbox_broker_sessions WHERE session_id = ? AND alive_until = ?";
            if session.execute(sql, values![seen.id, seen.alive_until]).await? == 1 {
                release(&mut session, &[seen.id]).await?;
                queues.insert(seen.queue);
            }
        }
        let next_expiry = next_expiry(&mut session).await?;
        session.commit_now().await?;
        *lock(&self.next_expiry) = next_expiry;
        queues.iter().for_each(|queue| self.ring(queue));
        for id in live.iter().filter(|id| !kept.contains(id)) {
            if let Some(ticket) = lock(&self.live).remove(id) {
                ticket.end();
            }
        }
        Ok(())
    }

    /// Returns what dropped subscriptions held.
    pub(super) async fn return_ended(&self) -> Result<(), StoreError> {
        let ended = lock(&self.ended).clone();
        if ended.is_empty() {
            return Ok(());
        }
        self.end_sessions(&ended).await?;
        lock(&self.ended).retain(|id| !ended.contains(id));
        Ok(())
    }

    /// Ends these sessions and returns what they hold.
    pub(super) async fn end_sessions(&self, ids: &[i64]) -> Result<(), StoreError> {
        let mut session = self.store.transaction().await?;
        let padded = padded(ids);
        let list = marks(padded.len());
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
            self.ring(row.of("outbox_broker_sessions", "session_id").text("queue")?);
        }
        Ok(())
    }

    pub(super) async fn end_all_sessions(&self) -> Result<(), StoreError> {
        let mut session = self.store.transaction().await?;
        session.execute("DELETE FROM outbox_broker_sessions", values![]).await?;
        let sql = "UPDATE outbox_broker_messages SET session_id = NULL, redelivered = 1 WHERE session_id IS NOT NULL";
        session.execute(sql, values![]).await?;
        session.commit_now().await?;
        self.store.bells().all_queues();
        Ok(())
    }

    /// Moves a batch of what expired by then.
    async fn expire(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let routes = self.routes().await?;
        let mut session = self.store.transaction().await?;
        let sql = format!(
            "SELECT {COLUMNS} FROM outbox_broker_messages {key} WHERE expires_at <= ? AND session_id IS NULL \
             ORDER BY expires_at, id LIMIT ? {lock}",
            key = session.dialect.by_key("idx_outbox_broker_expiry"),
            lock = session.dialect.for_update(),
        );
        let rows = session.fetch(&sql, values![now, EXPIRED_BATCH]).await?;
        let expired = rows.iter().map(Queued::read).collect::<Result<Vec<_>, _>>()?;
        let moved = move_on(&mut session, &routes, &expired, Cause::Expired, now).await?;
        let next_expiry = next_expiry(&mut session).await?;
        session.commit_now().await?;
        *lock(&self.next_expiry) = next_expiry;
        moved.queues.iter().for_each(|queue| self.ring(queue));
        Ok(())
    }
}

/// A session of any process.
struct SeenSession {
    id: i64,
    queue: String,
    alive_until: DateTime<Utc>,
}

fn seen_session(row: &Row) -> Result<SeenSession, StoreError> {
    let row = row.of("outbox_broker_sessions", "session_id");
    Ok(SeenSession {
        id: row.int("session_id")?,
        queue: row.string("queue")?,
        alive_until: row.time("alive_until")?,
    })
}

/// Prolongs sessions; tells which of them still are.
async fn prolong(session: &mut Session, live: &[i64], until: DateTime<Utc>) -> Result<Vec<i64>, StoreError> {
    if live.is_empty() {
        return Ok(Vec::new());
    }
    let padded = padded(live);
    let list = marks(padded.len());
    let ids = || padded.iter().copied().map(Value::from);
    let sql = format!("UPDATE outbox_broker_sessions SET alive_until = ? WHERE session_id IN ({list})");
    let prolonged = session.execute(&sql, values![until].into_iter().chain(ids()).collect()).await?;
    if prolonged == live.len() as u64 {
        return Ok(live.to_vec());
    }
    let sql = format!("SELECT session_id FROM outbox_broker_sessions WHERE session_id IN ({list})");
    let rows = session.fetch(&sql, ids().collect()).await?;
    rows.iter().map(|row| row.of("outbox_broker_sessions", "session_id").int("session_id")).collect()
}

/// Returns what sessions hold to its place in the queue.
async fn release(session: &mut Session, ids: &[i64]) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE outbox_broker_messages SET session_id = NULL, redelivered = 1 WHERE session_id IN ({})",
        marks(ids.len())
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
