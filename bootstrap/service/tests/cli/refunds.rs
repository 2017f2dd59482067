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
    let short = world.run("order timeline 1");
    let text = short.done();
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let header: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["time", "what", "who", "result"]);
    let timeline = world.run("order timeline 1 --wide");
    let text = timeline.done();
    for part in ["amount", "balanceAfter", "idempotencyKey", "refund of 88.50 CNY succeeded", "payout"] {
        assert!(text.contains(part), "no {part}: {text}");
    }
    let report = world.run("reconcile --output json");
    assert_eq!((report.code, &report.json()["sound"]), (Some(0), &json!(true)), "{report:?}");
}

#[test]
fn order_is_found_and_shown_with_its_payments_refunds_and_deadline() {
    let world = world();
    let server = world.serve("");
    let [seller, buyer] = paid(&world, &server, "88.50");
    let refund = server.ask(&buyer, "POST /api/v1/orders/1/refunds", r#"{"reason":"too bright"}"#);
    eventually(|| server.ask(&buyer, "GET /api/v1/orders/1", "")["status"] == "refunded");
    server.ask(&seller, "POST /api/v1/products", r#"{"title":"Chair","price":5}"#);
    server.ask(&buyer, "POST /api/v1/orders", r#"{"productId":2}"#);
    let order = server.ask(&buyer, "GET /api/v1/orders/1", "");
    let number = order["orderNo"].as_str().unwrap();
    let reference = refund["reference"].as_str().unwrap();
    let searches = [
        format!("--number {number}"),
        format!("--reference {reference}"),
        "--transaction txn-1".to_owned(),
        "--payment 1".to_owned(),
    ];
    for search in searches {
        let found = world.run(&format!("order find {search} --output json")).json();
        assert_eq!(found["items"].as_array().unwrap().len(), 1, "{search}");
        assert_eq!(found["items"][0]["orderId"], 1, "{search}");
    }
    let of_buyer = world.run("order find --buyer 2");
    assert_eq!(of_buyer.done().lines().count(), 3, "{of_buyer:?}");
    let shown = world.run(&format!("order show {number}"));
    for part in [
        "status          refunded\n",
        "\ndeadlineStatus\n",
        "\npayments\npaymentId",
        "txn-1",
        "\nrefunds\nrefundId",
    ] {
        assert!(shown.done().contains(part), "{part} is not in {}", shown.stdout);
    }
    let pending = world.run("order show 2 --output json").json();
    assert_eq!((&pending["deadlineStatus"], &pending["payments"]), (&json!("cancelled"), &json!([])));
    let operator = world.token("--user 9 --role operator --role pii");
    assert_eq!(server.ask(&operator, "GET /api/v1/ops/orders/2", ""), pending);
    assert_eq!(
        world.run(&format!("order timeline {number} --output json")).json(),
        world.run("order timeline 1 --output json").json()
    );
    let missing = "19990101000000000000000001";
    world
        .run(&format!("order show {}", &missing[..24]))
        .refused(1, &["not found in handover.db: order number 199901010000000000000000"]);
    for (command, text) in [
        ("order show x", "must be an order id, or an order number: 24 digits"),
        ("order find", "--number <ORDER_NO>"),
        ("order find --buyer 1 --payment 2", "cannot be used with"),
    ] {
        let refused = world.run(command);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(text), "{refused:?}");
    }
}

#[test]
fn payment_is_listed_and_shown_with_the_reports_of_the_gateway_and_the_deadline_of_its_order() {
    let world = world();
    let server = world.serve("");
    let [seller, buyer] = paid(&world, &server, "88.50");
    server.ask(&seller, "POST /api/v1/products", r#"{"title":"Chair","price":5}"#);
    server.ask(&buyer, "POST /api/v1/orders", r#"{"productId":2}"#);
    server.ask(&buyer, "POST /api/v1/orders/2/payments", "");
    let listed = |arguments: &str| -> Vec<i64> {
        let page = world.run(&format!("payment list {arguments} --output json")).json();
        page["items"].as_array().unwrap().iter().map(|it| it["paymentId"].as_i64().unwrap()).collect()
    };
    assert_eq!(listed(""), [2, 1]);
    assert_eq!(listed("--state success"), [1]);
    assert_eq!(listed("--cursor 2 --tenant 1"), [1]);
    assert_eq!(listed("--tenant 7"), [0; 0]);
    let settled = world.run("payment show 1 --output json").json();
    assert_eq!((&settled["orderId"], &settled["deadline"]), (&json!(1), &json!(null)));
    assert_eq!(
        (&settled["reports"][0]["outcome"], &settled["reports"][0]["transactionId"]),
        (&json!("order_paid"), &json!("txn-1"))
    );
    let shown = world.run("payment show 1");
    assert!(shown.done().contains("\nreports\nreportId"), "{shown:?}");
    let pending = world.run("payment show 2 --output json").json();
    assert_eq!((&pending["deadlineStatus"], &pending["reports"]), (&json!("cancelled"), &json!([])));
    let of_buyer = server.ask(&buyer, "GET /api/v1/orders/2/payments", "");
    assert_eq!(of_buyer["items"][0]["expiresAt"], pending["deadline"]);
    let of_seller = server.ask(&seller, "GET /api/v1/orders/1/payments", "");
    assert_eq!(of_seller["items"][0]["expiresAt"], json!(null), "a paid order is not closed");
    world
        .run("payment show 4711")
        .refused(1, &["not found in handover.db: payment 4711", "see `handover payment list`"]);
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

#[test]
fn failed_refund_is_retried_as_new_attempt_with_its_own_reference() {
    let world = world();
    let server = world.serve("");
    let [_, buyer] = paid(&world, &server, "88.13");
    let requested = server.ask(&buyer, "POST /api/v1/orders/1/refunds", r#"{"reason":"too bright"}"#);
    let id = requested["refundId"].as_i64().unwrap();
    let failed =
        |world: &World| world.run("refund list --state failed --output json").json()["items"].clone();
    eventually(|| failed(&world).as_array().unwrap().len() == 1);
    let first = failed(&world)[0].clone();
    assert_eq!((&first["reference"], &first["attempt"]), (&requested["reference"], &json!(1)));
    let operator = world.token("--user 9 --role operator --role pii");
    assert_eq!(server.ask(&operator, "GET /api/v1/ops/refunds?state=FAILED", "")["items"][0], first);
    let shown = world.run(&format!("refund show {id} --output json")).json();
    assert_eq!(shown, first);
    let retried = world.run(&format!("refund retry {id} --reason again --output json")).json();
    assert_eq!((&retried["status"], &retried["attempt"]), (&json!("PROCESSING"), &json!(2)));
    assert_ne!(retried["reference"], first["reference"]);
    eventually(|| server.ask(&buyer, "GET /api/v1/orders/1", "")["status"] == "refunded");
    let settled = world.run(&format!("refund show {id}"));
    for part in ["status           SUCCESS\n", "settledAttempt   2\n", "cause            buyer\n"] {
        assert!(settled.done().contains(part), "{part} is not in {}", settled.stdout);
    }
    world
        .run(&format!("refund retry {id} --reason again"))
        .refused(1, &["refused: the refund is already SUCCESS"]);
    world
        .run("refund show 4711")
        .refused(1, &["not found in handover.db: refund 4711", "see `handover refund list`"]);
    let report = world.run("reconcile --output json");
    assert_eq!((report.code, &report.json()["sound"]), (Some(0), &json!(true)), "{report:?}");
    let audit = world.run("audit list --changes --output json").json();
    assert_eq!(
        (&audit["items"][0]["action"], &audit["items"][0]["reason"]),
        (&json!("refund.retry"), &json!("again"))
    );
}

#[test]
fn failed_refund_is_settled_by_hand_and_a_later_report_is_closed_with_reason() {
    let world = world();
    let server = world.serve("");
    let [_, buyer] = paid(&world, &server, "88.13");
    let refund = server.ask(&buyer, "POST /api/v1/orders/1/refunds", r#"{"reason":"too bright"}"#);
    let id = refund["refundId"].as_i64().unwrap();
    eventually(|| server.ask(&buyer, "GET /api/v1/orders/1/refunds", "")["items"][0]["status"] == "FAILED");
    let settled = world.run(&format!("refund settle {id} --reason transfer --output json")).json();
    assert_eq!(settled["status"], "SUCCESS");
    assert_ne!(settled["settledBy"], json!(null));
    assert_eq!(server.ask(&buyer, "GET /api/v1/orders/1", "")["status"], "refunded");
    server.report(
        &world,
        "POST /api/v1/refunds/callback",
        &format!(r#"{{"refundId":{id},"result":"SUCCESS"}}"#),
    );
    let open = world.run("payment reports --state open --output json").json();
    let report = &open["items"][0];
    assert_eq!((&report["outcome"], &report["refundId"]), (&json!("settled_by_operator"), &json!(id)));
    let operator = world.token("--user 9 --role operator --role pii");
    assert_eq!(server.ask(&operator, "GET /api/v1/ops/gateway-reports?state=OPEN", ""), open);
    let close = format!("payment reports close {} --reason reclaimed", report["reportId"]);
    assert!(world.run(&close).done().contains("closeReason    reclaimed"));
    assert_eq!(world.run("payment reports --state open --output json").json()["items"], json!([]));
    let all = world.run("payment reports");
    let outcomes: Vec<&str> =
        all.done().lines().map(|line| line.split_whitespace().nth(3).unwrap()).collect();
    assert_eq!(outcomes, ["outcome", "settled_by_operator", "refund_failed", "order_paid"]);
    world
        .run("payment reports close 4711 --reason r")
        .refused(1, &["not found in handover.db: gateway report 4711", "see `handover payment reports`"]);
}
