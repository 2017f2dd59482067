//! `invoice list|show|generate`: read and write the database directly, also while a process serves it.

use handover_cli::Access as _;
use handover_cli::print::{list, show};
use handover_runtime::Failure;
use marketplace::use_cases::{GenerateInvoice, ListInvoices};
use marketplace_domain::{InvoiceId, OrderId};
use marketplace_http::views::{InvoiceDetailsView, InvoiceView};

use super::money::{failed, failed_to_find};
use super::operator::Operator;
use crate::cli::{InvoiceCommand, InvoiceGenerateArgs, InvoiceListArgs, InvoiceShowArgs};

/// `invoice`.
pub(super) async fn invoice(command: &InvoiceCommand) -> Result<(), Failure> {
    match command {
        InvoiceCommand::List(arguments) => list_invoices(arguments).await,
        InvoiceCommand::Show(arguments) => show_invoice(arguments).await,
        InvoiceCommand::Generate(arguments) => generate_invoice(arguments).await,
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
    let found = found.map_err(|error| {
        failed_to_find(&operator, error, format!("invoice {id}"), "handover invoice list")
    })?;
    Ok(show(arguments.output.output, &InvoiceDetailsView::from(found))?)
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
