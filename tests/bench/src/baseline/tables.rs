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

/// Tables that grow with each event that was published and applied.
const GROWING: [&str; 2] = ["outbox_events", "event_consume_log"];

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

    /// Empties the tables that grow with each settled event.
    pub(crate) async fn empty_growing(&mut self) -> Result<(), BaselineError> {
        for table in GROWING {
            self.empty(table).await?;
        }
        Ok(())
    }

    /// Removes the orders of a backlog and their effects, so that the same orders can be inserted again.
    pub(crate) async fn empty_orders(&mut self) -> Result<(), BaselineError> {
        self.empty("orders").await?;
        self.empty("shipments").await
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

    /// Inserts up to 100,000 settled events, those with the numbers from `first` to `end` - 1: a SENT row and a consume-log
    /// record each. Returns the number of the next one.
    pub(crate) async fn add_settled_events(&mut self, first: u64, end: u64) -> Result<u64, BaselineError> {
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
        let sql = format!(
            "INSERT INTO event_consume_log (event_id, event_type, consumer, consume_time, status, attempts, cost_ms, \
             consume_result, payload_hash, trace_id, aggregate_seq, tenant_id, aggregate_type, aggregate_id) \
             SELECT concat('01930000-0000-7000-8000-', 100000000000 + {first} + n), 'ORDER_CREATED', 'fulfillment', {at}, \
             'SUCCESS', 1, 0, 'done', '', 'bench-0000000000000000', 1, 1, 'Order', 1000000000 + {first} + n \
             FROM {} WHERE {first} + n < {end}",
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

    /// Creates an empty copy of each table that grows with the settled events. Returns false on SQLite, where two tables cannot
    /// have indexes of the same name.
    pub(crate) async fn copy_growing(&mut self) -> Result<bool, BaselineError> {
        for table in GROWING {
            match self.engine() {
                Engine::Sqlite => return Ok(false),
                Engine::MySql => {
                    self.execute(&format!("CREATE TABLE {table}_copy LIKE {table}")).await?;
                }
                Engine::Postgres => {
                    self.execute(&format!("CREATE TABLE {table}_copy (LIKE {table} INCLUDING ALL)")).await?;
                    let options = format!(
                        "SELECT array_to_string(reloptions, ', ') FROM pg_class \
                         WHERE oid = '{table}'::regclass AND reloptions IS NOT NULL"
                    );
                    for options in self.texts(&options).await? {
                        self.execute(&format!("ALTER TABLE {table}_copy SET ({options})")).await?;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Swaps the names of these tables and their copies.
    pub(crate) async fn swap_growing(&mut self) -> Result<(), BaselineError> {
        for table in GROWING {
            let sql = match self.engine() {
                Engine::Sqlite => return Ok(()),
                Engine::MySql => format!(
                    "RENAME TABLE {table} TO {table}_swap, {table}_copy TO {table}, {table}_swap TO {table}_copy"
                ),
                Engine::Postgres => format!(
                    "ALTER TABLE {table} RENAME TO {table}_swap; ALTER TABLE {table}_copy RENAME TO {table}; \
                     ALTER TABLE {table}_swap RENAME TO {table}_copy"
                ),
            };
            self.execute(&sql).await?;
        }
        Ok(())
    }

    pub(crate) async fn drop_copies(&mut self) -> Result<(), BaselineError> {
        for table in GROWING {
            self.execute(&format!("DROP TABLE IF EXISTS {table}_copy")).await?;
        }
        Ok(())
    }
}
