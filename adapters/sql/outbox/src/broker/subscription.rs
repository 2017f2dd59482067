//! A consumer's end of a queue.
//!
//! **Invariant:** every message that the session holds in the database is in `unsettled`, or is found again by the
//! next call because `claiming` was left set.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use handover_outbox::ports::{BrokerError, Delivery, DeliveryTag, Requeue, StoreError, Subscription};
use tokio::sync::{Notify, watch};

use super::messages::{COLUMNS, Cause, Queued, move_on};
use super::upkeep::{SESSION_MS, Upkeep};
use super::{Inner, broker_error, lock};
use crate::dialect::{MAX_ROWS, marks, padded};
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
    pub(super) broker: Arc<Inner>,
    pub(super) queue: String,
    pub(super) session: i64,
    pub(super) prefetch: usize,
    ticket: Arc<Ticket>,
    pub(super) unsettled: Mutex<BTreeSet<i64>>,
    pub(super) claiming: AtomicBool,
    /// Keeps a claim from taking again what is just being given back.
    pub(super) giving_back: tokio::sync::Mutex<()>,
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
        let bell = tokio::sync::Mutex::new(broker.store.bells().of(queue));
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
        let sql = "SELECT session_id FROM outbox_broker_sessions WHERE session_id = ?";
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
                "SELECT {COLUMNS} FROM outbox_broker_messages {key} WHERE session_id = ? AND id IN ({ids}) \
                 ORDER BY id {lock}",
                key = session.dialect.by_key("PRIMARY"),
                ids = marks(padded.len()),
                lock = session.dialect.for_update(),
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
    let id = session_id(&mut session).await?;
    let (_, until) = session.now_and(SESSION_MS).await?;
    let insert = "INSERT INTO outbox_broker_sessions (session_id, queue, alive_until)";
    session.insert(insert, 3, values![id, queue, until], "").await?;
    session.commit_now().await?;
    Ok(id)
}

/// An id that no session had before: what an ended one had claimed must not look like another's.
async fn session_id(session: &mut Session) -> Result<i64, StoreError> {
    let next = "UPDATE outbox_broker_counter SET last_session_id = last_session_id + 1 WHERE one = 1";
    session.execute(next, values![]).await?;
    let counter = "SELECT one, last_session_id FROM outbox_broker_counter WHERE one = 1";
    let row = session.fetch_one(counter, values![]).await?;
    let row =
        row.ok_or_else(|| StoreError::Backend("the row of outbox_broker_counter was deleted".into()))?;
    row.of("outbox_broker_counter", "one").int("last_session_id")
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
            self.settle("DELETE FROM outbox_broker_messages", &ids).await?;
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
                self.settle("UPDATE outbox_broker_messages SET session_id = NULL, redelivered = 1", &ids)
                    .await?;
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
