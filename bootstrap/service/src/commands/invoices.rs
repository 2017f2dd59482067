//! `invoice list|show|timeline|generate|pay|refund`: read and write the database directly, also while a process serves it.

use std::error::Error;

use handover_cli::Access as _;
use handover_cli::print::{list, show, show_sections};
use handover_runtime::Failure;
use marketplace::use_cases::{GenerateInvoice, ListInvoices, PayInvoice, RefundInvoice, UseCaseError};
use marketplace_domain::{InvoiceId, OrderId};
use marketplace_http::views::{
    InvoiceDetailsView, InvoiceTimelineView, InvoiceView, PaymentDetailsView, RefundDetailsView,
};

use super::money::{failed, failed_to_find};
use super::operator::Operator;
use super::orders::print_timeline;
use crate::cli::{
    InvoiceCommand, InvoiceGenerateArgs, InvoiceListArgs, InvoicePayArgs, InvoiceRefundArgs, InvoiceShowArgs,
    InvoiceTimelineArgs,
};

/// `invoice`.
pub(super) async fn invoice(command: &InvoiceCommand) -> Result<(), Failure> {
    match command {
        InvoiceCommand::List(arguments) => list_invoices(arguments).await,
        InvoiceCommand::Show(arguments) => show_invoice(arguments).await,
        InvoiceCommand::Timeline(arguments) => timeline(arguments).await,
        InvoiceCommand::Generate(arguments) => generate_invoice(arguments).await,
        InvoiceCommand::Pay(arguments) => pay_invoice(arguments).await,
        InvoiceCommand::Refund(arguments) => refund_invoice(arguments).await,
    }
}

/// `invoice list`.
async fn list_invoices(arguments: &InvoiceListArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let query = ListInvoices {
        status: arguments.status,
        before: arguments.page.cursor.and_then(|cursor| InvoiceId::try_from(cursor).ok()),
        limit: arguments.page.limit,
    };
    let page = operator.app.invoicing.list(&operator.context, query).await;
    let page = page.map_err(|error| failed(&operator, error))?;
    Ok(list(arguments.output.output, page, InvoiceView::from)?)
}

/// `invoice show`.
async fn show_invoice(arguments: &InvoiceShowArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let id = arguments.invoice;
    let after = arguments.page.cursor.and_then(|cursor| OrderId::try_from(cursor).ok());
    let found = operator.app.invoicing.find(&operator.context, id, after, arguments.page.limit).await;
    let found = found.map_err(|error| failed_to_find_invoice(&operator, id, error))?;
    Ok(show_sections(arguments.output.output, &InvoiceDetailsView::from(found))?)
}

/// `invoice timeline`.
async fn timeline(arguments: &InvoiceTimelineArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let id = arguments.invoice;
    let timeline = operator.app.operations.invoice_timeline(&operator.context, id).await;
    let timeline = timeline.map_err(|error| failed_to_find_invoice(&operator, id, error))?;
    print_timeline(arguments.output.output, arguments.wide, &InvoiceTimelineView::from(timeline))
}

/// `invoice generate`.
async fn generate_invoice(arguments: &InvoiceGenerateArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let command = GenerateInvoice { tenant: arguments.tenant, period: arguments.period };
    let invoice = operator.app.invoicing.generate(&operator.context, command).await;
    let invoice = invoice.map_err(|error| {
        let tenant = arguments.tenant.unwrap_or(operator.context.tenant);
        failed_to_find(&operator, error, format!("tenant {tenant} with orders"), "handover invoice list")
    })?;
    operator.session.close().await;
    Ok(show(arguments.output.output, &InvoiceView::from(invoice))?)
}

/// `invoice pay`.
async fn pay_invoice(arguments: &InvoicePayArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let command = PayInvoice { invoice: arguments.invoice, method: arguments.method };
    let payment = operator.app.payments.pay_invoice(&operator.context, command).await;
    let payment = payment.map_err(|error| failed_to_find_invoice(&operator, arguments.invoice, error))?;
    operator.session.close().await;
    Ok(show(arguments.output.output, &PaymentDetailsView::from(payment))?)
}

/// `invoice refund`.
async fn refund_invoice(arguments: &InvoiceRefundArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let command = RefundInvoice { invoice: arguments.invoice, reason: arguments.reason.clone() };
    let refund = operator.app.payments.refund_invoice(&operator.context, command).await;
    let refund = refund.map_err(|error| failed_to_find_invoice(&operator, arguments.invoice, error))?;
    operator.session.close().await;
    Ok(show(arguments.output.output, &RefundDetailsView::from(refund))?)
}

/// The failure of a command on one invoice.
fn failed_to_find_invoice<R: Error>(operator: &Operator, id: InvoiceId, error: UseCaseError<R>) -> Failure {
    failed_to_find(operator, error, format!("invoice {id}"), "handover invoice list")
}
