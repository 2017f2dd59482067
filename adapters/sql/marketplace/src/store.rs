//! The store of the marketplace.

use std::ops::Deref;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{Store, StoreError};
use handover_sql::{Migrations, SchemaError, SchemaVersion, SqlStore};
use marketplace::ports::{MarketView, Work};
use marketplace_domain::{OrderId, UserId};

use crate::session::MarketSession;

/// The migrations of the marketplace.
static MARKETPLACE: Migrations = Migrations {
    part: "marketplace",
    table: "marketplace_migrations",
    sqlite: &[(1, "baseline", include_str!("../../../../migrations/marketplace/sqlite/0001_baseline.sql"))],
    mysql: &[(1, "baseline", include_str!("../../../../migrations/marketplace/mysql/0001_baseline.sql"))],
    postgres: &[(
        1,
        "baseline",
        include_str!("../../../../migrations/marketplace/postgres/0001_baseline.sql"),
    )],
};

/// A store of the marketplace in an SQL database. Clones share it.
#[derive(Clone)]
pub struct SqlMarket(SqlStore);

impl SqlMarket {
    /// The marketplace in the database of this store.
    pub fn on(store: SqlStore) -> SqlMarket {
        SqlMarket(store)
    }

    /// Brings the tables of outbox and marketplace up to date, as [`SqlStore::migrate`] does.
    pub async fn migrate(&self) -> Result<(), SchemaError> {
        self.0.migrate_with(&[&MARKETPLACE]).await
    }

    /// The versions of the tables of outbox and marketplace.
    pub async fn schema_versions(&self) -> Result<[SchemaVersion; 2], SchemaError> {
        Ok([self.0.schema_version().await?, self.0.version_of_part(&MARKETPLACE).await?])
    }

    /// Whether the database answers and its schema is what this build needs.
    pub async fn is_ready(&self) -> Result<bool, StoreError> {
        match self.schema_versions().await {
            Ok(versions) => Ok(versions.iter().all(SchemaVersion::is_enough)),
            Err(SchemaError::Unreleased | SchemaError::ForeignTable(_)) => Ok(false),
            Err(SchemaError::Store(error)) => Err(error),
        }
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
