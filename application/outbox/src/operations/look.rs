//! What operators look at: events, blocked aggregates, dead letters, the consume log, queues, the audit log.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use handover_events::{EventId, TenantId};
use serde_json::Value;

use super::{Action, OperationError, Operator, count, events_of};
use crate::ports::{
    AuditEntry, AuditFilter, Blocked, Consumed, ConsumedFilter, DeadLetter, DeadLetterFilter, Numbered,
    OnFailed, OutboxFilter, OutboxRow, QueueDepth,
};
use crate::{Outbox, Page, privacy};

/// One event, wherever it stands; what its type does not declare as visible is masked for an operator who does not see people.
pub async fn find_event(
    outbox: &Outbox,
    operator: &Operator,
    id: &EventId,
) -> Result<OutboxRow, OperationError> {
    let tenant = operator.visible(None)?;
    let mut rows = outbox.view().await?.outbox_view().outbox_by_event(std::slice::from_ref(id)).await?;
    rows.retain(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant));
    let of = rows.first().map_or(tenant, |row| Some(row.aggregate.tenant));
    let look = Action::look_at_people("outbox.show", operator, [("eventId", Some(id.as_str().into()))]);
    look.told(outbox, operator, of, count(rows.len())).await?;
    let mut row = rows.pop().ok_or(OperationError::NotFound { what: "event" })?;
    row.payload = privacy::shown(&outbox.registry, operator, row.payload);
    Ok(row)
}

/// Aggregates whose next event waits: for its time, or, where failed events hold (`outbox.on-failed = "hold"`), behind
/// one that a person has to decide about.
pub async fn blocked(
    outbox: &Outbox,
    operator: &Operator,
    tenant: Option<TenantId>,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Numbered<Blocked>>, OperationError> {
    let tenant = operator.visible(tenant)?;
    let most = limit.saturating_add(1);
    let unordered = outbox.registry.unordered();
    let mut view = outbox.view().await?;
    let mut items = view.outbox_view().waiting_page(unordered, tenant, outbox.now(), before, most).await?;
    if outbox.on_failed == OnFailed::Hold {
        items.extend(view.outbox_view().blocked_page(unordered, tenant, before, most).await?);
        items.sort_by_key(|row| Reverse(row.id));
        items.truncate(most as usize);
    }
    drop(view);
    let page = Page::cut(items, limit, |row| row.id);
    let look = Action::look("outbox.blocked", [of_tenant(tenant), ("cursor", before.map(Value::from))]);
    look.told(outbox, operator, tenant, count(page.items.len())).await?;
    Ok(page)
}

/// A dead letter, and the event of ours that it is, if it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// The number by which pages run.
    pub id: i64,
    /// The letter.
    pub letter: DeadLetter,
    /// The event whose outbox row its key names.
    pub event: Option<EventId>,
}

/// Dead letters, the last parked first; masked as single events are.
pub async fn dead_letters(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: DeadLetterFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Parked>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let mut view = outbox.view().await?;
    let letters = view.outbox_view().dead_letters_page(&filter, before, limit.saturating_add(1)).await?;
    let ids: Vec<EventId> = letters.iter().filter_map(|letter| letter.effect.key.parse().ok()).collect();
    let rows = view.outbox_view().outbox_by_event(&ids).await?;
    drop(view);
    let ours: BTreeSet<&str> = rows.iter().map(|row| row.event_id.as_str()).collect();
    let parked = letters.into_iter().map(|Numbered { id, effect: mut letter }| {
        letter.body = privacy::shown(&outbox.registry, operator, letter.body);
        let event = letter.key.parse().ok().filter(|_| ours.contains(letter.key.as_str()));
        Parked { id, letter, event }
    });
    let page = Page::cut(parked.collect(), limit, |letter| letter.id);
    let selection = [
        ("queue", filter.queue.as_deref().map(Value::from)),
        ("eventType", filter.event_type.as_deref().map(Value::from)),
        ("status", filter.status.map(|status| status.as_str().into())),
        of_tenant(filter.tenant),
        ("cursor", before.map(Value::from)),
    ];
    let look = Action::look_at_people("dead-letters.list", operator, selection);
    look.told(outbox, operator, filter.tenant, count(page.items.len())).await?;
    Ok(page)
}

/// The consume log, the last written first.
pub async fn consumptions(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: ConsumedFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Numbered<Consumed>>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let items =
        outbox.view().await?.outbox_view().consumed_page(&filter, before, limit.saturating_add(1)).await?;
    let page = Page::cut(items, limit, |row| row.id);
    let selection = [
        ("eventId", filter.event_id.as_ref().map(|id| id.as_str().into())),
        ("consumer", filter.consumer.as_deref().map(Value::from)),
        ("status", filter.status.map(|status| status.as_str().into())),
        of_tenant(filter.tenant),
        ("cursor", before.map(Value::from)),
    ];
    let look = Action::look("consumptions.list", selection);
    look.told(outbox, operator, filter.tenant, count(page.items.len())).await?;
    Ok(page)
}

/// What operators asked for and did about the rows of a tenant, the last call first.
pub async fn audit_log(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: AuditFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Numbered<AuditEntry>>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let items =
        outbox.view().await?.outbox_view().audit_page(&filter, before, limit.saturating_add(1)).await?;
    let page = Page::cut(items, limit, |row| row.id);
    let selection = [
        of_tenant(filter.tenant),
        ("changes", filter.changes.then_some(Value::Bool(true))),
        ("cursor", before.map(Value::from)),
    ];
    Action::look("audit.list", selection)
        .told(outbox, operator, filter.tenant, count(page.items.len()))
        .await?;
    Ok(page)
}

/// A page of the outbox, newest first; an operator sees its own tenant's, `platform` any. People in them are masked but
/// for `pii`.
pub async fn outbox(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: OutboxFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<OutboxRow>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let mut items =
        outbox.view().await?.outbox_view().outbox_page(&filter, before, limit.saturating_add(1)).await?;
    for row in &mut items {
        row.payload = privacy::shown(&outbox.registry, operator, std::mem::take(&mut row.payload));
    }
    let page = Page::cut(items, limit, |row| row.id);
    let mut look = Action::look_at_people("outbox.list", operator, [("cursor", before.map(Value::from))]);
    look.selection.extend(events_of(&filter));
    look.told(outbox, operator, filter.tenant, count(page.items.len())).await?;
    Ok(page)
}

/// How full each queue is; depths carry no payload and are for every operator.
pub async fn queues(outbox: &Outbox, operator: &Operator) -> Result<Vec<QueueDepth>, OperationError> {
    operator.visible(None)?;
    let queues = outbox.broker.queues().await?;
    // Of its own tenant, as it is about no rows.
    Action::look("queues.list", [])
        .told(outbox, operator, Some(operator.tenant), count(queues.len()))
        .await?;
    Ok(queues)
}

fn of_tenant(tenant: Option<TenantId>) -> (&'static str, Option<Value>) {
    ("tenantId", tenant.map(|tenant| tenant.get().into()))
}
