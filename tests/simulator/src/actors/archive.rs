//! Operators of the archive: they restore events, redrive them afterwards, start the archive and read archived events.

use chrono::TimeDelta;
use handover_events::{Envelope, EventId, Json, TenantId};
use handover_memory::MemoryBroker;
use handover_outbox::archive::Archive;
use handover_outbox::operations::{
    ArchiveEvents, Named, OperationError, Operator, Reason, RedriveEvents, RedriveRate, RedriveSelection,
    RestoreEvents, RestoreSelection, archive_events, find_event, redrive_events, restore_events,
};
use handover_outbox::ports::{ArchivedEvent, Message, OutboxFilter, OutboxRow, StoreError};
use marketplace::App;

use super::{by_operator, by_platform, tenants};
use crate::faults::Faults;
use crate::oracle::Evidence;

/// Number of archived events among which operators choose.
const CHOICE: u32 = 50;

/// One random action of an operator.
pub(crate) async fn act(app: &App, faults: &Faults) {
    let Some(tenant) = faults.random.pick(&tenants()).copied() else { return };
    let result = match faults.random.below(8) {
        0 | 1 => start_archive(app, faults, tenant).await,
        2 => read(app, faults, tenant).await,
        _ => restore(app, faults, tenant).await,
    };
    if let Err(error) = result {
        faults.note("an operator", || format!("receives: {error}"));
    }
}

/// After the fault phase: archived events cannot be redriven; operators restore some of them and redrive them.
pub(crate) async fn recover(app: &App, faults: &Faults) {
    for tenant in tenants() {
        let result = recover_as(app, faults, tenant).await;
        if let Err(error) = result {
            faults.violation(format!(
                "without faults, an action of an operator of the archive failed: {error}"
            ));
        }
    }
}

async fn recover_as(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    if let Some(event) = archived(app, faults, tenant).await? {
        match redrive(app, faults, tenant, vec![event.event_id.clone()]).await {
            Err(OperationError::Archived { .. }) => {}
            other => faults.violation(format!("redriving {}, which is archived: {other:?}", event.event_id)),
        }
    }
    read(app, faults, tenant).await?;
    restore(app, faults, tenant).await
}

/// After the fault phase: the broker delivers to each consumer an event that is in the archive, as it does after an outage that is
/// longer than the retention time.
pub(crate) async fn deliver_archived(evidence: &Evidence, broker: &MemoryBroker) -> Result<(), StoreError> {
    let archived = evidence.archived().await?;
    for subscriber in evidence.app.subscribers() {
        let types = subscriber.event_types();
        let taken = archived.iter().map(|event| &event.row).rev();
        let mut taken = taken.filter(|row| types.contains(&row.event_type.as_str()));
        if let Some((row, message)) = taken.find_map(|row| Some((row, message_of(row)?))) {
            let queue = &subscriber.queue;
            evidence.faults.note("environment", || format!("{queue} gets the archived {}", row.event_id));
            broker.inject(queue, message);
        }
    }
    Ok(())
}

/// The message of a row, unless its payload is not JSON.
fn message_of(row: &OutboxRow) -> Option<Message> {
    let envelope = Envelope {
        event_id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        aggregate_type: row.aggregate.kind.clone(),
        aggregate_id: row.aggregate.id.clone(),
        occurred_at: row.create_time,
        trace_id: row.trace_id().to_owned(),
        payload: Json::parse(&row.payload).ok()?,
    };
    Some(Message {
        message_id: Some(row.event_id.to_string()),
        kind: Some(row.event_type.clone()),
        correlation_id: Some(row.trace_id().to_owned()),
        headers: [("tenantId".to_owned(), row.aggregate.tenant.to_string())].into(),
        body: envelope.to_json(),
    })
}

fn operator(faults: &Faults, tenant: TenantId) -> Operator {
    by_operator(faults, tenant).operator().expect("the context must have the role operator")
}

fn reason() -> Reason {
    Reason::new("simulation".to_owned()).expect("a valid reason")
}

/// A random archived event of the tenant.
async fn archived(
    app: &App,
    faults: &Faults,
    tenant: TenantId,
) -> Result<Option<ArchivedEvent>, OperationError> {
    let filter = OutboxFilter { tenant: Some(tenant), ..OutboxFilter::default() };
    let mut view = app.outbox.view().await?;
    let archived = view.outbox_view().archived_page(&filter, None, CHOICE).await?;
    Ok(faults.random.pick(&archived).cloned())
}

/// Restores archived events by their ids, their aggregate or their time, and sometimes redrives one of them.
async fn restore(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    let Some(event) = archived(app, faults, tenant).await? else { return Ok(()) };
    let Some(archive) = Archive::of(&app.outbox) else { return Ok(()) };
    let events = match faults.random.below(3) {
        0 => RestoreSelection::Events(Named::new(vec![event.event_id.clone()]).expect("one name")),
        1 => RestoreSelection::Aggregate(event.aggregate.clone()),
        _ => {
            let around = TimeDelta::milliseconds(100);
            RestoreSelection::Period { from: event.create_time - around, to: event.create_time + around }
        }
    };
    faults.note("an operator", || format!("restores {events:?}"));
    let command = RestoreEvents { events, reason: reason() };
    let restored = restore_events(&archive, &operator(faults, tenant), command).await?;
    faults.note("an operator", || format!("restored {} events of tenant {tenant}", restored.restored));
    if faults.random.permille(600) {
        redrive(app, faults, tenant, vec![event.event_id]).await?;
        faults.cover(|coverage| coverage.situation("restored event redriven"));
    }
    Ok(())
}

async fn redrive(
    app: &App,
    faults: &Faults,
    tenant: TenantId,
    events: Vec<EventId>,
) -> Result<(), OperationError> {
    let command = RedriveEvents {
        rows: RedriveSelection::Events(Named::new(events).expect("a few names")),
        dry_run: false,
        pace: RedriveRate::default(),
        reason: Some(reason()),
    };
    let redriven = redrive_events(&app.outbox, &operator(faults, tenant), command).await?;
    faults.note("an operator", || format!("redrives {} restored events", redriven.redriven));
    Ok(())
}

/// Archives events, or reports what would happen.
async fn start_archive(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    let Some(archive) = Archive::of(&app.outbox) else { return Ok(()) };
    let platform = by_platform(faults, tenant).operator().expect("the platform is an operator");
    let command = ArchiveEvents { older_than: None, dry_run: faults.random.permille(300) };
    let report = archive_events(&archive, &platform, command).await?;
    faults.note("an operator", || format!("archives {} events: {:?}", report.events, report.kept));
    Ok(())
}

/// Reads an archived event. An operator of another tenant must not see it.
async fn read(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    let Some(event) = archived(app, faults, tenant).await? else { return Ok(()) };
    let outsider = operator(faults, TenantId::try_from(3).expect("a valid id"));
    if find_event(&app.outbox, &outsider, &event.event_id).await.is_ok() {
        faults.violation(format!("an operator of another tenant saw {}", event.event_id));
    }
    let shown = find_event(&app.outbox, &operator(faults, tenant), &event.event_id).await?;
    if (shown.row.id, &shown.row.aggregate) != (event.id, &event.aggregate) {
        faults.violation(format!("{event:?} is shown as {:?}", shown.row));
    }
    Ok(())
}
