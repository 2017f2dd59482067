//! The marketplace's store and migrations.

use std::ops::Deref;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{Store, StoreError};
use handover_sql::{ExpectedSchema, Migrations, SchemaError, SchemaVersion, SqlStore};
use marketplace::ports::{MarketView, Work};
use marketplace_domain::{OrderId, UserId};

use crate::session::MarketSession;

/// The migrations of the marketplace's tables.
pub static MIGRATIONS: Migrations = Migrations {
    part: "marketplace",
    table: "marketplace_migrations",
    sqlite: &[
        (1, "baseline", include_str!("../../../../migrations/marketplace/sqlite/0001_baseline.sql")),
        (
            2,
            "gateway reports",
            include_str!("../../../../migrations/marketplace/sqlite/0002_gateway_reports.sql"),
        ),
        (
            3,
            "compatible reconciliation findings",
            include_str!(
                "../../../../migrations/marketplace/sqlite/0003_compatible_reconciliation_findings.sql"
            ),
        ),
        (
            4,
            "declined orders",
            include_str!("../../../../migrations/marketplace/sqlite/0004_declined_orders.sql"),
        ),
        (
            5,
            "compatible shipped orders",
            include_str!("../../../../migrations/marketplace/sqlite/0005_compatible_shipped_orders.sql"),
        ),
        (6, "invoices", include_str!("../../../../migrations/marketplace/sqlite/0006_invoices.sql")),
        (
            7,
            "compatible open orders",
            include_str!("../../../../migrations/marketplace/sqlite/0007_compatible_open_orders.sql"),
        ),
        (
            8,
            "compatible refund requests",
            include_str!("../../../../migrations/marketplace/sqlite/0008_compatible_refund_requests.sql"),
        ),
    ],
    mysql: &[
        (1, "baseline", include_str!("../../../../migrations/marketplace/mysql/0001_baseline.sql")),
        (
            2,
            "gateway reports",
            include_str!("../../../../migrations/marketplace/mysql/0002_gateway_reports.sql"),
        ),
        (
            3,
            "compatible reconciliation findings",
            include_str!(
                "../../../../migrations/marketplace/mysql/0003_compatible_reconciliation_findings.sql"
            ),
        ),
        (
            4,
            "declined orders",
            include_str!("../../../../migrations/marketplace/mysql/0004_declined_orders.sql"),
        ),
        (
            5,
            "compatible shipped orders",
            include_str!("../../../../migrations/marketplace/mysql/0005_compatible_shipped_orders.sql"),
        ),
        (6, "invoices", include_str!("../../../../migrations/marketplace/mysql/0006_invoices.sql")),
        (
            7,
            "compatible open orders",
            include_str!("../../../../migrations/marketplace/mysql/0007_compatible_open_orders.sql"),
        ),
        (
            8,
            "compatible refund requests",
            include_str!("../../../../migrations/marketplace/mysql/0008_compatible_refund_requests.sql"),
        ),
    ],
    postgres: &[
        (1, "baseline", include_str!("../../../../migrations/marketplace/postgres/0001_baseline.sql")),
        (
            2,
            "gateway reports",
            include_str!("../../../../migrations/marketplace/postgres/0002_gateway_reports.sql"),
        ),
        (
            3,
            "compatible reconciliation findings",
            include_str!(
                "../../../../migrations/marketplace/postgres/0003_compatible_reconciliation_findings.sql"
            ),
        ),
        (
            4,
            "declined orders",
            include_str!("../../../../migrations/marketplace/postgres/0004_declined_orders.sql"),
        ),
        (
            5,
            "compatible shipped orders",
            include_str!("../../../../migrations/marketplace/postgres/0005_compatible_shipped_orders.sql"),
        ),
        (6, "invoices", include_str!("../../../../migrations/marketplace/postgres/0006_invoices.sql")),
        (
            7,
            "compatible open orders",
            include_str!("../../../../migrations/marketplace/postgres/0007_compatible_open_orders.sql"),
        ),
        (
            8,
            "compatible refund requests",
            include_str!("../../../../migrations/marketplace/postgres/0008_compatible_refund_requests.sql"),
        ),
    ],
    schema: ExpectedSchema {
        sqlite: include_str!("../../../../migrations/marketplace/sqlite/schema.txt"),
        mysql: include_str!("../../../../migrations/marketplace/mysql/schema.txt"),
        postgres: include_str!("../../../../migrations/marketplace/postgres/schema.txt"),
    },
};

/// The marketplace's store in an SQL database. Cheap to clone: clones share connections and state.
#[derive(Clone)]
pub struct SqlMarket(SqlStore);

impl SqlMarket {
    /// Creates a marketplace store on the database of `store`.
    pub fn on(store: SqlStore) -> SqlMarket {
        SqlMarket(store)
    }

    /// Applies the pending migrations of outbox and marketplace, as [`SqlStore::migrate`] does.
    pub async fn migrate(&self) -> Result<(), SchemaError> {
        self.0.migrate_with(&[&MIGRATIONS]).await
    }

    /// The schema versions of outbox and marketplace.
    pub async fn schema_versions(&self) -> Result<[SchemaVersion; 2], SchemaError> {
        Ok([self.0.schema_version().await?, self.0.version_of_part(&MIGRATIONS).await?])
    }

    /// The query plans of jobs and long pages, each with the name of the index that its query must use. For tests and
    /// diagnosis.
    #[doc(hidden)]
    pub async fn explain_job_queries(
        &self,
        now: DateTime<Utc>,
        order: OrderId,
        user: UserId,
    ) -> Result<Vec<(&'static str, String)>, StoreError> {
        MarketSession(self.0.view().await?).explain_job_queries(now, order, user).await
    }
}

/// Gives access to the store of the outbox in the same database.
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

    fn has_single_writer(&self) -> bool {
        self.0.has_single_writer()
    }
}
