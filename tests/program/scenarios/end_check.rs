//! Tests of the final check that scenarios and fault tests use: it finds errors planted in a correct database.

use handover_tests::deployment::Pair;

use super::purses::With;
use super::shop::{BUYER, Shop};

/// A statement that plants an error, and the start of the invariant that must report it.
const PLANTED: [(&str, &str); 27] = [
    ("UPDATE outbox_events SET event_type = 'ORDER_REFUNDED' WHERE event_type = 'ORDER_CREATED'", "an order has no ORDER_CREATED"),
    ("DELETE FROM outbox_events WHERE event_type = 'ORDER_TIMEOUT'", "an order has no ORDER_TIMEOUT"),
    ("DELETE FROM outbox_events WHERE event_type = 'ORDER_PAID'", "an order was paid without exactly one ORDER_PAID"),
    ("UPDATE orders SET status = 'cancelled' WHERE status = 'paid'", "a product is sold without a live order"),
    ("UPDATE products SET status = 'on_sale'", "a product with a live order is not sold"),
    ("DELETE FROM listing_changes", "an order does not have exactly one listing change"),
    ("UPDATE listing_changes SET kind = 'RELEASED' WHERE order_id IN (SELECT id FROM orders WHERE status = 'paid')",
        "a product was released by an order that is neither cancelled nor refunded"),
    ("DELETE FROM shipments", "a paid order does not have exactly one shipment"),
    ("UPDATE shipments SET order_id = order_id + 1000", "an effect belongs to no order"),
    ("DELETE FROM notifications WHERE side = 'seller'", "a status change was not notified"),
    ("UPDATE notifications SET aggregate_seq = 9 - aggregate_seq", "the notifications of an order are not in the sequence of its events"),
    ("DELETE FROM buyer_credit_changes", "an order was not counted exactly once"),
    ("UPDATE buyer_credit SET score = score + 1", "a buyer's credit is not the sum of its changes"),
    ("UPDATE shipments SET event_id = 'nobody'", "an effect belongs to no event"),
    ("UPDATE listing_changes SET aggregate_seq = 9 - aggregate_seq", "the listing changes of an order are not in the sequence of its events"),
    ("UPDATE event_consume_log SET status = 'FAILED' WHERE consumer = 'fulfillment' AND event_type = 'ORDER_PAID'
        AND event_id IN (SELECT min(event_id) FROM event_consume_log WHERE event_type = 'ORDER_PAID')",
        "a subscribed consumer has not applied one of its events"),
    ("UPDATE outbox_events SET idle_consumers = '[\"wallet\"]' WHERE event_type = 'ORDER_CREATED'",
        "an event is not delivered to the consumer of an asset"),
    ("UPDATE ledger_entries SET amount = amount + 1 WHERE account = 'wallet'",
        "an operation of the ledger does not sum to zero"),
    ("UPDATE ledger_entries SET account = 'platform' WHERE account = 'wallet_hold' AND amount > 0",
        "a frozen balance is not the sum of its holds"),
    ("UPDATE asset_holds SET reverted = 1 WHERE status = 'RELEASED'", "the status of a hold does not match its order"),
    ("UPDATE asset_holds SET order_id = 999999 WHERE status = 'COMMITTED'", "the status of a hold does not match its order"),
    ("DELETE FROM asset_holds WHERE status = 'RELEASED'", "an order that is not pending does not have exactly one hold"),
    ("UPDATE asset_operations SET amount = amount + 1 WHERE kind = 'EARN'", "the points earned do not match"),
    ("DELETE FROM asset_operations WHERE kind = 'CAPTURE'", "a successful payment was not captured exactly once"),
    ("UPDATE refunds SET status = 'FAILED'", "a successful refund was not paid out exactly once"),
    ("UPDATE orders SET status = 'paid' WHERE status = 'refunded'", "the refunds of an order do not match its payments"),
    ("UPDATE payment_captures SET refund_due = 1 WHERE order_id IN (SELECT id FROM orders WHERE status = 'paid')",
        "a late payment has no refund"),
];

async fn final_check_reports_planted_error(pair: Pair) {
    // With this delay the sandbox gateway reports no refund during the test: the test acts as the gateway.
    let shop = Shop::open(pair, &[("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h")]).await;
    shop.paid_order().await;
    let completed = shop.paid_order().await;
    shop.complete(completed).await;
    shop.fill_purses().await;
    let with_assets = With { wallet: 1_000, points: 50, ..With::default() };
    let cancelled = shop.order_with(with_assets).await;
    shop.locked(cancelled, 2).await;
    shop.api.cancel(BUYER, cancelled).await.unwrap().value();
    let refunded = shop.order_with(with_assets).await;
    shop.locked(refunded, 2).await;
    shop.pay_rest(refunded).await;
    let refund = shop.refund(refunded).await;
    shop.api.refund_reported(refund, "SUCCESS").await.unwrap().value();
    shop.settled().await;
    // The program has stopped, so only this test writes.
    let (_deployment, snapshot) = shop.close();
    let snapshot = snapshot.on_one_connection();
    for (fault, sentence) in PLANTED {
        assert_eq!(snapshot.broken().await, Vec::<String>::new());
        snapshot.change("BEGIN").await;
        assert!(snapshot.change(fault).await > 0, "{fault}");
        let broken = snapshot.broken().await;
        snapshot.change("ROLLBACK").await;
        assert!(broken.iter().any(|found| found.starts_with(sentence)), "{fault}: {broken:#?}");
    }
}

super::by_turns! {
    final_check_reports_planted_error: sqlite_and_database,
}
