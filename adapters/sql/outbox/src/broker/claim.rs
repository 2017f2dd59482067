//! Claiming: a subscription assigns ready messages of its queue to its session, up to the prefetch limit.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handover_outbox::ports::{Delivery, StoreError};
use tokio::time::Instant;
use tracing::warn;

use super::inner::{Inner, lock};
use super::messages::{COLUMNS, MessageTable, Queued};
use super::subscription::DatabaseSubscription;
use crate::dialect::{Claiming, MAX_ROWS, padded, placeholders};
use crate::session::Session;
use crate::table::Table as _;
use crate::value::{Value, values};

impl DatabaseSubscription {
    /// Claims messages up to the prefetch limit. If an earlier call was dropped, returns the messages that the earlier
    /// call claimed.
    pub(super) async fn claim(&self) -> Result<Vec<Delivery>, StoreError> {
        let _gate = self.requeue_gate.lock().await;
        let room = self.prefetch.saturating_sub(lock(&self.unsettled).len());
        if room == 0 {
            return Ok(Vec::new());
        }
        // Undelivered messages are also read with a connection for writes: where there is only one, the read waits until a claim that
        // was dropped has ended.
        let mut session = self.broker.store.writing().await?;
        let mut messages = Vec::new();
        if self.claim_in_progress.swap(true, Ordering::AcqRel) {
            messages = self.undelivered(&mut session).await?;
        }
        if messages.is_empty() {
            let from = lock(&self.low_water).begin();
            let room = from.late.map_or(room, |late| room.min(usize::try_from(late).unwrap_or(usize::MAX)));
            let begun = Instant::now();
            messages = match session.dialect.claiming() {
                Claiming::UpdateReturning => self.claim_with_update(&mut session, from.id, room).await?,
                Claiming::SkipLocked => self.claim_with_skip_locked(&mut session, from.id, room).await?,
            };
            let lowest = messages.iter().map(|queued| queued.id).min();
            lock(&self.low_water).found(from, lowest, begun.elapsed());
            self.search_fully();
        }
        messages.sort_unstable_by_key(|queued| queued.id);
        lock(&self.unsettled).extend(messages.iter().map(|queued| queued.id));
        self.claim_in_progress.store(false, Ordering::Release);
        Ok(messages.into_iter().map(Queued::delivery).collect())
    }

    /// Searches ready messages below the mark, if it is time for it. The next claims begin at those that are found.
    fn search_fully(&self) {
        let Some(search) = lock(&self.low_water).full_search() else { return };
        let (broker, queue) = (Arc::clone(&self.broker), self.queue.clone());
        let (low_water, limit) = (Arc::clone(&self.low_water), self.prefetch);
        let work = async move {
            let read = |ids| broker.ready_in(&queue, ids, limit);
            match search.run(&low_water, broker.store.clock().as_ref(), limit, read).await {
                Ok(true) => broker.notify_queue(&queue),
                Ok(false) => {}
                Err(error) => {
                    warn!(code = "broker.full-search-failed", %error, queue, "a search of the whole queue failed; it is repeated");
                }
            }
        };
        #[allow(
            clippy::disallowed_methods,
            reason = "the claim does not wait for it, and it ends with the subscription"
        )]
        let searching = tokio::spawn(work).abort_handle();
        if let Some(before) = lock(&self.searching).replace(searching) {
            before.abort();
        }
    }

    /// Messages that the session has claimed but not delivered.
    async fn undelivered(&self, session: &mut Session) -> Result<Vec<Queued>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM outbox_broker_messages WHERE session_id = ? ORDER BY id");
        let rows = match session.dialect.claiming() {
            Claiming::UpdateReturning => session.fetch(&sql, values![self.session]).await?,
            Claiming::SkipLocked => {
                // The commit of a claim that was dropped may still run. It holds the lock of the session's row until then.
                session.begin().await?;
                self.lock_row(session).await?;
                let rows = session.fetch(&sql, values![self.session]).await?;
                session.commit_now().await?;
                rows
            }
        };
        let claimed = rows.iter().map(MessageTable::read).collect::<Result<Vec<_>, _>>()?;
        let delivered = lock(&self.unsettled);
        Ok(claimed.into_iter().filter(|queued| !delivered.contains(&queued.id)).collect())
    }

    async fn claim_with_update(
        &self,
        session: &mut Session,
        from_id: i64,
        room: usize,
    ) -> Result<Vec<Queued>, StoreError> {
        // A session that another process ended must not claim: its messages would never be returned to the queue.
        let sql = format!(
            "UPDATE outbox_broker_messages SET session_id = ? WHERE id IN (SELECT id FROM outbox_broker_messages WHERE queue = ? \
             AND session_id IS NULL AND id >= ? AND (expires_at IS NULL OR expires_at > ?) \
             AND EXISTS (SELECT 1 FROM outbox_broker_sessions WHERE session_id = ?) ORDER BY id LIMIT ?) RETURNING {COLUMNS}"
        );
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let values = values![self.session, &self.queue, from_id, self.broker.now(), self.session, limit];
        session.fetch(&sql, values).await?.iter().map(MessageTable::read).collect()
    }

    async fn claim_with_skip_locked(
        &self,
        session: &mut Session,
        from_id: i64,
        room: usize,
    ) -> Result<Vec<Queued>, StoreError> {
        session.begin().await?;
        let sql = format!(
            "SELECT {COLUMNS} FROM outbox_broker_messages {index} WHERE queue = ? AND session_id IS NULL \
             AND id >= ? AND (expires_at IS NULL OR expires_at > ?) ORDER BY id LIMIT ? {lock}",
            index = session.dialect.index("idx_outbox_broker_ready"),
            lock = session.dialect.skip_locked(),
        );
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let rows = session.fetch(&sql, values![&self.queue, from_id, self.broker.now(), limit]).await?;
        let messages = rows.iter().map(MessageTable::read).collect::<Result<Vec<_>, _>>()?;
        if messages.is_empty() {
            session.commit_now().await?;
            return Ok(messages);
        }
        // The row lock prevents other processes from ending the session before the commit. Who ends it locks its row
        // first, then only messages that it has claimed: none of these.
        if !self.lock_row(session).await? {
            return Ok(Vec::new());
        }
        for messages in messages.chunks(MAX_ROWS) {
            let ids = padded(&messages.iter().map(|queued| queued.id).collect::<Vec<_>>());
            let sql = format!(
                "UPDATE outbox_broker_messages SET session_id = ? WHERE id IN ({})",
                placeholders(ids.len())
            );
            let values = values![self.session].into_iter().chain(ids.into_iter().map(Value::from)).collect();
            session.execute(&sql, values).await?;
        }
        session.commit_now().await?;
        Ok(messages)
    }

    /// Locks the row of the session. `false`: another process has ended it.
    async fn lock_row(&self, session: &mut Session) -> Result<bool, StoreError> {
        let sql = "SELECT session_id FROM outbox_broker_sessions WHERE session_id = ? FOR UPDATE";
        Ok(session.fetch_one(sql, values![self.session]).await?.is_some())
    }
}

impl Inner {
    /// The ids in this range of the first ready messages of a queue, and the time that the database took.
    async fn ready_in(
        &self,
        queue: &str,
        ids: Range<i64>,
        limit: usize,
    ) -> Result<(Vec<i64>, Duration), StoreError> {
        let mut session = self.store.reading().await?;
        let sql = format!(
            "SELECT id FROM outbox_broker_messages {index} WHERE queue = ? AND session_id IS NULL AND id >= ? AND id < ? \
             AND (expires_at IS NULL OR expires_at > ?) ORDER BY id LIMIT ?",
            index = session.dialect.index("idx_outbox_broker_ready"),
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let begun = Instant::now();
        let rows = session.fetch(&sql, values![queue, ids.start, ids.end, self.now(), limit]).await?;
        let took = begun.elapsed();
        let ids = rows.iter().map(|row| row.of("outbox_broker_messages", "id").int("id"));
        Ok((ids.collect::<Result<_, _>>()?, took))
    }
}
