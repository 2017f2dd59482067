//! Direct access to the program's database: events in flight, and whether every event took effect exactly once and in
//! order. Effects are counted in their own tables, not in the consume log.
//!
//! The same statements run on every engine. `||` concatenates texts on all of them: sqlx sets MariaDB's SQL mode for
//! it.

mod invariants;
mod pool;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use sqlx::sqlite::SqlitePool;

use crate::process::{BoxError, eventually};
use crate::servers::rabbitmq::TestVhost;
use pool::Pool;
pub use pool::Table;

/// Parses a UTC time as written by any of the engines.
#[track_caller]
pub fn moment(text: &str) -> DateTime<Utc> {
    let plain = text.replace('T', " ");
    let plain = plain.trim_end_matches("+00").trim_end_matches('Z');
    NaiveDateTime::parse_from_str(plain, "%Y-%m-%d %H:%M:%S%.f")
        .unwrap_or_else(|error| panic!("{text} is not a time: {error}"))
        .and_utc()
}

/// A database and, with RabbitMQ, the vhost with its messages.
#[derive(Debug, Clone)]
pub struct DatabaseSnapshot {
    pool: Pool,
    vhost: Option<Arc<TestVhost>>,
}

impl DatabaseSnapshot {
    /// Opens a database file.
    pub async fn open(database: &Path) -> DatabaseSnapshot {
        DatabaseSnapshot { pool: Pool::open(database).await.unwrap(), vhost: None }
    }

    /// Opens a database on a server by its URL.
    pub fn on(url: &str) -> DatabaseSnapshot {
        DatabaseSnapshot { pool: Pool::on(url).unwrap(), vhost: None }
    }

    /// Includes the queues of this vhost when waiting for events in flight.
    #[must_use]
    pub fn with_vhost(self, vhost: Arc<TestVhost>) -> DatabaseSnapshot {
        DatabaseSnapshot { vhost: Some(vhost), ..self }
    }

    /// The same database over a single connection, so that a transaction spans several calls (`BEGIN` ... `ROLLBACK`).
    #[must_use]
    pub fn on_one_connection(&self) -> DatabaseSnapshot {
        DatabaseSnapshot { pool: self.pool.on_one_connection(), vhost: None }
    }

    /// The SQLite pool, for tests that change the file itself.
    #[track_caller]
    pub fn pool(&self) -> &SqlitePool {
        match &self.pool {
            Pool::Sqlite(pool) => pool,
            other @ (Pool::MySql(_) | Pool::Postgres(_)) => panic!("expected SQLite, got {other:?}"),
        }
    }

    /// All columns of every row, as text.
    pub async fn table(&self, sql: &str) -> Result<Table, BoxError> {
        self.pool.table(sql).await
    }

    /// The first column of every row, as text.
    pub async fn rows(&self, sql: &str) -> Result<Vec<String>, BoxError> {
        let table = self.table(sql).await?;
        Ok(table.into_iter().map(|row| row.into_iter().next().flatten().unwrap_or_default()).collect())
    }

    /// The first value of the first row as a number.
    pub async fn count(&self, sql: &str) -> Result<i64, BoxError> {
        let rows = self.rows(sql).await?;
        Ok(rows.first().ok_or("no row")?.parse()?)
    }

    /// Like [`count`](DatabaseSnapshot::count); panics on an error.
    pub async fn number(&self, sql: &str) -> i64 {
        self.count(sql).await.unwrap()
    }

    /// Changes the database outside the program. Returns the number of changed rows, or the error.
    pub async fn try_change(&self, sql: &str) -> Result<u64, BoxError> {
        self.pool.change(sql).await
    }

    /// Changes the database outside the program. Returns the number of changed rows.
    pub async fn change(&self, sql: &str) -> u64 {
        self.try_change(sql).await.unwrap()
    }

    /// Descriptions of unfinished work: events in flight and unpaid orders. Empty when the program is idle.
    pub async fn unfinished_work(&self) -> Result<Vec<String>, BoxError> {
        // Query unpaid orders before events: if an order closes between the two queries, its event is still found.
        let unpaid = self.rows("SELECT id FROM orders WHERE status = 'pending'").await?;
        let mut unfinished_work = self.unsettled().await?;
        if let Some(first) = unpaid.first() {
            unfinished_work.push(format!("{} unpaid orders, such as {first}", unpaid.len()));
        }
        Ok(unfinished_work)
    }

    /// Descriptions of events in flight. Excludes unpaid orders and the delay queue, which wait for payment deadlines,
    /// and test queues (`test.`).
    async fn unsettled(&self) -> Result<Vec<String>, BoxError> {
        let mut unsettled = Vec::new();
        for (what, sql) in [
            (
                "events to publish",
                "SELECT event_type || ' ' || status FROM outbox_events WHERE status IN ('NEW', 'RETRY')",
            ),
            (
                "consume-log records without a final result",
                "SELECT consumer || ' ' || status FROM event_consume_log
                WHERE status NOT IN ('SUCCESS', 'DEAD')",
            ),
            (
                "messages queued",
                "SELECT queue FROM outbox_broker_messages WHERE queue NOT LIKE 'order.timeout.delay.queue%'
                AND queue NOT LIKE 'test.%'",
            ),
        ] {
            let rows = self.rows(sql).await?;
            if let Some(first) = rows.first() {
                unsettled.push(format!("{} {what}, such as {first}", rows.len()));
            }
        }
        if unsettled.is_empty() {
            // Messages in RabbitMQ are in no table, so find SENT events that a consumer has not processed.
            let undelivered =
                invariants::unsettled_deliveries("'SUCCESS', 'DEAD'") + " AND e.status = 'SENT'";
            let rows = self.rows(&undelivered).await?;
            unsettled
                .extend(rows.first().map(|first| format!("{} events to apply, such as {first}", rows.len())));
        }
        if let (Some(vhost), true) = (&self.vhost, unsettled.is_empty()) {
            for (queue, messages) in vhost.messages().await? {
                let stays =
                    ["order.timeout.delay.queue", "test."].iter().any(|stays| queue.starts_with(stays));
                if messages > 0 && !stays {
                    unsettled.push(format!("{messages} messages queued in {queue}"));
                }
            }
        }
        Ok(unsettled)
    }

    /// Waits until there is no unfinished work.
    pub async fn wait_until_idle(&self, within: Duration) {
        eventually(within, async || match self.unfinished_work().await? {
            unfinished_work if unfinished_work.is_empty() => Ok(()),
            unfinished_work => Err(unfinished_work.join("; ").into()),
        })
        .await;
    }

    /// Waits until no event is in flight.
    pub async fn wait_until_settled(&self, within: Duration) {
        eventually(within, async || match self.unsettled().await? {
            unsettled if unsettled.is_empty() => Ok(()),
            unsettled => Err(unsettled.join("; ").into()),
        })
        .await;
    }

    /// Violated invariants, each with the number of rows and the first row.
    pub async fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (invariant, sql) in invariants::invariants() {
            let rows = self.rows(&sql).await.unwrap_or_else(|error| panic!("{invariant}: {error}"));
            if let Some(first) = rows.first() {
                broken.push(format!("{invariant}: {} times, such as {first}", rows.len()));
            }
        }
        broken
    }

    /// Number of rows per table, for the test's output.
    pub async fn summary(&self) -> String {
        let mut parts = Vec::new();
        for table in [
            "orders",
            "outbox_events",
            "event_consume_log",
            "listing_changes",
            "shipments",
            "notifications",
            "buyer_credit_changes",
        ] {
            parts.push(format!("{} {table}", self.number(&format!("SELECT count(*) FROM {table}")).await));
        }
        parts.join(", ")
    }
}
