//! Parses the marketplace's values in body fields.

use handover_events::MAX_ID;
use handover_http::messages::Text;
use handover_http::reads;
use handover_http::values::{integer, name, number, short_text, text, visible_ascii};
use marketplace_domain::{
    BillingPeriod, Money, MoneyError, NotAPeriod, NotAReference, PaymentMethod, PaymentResult, Points,
    Product, Reference, Refund, RefundResult, Shipment, Title,
};
use serde_json::Value;

use crate::messages;
use crate::openapi::kinds;
use crate::value_limits::{MAX_GRANT, MAX_TRANSACTION_CHARS};

reads! {
    Amount: Money = |value| Money::parse(number(value)?.as_str()).map_err(messages::money);
    Price: Money = |value| amount_from(value, *Product::PRICE_MINOR.start());
    MinSpend: Money = |value| amount_from(value, 0);
    Points: Points = |value| number(value).and_then(|_| Ok(Points::try_from(integer(value, 0, MAX_ID)?)?));
    GrantedPoints: Points = |value| Ok(Points::try_from(integer(value, 1, MAX_GRANT)?)?);
    GatewayResult: PaymentResult = |value| result(value, PaymentResult::Success, PaymentResult::Failed);
    GatewayResult: RefundResult = |value| result(value, RefundResult::Success, RefundResult::Failed);
    Title: Title = |value| Ok(Title::try_from(text(value)?.to_owned())?);
    ShipmentPart: String = |value| short_text(text(value)?, Shipment::MAX_CHARS);
    PaymentMethod: PaymentMethod = |value| name(text(value)?);
    RefundReason: String = |value| short_text(text(value)?, Refund::MAX_REASON_CHARS);
    Reference: Reference = |value| text(value)?.parse().map_err(|_: NotAReference| messages::NOT_A_REFERENCE);
    Period: BillingPeriod = |value| text(value)?.parse().map_err(|_: NotAPeriod| messages::NOT_A_PERIOD);
    TransactionId: String = |value| visible_ascii(text(value)?, MAX_TRANSACTION_CHARS);
}

/// Reads an amount from `least` minor units to the maximum price. The message is the same for every amount out of range,
/// including those that `Money` cannot represent.
fn amount_from(value: &Value, least: i64) -> Result<Money, Text> {
    let greatest = *Product::PRICE_MINOR.end();
    match Money::parse(number(value)?.as_str()) {
        Ok(amount) if (least..=greatest).contains(&amount.minor()) => Ok(amount),
        Ok(_) | Err(MoneyError::OutOfRange) => Err(messages::amount_range(least, greatest)),
        Err(error @ (MoneyError::NotDecimal | MoneyError::TooPrecise)) => Err(messages::money(error)),
    }
}

/// Reads the outcome that the gateway reports.
fn result<T>(value: &Value, success: T, failed: T) -> Result<T, Text> {
    match value.as_str() {
        Some("SUCCESS") => Ok(success),
        Some("FAILED") => Ok(failed),
        Some(_) | None => Err(messages::one_of("SUCCESS FAILED")),
    }
}
