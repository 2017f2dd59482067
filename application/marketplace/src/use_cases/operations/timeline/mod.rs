//! What became of one order: every change, every event, every publish, every consumer, every effect.

mod items;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, TenantId};
use marketplace_domain::{AggregateType, EventType, Order, OrderActor, OrderId};

use crate::ports::MarketView;
use crate::use_cases::UseCaseError;
use crate::{App, CommandContext, Role, privacy};
use handover_outbox::operations::{Action, Operator, count};
use handover_outbox::ports::{DeadLetter, OutboxFilter, OutboxRow, StoreError};
use items::Items;

/// What happened to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    /// The order.
    pub order: OrderId,
    /// In order of time; of what happened at the same moment the cause comes first.
    pub items: Vec<TimelineItem>,
}

/// What kind of thing happened. Of one event at one moment they come in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimelineKind {
    /// The order changed.
    State,
    /// A payment or a refund was started or settled.
    Payment,
    /// An event was committed with the change.
    Event,
    /// The broker confirmed an event, or did not.
    Published,
    /// A consumer left something behind; within the unit of work that also wrote the consume log.
    Effect,
    /// A consumer recorded an event.
    Consumed,
    /// An event was parked for a person.
    DeadLetter,
}

impl TimelineKind {
    /// Every kind.
    pub const ALL: &'static [TimelineKind] = &[
        TimelineKind::State,
        TimelineKind::Payment,
        TimelineKind::Event,
        TimelineKind::Published,
        TimelineKind::Effect,
        TimelineKind::Consumed,
        TimelineKind::DeadLetter,
    ];

    /// Its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            TimelineKind::State => "state",
            TimelineKind::Payment => "payment",
            TimelineKind::Event => "event",
            TimelineKind::Published => "published",
            TimelineKind::Effect => "effect",
            TimelineKind::Consumed => "consumed",
            TimelineKind::DeadLetter => "deadLetter",
        }
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineItem {
    /// When.
    pub at: DateTime<Utc>,
    /// What kind of thing.
    pub kind: TimelineKind,
    /// By which event.
    pub event_id: Option<EventId>,
    /// Of which type.
    pub event_type: Option<String>,
    /// At which consumer.
    pub consumer: Option<String>,
    /// Where it stands since: the order, the payment, the outbox row, the row of the consume log, the dead letter.
    pub status: Option<&'static str>,
    /// How many attempts it took so far.
    pub attempts: Option<u32>,
    /// The key under which an asset was moved once.
    pub idempotency_key: Option<String>,
    /// How much of an asset was moved.
    pub amount: Option<String>,
    /// How much of it the buyer could spend afterwards.
    pub balance_after: Option<String>,
    /// In a few words.
    pub what: String,
    /// More of it; errors and reasons only for operators.
    pub detail: Option<String>,
    /// In which trace.
    pub trace_id: Option<String>,
}

/// How much somebody may see of an order's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// What happened.
    Party,
    /// And what went wrong on the way.
    Operator,
}

/// What is told beside that.
#[derive(Debug, Clone, Copy)]
struct Shares {
    /// What the buyer has.
    assets: bool,
    /// What buyer and seller wrote: how they pay, why they want their money back.
    words: bool,
}

/// What happened to an order, for its parties, the operators of its tenant and the platform; nobody else finds it. The
/// platform may name the tenant; it need not, as an order's id is in one tenant only.
pub async fn timeline(
    app: &App,
    context: &CommandContext,
    tenant: Option<TenantId>,
    id: OrderId,
) -> Result<Timeline, UseCaseError> {
    let mut view = app.view().await?;
    let found = visible_order(view.as_mut(), context, tenant, id).await?;
    let Some((order, sight)) = found else {
        drop(view);
        if let Ok(operator) = context.operator() {
            look(&operator, tenant, id).told(&app.outbox, &operator, tenant, 0).await?;
        }
        return Err(UseCaseError::NotFound { what: "order" });
    };
    let payments = view.payments_of(order.tenant, id).await?;
    let about = |kind: AggregateType, id: i64| AggregateRef {
        tenant: order.tenant,
        kind: kind.as_str().to_owned(),
        id,
    };
    let refunds = view.refunds_of(order.tenant, id).await?;
    let mut aggregates = vec![about(AggregateType::Order, id.get())];
    aggregates.extend(payments.iter().map(|payment| about(AggregateType::Payment, payment.id.get())));
    aggregates.extend(refunds.iter().map(|refund| about(AggregateType::Refund, refund.id.get())));
    let mut rows = view.outbox_view().outbox_about(&aggregates).await?;
    rows.sort_by_key(|row| row.id);
    // What the buyer has is nothing that the seller is told.
    let sees_assets = sight == Sight::Operator || context.user() == Some(order.buyer);
    // Nor what they wrote, to whom only looks after the order.
    let is_party = order.tenant == context.tenant
        && context.user().is_some_and(|user| order.party(user) != OrderActor::Stranger);
    let sees_words = is_party || privacy::sees_people(context);
    let mut items = Items::new(app, sight, Shares { assets: sees_assets, words: sees_words }, &rows);
    items.of_payments(&payments);
    items.of_refunds(&refunds);
    let ids: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
    let history = view.outbox_view().history_of(&ids).await?;
    for row in &rows {
        items.of_event(row, history.iter().filter(|entry| entry.event_id == row.event_id));
    }
    for consumed in view.outbox_view().consumed_of(&ids).await? {
        items.of_consumption(consumed);
    }
    for entry in &history {
        items.of_duplicate(entry);
    }
    let keys: Vec<String> = ids.into_iter().map(String::from).collect();
    for letter in letters_of(view.as_mut(), &keys, order.tenant).await? {
        items.of_letter(letter);
    }
    items.of_listings(view.listing_changes(order.tenant, id).await?);
    items.of_shipments(view.shipment_tasks(order.tenant, id).await?);
    items.of_notifications(view.notifications_about(order.tenant, id).await?);
    items.of_credit(view.credit_changes(order.tenant, id).await?);
    if sees_assets {
        items.of_operations(view.operations_of(order.tenant, id).await?);
    }
    drop(view);
    let items = items.in_order();
    if sight == Sight::Operator {
        let operator = context.operator()?;
        look(&operator, tenant, id)
            .told(&app.outbox, &operator, Some(order.tenant), count(items.len()))
            .await?;
    }
    Ok(Timeline { order: id, items })
}

/// What the audit log is told if it is an operator who looks.
fn look(operator: &Operator, asked: Option<TenantId>, order: OrderId) -> Action {
    let selection =
        [("orderId", Some(order.get().into())), ("tenantId", asked.map(|tenant| tenant.get().into()))];
    Action::look_at_people("order.timeline", operator, selection)
}

async fn letters_of(
    view: &mut dyn MarketView,
    keys: &[String],
    tenant: TenantId,
) -> Result<Vec<DeadLetter>, StoreError> {
    let mut letters = view.outbox_view().dead_letters_of(keys).await?;
    letters.retain(|letter| letter.tenant == tenant);
    Ok(letters)
}

async fn visible_order(
    view: &mut dyn MarketView,
    context: &CommandContext,
    asked: Option<TenantId>,
    id: OrderId,
) -> Result<Option<(Order, Sight)>, StoreError> {
    if context.has(Role::Platform) {
        let tenant = match asked {
            Some(tenant) => Some(tenant),
            None => tenant_of(view, id).await?,
        };
        let Some(tenant) = tenant else { return Ok(None) };
        return Ok(view.order_by_id(tenant, id).await?.map(|order| (order, Sight::Operator)));
    }
    if asked.is_some_and(|asked| asked != context.tenant) {
        return Ok(None);
    }
    if context.has(Role::Operator) {
        let order = view.order_by_id(context.tenant, id).await?;
        return Ok(order.map(|order| (order, Sight::Operator)));
    }
    let Some(user) = context.user() else { return Ok(None) };
    Ok(view.order_of_party(context.tenant, id, user).await?.map(|order| (order, Sight::Party)))
}

/// The tenant that an order belongs to: that of the event which announced it.
async fn tenant_of(view: &mut dyn MarketView, id: OrderId) -> Result<Option<TenantId>, StoreError> {
    let filter = OutboxFilter {
        event_type: Some(EventType::OrderCreated.as_str().to_owned()),
        aggregate_id: Some(id.get()),
        ..OutboxFilter::default()
    };
    let rows: Vec<OutboxRow> = view.outbox_view().outbox_page(&filter, None, 1).await?;
    Ok(rows.first().map(|row| row.aggregate.tenant))
}
