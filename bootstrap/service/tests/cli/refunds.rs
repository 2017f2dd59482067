//! Refunds through the sandbox, from the request to the ledger.

use serde_json::json;

use crate::program::{Server, World, eventually};

fn world() -> World {
    World::new().set("HANDOVER_GATEWAY__SANDBOX_DELAY", "10ms").set("HANDOVER_GATEWAY__SCAN_INTERVAL", "50ms")
}

/// Creates a paid order with this price; returns the tokens of seller and buyer.
fn paid(world: &World, server: &Server, price: &str) -> [String; 2] {
    let [seller, buyer] = [1, 2].map(|user| world.token(&format!("--user {user}")));
    server.ask(&seller, "POST /api/v1/products", &format!(r#"{{"title":"Lamp","price":{price}}}"#));
    server.ask(&buyer, "POST /api/v1/orders", r#"{"productId":1}"#);
    server.ask(&buyer, "POST /api/v1/orders/1/payments", r#"{"paymentMethod":"card"}"#);
    let report = format!(r#"{{"paymentId":1,"gatewayTxnId":"txn-1","result":"SUCCESS","amount":{price}}}"#);
    server.report(world, "POST /api/v1/payments/callback", &report);
    [seller, buyer]
}

#[test]
fn requested_refund_completes_automatically() {
    let world = world();
    let server = world.serve("");
    let [_, buyer] = paid(&world, &server, "88.50");
    let refund = server.ask(&buyer, "POST /api/v1/orders/1/refunds", r#"{"reason":"too bright"}"#);
    assert_eq!(refund["status"], "PROCESSING");
    eventually(|| server.ask(&buyer, "GET /api/v1/orders/1", "")["status"] == "refunded");
    let timeline = world.run("order timeline 1");
    let text = timeline.done();
    for part in ["amount", "balanceAfter", "idempotencyKey", "refund of 88.50 CNY succeeded", "payout"] {
        assert!(text.contains(part), "no {part}: {text}");
    }
    let report = world.run("reconcile --output json");
    assert_eq!((report.code, &report.json()["sound"]), (Some(0), &json!(true)), "{report:?}");
}

#[test]
fn refund_of_amount_ending_in_13_fails_first_and_succeeds_when_repeated() {
    let world = world();
    let server = world.serve("");
    let [_, buyer] = paid(&world, &server, "88.13");
    server.ask(&buyer, "POST /api/v1/orders/1/refunds", r#"{"reason":"too bright"}"#);
    eventually(|| world.run("order timeline 1").done().contains("refund of 88.13 CNY failed"));
    assert_eq!(server.ask(&buyer, "GET /api/v1/orders/1", "")["status"], "paid");
    server.ask(&buyer, "POST /api/v1/orders/1/refunds", r#"{"reason":"much too bright"}"#);
    eventually(|| server.ask(&buyer, "GET /api/v1/orders/1", "")["status"] == "refunded");
}
