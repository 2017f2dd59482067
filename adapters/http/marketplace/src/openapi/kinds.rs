//! JSON Schemas of the values in requests and responses: the toolkit's, and those of the marketplace.

use handover_events::MAX_ID;
use handover_http::kinds;
use marketplace::use_cases::operations::{FindingKind, Repair, TimelineKind};
use marketplace_domain::{self as domain, Product, Refund, Shipment};
use serde_json::{Value, json};
use utoipa::openapi::schema::{ObjectBuilder, Type};

use crate::value_limits::{MAX_GRANT, MAX_TRANSACTION_CHARS};

pub(crate) use handover_http::openapi::kinds::*;

kinds! {
    pub(crate),
    /// An amount of money with at most two decimals; responses always have two.
    Amount = decimal(0).examples([amount("88.50")]);
    /// A price, or another amount with the same limits; at most two decimals.
    Price = decimal(*Product::PRICE_MINOR.start())
        .maximum(Some(schema_limit(*Product::PRICE_MINOR.end())))
        .examples([amount("88.50")]);
    /// A minimum spend with at most two decimals; 0: no minimum.
    MinSpend = decimal(0).maximum(Some(schema_limit(*Product::PRICE_MINOR.end()))).examples([amount("100.00")]);
    /// An amount of an asset: money with two decimals, points as an integer. Debit entries are negative.
    AssetAmount = of(Type::Number).examples([amount("20.00"), json!(-300)]);
    /// A number of points.
    Points = integer(0, MAX_ID).examples([json!(300)]);
    /// A number of points to grant.
    GrantedPoints = integer(1, MAX_GRANT).examples([json!(300)]);
    /// Human-readable order number.
    OrderNo = of(Type::String).examples([json!("202601310800000000900001")]);
    /// The title of a product: no control characters, not blank.
    Title = text(domain::Title::MAX_CHARS).examples([json!("Desk lamp")]);
    /// A carrier or a tracking number: no control characters, not blank.
    ShipmentPart = text(Shipment::MAX_CHARS).examples([json!("SF1234567890")]);
    /// A payment method.
    PaymentMethod = one_of(domain::PaymentMethod::ACCEPTED).examples([json!("online")]);
    /// The payment method of a payment; `other`: a method of an earlier version.
    PaymentMethodName = one_of(domain::PaymentMethod::PUBLISHED).examples([json!("online")]);
    /// The gateway's id of a transaction: visible ASCII.
    TransactionId = visible_ascii(MAX_TRANSACTION_CHARS).examples([json!("txn-1")]);
    /// The name of a payment or of an attempt at a refund towards the gateway: a UUID. Unlike an id, it does not repeat after a
    /// restored backup.
    Reference = of(Type::String)
        .pattern(Some("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"))
        .examples([json!("0192f0c1-0000-7000-8000-000000000001")]);
    /// Reason for a refund: no control characters, not blank.
    RefundReason = text(Refund::MAX_REASON_CHARS).examples([json!("the item is damaged")]);
    /// Always `false`: a GET request does not repair.
    NoRepair = of(Type::Boolean).enum_values(Some([false]));
    /// The user's side of an order.
    Side = one_of(["buyer", "seller"]);
    /// Outcome reported by the payment gateway.
    GatewayResult = one_of(["SUCCESS", "FAILED"]);
    /// Currency code (ISO 4217).
    Currency = one_of([domain::Currency::CNY.as_str()]);
    /// Status of a product.
    ProductStatus = named(domain::ProductStatus::ALL, domain::ProductStatus::as_str);
    /// Status of an order.
    OrderStatus = named(domain::OrderStatus::ALL, domain::OrderStatus::as_str);
    /// State of a shipment task.
    ShipmentState = named(domain::ShipmentState::ALL, domain::ShipmentState::as_str);
    /// Reason for the cancellation of an order.
    CancelReason = named(domain::CancelReason::ALL, domain::CancelReason::as_str);
    /// Status of a payment.
    PaymentStatus = named(domain::PaymentStatus::ALL, domain::PaymentStatus::as_str);
    /// Status of a refund.
    RefundStatus = named(domain::RefundStatus::ALL, domain::RefundStatus::as_str);
    /// Status of an invoice.
    InvoiceStatus = named(domain::InvoiceStatus::ALL, domain::InvoiceStatus::as_str);
    /// A month in UTC.
    Period = of(Type::String)
        .pattern(Some("^[0-9]{4}-(0[1-9]|1[0-2])$"))
        .examples([json!("2026-02")]);
    /// A share in basis points.
    BasisPoints = integer(0, 10_000).examples([json!(250)]);
    /// Cause of a refund.
    RefundCause = named(domain::RefundCause::ALL, domain::RefundCause::as_str);
    /// Subject of a gateway report.
    ReportKind = named(domain::ReportKind::ALL, domain::ReportKind::as_str);
    /// What was done because of a gateway report.
    ReportOutcome = named(domain::ReportOutcome::ALL, domain::ReportOutcome::as_str);
    /// State of a gateway report; an operator must decide about an `OPEN` one.
    ReportState = named(domain::ReportState::ALL, domain::ReportState::as_str);
    /// Status of an asset hold.
    HoldStatus = named(domain::HoldStatus::ALL, domain::HoldStatus::as_str);
    /// Status of a coupon.
    CouponStatus = named(domain::CouponStatus::ALL, domain::CouponStatus::as_str);
    /// An account of the ledger.
    Account = named(domain::Account::ALL, domain::Account::as_str);
    /// A type of asset.
    Asset = named(domain::Asset::ALL, domain::Asset::as_str);
    /// Kind of an asset operation.
    Operation = named(domain::OperationKind::ALL, domain::OperationKind::as_str);
    /// Kind of a reconciliation finding.
    FindingName = named(FindingKind::ALL, FindingKind::as_str);
    /// State of a recorded finding.
    FindingState = named(domain::FindingState::ALL, domain::FindingState::as_str);
    /// Repair of a finding.
    RepairName = named(Repair::ALL, Repair::as_str);
    /// Kind of a timeline entry.
    TimelineName = named(TimelineKind::ALL, TimelineKind::as_str);
}

/// The kind of value of each type of the domain, for `views!`.
pub(crate) mod of_types {
    pub(crate) use handover_http::openapi::kinds::of_types::*;

    pub(crate) use crate::openapi::kinds::{
        CancelReason, Currency, InvoiceStatus, OrderNo, OrderStatus, PaymentStatus, Points, ProductStatus,
        Reference, RefundStatus, ShipmentState, Title,
    };

    use crate::openapi::kinds::{Amount, Id, Period};

    pub(crate) type BillingPeriod = Period;
    pub(crate) type CouponId = Id;
    pub(crate) type InvoiceId = Id;
    pub(crate) type Money = Amount;
    pub(crate) type OrderId = Id;
    pub(crate) type PaymentId = Id;
    pub(crate) type ProductId = Id;
    pub(crate) type RefundId = Id;
    pub(crate) type UserId = Id;
}

/// An example amount with its exact decimals.
fn amount(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Converts minor units to a schema limit. f64 is exact enough, because limits are only displayed and compared.
#[allow(clippy::cast_precision_loss, reason = "prices have at most nine digits")]
fn schema_limit(minor: i64) -> f64 {
    minor as f64 / 100.0
}

/// A number of at least `least` minor units. The limit of two decimals is only described in text: most validators evaluate
/// `multipleOf: 0.01` in binary floating point and reject 11,426 of the 99,999 amounts below 1,000.00.
fn decimal(least: i64) -> ObjectBuilder {
    of(Type::Number).minimum(Some(schema_limit(least)))
}
