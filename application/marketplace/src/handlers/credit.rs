//! Consumer `buyer-credit`: counts how the orders of each buyer ended.

use async_trait::async_trait;
use marketplace_domain::{CreditOutcome, EventBody, EventType, OrderFacts, OrderStatus};

use super::facts::{Facts, Orders, body_of, unsupported};
use crate::App;
use crate::ports::{CreditChange, EffectKind, Work};
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError};

/// Counts completed and cancelled orders per buyer.
///
/// Late events: counts are sums and the score is a function of the counts, so the sequence of events has no effect on
/// them. Only `last_event_id` and `update_time` depend on the sequence.
pub struct Credit {
    app: App,
}

impl Credit {
    pub fn new(app: App) -> Credit {
        Credit { app }
    }
}

/// Returns the order of an event, and the order outcome that the event adds to the buyer's credit, if any.
fn credit_step<'b>(
    event: &Event,
    body: &'b EventBody,
) -> Result<(&'b OrderFacts, Option<CreditOutcome>), HandlerError> {
    match body {
        EventBody::OrderCancelled(body) => Ok((&body.order, CreditOutcome::of_cancellation(body.reason))),
        EventBody::OrderStatusChanged(body) => {
            let step = match body.new_status {
                OrderStatus::Completed => Some(CreditOutcome::Completed),
                // Not counted here: a cancellation is counted when ORDER_CANCELLED is applied.
                OrderStatus::Pending
                | OrderStatus::Paid
                | OrderStatus::Shipped
                | OrderStatus::Cancelled
                | OrderStatus::Refunded => None,
            };
            Ok((&body.order, step))
        }
        EventBody::OrderCreated(_)
        | EventBody::OrderPaid(_)
        | EventBody::OrderTimeout(_)
        | EventBody::OrderRefunded(_)
        | EventBody::PaymentSucceeded(_)
        | EventBody::PaymentFailed(_)
        | EventBody::RefundSucceeded(_)
        | EventBody::RefundFailed(_)
        | EventBody::InvoiceGenerated(_) => Err(unsupported(event)),
    }
}

#[async_trait]
impl Handler<Work> for Credit {
    fn name(&self) -> &'static str {
        "buyer-credit"
    }

    fn event_types(&self) -> &'static [&'static str] {
        const { &[EventType::OrderCancelled.as_str(), EventType::OrderStatusChanged.as_str()] }
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let at = self.app.now();
        let orders = Orders::read(unit, events).await?;
        let mut facts = Facts::read(unit, EffectKind::CreditChange, events).await?;
        let mut changes = Vec::new();
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            let body = body_of(event)?;
            let (order_facts, step) = credit_step(event, &body)?;
            let order = orders.confirming(event, &body)?;
            let Some(step) = step else {
                applied.push(Applied::result("not counted"));
                continue;
            };
            if let Some(repeated) = facts.repeated(event, order, step.as_str())? {
                applied.push(repeated);
                continue;
            }
            changes.push(CreditChange {
                tenant: event.row.aggregate.tenant,
                buyer: order_facts.buyer_id,
                order: order_facts.order_id,
                aggregate_seq: event.row.aggregate_seq,
                step,
                event_id: event.row.event_id.clone(),
                at,
            });
            applied.push(Applied::result(format!("counted as {step}")));
        }
        unit.change_credit(&changes).await?;
        Ok(applied)
    }
}
