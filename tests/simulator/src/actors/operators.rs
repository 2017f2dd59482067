//! Operators: they redrive what failed, replay and discard dead letters, release what is held, and look.

use std::collections::BTreeSet;

use handover_events::{OutboxStatus, TenantId};
use handover_outbox::operations::*;
use handover_outbox::ports::{DeadLetterFilter, DeadLetterStatus, OnFailed, OutboxFilter};
use marketplace::App;

use super::journal::{Journal, Told};
use super::{by_operator, gifts, rows_by_hand, tenants};
use crate::faults::Faults;

/// What an operator does now and then.
pub(crate) async fn act(app: &App, faults: &Faults, journal: &Journal) {
    let [first, second] = tenants();
    let tenant = if faults.dice.permille(500) { first } else { second };
    let done = match faults.dice.below(14) {
        12 => {
            gifts::one(app, faults, journal, tenant).await;
            Ok(())
        }
        13 => {
            rows_by_hand::mislead(app, faults, tenant).await;
            Ok(())
        }
        0 | 1 => redrive(app, faults, journal, tenant, OutboxStatus::Failed).await,
        2 | 3 => redrive(app, faults, journal, tenant, OutboxStatus::Sent).await,
        4..=7 => replay(app, faults, tenant).await,
        8 | 9 => discard(app, faults, tenant).await,
        _ => release(app, faults, tenant).await,
    };
    if let Err(error) = done {
        faults.note("an operator", || format!("is told: {error}"));
    }
    // A look is written down, so it takes its time too.
    if faults.dice.permille(300) {
        look(app, faults, tenant).await;
    }
}

/// After the trouble: what failed goes out once more, and the dead get another chance.
pub(crate) async fn tidy_up(app: &App, faults: &Faults, journal: &Journal) {
    for tenant in tenants() {
        let done = redrive(app, faults, journal, tenant, OutboxStatus::Failed).await;
        complain(faults, "redrive", done);
        // What was sent is sent once more, and must change nothing.
        if faults.dice.permille(150) {
            let done = redrive(app, faults, journal, tenant, OutboxStatus::Sent).await;
            complain(faults, "redrive", done);
        }
        let done = replay(app, faults, tenant).await;
        complain(faults, "replay", done);
        for _ in 0..faults.dice.below(4) {
            rows_by_hand::repeat(app, faults, tenant).await;
        }
    }
}

/// Lets the events pass that a row holds which can never be sent; whether there are any.
pub(crate) async fn release_misled(app: &App, faults: &Faults) -> bool {
    if app.rules.on_failed == OnFailed::Continue {
        return false;
    }
    let mut released = 0;
    for tenant in tenants() {
        let operator = operator(faults, tenant);
        let filter = OutboxFilter { status: Some(OutboxStatus::Failed), ..OutboxFilter::default() };
        let failed = match outbox(&app.outbox, &operator, filter, None, 100).await {
            Ok(failed) => failed.items,
            Err(error) => {
                complain(faults, "look", Err(error));
                continue;
            }
        };
        let aggregates: BTreeSet<(String, i64)> = failed
            .into_iter()
            .filter(|row| rows_by_hand::is_unsendable(&row.event_id))
            .map(|row| (row.aggregate.kind, row.aggregate.id))
            .collect();
        for aggregate in aggregates {
            match release_aggregate(&app.outbox, &operator, None, aggregate, Some(reason())).await {
                Ok(events) => released += events,
                // It holds nothing, or was released before.
                Err(OperationError::NotFound { .. }) => {}
                Err(error) => complain(faults, "release", Err(error)),
            }
        }
    }
    released > 0
}

/// Where nothing is wrong, nothing may be refused.
fn complain(faults: &Faults, what: &str, done: Result<(), OperationError>) {
    if let Err(error) = done {
        faults.violation(format!("on a good day the {what} of an operator failed: {error}"));
    }
}

fn reason() -> Reason {
    Reason::new("a bad day".to_owned()).expect("a legal reason")
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
        rows: Rows::Filter { filter: filter.expect("a filter with a field"), after: None },
        dry_run: !faults.is_healed() && faults.dice.permille(100),
        pace: Pace::default(),
        reason: Some(reason()),
    };
    let operator = operator(faults, tenant);
    let done = redrive_events(&app.outbox, &operator, command).await?;
    faults.note("an operator", || format!("redrives {} {status} events of tenant {tenant}", done.redriven));
    if !done.more {
        journal.tell("an operator", Told::Redriven(operator.trace.trace_id, done.redriven));
    }
    Ok(())
}

fn all_letters() -> Letters {
    Letters::Filter { queue: None, event_type: None, tenant: None }
}

async fn replay(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    let command = ReplayLetters { letters: all_letters(), dry_run: false, reason: Some(reason()) };
    let done = replay_dead_letters(&app.outbox, &operator(faults, tenant), command).await?;
    faults.note("an operator", || {
        format!("replays {} of {} letters of tenant {tenant}", done.replayed, done.matched)
    });
    Ok(())
}

async fn discard(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    let operator = operator(faults, tenant);
    let mut letters =
        dead_letters(&app.outbox, &operator, DeadLetterFilter::default(), None, 20).await?.items;
    letters.retain(|it| matches!(it.letter.status, DeadLetterStatus::Open | DeadLetterStatus::Replaying));
    // One that is on its way back is the harder to give up.
    if letters.iter().any(|it| it.letter.status == DeadLetterStatus::Replaying) {
        letters.retain(|it| it.letter.status == DeadLetterStatus::Replaying);
    }
    let Some(parked) = faults.dice.pick(&letters) else { return Ok(()) };
    let keys = Named::new(vec![parked.letter.key.clone()]).expect("one name");
    let letters = Letters::Keys { keys, queue: Some(parked.letter.queue.clone()) };
    let done = discard_dead_letters(
        &app.outbox,
        &operator,
        DiscardLetters { letters, dry_run: false, reason: reason() },
    )
    .await?;
    faults.note("an operator", || {
        format!("discards {} letter: {} at {}", done.discarded, parked.letter.key, parked.letter.queue)
    });
    Ok(())
}

async fn release(app: &App, faults: &Faults, tenant: TenantId) -> Result<(), OperationError> {
    let operator = operator(faults, tenant);
    let held = blocked(&app.outbox, &operator, None, None, 10).await?;
    let Some(one) = faults.dice.pick(&held.items) else { return Ok(()) };
    let aggregate = (one.effect.aggregate.kind.clone(), one.effect.aggregate.id);
    let released = release_aggregate(&app.outbox, &operator, None, aggregate, Some(reason())).await?;
    faults.note("an operator", || format!("releases {released} events of order {}", one.effect.aggregate.id));
    Ok(())
}

/// An operator sees the rows of its own tenant and no others.
async fn look(app: &App, faults: &Faults, tenant: TenantId) {
    let operator = operator(faults, tenant);
    if let Ok(rows) = outbox(&app.outbox, &operator, OutboxFilter::default(), None, 50).await
        && let Some(row) = rows.items.iter().find(|row| row.aggregate.tenant != tenant)
    {
        faults.violation(format!("an operator of tenant {tenant} saw {} of another", row.event_id));
    }
    if let Ok(letters) = dead_letters(&app.outbox, &operator, DeadLetterFilter::default(), None, 50).await
        && let Some(parked) = letters.items.iter().find(|parked| parked.letter.tenant != tenant)
    {
        faults.violation(format!(
            "an operator of tenant {tenant} saw the letter {} of another",
            parked.letter.key
        ));
    }
}

fn operator(faults: &Faults, tenant: TenantId) -> Operator {
    by_operator(faults, tenant).operator().expect("it has the role")
}
