//! Payments: started by the buyer of an order, settled by the gateway's signed callback.

use std::sync::Arc;

use handover_http::body::OptionalBody;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use handover_http::views;
use handover_http::views::Time;
use handover_outbox::Page;
use marketplace::use_cases::{OrderPayment, OrderPayments, SettlePayment, StartPayment};
use marketplace_domain::{
    InvoiceId, Money, OrderId, Payment, PaymentId, PaymentStatus, Reference, ReportKind, Settlement,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::bodies;
use crate::body::SignedBody;
use crate::callback::reported_name;
use crate::command::Command;
use crate::context::{Caller, Gateway};
use crate::edge::Edge;
use crate::idempotency::Created;
use crate::openapi::{RequiredKey, Signed, kinds};
use crate::path::{PathId, PathPayment};
use crate::refusal::RouteResult;

type PaymentPage = PageView<PaymentView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().routes(routes!(callback))
}

views! {
    pub(super) PaymentView as Payment {
        payment_id: PaymentId,
        /// Name of the payment towards the gateway; null for a payment of an earlier version.
        reference: Option<Reference>,
        /// Null for the payment of an invoice.
        order_id: Option<OrderId>,
        /// Null for the payment of an order.
        invoice_id: Option<InvoiceId>,
        amount: Money,
        payment_method: &'static str = kinds::PaymentMethodName,
        status: PaymentStatus,
        /// Time at which the order is cancelled if it is not paid. Null if the order is not `pending`, for the payment of an
        /// invoice, and in the response to a report of the gateway.
        expires_at: Option<Time>,
    }
}

impl From<Payment> for PaymentView {
    fn from(payment: Payment) -> PaymentView {
        PaymentView {
            payment_id: payment.id,
            reference: payment.reference,
            order_id: payment.of.order(),
            invoice_id: payment.of.invoice(),
            amount: payment.amount,
            payment_method: payment.method.as_str(),
            status: payment.status,
            expires_at: None,
        }
    }
}

impl From<OrderPayment> for PaymentView {
    fn from(OrderPayment { payment, expires_at }: OrderPayment) -> PaymentView {
        PaymentView { expires_at: expires_at.map(Time), ..PaymentView::from(payment) }
    }
}

/// Starts the payment of an order.
///
/// Allowed for the buyer. An order has one payment in `PROCESSING`; a second call returns it, if it names the same method or none. If nothing is left to pay, the payment is settled at once.
#[utoipa::path(
    post,
    path = "/{id}/payments",
    operation_id = "payOrder",
    tag = "payments",
    params(
        ("id" = kinds::Id, Path, description = "The order"),
        RequiredKey,
    ),
    request_body(content = Option<bodies::NewPayment>, content_type = "application/json"),
    responses(
        (status = 201, description = "The payment", body = PaymentView),
        (status = 403, description = "The caller is the seller"),
        (status = 404, description = "Order not found, or the caller is not a party of it"),
        (status = 409, description = "The order can no longer be paid, or a payment with another method is in progress"),
    ),
)]
pub(super) async fn start(
    _: RequiredKey,
    Command(edge, call): Command<Created<PaymentView>>,
    PathId(order): PathId<OrderId>,
    OptionalBody(body): OptionalBody<bodies::NewPayment>,
) -> RouteResult {
    let method = body.command(|body, _| body.payment_method)?;
    let payment = edge.app.payments.start(&call, StartPayment { order, method }).await?;
    Done::created(&PaymentView::from(payment))
}

/// Lists the payments of an order.
///
/// Allowed for the buyer and for the seller. Returns all payments on one page, because an order has few.
#[utoipa::path(
    get,
    path = "/{id}/payments",
    operation_id = "payments",
    tag = "payments",
    params(("id" = kinds::Id, Path, description = "The order")),
    responses(
        (status = 200, description = "The payments", body = PaymentPage),
        (status = 404, description = "Order not found, or the caller is not a party of it"),
    ),
)]
pub(super) async fn of_order(
    Caller(edge, context): Caller,
    PathId(order): PathId<OrderId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let OrderPayments { payments, expires_at } = edge.app.queries.payments(&context, order).await?;
    let view = |payment| PaymentView::from(OrderPayment { payment, expires_at });
    Done::page(Page { items: payments, next: None }, view)
}

/// Returns a payment of an order.
///
/// Allowed for the buyer and for the seller.
#[utoipa::path(
    get,
    path = "/{id}/payments/{paymentId}",
    operation_id = "payment",
    tag = "payments",
    params(
        ("id" = kinds::Id, Path, description = "The order"),
        ("paymentId" = kinds::Id, Path, description = "The payment"),
    ),
    responses(
        (status = 200, description = "The payment", body = PaymentView),
        (status = 404, description = "Order not found, the caller is not a party of it, or it has no such payment"),
    ),
)]
pub(super) async fn one(
    Caller(edge, context): Caller,
    PathPayment { order, payment }: PathPayment,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let found = edge.app.queries.payment(&context, order, payment).await?;
    Done::ok(&PaymentView::from(found))
}

/// Reports the result of a payment.
///
/// Called by the payment gateway. Every report with a valid signature is recorded; a repeated report gets the same response and
/// changes nothing. A report that contradicts an earlier one is recorded for an operator and gets the current payment.
#[utoipa::path(
    post,
    path = "/callback",
    operation_id = "reportPayment",
    tag = "gateway",
    security(("gatewaySignature" = [])),
    params(Signed),
    request_body = bodies::PaymentReport,
    responses(
        (status = 200, description = "The payment", body = PaymentView),
        (status = 404, description = "No payment has this reference or id, or they belong to different payments"),
    ),
)]
async fn callback(gateway: Gateway, body: SignedBody<bodies::PaymentReport>) -> RouteResult {
    let body_hash = body.hash.clone();
    let command = body.command(&gateway, ReportKind::Payment, |body, fields| {
        let payment = reported_name(&gateway.0, body.reference?, body.payment_id?, "paymentId", fields);
        let transaction_id = body.gateway_txn_id?;
        let report = Settlement { transaction_id, result: body.result?, amount: body.amount? };
        Some(SettlePayment { payment: payment?, report, body_hash })
    });
    let command = command.await?;
    let Gateway(edge, context) = gateway;
    let payment = edge.app.payments.settle(&context, command).await?;
    Done::ok(&PaymentView::from(payment))
}
