//! Manually inserted rows that contradict their order or are unpublishable: no consumer applies them, and each of them
//! is FAILED or a dead letter.

use handover_events::{ConsumeStatus, OutboxStatus};
use handover_outbox::ports::{DeadLetterStatus, OutboxRow};

use super::Checker;
use crate::row_kinds::{is_contradiction, is_unpublishable};

pub(super) fn check(checker: &mut Checker<'_>) {
    let subscribers = checker.evidence.app.subscribers();
    for row in checker.rows {
        let event = format!("{} {} of order {}", row.event_type, row.event_id, row.aggregate.id);
        if is_unpublishable(&row.event_id) {
            if row.status != OutboxStatus::Failed && !checker.is_blocked(row) {
                checker.violation(format!("{event} is unpublishable, but its row is {}", row.status));
            }
            // A consumer that reads earlier events of the order from the outbox finds the row and sets the event to
            // DEAD.
            let records = checker.log.get(&row.event_id).map(Vec::as_slice).unwrap_or_default();
            if records.iter().any(|(_, record)| record.status != ConsumeStatus::Dead) {
                checker.violation(format!(
                    "{event} is unpublishable, but consumers have records of it: {records:?}"
                ));
            }
        }
        if is_contradiction(&row.event_id) {
            for subscriber in &subscribers {
                if subscriber.event_types().contains(&row.event_type.as_str()) {
                    check_contradiction(checker, (subscriber.name(), &subscriber.queue), row, &event);
                }
            }
        }
    }
}

/// Each consumer of the event must have set it to DEAD, with a dead letter.
fn check_contradiction(checker: &mut Checker<'_>, (name, queue): (&str, &str), row: &OutboxRow, event: &str) {
    let status = checker.record(name, &row.event_id).map(|record| record.status);
    let dead_letter = checker
        .dead_letters
        .get(&(queue.to_owned(), row.event_id.to_string()))
        .map(|dead_letter| dead_letter.status);
    match (status, dead_letter) {
        (Some(ConsumeStatus::Dead), Some(dead_letter)) if dead_letter != DeadLetterStatus::Replayed => {}
        // The row is FAILED, or blocked by a FAILED row.
        (None, None) if row.status == OutboxStatus::Failed || checker.is_blocked(row) => {}
        _ => checker.violation(format!(
            "{event} contradicts its order, but is {status:?} at {name}; dead letter {dead_letter:?}"
        )),
    }
}
