//! Lists, fills, empties and drops the tables of a run.

use super::connection::{Connection, Engine};
use super::error::BaselineError;

/// Tables that measurements insert into.
const FILLED: [&str; 12] = [
    "products",
    "orders",
    "idempotency_keys",
    "outbox_events",
    "event_consume_log",
    "shipments",
    "listings",
    "listing_changes",
    "outbox_broker_messages",
    "webhook_endpoints",
    "webhook_deliveries",
    "webhook_attempts",
];

/// Ten rows with the column `d`, in the SQL of every engine.
const DIGITS: &str = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 \
    UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
/// Number of rows that [`numbers`] generates.
const NUMBERS: u32 = 100_000;
const SELLERS: u32 = 1_000;

/// A subquery of 100,000 rows with the column `n`, counting from 0: the database itself generates the rows.
fn numbers() -> String {
    let tables = ["a", "b", "c", "e", "f"].map(|name| format!("{DIGITS} {name}")).join(" CROSS JOIN ");
    format!("(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n FROM {tables}) numbers")
}

/// A literal for a fixed past time plus this number of seconds, in the format that the engine stores.
fn past_time(engine: Engine, seconds: u64) -> String {
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    match engine {
        Engine::MySql => format!("'2026-01-01 {hour:02}:{minute:02}:{second:02}.000000'"),
        Engine::Sqlite | Engine::Postgres => {
            format!("'2026-01-01T{hour:02}:{minute:02}:{second:02}.000000Z'")
        }
    }
}

/// Version of a database, and the settings that decide when a commit is durable.
pub(crate) struct Description {
    pub(crate) database: String,
    pub(crate) durability: String,
}

impl Connection {
    pub(crate) async fn tables(&mut self) -> Result<Vec<String>, BaselineError> {
        let sql = match self.engine() {
            Engine::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table'",
            Engine::MySql => {
                "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() \
                 AND table_type = 'BASE TABLE'"
            }
            Engine::Postgres => "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()",
        };
        self.texts(sql).await
    }

    /// Drops all tables on a server, and the trigger function (PostgreSQL) or the view (MySQL, MariaDB) of the audit log. Does
    /// nothing on SQLite, where the whole file is removed.
    pub(crate) async fn drop_tables(&mut self) -> Result<(), BaselineError> {
        let tables = self.tables().await?.join(", ");
        let sql = match self.engine() {
            Engine::Sqlite => return Ok(()),
            Engine::MySql | Engine::Postgres if tables.is_empty() => return Ok(()),
            Engine::MySql => format!(
                "SET FOREIGN_KEY_CHECKS = 0; DROP VIEW IF EXISTS outbox_old_audit_reads; DROP TABLE {tables}"
            ),
            Engine::Postgres => {
                format!("DROP TABLE {tables} CASCADE; DROP FUNCTION IF EXISTS outbox_audit_log_refuses()")
            }
        };
        self.execute(&sql).await.map(drop)
    }

    /// Empties the tables that measurements fill.
    pub(crate) async fn empty_tables(&mut self) -> Result<(), BaselineError> {
        let sql = match self.engine() {
            Engine::Sqlite => FILLED.map(|table| format!("DELETE FROM {table}")).join("; "),
            Engine::MySql => FILLED.map(|table| format!("TRUNCATE TABLE {table}")).join("; "),
            Engine::Postgres => format!("TRUNCATE {}", FILLED.join(", ")),
        };
        self.execute(&sql).await.map(drop)
    }

    /// Empties the queues of the database broker.
    pub(crate) async fn empty_messages(&mut self) -> Result<(), BaselineError> {
        self.empty("outbox_broker_messages").await
    }

    pub(crate) async fn empty_outbox(&mut self) -> Result<(), BaselineError> {
        self.empty("outbox_events").await
    }

    async fn empty(&mut self, table: &str) -> Result<(), BaselineError> {
        let sql = match self.engine() {
            Engine::Sqlite => format!("DELETE FROM {table}"),
            Engine::MySql | Engine::Postgres => format!("TRUNCATE TABLE {table}"),
        };
        self.execute(&sql).await.map(drop)
    }

    /// Updates statistics and, on PostgreSQL, the visibility map, as autovacuum would do later.
    pub(crate) async fn analyze_tables(&mut self) -> Result<(), BaselineError> {
        let sql = match self.engine() {
            // Nothing to update: the statements of the service name their indexes, so SQLite needs no statistics.
            Engine::Sqlite => return Ok(()),
            Engine::MySql => "ANALYZE TABLE outbox_events, products, event_consume_log, webhook_deliveries",
            Engine::Postgres => {
                "VACUUM ANALYZE outbox_events, products, event_consume_log, webhook_deliveries"
            }
        };
        self.execute(sql).await.map(drop)
    }

    pub(crate) async fn describe(&mut self) -> Result<Description, BaselineError> {
        let (version, durability) = match self.engine() {
            Engine::Sqlite => {
                ("SELECT concat('SQLite ', sqlite_version())", "SELECT 'WAL, synchronous FULL'")
            }
            Engine::MySql => (
                "SELECT concat(IF(version() LIKE '%MariaDB%', '', 'MySQL '), version())",
                "SELECT concat('innodb_flush_log_at_trx_commit ', @@innodb_flush_log_at_trx_commit, ', log_bin ', \
                 @@log_bin, ', sync_binlog ', @@sync_binlog)",
            ),
            Engine::Postgres => (
                "SELECT concat('PostgreSQL ', current_setting('server_version'))",
                "SELECT concat('fsync ', current_setting('fsync'), ', synchronous_commit ', \
                 current_setting('synchronous_commit'))",
            ),
        };
        let database = self.texts(version).await?.pop().unwrap_or_default();
        let durability = self.texts(durability).await?.pop().unwrap_or_default();
        Ok(Description { database, durability })
    }

    /// Inserts products on sale with the ids 1 to `count`.
    pub(crate) async fn list_products(&mut self, count: u32) -> Result<(), BaselineError> {
        let at = past_time(self.engine(), 0);
        let mut first = 0;
        while first < count {
            let sql = format!(
                "INSERT INTO products (id, tenant_id, seller_id, title, price_minor, status, version, create_time, \
                 update_time) SELECT {first} + n + 1, 1, 1 + (n % {SELLERS}), \
                 concat('desk lamp no. ', {first} + n, ', hardly used'), 1000 + n, 'on_sale', 1, {at}, {at} \
                 FROM {} WHERE {first} + n < {count}",
                numbers(),
            );
            self.execute(&sql).await?;
            first = first.saturating_add(NUMBERS);
        }
        Ok(())
    }

    /// Inserts up to 100,000 SENT rows into the outbox: the rows with numbers from `first` to `end` - 1. Returns the
    /// number of the next row.
    pub(crate) async fn add_sent_rows(&mut self, first: u64, end: u64) -> Result<u64, BaselineError> {
        let at = past_time(self.engine(), first / u64::from(NUMBERS));
        let sql = format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, \
             create_time, update_time, tenant_id, aggregate_seq, metadata, sent_time) \
             SELECT concat('01930000-0000-7000-8000-', 100000000000 + {first} + n), 'ORDER_CREATED', 'Order', \
             1000000000 + {first} + n, concat('{{\"orderId\":', 1000000000 + {first} + n, \
             ',\"orderNo\":\"202601010000000000000000\",\"buyerId\":1000001,\"sellerId\":2,\"totalAmount\":88.50,\
             \"productId\":1,\"quantity\":1,\"price\":88.50}}'), 'SENT', {at}, {at}, 1, 1, \
             '{{\"traceId\":\"bench-0000000000000000\",\"userId\":1000001}}', {at} FROM {} WHERE {first} + n < {end}",
            numbers(),
        );
        self.execute(&sql).await?;
        Ok(end.min(first.saturating_add(u64::from(NUMBERS))))
    }

    /// Whether the outbox has a row in NEW or RETRY.
    pub(crate) async fn has_pending(&mut self) -> Result<bool, BaselineError> {
        let sql = "SELECT count(*) FROM (SELECT id FROM outbox_events WHERE status IN ('NEW', 'RETRY') LIMIT 1) pending";
        Ok(self.number(sql).await? > 0)
    }

    /// Whether a delivery to an endpoint of webhooks is pending.
    pub(crate) async fn has_pending_deliveries(&mut self) -> Result<bool, BaselineError> {
        let sql = "SELECT count(*) FROM webhook_deliveries WHERE state = 'PENDING'";
        Ok(self.number(sql).await? > 0)
    }

    /// Ids of the ORDER_CREATED events in the outbox, each with the id of its order.
    pub(crate) async fn created_events(&mut self) -> Result<Vec<(String, i64)>, BaselineError> {
        let sql = "SELECT concat(event_id, ' ', aggregate_id) FROM outbox_events \
                   WHERE event_type = 'ORDER_CREATED'";
        let pair = |row: String| {
            let (event, order) = row.split_once(' ')?;
            Some((event.to_owned(), order.parse().ok()?))
        };
        Ok(self.texts(sql).await?.into_iter().filter_map(pair).collect())
    }

    /// Creates an empty copy of the outbox. Returns false on SQLite, where two tables cannot have indexes of the same
    /// name.
    pub(crate) async fn copy_outbox(&mut self) -> Result<bool, BaselineError> {
        match self.engine() {
            Engine::Sqlite => return Ok(false),
            Engine::MySql => {
                self.execute("CREATE TABLE outbox_copy LIKE outbox_events").await?;
            }
            Engine::Postgres => {
                self.execute("CREATE TABLE outbox_copy (LIKE outbox_events INCLUDING ALL)").await?;
                let options = "SELECT array_to_string(reloptions, ', ') FROM pg_class \
                               WHERE oid = 'outbox_events'::regclass AND reloptions IS NOT NULL";
                for options in self.texts(options).await? {
                    self.execute(&format!("ALTER TABLE outbox_copy SET ({options})")).await?;
                }
            }
        }
        Ok(true)
    }

    /// Swaps the names of the outbox and its copy.
    pub(crate) async fn swap_outboxes(&mut self) -> Result<(), BaselineError> {
        let sql = match self.engine() {
            Engine::Sqlite => return Ok(()),
            Engine::MySql => {
                "RENAME TABLE outbox_events TO outbox_swap, outbox_copy TO outbox_events, outbox_swap TO outbox_copy"
            }
            Engine::Postgres => {
                "ALTER TABLE outbox_events RENAME TO outbox_swap; ALTER TABLE outbox_copy RENAME TO outbox_events; \
                 ALTER TABLE outbox_swap RENAME TO outbox_copy"
            }
        };
        self.execute(sql).await.map(drop)
    }

    pub(crate) async fn drop_outbox_copy(&mut self) -> Result<(), BaselineError> {
        self.execute("DROP TABLE IF EXISTS outbox_copy").await.map(drop)
    }
}
