//! Tables full of what is over and done with, and a little that is not.

use handover_contract::samples::{consumption, dead_letter, event, later, start, to_failed, to_retry};
use handover_events::ConsumeStatus;
use handover_outbox::ports::{Store as _, StoreError};
use handover_tests::server_rigs::outside;
use handover_tests::servers::database::{ServerKind, TestDatabase};
use marketplace::ports::Work;
use marketplace_contract::samples::{deposit, hold, order, refund};
use marketplace_domain::Asset;
use marketplace_sql::SqlMarket;

/// The consumer whose log is filled.
pub(super) const CONSUMER: &str = "fulfillment";
/// The first of the orders about which there is something to do.
pub(super) const LIVE: i64 = 9_000_001;

const TABLES: &[&str] = &[
    "outbox_events",
    "outbox_history",
    "event_consume_log",
    "dead_letters",
    "orders",
    "refunds",
    "coupons",
    "asset_holds",
    "asset_balances",
    "asset_operations",
    "ledger_entries",
    "buyer_credit",
    "listing_changes",
    "shipments",
    "notifications",
    "buyer_credit_changes",
    "idempotency_keys",
    "payments",
];

/// Keeps the server from bringing its statistics up to date by itself.
pub(super) async fn keep_statistics(database: &TestDatabase) {
    if database.server().kind() == ServerKind::Postgres {
        for table in TABLES {
            outside(database, &format!("ALTER TABLE {table} SET (autovacuum_enabled = off)")).await.unwrap();
        }
    }
}

/// Brings the statistics up to date.
pub(super) async fn analyze(database: &TestDatabase) {
    for table in TABLES {
        let sql = match database.server().kind() {
            ServerKind::MariaDb => format!("ANALYZE TABLE {table}"),
            ServerKind::Postgres => format!("ANALYZE {table}"),
        };
        outside(database, &sql).await.unwrap();
    }
}

/// Rows in each table, made by the server itself: those numbered above `from`, up to `to`.
pub(super) async fn settled(database: &TestDatabase, from: u32, to: u32) {
    let first = from + 1;
    let numbers = match database.server().kind() {
        ServerKind::MariaDb => format!("seq_{first}_to_{to}"),
        ServerKind::Postgres => format!("generate_series({first}, {to}) AS seq"),
    };
    let day = "'2026-01-01'";
    for (into, values) in [
        (
            "outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, create_time, \
             update_time, sent_time)",
            format!("CONCAT('sent-', seq), 'BOOK_LENT', 'Book', seq, '{{}}', 'SENT', {day}, {day}, {day}"),
        ),
        (
            "outbox_history (tenant_id, event_id, kind, consumer, attempts, create_time)",
            format!("1, CONCAT('sent-', seq), 'DUPLICATE', '{CONSUMER}', 0, {day}"),
        ),
        (
            "event_consume_log (event_id, event_type, consumer, consume_time, status, attempts, cost_ms, payload_hash, \
             trace_id, tenant_id, aggregate_type, aggregate_id, aggregate_seq)",
            format!(
                "CONCAT('sent-', seq), 'BOOK_LENT', '{CONSUMER}', {day}, 'SUCCESS', 1, 1, '', '', 1, 'Book', seq, 0"
            ),
        ),
        (
            "dead_letters (queue, message_key, tenant_id, body, reason, died_at, status)",
            format!("'a.queue', CONCAT('sent-', seq), 1, '{{}}', '', {day}, 'DISCARDED'"),
        ),
        (
            "orders (id, order_no, tenant_id, product_id, buyer_id, seller_id, status, total_minor, payable_minor, \
             version, create_time, update_time)",
            format!("seq, 'O', 1, seq, 2, 1, 'completed', 1, 1, 4, {day}, {day}"),
        ),
        (
            "payments (id, tenant_id, order_id, amount_minor, currency, payment_method, status, refund_due, version, \
             create_time, update_time)",
            format!("seq, 1, seq, 1, 'CNY', 'card', 'SUCCESS', 0, 2, {day}, {day}"),
        ),
        (
            "refunds (id, tenant_id, order_id, payment_id, amount_minor, currency, cause, reason, status, attempts, \
             version, create_time, update_time)",
            format!("seq, 1, seq, seq, 1, 'CNY', 'buyer', '', 'SUCCESS', 1, 2, {day}, {day}"),
        ),
        (
            "coupons (id, tenant_id, user_id, discount_minor, min_spend_minor, expires_at, status, version, \
             create_time, update_time)",
            format!("seq, 1, 7, 1, 1, {day}, 'EXPIRED', 2, {day}, {day}"),
        ),
        (
            "asset_holds (tenant_id, order_id, asset, user_id, amount, status, reverted, version, create_time, \
             update_time)",
            format!("1, seq, 'wallet', 7, 1, 'COMMITTED', 0, 2, {day}, {day}"),
        ),
        (
            "asset_balances (tenant_id, user_id, purse, available, frozen, debt, version, update_time)",
            format!("1, seq, 'wallet', 1, 0, 0, 1, {day}"),
        ),
        (
            "asset_operations (tenant_id, idempotency_key, asset, kind, user_id, amount, create_time)",
            format!("1, CONCAT('k-', seq), 'wallet', 'DEPOSIT', 7, 1, {day}"),
        ),
        (
            "ledger_entries (tenant_id, idempotency_key, account, user_id, amount, create_time)",
            format!("1, CONCAT('k-', seq), 'wallet', 7, 1, {day}"),
        ),
        (
            "buyer_credit (tenant_id, buyer_id, completed, cancelled_by_buyer, cancelled_by_timeout, score, \
             last_event_id, update_time)",
            format!("1, seq, 0, 0, 0, 100, 'e', {day}"),
        ),
        (
            "listing_changes (tenant_id, seller_id, product_id, order_id, aggregate_seq, kind, event_id, create_time)",
            format!("1, 20, seq, seq, 1, 'OCCUPIED', CONCAT('sent-', seq), {day}"),
        ),
        (
            "shipments (tenant_id, order_id, seller_id, buyer_id, aggregate_seq, event_id, create_time)",
            format!("1, seq, 20, 10, 2, CONCAT('sent-', seq), {day}"),
        ),
        (
            "notifications (tenant_id, user_id, side, order_id, aggregate_seq, old_status, new_status, changed_at, \
             event_id, create_time)",
            format!("1, 10, 'buyer', seq, 3, 'paid', 'shipped', {day}, CONCAT('sent-', seq), {day}"),
        ),
        (
            "buyer_credit_changes (tenant_id, buyer_id, order_id, aggregate_seq, step, event_id, create_time)",
            format!("1, 10, seq, 4, 'CANCELLED_BY_BUYER', CONCAT('sent-', seq), {day}"),
        ),
        (
            "idempotency_keys (tenant_id, user_id, route, idempotency_key, body_hash, token, status, answer_status, \
             answer, trace_id, create_time, expire_time)",
            format!(
                "1, 10, 'POST', CONCAT('k-', seq), '', '', 'SUCCESS', 200, '{{}}', '', {day}, '2036-01-01'"
            ),
        ),
    ] {
        outside(database, &format!("INSERT INTO {into} SELECT {values} FROM {numbers}")).await.unwrap();
    }
}

/// Something for each statement to find.
pub(super) async fn live(store: &SqlMarket) {
    let mut unit = store.begin().await.unwrap();
    write_live(unit.as_mut()).await.unwrap();
    unit.commit().await.unwrap();
}

async fn write_live(unit: &mut Work) -> Result<(), StoreError> {
    let (due, waiting, given_up) =
        (event("due", LIVE, 1), event("waiting", LIVE + 1, 1), event("given-up", LIVE + 2, 1));
    unit.outbox().append(&[due.clone(), waiting, given_up, event("held", LIVE + 2, 2)]).await?;
    unit.outbox()
        .mark_failed(&[to_retry("waiting", Some(later(3_600))), to_failed("given-up")], later(1))
        .await?;
    let mut failed = consumption(CONSUMER, &due);
    failed.status = ConsumeStatus::Failed;
    failed.next_retry_time = Some(start());
    let mut dead = consumption(CONSUMER, &event("dead", LIVE, 2));
    dead.status = ConsumeStatus::Dead;
    unit.outbox().record(&[failed, dead]).await?;
    unit.outbox().park(&[dead_letter("a.queue", "dead")]).await?;
    unit.insert_order(&order(LIVE)).await?;
    unit.insert_refund(&refund(LIVE, LIVE)).await?;
    unit.put_holds(&[hold(LIVE, Asset::Wallet)]).await?;
    unit.post(&[deposit("live", 10, 500)]).await
}
