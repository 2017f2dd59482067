//! Operator commands of the marketplace: asset grants, the timeline of an order, and reconciliation. Operator commands for
//! events and dead letters are in `handover_outbox::operations`. As there, each call is recorded in the audit log.

mod give;
mod reconcile;
mod timeline;

pub use give::{Gift, IssueCoupon, give, issue_coupon};
pub use reconcile::{
    Finding, FindingKind, GRACE, MAX_FINDINGS, Mended, Reconcile, Reconciliation, reconcile,
};
pub use timeline::{Timeline, TimelineItem, TimelineKind, timeline};
