//! Every event that was sent is settled by every consumer that takes it, and what is given up lies where a person sees it.

use std::collections::BTreeSet;

use handover_events::*;
use handover_outbox::ports::*;
use marketplace::handlers::standard;
use marketplace_domain::*;

use super::{ALL, Case, is_ordered};
use crate::actors::rows_by_hand::is_misleading;
use crate::setting::ATTEMPTS;

/// What an operator did once is in the audit log once.
async fn check_audit(case: &mut Case<'_>) -> Result<(), StoreError> {
    let mut entries = BTreeSet::new();
    for entry in case.view.outbox_view().audit_page(&AuditFilter::default(), None, ALL).await? {
        let entry = entry.effect;
        let (trace, what) = (entry.trace_id.clone(), format!("{} {}", entry.action, entry.selection));
        if !entries.insert((entry.trace_id, entry.action, entry.selection, entry.tenant)) {
            case.breaks(format!("the audit log has the {what} of trace {trace} twice"));
        }
    }
    Ok(())
}

pub(super) async fn check(case: &mut Case<'_>) -> Result<(), StoreError> {
    for body in case.evidence.faults.seen(|seen| seen.strays.clone()) {
        if !case.letters.values().any(|letter| letter.body == body) {
            case.breaks(format!("nobody sees the stray message {body}"));
        }
    }
    let tidied = case.evidence.tidied;
    for row in case.rows {
        if tidied && row.status == OutboxStatus::Failed && !is_misleading(&row.event_id) {
            case.breaks(format!(
                "{} {} was redriven on a good day and is FAILED",
                row.event_type, row.event_id
            ));
        }
    }
    for subscriber in standard(&case.evidence.app) {
        let (name, takes) = (subscriber.handler.name(), subscriber.handler.takes());
        let is_taken =
            |row: &&OutboxRow| takes.contains(&row.event_type.as_str()) && !is_misleading(&row.event_id);
        for row in case.rows.iter().filter(is_taken) {
            let record = case.record(name, &row.event_id).cloned();
            check_one(case, (name, subscriber.queue), row, record.as_ref());
        }
    }
    check_audit(case).await
}

/// Whether it waits for a person for good: an earlier step of its order, which it needs, was discarded at this consumer.
fn lacks_a_step(case: &Case<'_>, (name, queue): (&str, &str), row: &OutboxRow) -> bool {
    let is_asset = Asset::HELD.iter().any(|asset| asset.as_str() == name);
    let mut earlier = case
        .rows
        .iter()
        .filter(|it| it.aggregate == row.aggregate && is_ordered(it) && it.aggregate_seq < row.aggregate_seq);
    let discarded = |it: &OutboxRow| {
        let letter = case.letters.get(&(queue.to_owned(), it.event_id.to_string()));
        letter.is_some_and(|letter| letter.status == DeadLetterStatus::Discarded)
    };
    is_asset && earlier.any(discarded)
}

fn check_one(
    case: &mut Case<'_>,
    (name, queue): (&str, &str),
    row: &OutboxRow,
    record: Option<&ConsumeRecord>,
) {
    let event = format!("{} {}", row.event_type, row.event_id);
    if let Some(record) = record {
        if record.attempts > ATTEMPTS {
            case.breaks(format!("{name} tried {event} {} times", record.attempts));
        }
        if record.attempts > 1 {
            let place = "an attempt after a failed or unfinished one";
            case.evidence.faults.cover(|coverage| coverage.place(place));
        }
    }
    let letter = case.letters.get(&(queue.to_owned(), row.event_id.to_string())).map(|letter| letter.status);
    match record.map(|record| record.status) {
        // What was discarded while its row was lost was no event of ours then.
        Some(ConsumeStatus::Success)
            if letter == Some(DeadLetterStatus::Discarded)
                && !case.evidence.faults.seen(|seen| seen.deleted.contains(&row.event_id)) =>
        {
            case.breaks(format!("{event} was discarded at {name} and took effect all the same"));
        }
        Some(ConsumeStatus::Success) => {}
        None if row.status == OutboxStatus::Failed || case.is_held(row) => {}
        Some(ConsumeStatus::Dead) => {
            case.evidence.faults.cover(|coverage| coverage.place("a dead letter"));
            let seen = match letter {
                Some(DeadLetterStatus::Discarded) => true,
                Some(DeadLetterStatus::Open | DeadLetterStatus::Replaying) => {
                    !case.evidence.tidied || lacks_a_step(case, (name, queue), row)
                }
                Some(DeadLetterStatus::Replayed) | None => false,
            };
            if !seen {
                case.breaks(format!("{name} gave up {event}, and its letter is {letter:?}"));
            }
        }
        None => case.breaks(format!("{name} never had {event}")),
        Some(status) => case.breaks(format!("{name} left {event} {status}")),
    }
}
