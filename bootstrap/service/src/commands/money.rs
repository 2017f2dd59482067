//! `payment list|show|reports`, `refund list|show|retry|settle`: read and change the database directly, also while a process serves it.

use std::error::Error;

use handover_cli::print::{list, show, show_sections};
use handover_cli::{Access, CommandFailure};
use handover_runtime::Failure;
use marketplace::use_cases::UseCaseError;
use marketplace::use_cases::operations::{ListGatewayReports, ListPayments, ListRefunds};
use marketplace_domain::{PaymentId, RefundId};
use marketplace_http::views::{FoundPaymentView, GatewayReportView, PaymentDetailsView, RefundDetailsView};

use super::operator::Operator;
use crate::cli::{
    PaymentCommand, PaymentListArgs, PaymentShowArgs, RefundCommand, RefundDecisionArgs, RefundListArgs,
    RefundShowArgs, ReportsCloseArgs, ReportsCommand, ReportsListArgs,
};

/// `payment`.
pub(super) async fn payment(command: &PaymentCommand) -> Result<(), Failure> {
    match command {
        PaymentCommand::List(arguments) => list_payments(arguments).await,
        PaymentCommand::Show(arguments) => show_payment(arguments).await,
        PaymentCommand::Reports(reports) => match &reports.command {
            None => list_reports(&reports.list).await,
            Some(ReportsCommand::Close(arguments)) => close_report(arguments).await,
        },
    }
}

/// `refund`.
pub(super) async fn refund(command: &RefundCommand) -> Result<(), Failure> {
    match command {
        RefundCommand::List(arguments) => list_refunds(arguments).await,
        RefundCommand::Show(arguments) => show_refund(arguments).await,
        RefundCommand::Retry(arguments) => retry_refund(arguments).await,
        RefundCommand::Settle(arguments) => settle_refund(arguments).await,
    }
}

/// `payment list`.
async fn list_payments(arguments: &PaymentListArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let query = ListPayments {
        tenant: arguments.tenant,
        status: arguments.state,
        before: arguments.page.cursor.and_then(|cursor| PaymentId::try_from(cursor).ok()),
        limit: arguments.page.limit,
    };
    let page = operator.app.operations.list_payments(&operator.context, query).await;
    let page = page.map_err(|error| failed(&operator, error))?;
    Ok(list(arguments.output.output, page, PaymentDetailsView::from)?)
}

/// `payment show`.
async fn show_payment(arguments: &PaymentShowArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let id = arguments.payment;
    let found = operator.app.operations.find_payment(&operator.context, id).await;
    let found = found.map_err(|error| {
        failed_to_find(&operator, error, format!("payment {id}"), "handover payment list")
    })?;
    Ok(show_sections(arguments.output.output, &FoundPaymentView::from(found))?)
}

/// `payment reports`.
async fn list_reports(arguments: &ReportsListArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let query = ListGatewayReports {
        state: arguments.state,
        from: arguments.from,
        to: arguments.to,
        before: arguments.page.cursor,
        limit: arguments.page.limit,
    };
    let page = operator.app.operations.gateway_reports(&operator.context, query).await;
    let page = page.map_err(|error| failed(&operator, error))?;
    Ok(list(arguments.output.output, page, GatewayReportView::from)?)
}

/// `payment reports close`.
async fn close_report(arguments: &ReportsCloseArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let id = arguments.report;
    let reason = arguments.reason.clone();
    let closed = operator.app.operations.close_gateway_report(&operator.context, id, reason).await;
    let closed = closed.map_err(|error| {
        failed_to_find(&operator, error, format!("gateway report {id}"), "handover payment reports")
    })?;
    operator.session.close().await;
    Ok(show(arguments.output.output, &GatewayReportView::from(closed))?)
}

/// `refund list`.
async fn list_refunds(arguments: &RefundListArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let query = ListRefunds {
        status: arguments.state,
        before: arguments.page.cursor.and_then(|cursor| RefundId::try_from(cursor).ok()),
        limit: arguments.page.limit,
    };
    let page = operator.app.operations.list_refunds(&operator.context, query).await;
    let page = page.map_err(|error| failed(&operator, error))?;
    Ok(list(arguments.output.output, page, RefundDetailsView::from)?)
}

/// `refund show`.
async fn show_refund(arguments: &RefundShowArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let id = arguments.refund;
    let refund = operator.app.operations.find_refund(&operator.context, id).await;
    let refund = refund.map_err(|error| refund_failed(&operator, id, error))?;
    Ok(show(arguments.output.output, &RefundDetailsView::from(refund))?)
}

/// `refund retry`.
async fn retry_refund(arguments: &RefundDecisionArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let id = arguments.refund;
    let reason = arguments.reason.clone();
    let refund = operator.app.operations.retry_refund(&operator.context, id, reason).await;
    let refund = refund.map_err(|error| refund_failed(&operator, id, error))?;
    operator.session.close().await;
    Ok(show(arguments.output.output, &RefundDetailsView::from(refund))?)
}

/// `refund settle`.
async fn settle_refund(arguments: &RefundDecisionArgs) -> Result<(), Failure> {
    let operator = Operator::open(&arguments.common).await?;
    let id = arguments.refund;
    let reason = arguments.reason.clone();
    let refund = operator.app.operations.settle_refund_by_hand(&operator.context, id, reason).await;
    let refund = refund.map_err(|error| refund_failed(&operator, id, error))?;
    operator.session.close().await;
    Ok(show(arguments.output.output, &RefundDetailsView::from(refund))?)
}

/// The failure of a command on one refund.
fn refund_failed<R: Error>(operator: &Operator, id: RefundId, error: UseCaseError<R>) -> Failure {
    failed_to_find(operator, error, format!("refund {id}"), "handover refund list")
}

pub(super) fn failed_to_find<R: Error>(
    operator: &Operator,
    error: UseCaseError<R>,
    what: String,
    see: &'static str,
) -> Failure {
    match error {
        UseCaseError::NotFound { .. } => operator.session.missing(what, see),
        error @ (UseCaseError::NotAllowed(_)
        | UseCaseError::Refused(_)
        | UseCaseError::KeyReused
        | UseCaseError::InProgress
        | UseCaseError::Replayed(_)
        | UseCaseError::Store(_)) => failed(operator, error),
    }
}

pub(super) fn failed<R: Error>(operator: &Operator, error: UseCaseError<R>) -> Failure {
    match error {
        UseCaseError::Store(cause) => operator.session.database_failed(cause),
        error @ (UseCaseError::NotFound { .. }
        | UseCaseError::NotAllowed(_)
        | UseCaseError::Refused(_)
        | UseCaseError::KeyReused
        | UseCaseError::InProgress
        | UseCaseError::Replayed(_)) => CommandFailure::Refused { why: error.to_string() }.into(),
    }
}
