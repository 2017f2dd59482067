//! Operators: they redrive events, replay and discard dead letters, release blocked aggregates, and read.

use std::collections::BTreeSet;

use handover_events::{AggregateId, OutboxStatus, TenantId};
use handover_outbox::operations::{
    DeadLetterSelection, DiscardDeadLetters, Named, OperationError, Operator, Reason, RedriveEvents,
    RedriveFilter, RedriveRate, RedriveSelection, ReplayDeadLetters, blocked, dead_letters,
    discard_dead_letters, outbox, redrive_events, release_aggregate, replay_dead_letters,
};
use handover_outbox::ports::{DeadLetterFilter, DeadLetterStatus, OnFailed, OutboxFilter};
use marketplace::App;

use super::journal::{ClientResponse, Journal};
use super::{asset_grants, by_operator, manual_rows, tenants};
use crate::faults::Faults;
use crate::row_kinds::is_unpublishable;

/// One random action of an operator.
pub(crate) async fn act(app: &App, faults: &Faults, journal: &Journal) {
    let [first, second] = tenants();
    let tenant = if faults.random.permille(500) { first } else { second };
    let result = match faults.random.below(14) {
        12 => {
            asset_grants::grant_one(app, faults, journal, tenant).await;
            Ok(())
        }
        13 => {
            manual_rows::insert_invalid(app, faults, tenant).await;
            Ok(())
        }
        0 | 1 => redrive(app, faults, journal, tenant, OutboxStatus::Failed).await,
        2 | 3 => redrive(app, faults, journal, tenant, OutboxStatus::Sent).await,
        4..=7 => replay(app, faults, tenant).await,
        8 | 9 => discard(app, faults, tenant).await,
        _ => release(app, faults, tenant).await,
    };
    if let Err(error) = result {
        faults.note("an operator", || format!("receives: {error}"));
    }
    // Operators also read; reads are recorded in the audit log.
    if faults.random.permille(300) {
        read(app, faults, tenant).await;
    }
}

/// After the fault phase: redrives FAILED events, replays dead letters, and sometimes inserts second events of facts.
pub(crate) async fn recover(app: &App, faults: &Faults, journal: &Journal) {
    for tenant in tenants() {
        let result = redrive(app, faults, journal, tenant, OutboxStatus::Failed).await;
        require_success(faults, "redrive", result);
        // A redrive of SENT events must not repeat effects.
        if faults.random.permille(150) {
            let result = redrive(app, faults, journal, tenant, OutboxStatus::Sent).await;
            require_success(faults, "redrive", result);
        }
        let result = replay(app, faults, tenant).await;
        require_success(faults, "replay", result);
        for _ in 0..faults.random.below(4) {
            manual_rows::insert_second(app, faults, tenant).await;
        }
    }
}

/// Releases the aggregates blocked by an unpublishable row; returns whether any event was released.
pub(crate) async fn release_unpublishable(app: &App, faults: &Faults) -> bool {
    if app.outbox.on_failed() == OnFailed::Continue {
        return false;
    }
    let mut released = 0;
    for tenant in tenants() {
        let operator = operator(faults, tenant);
        let filter = OutboxFilter { status: Some(OutboxStatus::Failed), ..OutboxFilter::default() };
        let failed = match outbox(&app.outbox, &operator, filter, None, 100).await {
            Ok(failed) => failed.items.into_iter().map(|listed| listed.row),
            Err(error) => {
                require_success(faults, "read", Err(error));
                continue;
            }
        };
        let aggregates: BTreeSet<(String, AggregateId)> = failed
            .filter(|row| is_unpublishable(&row.event_id))
            .map(|row| (row.aggregate.kind, row.aggregate.id))
            .collect();
        for aggregate in aggregates {
            match release_aggregate(&app.outbox, &operator, None, aggregate, Some(reason())).await {
                Ok(events) => released += events,
                // Not an error: the aggregate is not blocked, or another command has already released it.
                Err(OperationError::NotFound { .. }) => {}
                Err(error) => require_success(faults, "release", Err(error)),
            }
        }
    }
    released > 0
}

/// Reports a violation if an action of an operator failed: after the fault phase, every action must succeed.
fn require_success(faults: &Faults, what: &str, result: Result<(), OperationError>) {
    if let Err(error) = result {
        faults.violation(format!("without faults, the {what} of an operator failed: {error}"));
    }
}

fn reason() -> Reason {
    Reason::new("simulation".to_owned()).expect("a valid reason")
}

async fn redrive(
    app: &App,
    faults: &Faults,
    journal: &Journal,
    tenant: TenantId,
    status: OutboxStatus,
) -> Result<(), OperationError> {
    let filter = RedriveFilter::new(OutboxFilter { status: Some(status), ..OutboxFilter::default() });
    let command = RedriveEvents {
        rows: RedriveSelection::Filter {
            filter: filter.expect("the filter must restrict the status"),
            after: None,
        },
        dry_run: !faults.is_healed() && faults.random.permille(100),
        pace: RedriveRate::default(),
        reason: Some(reason()),
    };
    let operator = operator(faults, tenant);
    let result = redrive_events(&app.outbox, &operator, command).await?;
    faults.note("an operator", || format!("redrives {} {status} events of tenant {tenant}", result.redriven));
    if !result.more {
        journal.record("an operator", ClientResponse::Redriven(operator.trace.trace_id, result.redriven));
    }
    Ok(())
}

fn all_dead_letters() -> DeadLetterSelection {
    DeadLetterSelection::Filter { queue: None, event_type: None, tenant: None, from: None, to: None }
}

async fn replay(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    let command = ReplayDeadLetters { selection: all_dead_letters(), dry_run: false, reason: Some(reason()) };
    let result = replay_dead_letters(&app.outbox, &operator(faults, tenant), command).await?;
    faults.note("an operator", || {
        format!("replays {} of {} dead letters of tenant {tenant}", result.replayed, result.matched)
    });
    Ok(())
}

async fn discard(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    let operator = operator(faults, tenant);
    let mut dead_letters =
        dead_letters(&app.outbox, &operator, DeadLetterFilter::default(), None, 20).await?.items;
    dead_letters
        .retain(|it| matches!(it.dead_letter.status, DeadLetterStatus::Open | DeadLetterStatus::Replaying));
    // Prefer a dead letter that is being replayed: discarding it is the more difficult case.
    if dead_letters.iter().any(|it| it.dead_letter.status == DeadLetterStatus::Replaying) {
        dead_letters.retain(|it| it.dead_letter.status == DeadLetterStatus::Replaying);
    }
    let Some(parked) = faults.random.pick(&dead_letters) else { return Ok(()) };
    let keys = Named::new(vec![parked.dead_letter.key.clone()]).expect("one name");
    let selection = DeadLetterSelection::Keys { keys, queue: Some(parked.dead_letter.queue.clone()) };
    let result = discard_dead_letters(
        &app.outbox,
        &operator,
        DiscardDeadLetters { selection, dry_run: false, reason: reason() },
    )
    .await?;
    faults.note("an operator", || {
        format!(
            "discards {} dead letter: {} at {}",
            result.discarded, parked.dead_letter.key, parked.dead_letter.queue
        )
    });
    Ok(())
}

async fn release(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    let operator = operator(faults, tenant);
    let held = blocked(&app.outbox, &operator, None, None, 10).await?;
    let Some(one) = faults.random.pick(&held.items) else { return Ok(()) };
    let aggregate = (one.effect.aggregate.kind.clone(), one.effect.aggregate.id.clone());
    let released = release_aggregate(&app.outbox, &operator, None, aggregate, Some(reason())).await?;
    faults.note("an operator", || format!("releases {released} events of order {}", one.effect.aggregate.id));
    Ok(())
}

/// An operator must see only the rows of its own tenant.
async fn read(app: &App, faults: &Faults, tenant: TenantId) {
    let operator = operator(faults, tenant);
    if let Ok(rows) = outbox(&app.outbox, &operator, OutboxFilter::default(), None, 50).await
        && let Some(row) =
            rows.items.iter().map(|listed| &listed.row).find(|row| row.aggregate.tenant != tenant)
    {
        faults.violation(format!("an operator of tenant {tenant} saw {} of another tenant", row.event_id));
    }
    if let Ok(dead_letters) =
        dead_letters(&app.outbox, &operator, DeadLetterFilter::default(), None, 50).await
        && let Some(parked) = dead_letters.items.iter().find(|parked| parked.dead_letter.tenant != tenant)
    {
        faults.violation(format!(
            "an operator of tenant {tenant} saw dead letter {} of another tenant",
            parked.dead_letter.key
        ));
    }
}

fn operator(faults: &Faults, tenant: TenantId) -> Operator {
    by_operator(faults, tenant).operator().expect("the context must have the role operator")
}
