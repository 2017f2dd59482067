//! Reads one event, in the outbox or in the archive, and shows rows as an operator may see them.

use handover_events::EventId;

use super::archive::archived_among;
use super::{Action, OperationError, Operator};
use crate::archive::read_archived;
use crate::broker_outage::Outage;
use crate::outbox::Outbox;
use crate::ports::{OutboxRow, OutboxView, StoreError};
use crate::privacy::masked_json;
use crate::process_report::reported_outage;

/// Finds an event in any status, also in the archive. For an operator without access to personal data, payload fields that no
/// event type declares as visible are masked.
///
/// # Errors
/// - [`OperationError::Archived`]: the event is in the archive, and the archive is off in this process.
/// - [`OperationError::Archive`]: the event is in the archive, whose storage failed.
pub async fn find_event(
    outbox: &Outbox,
    operator: &Operator,
    id: &EventId,
) -> Result<ListedEvent, OperationError> {
    let tenant = operator.visible(None)?;
    let found = match in_outbox(outbox, operator, id).await? {
        Some(event) => Ok(Some(event)),
        None => in_archive(outbox, operator, id).await,
    };
    let shown = found.as_ref().ok().and_then(Option::as_ref);
    let owner = shown.map_or(tenant, |event| Some(event.row.aggregate.tenant));
    let read = Action::read_personal_data("outbox.show", operator, [("eventId", Some(id.as_str().into()))]);
    read.record(&outbox.tx, operator, owner, u64::from(shown.is_some())).await?;
    found?.ok_or(OperationError::NotFound { what: "event" })
}

async fn in_outbox(
    outbox: &Outbox,
    operator: &Operator,
    id: &EventId,
) -> Result<Option<ListedEvent>, OperationError> {
    let tenant = operator.visible(None)?;
    let mut view = outbox.view().await?;
    let mut rows = view.outbox_view().outbox_by_event(std::slice::from_ref(id)).await?;
    rows.retain(|row| tenant.is_none_or(|tenant| row.aggregate.tenant == tenant));
    Ok(listed(outbox, operator, view.outbox_view(), rows).await?.pop())
}

async fn in_archive(
    outbox: &Outbox,
    operator: &Operator,
    id: &EventId,
) -> Result<Option<ListedEvent>, OperationError> {
    let archived = archived_among(outbox, operator, std::slice::from_ref(id)).await?;
    if archived.is_empty() {
        return Ok(None);
    }
    let Some(archive) = &outbox.archive else { return Err(OperationError::Archived { event: id.clone() }) };
    let mut contents = read_archived(&outbox.tx, &*archive.storage, &archived).await?;
    let Some(content) = contents.remove(id).transpose()? else { return Ok(None) };
    let row = visible_row(outbox, operator, content.event.row);
    Ok(Some(ListedEvent { row, broker_outage: None, archive_file: Some(content.file) }))
}

/// An event with what it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedEvent {
    /// The event.
    pub row: OutboxRow,
    /// The outage of the broker for which an event waits that is not published yet.
    pub broker_outage: Option<Outage>,
    /// Name of the archive's file that contains the event; `None`: it is in the outbox.
    pub archive_file: Option<String>,
}

/// The events as this operator may see them.
pub(super) async fn listed(
    outbox: &Outbox,
    operator: &Operator,
    view: &mut dyn OutboxView,
    rows: Vec<OutboxRow>,
) -> Result<Vec<ListedEvent>, StoreError> {
    let has_pending = rows.iter().any(|row| row.status.is_pending());
    let outage = if has_pending { reported_outage(outbox, view).await? } else { None };
    let listed = rows.into_iter().map(|row| {
        let broker_outage = outage.clone().filter(|_| row.status.is_pending());
        ListedEvent { row: visible_row(outbox, operator, row), broker_outage, archive_file: None }
    });
    Ok(listed.collect())
}

/// A row with the payload as this operator may see it.
fn visible_row(outbox: &Outbox, operator: &Operator, mut row: OutboxRow) -> OutboxRow {
    row.payload = visible_json(outbox, operator, Some(&row.event_type), std::mem::take(&mut row.payload));
    row
}

/// A payload or envelope as this operator may see it.
pub(super) fn visible_json(
    outbox: &Outbox,
    operator: &Operator,
    event_type: Option<&str>,
    json: String,
) -> String {
    let closed = outbox.registry.with_closed_fields(event_type, &json);
    if operator.sees_personal_data { closed.into_owned() } else { masked_json(&outbox.registry, &closed) }
}
