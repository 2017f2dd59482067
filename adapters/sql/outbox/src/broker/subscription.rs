//! A consumer's subscription to a queue.
//!
//! **Invariant:** every message that the session has claimed in the database is in `unsettled`; otherwise
//! `claim_in_progress` is still set, so that the next call reads the claimed messages again.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use handover_outbox::LowWaterMark;
use handover_outbox::ports::{BrokerError, Delivery, DeliveryTag, Requeue, StoreError, Subscription};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::inner::{Inner, broker_error, lock};
use super::messages::{COLUMNS, Cause, MessageTable, move_by_dead_letter_key};
use super::subscription_state::SubscriptionState;
use super::upkeep::{POLL_INTERVAL, Upkeep};
use super::upkeep_state::SESSION_MS;
use crate::dialect::{MAX_ROWS, padded, placeholders};
use crate::session::Session;
use crate::table::Table as _;
use crate::value::{Value, values};

pub(super) struct DatabaseSubscription {
    pub(super) broker: Arc<Inner>,
    pub(super) queue: String,
    pub(super) session: i64,
    pub(super) prefetch: usize,
    state: Arc<SubscriptionState>,
    pub(super) unsettled: Mutex<BTreeSet<i64>>,
    pub(super) claim_in_progress: AtomicBool,
    /// Where the search for ready messages begins.
    pub(super) low_water: Arc<Mutex<LowWaterMark>>,
    /// The concurrent search of the whole queue.
    pub(super) searching: Mutex<Option<AbortHandle>>,
    /// Prevents a claim from running while a nack requeues messages.
    pub(super) requeue_gate: tokio::sync::Mutex<()>,
    /// Notifications for the queue; the lock also serializes calls of `next`.
    notifications: tokio::sync::Mutex<watch::Receiver<u64>>,
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
        // If this future is dropped during the commit, the task drops the subscription, which ends its session.
        #[allow(clippy::disallowed_methods, reason = "the commit outlives the caller, as in `with_tx`")]
        let beginning = tokio::spawn(DatabaseSubscription::begin(broker, queue.to_owned(), prefetch));
        match beginning.await {
            Ok(begun) => begun.map_err(broker_error),
            Err(error) => Err(BrokerError::Unreachable(Box::new(error))),
        }
    }

    /// Begins a session of a declared queue.
    async fn begin(
        broker: Arc<Inner>,
        queue: String,
        prefetch: NonZeroU16,
    ) -> Result<DatabaseSubscription, StoreError> {
        let session = new_session(&broker, &queue).await?;
        let state = Arc::new(SubscriptionState::default());
        lock(&broker.live).insert(session, state.clone());
        let notifications = tokio::sync::Mutex::new(broker.store.notifier().subscribe(&queue));
        let low_water = Arc::new(Mutex::new(LowWaterMark::new(POLL_INTERVAL, broker.slow_search)));
        Ok(DatabaseSubscription {
            broker,
            queue,
            session,
            prefetch: usize::from(prefetch.get()),
            state,
            unsettled: Mutex::default(),
            claim_in_progress: AtomicBool::new(false),
            low_water,
            searching: Mutex::default(),
            requeue_gate: tokio::sync::Mutex::default(),
            notifications,
        })
    }

    fn check_open(&self) -> Result<(), BrokerError> {
        if self.state.is_ended.load(Ordering::Acquire) {
            return Err(BrokerError::Closed { queue: self.queue.clone() });
        }
        Ok(())
    }

    /// The ids of the messages with these tags that are not settled yet.
    fn unsettled_ids(&self, tags: &[DeliveryTag]) -> Vec<i64> {
        let unsettled = lock(&self.unsettled);
        let ids: BTreeSet<i64> = tags.iter().filter_map(|tag| i64::try_from(tag.0).ok()).collect();
        ids.into_iter().filter(|id| unsettled.contains(id)).collect()
    }

    fn mark_settled(&self, ids: &[i64]) {
        let mut unsettled = lock(&self.unsettled);
        for id in ids {
            unsettled.remove(id);
        }
        drop(unsettled);
        self.state.changed.notify_one();
    }

    /// Runs `{statement} WHERE session_id = ? AND id IN (..)` for the messages.
    async fn settle(&self, statement: &str, ids: &[i64]) -> Result<(), BrokerError> {
        let mut session = self.broker.store.writing().await.map_err(broker_error)?;
        let mut changed = 0;
        for ids in ids.chunks(2 * MAX_ROWS) {
            let padded = padded(ids);
            let sql = format!("{statement} WHERE session_id = ? AND id IN ({})", placeholders(padded.len()));
            let values =
                values![self.session].into_iter().chain(padded.into_iter().map(Value::from)).collect();
            changed += session.execute(&sql, values).await.map_err(broker_error)?;
        }
        if changed != ids.len() as u64 {
            self.check_session(&mut session).await?;
        }
        Ok(())
    }

    /// Fails if the session was ended: in that case its messages were returned to the queue.
    async fn check_session(&self, session: &mut Session) -> Result<(), BrokerError> {
        let sql = "SELECT session_id FROM outbox_broker_sessions WHERE session_id = ?";
        if session.fetch_one(sql, values![self.session]).await.map_err(broker_error)?.is_none() {
            lock(&self.broker.live).remove(&self.session);
            self.state.end();
        }
        self.check_open()
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
                key = session.dialect.lock_index("PRIMARY"),
                ids = placeholders(padded.len()),
                lock = session.dialect.for_update(),
            );
            let values =
                values![self.session].into_iter().chain(padded.into_iter().map(Value::from)).collect();
            for row in session.fetch(&sql, values).await.map_err(broker_error)? {
                messages.push(MessageTable::read(&row).map_err(broker_error)?);
            }
        }
        if messages.len() != ids.len() {
            self.check_session(&mut session).await?;
        }
        let moved = move_by_dead_letter_key(&mut session, &routes, &messages, Cause::Rejected, now)
            .await
            .map_err(broker_error)?;
        session.commit_now().await.map_err(broker_error)?;
        self.broker.schedule_expiry(moved.earliest_expiry);
        moved.queues.iter().for_each(|queue| self.broker.notify_queue(queue));
        Ok(())
    }
}

async fn new_session(broker: &Inner, queue: &str) -> Result<i64, StoreError> {
    let mut session = broker.store.transaction().await?;
    let id = session_id(&mut session).await?;
    let (_, until) = session.now_and(SESSION_MS).await?;
    let insert = "INSERT INTO outbox_broker_sessions (session_id, queue, alive_until)";
    session.insert(insert, 3, values![id, queue, until], "").await?;
    if let Err(error) = session.commit_now().await {
        // The commit may have succeeded.
        lock(&broker.ended).push(id);
        return Err(error);
    }
    Ok(id)
}

/// Generates an id that no session had before: a new session must not own the messages of an ended one.
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
        let mut notifications = self.notifications.lock().await;
        loop {
            // Notifications are marked as seen before the query: if a message becomes ready after the query, its
            // notification ends the wait below.
            notifications.borrow_and_update();
            // The same for the notification of settled messages, which is stored.
            tokio::select! {
                biased;
                () = self.state.changed.notified() => {}
                () = std::future::ready(()) => {}
            }
            self.broker.upkeep(Upkeep::WhenDue).await.map_err(broker_error)?;
            self.check_open()?;
            let claimed = self.claim().await.map_err(broker_error)?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            let pause = self.broker.pause();
            tokio::select! {
                biased;
                _ = notifications.changed() => {}
                () = self.state.changed.notified() => {}
                () = self.broker.store.clock().sleep(pause) => {}
            }
        }
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.check_open()?;
        let ids = self.unsettled_ids(tags);
        if !ids.is_empty() {
            self.settle("DELETE FROM outbox_broker_messages", &ids).await?;
            self.mark_settled(&ids);
        }
        Ok(())
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.check_open()?;
        let ids = self.unsettled_ids(tags);
        if ids.is_empty() {
            return Ok(());
        }
        match requeue {
            Requeue::Yes => {
                let _gate = self.requeue_gate.lock().await;
                self.settle("UPDATE outbox_broker_messages SET session_id = NULL, redelivered = 1", &ids)
                    .await?;
                self.mark_settled(&ids);
                // The messages are below the mark.
                lock(&self.low_water).are_late(&ids);
                self.broker.notify_queue(&self.queue);
            }
            Requeue::No => {
                self.dead_letter(&ids).await?;
                self.mark_settled(&ids);
            }
        }
        Ok(())
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.end_session();
        self.broker.return_ended().await.map_err(broker_error)
    }
}

impl DatabaseSubscription {
    /// Ends the session in this process; `return_ended` then ends it in the database and returns its messages to the
    /// queue.
    fn end_session(&self) {
        if let Some(searching) = lock(&self.searching).take() {
            searching.abort();
        }
        if lock(&self.broker.live).remove(&self.session).is_some() {
            lock(&self.broker.ended).push(self.session);
        }
        self.state.end();
    }
}

impl Drop for DatabaseSubscription {
    fn drop(&mut self) {
        self.end_session();
        // `drop` starts no task: a waiting consumer, or the next call of `return_ended`, returns the unsettled messages
        // to the queue.
        self.broker.notify_queue(&self.queue);
    }
}
