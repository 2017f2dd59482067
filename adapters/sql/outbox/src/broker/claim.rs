//! Claiming: a subscription takes what is ready in its queue, as far as there is room.

use std::sync::atomic::Ordering;

use handover_outbox::ports::{Delivery, StoreError};

use super::lock;
use super::messages::{COLUMNS, Queued};
use super::subscription::DatabaseSubscription;
use crate::dialect::{Claiming, MAX_ROWS, marks, padded};
use crate::session::Session;
use crate::value::{Value, values};

impl DatabaseSubscription {
    /// Claims what there is room for, or finds what a dropped call claimed.
    pub(super) async fn claim(&self) -> Result<Vec<Delivery>, StoreError> {
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
        let sql = format!("SELECT {COLUMNS} FROM outbox_broker_messages WHERE session_id = ? ORDER BY id");
        let rows = session.fetch(&sql, values![self.session]).await?;
        let held = rows.iter().map(Queued::read).collect::<Result<Vec<_>, _>>()?;
        let told = lock(&self.unsettled);
        Ok(held.into_iter().filter(|queued| !told.contains(&queued.id)).collect())
    }

    async fn claim_at_once(&self, session: &mut Session, room: usize) -> Result<Vec<Queued>, StoreError> {
        // A session that was ended by others claims nothing: nobody would return it.
        let sql = format!(
            "UPDATE outbox_broker_messages SET session_id = ? WHERE id IN (SELECT id FROM outbox_broker_messages WHERE queue = ? \
             AND session_id IS NULL AND (expires_at IS NULL OR expires_at > ?) \
             AND EXISTS (SELECT 1 FROM outbox_broker_sessions WHERE session_id = ?) ORDER BY id LIMIT ?) RETURNING {COLUMNS}"
        );
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let values = values![self.session, &self.queue, self.broker.now(), self.session, limit];
        session.fetch(&sql, values).await?.iter().map(Queued::read).collect()
    }

    async fn claim_locked(&self, session: &mut Session, room: usize) -> Result<Vec<Queued>, StoreError> {
        session.begin().await?;
        // Held until the commit, so that nobody ends the session meanwhile.
        let alive = "SELECT session_id FROM outbox_broker_sessions WHERE session_id = ? FOR UPDATE";
        if session.fetch_one(alive, values![self.session]).await?.is_none() {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM outbox_broker_messages {index} WHERE queue = ? AND session_id IS NULL \
             AND (expires_at IS NULL OR expires_at > ?) ORDER BY id LIMIT ? {lock}",
            index = session.dialect.index("idx_outbox_broker_ready"),
            lock = session.dialect.skip_locked(),
        );
        let limit = i64::try_from(room).unwrap_or(i64::MAX);
        let rows = session.fetch(&sql, values![&self.queue, self.broker.now(), limit]).await?;
        let messages = rows.iter().map(Queued::read).collect::<Result<Vec<_>, _>>()?;
        for messages in messages.chunks(MAX_ROWS) {
            let ids = padded(&messages.iter().map(|queued| queued.id).collect::<Vec<_>>());
            let sql = format!(
                "UPDATE outbox_broker_messages SET session_id = ? WHERE id IN ({})",
                marks(ids.len())
            );
            let values = values![self.session].into_iter().chain(ids.into_iter().map(Value::from)).collect();
            session.execute(&sql, values).await?;
        }
        session.commit_now().await?;
        Ok(messages)
    }
}
