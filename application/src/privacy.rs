//! What an operator sees of people: nothing, unless it holds the role `pii` (spec §1 "tenant"; 002: masked payloads).
//!
//! **Invariant:** what is shown is listed here; a field that nobody has thought of is masked, and so is what is no code,
//! number or time.

use serde_json::Value;

use crate::{CommandContext, Role};

/// What stands in the place of what is masked.
pub const MASK: &str = "***";

/// Fields of envelopes and payloads that tell of orders, money and times, and of nobody. Who buys, who sells, how
/// somebody pays and what the gateway calls it (`buyerId`, `sellerId`, `paymentMethod`, `transactionId`) are not among
/// them.
const SHOWN: [&str; 37] = [
    "aggregateId",
    "aggregateType",
    "amount",
    "cancelledAt",
    "changedAt",
    "couponId",
    "createTime",
    "currency",
    "eventId",
    "eventType",
    "invoiceId",
    "newStatus",
    "occurredAt",
    "occurredTime",
    "oldStatus",
    "orderId",
    "orderNo",
    "payTime",
    "payload",
    "paymentId",
    "periodEnd",
    "periodStart",
    "points",
    "price",
    "productId",
    "quantity",
    "reason",
    "refundId",
    "refundedAt",
    "status",
    "tenantId",
    "total",
    "totalAmount",
    "traceId",
    "updateTime",
    "version",
    "walletAmount",
];

/// The longest text that is taken for a code or a time.
const MAX_CODE_CHARS: usize = 64;

/// Whether this caller sees people.
pub(crate) fn sees_people(context: &CommandContext) -> bool {
    context.has(Role::Pii)
}

/// A payload or an envelope as this caller sees it.
pub(crate) fn shown(context: &CommandContext, json: String) -> String {
    if sees_people(context) { json } else { masked(&json) }
}

/// What somebody wrote, as this caller sees it.
pub(crate) fn shown_words(context: &CommandContext, words: String) -> String {
    if sees_people(context) { words } else { MASK.to_owned() }
}

fn masked(json: &str) -> String {
    match serde_json::from_str::<Value>(json) {
        Ok(object @ Value::Object(_)) => of_value(object).to_string(),
        // No message of ours: nobody knows what it says.
        Ok(_) | Err(_) => Value::from(MASK).to_string(),
    }
}

fn of_value(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let shown = |name: &str| SHOWN.contains(&name);
            let field = |(name, value): (String, Value)| {
                let value = if shown(&name) { of_value(value) } else { MASK.into() };
                // A name can tell as much as a value.
                (if is_code(&name) { name } else { MASK.to_owned() }, value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(of_value).collect()),
        Value::String(text) if !is_code(&text) => MASK.into(),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => value,
    }
}

/// A status, an id, an amount, a time: nothing that people write to each other.
fn is_code(text: &str) -> bool {
    text.len() <= MAX_CODE_CHARS
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':' | b'+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked_value(json: &str) -> Value {
        serde_json::from_str(&masked(json)).unwrap()
    }

    #[test]
    fn who_buys_and_sells_and_how_they_pay_is_masked_and_the_rest_is_as_it_was() {
        let payload = r#"{"orderId":1,"orderNo":"20260131080000","buyerId":8,"sellerId":7,"totalAmount":88.50,"transactionId":"txn-1","paymentMethod":"card","payTime":"2026-01-31T08:00:00.5Z"}"#;
        let expected = r#"{"orderId":1,"orderNo":"20260131080000","buyerId":"***","sellerId":"***","totalAmount":88.50,"transactionId":"***","paymentMethod":"***","payTime":"2026-01-31T08:00:00.5Z"}"#;
        assert_eq!(masked(payload), expected, "order and digits are kept");
    }

    #[test]
    fn an_envelope_is_masked_inside() {
        let shown =
            masked_value(r#"{"eventType":"ORDER_PAID","traceId":"t-1","payload":{"orderId":1,"buyerId":8}}"#);
        assert_eq!(shown["traceId"], "t-1");
        assert_eq!(shown["payload"], serde_json::json!({ "orderId": 1, "buyerId": MASK }));
    }

    #[test]
    fn what_nobody_has_thought_of_is_masked() {
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
            let shown = masked(json);
            assert!(!shown.contains(hidden) && shown.contains(MASK), "{json}: {shown}");
        }
    }
}
