//! Operator commands of the marketplace: asset grants, refunds, reports of the
//! gateway, the timeline of an order, and reconciliation. Operator commands
//! for events and dead letters are in `handover_outbox::operations`. As there, each call by an operator is recorded in
//! the audit log.

mod asset_grants;
mod gateway_reports;
mod reconcile;
mod refunds;
mod timeline;

pub use asset_grants::{AssetGrant, IssueCoupon, grant_asset, issue_coupon};
pub use gateway_reports::{
    ListGatewayReports, close_gateway_report, gateway_reports, record_unreadable_report,
};
pub use reconcile::{
    Finding, FindingKind, GRACE, MAX_FINDINGS, Reconcile, Reconciliation, Repair, reconcile,
};
pub use refunds::{ListRefunds, find_refund, list_refunds, retry_refund, settle_refund_by_hand};
pub use timeline::{Timeline, TimelineItem, TimelineKind, timeline};
