//! The reports of the payment gateway.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use marketplace_domain::{ClosedBy, GatewayReport, OrderId, ReportState};

use handover_outbox::ports::{Changed, Numbered, StoreError};

/// Selects reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GatewayReportFilter {
    /// Only reports about this tenant; `None`: all reports, also those of an unknown payment or refund.
    pub tenant: Option<TenantId>,
    /// Only reports in this state.
    pub state: Option<ReportState>,
    /// Earliest time (inclusive).
    pub from: Option<DateTime<Utc>>,
    /// Latest time (exclusive).
    pub to: Option<DateTime<Utc>>,
    /// Only reports with an id above this one: bounds the number of reports that a page without an index reads.
    pub above_id: Option<i64>,
}

/// Reads reports of the gateway.
#[handover_macros::wrappable]
#[async_trait]
pub trait GatewayReportQueries: Send {
    /// The report with this id, in any tenant.
    async fn gateway_report_by_id(&mut self, id: i64) -> Result<Option<Numbered<GatewayReport>>, StoreError>;

    /// The report with this key.
    async fn gateway_report_by_key(
        &mut self,
        key: &str,
    ) -> Result<Option<Numbered<GatewayReport>>, StoreError>;

    /// At most `limit` reports that match, with an id below `before`, greatest id first.
    async fn gateway_reports_page(
        &mut self,
        filter: GatewayReportFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError>;

    /// Number of `OPEN` reports of all tenants, at most `limit`.
    async fn open_gateway_reports(&mut self, limit: u32) -> Result<u64, StoreError>;

    /// Every report about these orders, sorted by order and id.
    async fn gateway_reports_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError>;
}

/// Writes reports of the gateway.
#[handover_macros::wrappable]
#[async_trait]
pub trait GatewayReportRepo: Send {
    /// Inserts a report. A key in use, compared byte by byte, MUST be a `Conflict`.
    async fn insert_gateway_report(&mut self, report: &GatewayReport) -> Result<(), StoreError>;

    /// Closes the report if its state is `OPEN`: one conditional write.
    async fn close_gateway_report(&mut self, id: i64, closed: &ClosedBy) -> Result<Changed, StoreError>;
}
