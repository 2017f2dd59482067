//! The database behind the program's back: what is still on its way, and whether every event took effect exactly once
//! and in order. Effects are counted where they are, not in the consume log.
//!
//! The same statements on every engine. `||` joins texts on all of them: sqlx tells MariaDB so.

mod never;
mod pool;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use sqlx::sqlite::SqlitePool;

use crate::process::{Fault, eventually};
use crate::servers::rabbitmq::TestVhost;
use pool::Pool;
pub use pool::Table;

/// A time as any engine writes it, in UTC.
#[track_caller]
pub fn moment(text: &str) -> DateTime<Utc> {
    let plain = text.replace('T', " ");
    let plain = plain.trim_end_matches("+00").trim_end_matches('Z');
    NaiveDateTime::parse_from_str(plain, "%Y-%m-%d %H:%M:%S%.f")
        .unwrap_or_else(|error| panic!("{text} is no time: {error}"))
        .and_utc()
}

/// A database, and where messages wait beside it.
#[derive(Debug, Clone)]
pub struct Books {
    pool: Pool,
    vhost: Option<Arc<TestVhost>>,
}

impl Books {
    /// Opens a file.
    pub async fn open(database: &Path) -> Books {
        Books { pool: Pool::open(database).await.unwrap(), vhost: None }
    }

    /// Opens a database on a server, by its URL.
    pub fn on(url: &str) -> Books {
        Books { pool: Pool::on(url).unwrap(), vhost: None }
    }

    /// The same books; nothing is quiet before the queues of this vhost are empty.
    #[must_use]
    pub fn beside(self, vhost: Arc<TestVhost>) -> Books {
        Books { vhost: Some(vhost), ..self }
    }

    /// The same database over a single connection: what is changed between `BEGIN` and `ROLLBACK` is seen and undone.
    #[must_use]
    pub fn on_one_connection(&self) -> Books {
        Books { pool: self.pool.on_one_connection(), vhost: None }
    }

    /// The pool, for what a test does to the file itself.
    #[track_caller]
    pub fn pool(&self) -> &SqlitePool {
        match &self.pool {
            Pool::Sqlite(pool) => pool,
            other @ (Pool::MySql(_) | Pool::Postgres(_)) => panic!("no file but {other:?}"),
        }
    }

    /// All columns of every row, as text.
    pub async fn table(&self, sql: &str) -> Result<Table, Fault> {
        self.pool.table(sql).await
    }

    /// The first column of every row, as text.
    pub async fn rows(&self, sql: &str) -> Result<Vec<String>, Fault> {
        let table = self.table(sql).await?;
        Ok(table.into_iter().map(|row| row.into_iter().next().flatten().unwrap_or_default()).collect())
    }

    /// A number, if the database answers.
    pub async fn count(&self, sql: &str) -> Result<i64, Fault> {
        let rows = self.rows(sql).await?;
        Ok(rows.first().ok_or("no row")?.parse()?)
    }

    /// A number.
    pub async fn number(&self, sql: &str) -> i64 {
        self.count(sql).await.unwrap()
    }

    /// Changes the database behind the program's back; tells how many rows, or why it was refused.
    pub async fn try_change(&self, sql: &str) -> Result<u64, Fault> {
        self.pool.change(sql).await
    }

    /// Changes the database behind the program's back; tells how many rows.
    pub async fn change(&self, sql: &str) -> u64 {
        self.try_change(sql).await.unwrap()
    }

    /// What is still on its way, each as a sentence; nothing when all is quiet.
    pub async fn unrest(&self) -> Result<Vec<String>, Fault> {
        // Asked first: an order that is closed in between leaves an event that is on its way.
        let unpaid = self.rows("SELECT id FROM orders WHERE status = 'pending'").await?;
        let mut unrest = self.unsettled().await?;
        if let Some(first) = unpaid.first() {
            unrest.push(format!("{} unpaid, such as {first}", unpaid.len()));
        }
        Ok(unrest)
    }

    /// Which events are still on their way, each kind as a sentence. Unpaid orders may wait for their deadline, and
    /// queues of tests (`test.`) may be full.
    async fn unsettled(&self) -> Result<Vec<String>, Fault> {
        let mut unsettled = Vec::new();
        for (what, sql) in [
            (
                "to publish",
                "SELECT event_type || ' ' || status FROM outbox_events WHERE status IN ('NEW', 'RETRY')",
            ),
            (
                "to settle",
                "SELECT consumer || ' ' || status FROM event_consume_log
                WHERE status NOT IN ('SUCCESS', 'DEAD')",
            ),
            (
                "queued",
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
            // A message that RabbitMQ holds is in no table.
            let undelivered = never::takers_without("'SUCCESS', 'DEAD'") + " AND e.status = 'SENT'";
            let rows = self.rows(&undelivered).await?;
            unsettled.extend(rows.first().map(|first| format!("{} to apply, such as {first}", rows.len())));
        }
        if let (Some(vhost), true) = (&self.vhost, unsettled.is_empty()) {
            for (queue, messages) in vhost.messages().await? {
                let stays =
                    ["order.timeout.delay.queue", "test."].iter().any(|stays| queue.starts_with(stays));
                if messages > 0 && !stays {
                    unsettled.push(format!("{messages} queued in {queue}"));
                }
            }
        }
        Ok(unsettled)
    }

    /// Waits until nothing is on its way.
    pub async fn wait_until_quiet(&self, within: Duration) {
        eventually(within, async || match self.unrest().await? {
            unrest if unrest.is_empty() => Ok(()),
            unrest => Err(unrest.join("; ").into()),
        })
        .await;
    }

    /// Waits until no event is on its way.
    pub async fn wait_until_settled(&self, within: Duration) {
        eventually(within, async || match self.unsettled().await? {
            unsettled if unsettled.is_empty() => Ok(()),
            unsettled => Err(unsettled.join("; ").into()),
        })
        .await;
    }

    /// The sentences that some row breaks, each with how many do and the first.
    pub async fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (sentence, sql) in never::sentences() {
            let rows = self.rows(&sql).await.unwrap_or_else(|error| panic!("{sentence}: {error}"));
            if let Some(first) = rows.first() {
                broken.push(format!("{sentence}: {} times, such as {first}", rows.len()));
            }
        }
        broken
    }

    /// For a person: what the database holds.
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
