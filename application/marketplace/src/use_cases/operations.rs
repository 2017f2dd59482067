//! Operator commands of the marketplace: asset grants, the timeline of an order, and reconciliation. Operator commands
//! for events and dead letters are in `handover_outbox::operations`. As there, each call by an operator is recorded in
//! the audit log.

mod asset_grants;
mod reconcile;
mod timeline;

pub use asset_grants::{AssetGrant, IssueCoupon, grant_asset, issue_coupon};
pub use reconcile::{
    Finding, FindingKind, GRACE, MAX_FINDINGS, Reconcile, Reconciliation, Repair, reconcile,
};
pub use timeline::{Timeline, TimelineItem, TimelineKind, timeline};
