//! The asset consumers receive all permutations of {created, paid, cancelled, refunded}, each event twice. They park
//! events that they cannot apply, and after replays all permutations give the same balances.

use handover_tests::deployment::Pair;
use serde_json::{Value, json};

use super::purses::{With, money, purses};
use super::shop::{BUYER, SELLER, SHORT_RETRIES, Shop};

const TYPES: [&str; 4] = ["ORDER_CREATED", "ORDER_PAID", "ORDER_CANCELLED", "ORDER_REFUNDED"];
const CONSUMERS: [(&str, &str); 3] =
    [("coupon", "asset.coupon.queue"), ("wallet", "asset.wallet.queue"), ("points", "asset.points.queue")];

/// All permutations of the four events.
fn permutations() -> Vec<[usize; 4]> {
    let mut permutations = Vec::new();
    for a in 0..4 {
        for b in (0..4).filter(|b| *b != a) {
            for c in (0..4).filter(|c| ![a, b].contains(c)) {
                permutations.push([a, b, c, 6 - a - b - c]);
            }
        }
    }
    permutations
}

/// Inserts ORDER_PAID, ORDER_CANCELLED and ORDER_REFUNDED by SQL, assigns `aggregate_seq` 1 to 4 to the four events of
/// the order in the sequence given by `permutation`, and sets the status of the order to refunded. ORDER_CANCELLED
/// contradicts this status.
async fn insert_events(shop: &Shop, order: i64, permutation: [usize; 4]) {
    let row =
        shop.snapshot.table(&format!("SELECT order_no, product_id FROM orders WHERE id = {order}")).await;
    let [number, product] = row.unwrap().remove(0).try_into().unwrap();
    let (number, product): (String, i64) = (number.unwrap(), product.unwrap().parse().unwrap());
    let order_fields = json!({
        "orderId": order, "orderNo": number, "buyerId": BUYER, "sellerId": SELLER, "totalAmount": money(8_850),
        "productId": product,
    });
    let with = |fields: Value| {
        let mut payload = order_fields.clone();
        payload.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        payload
    };
    let time = "2026-02-04T10:31:00Z";
    let payloads = [
        None,
        Some(with(json!({"payTime": time, "amount": money(5_700)}))),
        Some(with(json!({"reason": "buyer", "cancelledAt": time}))),
        Some(with(json!({"refundId": order, "amount": money(5_700), "refundedAt": time}))),
    ];
    for (index, what) in permutation.into_iter().enumerate() {
        let seq = index + 1;
        let sql = match &payloads[what] {
            None => format!(
                "UPDATE outbox_events SET aggregate_seq = {seq} WHERE event_type = 'ORDER_CREATED'
                 AND aggregate_type = 'Order' AND aggregate_id = {order}"
            ),
            Some(payload) => format!(
                "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, payload,
                    status, retry_count, create_time, update_time)
                 SELECT '{order}-{what}', '{}', aggregate_type, aggregate_id, {seq}, '{payload}', 'NEW', 0, create_time,
                    update_time
                 FROM outbox_events WHERE event_type = 'ORDER_CREATED' AND aggregate_type = 'Order'
                 AND aggregate_id = {order}",
                TYPES[what]
            ),
        };
        assert_eq!(shop.snapshot.change(&sql).await, 1);
    }
    let refunded = format!(
        "UPDATE orders SET status = 'refunded', version = 4, pay_time = create_time, refund_id = id WHERE id = {order}"
    );
    assert_eq!(shop.snapshot.change(&refunded).await, 1);
}

/// Checks the invariants that hold at any time, even with parked events.
async fn assert_sums(shop: &Shop) {
    let mut broken = shop.snapshot.broken().await;
    broken.retain(|found| {
        ["the ledger", "a balance", "a frozen balance", "an operation"]
            .iter()
            .any(|part| found.starts_with(part))
    });
    assert_eq!(broken, Vec::<String>::new());
}

async fn events_in_any_order_give_same_balances_or_are_parked(pair: Pair) {
    let shop = Shop::open_on(
        handover_tests::deployment::Deployment::start(pair).await,
        &[SHORT_RETRIES],
        Some("api"),
    )
    .await;
    let permutations = permutations();
    let orders = i64::try_from(permutations.len()).unwrap();
    assert_eq!(orders, 24);
    shop.deposit(BUYER, orders * 2_000).await;
    shop.grant(BUYER, orders * 150).await;
    let mut placed = Vec::new();
    for permutation in &permutations {
        let coupon = shop.coupon(BUYER, 1_000).await;
        let order = shop.order_with(With { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
        insert_events(&shop, order, *permutation).await;
        placed.push(order);
    }
    let shop = shop.reopen();
    shop.settled().await;
    assert_sums(&shop).await;
    // Redrive all events.
    let again = json!({"filter": {"status": "SENT", "eventType": Value::Null}, "reason": "twice"});
    let mut again = again;
    again["filter"].as_object_mut().unwrap().remove("eventType");
    shop.operate("outbox/redrive", again).await.value();
    shop.settled().await;
    assert_sums(&shop).await;
    // A person replays the parked events in the order in which they happened.
    for what in TYPES {
        for (_, queue) in CONSUMERS {
            let parked = shop
                .rows(&format!(
                    "SELECT message_key FROM dead_letters WHERE queue = '{queue}' AND event_type = '{what}'
                     AND status = 'OPEN'"
                ))
                .await;
            if !parked.is_empty() {
                let replay = json!({"keys": parked, "queue": queue, "reason": "its predecessor is applied"});
                shop.operate("dead-letters/replay", replay).await.value();
            }
        }
        shop.settled().await;
    }
    assert_sums(&shop).await;
    let purses_now = shop.purses(BUYER).await;
    assert_eq!(purses_now, purses(orders * 2_000, 0, orders * 150, 0));
    let free = shop.snapshot.number("SELECT count(*) FROM coupons WHERE status = 'AVAILABLE'").await;
    assert_eq!(free, orders);
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM asset_holds WHERE status = 'FROZEN'").await, 0);
    // No order was cancelled, so ORDER_CANCELLED stays parked at each consumer.
    let parked = shop
        .snapshot
        .number("SELECT count(DISTINCT message_key) FROM dead_letters WHERE status = 'OPEN' AND queue LIKE 'asset.%'")
        .await;
    assert!(parked >= orders, "{parked}");
}

super::by_turns! {
    events_in_any_order_give_same_balances_or_are_parked,
}
