//! Promises about events and messages: created, published, settled, duplicated, delayed, dead-lettered.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, OutboxStatus};
use handover_outbox::ports::{DeadLetterStatus, OutboxRow};
use marketplace_domain::{EventKind, OrderStatus};

use super::promise::{Evidence, Promise, Violations, promise, seconds};

/// Promise: each order has exactly one ORDER_CREATED event, and each such event has its order.
pub(super) fn created(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut created: BTreeMap<i64, usize> = BTreeMap::new();
    for event in database.events.iter().filter(|event| event.event_type == EventKind::OrderCreated.as_str()) {
        *created.entry(event.aggregate.id.number()).or_insert(0) += 1;
    }
    let mut violations = Violations::default();
    for id in database.orders.keys() {
        match created.remove(&id.get()) {
            Some(1) => {}
            count => violations
                .add(|| format!("order {id}: {} ORDER_CREATED events, expected 1", count.unwrap_or(0))),
        }
    }
    created.keys().for_each(|id| {
        violations.add(|| format!("order {id}: has an ORDER_CREATED event, but is not in the table"))
    });
    let count =
        database.events.iter().filter(|event| event.event_type == EventKind::OrderCreated.as_str()).count();
    let promised = format!("{} ORDER_CREATED", evidence.expected.orders);
    promise("every order has one ORDER_CREATED", promised, format!("{count} ORDER_CREATED"), &violations)
}

/// Promise: the broker confirmed every event.
pub(super) fn confirmed(evidence: &Evidence<'_>) -> Promise {
    let events = &evidence.database.events;
    let mut violations = Violations::default();
    for event in events.iter().filter(|event| event.status != OutboxStatus::Sent) {
        violations.add(|| format!("{} {} is {}, not SENT", event.event_type, event.event_id, event.status));
    }
    let sent = events.len() - violations.count;
    promise("every event is confirmed", format!("{} SENT", events.len()), format!("{sent} SENT"), &violations)
}

/// Promise: every consumer has exactly one consume-log record, with status SUCCESS, for every event that it subscribes to
/// and has work with.
pub(super) fn settled(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut rows: BTreeMap<(&str, &EventId), Vec<ConsumeStatus>> = BTreeMap::new();
    for consumed in &database.consumed {
        let key = (consumed.consumer.as_str(), &consumed.event_id);
        rows.entry(key).or_default().push(consumed.record.status);
    }
    let (mut violations, mut due) = (Violations::default(), 0);
    for consumer in evidence.consumers {
        let takes = |event: &&OutboxRow| {
            consumer.event_types.contains(&event.event_type) && !event.idle_consumers.contains(&consumer.name)
        };
        for event in database.events.iter().filter(takes) {
            due += 1;
            match rows.remove(&(consumer.name.as_str(), &event.event_id)).as_deref() {
                Some([ConsumeStatus::Success]) => {}
                Some(other) => violations.add(|| {
                    format!(
                        "{} {} at {}: {other:?}, expected one SUCCESS",
                        event.event_type, event.event_id, consumer.name
                    )
                }),
                None => violations.add(|| {
                    format!(
                        "{} {} at {}: no consume-log record",
                        event.event_type, event.event_id, consumer.name
                    )
                }),
            }
        }
    }
    rows.keys().for_each(|(consumer, event)| {
        violations.add(|| format!("{event} at {consumer}, which is not subscribed to it"))
    });
    let done =
        database.consumed.iter().filter(|consumed| consumed.record.status == ConsumeStatus::Success).count();
    promise(
        "every consumer settles every event",
        format!("{due} SUCCESS"),
        format!("{done} SUCCESS"),
        &violations,
    )
}

/// Promise: each copy of a message was acknowledged in addition to the message itself.
pub(super) fn duplicates(evidence: &Evidence<'_>) -> Promise {
    let mut violations = Violations::default();
    let (mut copies, mut ignored, mut republished) = (0, 0, 0);
    for ((queue, event), counts) in &evidence.injected.message_counts {
        let repeats = counts.acked.saturating_sub(1);
        copies += counts.copies;
        ignored += repeats.min(counts.copies);
        republished += repeats.saturating_sub(counts.copies);
        if repeats < counts.copies {
            violations.add(|| {
                format!(
                    "{event} at {queue}: {} acknowledged, expected 1 message and {} copies",
                    counts.acked, counts.copies
                )
            });
        }
    }
    if copies == 0 {
        violations.add(|| "the demo duplicated no message, so this promise could not be checked".to_owned());
    }
    let found = match republished {
        0 => format!("{ignored} ignored"),
        // The relay published these messages again, for example because the outage lost their confirms.
        _ => format!("{ignored} ignored, and {republished} republished"),
    };
    promise("duplicate messages are ignored", format!("{copies} copies"), found, &violations)
}

/// Promise: the outage used up no attempts, neither of the relay nor of consumers.
pub(super) fn outage(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut violations = Violations::default();
    let lasted = |(from, until): (DateTime<Utc>, DateTime<Utc>)| (until - from).to_std().unwrap_or_default();
    let outage = evidence.injected.outage.map(lasted).unwrap_or_default();
    if outage < evidence.expected.outage {
        violations.add(|| {
            format!("outage lasted only {}, planned {}", seconds(outage), seconds(evidence.expected.outage))
        });
    }
    let mut used = 0;
    for event in database.events.iter().filter(|event| event.retry_count > 0) {
        let failures = event.retry_count;
        used += failures;
        violations.add(|| {
            format!("{} {}: {failures} failed publishes, expected 0", event.event_type, event.event_id)
        });
    }
    for consumed in database.consumed.iter().filter(|consumed| consumed.record.attempts > 1) {
        let attempts = consumed.record.attempts;
        used += attempts - 1;
        violations.add(|| {
            format!("{} at {}: {attempts} attempts, expected 1", consumed.event_id, consumed.consumer)
        });
    }
    let (from, until) = evidence.injected.outage.unwrap_or_default();
    let waited = database.events.iter().filter(|event| (from..until).contains(&event.create_time)).count();
    let promised = format!("{} outage, 0 attempts used", seconds(evidence.expected.outage));
    let found = format!("{} outage, {waited} events waited, {used} attempts used", seconds(outage));
    promise("an outage uses no attempts", promised, found, &violations)
}

/// Promise: the corrupted message is the only dead letter, and an operator replayed or discarded it with a note. The
/// queue of the corrupted message delivered no message of the same event with the published body.
pub(super) fn dead_letters(evidence: &Evidence<'_>) -> Promise {
    let found = &evidence.database.dead_letters;
    let mut violations = Violations::default();
    match &evidence.injected.corrupted {
        None => violations
            .add(|| "the demo corrupted no message, so this promise could not be checked".to_owned()),
        Some(corrupted)
            if found.len() != 1 || found.iter().any(|dead_letter| dead_letter.queue != corrupted.queue) =>
        {
            violations.add(|| format!("{} dead letters, expected one from {}", found.len(), corrupted.queue));
        }
        Some(corrupted) => {
            let key = (corrupted.queue.clone(), corrupted.event.clone());
            // The replay applies the event from its outbox row. If the queue had also delivered a message with the
            // published body, the consumer could have applied the event from that message.
            if evidence.injected.message_counts.get(&key).is_some_and(|counts| counts.intact > 0) {
                violations.add(|| format!("{} also reached {} in an uncorrupted message", key.1, key.0));
            }
        }
    }
    let mut decided = 0;
    for dead_letter in found {
        match (dead_letter.status, &dead_letter.note) {
            (DeadLetterStatus::Replayed | DeadLetterStatus::Discarded, Some(_)) => decided += 1,
            (
                DeadLetterStatus::Open
                | DeadLetterStatus::Replaying
                | DeadLetterStatus::Replayed
                | DeadLetterStatus::Discarded,
                _,
            ) => violations.add(|| format!("{}: {}", dead_letter.key, dead_letter.reason)),
        }
    }
    let count = |found: usize, decided: usize| format!("{found}, {decided} explained");
    promise("dead letters are explained", count(1, 1), count(found.len(), decided), &violations)
}

/// Promise: no event, delivery, message or unpaid order is pending.
pub(super) fn nothing_pending(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let newest = database.events.iter().filter_map(|event| event.sent_time).max();
    let mut violations = Violations::default();
    let mut oldest = Duration::ZERO;
    for event in database.events.iter().filter(|event| event.status.is_pending()) {
        let age = newest.and_then(|newest| (newest - event.create_time).to_std().ok()).unwrap_or_default();
        oldest = oldest.max(age);
        violations.add(|| format!("{} {}, {}", event.event_type, event.event_id, event.status));
    }
    let unsettled = [ConsumeStatus::Processing, ConsumeStatus::Waiting, ConsumeStatus::Failed];
    for consumed in database.consumed.iter().filter(|consumed| unsettled.contains(&consumed.record.status)) {
        violations
            .add(|| format!("{} at {}, {}", consumed.event_id, consumed.consumer, consumed.record.status));
    }
    for order in database.orders.values().filter(|order| order.status == OrderStatus::Pending) {
        violations.add(|| format!("order {}, {}", order.id, order.status));
    }
    if evidence.queued > 0 {
        violations.add(|| format!("{} messages left in the queues", evidence.queued));
    }
    let text = |oldest: Duration, queued: u64| format!("oldest pending {}, {queued} queued", seconds(oldest));
    promise("nothing is pending", text(Duration::ZERO, 0), text(oldest, evidence.queued), &violations)
}
