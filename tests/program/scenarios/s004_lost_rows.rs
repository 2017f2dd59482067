//! Rows deleted or duplicated by SQL: reconciliation finds all of them and repairs lost events, consume-log records,
//! asset operations and holds. No effect is applied twice.

use handover_tests::deployment::Pair;
use handover_tests::servers::database::ServerKind;
use serde_json::{Value, json};

use super::purses::With;
use super::shop::{BUYER, Shop};

/// Queries whose results must not change.
const EFFECTS: [&str; 9] = [
    "SELECT count(*) FROM listing_changes",
    "SELECT count(*) FROM shipments",
    "SELECT count(*) FROM notifications",
    "SELECT count(*) FROM buyer_credit_changes",
    "SELECT count(*) FROM asset_operations",
    "SELECT count(*) FROM asset_holds",
    "SELECT count(*) FROM ledger_entries",
    "SELECT sum(available) FROM asset_balances WHERE purse = 'wallet'",
    "SELECT sum(available) FROM asset_balances WHERE purse = 'points'",
];

async fn effects(shop: &Shop) -> Vec<String> {
    let mut effects = Vec::new();
    for sql in EFFECTS {
        effects.push(shop.rows(sql).await.remove(0));
    }
    effects
}

/// Makes sent events older than a minute, after which a missing effect counts as lost. ORDER_TIMEOUT events are not
/// changed: for them the minute begins when they are due.
async fn age_sent_events(shop: &Shop) {
    let long_ago = match shop.deployment().pair() {
        Pair::SqliteAlone => "2026-01-01T00:00:00.000000Z",
        Pair::MariaDbAlone | Pair::PostgresAlone | Pair::MariaDbRabbitMq | Pair::PostgresRabbitMq => {
            "2026-01-01 00:00:00"
        }
    };
    let sql = format!(
        "UPDATE outbox_events SET sent_time = '{long_ago}' WHERE status = 'SENT' AND event_type <> 'ORDER_TIMEOUT'"
    );
    shop.snapshot.change(&sql).await;
}

async fn reconciliation_report(shop: &Shop) -> Value {
    shop.inspect("reconciliation").await.value()
}

async fn repaired(shop: &Shop) -> Value {
    let response = shop.operate("reconciliation/repair", json!({})).await.value();
    shop.settled().await;
    age_sent_events(shop).await;
    response
}

/// A shop with one settled order for each outcome: completed, refunded, cancelled by the buyer, and cancelled because
/// an asset could not be locked.
async fn shop_with_all_outcomes(pair: Pair) -> Shop {
    // With this delay the sandbox gateway reports no refund during the test: the test acts as the gateway.
    let shop = Shop::open(pair, &[("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h")]).await;
    let coupon = shop.fill_purses().await;
    let kept = shop.order_with(With { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
    shop.locked(kept, 3).await;
    shop.pay_rest(kept).await;
    let back = shop.order_with(With { wallet: 1_000, points: 50, ..With::default() }).await;
    shop.locked(back, 2).await;
    shop.pay_rest(back).await;
    let refund = shop.refund(back).await;
    shop.api.refund_reported(refund, "SUCCESS").await.unwrap().value();
    let dropped = shop.order_with(With { wallet: 100, ..With::default() }).await;
    shop.locked(dropped, 1).await;
    shop.api.cancel(BUYER, dropped).await.unwrap().value();
    // The wallet amount exceeds the balance: the lock is refused permanently and leaves a tombstone.
    let refused = shop.order_with(With { wallet: 4_900, ..With::default() }).await;
    let sql = format!("SELECT count(*) FROM orders WHERE id = {refused} AND status = 'cancelled'");
    shop.expect_count(1, &sql).await;
    shop.settled().await;
    shop.complete(kept).await;
    shop.settled().await;
    age_sent_events(&shop).await;
    let report = reconciliation_report(&shop).await;
    assert_eq!((&report["sound"], &report["findings"]), (&json!(true), &json!([])), "{report}");
    shop
}

/// Returns every fourth row, or all rows with HANDOVER_LONG.
fn sample(rows: Vec<String>) -> Vec<String> {
    let step = if handover_tests::long() { 1 } else { 4 };
    rows.into_iter().step_by(step).collect()
}

async fn deleted_outbox_row_is_found_and_restored_with_its_id(pair: Pair) {
    let shop = shop_with_all_outcomes(pair).await;
    let before = effects(&shop).await;
    let rows = shop.rows("SELECT event_id FROM outbox_events ORDER BY id").await;
    assert!(rows.len() > 12, "{rows:?}");
    for event in sample(rows) {
        let kind = shop
            .rows(&format!("SELECT event_type FROM outbox_events WHERE event_id = '{event}'"))
            .await
            .remove(0);
        let recorded = shop
            .snapshot
            .number(&format!(
                "SELECT count(DISTINCT event_id) FROM event_consume_log WHERE event_id = '{event}'"
            ))
            .await;
        assert_eq!(
            shop.snapshot.change(&format!("DELETE FROM outbox_events WHERE event_id = '{event}'")).await,
            1
        );
        let report = reconciliation_report(&shop).await;
        let found = &report["findings"][0];
        assert_eq!((&found["kind"], &found["eventType"]), (&json!("missingEvent"), &json!(kind)), "{report}");
        assert!(found["orderId"].is_i64(), "{report}");
        assert_eq!(repaired(&shop).await["findings"][0]["repaired"], json!("announced"));
        let report = reconciliation_report(&shop).await;
        assert_eq!(report["sound"], json!(true), "{kind} {event}: {report}");
        assert_eq!(effects(&shop).await, before, "{kind}");
        // A timeout event before it is due, and an event that only webhooks would take, have no record in the consume log:
        // the restored event has a new id. Every other event is restored with its id.
        let same = shop
            .snapshot
            .number(&format!("SELECT count(*) FROM outbox_events WHERE event_id = '{event}'"))
            .await;
        assert_eq!(same, recorded, "{kind}");
    }
    shop.assert_invariants_except(&[]).await;
}

async fn deleted_consume_log_row_is_found_and_restored_without_second_effect(pair: Pair) {
    let shop = shop_with_all_outcomes(pair).await;
    let before = effects(&shop).await;
    let rows = shop.rows("SELECT id FROM event_consume_log WHERE status = 'SUCCESS' ORDER BY id").await;
    assert!(rows.len() > 30, "{rows:?}");
    for id in sample(rows) {
        let row = shop
            .snapshot
            .table(&format!("SELECT consumer, event_id FROM event_consume_log WHERE id = {id}"))
            .await;
        let [consumer, event] = row.unwrap().remove(0).map_to_text();
        assert_eq!(shop.snapshot.change(&format!("DELETE FROM event_consume_log WHERE id = {id}")).await, 1);
        let report = reconciliation_report(&shop).await;
        let found = &report["findings"][0];
        assert_eq!(
            (&found["kind"], &found["eventId"], &found["consumer"]),
            (&json!("notConsumed"), &json!(event), &json!(consumer)),
            "{report}"
        );
        let how = repaired(&shop).await["findings"][0]["repaired"].clone();
        assert!(how == "recordWritten" || how == "sentAgain", "{consumer}: {how}");
        let report = reconciliation_report(&shop).await;
        assert_eq!(report["sound"], json!(true), "{consumer} {event}: {report}");
        assert_eq!(effects(&shop).await, before, "{consumer}");
    }
    shop.assert_invariants_except(&[]).await;
}

async fn deleted_asset_operation_is_found_and_restored_without_changing_balances(pair: Pair) {
    let shop = shop_with_all_outcomes(pair).await;
    let before = effects(&shop).await;
    let keys = shop
        .rows("SELECT idempotency_key FROM asset_operations WHERE order_id IS NOT NULL ORDER BY id")
        .await;
    assert!(keys.len() > 12, "{keys:?}");
    for key in sample(keys) {
        let deleted = format!("DELETE FROM asset_operations WHERE idempotency_key = '{key}'");
        assert_eq!(shop.snapshot.change(&deleted).await, 1);
        let report = reconciliation_report(&shop).await;
        assert_eq!(report["sound"], json!(false), "{key}");
        assert!(report["findings"].to_string().contains(&key), "{key}: {report}");
        repaired(&shop).await;
        // The repair applies events again. Only after they are settled does the report have `sound` = true.
        handover_tests::process::eventually(super::shop::SOON, async || {
            let report = reconciliation_report(&shop).await;
            if report["sound"] == json!(true) { Ok(()) } else { Err(format!("{key}: {report}").into()) }
        })
        .await;
        assert_eq!(effects(&shop).await, before, "{key}");
    }
    shop.assert_invariants_except(&[]).await;
}

async fn deleted_hold_is_found_and_restored_unchanged(pair: Pair) {
    let shop = shop_with_all_outcomes(pair).await;
    let before = effects(&shop).await;
    let all = "SELECT order_id, asset, status, reverted, amount, coupon_id, user_id FROM asset_holds
        ORDER BY order_id, asset";
    let holds = shop.snapshot.table(all).await.unwrap();
    assert_eq!(holds.len(), 7, "{holds:?}");
    for hold in &holds {
        let order = hold[0].as_deref().unwrap();
        let asset = hold[1].as_deref().unwrap();
        let deleted = format!("DELETE FROM asset_holds WHERE order_id = {order} AND asset = '{asset}'");
        assert_eq!(shop.snapshot.change(&deleted).await, 1);
        let report = reconciliation_report(&shop).await;
        let found = &report["findings"][0];
        assert_eq!(
            (&found["kind"], found["orderId"].to_string().as_str(), &found["consumer"]),
            (&json!("missingHold"), order, &json!(asset)),
            "{report}"
        );
        assert_eq!(repaired(&shop).await["findings"][0]["repaired"], json!("recordWritten"));
        let report = reconciliation_report(&shop).await;
        assert_eq!((&report["sound"], &report["findings"]), (&json!(true), &json!([])), "{hold:?}: {report}");
        assert_eq!(shop.snapshot.table(all).await.unwrap(), holds);
        assert_eq!(effects(&shop).await, before, "{hold:?}");
    }
    shop.assert_invariants_except(&[]).await;
}

async fn deleted_ledger_entry_is_reported_with_its_key(pair: Pair) {
    let shop = shop_with_all_outcomes(pair).await;
    let entries = shop
        .snapshot
        .table("SELECT id, idempotency_key, account FROM ledger_entries ORDER BY id")
        .await
        .unwrap();
    assert!(entries.len() > 20, "{entries:?}");
    let step = if handover_tests::long() { 1 } else { 4 };
    // These accounts have a stored balance, which differs from the sum of the entries after an entry is deleted.
    let of_users = ["wallet", "wallet_hold", "points", "points_hold", "points_debt"];
    for (gone, entry) in entries.into_iter().step_by(step).enumerate() {
        let [id, key, account] = entry.map_to_text();
        assert_eq!(shop.snapshot.change(&format!("DELETE FROM ledger_entries WHERE id = {id}")).await, 1);
        let report = reconciliation_report(&shop).await;
        let findings = report["findings"].as_array().unwrap();
        let of = |kind: &str| findings.iter().filter(|found| found["kind"] == kind).collect::<Vec<_>>();
        let unbalanced = of("unbalanced").iter().any(|found| found["idempotencyKey"] == json!(key));
        // If an operation has no entry left, only the balance reveals that entries are missing.
        let left = format!("SELECT count(*) FROM ledger_entries WHERE idempotency_key = '{key}'");
        assert!(
            unbalanced || shop.snapshot.number(&left).await == 0,
            "entry {gone} ({key} of {account}) was deleted, but its operation is not reported: {report}"
        );
        if of_users.contains(&account.as_str()) {
            assert!(
                !of("drifted").is_empty(),
                "entry {gone} ({key} of {account}) was deleted, but no balance is reported: {report}"
            );
        }
        assert!(findings.iter().all(|found| found["repaired"] == Value::Null));
    }
    let report = repaired(&shop).await;
    let findings = report["findings"].as_array().unwrap();
    let is_repaired = |found: &&Value| found["repaired"] != Value::Null;
    assert_eq!(
        findings.iter().filter(is_repaired).count(),
        0,
        "money must never be repaired automatically: {report}"
    );
}

async fn deleted_balance_is_reported_with_its_user(pair: Pair) {
    let shop = shop_with_all_outcomes(pair).await;
    for purse in ["wallet", "points"] {
        let sql = format!("DELETE FROM asset_balances WHERE user_id = {BUYER} AND purse = '{purse}'");
        assert_eq!(shop.snapshot.change(&sql).await, 1);
        let report = reconciliation_report(&shop).await;
        let found = report["findings"].as_array().unwrap().iter().find(|found| {
            found["kind"] == "drifted"
                && found["what"]
                    .as_str()
                    .is_some_and(|what| what.contains(&format!("user {BUYER} ")) && what.contains(purse))
        });
        assert!(found.is_some(), "{purse}: {report}");
    }
    let report = repaired(&shop).await;
    assert_eq!(report["sound"], json!(false), "money must never be repaired automatically: {report}");
}

/// 004 Q5: for every fact of every order, a person inserts the existing event again under another id.
async fn event_inserted_for_applied_fact_has_no_effect(pair: Pair) {
    let shop = shop_with_all_outcomes(pair).await;
    let before = effects(&shop).await;
    let rows = shop
        .snapshot
        .table(
            "SELECT event_id, event_type, aggregate_id, payload FROM outbox_events
             WHERE aggregate_type = 'Order' AND event_type <> 'ORDER_TIMEOUT' ORDER BY id",
        )
        .await
        .unwrap();
    let count = rows.len();
    for row in rows {
        let [event, event_type, order, payload] = row.map_to_text();
        let payload = serde_json::from_str(&payload).unwrap();
        shop.insert_event(&format!("again-{event}"), &event_type, order.parse().unwrap(), &payload).await;
    }
    shop.settled().await;
    assert_eq!(effects(&shop).await, before);
    let again = "FROM event_consume_log WHERE event_id LIKE 'again-%'";
    let not_applied = format!("SELECT count(*) {again} AND status <> 'SUCCESS'");
    assert_eq!(shop.snapshot.number(&not_applied).await, 0);
    let already = format!("SELECT count(*) {again} AND consume_result = 'already applied'");
    assert!(shop.snapshot.number(&already).await > i64::try_from(count).unwrap());
    age_sent_events(&shop).await;
    let report = reconciliation_report(&shop).await;
    assert_eq!((&report["sound"], &report["findings"]), (&json!(true), &json!([])), "{report}");
}

/// A duplicate row, which a unique key normally prevents, is found after the key was dropped.
async fn duplicate_effect_is_found_when_unique_key_is_missing(pair: Pair) {
    let shop = shop_with_all_outcomes(pair).await;
    let doubled = [
        ("listing_changes", "tenant_id, seller_id, product_id, order_id, aggregate_seq, kind"),
        ("shipments", "tenant_id, order_id, seller_id, buyer_id, aggregate_seq"),
        (
            "notifications",
            "tenant_id, user_id, side, order_id, aggregate_seq, old_status, new_status, changed_at",
        ),
        ("buyer_credit_changes", "tenant_id, buyer_id, order_id, aggregate_seq, step"),
    ];
    for (table, columns) in doubled {
        let key = table.strip_prefix("buyer_").unwrap_or(table);
        let again = format!(
            "INSERT INTO {table} ({columns}, event_id, create_time)
             SELECT {columns}, 'again', create_time FROM {table}"
        );
        let refused = shop.snapshot.try_change(&again).await.unwrap_err();
        let database = refused.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        assert!(database.is_some_and(|error| error.is_unique_violation()), "{table}: {refused}");
        let drop = match shop.deployment().pair().database_server() {
            None | Some(ServerKind::Postgres) => format!("DROP INDEX uk_{key}"),
            Some(ServerKind::MariaDb) => format!("ALTER TABLE {table} DROP KEY uk_{key}"),
        };
        shop.snapshot.change(&drop).await;
        let count = shop.snapshot.change(&again).await;
        assert!(count > 0, "{table}");
        let report = reconciliation_report(&shop).await;
        let of_table = |found: &&Value| {
            found["kind"] == "doubledEffect"
                && found["what"].as_str().is_some_and(|what| what.starts_with(&format!("table {table} ")))
        };
        let found = report["findings"].as_array().unwrap().iter().filter(of_table).count();
        assert_eq!(found as u64, count, "{table}: {report}");
    }
}

/// Converts a row without NULL columns to texts.
trait MapToText<const N: usize> {
    fn map_to_text(self) -> [String; N];
}

impl<const N: usize> MapToText<N> for Vec<Option<String>> {
    fn map_to_text(self) -> [String; N] {
        let texts: Vec<String> = self.into_iter().map(Option::unwrap).collect();
        texts.try_into().unwrap()
    }
}

super::by_turns! {
    deleted_outbox_row_is_found_and_restored_with_its_id,
    deleted_consume_log_row_is_found_and_restored_without_second_effect,
    deleted_asset_operation_is_found_and_restored_without_changing_balances,
    deleted_hold_is_found_and_restored_unchanged,
    deleted_ledger_entry_is_reported_with_its_key,
    deleted_balance_is_reported_with_its_user,
    event_inserted_for_applied_fact_has_no_effect,
    duplicate_effect_is_found_when_unique_key_is_missing,
}
