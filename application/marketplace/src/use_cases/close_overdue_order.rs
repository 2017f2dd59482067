//! Use case: close an order that was not paid in time. Triggered by its timeout message and by the sweep.

use handover_events::TenantId;
use marketplace_domain::{CancelCause, OrderAction, OrderActor, OrderId, OrderRefusal, OrderStatus};

use super::transition;
use crate::consumer::HandlerContext;
use crate::context::{Actor, CommandContext};
use crate::error::UseCaseError;
use crate::events::EventFactory;
use crate::ports::Work;
use handover_events::Trace;
use handover_outbox::ports::{OutboxRow, StoreError};

/// Result of closing an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// This call closed the order.
    Now,
    /// The order is no longer pending.
    NotPending(OrderStatus),
    /// The payment deadline of the order has not passed.
    NotOverdue,
}

/// The command to close an overdue order, with its event id and time.
#[derive(Debug, Clone)]
pub struct CloseOverdueOrder {
    tenant: TenantId,
    order: OrderId,
    cause: CancelCause,
    event_factory: EventFactory,
}

/// Creates the command for a consumer or job.
pub fn command(
    handlers: &HandlerContext,
    caller: &'static str,
    tenant: TenantId,
    order: OrderId,
    trace: Trace,
) -> CloseOverdueOrder {
    let context = CommandContext { actor: Actor::System(caller), tenant, trace, request_id: None };
    let event_factory = handlers.events.factory(&context, 1);
    let cause = CancelCause::Timeout { created_by: handlers.overdue_cutoff(event_factory.now) };
    CloseOverdueOrder { tenant, order, cause, event_factory }
}

impl CloseOverdueOrder {
    /// Returns a copy of the command with the trace and request id of the request that placed the order. If the
    /// ORDER_CREATED event of the order is not in the outbox, the copy keeps the trace of the command.
    pub async fn in_request_of_order(&self, unit: &mut Work) -> Result<CloseOverdueOrder, StoreError> {
        let placed = transition::creation_of_order(unit, self.tenant, self.order).await?;
        Ok(self.in_request_of(placed.as_ref()))
    }

    /// Returns a copy of the command with the trace and request id of this event, if there is one.
    pub fn in_request_of(&self, cause: Option<&OutboxRow>) -> CloseOverdueOrder {
        CloseOverdueOrder { event_factory: self.event_factory.in_request_of(cause), ..self.clone() }
    }

    /// Runs the command in a unit of work. Returns [`Closed::Now`] only if the conditional write of this call closed
    /// the order.
    pub async fn run(&self, unit: &mut Work) -> Result<Closed, UseCaseError<OrderRefusal>> {
        let order = unit
            .order_by_id(self.tenant, self.order)
            .await?
            .ok_or(UseCaseError::NotFound { what: "order" })?;
        let action = OrderAction::Cancel(self.cause);
        match transition::apply(unit, &order, &action, OrderActor::System, &self.event_factory, 0).await {
            Ok(_) => Ok(Closed::Now),
            Err(UseCaseError::Refused(OrderRefusal::WrongStatus { status, .. })) => {
                Ok(Closed::NotPending(status))
            }
            Err(UseCaseError::Refused(OrderRefusal::NotOverdue)) => Ok(Closed::NotOverdue),
            Err(error) => Err(error),
        }
    }
}
