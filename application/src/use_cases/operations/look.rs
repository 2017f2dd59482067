//! What operators look at: one event, blocked aggregates, dead letters, the consume log, the audit log.

use std::collections::BTreeSet;

use handover_domain::{EventId, TenantId};

use crate::ports::{
    AuditEntry, Blocked, Consumed, ConsumedFilter, DeadLetter, DeadLetterFilter, Numbered, OnFailed,
    OutboxRow,
};
use crate::use_cases::UseCaseError;
use crate::use_cases::queries::{Page, visible_tenant};
use crate::{App, CommandContext, privacy};

/// One event, wherever it stands; people in it are masked but for `pii`.
pub async fn find_event(
    app: &App,
    context: &CommandContext,
    id: &EventId,
) -> Result<OutboxRow, UseCaseError> {
    let tenant = visible_tenant(context, None)?;
    let mut rows = app.view().await?.outbox_by_event(std::slice::from_ref(id)).await?;
    rows.retain(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant));
    let mut row = rows.pop().ok_or(UseCaseError::NotFound { what: "event" })?;
    row.payload = privacy::shown(context, row.payload);
    Ok(row)
}

/// Aggregates whose later events are held by failed ones; none where such events do not hold
/// (`outbox.on-failed = "continue"`).
pub async fn blocked(
    app: &App,
    context: &CommandContext,
    tenant: Option<TenantId>,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Numbered<Blocked>>, UseCaseError> {
    let tenant = visible_tenant(context, tenant)?;
    let items = match app.rules.on_failed {
        OnFailed::Continue => Vec::new(),
        OnFailed::Hold => app.view().await?.blocked_page(tenant, before, limit.saturating_add(1)).await?,
    };
    Ok(Page::cut(items, limit, |row| row.id))
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

/// Dead letters, the last parked first; people in them are masked but for `pii`.
pub async fn dead_letters(
    app: &App,
    context: &CommandContext,
    mut filter: DeadLetterFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Parked>, UseCaseError> {
    filter.tenant = visible_tenant(context, filter.tenant)?;
    let mut view = app.view().await?;
    let letters = view.dead_letters_page(&filter, before, limit.saturating_add(1)).await?;
    let ids: Vec<EventId> = letters.iter().filter_map(|letter| letter.effect.key.parse().ok()).collect();
    let rows = view.outbox_by_event(&ids).await?;
    let ours: BTreeSet<&str> = rows.iter().map(|row| row.event_id.as_str()).collect();
    let parked = letters.into_iter().map(|Numbered { id, effect: mut letter }| {
        letter.body = privacy::shown(context, letter.body);
        let event = letter.key.parse().ok().filter(|_| ours.contains(letter.key.as_str()));
        Parked { id, letter, event }
    });
    Ok(Page::cut(parked.collect(), limit, |letter| letter.id))
}

/// The consume log, the last written first.
pub async fn consumptions(
    app: &App,
    context: &CommandContext,
    mut filter: ConsumedFilter,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Numbered<Consumed>>, UseCaseError> {
    filter.tenant = visible_tenant(context, filter.tenant)?;
    let items = app.view().await?.consumed_page(&filter, before, limit.saturating_add(1)).await?;
    Ok(Page::cut(items, limit, |row| row.id))
}

/// What operators did to the rows of a tenant, the last action first.
pub async fn audit_log(
    app: &App,
    context: &CommandContext,
    tenant: Option<TenantId>,
    before: Option<i64>,
    limit: u32,
) -> Result<Page<Numbered<AuditEntry>>, UseCaseError> {
    let tenant = visible_tenant(context, tenant)?;
    let items = app.view().await?.audit_page(tenant, before, limit.saturating_add(1)).await?;
    Ok(Page::cut(items, limit, |row| row.id))
}
