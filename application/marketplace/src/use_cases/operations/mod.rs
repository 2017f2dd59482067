//! What operators do about the marketplace itself: gifts, and everything that is behind an order looked at and compared.
//! What they do about events and dead letters is the outbox's (`handover_outbox::operations`), and so are its rules: each call
//! is in the audit log.

mod give;
mod reconcile;
mod timeline;

pub use give::{Gift, IssueCoupon, give, issue_coupon};
pub use reconcile::{
    Finding, FindingKind, GRACE, MAX_FINDINGS, Mended, Reconcile, Reconciliation, reconcile,
};
pub use timeline::{Timeline, TimelineItem, TimelineKind, timeline};
