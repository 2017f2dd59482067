//! A payment method outside the set, as older versions stored it, is neither shown nor published.

use handover_tests::deployment::Pair;
use serde_json::json;

use super::shop::{BUYER, Shop};

super::by_turns! {
    payment_method_of_an_older_version_is_never_published_or_shown,
}

const CARD: &str = "4111111111111111";

async fn payment_method_of_an_older_version_is_never_published_or_shown(pair: Pair) {
    let shop = Shop::open_with_spy(pair).await;
    let order = shop.order().await;
    let payment = shop.api.start_payment(BUYER, order).await.unwrap().id("paymentId");
    let row = format!("UPDATE payments SET payment_method = '{CARD}' WHERE id = {payment}");
    assert_eq!(shop.snapshot.change(&row).await, 1);
    shop.api.payment_succeeded(payment).await.unwrap().value();
    shop.settled().await;
    let of_payment = format!("aggregate_type = 'Payment' AND aggregate_id = {payment}");
    let payload = shop.rows(&format!("SELECT payload FROM outbox_events WHERE {of_payment}")).await.remove(0);
    assert!(payload.contains(r#""paymentMethod":"other""#), "{payload}");
    let stored = shop.rows(&format!("SELECT payment_method FROM payments WHERE id = {payment}")).await;
    assert_eq!(stored, [CARD], "the stored value is not changed");

    // The event as an older version stored it, sent again by an operator.
    let older = payload.replace("other", CARD);
    let change = format!("UPDATE outbox_events SET payload = '{older}' WHERE {of_payment}");
    assert_eq!(shop.snapshot.change(&change).await, 1);
    let event = shop.rows(&format!("SELECT event_id FROM outbox_events WHERE {of_payment}")).await.remove(0);
    let before = shop.broker.count(super::broker_access::SPY).await;
    let redrive = json!({ "eventIds": [event], "reason": "a test" });
    assert_eq!(shop.operate("outbox/redrive", redrive).await.value()["redriven"], 1);
    shop.expect_count(
        1,
        &format!(
            "SELECT count(*) FROM outbox_events WHERE {of_payment} AND status = 'SENT' AND update_time = sent_time"
        ),
    )
    .await;
    shop.settled().await;
    let messages = shop.broker.messages(super::broker_access::SPY).await;
    assert_eq!(i64::try_from(messages.len()).unwrap(), before + 1);
    let leaks: Vec<_> = messages.iter().filter(|message| message.body.contains(CARD)).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
    let repeated = messages.last().map(|message| message.body.as_str()).unwrap();
    assert!(repeated.contains(r#""paymentMethod":"other""#), "{repeated}");
    assert_eq!(shop.inspect("dead-letters").await.items(), Vec::<serde_json::Value>::new());
    let timeline =
        shop.api.get(BUYER, &format!("/api/v1/orders/{order}/timeline")).await.unwrap().value().to_string();
    assert!(timeline.contains(r#""other""#) && !timeline.contains(CARD), "{timeline}");
    let shown = shop.inspect(&format!("outbox/{event}")).await.value().to_string();
    assert!(!shown.contains(CARD), "{shown}");
}
