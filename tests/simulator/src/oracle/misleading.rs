//! Rows inserted by hand that announce what never happened, or that can never be sent: no consumer applies them, and a person
//! sees each of them.

use handover_events::*;
use handover_outbox::ports::*;
use marketplace::handlers::standard;

use super::Case;
use crate::actors::rows_by_hand::{is_contradiction, is_unsendable};

pub(super) fn check(case: &mut Case<'_>) {
    let subscribers = standard(&case.evidence.app);
    for row in case.rows {
        let event = format!("{} {} of order {}", row.event_type, row.event_id, row.aggregate.id);
        if is_unsendable(&row.event_id) {
            if row.status != OutboxStatus::Failed && !case.is_held(row) {
                case.breaks(format!("{event} can never be sent and is {}", row.status));
            }
            // A consumer that catches up with the order meets it, and gives it up.
            let records = case.log.get(&row.event_id).map(Vec::as_slice).unwrap_or_default();
            if records.iter().any(|(_, record)| record.status != ConsumeStatus::Dead) {
                case.breaks(format!("{event} can never be sent, and consumers had it: {records:?}"));
            }
        }
        if is_contradiction(&row.event_id) {
            for subscriber in &subscribers {
                if subscriber.handler.takes().contains(&row.event_type.as_str()) {
                    check_refused(case, (subscriber.handler.name(), subscriber.queue), row, &event);
                }
            }
        }
    }
}

/// Whoever takes the event has given it up, and it lies where a person sees it.
fn check_refused(case: &mut Case<'_>, (name, queue): (&str, &str), row: &OutboxRow, event: &str) {
    let status = case.record(name, &row.event_id).map(|record| record.status);
    let letter = case.letters.get(&(queue.to_owned(), row.event_id.to_string())).map(|letter| letter.status);
    match (status, letter) {
        (Some(ConsumeStatus::Dead), Some(letter)) if letter != DeadLetterStatus::Replayed => {}
        // The relay gave it up, or must not send it yet.
        (None, None) if row.status == OutboxStatus::Failed || case.is_held(row) => {}
        _ => {
            case.breaks(format!("{name} has {event}, which never happened, as {status:?}; letter {letter:?}"))
        }
    }
}
