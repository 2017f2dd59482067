//! Rows that somebody deletes by SQL: reconciliation finds each by its id and mends it, and nothing takes effect twice.

use handover_tests::deployment::Pair;
use handover_tests::servers::database::ServerKind;
use serde_json::{Value, json};

use super::purses::With;
use super::shop::{BUYER, Shop};

/// The tables whose rows may not become more, and what they hold.
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

/// Confirmed events count as lost after a minute; a timeout's counts from the end of its delay.
async fn a_minute_passes(shop: &Shop) {
    let long_ago = match shop.deployment().pair() {
        Pair::SqliteAlone => "2026-01-01T00:00:00.000000Z",
        Pair::MariaDbAlone | Pair::PostgresAlone | Pair::MariaDbRabbitMq | Pair::PostgresRabbitMq => {
            "2026-01-01 00:00:00"
        }
    };
    let sql = format!(
        "UPDATE outbox_events SET sent_time = '{long_ago}' WHERE status = 'SENT' AND event_type <> 'ORDER_TIMEOUT'"
    );
    shop.books.change(&sql).await;
}

async fn compared(shop: &Shop) -> Value {
    shop.inspect("reconciliation").await.value()
}

async fn mended(shop: &Shop) -> Value {
    let answer = shop.operate("reconciliation/repair", json!({})).await.value();
    shop.settled().await;
    a_minute_passes(shop).await;
    answer
}

/// One order for each way that it can go, all of it settled.
async fn busy(pair: Pair) -> Shop {
    // The consumers' own sweep would find lost consumptions first.
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
    // More than there is: its lock is refused for good, and leaves a tombstone.
    let refused = shop.order_with(With { wallet: 4_900, ..With::default() }).await;
    let sql = format!("SELECT count(*) FROM orders WHERE id = {refused} AND status = 'cancelled'");
    shop.expect_count(1, &sql).await;
    shop.settled().await;
    shop.complete(kept).await;
    shop.settled().await;
    a_minute_passes(&shop).await;
    let told = compared(&shop).await;
    assert_eq!((&told["sound"], &told["findings"]), (&json!(true), &json!([])), "{told}");
    shop
}

/// Every so-manieth where time is short.
fn sample(rows: Vec<String>) -> Vec<String> {
    let step = if handover_tests::long() { 1 } else { 4 };
    rows.into_iter().step_by(step).collect()
}

async fn a_deleted_outbox_row_is_found_and_announced_again_under_the_id_it_had(pair: Pair) {
    let shop = busy(pair).await;
    let before = effects(&shop).await;
    let rows = shop.rows("SELECT event_id FROM outbox_events ORDER BY id").await;
    assert!(rows.len() > 12, "{rows:?}");
    for event in sample(rows) {
        let kind = shop
            .rows(&format!("SELECT event_type FROM outbox_events WHERE event_id = '{event}'"))
            .await
            .remove(0);
        assert_eq!(
            shop.books.change(&format!("DELETE FROM outbox_events WHERE event_id = '{event}'")).await,
            1
        );
        let told = compared(&shop).await;
        let found = &told["findings"][0];
        assert_eq!((&found["kind"], &found["eventType"]), (&json!("missingEvent"), &json!(kind)), "{told}");
        assert!(found["orderId"].is_i64(), "{told}");
        assert_eq!(mended(&shop).await["findings"][0]["mended"], json!("announced"));
        let told = compared(&shop).await;
        assert_eq!(told["sound"], json!(true), "{kind} {event}: {told}");
        assert_eq!(effects(&shop).await, before, "{kind}");
        // A timeout is in no log before it is due; every other event keeps its id.
        let same = shop
            .books
            .number(&format!("SELECT count(*) FROM outbox_events WHERE event_id = '{event}'"))
            .await;
        assert_eq!(same, i64::from(kind != "ORDER_TIMEOUT"), "{kind}");
    }
    shop.sound_but_for(&[]).await;
}

async fn a_deleted_consume_log_row_is_found_and_written_again_without_a_second_effect(pair: Pair) {
    let shop = busy(pair).await;
    let before = effects(&shop).await;
    let rows = shop.rows("SELECT id FROM event_consume_log WHERE status = 'SUCCESS' ORDER BY id").await;
    assert!(rows.len() > 30, "{rows:?}");
    for id in sample(rows) {
        let row = shop
            .books
            .table(&format!("SELECT consumer, event_id FROM event_consume_log WHERE id = {id}"))
            .await;
        let [consumer, event] = row.unwrap().remove(0).map_to_text();
        assert_eq!(shop.books.change(&format!("DELETE FROM event_consume_log WHERE id = {id}")).await, 1);
        let told = compared(&shop).await;
        let found = &told["findings"][0];
        assert_eq!(
            (&found["kind"], &found["eventId"], &found["consumer"]),
            (&json!("notConsumed"), &json!(event), &json!(consumer)),
            "{told}"
        );
        let how = mended(&shop).await["findings"][0]["mended"].clone();
        assert!(how == "writtenDown" || how == "sentAgain", "{consumer}: {how}");
        let told = compared(&shop).await;
        assert_eq!(told["sound"], json!(true), "{consumer} {event}: {told}");
        assert_eq!(effects(&shop).await, before, "{consumer}");
    }
    shop.sound_but_for(&[]).await;
}

async fn a_deleted_asset_operation_is_found_and_written_again_without_moving_anything(pair: Pair) {
    let shop = busy(pair).await;
    let before = effects(&shop).await;
    let keys = shop
        .rows("SELECT idempotency_key FROM asset_operations WHERE order_id IS NOT NULL ORDER BY id")
        .await;
    assert!(keys.len() > 12, "{keys:?}");
    for key in sample(keys) {
        let deleted = format!("DELETE FROM asset_operations WHERE idempotency_key = '{key}'");
        assert_eq!(shop.books.change(&deleted).await, 1);
        let told = compared(&shop).await;
        assert_eq!(told["sound"], json!(false), "{key}");
        assert!(told["findings"].to_string().contains(&key), "{key}: {told}");
        mended(&shop).await;
        // What was applied again has to be swept up first.
        handover_tests::process::eventually(super::shop::SOON, async || {
            let told = compared(&shop).await;
            if told["sound"] == json!(true) { Ok(()) } else { Err(format!("{key}: {told}").into()) }
        })
        .await;
        assert_eq!(effects(&shop).await, before, "{key}");
    }
    shop.sound_but_for(&[]).await;
}

async fn a_deleted_hold_is_found_and_written_again_as_it_was(pair: Pair) {
    let shop = busy(pair).await;
    let before = effects(&shop).await;
    let all = "SELECT order_id, asset, status, reverted, amount, coupon_id, user_id FROM asset_holds
        ORDER BY order_id, asset";
    let holds = shop.books.table(all).await.unwrap();
    assert_eq!(holds.len(), 7, "{holds:?}");
    for hold in &holds {
        let (order, asset) = (hold[0].as_deref().unwrap(), hold[1].as_deref().unwrap());
        let deleted = format!("DELETE FROM asset_holds WHERE order_id = {order} AND asset = '{asset}'");
        assert_eq!(shop.books.change(&deleted).await, 1);
        let told = compared(&shop).await;
        let found = &told["findings"][0];
        assert_eq!(
            (&found["kind"], found["orderId"].to_string().as_str(), &found["consumer"]),
            (&json!("missingHold"), order, &json!(asset)),
            "{told}"
        );
        assert_eq!(mended(&shop).await["findings"][0]["mended"], json!("writtenDown"));
        let told = compared(&shop).await;
        assert_eq!((&told["sound"], &told["findings"]), (&json!(true), &json!([])), "{hold:?}: {told}");
        assert_eq!(shop.books.table(all).await.unwrap(), holds);
        assert_eq!(effects(&shop).await, before, "{hold:?}");
    }
    shop.sound_but_for(&[]).await;
}

async fn a_deleted_entry_of_the_ledger_is_found_by_its_key(pair: Pair) {
    let shop = busy(pair).await;
    let entries = shop
        .books
        .table("SELECT id, idempotency_key, account FROM ledger_entries ORDER BY id")
        .await
        .unwrap();
    assert!(entries.len() > 20, "{entries:?}");
    let step = if handover_tests::long() { 1 } else { 4 };
    // The accounts of a user have a balance, which then says something else than its entries.
    let of_users = ["wallet", "wallet_hold", "points", "points_hold", "points_debt"];
    for (gone, entry) in entries.into_iter().step_by(step).enumerate() {
        let [id, key, account] = entry.map_to_text();
        assert_eq!(shop.books.change(&format!("DELETE FROM ledger_entries WHERE id = {id}")).await, 1);
        let told = compared(&shop).await;
        let findings = told["findings"].as_array().unwrap();
        let of = |kind: &str| findings.iter().filter(|found| found["kind"] == kind).collect::<Vec<_>>();
        let unbalanced = of("unbalanced").iter().any(|found| found["idempotencyKey"] == json!(key));
        // Without any entry left, an operation is only missed by the balance.
        let left = format!("SELECT count(*) FROM ledger_entries WHERE idempotency_key = '{key}'");
        assert!(unbalanced || shop.books.number(&left).await == 0, "{gone}: {key} of {account}: {told}");
        if of_users.contains(&account.as_str()) {
            assert!(!of("drifted").is_empty(), "{gone}: {key} of {account}: {told}");
        }
        assert!(findings.iter().all(|found| found["mended"] == Value::Null));
    }
    let told = mended(&shop).await;
    let findings = told["findings"].as_array().unwrap();
    let is_mended = |found: &&Value| found["mended"] != Value::Null;
    assert_eq!(findings.iter().filter(is_mended).count(), 0, "nobody guesses money: {told}");
}

async fn a_deleted_balance_is_found_by_its_user(pair: Pair) {
    let shop = busy(pair).await;
    for purse in ["wallet", "points"] {
        let sql = format!("DELETE FROM asset_balances WHERE user_id = {BUYER} AND purse = '{purse}'");
        assert_eq!(shop.books.change(&sql).await, 1);
        let told = compared(&shop).await;
        let found = told["findings"].as_array().unwrap().iter().find(|found| {
            found["kind"] == "drifted"
                && found["what"]
                    .as_str()
                    .is_some_and(|what| what.contains(&format!("user {BUYER} ")) && what.contains(purse))
        });
        assert!(found.is_some(), "{purse}: {told}");
    }
    let told = mended(&shop).await;
    assert_eq!(told["sound"], json!(false), "nobody guesses money: {told}");
}

/// 004 Q5: a person inserts an event that is there already, under another id, for every fact of every order.
async fn an_event_inserted_by_hand_for_a_fact_that_had_its_effects_has_none(pair: Pair) {
    let shop = busy(pair).await;
    let before = effects(&shop).await;
    let rows = shop
        .books
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
    assert_eq!(shop.books.number(&not_applied).await, 0);
    let already = format!("SELECT count(*) {again} AND consume_result = 'already applied'");
    assert!(shop.books.number(&already).await > i64::try_from(count).unwrap());
    a_minute_passes(&shop).await;
    let told = compared(&shop).await;
    assert_eq!((&told["sound"], &told["findings"]), (&json!(true), &json!([])), "{told}");
}

/// What the database's keys refuse is found where somebody dropped them.
async fn a_second_row_of_a_fact_is_found_where_its_key_was_dropped(pair: Pair) {
    let shop = busy(pair).await;
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
        let refused = shop.books.try_change(&again).await.unwrap_err();
        let database = refused.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        assert!(database.is_some_and(|error| error.is_unique_violation()), "{table}: {refused}");
        let drop = match shop.deployment().pair().database_server() {
            None | Some(ServerKind::Postgres) => format!("DROP INDEX uk_{key}"),
            Some(ServerKind::MariaDb) => format!("ALTER TABLE {table} DROP KEY uk_{key}"),
        };
        shop.books.change(&drop).await;
        let count = shop.books.change(&again).await;
        assert!(count > 0, "{table}");
        let told = compared(&shop).await;
        let of_table = |found: &&Value| {
            found["kind"] == "doubledEffect"
                && found["what"].as_str().is_some_and(|what| what.starts_with(table))
        };
        let found = told["findings"].as_array().unwrap().iter().filter(of_table).count();
        assert_eq!(found as u64, count, "{table}: {told}");
    }
}

/// Columns that are there, as text.
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
    a_deleted_outbox_row_is_found_and_announced_again_under_the_id_it_had,
    a_deleted_consume_log_row_is_found_and_written_again_without_a_second_effect,
    a_deleted_asset_operation_is_found_and_written_again_without_moving_anything,
    a_deleted_hold_is_found_and_written_again_as_it_was,
    a_deleted_entry_of_the_ledger_is_found_by_its_key,
    a_deleted_balance_is_found_by_its_user,
    an_event_inserted_by_hand_for_a_fact_that_had_its_effects_has_none,
    a_second_row_of_a_fact_is_found_where_its_key_was_dropped,
}
