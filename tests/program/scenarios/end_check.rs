//! The end check that scenarios and faults rely on, tested: it finds what is planted in a sound database of any engine.

use handover_tests::deployment::Pair;

use super::purses::With;
use super::shop::{BUYER, Shop};

/// What would be wrong, and the start of the sentence that must notice.
const PLANTED: [(&str, &str); 26] = [
    ("UPDATE outbox_events SET event_type = 'ORDER_REFUNDED' WHERE event_type = 'ORDER_CREATED'", "an order has no ORDER_CREATED"),
    ("DELETE FROM outbox_events WHERE event_type = 'ORDER_TIMEOUT'", "an order has no ORDER_TIMEOUT"),
    ("DELETE FROM outbox_events WHERE event_type = 'ORDER_PAID'", "an order was paid without"),
    ("UPDATE orders SET status = 'cancelled' WHERE status = 'paid'", "a product is sold without"),
    ("UPDATE products SET status = 'on_sale'", "a product with a live order is not sold"),
    ("DELETE FROM listing_changes", "an order is not in the listing of its seller once"),
    ("UPDATE listing_changes SET kind = 'RELEASED' WHERE order_id IN (SELECT id FROM orders WHERE status = 'paid')",
        "a product was released by an order"),
    ("DELETE FROM shipments", "a paid order has not exactly one shipment"),
    ("UPDATE shipments SET order_id = order_id + 1000", "an effect has no order"),
    ("DELETE FROM notifications WHERE side = 'seller'", "a changed status was not told to buyer and seller"),
    ("UPDATE notifications SET aggregate_seq = 9 - aggregate_seq", "the notifications of an order are out of order"),
    ("DELETE FROM buyer_credit_changes", "an order that counts for its buyer was counted not exactly once"),
    ("UPDATE buyer_credit SET score = score + 1", "a buyer's credit is not the sum of its changes"),
    ("UPDATE shipments SET event_id = 'nobody'", "an effect comes from no event"),
    ("UPDATE listing_changes SET aggregate_seq = 9 - aggregate_seq", "the effects of an order are out of order"),
    ("UPDATE event_consume_log SET status = 'FAILED' WHERE consumer = 'webhooks' AND event_type = 'ORDER_PAID'
        AND event_id IN (SELECT min(event_id) FROM event_consume_log WHERE event_type = 'ORDER_PAID')",
        "a subscribed consumer has not settled"),
    ("UPDATE ledger_entries SET amount = amount + 1 WHERE account = 'wallet'",
        "an operation of the ledger does not sum to zero"),
    ("UPDATE ledger_entries SET account = 'platform' WHERE account = 'wallet_hold' AND amount > 0",
        "what is frozen is not what is held"),
    ("UPDATE asset_holds SET reverted = 1 WHERE status = 'RELEASED'", "a hold did not end as its order did"),
    ("UPDATE asset_holds SET order_id = 999999 WHERE status = 'COMMITTED'", "a hold did not end as its order did"),
    ("DELETE FROM asset_holds WHERE status = 'RELEASED'", "an order ended, or was paid, without one hold"),
    ("UPDATE asset_operations SET amount = amount + 1 WHERE kind = 'EARN'", "points were not earned"),
    ("DELETE FROM asset_operations WHERE kind = 'CAPTURE'", "a payment was not captured once"),
    ("UPDATE refunds SET status = 'FAILED'", "a refund was not paid out once"),
    ("UPDATE orders SET status = 'paid' WHERE status = 'refunded'", "an order was refunded without its money back"),
    ("UPDATE payments SET refund_due = 1 WHERE order_id IN (SELECT id FROM orders WHERE status = 'paid')",
        "a payment that came too late has no refund"),
];

async fn the_end_check_finds_what_is_planted(pair: Pair) {
    // The sandbox would settle refunds by itself; here the test is the gateway.
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
    // Nothing else writes from now on.
    let (_deployment, books) = shop.close();
    let books = books.on_one_connection();
    for (fault, sentence) in PLANTED {
        assert_eq!(books.broken().await, Vec::<String>::new());
        books.change("BEGIN").await;
        assert!(books.change(fault).await > 0, "{fault}");
        let broken = books.broken().await;
        books.change("ROLLBACK").await;
        assert!(broken.iter().any(|found| found.starts_with(sentence)), "{fault}: {broken:#?}");
    }
}

super::by_turns! {
    the_end_check_finds_what_is_planted: sqlite_and_database,
}
