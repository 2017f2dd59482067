//! Request bodies: each field is defined once, with its description, the type that a route reads and the kind of value in the
//! OpenAPI document. The kind of value defines the limits.

use chrono::{DateTime, Utc};
use handover_events::{EventId, OutboxStatus, TenantId};
use handover_outbox::operations::{
    DeadLetterSelection, InvalidRedriveFilter, MAX_NAMED, Named, Reason, RedriveFilter, RedriveRate,
};
use handover_outbox::ports::OutboxFilter;
use marketplace_domain::{
    CouponId, Money, PaymentId, PaymentMethod, PaymentResult, Points, ProductId, Reference, RefundId,
    RefundResult, Title, UserId,
};
use utoipa::ToSchema;

use crate::fields::{Body, Fields, ReadField, Report};
use crate::openapi::kinds;

// `max_items` below is the literal 900, because utoipa accepts only literals as limits of a list.
const _: () = assert!(MAX_NAMED == 900);

/// Declares one body; `bodies!` and `reports!` add the handling of unknown fields.
macro_rules! body {
    (
        $(#[$attribute:meta])*
        $body:ident {$(
            $(#[$field_attribute:meta])*
            $field:ident: $type:ty = $kind:ty,
        )*}
    ) => {
        #[derive(ToSchema)]
        $(#[$attribute])*
        pub(crate) struct $body {$(
            $(#[$field_attribute])*
            #[schema(value_type = $kind)]
            pub(crate) $field: Option<$type>,
        )*}

        impl Body for $body {
            fn read(fields: &mut Fields) -> $body {
                $(let $field = <$kind as ReadField<$type>>::read(fields, stringify!($field));)*
                $body { $($field),* }
            }
        }
    };
}

/// Declares bodies. A field is `name: Type = kind`: the JSON name is the name in camelCase; the kind describes the
/// value in the OpenAPI document and parses it into the type (`values.rs`). A field that is missing or invalid is
/// `None`, and its error is recorded.
macro_rules! bodies {
    ($($(#[$attribute:meta])* $body:ident $fields:tt)*) => {$(
        body! {
            $(#[$attribute])*
            #[serde(rename_all = "camelCase", deny_unknown_fields)]
            $body $fields
        }
    )*};
}

/// Declares reports of the gateway: bodies in which unknown fields are ignored.
macro_rules! reports {
    ($(
        $(#[$attribute:meta])*
        $body:ident {$(
            $(#[$field_attribute:meta])*
            $field:ident: $type:ty = $kind:ty,
        )*}
    )*) => {$(
        body! {
            $(#[$attribute])*
            #[serde(rename_all = "camelCase")]
            $body {$($(#[$field_attribute])* $field: $type = $kind,)*}
        }

        impl Report for $body {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
        }
    )*};
}

reports! {
    /// Result of a payment, reported by the gateway. At least one of `reference` and `paymentId` is required. Other fields are
    /// ignored.
    #[schema(example = json!({
        "reference": "0192f0c1-0000-7000-8000-000000000001", "gatewayTxnId": "txn-1", "result": "SUCCESS", "amount": 88.50
    }))]
    PaymentReport {
        /// The payment's reference.
        reference: Option<Reference> = Option<kinds::Reference>,
        /// The payment's id. If both are present, they must belong to the same payment.
        payment_id: Option<PaymentId> = Option<kinds::Id>,
        /// The gateway's transaction id. Each SUCCESS under another transaction id is another capture.
        gateway_txn_id: String = kinds::TransactionId,
        /// Result.
        result: PaymentResult = kinds::GatewayResult,
        /// Captured amount. Another amount than that of the payment pays no order and is refunded.
        amount: Money = kinds::Amount,
    }

    /// Result of a refund, reported by the gateway. At least one of `reference` and `refundId` is required. Other fields are
    /// ignored.
    #[schema(example = json!({ "reference": "0192f0c1-0000-7000-8000-000000000002", "result": "SUCCESS" }))]
    RefundReport {
        /// The reference of the refund's attempt.
        reference: Option<Reference> = Option<kinds::Reference>,
        /// The refund's id; alone, it names the current attempt. If both are present, they must belong to the same refund.
        refund_id: Option<RefundId> = Option<kinds::Id>,
        /// Result.
        result: RefundResult = kinds::GatewayResult,
        /// The gateway's transaction id of the refund.
        gateway_txn_id: Option<String> = Option<kinds::TransactionId>,
    }
}

bodies! {
    /// A product to offer for sale.
    #[schema(example = json!({ "title": "Desk lamp", "price": 88.50 }))]
    NewProduct {
        /// Title.
        title: Title = kinds::Title,
        /// Price.
        price: Money = kinds::Price,
    }

    /// A product to buy, and the assets to pay with.
    #[schema(example = json!({ "productId": 900001 }))]
    NewOrder {
        /// The product.
        product_id: ProductId = kinds::Id,
        /// A coupon of the buyer.
        coupon_id: Option<CouponId> = Option<kinds::Id>,
        /// Amount to pay from the buyer's wallet; at most the remaining amount due.
        wallet_amount: Option<Money> = Option<kinds::Amount>,
        /// Number of the buyer's points to spend; worth at most the remaining amount due.
        points: Option<Points> = Option<kinds::Points>,
    }

    /// A payment for an order.
    #[schema(example = json!({ "paymentMethod": "online" }))]
    NewPayment {
        /// Payment method; default: `online`.
        payment_method: Option<PaymentMethod> = Option<kinds::PaymentMethod>,
    }

    /// Shipment of an order.
    #[schema(example = json!({ "carrier": "SF", "trackingNo": "SF1234567890" }))]
    Shipping {
        /// Carrier.
        carrier: String = kinds::ShipmentPart,
        /// Tracking number.
        tracking_no: String = kinds::ShipmentPart,
    }

    /// A refund request.
    #[schema(example = json!({ "reason": "the item is damaged" }))]
    NewRefund {
        /// Reason for the refund.
        reason: String = kinds::RefundReason,
    }

    /// A deposit into a wallet.
    #[schema(example = json!({ "amount": 50.00, "reason": "compensation for order 17" }))]
    Deposit {
        /// Amount.
        amount: Money = kinds::Price,
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
    }

    /// A grant of points.
    #[schema(example = json!({ "points": 300 }))]
    Grant {
        /// Number of points.
        points: Points = kinds::GrantedPoints,
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
    }

    /// A coupon for a user.
    #[schema(example = json!({ "userId": 10001, "discount": 5.00, "minSpend": 20.00, "expiresAt": "2030-01-01T00:00:00Z" }))]
    NewCoupon {
        /// The user.
        user_id: UserId = kinds::Id,
        /// Discount.
        discount: Money = kinds::Price,
        /// Minimum spend; default: 0.
        min_spend: Option<Money> = Option<kinds::MinSpend>,
        /// Expiry time; must be in the future.
        expires_at: DateTime<Utc> = kinds::Time,
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
    }

    /// Events to redrive; exactly one of `eventIds` and `filter` is required.
    #[schema(example = json!({ "filter": { "status": "FAILED", "eventType": "ORDER_PAID" }, "dryRun": true }))]
    RedriveRequest {
        /// Event ids, 1 to 900.
        #[schema(min_items = 1, max_items = 900)]
        event_ids: Option<Named<EventId>> = Option<Vec<kinds::EventId>>,
        /// Selects all matching events, at most 10,000 per call.
        filter: Option<RedriveFilter> = Option<RedriveEventFilter>,
        /// With `filter`: `nextCursor` of an earlier call; this call continues where the earlier call ended.
        cursor: Option<i64> = Option<kinds::Cursor>,
        /// `true`: report what would be done without changing anything.
        dry_run: Option<bool> = Option<bool>,
        /// Number of events that become due per second; default: 100.
        per_second: Option<RedriveRate> = Option<kinds::PerSecond>,
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
    }

    /// Selects events; at least one field is required.
    RedriveEventFilter {
        /// Outbox status.
        status: Option<OutboxStatus> = Option<kinds::RedrivenStatus>,
        /// Event type.
        event_type: Option<String> = Option<kinds::EventType>,
        /// Aggregate type; without it, `aggregateId` selects the events of every aggregate with this id.
        aggregate_type: Option<String> = Option<kinds::AggregateType>,
        /// Aggregate id, such as the id of an order or a payment.
        aggregate_id: Option<i64> = Option<kinds::AggregateId>,
        /// Tenant; default: the operator's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
        /// Earliest commit time (inclusive).
        from: Option<DateTime<Utc>> = Option<kinds::Time>,
        /// Latest commit time (exclusive).
        to: Option<DateTime<Utc>> = Option<kinds::Time>,
    }

    /// Releases a blocked aggregate.
    #[schema(example = json!({ "reason": "the consumer is fixed" }))]
    ReleaseRequest {
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
        /// Tenant; default: the operator's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
    }

    /// Dead letters to replay; exactly one of `keys` and `filter` is required.
    #[schema(example = json!({ "filter": { "queue": "inventory.update.queue" }, "dryRun": true }))]
    ReplayRequest {
        /// Keys of dead letters, 1 to 900.
        #[schema(min_items = 1, max_items = 900)]
        keys: Option<Named<String>> = Option<Vec<kinds::DeadLetterKey>>,
        /// With `keys`: only dead letters of this queue.
        queue: Option<String> = Option<kinds::QueueName>,
        /// Selects all matching dead letters in status `OPEN`, at most 1,000 per call.
        filter: Option<DeadLetterSelection> = Option<DeadLetterSelectionBody>,
        /// `true`: report what would be done without changing anything.
        dry_run: Option<bool> = Option<bool>,
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
    }

    /// Dead letters to discard; exactly one of `keys` and `filter` is required.
    #[schema(example = json!({ "keys": ["0192f0c1-0000-7000-8000-000000000001"], "reason": "a test message" }))]
    DiscardRequest {
        /// Keys of dead letters, 1 to 900.
        #[schema(min_items = 1, max_items = 900)]
        keys: Option<Named<String>> = Option<Vec<kinds::DeadLetterKey>>,
        /// With `keys`: only dead letters of this queue.
        queue: Option<String> = Option<kinds::QueueName>,
        /// Selects all matching dead letters in status `OPEN`, at most 1,000 per call.
        filter: Option<DeadLetterSelection> = Option<DeadLetterSelectionBody>,
        /// `true`: report what would be done without changing anything.
        dry_run: Option<bool> = Option<bool>,
        /// Reason, for the audit log.
        reason: Reason = kinds::OperatorReason,
    }

    /// Selects open dead letters of a tenant; an empty filter selects all of them.
    DeadLetterSelectionBody {
        /// Queue of the consumer that failed.
        queue: Option<String> = Option<kinds::QueueName>,
        /// Event type.
        event_type: Option<String> = Option<kinds::EventType>,
        /// Tenant; default: the operator's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
    }

    /// An operator's decision.
    #[schema(example = json!({ "reason": "checked with the gateway" }))]
    Decision {
        /// Reason, for the audit log.
        reason: Reason = kinds::OperatorReason,
    }

    /// Time window to reconcile and repair; at most 31 days, default: the last 24 hours.
    #[schema(example = json!({ "from": "2026-01-31T00:00:00Z", "to": "2026-01-31T08:00:00Z" }))]
    RepairRequest {
        /// Start; default: 24 hours before `to`.
        from: Option<DateTime<Utc>> = Option<kinds::Time>,
        /// End; default: now.
        to: Option<DateTime<Utc>> = Option<kinds::Time>,
        /// Tenant; default: the operator's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
        /// Reason, for the audit log.
        reason: Option<Reason> = Option<kinds::OperatorReason>,
    }
}

/// An empty object; the body may be omitted.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmptyBody {}

impl Body for EmptyBody {
    fn read(_: &mut Fields) -> EmptyBody {
        EmptyBody {}
    }
}

impl ReadField<Option<RedriveFilter>> for Option<RedriveEventFilter> {
    fn read(fields: &mut Fields, name: &str) -> Option<Option<RedriveFilter>> {
        fields.object(name, |body: RedriveEventFilter, fields| {
            let filter = RedriveFilter::new(OutboxFilter {
                tenant: body.tenant_id?,
                status: body.status?,
                event_type: body.event_type?,
                aggregate_type: body.aggregate_type?,
                aggregate_id: body.aggregate_id?,
                from: body.from?,
                to: body.to?,
                ..OutboxFilter::default()
            });
            match filter {
                Ok(filter) => Some(filter),
                Err(error @ InvalidRedriveFilter::Empty) => fields.reject("", error),
                Err(error @ InvalidRedriveFilter::Pending) => fields.reject("status", error),
            }
        })
    }
}

impl ReadField<Option<DeadLetterSelection>> for Option<DeadLetterSelectionBody> {
    fn read(fields: &mut Fields, name: &str) -> Option<Option<DeadLetterSelection>> {
        fields.object(name, |body: DeadLetterSelectionBody, _| {
            Some(DeadLetterSelection::Filter {
                queue: body.queue?,
                event_type: body.event_type?,
                tenant: body.tenant_id?,
            })
        })
    }
}
