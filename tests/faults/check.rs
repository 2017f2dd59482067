//! The end check: what was acknowledged is there, every event took effect exactly once and in order, nothing is stuck.
//! Reads the database file behind the program's back, and counts effects where they are, not in the consume log.

use std::path::Path;
use std::time::Duration;

use handover_tests::process::Fault;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, Row};

use crate::api::Api;
use crate::ledger::{Ledger, Step};
use crate::{beside_others, eventually, fresh};

/// The database file.
pub(crate) struct Books {
    pool: SqlitePool,
}

/// Sentences that must be true of no row, and the rows that would break them.
const NEVER: [(&str, &str); 14] = [
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
        "an effect comes from no event",
        "SELECT event_id FROM listing_changes WHERE event_id NOT IN (SELECT event_id FROM outbox_events)
         UNION ALL SELECT event_id FROM shipments WHERE event_id NOT IN (SELECT event_id FROM outbox_events)",
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
    pub(crate) async fn open(database: &Path) -> Books {
        let options = SqliteConnectOptions::new().filename(database).busy_timeout(Duration::from_secs(5));
        let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
        Books { pool }
    }

    /// The pool, for what a test does to the file itself.
    pub(crate) fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// The first column of every row, as text.
    async fn rows(&self, sql: &str) -> Result<Vec<String>, Fault> {
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
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await.unwrap()
    }

    /// What is still on its way, each as a sentence; nothing when all is quiet.
    pub(crate) async fn unrest(&self) -> Result<Vec<String>, Fault> {
        let mut unrest = Vec::new();
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
            ("unpaid", "SELECT id FROM orders WHERE status = 'pending'"),
        ] {
            let rows = self.rows(sql).await?;
            if let Some(first) = rows.first() {
                unrest.push(format!("{} {what}, such as {first}", rows.len()));
            }
        }
        Ok(unrest)
    }

    /// Waits until nothing is on its way.
    pub(crate) async fn wait_until_quiet(&self, within: Duration) {
        eventually(within, async || match self.unrest().await? {
            unrest if unrest.is_empty() => Ok(()),
            unrest => Err(unrest.join("; ").into()),
        })
        .await;
    }

    /// The sentences that some row breaks, each with how many do and the first.
    async fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (sentence, sql) in NEVER {
            let rows = self.rows(sql).await.unwrap();
            if let Some(first) = rows.first() {
                broken.push(format!("{sentence}: {} times, such as {first}", rows.len()));
            }
        }
        broken
    }

    /// Everything that must hold at the end.
    pub(crate) async fn balance(&self, ledger: &Ledger) {
        let broken = self.broken().await;
        assert!(broken.is_empty(), "{broken:#?}");
        for product in ledger.products() {
            let found = self.number(&format!("SELECT count(*) FROM products WHERE id = {product}")).await;
            assert_eq!(found, 1, "product {product} was acknowledged and is gone");
        }
        for (order, step) in ledger.orders() {
            self.kept(order, step).await;
        }
    }

    /// Holds an order to the last step that was acknowledged.
    async fn kept(&self, order: i64, step: Step) {
        let row = sqlx::query(
            "SELECT status, (SELECT max(refund_due) FROM payments p WHERE p.order_id = o.id AND p.status = 'SUCCESS')
             FROM orders o WHERE id = ?",
        )
        .bind(order)
        .fetch_optional(&self.pool)
        .await
        .unwrap()
        .unwrap_or_else(|| panic!("order {order} was acknowledged ({step:?}) and is gone"));
        let (status, refund_due): (String, Option<i64>) = (row.get(0), row.get(1));
        let kept = match step {
            Step::Placed => status != "pending",
            // Too late is recorded too: the order is closed and the money is owed back.
            Step::PaymentReported => match status.as_str() {
                "cancelled" => refund_due == Some(1),
                other => ["paid", "shipped", "completed"].contains(&other) && refund_due == Some(0),
            },
            Step::Shipped => ["shipped", "completed"].contains(&status.as_str()),
            Step::Completed => status == "completed",
            Step::Cancelled => status == "cancelled",
        };
        assert!(
            kept,
            "order {order} was acknowledged as {step:?} and is {status} (refund due: {refund_due:?})"
        );
    }

    /// For a person: what the database holds.
    pub(crate) async fn summary(&self) -> String {
        let mut parts = Vec::new();
        for table in ["orders", "outbox_events", "event_consume_log", "listing_changes", "shipments"] {
            parts.push(format!("{} {table}", self.number(&format!("SELECT count(*) FROM {table}")).await));
        }
        parts.join(", ")
    }
}

/// What would be wrong, and the start of the sentence that must notice.
const PLANTED: [(&str, &str); 11] = [
    ("UPDATE outbox_events SET event_type = 'ORDER_REFUNDED' WHERE event_type = 'ORDER_CREATED'", "an order has no ORDER_CREATED"),
    ("DELETE FROM outbox_events WHERE event_type = 'ORDER_TIMEOUT'", "an order has no ORDER_TIMEOUT"),
    ("DELETE FROM outbox_events WHERE event_type = 'ORDER_PAID'", "an order was paid without"),
    ("UPDATE orders SET status = 'cancelled' WHERE status = 'paid'", "a product is sold without"),
    ("UPDATE products SET status = 'on_sale'", "a product with a live order is not sold"),
    ("INSERT INTO listing_changes SELECT id + 100, tenant_id, seller_id, product_id, order_id, aggregate_seq, kind,
        event_id, create_time FROM listing_changes", "an event about the listing took effect not exactly once"),
    ("DELETE FROM listing_changes", "an event about the listing took effect not exactly once"),
    ("INSERT INTO shipments SELECT id + 100, tenant_id, order_id, seller_id, buyer_id, aggregate_seq, event_id,
        create_time FROM shipments", "an ORDER_PAID opened not exactly one shipment"),
    ("UPDATE shipments SET event_id = 'nobody'", "an effect comes from no event"),
    ("UPDATE listing_changes SET aggregate_seq = 9 - aggregate_seq", "the effects of an order are out of order"),
    ("UPDATE event_consume_log SET status = 'FAILED' WHERE consumer = 'webhooks' AND event_type = 'ORDER_PAID'
        AND event_id IN (SELECT min(event_id) FROM event_consume_log WHERE event_type = 'ORDER_PAID')",
        "a subscribed consumer has not settled"),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_end_check_finds_what_is_planted() {
    let _turn = beside_others().await;
    let (folder, launch) = fresh();
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    for fate in ["paid", "cancelled"] {
        let product = api.list_product(1, fate).await.unwrap().id("productId");
        let order = api.place_order(2, product).await.unwrap().id("orderId");
        if fate == "paid" {
            let payment = api.start_payment(2, order).await.unwrap().id("paymentId");
            assert!(api.payment_succeeded(payment).await.unwrap().done());
        } else {
            assert!(api.cancel(2, order).await.unwrap().done());
        }
    }
    Books::open(&launch.database()).await.wait_until_quiet(Duration::from_secs(10)).await;
    // Closed, so that all of it is in the one file.
    server.terminate(Duration::from_secs(10)).unwrap();
    for (n, (fault, sentence)) in PLANTED.into_iter().enumerate() {
        let copy = folder.path().join(format!("planted-{n}.db"));
        std::fs::copy(launch.database(), &copy).unwrap();
        let books = Books::open(&copy).await;
        assert_eq!(books.broken().await, Vec::<String>::new());
        let changed = sqlx::query(fault).execute(books.pool()).await.unwrap().rows_affected();
        assert!(changed > 0, "{fault}");
        let broken = books.broken().await;
        assert!(broken.iter().any(|found| found.starts_with(sentence)), "{fault}: {broken:#?}");
    }
}
