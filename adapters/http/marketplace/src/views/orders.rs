//! Orders and their payments, as operators see them.

use handover_events::TenantId;
use handover_http::views;
use handover_http::views::{Listed, Time};
use marketplace::use_cases::operations::{FoundPayment, OrderDetails};
use marketplace_domain::{
    Asset, CancelReason, CouponId, Currency, Money, Order, OrderId, OrderNo, OrderStatus, Payment, PaymentId,
    PaymentStatus, Points, ProductId, Reference, RefundId, UserId,
};

use super::{GatewayReportView, RefundDetailsView};
use crate::openapi::kinds;

views! {
    /// An order that a search found.
    pub FoundOrderView as FoundOrder {
        order_id: OrderId,
        order_no: OrderNo,
        tenant_id: TenantId,
        product_id: ProductId,
        buyer_id: UserId,
        seller_id: UserId,
        status: OrderStatus,
        cancel_reason: Option<CancelReason>,
        total_amount: Money,
        payable_amount: Money,
        create_time: Time,
        update_time: Time,
    }

    /// An order with its payments and refunds.
    pub OrderDetailsView as OrderDetails {
        order_id: OrderId,
        order_no: OrderNo,
        tenant_id: TenantId,
        product_id: ProductId,
        buyer_id: UserId,
        seller_id: UserId,
        status: OrderStatus,
        cancel_reason: Option<CancelReason>,
        total_amount: Money,
        payable_amount: Money,
        coupon_id: Option<CouponId>,
        coupon_discount: Option<Money>,
        wallet_amount: Option<Money>,
        points: Option<Points>,
        /// The refund in progress; null if there is none.
        refund_id: Option<RefundId>,
        /// Masked for callers without the role `pii`.
        carrier: Option<String>,
        /// Masked for callers without the role `pii`.
        tracking_no: Option<String>,
        create_time: Time,
        pay_time: Option<Time>,
        update_time: Time,
        /// Time of the automatic change if nobody changes the order earlier; null if there is none.
        deadline: Option<Time>,
        /// Status of the order after its deadline: `cancelled` if it is not paid, `completed` if its buyer does not complete it.
        deadline_status: Option<OrderStatus>,
        payments: Vec<PaymentDetailsView>,
        refunds: Vec<RefundDetailsView>,
    }

    /// A payment, the deadline of its order, and what the gateway reported about it.
    pub FoundPaymentView as FoundPayment {
        /// Null for the payment of an invoice.
        order_id: Option<OrderId>,
        payment: PaymentDetailsView,
        /// Time of the automatic change of the order if nobody changes it earlier; null if there is none.
        deadline: Option<Time>,
        /// Status of the order after its deadline.
        deadline_status: Option<OrderStatus>,
        reports: Vec<GatewayReportView>,
    }

    /// A payment, as operators see it.
    pub PaymentDetailsView as PaymentDetails {
        payment_id: PaymentId,
        /// Name of the payment towards the gateway; null for a payment of an earlier version.
        reference: Option<Reference>,
        amount: Money,
        currency: Currency,
        payment_method: &'static str = kinds::PaymentMethodName,
        status: PaymentStatus,
        /// The gateway's transaction id; null until the payment is settled.
        transaction_id: Option<String>,
        /// Whether the payment succeeded when its order or invoice could no longer be paid.
        refund_due: bool,
        trace_id: Option<String>,
        create_time: Time,
        update_time: Time,
    }
}

impl Listed for FoundOrderView {
    const COLUMNS: &'static [&'static str] = &[
        "orderId",
        "orderNo",
        "tenantId",
        "createTime",
        "status",
        "cancelReason",
        "buyerId",
        "sellerId",
        "productId",
        "payableAmount",
    ];
}

impl Listed for PaymentDetailsView {
    const COLUMNS: &'static [&'static str] =
        &["paymentId", "createTime", "amount", "paymentMethod", "status", "transactionId", "reference"];
}

impl From<Order> for FoundOrderView {
    fn from(order: Order) -> FoundOrderView {
        FoundOrderView {
            order_id: order.id,
            order_no: order.order_no,
            tenant_id: order.tenant,
            product_id: order.product,
            buyer_id: order.buyer,
            seller_id: order.seller,
            status: order.status,
            cancel_reason: order.cancel_reason,
            total_amount: order.total,
            payable_amount: order.payable,
            create_time: Time(order.create_time),
            update_time: Time(order.update_time),
        }
    }
}

impl From<OrderDetails> for OrderDetailsView {
    fn from(details: OrderDetails) -> OrderDetailsView {
        let OrderDetails { order, payments, refunds, deadline } = details;
        let refund_id = order.running_refund();
        let shipment = order.shipment.as_ref();
        let assets = order.assets;
        OrderDetailsView {
            order_id: order.id,
            order_no: order.order_no,
            tenant_id: order.tenant,
            product_id: order.product,
            buyer_id: order.buyer,
            seller_id: order.seller,
            status: order.status,
            cancel_reason: order.cancel_reason,
            total_amount: order.total,
            payable_amount: order.payable,
            coupon_id: assets.coupon.map(|coupon| coupon.id),
            coupon_discount: assets.coupon.map(|coupon| coupon.discount),
            wallet_amount: assets.names(Asset::Wallet).then_some(assets.wallet),
            points: assets.names(Asset::Points).then_some(assets.points),
            refund_id,
            carrier: shipment.map(|shipment| shipment.carrier().to_owned()),
            tracking_no: shipment.map(|shipment| shipment.tracking_no().to_owned()),
            create_time: Time(order.create_time),
            pay_time: order.pay_time.map(Time),
            update_time: Time(order.update_time),
            deadline: deadline.map(|deadline| Time(deadline.at)),
            deadline_status: deadline.map(|deadline| deadline.status),
            payments: payments.into_iter().map(PaymentDetailsView::from).collect(),
            refunds: refunds.into_iter().map(RefundDetailsView::from).collect(),
        }
    }
}

impl From<FoundPayment> for FoundPaymentView {
    fn from(FoundPayment { payment, deadline, reports }: FoundPayment) -> FoundPaymentView {
        FoundPaymentView {
            order_id: payment.of.order(),
            payment: PaymentDetailsView::from(payment),
            deadline: deadline.map(|deadline| Time(deadline.at)),
            deadline_status: deadline.map(|deadline| deadline.status),
            reports: reports.into_iter().map(GatewayReportView::from).collect(),
        }
    }
}

impl From<Payment> for PaymentDetailsView {
    fn from(payment: Payment) -> PaymentDetailsView {
        PaymentDetailsView {
            payment_id: payment.id,
            reference: payment.reference,
            amount: payment.amount,
            currency: payment.currency,
            payment_method: payment.method.as_str(),
            status: payment.status,
            transaction_id: payment.transaction_id,
            refund_due: payment.refund_due,
            trace_id: payment.trace.map(|trace| trace.trace_id),
            create_time: Time(payment.create_time),
            update_time: Time(payment.update_time),
        }
    }
}
