//! Use cases: the reports of the gateway that need an operator, and bodies that cannot be read.

use chrono::{DateTime, Utc};
use marketplace_domain::{ClosedBy, GatewayReport, ReportKind, ReportState};

use super::Operations;
use crate::claim::Call;
use crate::context::CommandContext;
use crate::error::UseCaseError;
use crate::gateway_reports::{log_report, unreadable};
use crate::ports::GatewayReportFilter;
use crate::use_cases::Payments;
use handover_outbox::operations::{
    Action, Reason, changed_by_earlier_attempt, count, page_of, present_fields, rfc3339,
};
use handover_outbox::ports::{AuditEntry, Numbered};
use handover_outbox::{MASK, Page, with_tx};

impl Payments {
    /// Records a body with a valid signature that is not a valid report, once, and logs an alert.
    pub async fn record_unreadable_report(
        &self,
        context: &CommandContext,
        kind: ReportKind,
        body_hash: String,
        error: String,
    ) -> Result<(), UseCaseError> {
        let report = unreadable(context, kind, body_hash, error, self.tx.now());
        let is_new = with_tx(&self.tx, report.clone(), |unit, report, _| {
            Box::pin(async move {
                if unit.gateway_report_by_key(&report.key).await?.is_some() {
                    return Ok::<_, UseCaseError>(false);
                }
                unit.insert_gateway_report(report).await?;
                Ok(true)
            })
        })
        .await?;
        if is_new {
            log_report(&report, None);
        }
        Ok(())
    }
}

/// Selects reports for an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListGatewayReports {
    pub state: Option<ReportState>,
    /// Earliest time (inclusive).
    pub from: Option<DateTime<Utc>>,
    /// Latest time (exclusive).
    pub to: Option<DateTime<Utc>>,
    /// Only reports with an id below this one.
    pub before: Option<i64>,
    pub limit: u32,
}

impl Operations {
    /// Returns reports of the gateway, newest first. An operator sees those of its own tenant; `platform` sees all, also those
    /// of an unknown payment or refund. For a range of times, at most 100,000 ids are searched for a page: it may have fewer
    /// than `limit` reports although there is a next page. Transaction ids are masked for callers without the role `pii`. The
    /// call is recorded in the audit log.
    pub async fn gateway_reports(
        &self,
        context: &CommandContext,
        query: ListGatewayReports,
    ) -> Result<Page<Numbered<GatewayReport>>, UseCaseError> {
        let operator = context.operator()?;
        let tenant = operator.only_tenant();
        let ListGatewayReports { state, from, to, before, limit } = query;
        let filter = GatewayReportFilter { tenant, state, from, to, above_id: None };
        let mut view = self.tx.view().await?;
        let mut page = page_of(view.as_mut(), filter, before, limit).await?;
        drop(view);
        if !operator.sees_personal_data {
            for report in &mut page.items {
                report.effect.transaction_id = report.effect.transaction_id.take().map(|_| MASK.to_owned());
            }
        }
        let action = Action::read_personal_data(
            "gateway-reports.list",
            &operator,
            [
                ("state", state.map(|state| state.as_str().into())),
                ("from", from.map(rfc3339)),
                ("to", to.map(rfc3339)),
            ],
        );
        action.record(&self.tx, &operator, tenant, count(page.items.len())).await?;
        Ok(page)
    }

    /// Closes an open report, with the reason, and records it in the audit log. A report of another tenant is not found. A
    /// report that is not open stays as it is and is returned.
    pub async fn close_gateway_report(
        &self,
        call: impl Into<Call<'_, Numbered<GatewayReport>>>,
        id: i64,
        reason: Reason,
    ) -> Result<Numbered<GatewayReport>, UseCaseError> {
        let call = call.into();
        let operator = call.context.operator()?;
        let visible = operator.only_tenant();
        let at = self.tx.now();
        let closed = ClosedBy { operator: operator.name.clone(), reason: reason.as_str().to_owned(), at };
        let selection = present_fields([("reportId", Some(id.into()))]);
        let action = Action { name: "gateway-report.close", selection, reason: Some(reason) };
        let entry = action.entry(&operator, (1, 1), at);
        call.run(&self.tx, (closed, entry), move |unit, (closed, entry), attempt| {
            Box::pin(async move {
                let not_found = || UseCaseError::NotFound { what: "gateway report" };
                let found = unit.gateway_report_by_id(id).await?.ok_or_else(not_found)?;
                if visible.is_some_and(|tenant| found.effect.tenant != Some(tenant)) {
                    return Err(not_found());
                }
                let tenant = found.effect.tenant.unwrap_or(entry.tenant);
                let entry = AuditEntry { tenant, matched: 1, ..entry.clone() };
                let is_open = found.effect.state == ReportState::Open;
                if changed_by_earlier_attempt(unit.outbox(), attempt, &entry).await?.is_none() {
                    unit.outbox().audit(&AuditEntry { changed: u64::from(is_open), ..entry }).await?;
                }
                if is_open {
                    unit.close_gateway_report(id, closed).await?.or_conflict("gateway report")?;
                }
                unit.gateway_report_by_id(id).await?.ok_or_else(not_found)
            })
        })
        .await
    }
}
