//! Operator commands of the marketplace: asset grants, orders and their timeline, refunds, reports
//! of the gateway, and reconciliation. Operator commands
//! for events and dead letters are in `handover_outbox::operations`. As there, each call by an operator is recorded in
//! the audit log.

mod asset_grants;
mod erasure;
mod findings;
mod gateway_reports;
mod orders;
mod paged_filters;
mod payments;
mod reconcile;
mod refunds;
mod timeline;

pub use asset_grants::{AssetGrant, IssueCoupon};
pub use erasure::ErasedUser;
pub use findings::ListFindings;
pub use gateway_reports::ListGatewayReports;
pub use orders::{Deadline, FindOrders, OrderDetails, OrderSearch};
pub use payments::{FoundPayment, ListPayments};
pub use reconcile::{
    Finding, FindingKind, GRACE, MAX_FINDINGS, Reconcile, ReconcileContinuously, Reconciliation, Repair,
    Scope,
};
pub use refunds::ListRefunds;
pub use timeline::{InvoiceTimeline, Timeline, TimelineItem, TimelineKind};

use std::sync::Arc;
use std::time::Duration;

use super::Payments;
use crate::consumer::{Consumers, HandlerContext};
use crate::ids::Ids;
use crate::ports::MarketTransactor;
use crate::use_cases::UseCaseError;
use handover_events::TenantId;
use handover_outbox::archive::ArchiveStorage;
use handover_outbox::operations::Operator;

/// Commands and queries of operators.
#[derive(Clone)]
pub struct Operations {
    pub(crate) tx: MarketTransactor,
    pub(crate) ids: Arc<Ids>,
    pub(crate) consumers: Consumers,
    /// What the handlers of the consumers use, for the repair of their effects.
    pub(crate) handlers: HandlerContext,
    pub(crate) payments: Payments,
    /// Time after the shipment when an order is completed automatically; `None`: never.
    pub(crate) auto_completion: Option<Duration>,
    /// Time for which webhook deliveries stay.
    pub(crate) keep_deliveries: Duration,
    /// Storage of the archive, for timelines; `None`: the archive is off.
    pub(crate) archive: Option<Arc<dyn ArchiveStorage>>,
}

/// The tenant whose rows a query returns, of which the operator asked for `asked`; `None`: all tenants.
fn visible_tenant(operator: &Operator, asked: Option<TenantId>) -> Result<Option<TenantId>, UseCaseError> {
    operator.visible(asked).map_err(|_| UseCaseError::NotFound { what: "tenant" })
}
