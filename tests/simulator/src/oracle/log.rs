//! Each consumer of a SENT event, except idle ones, has recorded the event as applied or DEAD, and every dead event has a
//! dead letter.

use std::collections::BTreeSet;

use handover_events::{ConsumeStatus, Envelope, OutboxStatus};
use handover_outbox::ports::{
    AuditFilter, ConsumeRecord, DeadLetter, DeadLetterStatus, OutboxRow, StoreError,
};
use marketplace_domain::Asset;

use super::{ALL, Checker};
use crate::row_kinds::{is_invalid, is_ordered};
use crate::run_settings::ATTEMPTS;

/// No operator action is in the audit log twice.
async fn check_audit(checker: &mut Checker<'_>) -> Result<(), StoreError> {
    let mut entries = BTreeSet::new();
    for entry in checker.view.outbox_view().audit_page(&AuditFilter::default(), None, ALL).await? {
        let entry = entry.effect;
        if entry.actor == "webhook-dispatcher" {
            // It may disable an endpoint again after an operator enabled it.
            continue;
        }
        let (trace, what) = (entry.trace_id.clone(), format!("{} {}", entry.action, entry.selection));
        if !entries.insert((entry.trace_id, entry.action, entry.selection, entry.tenant)) {
            checker.violation(format!("the audit log contains the {what} of trace {trace} twice"));
        }
    }
    Ok(())
}

/// No message of a committed event was parked as an unknown message, except a forged one, and one of an event whose row was
/// deleted.
fn check_unknown_messages(checker: &mut Checker<'_>) {
    let is_of_event = |dead_letter: &&DeadLetter| {
        Envelope::parse(&dead_letter.body).is_ok_and(|envelope| {
            checker.evidence.faults.observed(|observed| {
                let mut foreign = observed.foreign_bodies.iter().chain(&observed.purged_foreign_bodies);
                // An unknown message is parked under a hash of its body.
                dead_letter.key != envelope.event_id.as_str()
                    && observed.appended.contains(&envelope.event_id)
                    && !observed.deleted.contains(&envelope.event_id)
                    && foreign.all(|body| *body != dead_letter.body)
            })
        })
    };
    let parked =
        checker.dead_letters.values().filter(is_of_event).map(|it| (it.queue.clone(), it.body.clone()));
    for (queue, body) in parked.collect::<Vec<_>>() {
        checker.violation(format!(
            "{queue} has a dead letter of a committed event as of an unknown message: {body}"
        ));
    }
}

pub(super) async fn check(checker: &mut Checker<'_>) -> Result<(), StoreError> {
    for body in checker.evidence.faults.observed(|observed| observed.foreign_bodies.clone()) {
        if !checker.dead_letters.values().any(|dead_letter| dead_letter.body == body) {
            checker.violation(format!("the foreign message is not a dead letter: {body}"));
        }
    }
    let recovered = checker.evidence.recovered;
    for row in checker.rows {
        if recovered && row.status == OutboxStatus::Failed && !is_invalid(&row.event_id) {
            checker.violation(format!(
                "{} {} was redriven after the end of the faults, but is FAILED",
                row.event_type, row.event_id
            ));
        }
    }
    for subscriber in checker.evidence.app.subscribers() {
        let (name, takes) = (subscriber.name(), subscriber.event_types());
        let is_consumed =
            |row: &&OutboxRow| takes.contains(&row.event_type.as_str()) && !is_invalid(&row.event_id);
        for row in checker.rows.iter().filter(is_consumed) {
            let record = checker.record(name, &row.event_id).cloned();
            if record.is_none() && row.idle_consumers.contains(name) {
                continue;
            }
            check_one(checker, (name, &subscriber.queue), row, record.as_ref());
        }
    }
    check_unknown_messages(checker);
    check_audit(checker).await
}

/// Whether the event cannot be replayed: an earlier event of its order, which it requires, was discarded at this
/// consumer.
fn lacks_earlier_event(checker: &Checker<'_>, (name, queue): (&str, &str), row: &OutboxRow) -> bool {
    let is_asset = Asset::HELD.iter().any(|asset| asset.as_str() == name);
    let mut earlier = checker
        .rows
        .iter()
        .filter(|it| it.aggregate == row.aggregate && is_ordered(it) && it.aggregate_seq < row.aggregate_seq);
    let discarded = |it: &OutboxRow| {
        let dead_letter = checker.dead_letters.get(&(queue.to_owned(), it.event_id.to_string()));
        dead_letter.is_some_and(|dead_letter| dead_letter.status == DeadLetterStatus::Discarded)
    };
    is_asset && earlier.any(discarded)
}

fn check_one(
    checker: &mut Checker<'_>,
    (name, queue): (&str, &str),
    row: &OutboxRow,
    record: Option<&ConsumeRecord>,
) {
    let event = format!("{} {}", row.event_type, row.event_id);
    if let Some(record) = record {
        if record.attempts > ATTEMPTS {
            checker.violation(format!(
                "{name} made {} attempts at {event}, more than {ATTEMPTS}",
                record.attempts
            ));
        }
        if record.attempts > 1 {
            let place = "attempt after a failed or unfinished attempt";
            checker.evidence.faults.cover(|coverage| coverage.situation(place));
        }
    }
    let dead_letter = checker
        .dead_letters
        .get(&(queue.to_owned(), row.event_id.to_string()))
        .map(|dead_letter| dead_letter.status);
    match record.map(|record| record.status) {
        // An applied event with a discarded dead letter is a violation, except if its outbox row was lost at some time.
        Some(ConsumeStatus::Success)
            if dead_letter == Some(DeadLetterStatus::Discarded)
                && !checker.evidence.faults.observed(|observed| observed.deleted.contains(&row.event_id)) =>
        {
            checker.violation(format!("{event} was applied at {name}, but its dead letter was discarded"));
        }
        Some(ConsumeStatus::Success) => {}
        None if row.status == OutboxStatus::Failed || checker.is_blocked(row) => {}
        Some(ConsumeStatus::Dead) => {
            checker.evidence.faults.cover(|coverage| coverage.situation("dead letter"));
            let is_explained = match dead_letter {
                Some(DeadLetterStatus::Discarded) => true,
                Some(DeadLetterStatus::Open | DeadLetterStatus::Replaying) => {
                    !checker.evidence.recovered || lacks_earlier_event(checker, (name, queue), row)
                }
                Some(DeadLetterStatus::Replayed) | None => false,
            };
            if !is_explained {
                checker
                    .violation(format!("{event} is DEAD at {name}, but its dead letter is {dead_letter:?}"));
            }
        }
        None => checker.violation(format!("{name} has no record of {event}")),
        Some(status) => checker.violation(format!("{event} is still {status} at {name}")),
    }
}
