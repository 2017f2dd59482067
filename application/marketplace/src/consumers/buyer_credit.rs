//! Consumer `buyer-credit`: counts how the orders of each buyer ended.

use std::time::Duration;

use async_trait::async_trait;
use marketplace_domain::{
    CancelReason, CreditOutcome, EventBody, EventKind, Order, OrderStatus, PointsRules,
};

use super::effects::{of_orders, rows};
use super::facts::{Facts, Orders, body_of, unsupported};
use crate::consumer::{
    Audience, Consumer, Effect, EffectRow, HandlerContext, LostEffect, OrderCondition, Queue, RowDescription,
    StoredEffects, names_of,
};
use crate::ports::{CreditChange, CreditQueries, EffectKind, MarketView, Work};
use handover_outbox::consumers::{Applied, Event, HandlerError};
use handover_outbox::ports::{Consumed, StoreError};

/// Counts completed and cancelled orders per buyer.
///
/// Late events: counts are sums and the score is a function of the counts, so the sequence of events has no effect on
/// them. Only `last_event_id` and `update_time` depend on the sequence.
pub struct BuyerCredit;

/// Queue of the buyer credit consumer.
pub const CREDIT_QUEUE: &str = "buyer.credit.queue";

const EVENTS: &[EventKind] = &[EventKind::OrderCancelled, EventKind::OrderStatusChanged];

/// The order outcome that an event adds to the buyer's credit; `None` if it adds none.
fn outcome_of(body: &EventBody) -> Option<CreditOutcome> {
    if let EventBody::OrderCancelled(body) = body {
        return CreditOutcome::of_cancellation(body.reason);
    }
    // A cancellation is counted when ORDER_CANCELLED is applied.
    let EventBody::OrderStatusChanged(body) = body else { return None };
    (body.new_status == OrderStatus::Completed).then_some(CreditOutcome::Completed)
}

#[async_trait]
impl Consumer for BuyerCredit {
    fn name(&self) -> &str {
        "buyer-credit"
    }

    fn event_types(&self) -> Vec<&str> {
        names_of(EVENTS)
    }

    fn queue(&self, _: Duration) -> Queue {
        Queue::of_events(CREDIT_QUEUE, EVENTS)
    }

    fn effect(&self) -> &'static str {
        "`buyer_credit_changes`, and their sum per buyer with the score, `buyer_credit`"
    }

    fn audience(&self) -> Audience {
        Audience::Parties
    }

    async fn apply(
        &self,
        context: &HandlerContext,
        unit: &mut Work,
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        let at = context.now();
        let orders = Orders::read(unit, events).await?;
        let mut facts = Facts::read(unit, EffectKind::CreditChange, events).await?;
        let mut changes = Vec::new();
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            let body = body_of(event)?;
            let order_facts = body.order().filter(|_| EVENTS.contains(&body.event_type()));
            let order_facts = order_facts.ok_or_else(|| unsupported(event))?;
            let order = orders.confirming(event, &body)?;
            let Some(step) = outcome_of(&body) else {
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
    async fn read_effects(
        &self,
        view: &mut dyn MarketView,
        orders: &[Order],
    ) -> Result<Vec<Box<dyn StoredEffects>>, StoreError> {
        of_orders(
            view,
            orders,
            |view, tenant, ids| CreditQueries::credit_changes(view, tenant, ids),
            |row| row.order,
            CreditChanges,
        )
        .await
    }

    async fn restore(&self, _: &mut Work, _: &LostEffect<'_>) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// The changes of the buyer's credit for one order.
struct CreditChanges(Vec<CreditChange>);

impl StoredEffects for CreditChanges {
    fn compare(&self, event: &EventBody, _: &Order, _: Option<&Consumed>, _: PointsRules) -> Effect {
        let step = outcome_of(event);
        let found = self.0.iter().filter(|change| Some(change.step) == step).count();
        rows(EffectKind::CreditChange, found, usize::from(step.is_some()))
    }

    fn rows(&self) -> Vec<EffectRow> {
        let row = |change: &CreditChange| {
            let condition = match change.step {
                CreditOutcome::Completed => OrderCondition::Is(OrderStatus::Completed),
                CreditOutcome::CancelledByBuyer => OrderCondition::CancelledFor(CancelReason::Buyer),
                CreditOutcome::CancelledByTimeout => OrderCondition::CancelledFor(CancelReason::Timeout),
            };
            let text = format!("order counted for the buyer's credit as {}", change.step);
            EffectRow {
                table: EffectKind::CreditChange.table(),
                fact: change.step.as_str().to_owned(),
                event_id: Some(change.event_id.clone()),
                at: change.at,
                condition,
                description: RowDescription::Text(text),
            }
        };
        self.0.iter().map(row).collect()
    }
}
