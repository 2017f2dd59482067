//! Queries of jobs and long pages that must use an index, so that their cost does not depend on the table size.

use chrono::{DateTime, Duration, Utc};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use marketplace::ports::{FindingFilter, GatewayReportFilter, InvoiceFilter, OrderSide, RefundFilter};
use marketplace_domain::{
    Asset, CouponId, FindingState, InvoiceId, InvoiceStatus, OrderId, Purse, RefundId, RefundStatus,
    ReportState, ShipmentState, UserId,
};

use super::assets::{coupons, holds, operations};
use super::{effects, findings, gateway_reports, invoices, orders, refunds};
use crate::session::MarketSession;
use handover_sql::{Dialect, Value};

/// A query: the index that it must use, its statement and its parameters.
pub(crate) type IndexedQuery = (&'static str, (String, Vec<Value>));

/// Queries for pages are listed twice: for the first page and with a cursor.
pub(crate) fn sweeps(
    dialect: &dyn Dialect,
    now: DateTime<Utc>,
    order: OrderId,
    user: UserId,
) -> Vec<IndexedQuery> {
    let tenant = TenantId::DEFAULT;
    let before = now - Duration::hours(1);
    let coupon = CouponId::try_from(9).ok().map(|coupon| (before, coupon));
    let holds = |after| holds::pending(dialect, now, after, 100);
    let orders = |of, after| orders::changed_within(dialect, of, before, now, after, 100);
    let entries = |purse, before| operations::entries(dialect, (tenant, user), purse, before, 100);
    let refunds = |tenant, status| {
        refunds::page(dialect, RefundFilter { tenant, status }, RefundId::try_from(1_000_000).ok(), 100)
    };
    let reports = |tenant, state| {
        let filter = GatewayReportFilter { tenant, state: Some(state), ..GatewayReportFilter::default() };
        gateway_reports::page(dialect, filter, Some(9), 100)
    };
    let findings = |tenant, state| {
        let filter = FindingFilter { tenant, state };
        findings::page(dialect, filter, Some(9), 100)
    };
    let invoices = |before| {
        let filter = InvoiceFilter { tenant: Some(tenant), status: Some(InvoiceStatus::Pending) };
        invoices::page(dialect, filter, before, 100)
    };
    let open_tasks = |before| {
        let open = Some(ShipmentState::Open);
        effects::shipments_page(dialect, (tenant, user), OrderSide::Seller, open, before, 100)
    };
    let completed = |after| invoices::completed(dialect, tenant, (before, now), after, 100);
    vec![
        ("idx_holds_frozen", holds(None)),
        ("idx_holds_frozen", holds(Some((before, order, Asset::Wallet)))),
        ("idx_refunds_due", refunds::due(dialect, now, 100)),
        ("idx_refunds_due", refunds::processing(dialect)),
        ("idx_refunds_failed", refunds::failed(dialect)),
        ("idx_refunds_tenant", refunds(Some(tenant), None)),
        ("idx_refunds_failed", refunds(None, Some(RefundStatus::Failed))),
        ("idx_gateway_reports_tenant", reports(Some(tenant), ReportState::Done)),
        ("idx_gateway_reports_page", reports(Some(tenant), ReportState::Open)),
        ("idx_gateway_reports_state", reports(None, ReportState::Closed)),
        ("idx_gateway_reports_state", gateway_reports::open(dialect, 100)),
        ("idx_findings_page", findings(Some(tenant), Some(FindingState::Open))),
        ("idx_findings_tenant", findings(Some(tenant), None)),
        ("idx_findings_state", findings(None, Some(FindingState::Open))),
        ("idx_findings_state", findings::open_subjects(dialect, Some(9), 100)),
        ("idx_findings_kind", (findings::OPEN_BY_KIND.to_owned(), vec![])),
        ("idx_coupons_expiry", coupons::to_expire(dialect, now, None, 100)),
        ("idx_coupons_expiry", coupons::to_expire(dialect, now, coupon, 100)),
        ("idx_orders_updated", orders(None, None)),
        ("idx_orders_updated", orders(Some(tenant), Some((before, order)))),
        ("idx_orders_pending", orders::overdue(dialect, now, None, 100)),
        ("idx_orders_pending", orders::overdue(dialect, now, Some((before, order)), 100)),
        ("idx_orders_shipped", orders::shipped(dialect, now, None, 100)),
        ("idx_orders_shipped", orders::shipped(dialect, now, Some((before, order)), 100)),
        ("idx_orders_open", open_tasks(None)),
        ("idx_orders_open", open_tasks(Some(9))),
        ("idx_invoices_tenant", invoices(None)),
        ("idx_invoices_tenant", invoices(InvoiceId::try_from(1_000_000).ok())),
        ("idx_orders_completed", completed(None)),
        ("idx_orders_completed", completed(Some((before, order)))),
        ("idx_ledger_account", entries(Purse::Wallet, None)),
        ("idx_ledger_account", entries(Purse::Points, Some(9))),
    ]
}

impl MarketSession {
    /// The query plans of [`sweeps`], in the format of the engine, each with the index that its query must use.
    pub(super) async fn explain_job_queries(
        &mut self,
        now: DateTime<Utc>,
        order: OrderId,
        user: UserId,
    ) -> Result<Vec<(&'static str, String)>, StoreError> {
        let mut plans = Vec::new();
        for (index, (sql, values)) in sweeps(self.dialect(), now, order, user) {
            let sql = format!("{} {sql}", self.dialect().explain());
            let rows = self.fetch(&sql, values).await?;
            plans.push((index, rows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")));
        }
        Ok(plans)
    }
}
