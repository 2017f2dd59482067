//! Timelines of orders and invoices: changes, reports of the gateway, events, publish attempts, consumptions, effects and dead letters.

mod archived;
mod invoice;
mod item;
mod items;

use chrono::TimeDelta;
use handover_events::{AggregateRef, TenantId};
use marketplace_domain::{AggregateType, Asset, Order, OrderActor, OrderId, Payment, Refund};

use super::Operations;
use crate::consistency::row_of_operation;
use crate::context::CommandContext;
use crate::ports::MarketView;
use crate::privacy;
use archived::TimelineEvents;
use handover_outbox::operations::{Action, OperationError, Operator, count};
use handover_outbox::ports::{
    AuditEntry, AuditFilter, DeadLetter, DeadLetterStatus, EndpointKey, StoreError,
};
use item::Visibility;
use items::Items;

/// Number of requests of one refund that a timeline shows, the latest ones: a gateway that refuses a refund gets one per hour.
const MAX_REQUESTS: u32 = 100;

pub use invoice::InvoiceTimeline;
pub use item::{TimelineItem, TimelineKind};

/// Timeline of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    pub order: OrderId,
    /// Items, sorted by time. Of items with the same time, a cause comes before its consequences.
    pub items: Vec<TimelineItem>,
}

/// The reader of a timeline.
#[derive(Debug, Clone, Copy)]
enum Audience<'a> {
    /// Buyer or seller of the order.
    Party,
    /// Operator, who also sees errors and the reasons of redrives and dead-letter decisions.
    Operator(&'a Operator),
}

impl Operations {
    /// Returns the timeline of an order to its buyer and seller, the operators of its tenant and platform operators. For
    /// others the order is not found. A platform operator can omit the tenant, because an order id exists in one tenant
    /// only.
    pub async fn timeline(
        &self,
        context: &CommandContext,
        tenant: Option<TenantId>,
        id: OrderId,
    ) -> Result<Timeline, OperationError> {
        let operator = context.operator().ok();
        let mut view = self.tx.view().await?;
        let found = visible_order(view.as_mut(), context, operator.as_ref(), tenant, id).await?;
        let Some((order, audience)) = found else {
            drop(view);
            if let Some(operator) = &operator {
                audit_action(operator, tenant, id).record(&self.tx, operator, tenant, 0).await?;
            }
            return Err(OperationError::NotFound { what: "order" });
        };
        let payments = view.payments_of(order.tenant, &[id]).await?;
        let refunds = view.refunds_of(order.tenant, &[id]).await?;
        let of = (AggregateType::Order, order.id.get());
        let aggregates = aggregates_of(order.tenant, of, (&payments, &refunds));
        drop(view);
        let events = self.events_about(&aggregates).await?;
        let mut view = self.tx.view().await?;
        let visibility = visibility(context, audience, &order);
        let mut items = Items::new(self, visibility, &events);
        items.of_payments(&payments);
        items.of_refunds(&refunds);
        if visibility.operations {
            add_refund_requests(view.as_mut(), &mut items, &refunds).await?;
            items.of_gateway_reports(view.gateway_reports_of(order.tenant, &[id]).await?);
        }
        add_events(view.as_mut(), &mut items, (order.tenant, &events), visibility).await?;
        for consumer in self.consumers.iter() {
            if visibility.includes(consumer.audience()) {
                let stored = consumer.read_effects(view.as_mut(), std::slice::from_ref(&order)).await?;
                items.of_effects(stored.iter().flat_map(|stored| stored.rows()).collect());
            }
        }
        if visibility.assets {
            let mut cash = view.operations_of(order.tenant, &[id]).await?;
            cash.retain(|operation| operation.asset == Asset::Cash);
            items.of_effects(cash.iter().map(row_of_operation).collect());
        }
        drop(view);
        let items = items.in_order();
        if let Audience::Operator(operator) = audience {
            audit_action(operator, tenant, id)
                .record(&self.tx, operator, Some(order.tenant), count(items.len()))
                .await?;
        }
        Ok(Timeline { order: id, items })
    }
}

/// Adds the requests of these refunds to the gateway.
async fn add_refund_requests(
    view: &mut dyn MarketView,
    items: &mut Items<'_>,
    refunds: &[Refund],
) -> Result<(), StoreError> {
    for refund in refunds {
        items.of_refund_requests(refund, view.refund_requests(refund.id, MAX_REQUESTS).await?);
    }
    Ok(())
}

/// Adds the items of these events, which belong to one tenant: changes, publish attempts, consumptions, webhook deliveries
/// and dead letters.
async fn add_events(
    view: &mut dyn MarketView,
    items: &mut Items<'_>,
    (tenant, events): (TenantId, &TimelineEvents),
    visibility: Visibility,
) -> Result<(), StoreError> {
    let ids = events.ids();
    let history = view.outbox_view().history_of(&ids).await?;
    for row in &events.rows {
        items.of_event(row, history.iter().filter(|entry| entry.event_id == row.event_id));
    }
    items.of_unreadable(&events.unreadable);
    let mut consumed = view.outbox_view().consumed_of(&ids).await?;
    for record in &events.records {
        // A record that was written after the event was archived is the newer one.
        if !consumed.iter().any(|it| (&it.event_id, &it.consumer) == (&record.event_id, &record.consumer)) {
            consumed.push(record.clone());
        }
    }
    for consumed in consumed {
        items.of_consumption(consumed);
    }
    for entry in &history {
        items.of_duplicate(entry);
    }
    if visibility.operations {
        for delivery in view.outbox_view().webhook_deliveries_of(&ids).await? {
            // The delivery itself shows a single attempt.
            let attempts = match delivery.attempts {
                0 | 1 => Vec::new(),
                _ => {
                    let endpoint = EndpointKey { tenant, id: delivery.endpoint };
                    view.outbox_view().webhook_attempts(endpoint, delivery.id).await?
                }
            };
            items.of_webhook(delivery, attempts);
        }
    }
    let keys: Vec<String> = ids.into_iter().map(String::from).collect();
    for dead_letter in dead_letters_of(view, &keys, tenant).await? {
        let discarded_by = match dead_letter.status {
            DeadLetterStatus::Discarded if visibility.operations => discarded_by(view, &dead_letter).await?,
            DeadLetterStatus::Discarded
            | DeadLetterStatus::Open
            | DeadLetterStatus::Replaying
            | DeadLetterStatus::Replayed => None,
        };
        items.of_dead_letter(dead_letter, discarded_by, &history);
    }
    Ok(())
}

/// The operator who discarded a dead letter, from the audit log: its entry has the time of the decision. The ids of entries
/// follow their times, so that a binary search finds the entry; each of its steps reads one entry through an index.
async fn discarded_by(
    view: &mut dyn MarketView,
    dead_letter: &DeadLetter,
) -> Result<Option<String>, StoreError> {
    let Some(at) = dead_letter.decided_at else { return Ok(None) };
    let filter = AuditFilter { tenant: Some(dead_letter.tenant), changes: true, ..AuditFilter::default() };
    let Some(newest) = view.outbox_view().audit_page(&filter, None, 1).await?.pop() else { return Ok(None) };
    let (mut low, mut before) = (0, newest.id + 1);
    while low < before {
        let middle = low + (before - low) / 2;
        let found = view.outbox_view().audit_page(&filter, Some(middle), 1).await?.pop();
        if found.is_some_and(|entry| entry.effect.at > at + CONCURRENT) {
            before = middle;
        } else {
            low = middle + 1;
        }
    }
    let found = view.outbox_view().audit_page(&filter, Some(before), MAX_CONCURRENT_ENTRIES).await?;
    let is_discard = |entry: &AuditEntry| entry.at == at && entry.action == DISCARD;
    Ok(found.into_iter().map(|entry| entry.effect).find(is_discard).map(|entry| entry.actor))
}

/// Concurrent changes may be recorded in another order than that of their times.
const CONCURRENT: TimeDelta = TimeDelta::seconds(1);
/// Most changes within this time.
const MAX_CONCURRENT_ENTRIES: u32 = 1_000;
/// Audit action of a discard.
const DISCARD: &str = "dead-letters.discard";

/// An order or invoice, its payments and its refunds.
fn aggregates_of(
    tenant: TenantId,
    (kind, id): (AggregateType, i64),
    (payments, refunds): (&[Payment], &[Refund]),
) -> Vec<AggregateRef> {
    let about =
        |kind: AggregateType, id: i64| AggregateRef { tenant, kind: kind.as_str().to_owned(), id: id.into() };
    let mut aggregates = vec![about(kind, id)];
    aggregates.extend(payments.iter().map(|payment| about(AggregateType::Payment, payment.id.get())));
    aggregates.extend(refunds.iter().map(|refund| about(AggregateType::Refund, refund.id.get())));
    aggregates
}

fn visibility(context: &CommandContext, audience: Audience<'_>, order: &Order) -> Visibility {
    let operations = matches!(audience, Audience::Operator(_));
    let is_party = order.tenant == context.tenant
        && context.user().is_some_and(|user| order.role_of(user) != OrderActor::Unrelated);
    Visibility {
        operations,
        // The seller does not see the assets of the buyer.
        assets: operations || context.user() == Some(order.buyer),
        // An operator who is not a party of the order sees free text only with the role `pii`.
        free_text: is_party || privacy::sees_personal_data(context),
    }
}

/// Audit action of a read by an operator.
fn audit_action(operator: &Operator, requested: Option<TenantId>, order: OrderId) -> Action {
    let selection =
        [("orderId", Some(order.get().into())), ("tenantId", requested.map(|tenant| tenant.get().into()))];
    Action::read_personal_data("order.timeline", operator, selection)
}

async fn dead_letters_of(
    view: &mut dyn MarketView,
    keys: &[String],
    tenant: TenantId,
) -> Result<Vec<DeadLetter>, StoreError> {
    let mut dead_letters = view.outbox_view().dead_letters_of(keys).await?;
    dead_letters.retain(|dead_letter| dead_letter.tenant == tenant);
    Ok(dead_letters)
}

async fn visible_order<'a>(
    view: &mut dyn MarketView,
    context: &CommandContext,
    operator: Option<&'a Operator>,
    requested: Option<TenantId>,
    id: OrderId,
) -> Result<Option<(Order, Audience<'a>)>, StoreError> {
    if let Some(operator) = operator.filter(|operator| operator.sees_all_tenants) {
        let order = view.orders_by_id(requested, &[id]).await?.pop();
        return Ok(order.map(|order| (order, Audience::Operator(operator))));
    }
    if requested.is_some_and(|requested| requested != context.tenant) {
        return Ok(None);
    }
    if let Some(operator) = operator {
        let order = view.order_by_id(context.tenant, id).await?;
        return Ok(order.map(|order| (order, Audience::Operator(operator))));
    }
    let Some(user) = context.user() else { return Ok(None) };
    Ok(view.order_of_party(context.tenant, id, user).await?.map(|order| (order, Audience::Party)))
}
