//! The end check that scenarios and faults rely on, tested: it finds what is planted in a sound database of any engine.

use handover_tests::deployment::Pair;

use super::shop::{BUYER, Shop};

/// What would be wrong, and the start of the sentence that must notice.
const PLANTED: [(&str, &str); 17] = [
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
    ("DELETE FROM notifications WHERE side = 'seller'", "a changed status was not told to buyer and seller"),
    ("INSERT INTO notifications SELECT id + 100, tenant_id, user_id, side, order_id, aggregate_seq, old_status,
        new_status, changed_at, event_id, create_time FROM notifications",
        "a changed status was not told to buyer and seller"),
    ("UPDATE notifications SET aggregate_seq = 9 - aggregate_seq", "the notifications of an order are out of order"),
    ("DELETE FROM buyer_credit_changes", "an order that counts for its buyer was counted not exactly once"),
    ("INSERT INTO buyer_credit_changes SELECT id + 100, tenant_id, buyer_id, order_id, aggregate_seq, step, event_id,
        create_time FROM buyer_credit_changes", "an order that counts for its buyer was counted not exactly once"),
    ("UPDATE buyer_credit SET score = score + 1", "a buyer's credit is not the sum of its changes"),
    ("UPDATE shipments SET event_id = 'nobody'", "an effect comes from no event"),
    ("UPDATE listing_changes SET aggregate_seq = 9 - aggregate_seq", "the effects of an order are out of order"),
    ("UPDATE event_consume_log SET status = 'FAILED' WHERE consumer = 'webhooks' AND event_type = 'ORDER_PAID'
        AND event_id IN (SELECT min(event_id) FROM event_consume_log WHERE event_type = 'ORDER_PAID')",
        "a subscribed consumer has not settled"),
];

async fn the_end_check_finds_what_is_planted(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    shop.paid_order().await;
    let completed = shop.paid_order().await;
    shop.complete(completed).await;
    let cancelled = shop.order().await;
    shop.api.cancel(BUYER, cancelled).await.unwrap().value();
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
