//! The five scenarios of 004 "验收标准", over HTTP and with real restarts.

use handover_tests::deployment::{Deployment, Pair};
use serde_json::{Value, json};

use super::purses::{With, money, purses};
use super::shop::{BUYER, Shop};

const ALL: With = With { coupon: None, wallet: 2_000, points: 150 };

/// 1 "宕机后重启": an event that was committed but not published before the crash is sent afterwards.
async fn s004_1_committed_event_is_sent_after_crash_and_assets_are_locked(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    // The API role subscribes all consumers before the first order, although they do not run.
    let shop = Shop::open_on(deployment, &[], Some("api")).await;
    let coupon = shop.fill_purses().await;
    let order = shop.order_with(With { coupon: Some(coupon), ..ALL }).await;
    let new = format!(
        "SELECT count(*) FROM outbox_events WHERE aggregate_type = 'Order' AND aggregate_id = {order} AND status = 'NEW'"
    );
    assert_eq!(shop.snapshot.number(&new).await, 2);
    let shop = shop.kill_and_reopen();
    shop.locked(order, 3).await;
    shop.settled().await;
    let sent = new.replace("'NEW'", "'SENT'");
    assert_eq!(shop.snapshot.number(&sent).await, 2);
    assert_eq!(shop.purses(BUYER).await, purses(3_000, 2_000, 150, 150));
    assert_eq!(shop.coupon_status(coupon).await, "LOCKED");
    shop.assert_invariants_except(&[]).await;
}

/// 2 "支付回调重复触发": the gateway reports twice, and the event is inserted twice.
async fn s004_2_repeated_payment_report_commits_assets_once(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let coupon = shop.fill_purses().await;
    let order = shop.order_with(With { coupon: Some(coupon), ..ALL }).await;
    shop.locked(order, 3).await;
    let payment = shop.api.start_payment(BUYER, order).await.unwrap().value();
    assert_eq!(payment["amount"], money(5_700), "88.50 - 10.00 - 20.00 - 1.50");
    let id = payment["paymentId"].as_i64().unwrap();
    for _ in 0..2 {
        shop.api.payment_of_reported(id, &payment["amount"], "SUCCESS").await.unwrap().value();
    }
    shop.settled().await;
    let paid = shop.event_ids(order, "ORDER_PAID").await;
    assert_eq!(paid.len(), 1);
    let again = format!(
        "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, retry_count,
            create_time, update_time)
         SELECT event_id, event_type, aggregate_type, aggregate_id, payload, 'NEW', 0, create_time, update_time
         FROM outbox_events WHERE event_id = '{}'",
        paid[0]
    );
    let refused = shop.snapshot.try_change(&again).await.unwrap_err().to_string().to_lowercase();
    assert!(["unique", "duplicate"].iter().any(|word| refused.contains(word)), "{refused}");
    // The event is inserted again under another id, as by a program that ran twice. Every effect exists already.
    shop.snapshot.change(&again.replace("SELECT event_id,", "SELECT 'paid-again',")).await;
    shop.expect_count(
        3,
        "SELECT count(*) FROM event_consume_log WHERE event_id = 'paid-again' AND status = 'SUCCESS'
         AND consumer IN ('coupon', 'wallet', 'points')",
    )
    .await;
    assert_eq!(shop.purses(BUYER).await, purses(3_000, 0, 150 + 57, 0));
    assert_eq!(shop.coupon_status(coupon).await, "USED");
    let commits =
        format!("SELECT count(*) FROM asset_operations WHERE order_id = {order} AND kind = 'COMMIT'");
    assert_eq!(shop.snapshot.number(&commits).await, 3);
}

/// 3 "锁定超时自动释放": the order stays unpaid, and the reaper closes it and releases its locks. The reaper starts only after
/// all locks were observed, because locking may take longer than the lock timeout on a busy machine.
async fn s004_3_expired_lock_is_released_by_reaper(pair: Pair) {
    let settings =
        [("HANDOVER_ASSET__LOCK_TIMEOUT_MINUTES", "0.05"), ("HANDOVER_ASSET__REAPER_INTERVAL", "200ms")];
    let deployment = Deployment::start(pair).await;
    let shop = Shop::open_on(deployment, &settings, Some("api,relay,consumers")).await;
    let coupon = shop.fill_purses().await;
    let order = shop.order_with(With { coupon: Some(coupon), ..ALL }).await;
    shop.locked(order, 3).await;
    let shop = shop.reopen();
    let released =
        format!("SELECT count(*) FROM asset_holds WHERE order_id = {order} AND status = 'RELEASED'");
    shop.expect_count(3, &released).await;
    assert_eq!(shop.order_field(order, "status").await, "cancelled");
    assert_eq!(shop.order_field(order, "cancelReason").await, "timeout");
    shop.settled().await;
    assert_eq!(shop.purses(BUYER).await, purses(5_000, 0, 300, 0));
    assert_eq!(shop.coupon_status(coupon).await, "AVAILABLE");
    let id = order.to_string();
    shop.expect_logged(&["[LockTimeoutReaper]", "lock released", &id, "ageSeconds", ":release"]).await;
    shop.assert_invariants_except(&[]).await;
}

/// 4 "事件丢失自动补发": an order and its payment become paid by SQL, without events.
async fn s004_4_lost_event_is_restored_by_consistency_job_and_takes_effect_once(pair: Pair) {
    let shop = Shop::open(pair, &[("HANDOVER_CONSISTENCY__INTERVAL", "1s")]).await;
    let coupon = shop.fill_purses().await;
    let order = shop.order_with(With { coupon: Some(coupon), ..ALL }).await;
    shop.locked(order, 3).await;
    let now = chrono::Utc::now().format(if pair == Pair::SqliteAlone {
        "%Y-%m-%dT%H:%M:%S%.6fZ"
    } else {
        "%Y-%m-%d %H:%M:%S%.6f"
    });
    let silently = format!(
        "UPDATE orders SET status = 'paid', version = 2, pay_time = '{now}', update_time = '{now}' WHERE id = {order}"
    );
    let payment = shop.api.start_payment(BUYER, order).await.unwrap().id("paymentId");
    let settled = format!(
        "UPDATE payments SET status = 'SUCCESS', transaction_id = 'by-sql', version = 2, update_time = '{now}'
         WHERE id = {payment}"
    );
    for change in [settled, silently] {
        assert_eq!(shop.snapshot.change(&change).await, 1);
    }
    let committed =
        format!("SELECT count(*) FROM asset_holds WHERE order_id = {order} AND status = 'COMMITTED'");
    shop.expect_count(3, &committed).await;
    shop.settled().await;
    assert_eq!(shop.event_ids(order, "ORDER_PAID").await.len(), 1);
    assert_eq!(shop.purses(BUYER).await, purses(3_000, 0, 150 + 57, 0));
    shop.expect_logged(&["[OrderAssetConsistency]", "ORDER_PAID", &order.to_string()]).await;
}

/// 5 "完整链路追踪": all steps, from the request to the change of each asset, have one trace id.
async fn s004_5_log_contains_all_steps_of_order_in_one_trace(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let coupon = shop.fill_purses().await;
    let api = shop.api.clone().traced("trace-of-004");
    let product = shop.product().await;
    let body = json!({"productId": product, "couponId": coupon, "walletAmount": 20, "points": 150});
    let order = api.post(BUYER, "/api/v1/orders", body).await.unwrap().id("orderId");
    shop.locked(order, 3).await;
    shop.settled().await;
    let created = shop.event_ids(order, "ORDER_CREATED").await.remove(0);
    shop.expect_logged(&["trace-of-004", "/api/v1/orders"]).await;
    shop.expect_logged(&["[OutboxRelay] Event sent successfully", "trace-of-004", &created]).await;
    for (consumer, key) in [
        ("coupon", format!("order:{order}:checkout")),
        ("wallet", format!("wallet:{order}:freeze")),
        ("points", format!("points:{order}:freeze")),
    ] {
        let line = format!("[{consumer}] Message consumed successfully");
        shop.expect_logged(&[&line, "trace-of-004", &created, &key, "locked"]).await;
    }
    let timeline = shop.api.get(BUYER, &format!("/api/v1/orders/{order}/timeline")).await.unwrap().value();
    let items = timeline["items"].as_array().unwrap();
    let wallet = items.iter().find(|item| item["idempotencyKey"] == json!(format!("wallet:{order}:freeze")));
    let wallet = wallet.unwrap_or_else(|| panic!("{timeline}"));
    assert_eq!((&wallet["amount"], &wallet["balanceAfter"]), (&json!("20.00"), &json!("30.00")));
}

/// The lines of all processes in which a field, or a field of the span, has this value: the code and the line.
fn found(shop: &Shop, field: &str, value: &Value) -> Vec<(String, Value)> {
    let log = shop.launch().log();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of = |line: &Value| line[field] == *value || line["span"][field] == *value;
    lines.filter(of).map(|line| (line["code"].as_str().unwrap_or_default().to_owned(), line)).collect()
}

/// 5 "完整链路追踪", by the log of two processes: one has the API, the other relay, consumers and jobs.
async fn s004_5_search_for_order_or_request_finds_every_step_in_logs_of_two_processes(pair: Pair) {
    let shop = Shop::open_with_roles(pair, "api").await;
    let _others = shop.launch().clone().roles("relay,consumers,jobs,webhooks").start().unwrap();
    let coupon = shop.fill_purses().await;
    let product = shop.product().await;
    let body = json!({"productId": product, "couponId": coupon, "walletAmount": 20, "points": 150});
    let api = shop.api.clone().with_request_id("request-of-004");
    let order = api.post(BUYER, "/api/v1/orders", body).await.unwrap().id("orderId");
    shop.locked(order, 3).await;
    shop.settled().await;
    let created = shop.event_ids(order, "ORDER_CREATED").await.remove(0);
    shop.expect_logged(&["[inventory] Message consumed successfully", &created]).await;

    for lines in [found(&shop, "orderId", &json!(order)), found(&shop, "requestId", &json!("request-of-004"))]
    {
        let with = |code: &str| -> Vec<&Value> {
            lines.iter().filter(|(found, _)| found == code).map(|(_, line)| line).collect()
        };
        let [placed] = with("order.placed")[..] else { panic!("{lines:#?}") };
        assert_eq!(
            (&placed["orderId"], &placed["requestId"], &placed["result"], &placed["productId"]),
            (&json!(order), &json!("request-of-004"), &json!("product locked"), &json!(product))
        );
        let trace = &placed["traceId"];
        assert_eq!(trace.as_str().unwrap().len(), 32, "{placed}");
        let of_event = |line: &&Value| line["eventId"] == json!(created);
        for code in ["outbox.event.appended", "outbox.event.sent"] {
            let [line] = with(code).into_iter().filter(of_event).collect::<Vec<_>>()[..] else {
                panic!("{code}: {lines:#?}")
            };
            assert_eq!(
                (&line["eventType"], &line["traceId"], &line["requestId"], &line["span"]["orderId"]),
                (&json!("ORDER_CREATED"), trace, &json!("request-of-004"), &json!(order)),
                "{line}"
            );
        }
        let applied: Vec<&Value> = with("consumer.event.applied").into_iter().filter(of_event).collect();
        let mut consumers: Vec<&str> =
            applied.iter().map(|line| line["consumer"].as_str().unwrap()).collect();
        consumers.sort_unstable();
        assert_eq!(consumers, ["coupon", "inventory", "points", "wallet"]);
        for line in applied {
            assert_eq!(
                (&line["traceId"], &line["requestId"], &line["span"]["orderId"]),
                (trace, &json!("request-of-004"), &json!(order)),
                "{line}"
            );
            assert!(line["queue"].is_string() && line["result"].is_string(), "{line}");
            let key = match line["consumer"].as_str().unwrap() {
                "coupon" => format!("order:{order}:checkout"),
                "wallet" => format!("wallet:{order}:freeze"),
                "points" => format!("points:{order}:freeze"),
                _ => continue,
            };
            assert_eq!(line["idempotencyKey"], json!(key), "{line}");
            assert!(line["result"].as_str().unwrap().starts_with("locked"), "{line}");
        }
    }
}

super::by_turns! {
    s004_1_committed_event_is_sent_after_crash_and_assets_are_locked,
    s004_2_repeated_payment_report_commits_assets_once,
    s004_3_expired_lock_is_released_by_reaper,
    s004_4_lost_event_is_restored_by_consistency_job_and_takes_effect_once,
    s004_5_log_contains_all_steps_of_order_in_one_trace,
    s004_5_search_for_order_or_request_finds_every_step_in_logs_of_two_processes: rabbitmq,
}
