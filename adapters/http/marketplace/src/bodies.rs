//! Request bodies: each field is defined once, with its description, the type that a route reads and the kind of value in the
//! OpenAPI document. The kind of value defines the limits.

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_http::{bodies, request_body};
use handover_outbox::operations::Reason;
use marketplace_domain::{
    BillingPeriod, CouponId, Money, PaymentId, PaymentMethod, PaymentResult, Points, ProductId, Reference,
    RefundId, RefundResult, Title, UserId,
};

use crate::body::Report;
use crate::openapi::kinds;

/// Declares reports of the gateway: bodies in which unknown fields are ignored.
macro_rules! reports {
    ($(
        $(#[$attribute:meta])*
        $body:ident {$(
            $(#[$field_attribute:meta])*
            $field:ident: $type:ty = $kind:ty,
        )*}
    )*) => {$(
        request_body! {
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
        /// Captured amount. Another amount than that of the payment pays nothing and is refunded.
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

    /// A payment for an order or invoice.
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
        /// Whether the product is taken off the shelf when the order is refunded; for the seller only. Default: `false`, the
        /// product is on sale again.
        off_shelf: Option<bool> = Option<bool>,
    }

    /// How an unpaid order is cancelled.
    #[schema(example = json!({ "offShelf": true }))]
    Cancellation {
        /// Whether the product is taken off the shelf; for the seller only. Default: `false`, the product is on sale again.
        off_shelf: Option<bool> = Option<bool>,
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

    /// The invoice to generate.
    #[schema(example = json!({ "period": "2026-02" }))]
    InvoiceRequest {
        /// Tenant; default: the caller's own.
        tenant_id: Option<TenantId> = Option<kinds::Id>,
        /// A month that has ended.
        period: BillingPeriod = kinds::Period,
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
