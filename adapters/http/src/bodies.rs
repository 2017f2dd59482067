//! Request bodies for the OpenAPI document and for clients. The routes do not deserialize these types: they read the fields
//! one by one (`fields.rs`), so that a response names all invalid fields at once.

use chrono::{DateTime, Utc};
use handover_events::{EventId, OutboxStatus, TenantId};
use marketplace_domain::{
    CouponId, Money, PaymentId, PaymentResult, Points, ProductId, RefundId, RefundResult, Title, UserId,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::document::kinds;

/// A product to offer for sale.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "title": "Desk lamp", "price": 88.50 }))]
pub struct NewProduct {
    /// Title.
    #[schema(value_type = kinds::Title)]
    pub title: Title,
    /// Price.
    #[schema(value_type = kinds::Price)]
    pub price: Money,
}

/// A product to buy, and the assets to pay with.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "productId": 900001 }))]
pub struct NewOrder {
    /// The product.
    #[schema(value_type = kinds::Id)]
    pub product_id: ProductId,
    /// A coupon of the buyer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub coupon_id: Option<CouponId>,
    /// Amount to pay from the buyer's wallet; at most the remaining amount due.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Amount>)]
    pub wallet_amount: Option<Money>,
    /// Number of the buyer's points to spend; worth at most the remaining amount due.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Points>)]
    pub points: Option<Points>,
}

/// A payment for an order.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "paymentMethod": "online" }))]
pub struct NewPayment {
    /// Payment method; default: `online`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::PaymentMethod>)]
    pub payment_method: Option<String>,
}

/// Result of a payment, reported by the gateway.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "paymentId": 900001, "gatewayTxnId": "txn-1", "result": "SUCCESS", "amount": 88.50 }))]
pub struct PaymentReport {
    /// The payment.
    #[schema(value_type = kinds::Id)]
    pub payment_id: PaymentId,
    /// The gateway's transaction id. A repeated report of the same transaction changes nothing.
    #[schema(value_type = kinds::TransactionId)]
    pub gateway_txn_id: String,
    /// Result.
    #[schema(value_type = kinds::GatewayResult)]
    pub result: PaymentResult,
    /// Amount paid; it must be the amount of the payment.
    #[schema(value_type = kinds::Amount)]
    pub amount: Money,
}

/// Shipment of an order.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "carrier": "SF", "trackingNo": "SF1234567890" }))]
pub struct Shipping {
    /// Carrier.
    #[schema(value_type = kinds::ShipmentPart)]
    pub carrier: String,
    /// Tracking number.
    #[schema(value_type = kinds::ShipmentPart)]
    pub tracking_no: String,
}

/// A refund request.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "reason": "the item is damaged" }))]
pub struct NewRefund {
    /// Reason for the refund.
    #[schema(value_type = kinds::RefundReason)]
    pub reason: String,
}

/// Result of a refund, reported by the gateway.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "refundId": 900001, "result": "SUCCESS" }))]
pub struct RefundReport {
    /// The refund.
    #[schema(value_type = kinds::Id)]
    pub refund_id: RefundId,
    /// Result.
    #[schema(value_type = kinds::GatewayResult)]
    pub result: RefundResult,
}

/// A deposit into a wallet.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "amount": 50.00, "reason": "compensation for order 17" }))]
pub struct Deposit {
    /// Amount.
    #[schema(value_type = kinds::Price)]
    pub amount: Money,
    /// Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// A grant of points.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "points": 300 }))]
pub struct Grant {
    /// Number of points.
    #[schema(value_type = kinds::GrantedPoints)]
    pub points: Points,
    /// Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// A coupon for a user.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "userId": 10001, "discount": 5.00, "minSpend": 20.00, "expiresAt": "2030-01-01T00:00:00Z" }))]
pub struct NewCoupon {
    /// The user.
    #[schema(value_type = kinds::Id)]
    pub user_id: UserId,
    /// Discount.
    #[schema(value_type = kinds::Price)]
    pub discount: Money,
    /// Minimum spend; default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::MinSpend>)]
    pub min_spend: Option<Money>,
    /// Expiry time; must be in the future.
    #[schema(value_type = kinds::Time)]
    pub expires_at: DateTime<Utc>,
    /// Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// Events to redrive; exactly one of `eventIds` and `filter` is required.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "filter": { "status": "FAILED", "eventType": "ORDER_PAID" }, "dryRun": true }))]
pub struct RedriveRequest {
    /// Event ids, 1 to 900.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<kinds::EventId>>, min_items = 1, max_items = 900)]
    pub event_ids: Option<Vec<EventId>>,
    /// Selects all matching events, at most 10,000 per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<RedriveEventFilter>,
    /// With `filter`: continues where an earlier call ended (its `nextCursor`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Cursor>)]
    pub cursor: Option<String>,
    /// `true`: report what would be done without changing anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Number of events that become due per second; default: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::PerSecond>)]
    pub per_second: Option<u16>,
    /// Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// Selects events; at least one field is required.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedriveEventFilter {
    /// Outbox status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::RedrivenStatus>)]
    pub status: Option<OutboxStatus>,
    /// Event type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::EventType>)]
    pub event_type: Option<String>,
    /// Aggregate id, such as the id of an order or a payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::AggregateId>)]
    pub aggregate_id: Option<i64>,
    /// Tenant; default: the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub tenant_id: Option<TenantId>,
    /// Earliest commit time (inclusive).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Time>)]
    pub from: Option<DateTime<Utc>>,
    /// Latest commit time (exclusive).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Time>)]
    pub to: Option<DateTime<Utc>>,
}

/// Releases a blocked aggregate.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "reason": "the consumer is fixed" }))]
pub struct ReleaseRequest {
    /// Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
    /// Tenant; default: the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub tenant_id: Option<TenantId>,
}

/// Dead letters to replay; exactly one of `keys` and `filter` is required.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "filter": { "queue": "inventory.update.queue" }, "dryRun": true }))]
pub struct ReplayRequest {
    /// Keys of dead letters, 1 to 900.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<kinds::DeadLetterKey>>, min_items = 1, max_items = 900)]
    pub keys: Option<Vec<String>>,
    /// With `keys`: only dead letters of this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::QueueName>)]
    pub queue: Option<String>,
    /// Selects all matching dead letters in status `OPEN`, at most 1,000 per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<DeadLetterSelectionBody>,
    /// `true`: report what would be done without changing anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// Dead letters to discard; exactly one of `keys` and `filter` is required.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "keys": ["0192f0c1-0000-7000-8000-000000000001"], "reason": "a test message" }))]
pub struct DiscardRequest {
    /// Keys of dead letters, 1 to 900.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<kinds::DeadLetterKey>>, min_items = 1, max_items = 900)]
    pub keys: Option<Vec<String>>,
    /// With `keys`: only dead letters of this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::QueueName>)]
    pub queue: Option<String>,
    /// Selects all matching dead letters in status `OPEN`, at most 1,000 per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<DeadLetterSelectionBody>,
    /// `true`: report what would be done without changing anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Reason, for the audit log.
    #[schema(value_type = kinds::OperatorReason)]
    pub reason: String,
}

/// Selects open dead letters of a tenant; an empty filter selects all of them.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeadLetterSelectionBody {
    /// Queue of the consumer that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::QueueName>)]
    pub queue: Option<String>,
    /// Event type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::EventType>)]
    pub event_type: Option<String>,
    /// Tenant; default: the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub tenant_id: Option<TenantId>,
}

/// Time window to reconcile and repair; at most 31 days, default: the last 24 hours.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({ "from": "2026-01-31T00:00:00Z", "to": "2026-01-31T08:00:00Z" }))]
pub struct RepairRequest {
    /// Start; default: 24 hours before `to`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Time>)]
    pub from: Option<DateTime<Utc>>,
    /// End; default: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Time>)]
    pub to: Option<DateTime<Utc>>,
    /// Tenant; default: the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::Id>)]
    pub tenant_id: Option<TenantId>,
    /// Reason, for the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<kinds::OperatorReason>)]
    pub reason: Option<String>,
}

/// An empty object; the body may be omitted.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyBody {}
