//! Use case: complete an order that its buyer did not complete within the time for it. Triggered by a job.

use chrono::{DateTime, Utc};
use handover_events::{TenantId, Trace};
use marketplace_domain::{OrderAction, OrderActor, OrderId, OrderRefusal, OrderStatus, RefundStatus};

use super::transition;
use crate::context::{Actor, CommandContext};
use crate::error::UseCaseError;
use crate::events::{EventFactory, EventSource};
use crate::ports::Work;

/// Result of completing an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// This call completed the order.
    Now,
    /// The order is not shipped any more.
    NotShipped(OrderStatus),
    /// The buyer still has time to complete the order.
    NotDue,
    /// A refund of the order is in `PROCESSING`.
    Refunding,
}

/// The command to complete a shipped order, with its event id and time.
#[derive(Debug, Clone)]
pub struct CompleteShippedOrder {
    tenant: TenantId,
    order: OrderId,
    shipped_by: DateTime<Utc>,
    event_factory: EventFactory,
}

/// Creates the command for a job. Only an order that was shipped at or before `shipped_by` is completed.
pub fn command(
    events: &EventSource,
    caller: &'static str,
    (tenant, order): (TenantId, OrderId),
    shipped_by: DateTime<Utc>,
    trace: Trace,
) -> CompleteShippedOrder {
    let context = CommandContext { actor: Actor::System(caller), tenant, trace, request_id: None };
    CompleteShippedOrder { tenant, order, shipped_by, event_factory: events.factory(&context, 1) }
}

impl CompleteShippedOrder {
    /// Runs the command in a unit of work. Returns [`Completed::Now`] only if the conditional write of this call completed
    /// the order. Its event belongs to the request that placed the order.
    pub async fn run(&self, unit: &mut Work) -> Result<Completed, UseCaseError<OrderRefusal>> {
        let order = unit
            .order_by_id(self.tenant, self.order)
            .await?
            .ok_or(UseCaseError::NotFound { what: "order" })?;
        if order.status != OrderStatus::Shipped {
            return Ok(Completed::NotShipped(order.status));
        }
        if order.update_time > self.shipped_by {
            return Ok(Completed::NotDue);
        }
        let refunds = unit.refunds_of(self.tenant, &[self.order]).await?;
        if refunds.iter().any(|refund| refund.status == RefundStatus::Processing) {
            return Ok(Completed::Refunding);
        }
        let placed = transition::creation_of_order(unit, self.tenant, self.order).await?;
        let event_factory = self.event_factory.in_request_of(placed.as_ref());
        transition::apply(unit, &order, &OrderAction::Complete, OrderActor::System, &event_factory, 0)
            .await
            .map(|_: marketplace_domain::Order| Completed::Now)
    }
}
