//! The store of the marketplace.

use std::ops::Deref;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::ports::{MarketView, Work};
use handover_domain::{OrderId, UserId};
use handover_outbox::ports::{Store, StoreError};
use handover_sql::SqlStore;

use crate::session::MarketSession;

/// A store of the marketplace in an SQL database. Clones share it.
#[derive(Clone)]
pub struct SqlMarket(SqlStore);

impl SqlMarket {
    /// The marketplace in the database of this store.
    pub fn on(store: SqlStore) -> SqlMarket {
        SqlMarket(store)
    }

    /// How the engine would answer the reads of sweeps and long pages, each with the index that has to serve it: for
    /// tests, and for people who wonder.
    #[doc(hidden)]
    pub async fn explain_sweeps(
        &self,
        now: DateTime<Utc>,
        order: OrderId,
        user: UserId,
    ) -> Result<Vec<(&'static str, String)>, StoreError> {
        MarketSession(self.0.view().await?).explain_sweeps(now, order, user).await
    }
}

/// All that the store of the outbox offers: its database is the same.
impl Deref for SqlMarket {
    type Target = SqlStore;

    fn deref(&self) -> &SqlStore {
        &self.0
    }
}

#[async_trait]
impl Store for SqlMarket {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        Ok(Box::new(MarketSession(self.0.begin().await?)))
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        Ok(Box::new(MarketSession(self.0.view().await?)))
    }
}
