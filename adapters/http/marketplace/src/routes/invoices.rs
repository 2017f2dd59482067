//! `/api/v1/invoices`: operators read and pay the invoices of their tenant; `/api/v1/ops/invoices`: the platform generates and
//! refunds them.

use std::sync::Arc;

use handover_http::body::{JsonBody, OptionalBody};
use handover_http::openapi::Paging;
use handover_http::queries;
use handover_http::query::Parameters;
use handover_http::response::{Done, PageView};
use marketplace::use_cases::{GenerateInvoice, ListInvoices, PayInvoice, RefundInvoice};
use marketplace_domain::{InvoiceId, InvoiceStatus, OrderId};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::payments::PaymentView;
use super::refunds::RefundView;
use crate::bodies;
use crate::command::Command;
use crate::context::Operator;
use crate::edge::Edge;
use crate::idempotency::Created;
use crate::openapi::{RequiredKey, kinds};
use crate::path::PathId;
use crate::refusal::RouteResult;
use crate::views::{InvoiceDetailsView, InvoiceTimelineView, InvoiceView};

type InvoicePage = PageView<InvoiceView>;

pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .routes(routes!(page))
        .routes(routes!(one))
        .routes(routes!(pay))
        .routes(routes!(timeline))
}

queries! {
    InvoiceQuery {
        status: InvoiceStatus = kinds::InvoiceStatus, "Only invoices with this status";
    }
}

/// Lists invoices, newest first: those of the operator's tenant, or of all tenants for the role `platform`.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "invoices",
    tag = "invoices",
    params(InvoiceQuery, Paging),
    responses((status = 200, description = "A page of invoices", body = InvoicePage)),
)]
async fn page(Operator(edge, context): Operator, parameters: Parameters) -> RouteResult {
    let (InvoiceQuery { status }, before, limit) = parameters.page()?;
    let page = edge.app.invoicing.list(&context, ListInvoices { status, before, limit }).await?;
    Done::page(page, InvoiceView::from)
}

/// Returns an invoice with its payments and refunds, and a page of its lines in the sequence of their orders' ids.
#[utoipa::path(
    get,
    path = "/{id}",
    operation_id = "invoice",
    tag = "invoices",
    params(("id" = kinds::Id, Path, description = "The invoice"), Paging),
    responses(
        (status = 200, description = "The invoice", body = InvoiceDetailsView),
        (status = 404, description = "Invoice not found in a tenant accessible to the caller"),
    ),
)]
async fn one(
    Operator(edge, context): Operator,
    PathId(invoice): PathId<InvoiceId>,
    parameters: Parameters,
) -> RouteResult {
    let (after, limit) = parameters.finish_page::<OrderId>()?;
    let found = edge.app.invoicing.find(&context, invoice, after, limit).await?;
    Done::ok(&InvoiceDetailsView::from(found))
}

/// Returns everything that happened to an invoice.
#[utoipa::path(
    get,
    path = "/{id}/timeline",
    operation_id = "invoiceTimeline",
    tag = "invoices",
    params(("id" = kinds::Id, Path, description = "The invoice")),
    responses(
        (status = 200, description = "The entries in chronological order", body = InvoiceTimelineView),
        (status = 404, description = "Invoice not found in a tenant accessible to the caller"),
    ),
)]
async fn timeline(
    Operator(edge, context): Operator,
    PathId(invoice): PathId<InvoiceId>,
    parameters: Parameters,
) -> RouteResult {
    parameters.finish()?;
    let timeline = edge.app.operations.invoice_timeline(&context, invoice).await?;
    Done::ok(&InvoiceTimelineView::from(timeline))
}

/// Generates the invoice of a tenant for a closed month.
///
/// A job does this for each month that is invoiced; this call is for a month before it (`invoice.from`), or to have an invoice
/// earlier. If the invoice exists, it is returned. Requires the role `platform`.
#[utoipa::path(
    post,
    path = "/invoices/generate",
    operation_id = "generateInvoice",
    tag = "operators",
    request_body = bodies::InvoiceRequest,
    responses(
        (status = 201, description = "The invoice", body = InvoiceView),
        (status = 404, description = "The tenant has no orders"),
        (status = 409, description = "The month has not ended, or no order was completed in it"),
    ),
)]
pub(super) async fn generate(
    Command(edge, call): Command<Created<InvoiceView>>,
    JsonBody(body): JsonBody<bodies::InvoiceRequest>,
) -> RouteResult {
    let command =
        body.command(|body, _| Some(GenerateInvoice { tenant: body.tenant_id?, period: body.period? }))?;
    let invoice = edge.app.invoicing.generate(&call, command).await?;
    Done::created(&InvoiceView::from(invoice))
}

/// Starts the payment of an invoice.
///
/// Allowed for the operators of the invoice's tenant. An invoice has one payment in `PROCESSING`; a second call returns it, if it
/// names the same method or none. A failed payment leaves the invoice `pending`. If the total is 0, the payment is settled at
/// once.
#[utoipa::path(
    post,
    path = "/{id}/payments",
    operation_id = "payInvoice",
    tag = "invoices",
    params(
        ("id" = kinds::Id, Path, description = "The invoice"),
        RequiredKey,
    ),
    request_body(content = Option<bodies::NewPayment>, content_type = "application/json"),
    responses(
        (status = 201, description = "The payment", body = PaymentView),
        (status = 404, description = "Invoice not found in a tenant accessible to the caller"),
        (status = 409, description = "The invoice is not `pending`, or a payment with another method is in progress"),
    ),
)]
async fn pay(
    _: RequiredKey,
    Command(edge, call): Command<Created<PaymentView>>,
    PathId(invoice): PathId<InvoiceId>,
    OptionalBody(body): OptionalBody<bodies::NewPayment>,
) -> RouteResult {
    let method = body.command(|body, _| body.payment_method)?;
    let payment = edge.app.payments.pay_invoice(&call, PayInvoice { invoice, method }).await?;
    Done::created(&PaymentView::from(payment))
}

/// Requests the refund of a paid invoice.
///
/// When the refund succeeds, the invoice is `refunded`. A second call returns the refund that is in `PROCESSING`. Requires the
/// role `platform`.
#[utoipa::path(
    post,
    path = "/invoices/{id}/refunds",
    operation_id = "refundInvoice",
    tag = "operators",
    params(("id" = kinds::Id, Path, description = "The invoice")),
    request_body = bodies::Decision,
    responses(
        (status = 201, description = "The refund, which is in `PROCESSING`", body = RefundView),
        (status = 404, description = "Invoice not found"),
        (status = 409, description = "The invoice is not `paid`, or there is nothing to refund"),
    ),
)]
pub(super) async fn refund(
    Command(edge, call): Command<Created<RefundView>>,
    PathId(invoice): PathId<InvoiceId>,
    JsonBody(body): JsonBody<bodies::Decision>,
) -> RouteResult {
    let command = body.command(|body, _| Some(RefundInvoice { invoice, reason: body.reason? }))?;
    let refund = edge.app.payments.refund_invoice(&call, command).await?;
    Done::created(&RefundView::from(refund))
}
