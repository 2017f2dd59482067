//! Operator commands of the marketplace: asset grants, refunds, reports of the
//! gateway, the timeline of an order, and reconciliation. Operator commands
//! for events and dead letters are in `handover_outbox::operations`. As there, each call by an operator is recorded in
//! the audit log.

mod asset_grants;
mod findings;
mod gateway_reports;
mod reconcile;
mod refunds;
mod timeline;

pub use asset_grants::{AssetGrant, IssueCoupon};
pub use findings::ListFindings;
pub use gateway_reports::ListGatewayReports;
pub use reconcile::{Finding, FindingKind, GRACE, MAX_FINDINGS, Reconcile, Reconciliation, Repair};
pub use refunds::ListRefunds;
pub use timeline::{Timeline, TimelineItem, TimelineKind};

use std::sync::Arc;

use super::Payments;
use crate::consumer::{Consumers, HandlerContext};
use crate::ids::Ids;
use crate::ports::MarketTransactor;

/// Commands and queries of operators.
#[derive(Clone)]
pub struct Operations {
    pub(crate) tx: MarketTransactor,
    pub(crate) ids: Arc<Ids>,
    pub(crate) consumers: Consumers,
    /// What the handlers of the consumers use, for the repair of their effects.
    pub(crate) handlers: HandlerContext,
    pub(crate) payments: Payments,
}
