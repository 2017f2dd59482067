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

/// A payload or an envelope, as somebody sees it who sees people or does not.
pub(crate) fn shown(sees_people: bool, json: String) -> String {
    if sees_people { json } else { masked(&json) }
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
