//! Read operations: events, blocked aggregates, dead letters, the consume log, queues, the audit log.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use handover_events::{EventId, Json, OutboxStatus, TenantId};

use super::find_event::{ListedEvent, listed, visible_json};
use super::id_window::page_of;
use super::known_names::FilterNames;
use super::paged_filters::Archived;
use super::{Action, OperationError, Operator, count, filter_fields, rfc3339};
use crate::outbox::Outbox;
use crate::page::Page;
use crate::ports::{
    ArchivedEvent, AuditEntry, AuditFilter, Blocked, Consumed, ConsumedFilter, DeadLetter, DeadLetterFilter,
    Numbered, OnFailed, OutboxFilter, QueueDepth,
};
use crate::process_report::running_on_failed;

/// Aggregates whose next event cannot be published. Either this event is not due yet, or, with
/// `outbox.on-failed = "hold"`, it is behind a failed event: an operator must redrive the failed event or release the
/// aggregate. Each aggregate is listed once; if both reasons apply, it is listed with the failed event.
pub async fn blocked(
    outbox: &Outbox,
    operator: &Operator,
    tenant: Option<TenantId>,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Numbered<Blocked>>, OperationError> {
    let tenant = operator.visible(tenant)?;
    let max_rows = limit.saturating_add(1);
    let unordered = outbox.registry.unordered();
    let mut view = outbox.view().await?;
    let on_failed = running_on_failed(outbox, view.outbox_view()).await?;
    let mut items =
        view.outbox_view().waiting_page(unordered, on_failed, tenant, outbox.now(), before, max_rows).await?;
    if on_failed == OnFailed::Hold {
        items.extend(view.outbox_view().blocked_page(unordered, tenant, before, max_rows).await?);
        items.sort_by_key(|row| Reverse(row.id));
        items.truncate(max_rows as usize);
    }
    drop(view);
    let page = Page::cut(items, limit, |row| row.id);
    let read = Action::read("outbox.blocked", [tenant_field(tenant), ("cursor", before.map(Json::from))]);
    read.record(&outbox.tx, operator, tenant, count(page.items.len())).await?;
    Ok(page)
}

/// Whether no row of the list matches its filter. An empty page before a next one says nothing about the rows that are left.
fn is_without_match<T>(page: &Page<T>, before: Option<i64>) -> bool {
    before.is_none() && page.items.is_empty() && page.next.is_none()
}

/// A dead letter with its event, if it is an event of this outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedDeadLetter {
    /// Id of the row of the dead letter; cursor for paging.
    pub id: i64,
    /// Dead letter.
    pub dead_letter: DeadLetter,
    /// Event with this key in the outbox.
    pub event: Option<EventId>,
}

/// Dead letters, the last parked first; payloads are masked as in [`find_event`](super::find_event). If no index serves the
/// filter, at most 100,000 ids are searched for a page: it may have fewer than `limit` dead letters although there is a next page.
pub async fn dead_letters(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: DeadLetterFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<ParkedDeadLetter>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let mut view = outbox.view().await?;
    let Page { items, next } = page_of(view.outbox_view(), filter.clone(), before, limit).await?;
    let ids: Vec<EventId> = items.iter().filter_map(|row| row.effect.key.parse().ok()).collect();
    let rows = view.outbox_view().outbox_by_event(&ids).await?;
    drop(view);
    let ours: BTreeSet<&str> = rows.iter().map(|row| row.event_id.as_str()).collect();
    let parked = items.into_iter().map(|Numbered { id, effect: mut dead_letter }| {
        let event_type = dead_letter.event_type.as_deref();
        dead_letter.body = visible_json(outbox, operator, event_type, dead_letter.body);
        let event = dead_letter.key.parse().ok().filter(|_| ours.contains(dead_letter.key.as_str()));
        ParkedDeadLetter { id, dead_letter, event }
    });
    let page = Page { items: parked.collect(), next };
    let selection = [
        ("key", filter.key.as_deref().map(Json::from)),
        ("queue", filter.queue.as_deref().map(Json::from)),
        ("eventType", filter.event_type.as_deref().map(Json::from)),
        ("status", filter.status.map(|status| status.as_str().into())),
        tenant_field(filter.tenant),
        ("from", filter.from.map(rfc3339)),
        ("to", filter.to.map(rfc3339)),
        ("cursor", before.map(Json::from)),
    ];
    let read = Action::read_personal_data("dead-letters.list", operator, selection);
    read.record(&outbox.tx, operator, filter.tenant, count(page.items.len())).await?;
    if is_without_match(&page, before) {
        let DeadLetterFilter { event_type, queue, .. } = &filter;
        let names = FilterNames {
            event_type: event_type.as_deref(),
            queue: queue.as_deref(),
            ..FilterNames::default()
        };
        names.require_known(outbox)?;
    }
    Ok(page)
}

/// The consume log, the last added record first. If no index serves the filter, at most 100,000 ids are searched for
/// a page: it may have fewer than `limit` records although there is a next page.
pub async fn consumptions(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: ConsumedFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Numbered<Consumed>>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let mut view = outbox.view().await?;
    let page = page_of(view.outbox_view(), filter.clone(), before, limit).await?;
    drop(view);
    let selection = [
        ("eventId", filter.event_id.as_ref().map(|id| id.as_str().into())),
        ("consumer", filter.consumer.as_deref().map(Json::from)),
        ("status", filter.status.map(|status| status.as_str().into())),
        tenant_field(filter.tenant),
        ("from", filter.from.map(rfc3339)),
        ("to", filter.to.map(rfc3339)),
        ("cursor", before.map(Json::from)),
    ];
    let read = Action::read("consumptions.list", selection);
    read.record(&outbox.tx, operator, filter.tenant, count(page.items.len())).await?;
    if is_without_match(&page, before) {
        FilterNames { consumer: filter.consumer.as_deref(), ..FilterNames::default() }
            .require_known(outbox)?;
    }
    Ok(page)
}

/// The audit log, the last call first. If no index serves the filter, at most 100,000 ids are searched for a page: it may have
/// fewer than `limit` entries although there is a next page.
pub async fn audit_log(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: AuditFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Numbered<AuditEntry>>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let mut view = outbox.view().await?;
    let page = page_of(view.outbox_view(), filter.clone(), before, limit).await?;
    drop(view);
    let selection = [
        tenant_field(filter.tenant),
        ("changes", filter.changes.then_some(Json::Bool(true))),
        ("from", filter.from.map(rfc3339)),
        ("to", filter.to.map(rfc3339)),
        ("cursor", before.map(Json::from)),
    ];
    Action::read("audit.list", selection)
        .record(&outbox.tx, operator, filter.tenant, count(page.items.len()))
        .await?;
    Ok(page)
}

/// A page of the outbox, newest first; payloads are masked as in [`find_event`](super::find_event). If no index serves the filter, at
/// most 100,000 ids are searched for a page: it may have fewer than `limit` rows although there is a next page.
pub async fn outbox(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: OutboxFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<ListedEvent>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let mut view = outbox.view().await?;
    let rows = view.outbox_view();
    let page = page_of(rows, filter.clone(), before, limit).await?;
    let page = Page { items: listed(outbox, operator, rows, page.items).await?, next: page.next };
    drop(view);
    let mut read = Action::read_personal_data("outbox.list", operator, [("cursor", before.map(Json::from))]);
    read.selection.extend(filter_fields(&filter));
    read.record(&outbox.tx, operator, filter.tenant, count(page.items.len())).await?;
    if is_without_match(&page, before) {
        FilterNames::of_events(&filter).require_known(outbox)?;
    }
    Ok(page)
}

/// A page of archived events, newest first. If no index serves the filter, at most 100,000 ids are searched for a page: it
/// may have fewer than `limit` rows although there is a next page. The status of the filter has no effect: every archived event
/// is SENT. [`find_event`](super::find_event) reads the content of an event.
pub async fn archived_events(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: OutboxFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<ArchivedEvent>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let mut view = outbox.view().await?;
    let page = page_of(view.outbox_view(), Archived(filter.clone()), before, limit).await?;
    drop(view);
    let selection = [("archived", Some(Json::Bool(true))), ("cursor", before.map(Json::from))];
    let mut read = Action::read("outbox.list", selection);
    read.selection.extend(filter_fields(&filter));
    read.record(&outbox.tx, operator, filter.tenant, count(page.items.len())).await?;
    if is_without_match(&page, before) {
        FilterNames::of_events(&filter).require_known(outbox)?;
    }
    Ok(page)
}

/// A page of events that are not published (`NEW`, `RETRY`, `FAILED`), the oldest first; with a status, of those in this
/// status. The cursor is the id of the last event of the previous page.
///
/// # Errors
/// [`OperationError::OldestPublished`]: the filter selects published events.
pub async fn oldest_events(
    outbox: &Outbox,
    operator: &Operator,
    mut filter: OutboxFilter,
    after: Option<i64>,
    limit: u32,
) -> Result<Page<ListedEvent>, OperationError> {
    filter.tenant = operator.visible(filter.tenant)?;
    let statuses = match filter.status {
        None => vec![OutboxStatus::New, OutboxStatus::Retry, OutboxStatus::Failed],
        Some(OutboxStatus::Sent) => return Err(OperationError::OldestPublished),
        Some(status @ (OutboxStatus::New | OutboxStatus::Retry | OutboxStatus::Failed)) => vec![status],
    };
    let mut view = outbox.view().await?;
    let mut rows = Vec::new();
    for status in statuses {
        let filter = OutboxFilter { status: Some(status), ..filter.clone() };
        rows.extend(view.outbox_view().outbox_after(&filter, after, limit.saturating_add(1)).await?);
    }
    rows.sort_by_key(|row| row.id);
    // A row whose status changed between the queries can be in the results for both statuses.
    rows.dedup_by_key(|row| row.id);
    let page = Page::cut(rows, limit, |row| row.id);
    let page =
        Page { items: listed(outbox, operator, view.outbox_view(), page.items).await?, next: page.next };
    drop(view);
    let selection = [("oldest", Some(Json::Bool(true))), ("cursor", after.map(Json::from))];
    let mut read = Action::read_personal_data("outbox.list", operator, selection);
    read.selection.extend(filter_fields(&filter));
    read.record(&outbox.tx, operator, filter.tenant, count(page.items.len())).await?;
    if after.is_none() && page.items.is_empty() {
        FilterNames::of_events(&filter).require_known(outbox)?;
    }
    Ok(page)
}

/// Depths of all queues. They contain no payloads and are available to every operator. Not recorded in the audit log:
/// programs poll them.
pub async fn queues(outbox: &Outbox, operator: &Operator) -> Result<Vec<QueueDepth>, OperationError> {
    operator.visible(None)?;
    Ok(outbox.broker.queues().await?)
}

fn tenant_field(tenant: Option<TenantId>) -> (&'static str, Option<Json>) {
    ("tenantId", tenant.map(|tenant| tenant.get().into()))
}
