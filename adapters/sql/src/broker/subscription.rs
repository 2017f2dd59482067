//! A consumer's end of a queue.
//!
//! **Invariant:** every message that the session holds in the database is in `unsettled`, or is found again by the
//! next call because `claiming` was left set.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use handover_application::ports::{BrokerError, Delivery, DeliveryTag, Requeue, StoreError, Subscription};
use tokio::sync::{Notify, watch};

use super::messages::{COLUMNS, Cause, Queued, move_on};
use super::upkeep::{SESSION_MS, Upkeep};
use super::{Inner, broker_error, lock};
use crate::dialect::{Claiming, MAX_ROWS, marks, padded};
use crate::session::Session;
use crate::value::{Value, values};

/// What the broker knows of an open subscription.
#[derive(Default)]
pub(super) struct Ticket {
    over: AtomicBool,
    /// Rung when there is room again, or the subscription is over.
    room: Notify,
}

impl Ticket {
    /// The session is no more.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.room.notify_one();
    }
}

pub(super) struct DatabaseSubscription {
    broker: Arc<Inner>,
    queue: String,
    session: i64,
    prefetch: usize,
    ticket: Arc<Ticket>,
    unsettled: Mutex<BTreeSet<i64>>,
    claiming: AtomicBool,
    /// Keeps a claim from taking again what is just being given back.
    giving_back: tokio::sync::Mutex<()>,
    /// The queue's bell, and the turn of one `next` at a time.
    bell: tokio::sync::Mutex<watch::Receiver<u64>>,
}

impl DatabaseSubscription {
    pub(super) async fn open(
        broker: Arc<Inner>,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<DatabaseSubscription, BrokerError> {
        let routes = broker.read_routes().await.map_err(broker_error)?;
        if !routes.queues.contains_key(queue) {
            return Err(BrokerError::Refused {
                what: format!("queue {queue} is not declared; declare it first"),
            });
        }
        broker.upkeep(Upkeep::Now).await.map_err(broker_error)?;
        let session = new_session(&broker, queue).await.map_err(broker_error)?;
        let ticket = Arc::new(Ticket::default());
        lock(&broker.live).insert(session, ticket.clone());
        let bell = tokio::sync::Mutex::new(broker.bell(queue));
        Ok(DatabaseSubscription {
            broker,
            queue: queue.to_owned(),
            session,
            prefetch: usize::from(prefetch.get()),
            ticket,
            unsettled: Mutex::default(),
            claiming: AtomicBool::new(false),
            giving_back: tokio::sync::Mutex::default(),
            bell,
        })
    }

    fn is_open(&self) -> Result<(), BrokerError> {
        if self.ticket.over.load(Ordering::Acquire) {
            return Err(BrokerError::Closed { queue: self.queue.clone() });
        }
        Ok(())
    }

    /// Claims what there is room for, or finds what a dropped call claimed.
    async fn claim(&self) -> Result<Vec<Delivery>, StoreError> {
        let _gate = self.giving_back.lock().await;
        let room = self.prefetch.saturating_sub(lock(&self.unsettled).len());
        if room == 0 {
            return Ok(Vec::new());
        }
        // The writer's connection, also to look: there a claim that was dropped on its way has been decided.
        let mut session = self.broker.store.writing().await?;
        let mut messages = Vec::new();
        if self.claiming.swap(true, Ordering::AcqRel) {
            messages = self.held(&mut session).await?;
        }
        if messages.is_empty() {
            messages = match session.dialect.claiming() {
                Claiming::UpdateReturning => self.claim_at_once(&mut session, room).await?,
                Claiming::SkipLocked => self.claim_locked(&mut session, room).await?,
            };
        }
        messages.sort_unstable_by_key(|queued| queued.id);
        lock(&self.unsettled).extend(messages.iter().map(|queued| queued.id));
        self.claiming.store(false, Ordering::Release);
        Ok(messages.into_iter().map(Queued::delivery).collect())
    }

    /// What the session holds and nobody was told of.
    async fn held(&self, session: &mut Session) -> Result<Vec<Queued>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM broker_messages WHERE session_id = ? ORDER BY id");
        let rows = session.fetch(&sql, values![self.session]).await?;
        let held = rows.iter().map(Queued::read).collect::<Result<Vec<_>, _>>()?;
        let told = lock(&self.unsettled);
        Ok(held.into_iter().filter(|queued| !told.contains(&queued.id)).collect())
    }

    async fn claim_at_once(&self, session: &mut Session, room: usize) -> Result<Vec<Queued>, StoreError> {
        // A session that was ended by others claims nothing: nobody would return it.
        let sql = format!(
            "UPDATE broker_messages SET session_id = ? WHERE id IN (SELECT id FROM broker_messages WHERE queue = ? \
             AND session_id IS NULL AND (expires_at IS NULL OR expires_at > ?) \
             AND EXISTS (SELECT 1 FROM broker_sessions WHERE session_id = ?) ORDER BY id LIMIT ?) RETURNING {COLUMNS}"
        );
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let values = values![self.session, &self.queue, self.broker.now(), self.session, limit];
        session.fetch(&sql, values).await?.iter().map(Queued::read).collect()
    }

    async fn claim_locked(&self, session: &mut Session, room: usize) -> Result<Vec<Queued>, StoreError> {
        session.begin().await?;
        // Held until the commit, so that nobody ends the session meanwhile.
        let alive = "SELECT session_id FROM broker_sessions WHERE session_id = ? FOR UPDATE";
        if session.fetch_one(alive, values![self.session]).await?.is_none() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM broker_messages WHERE queue = ? AND session_id IS NULL \
             AND (expires_at IS NULL OR expires_at > ?) ORDER BY id LIMIT ? FOR UPDATE SKIP LOCKED"
        );
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let rows = session.fetch(&sql, values![&self.queue, self.broker.now(), limit]).await?;
        let messages = rows.iter().map(Queued::read).collect::<Result<Vec<_>, _>>()?;
        for messages in messages.chunks(MAX_ROWS) {
            let ids = padded(&messages.iter().map(|queued| queued.id).collect::<Vec<_>>());
            let sql = format!("UPDATE broker_messages SET session_id = ? WHERE id IN ({})", marks(ids.len()));
            let values = values![self.session].into_iter().chain(ids.into_iter().map(Value::from)).collect();
            session.execute(&sql, values).await?;
        }
        session.commit_now().await?;
        Ok(messages)
    }

    /// Those of the tags that are not settled yet.
    fn open_tags(&self, tags: &[DeliveryTag]) -> Vec<i64> {
        let unsettled = lock(&self.unsettled);
        let ids: BTreeSet<i64> = tags.iter().filter_map(|tag| i64::try_from(tag.0).ok()).collect();
        ids.into_iter().filter(|id| unsettled.contains(id)).collect()
    }

    fn settled(&self, ids: &[i64]) {
        let mut unsettled = lock(&self.unsettled);
        for id in ids {
            unsettled.remove(id);
        }
        drop(unsettled);
        self.ticket.room.notify_one();
    }

    /// Runs `verb .. WHERE session_id = ? AND id IN (..)` over the messages.
    async fn settle(&self, verb: &str, ids: &[i64]) -> Result<(), BrokerError> {
        let mut session = self.broker.store.writing().await.map_err(broker_error)?;
        let mut changed = 0;
        for ids in ids.chunks(2 * MAX_ROWS) {
            let padded = padded(ids);
            let sql = format!("{verb} WHERE session_id = ? AND id IN ({})", marks(padded.len()));
            let values =
                values![self.session].into_iter().chain(padded.into_iter().map(Value::from)).collect();
            changed += session.execute(&sql, values).await.map_err(broker_error)?;
        }
        if changed != ids.len() as u64 {
            self.still_ours(&mut session).await?;
        }
        Ok(())
    }

    /// Whether the session is still there; without it others have what it held.
    async fn still_ours(&self, session: &mut Session) -> Result<(), BrokerError> {
        let sql = "SELECT session_id FROM broker_sessions WHERE session_id = ?";
        if session.fetch_one(sql, values![self.session]).await.map_err(broker_error)?.is_none() {
            lock(&self.broker.live).remove(&self.session);
            self.ticket.end();
        }
        self.is_open()
    }

    async fn dead_letter(&self, ids: &[i64]) -> Result<(), BrokerError> {
        let routes = self.broker.routes().await.map_err(broker_error)?;
        let now = self.broker.now();
        let mut session = self.broker.store.transaction().await.map_err(broker_error)?;
        let mut messages = Vec::with_capacity(ids.len());
        for ids in ids.chunks(MAX_ROWS) {
            let padded = padded(ids);
            let sql = format!(
                "SELECT {COLUMNS} FROM broker_messages WHERE session_id = ? AND id IN ({}) ORDER BY id {}",
                marks(padded.len()),
                session.dialect.for_update()
            );
            let values =
                values![self.session].into_iter().chain(padded.into_iter().map(Value::from)).collect();
            for row in session.fetch(&sql, values).await.map_err(broker_error)? {
                messages.push(Queued::read(&row).map_err(broker_error)?);
            }
        }
        if messages.len() != ids.len() {
            self.still_ours(&mut session).await?;
        }
        let moved =
            move_on(&mut session, &routes, &messages, Cause::Rejected, now).await.map_err(broker_error)?;
        session.commit_now().await.map_err(broker_error)?;
        self.broker.expires(moved.earliest_expiry);
        moved.queues.iter().for_each(|queue| self.broker.ring(queue));
        Ok(())
    }
}

async fn new_session(broker: &Inner, queue: &str) -> Result<i64, StoreError> {
    let mut session = broker.store.transaction().await?;
    let id = session.take_block("broker_session", 1).await?;
    let (_, until) = session.now_and(SESSION_MS).await?;
    let insert = "INSERT INTO broker_sessions (session_id, queue, alive_until)";
    session.insert(insert, 3, values![id, queue, until], "").await?;
    session.commit_now().await?;
    Ok(id)
}

#[async_trait]
impl Subscription for DatabaseSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        let mut bell = self.bell.lock().await;
        loop {
            // Before looking: what becomes ready from here on rings.
            bell.borrow_and_update();
            self.broker.upkeep(Upkeep::WhenDue).await.map_err(broker_error)?;
            self.is_open()?;
            let claimed = self.claim().await.map_err(broker_error)?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            let pause = self.broker.pause();
            tokio::select! {
                biased;
                _ = bell.changed() => {}
                () = self.ticket.room.notified() => {}
                () = self.broker.store.clock().sleep(pause) => {}
            }
        }
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.is_open()?;
        let ids = self.open_tags(tags);
        if !ids.is_empty() {
            self.settle("DELETE FROM broker_messages", &ids).await?;
            self.settled(&ids);
        }
        Ok(())
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.is_open()?;
        let ids = self.open_tags(tags);
        if ids.is_empty() {
            return Ok(());
        }
        match requeue {
            Requeue::Yes => {
                let _gate = self.giving_back.lock().await;
                self.settle("UPDATE broker_messages SET session_id = NULL, redelivered = 1", &ids).await?;
                self.settled(&ids);
                self.broker.ring(&self.queue);
            }
            Requeue::No => {
                self.dead_letter(&ids).await?;
                self.settled(&ids);
            }
        }
        Ok(())
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.leave();
        self.broker.return_ended().await.map_err(broker_error)
    }
}

impl DatabaseSubscription {
    /// Hands the session over to whoever returns what it holds.
    fn leave(&self) {
        if lock(&self.broker.live).remove(&self.session).is_some() {
            lock(&self.broker.ended).push(self.session);
        }
        self.ticket.end();
    }
}

impl Drop for DatabaseSubscription {
    fn drop(&mut self) {
        self.leave();
        // No task is started here: who waits for this queue, or comes next, returns what it held.
        self.broker.ring(&self.queue);
    }
}
