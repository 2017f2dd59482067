//! The database file behind the program's back: what is still on its way, and whether every event took effect exactly
//! once and in order. Effects are counted where they are, not in the consume log.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Row};

use crate::process::{Fault, eventually};

/// The database file.
pub struct Books {
    pool: SqlitePool,
}

/// Sentences that must be true of no row, and the rows that would break them.
const NEVER: [(&str, &str); 19] = [
    (
        "a product has more than one live order",
        "SELECT product_id FROM orders WHERE status NOT IN ('cancelled', 'refunded')
         GROUP BY product_id HAVING count(*) > 1",
    ),
    (
        "a product is sold without a live order",
        "SELECT p.id FROM products p WHERE p.status = 'sold' AND NOT EXISTS (
            SELECT 1 FROM orders o WHERE o.product_id = p.id AND o.status NOT IN ('cancelled', 'refunded'))",
    ),
    (
        "a product with a live order is not sold",
        "SELECT p.id FROM products p JOIN orders o ON o.product_id = p.id
         WHERE o.status NOT IN ('cancelled', 'refunded') AND p.status <> 'sold'",
    ),
    (
        "an order has no ORDER_CREATED, or more than one",
        "SELECT o.id FROM orders o WHERE 1 <> (SELECT count(*) FROM outbox_events e
            WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id AND e.event_type = 'ORDER_CREATED')",
    ),
    (
        "an order has no ORDER_TIMEOUT, or more than one",
        "SELECT o.id FROM orders o WHERE 1 <> (SELECT count(*) FROM outbox_events e
            WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id AND e.event_type = 'ORDER_TIMEOUT')",
    ),
    (
        "an order was paid without exactly one ORDER_PAID, or has one unpaid",
        "SELECT o.id FROM orders o WHERE (o.pay_time IS NOT NULL) <> (SELECT count(*) FROM outbox_events e
            WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id AND e.event_type = 'ORDER_PAID')",
    ),
    (
        "an order was cancelled without exactly one ORDER_CANCELLED, or has one uncancelled",
        "SELECT o.id FROM orders o WHERE (o.status = 'cancelled') <> (SELECT count(*) FROM outbox_events e
            WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id AND e.event_type = 'ORDER_CANCELLED')",
    ),
    (
        "an order's shipping and completion are not announced once each",
        "SELECT o.id FROM orders o WHERE (o.status = 'shipped') + 2 * (o.status = 'completed') <> (
            SELECT count(*) FROM outbox_events e WHERE e.aggregate_type = 'Order' AND e.aggregate_id = o.id
            AND e.event_type = 'ORDER_STATUS_CHANGED')",
    ),
    (
        "an event about the listing took effect not exactly once",
        "SELECT e.event_id FROM outbox_events e WHERE e.event_type IN ('ORDER_CREATED', 'ORDER_CANCELLED')
         AND 1 <> (SELECT count(*) FROM listing_changes c WHERE c.event_id = e.event_id)",
    ),
    (
        "an ORDER_PAID opened not exactly one shipment",
        "SELECT e.event_id FROM outbox_events e WHERE e.event_type = 'ORDER_PAID'
         AND 1 <> (SELECT count(*) FROM shipments s WHERE s.event_id = e.event_id)",
    ),
    (
        "a changed status was not told to buyer and seller once each",
        "SELECT e.event_id FROM outbox_events e, (SELECT 'buyer' AS side UNION ALL SELECT 'seller') s
         WHERE e.event_type = 'ORDER_STATUS_CHANGED' AND 1 <> (
            SELECT count(*) FROM notifications n JOIN orders o ON o.id = n.order_id WHERE n.event_id = e.event_id
            AND n.side = s.side AND n.user_id = CASE s.side WHEN 'buyer' THEN o.buyer_id ELSE o.seller_id END)",
    ),
    (
        "an order that counts for its buyer was counted not exactly once",
        "SELECT o.id FROM orders o
         WHERE (SELECT count(*) FROM buyer_credit_changes c WHERE c.order_id = o.id AND c.buyer_id = o.buyer_id
            AND c.step = CASE WHEN o.status = 'completed' THEN 'COMPLETED'
                WHEN o.cancel_reason = 'buyer' THEN 'CANCELLED_BY_BUYER' ELSE 'CANCELLED_BY_TIMEOUT' END)
         <> (o.status = 'completed' OR coalesce(o.cancel_reason IN ('buyer', 'timeout'), 0))",
    ),
    (
        "an order was counted as what it is not",
        "SELECT c.event_id FROM buyer_credit_changes c JOIN orders o ON o.id = c.order_id WHERE c.step <>
            CASE WHEN o.status = 'completed' THEN 'COMPLETED' WHEN o.cancel_reason = 'buyer'
            THEN 'CANCELLED_BY_BUYER' WHEN o.cancel_reason = 'timeout' THEN 'CANCELLED_BY_TIMEOUT' ELSE '' END",
    ),
    (
        "a buyer's credit is not the sum of its changes",
        "SELECT c.buyer_id FROM (
            SELECT tenant_id, buyer_id, sum(step = 'COMPLETED') AS done, sum(step = 'CANCELLED_BY_BUYER') AS own,
            sum(step = 'CANCELLED_BY_TIMEOUT') AS late FROM buyer_credit_changes GROUP BY tenant_id, buyer_id) c
         LEFT JOIN buyer_credit b ON b.tenant_id = c.tenant_id AND b.buyer_id = c.buyer_id
         WHERE (b.completed, b.cancelled_by_buyer, b.cancelled_by_timeout, b.score)
            IS NOT (c.done, c.own, c.late, max(0, min(120, 100 + c.done - 2 * c.own - 5 * c.late)))",
    ),
    (
        "an effect comes from no event",
        "SELECT event_id FROM (SELECT event_id FROM listing_changes UNION ALL SELECT event_id FROM shipments
            UNION ALL SELECT event_id FROM notifications UNION ALL SELECT event_id FROM buyer_credit_changes)
         WHERE event_id NOT IN (SELECT event_id FROM outbox_events)",
    ),
    (
        "the notifications of an order are out of order",
        "SELECT later.event_id FROM notifications later JOIN notifications earlier
         ON earlier.tenant_id = later.tenant_id AND earlier.order_id = later.order_id AND earlier.side = later.side
         AND earlier.id < later.id WHERE earlier.aggregate_seq >= later.aggregate_seq",
    ),
    (
        "the effects of an order are out of order",
        "SELECT later.event_id FROM listing_changes later JOIN listing_changes earlier
         ON earlier.tenant_id = later.tenant_id AND earlier.order_id = later.order_id AND earlier.id < later.id
         WHERE earlier.aggregate_seq >= later.aggregate_seq",
    ),
    (
        "a subscribed consumer has not settled an event it takes",
        "SELECT e.event_id FROM outbox_events e JOIN consumer_subscriptions s WHERE e.create_time >= s.since
         AND (s.consumer, e.event_type) IN (
            SELECT consumer, event_type FROM event_consume_log GROUP BY consumer, event_type)
         AND NOT EXISTS (SELECT 1 FROM event_consume_log l
            WHERE l.consumer = s.consumer AND l.event_id = e.event_id AND l.status = 'SUCCESS')
         AND e.event_type <> 'ORDER_TIMEOUT'",
    ),
    ("a dead letter nobody can explain", "SELECT message_key || ': ' || reason FROM dead_letters"),
];

impl Books {
    /// Opens the file for reading.
    pub async fn open(database: &Path) -> Books {
        let options = SqliteConnectOptions::new().filename(database).busy_timeout(Duration::from_secs(5));
        let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
        Books { pool }
    }

    /// The pool, for what a test does to the file itself.
    pub fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// The first column of every row, as text.
    pub async fn rows(&self, sql: &str) -> Result<Vec<String>, Fault> {
        let rows = sqlx::query(AssertSqlSafe(format!(
            "SELECT CAST(x AS TEXT) FROM (SELECT NULL AS x WHERE 0 UNION ALL SELECT * FROM ({sql}))"
        )))
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .iter()
            .map(|row| row.try_get::<Option<String>, _>(0).map(Option::unwrap_or_default))
            .collect::<Result<_, _>>()?)
    }

    /// A number.
    pub async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await.unwrap()
    }

    /// Changes the file behind the program's back; tells how many rows.
    pub async fn change(&self, sql: &str) -> u64 {
        sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.unwrap().rows_affected()
    }

    /// What is still on its way, each as a sentence; nothing when all is quiet.
    pub async fn unrest(&self) -> Result<Vec<String>, Fault> {
        let mut unrest = self.unsettled().await?;
        let unpaid = self.rows("SELECT id FROM orders WHERE status = 'pending'").await?;
        if let Some(first) = unpaid.first() {
            unrest.push(format!("{} unpaid, such as {first}", unpaid.len()));
        }
        Ok(unrest)
    }

    /// Which events are still on their way, each kind as a sentence. Unpaid orders may wait for their deadline.
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
            ("queued", "SELECT queue FROM broker_messages WHERE queue NOT LIKE 'order.timeout.delay.queue%'"),
        ] {
            let rows = self.rows(sql).await?;
            if let Some(first) = rows.first() {
                unsettled.push(format!("{} {what}, such as {first}", rows.len()));
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
        for (sentence, sql) in NEVER {
            let rows = self.rows(sql).await.unwrap();
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
