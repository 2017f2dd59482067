//! Each change by SQL is found by the service itself, with its kind and key, is repaired or waits for a person as documented,
//! and stays visible with its end.

use std::collections::BTreeMap;

use handover_tests::deployment::Pair;
use handover_tests::process::eventually;
use handover_tests::receiver::{Answer, WebhookReceiver};
use serde_json::{Value, json};

use super::purses::With;
use super::shop::{OPERATOR, SOON, Shop};

const SETTINGS: [(&str, &str); 5] = [
    ("HANDOVER_CONSISTENCY__INTERVAL", "1s"),
    ("HANDOVER_CONSISTENCY__RECENT_INTERVAL", "1s"),
    // With this delay the sandbox gateway reports no refund during the test.
    ("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h"),
    ("HANDOVER_WEBHOOK__KEY", "the key that encrypts secrets of endpoints"),
    ("HANDOVER_WEBHOOK__ALLOW_NETWORKS", r#"["127.0.0.0/8"]"#),
];

/// A change by SQL, with the finding that it causes.
struct Fault {
    change: String,
    kind: &'static str,
    /// The finding's subject.
    subject: String,
    /// Undoes the change; `None` if the service repairs it.
    undo: Option<String>,
}

/// The state of each finding, by kind and subject.
async fn findings(shop: &Shop) -> BTreeMap<(String, String), Value> {
    let page = shop.inspect("reconciliation/findings?limit=100").await;
    let text = |item: &Value, field: &str| item[field].as_str().unwrap().to_owned();
    page.items().iter().map(|item| ((text(item, "kind"), text(item, "subject")), item.clone())).collect()
}

async fn expect_states<'a>(shop: &Shop, expected: impl Iterator<Item = (&'a Fault, &'static str)> + Clone) {
    eventually(SOON, async || {
        let found = findings(shop).await;
        for (fault, state) in expected.clone() {
            let recorded = found.get(&(fault.kind.to_owned(), fault.subject.clone()));
            if recorded.is_none_or(|it| it["state"] != state) {
                return Err(format!(
                    "{} {} is not {state}: {recorded:?} {found:#?}",
                    fault.kind, fault.subject
                )
                .into());
            }
        }
        Ok(())
    })
    .await;
}

async fn one(shop: &Shop, sql: String) -> String {
    shop.rows(&sql).await.remove(0)
}

async fn each_fault_is_found_and_ends_as_documented(pair: Pair) {
    let shop = Shop::open(pair, &SETTINGS).await;
    let receiver = WebhookReceiver::start(|_, _| Answer::Status(200)).await;
    let body = json!({"url": receiver.url("/orders"), "eventTypes": ["order.paid"]});
    let endpoint = shop.api.post(OPERATOR, "/api/v1/webhooks", body).await.unwrap().value();
    let endpoint = endpoint["endpointId"].as_str().unwrap().to_owned();
    // An endpoint that was created just before an event may not have been visible to the consumer.
    let long_ago = match pair {
        Pair::SqliteAlone => "2026-01-01T00:00:00.000000Z",
        Pair::MariaDbAlone | Pair::PostgresAlone | Pair::MariaDbRabbitMq | Pair::PostgresRabbitMq => {
            "2026-01-01 00:00:00"
        }
    };
    shop.snapshot.change(&format!("UPDATE webhook_endpoints SET update_time = '{long_ago}'")).await;
    shop.fill_purses().await;
    let held = shop.order_with(With { wallet: 2_000, ..With::default() }).await;
    shop.locked(held, 1).await;
    let mut paid = Vec::new();
    for _ in 0..10 {
        paid.push(shop.paid_order().await);
    }
    let completed = shop.paid_order().await;
    shop.complete(completed).await;
    shop.settled().await;
    let faults = faults(&shop, &endpoint, (held, completed), &paid).await;
    for fault in &faults {
        assert!(shop.snapshot.change(&fault.change).await > 0, "{}", fault.change);
    }
    let end = |fault: &Fault| if fault.undo.is_some() { "OPEN" } else { "REPAIRED" };
    expect_states(&shop, faults.iter().map(|fault| (fault, end(fault)))).await;
    // What waits for a person ends by itself when the cause is corrected, and stays visible when it is acknowledged.
    let waiting: Vec<&Fault> = faults.iter().filter(|fault| fault.undo.is_some()).collect();
    for fault in &waiting {
        let undo = fault.undo.as_deref().unwrap();
        match fault.kind {
            "notReported" => {
                let found = findings(&shop).await;
                let id = &found[&(fault.kind.to_owned(), fault.subject.clone())]["findingId"];
                let acknowledge = format!("reconciliation/findings/{id}/acknowledge");
                shop.operate(&acknowledge, json!({"reason": "asked the gateway"})).await.value();
            }
            "missingDelivery" => {
                let body = json!({"since": "2026-01-01T00:00:00Z", "includeMissing": true});
                let path = format!("/api/v1/webhooks/{endpoint}/recover");
                shop.api.post(OPERATOR, &path, body).await.unwrap().value();
            }
            _ => assert!(shop.snapshot.change(undo).await > 0, "{undo}"),
        }
    }
    let end = |kind: &str| if kind == "notReported" { "ACKNOWLEDGED" } else { "RESOLVED" };
    expect_states(&shop, waiting.iter().map(|fault| (*fault, end(fault.kind)))).await;
    shop.settled().await;
    for (table, count) in [("shipments", 11), ("notifications", 4), ("buyer_credit_changes", 2)] {
        shop.expect_count(count, &format!("SELECT count(*) FROM {table}")).await;
    }
    let repairs = shop.inspect("audit?changes=true&limit=100").await;
    let is_repair = |it: &&Value| it["action"] == "reconciliation.repair";
    let repairs: Vec<&Value> = repairs.items().iter().filter(is_repair).collect();
    assert!(
        !repairs.is_empty() && repairs.iter().all(|it| it["actor"] == "system:reconciliation"),
        "{repairs:?}"
    );
}

async fn faults(shop: &Shop, endpoint: &str, (held, completed): (i64, i64), paid: &[i64]) -> Vec<Fault> {
    let event_of = async |order: i64| {
        let sql = "SELECT event_id FROM outbox_events WHERE event_type = 'ORDER_PAID' AND aggregate_id =";
        one(shop, format!("{sql} {order}")).await
    };
    let payment_of =
        async |order: i64| one(shop, format!("SELECT id FROM payments WHERE order_id = {order}")).await;
    let repaired = |kind, subject: String, change: String| Fault { change, kind, subject, undo: None };
    let waiting = |kind, subject: String, change: String, undo: String| Fault {
        change,
        kind,
        subject,
        undo: Some(undo),
    };
    let product = one(shop, format!("SELECT product_id FROM orders WHERE id = {}", paid[0])).await;
    let mut faults = vec![repaired(
        "productNotSold",
        format!("order:{} product:{product}", paid[0]),
        format!("UPDATE products SET status = 'on_sale' WHERE id = {product}"),
    )];
    let order = paid[1];
    let payment = payment_of(order).await;
    let cancelled = "status = 'cancelled', cancel_reason = 'buyer', version = version + 1";
    faults.push(repaired(
        "notRefunded",
        format!("order:{order} payment:{payment}"),
        format!("UPDATE orders SET {cancelled} WHERE id = {order}"),
    ));
    let order = paid[2];
    let payment = payment_of(order).await;
    let set = |status: &str| format!("UPDATE payments SET status = '{status}' WHERE id = {payment}");
    let subject = format!("order:{order} payment:{payment}");
    faults.push(waiting("paymentFailed", subject, set("FAILED"), set("SUCCESS")));
    let order = paid[3];
    let payment = payment_of(order).await;
    faults.push(waiting(
        "notReported",
        format!("order:{order} payment:{payment}"),
        format!("DELETE FROM gateway_reports WHERE payment_id = {payment}"),
        String::new(),
    ));
    let order = paid[4];
    let event = event_of(order).await;
    faults.push(repaired(
        "missingEvent",
        format!("order:{order} type:ORDER_PAID Order:{order}:2"),
        format!("DELETE FROM outbox_events WHERE event_id = '{event}'"),
    ));
    let order = paid[5];
    let event = event_of(order).await;
    faults.push(repaired(
        "notConfirmed",
        format!("order:{order} event:{event}"),
        format!("UPDATE outbox_events SET sent_time = NULL WHERE event_id = '{event}'"),
    ));
    let order = paid[6];
    let event = event_of(order).await;
    faults.push(repaired(
        "notConsumed",
        format!("order:{order} event:{event} consumer:fulfillment"),
        format!("DELETE FROM event_consume_log WHERE consumer = 'fulfillment' AND event_id = '{event}'"),
    ));
    let order = paid[7];
    let event = event_of(order).await;
    faults.push(repaired(
        "missingEffect",
        format!("order:{order} event:{event} consumer:fulfillment"),
        format!("DELETE FROM shipments WHERE order_id = {order}"),
    ));
    let order = paid[8];
    let key = format!("payment:{}:capture", payment_of(order).await);
    let add = |amount: i64| {
        format!(
            "UPDATE ledger_entries SET amount = amount + {amount} WHERE account = 'gateway' AND idempotency_key = '{key}'"
        )
    };
    faults.push(waiting("unbalanced", key.clone(), add(1), add(-1)));
    let order = paid[9];
    let event = event_of(order).await;
    faults.push(waiting(
        "missingDelivery",
        format!("order:{order} event:{event} consumer:webhooks endpoint:{endpoint}"),
        format!("DELETE FROM webhook_deliveries WHERE event_id = '{event}'"),
        String::new(),
    ));
    faults.push(repaired(
        "missingHold",
        format!("order:{held} consumer:wallet wallet:{held}:freeze"),
        format!("DELETE FROM asset_holds WHERE order_id = {held}"),
    ));
    for (consumer, table) in [("status-sync", "notifications"), ("buyer-credit", "buyer_credit_changes")] {
        let sql =
            "SELECT event_id FROM outbox_events WHERE event_type = 'ORDER_STATUS_CHANGED' AND aggregate_id =";
        let event = one(shop, format!("{sql} {completed} ORDER BY aggregate_seq DESC")).await;
        faults.push(repaired(
            "missingEffect",
            format!("order:{completed} event:{event} consumer:{consumer}"),
            format!("DELETE FROM {table} WHERE order_id = {completed}"),
        ));
    }
    faults
}

super::by_turns! {
    each_fault_is_found_and_ends_as_documented: sqlite_and_database,
}
