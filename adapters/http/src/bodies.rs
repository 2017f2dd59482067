//! What requests say, as a client writes it down: the routes read the same fields one by one (`fields.rs`), so that
//! everything that is wrong is named at once.

use chrono::{DateTime, Utc};
use handover_events::{EventId, OutboxStatus, TenantId};
use marketplace_domain::{
    CouponId, Money, PaymentId, PaymentResult, Points, ProductId, RefundId, RefundResult, Title, UserId,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::document::kinds;

/// Something to sell.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "title": "Desk lamp", "price": 88.50 }))]
pub struct NewProduct {
    /// What it is.
    #[schema(value_type = kinds::Title)]
    pub title: Title,
    /// What it costs.
    #[schema(value_type = kinds::Price)]
    pub price: Money,
}

/// Something to buy, and what to pay with beside money.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "productId": 900001 }))]
pub struct NewOrder {
    /// What to buy.
    #[schema(value_type = kinds::Id)]
    pub product_id: ProductId,
    /// A coupon of the buyer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub coupon_id: Option<CouponId>,
    /// So much of the buyer's wallet, at most what is left to be paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Amount>)]
    pub wallet_amount: Option<Money>,
    /// So many of the buyer's points, worth at most what is left to be paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Points>)]
    pub points: Option<Points>,
}

/// How an order is paid.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "paymentMethod": "online" }))]
pub struct NewPayment {
    /// How; `online` if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::PaymentMethod>)]
    pub payment_method: Option<String>,
}

/// What became of a payment, as the gateway reports it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "paymentId": 900001, "gatewayTxnId": "txn-1", "result": "SUCCESS", "amount": 88.50 }))]
pub struct PaymentReport {
    /// Which payment.
    #[schema(value_type = kinds::Id)]
    pub payment_id: PaymentId,
    /// The gateway's own id of it: the same report again changes nothing.
    #[schema(value_type = kinds::TransactionId)]
    pub gateway_txn_id: String,
    /// What became of it.
    #[schema(value_type = kinds::GatewayResult)]
    pub result: PaymentResult,
    /// What was paid: what was asked for.
    #[schema(value_type = kinds::Amount)]
    pub amount: Money,
}

/// How goods travel.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "carrier": "SF", "trackingNo": "SF1234567890" }))]
pub struct Shipping {
    /// With whom.
    #[schema(value_type = kinds::ShipmentPart)]
    pub carrier: String,
    /// Under which number.
    #[schema(value_type = kinds::ShipmentPart)]
    pub tracking_no: String,
}

/// Why money goes back.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "reason": "it came broken" }))]
pub struct NewRefund {
    /// Why.
    #[schema(value_type = kinds::RefundReason)]
    pub reason: String,
}

/// What became of a refund, as the gateway reports it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "refundId": 900001, "result": "SUCCESS" }))]
pub struct RefundReport {
    /// Which refund.
    #[schema(value_type = kinds::Id)]
    pub refund_id: RefundId,
    /// What became of it.
    #[schema(value_type = kinds::GatewayResult)]
    pub result: RefundResult,
}

/// Money for a wallet.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "amount": 50.00, "reason": "for the trouble with order 17" }))]
pub struct Deposit {
    /// How much.
    #[schema(value_type = kinds::Price)]
    pub amount: Money,
    /// For the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// Points for a user.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "points": 300 }))]
pub struct Grant {
    /// How many.
    #[schema(value_type = kinds::GrantedPoints)]
    pub points: Points,
    /// For the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// A coupon for a user.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "userId": 10001, "discount": 5.00, "minSpend": 20.00, "expiresAt": "2030-01-01T00:00:00Z" }))]
pub struct NewCoupon {
    /// For whom.
    #[schema(value_type = kinds::Id)]
    pub user_id: UserId,
    /// What it takes off.
    #[schema(value_type = kinds::Price)]
    pub discount: Money,
    /// What must be spent; 0 if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::MinSpend>)]
    pub min_spend: Option<Money>,
    /// Until when: a moment that is still to come.
    #[schema(value_type = kinds::Time)]
    pub expires_at: DateTime<Utc>,
    /// For the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// Events to be sent once more: give either `eventIds` or `filter`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "filter": { "status": "FAILED", "eventType": "ORDER_PAID" }, "dryRun": true }))]
pub struct RedriveRequest {
    /// Which events, 1 to 900 of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<kinds::EventId>>, min_items = 1, max_items = 900)]
    pub event_ids: Option<Vec<EventId>>,
    /// All that are such, at most 10,000 at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<RedriveEventFilter>,
    /// Of a filter: where an earlier call ended (`nextCursor`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Cursor>)]
    pub cursor: Option<String>,
    /// Only say what would be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// How many fall due in a second; 100 if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::PerSecond>)]
    pub per_second: Option<u16>,
    /// For the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// Which events; at least one of these.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedriveEventFilter {
    /// Where they stand.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::RedrivenStatus>)]
    pub status: Option<OutboxStatus>,
    /// Of which type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::EventType>)]
    pub event_type: Option<String>,
    /// About which order, payment, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::AggregateId>)]
    pub aggregate_id: Option<i64>,
    /// Of which tenant; the operator's own if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub tenant_id: Option<TenantId>,
    /// Committed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Time>)]
    pub from: Option<DateTime<Utc>>,
    /// Committed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Time>)]
    pub to: Option<DateTime<Utc>>,
}

/// Lets later events of an aggregate pass.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "reason": "the consumer is mended" }))]
pub struct ReleaseRequest {
    /// For the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
    /// Of which tenant; the operator's own if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub tenant_id: Option<TenantId>,
}

/// Dead letters to go back to the consumers they died at: give either `keys` or `filter`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "filter": { "queue": "inventory.update.queue" }, "dryRun": true }))]
pub struct ReplayRequest {
    /// Which messages, 1 to 900 of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<kinds::LetterKey>>, min_items = 1, max_items = 900)]
    pub keys: Option<Vec<String>>,
    /// Beside `keys`: those of this queue alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::QueueName>)]
    pub queue: Option<String>,
    /// All that are such and that nobody decided about, at most 1,000 at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<LetterFilter>,
    /// Only say what would be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// For the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// Dead letters to be given up: give either `keys` or `filter`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "keys": ["0192f0c1-0000-7000-8000-000000000001"], "reason": "a test message" }))]
pub struct DiscardRequest {
    /// Which messages, 1 to 900 of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<kinds::LetterKey>>, min_items = 1, max_items = 900)]
    pub keys: Option<Vec<String>>,
    /// Beside `keys`: those of this queue alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::QueueName>)]
    pub queue: Option<String>,
    /// All that are such and that nobody decided about, at most 1,000 at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<LetterFilter>,
    /// Only say what would be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// For the audit log.
    #[schema(value_type = kinds::OperatorReason)]
    pub reason: String,
}

/// Which dead letters; all, where it is empty.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LetterFilter {
    /// In which queue they died.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::QueueName>)]
    pub queue: Option<String>,
    /// Of which type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::EventType>)]
    pub event_type: Option<String>,
    /// Of which tenant; the operator's own if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub tenant_id: Option<TenantId>,
}

/// The window that is compared and mended: the last 24 hours if it is not said, 31 days at most.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "from": "2026-01-31T00:00:00Z", "to": "2026-01-31T08:00:00Z" }))]
pub struct RepairRequest {
    /// Since.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Time>)]
    pub from: Option<DateTime<Utc>>,
    /// Until; now if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Time>)]
    pub to: Option<DateTime<Utc>>,
    /// Of which tenant; the operator's own if it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub tenant_id: Option<TenantId>,
    /// For the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// Nothing: there may be no body at all.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}
