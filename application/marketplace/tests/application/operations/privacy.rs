//! Masking of payloads for operators without the role `pii`.

use handover_outbox::MASK;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use serde_json::{Value, json};

use super::operators::*;
use crate::support::{World, event_id, sample};

/// Returns the payload of an event as shown to an operator.
async fn shown(payload: &str) -> String {
    let world = World::new().await;
    let process = world.process();
    let event = NewEvent { payload: payload.to_owned(), ..world.event("e-1", 1, &sample::changed(7)) };
    process.commit(vec![event]).await;
    find_event(&process.app.outbox, &acting(&operator()), &event_id("e-1")).await.unwrap().row.payload
}

#[tokio::test(start_paused = true)]
async fn personal_fields_are_masked_and_the_rest_is_unchanged() {
    let payload = r#"{"orderId":1,"orderNo":"20260131080000","buyerId":8,"sellerId":7,"totalAmount":88.50,"transactionId":"txn-1","paymentMethod":"card","payTime":"2026-01-31T08:00:00.5Z"}"#;
    let expected = r#"{"orderId":1,"orderNo":"20260131080000","buyerId":"***","sellerId":"***","totalAmount":88.50,"transactionId":"***","paymentMethod":"***","payTime":"2026-01-31T08:00:00.5Z"}"#;
    assert_eq!(
        shown(payload).await,
        expected,
        "the sequence of the fields and the digits of numbers must be unchanged"
    );
}

#[tokio::test(start_paused = true)]
async fn envelope_payload_is_masked() {
    let envelope = r#"{"eventType":"ORDER_PAID","traceId":"t-1","payload":{"orderId":1,"buyerId":8}}"#;
    let masked: Value = serde_json::from_str(&shown(envelope).await).unwrap();
    assert_eq!(masked["traceId"], "t-1");
    assert_eq!(masked["payload"], json!({ "orderId": 1, "buyerId": MASK }));
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_free_text_and_invalid_json_are_masked() {
    for (json, hidden) in [
        (r#"{"address":{"street":"Main St 1"}}"#, "Main"),
        (r#"{"payload":[{"phones":["13800001111"]}]}"#, "138"),
        (r#"{"reason":"call me at 13800001111"}"#, "138"),
        (r#"{"status":"张三"}"#, "张三"),
        (r#"{"Jane Doe":1}"#, "Jane"),
        (r#"{"orderId":1,"buyerId":8"#, "8"),
        (r#""Main St 1""#, "Main"),
        (r#"["Jane"]"#, "Jane"),
        ("Jane Doe, Main St 1", "Jane"),
    ] {
        let masked = shown(json).await;
        assert!(!masked.contains(hidden) && masked.contains(MASK), "{json}: {masked}");
    }
}
