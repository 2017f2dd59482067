//! Promises about events: announced, published, settled, and what befell them on their way.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, OutboxStatus};
use handover_outbox::ports::DeadLetterStatus;
use marketplace_domain::{EventType, OrderStatus};

use super::{Against, Evidence, Promise, promise, seconds};

/// Each order has one ORDER_CREATED, and no other order is announced.
pub(super) fn announced(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut announced: BTreeMap<i64, usize> = BTreeMap::new();
    for event in books.events.iter().filter(|event| event.event_type == EventType::OrderCreated.as_str()) {
        *announced.entry(event.aggregate.id).or_insert(0) += 1;
    }
    let mut against = Against::default();
    for id in books.orders.keys() {
        match announced.remove(&id.get()) {
            Some(1) => {}
            count => against.add(|| format!("order {id}, announced {} times", count.unwrap_or(0))),
        }
    }
    announced.keys().for_each(|id| against.add(|| format!("order {id}, which is not in the table")));
    let count =
        books.events.iter().filter(|event| event.event_type == EventType::OrderCreated.as_str()).count();
    let promised = format!("{} ORDER_CREATED", evidence.terms.orders);
    promise("every order is announced once", promised, format!("{count} ORDER_CREATED"), &against)
}

/// The broker confirmed every event.
pub(super) fn confirmed(evidence: &Evidence<'_>) -> Promise {
    let events = &evidence.books.events;
    let mut against = Against::default();
    for event in events.iter().filter(|event| event.status != OutboxStatus::Sent) {
        against.add(|| format!("{} {}, {}", event.event_type, event.event_id, event.status));
    }
    let sent = events.len() - against.count;
    promise("every event is confirmed", format!("{} SENT", events.len()), format!("{sent} SENT"), &against)
}

/// Every consumer has settled every event that it takes.
pub(super) fn settled(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut rows: BTreeMap<(&str, &EventId), Vec<ConsumeStatus>> = BTreeMap::new();
    for consumed in &books.consumed {
        let key = (consumed.consumer.as_str(), &consumed.event_id);
        rows.entry(key).or_default().push(consumed.record.status);
    }
    let (mut against, mut due) = (Against::default(), 0);
    for taker in evidence.takers {
        for event in books.events.iter().filter(|event| taker.takes.contains(&event.event_type)) {
            due += 1;
            match rows.remove(&(taker.consumer.as_str(), &event.event_id)).as_deref() {
                Some([ConsumeStatus::Success]) => {}
                Some(other) => against.add(|| {
                    format!("{} {} at {}, {other:?}", event.event_type, event.event_id, taker.consumer)
                }),
                None => against.add(|| {
                    format!("{} {} at {}, never seen", event.event_type, event.event_id, taker.consumer)
                }),
            }
        }
    }
    rows.keys().for_each(|(consumer, event)| {
        against.add(|| format!("{event} at {consumer}, which does not take it"))
    });
    let done =
        books.consumed.iter().filter(|consumed| consumed.record.status == ConsumeStatus::Success).count();
    promise(
        "every consumer settles every event",
        format!("{due} SUCCESS"),
        format!("{done} SUCCESS"),
        &against,
    )
}

/// What was delivered twice was acked without effect: each copy, beside the message that it is of.
pub(super) fn repeats(evidence: &Evidence<'_>) -> Promise {
    let mut against = Against::default();
    let (mut copies, mut ignored, mut more) = (0, 0, 0);
    for ((queue, event), way) in &evidence.happened.ways {
        let repeats = way.acked.saturating_sub(1);
        copies += way.copies;
        ignored += repeats.min(way.copies);
        more += repeats.saturating_sub(way.copies);
        if repeats < way.copies {
            against.add(|| format!("{event} at {queue}, {} acked of 1 and {}", way.acked, way.copies));
        }
    }
    if copies == 0 {
        against.add(|| "no delivery was doubled".to_owned());
    }
    let found = match more {
        0 => format!("{ignored} ignored"),
        // Those whose confirm was lost with the connection.
        _ => format!("{ignored} ignored, and {more} that were sent twice"),
    };
    promise("what comes twice is ignored", format!("{copies} copies"), found, &against)
}

/// The outage lost nothing and cost no attempt.
pub(super) fn outage(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut against = Against::default();
    let lasted = |(from, until): (DateTime<Utc>, DateTime<Utc>)| (until - from).to_std().unwrap_or_default();
    let away = evidence.happened.away.map(lasted).unwrap_or_default();
    if away < evidence.terms.outage {
        against.add(|| format!("an outage of {}", seconds(away)));
    }
    let mut spent = 0;
    for event in books.events.iter().filter(|event| event.retry_count > 0) {
        let failures = event.retry_count;
        spent += failures;
        against.add(|| format!("{} {} after {failures} failures", event.event_type, event.event_id));
    }
    for consumed in books.consumed.iter().filter(|consumed| consumed.record.attempts > 1) {
        let attempts = consumed.record.attempts;
        spent += attempts - 1;
        against.add(|| format!("{} at {} after {attempts} attempts", consumed.event_id, consumed.consumer));
    }
    let (from, until) = evidence.happened.away.unwrap_or_default();
    let waited = books.events.iter().filter(|event| (from..until).contains(&event.create_time)).count();
    let promised = format!("{} away, 0 attempts spent", seconds(evidence.terms.outage));
    let found = format!("{} away, {waited} events waited, {spent} attempts spent", seconds(away));
    promise("an outage costs no attempt", promised, found, &against)
}

/// The spoiled message is a dead letter that somebody has explained, its event came to that queue in no other way, and
/// there is no other dead letter.
pub(super) fn dead_letters(evidence: &Evidence<'_>) -> Promise {
    let letters = &evidence.books.dead_letters;
    let mut against = Against::default();
    match &evidence.happened.spoiled {
        None => against.add(|| "no message was spoiled".to_owned()),
        Some(spoiled) if letters.len() != 1 || letters.iter().any(|letter| letter.queue != spoiled.queue) => {
            against.add(|| format!("{} letters, where one died at {}", letters.len(), spoiled.queue));
        }
        Some(spoiled) => {
            let place = (spoiled.queue.clone(), spoiled.event.clone());
            // Else it is not the outbox alone that it was applied from.
            if evidence.happened.ways.get(&place).is_some_and(|way| way.whole > 0) {
                against.add(|| format!("{}, which came to {} unspoiled as well", place.1, place.0));
            }
        }
    }
    let mut decided = 0;
    for letter in letters {
        match (letter.status, &letter.note) {
            (DeadLetterStatus::Replayed | DeadLetterStatus::Discarded, Some(_)) => decided += 1,
            (
                DeadLetterStatus::Open
                | DeadLetterStatus::Replaying
                | DeadLetterStatus::Replayed
                | DeadLetterStatus::Discarded,
                _,
            ) => against.add(|| format!("{}: {}", letter.key, letter.reason)),
        }
    }
    let count = |letters: usize, decided: usize| format!("{letters}, {decided} explained");
    promise("dead letters are explained", count(1, 1), count(letters.len(), decided), &against)
}

/// Nothing is still on its way.
pub(super) fn pending(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let newest = books.events.iter().filter_map(|event| event.sent_time).max();
    let mut against = Against::default();
    let mut oldest = Duration::ZERO;
    for event in books.events.iter().filter(|event| event.status.is_pending()) {
        let age = newest.and_then(|newest| (newest - event.create_time).to_std().ok()).unwrap_or_default();
        oldest = oldest.max(age);
        against.add(|| format!("{} {}, {}", event.event_type, event.event_id, event.status));
    }
    let unsettled = [ConsumeStatus::Processing, ConsumeStatus::Waiting, ConsumeStatus::Failed];
    for consumed in books.consumed.iter().filter(|consumed| unsettled.contains(&consumed.record.status)) {
        against.add(|| format!("{} at {}, {}", consumed.event_id, consumed.consumer, consumed.record.status));
    }
    for order in books.orders.values().filter(|order| order.status == OrderStatus::Pending) {
        against.add(|| format!("order {}, {}", order.id, order.status));
    }
    if evidence.queued > 0 {
        against.add(|| "messages in the queues".to_owned());
    }
    let say = |oldest: Duration, queued: u64| format!("oldest pending {}, {queued} queued", seconds(oldest));
    promise("nothing is still on its way", say(Duration::ZERO, 0), say(oldest, evidence.queued), &against)
}
