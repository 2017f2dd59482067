//! Selection of due rows in a store with only the outbox.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_contract::samples::{BOOK_LENT, BOOK_OVERDUE, due_at};
use handover_events::{AggregateRef, OutboxStatus};
use handover_memory::{MemoryStore, SeededRandom, VirtualClock};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{
    Due, DueQuery, FailedPublish, NewEvent, OnFailed, OutboxFilter, OutboxRow, RandomSource, Store,
    UnitOfWork, View,
};

use super::store::{START, event};

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(VirtualClock::new(START)), WakeupNotifier::default())
}

fn failed(id: &str, status: OutboxStatus, due: Option<DateTime<Utc>>) -> FailedPublish {
    let event_id = id.parse().unwrap();
    FailedPublish { event_id, status, retry_count: 1, next_retry_time: due, error: "no".to_owned() }
}

async fn due(store: &MemoryStore, now: DateTime<Utc>, on_failed: OnFailed, limit: u32) -> Vec<String> {
    let mut view = store.view().await.unwrap();
    ids(&view.outbox_view().outbox_due(&DueQuery { on_failed, limit, ..due_at(now) }).await.unwrap().rows)
}

fn ids(rows: &[OutboxRow]) -> Vec<String> {
    rows.iter().map(|row| row.event_id.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn rows_become_visible_in_commit_order() {
    let store = store();
    let mut first = store.begin().await.unwrap();
    let mut second = store.begin().await.unwrap();
    first.outbox().append(&[event("a", 1, 1)]).await.unwrap();
    second.outbox().append(&[event("b", 2, 1)]).await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(due(&store, START, OnFailed::Continue, 9).await, ["b"]);
    first.commit().await.unwrap();
    assert_eq!(due(&store, START, OnFailed::Continue, 9).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn due_rows_follow_aggregate_order_and_blocked_rows_do_not_count_toward_limit() {
    let store = store();
    let later = START + Duration::from_secs(5);
    let mut unit = store.begin().await.unwrap();
    let timeout = NewEvent { event_type: BOOK_OVERDUE.to_owned(), ..event("a-timeout", 1, 1) };
    // "b0" was inserted last, but is first in the order of its aggregate.
    let events = [
        event("a1", 1, 1),
        event("a2", 1, 2),
        timeout,
        event("b1", 2, 1),
        event("b2", 2, 2),
        event("b0", 2, 0),
    ];
    unit.outbox().append(&events).await.unwrap();
    unit.outbox().mark_failed(&[failed("a1", OutboxStatus::Retry, Some(later))], START).await.unwrap();
    assert_eq!(
        ids(&unit.outbox().outbox_due(&DueQuery { limit: 9, ..due_at(START) }).await.unwrap().rows),
        ["a-timeout", "b0", "b1", "b2"]
    );
    unit.commit().await.unwrap();
    assert_eq!(due(&store, START, OnFailed::Continue, 2).await, ["a-timeout", "b0"]);
    assert_eq!(due(&store, later, OnFailed::Continue, 9).await, ["a1", "a2", "a-timeout", "b0", "b1", "b2"]);

    let mut unit = store.begin().await.unwrap();
    assert_eq!(unit.outbox().outbox_due(&due_at(START)).await.unwrap().next, Some(later));
    assert_eq!(
        unit.outbox().mark_failed(&[failed("a1", OutboxStatus::Failed, None)], START).await.unwrap(),
        1
    );
    assert_eq!(
        unit.outbox().mark_failed(&[failed("a1", OutboxStatus::Retry, None)], START).await.unwrap(),
        0
    );
    unit.commit().await.unwrap();
    assert_eq!(due(&store, START, OnFailed::Continue, 2).await, ["a2", "a-timeout"]);
    assert_eq!(due(&store, START, OnFailed::Hold, 2).await, ["a-timeout", "b0"]);
}

/// Reference implementation of `outbox_due`: simple and slow.
fn reference_due(rows: &[OutboxRow], now: DateTime<Utc>, on_failed: OnFailed) -> Vec<i64> {
    let ordered = |row: &OutboxRow| row.event_type != BOOK_OVERDUE;
    let is_due = |row: &OutboxRow| row.next_retry_time.is_none_or(|due| due <= now);
    let free = rows.iter().filter(|row| {
        let blocks_it = |other: &OutboxRow| {
            let earlier = (other.aggregate_seq, other.id) < (row.aggregate_seq, row.id);
            let is_blocking = match other.status {
                OutboxStatus::New | OutboxStatus::Retry => !is_due(other),
                OutboxStatus::Failed => on_failed == OnFailed::Hold,
                OutboxStatus::Sent => false,
            };
            other.aggregate == row.aggregate && earlier && ordered(other) && is_blocking
        };
        row.status.is_pending() && is_due(row) && (!ordered(row) || !rows.iter().any(blocks_it))
    });
    let mut free: Vec<i64> = free.map(|row| row.id).collect();
    free.sort_unstable();
    free
}

#[tokio::test(start_paused = true)]
async fn due_rows_match_reference_within_unit_of_work_and_after_commit() {
    for seed in 0..200 {
        let random = SeededRandom::new(seed);
        let roll = |sides: u64| i64::try_from(random.next() % sides).unwrap();
        let store = store();
        let mut number = 0;
        for _ in 0..4 {
            let mut unit = store.begin().await.unwrap();
            for _ in 0..roll(12) {
                number += 1;
                let event_type = if roll(4) == 0 { BOOK_OVERDUE } else { BOOK_LENT };
                let new = NewEvent {
                    event_type: event_type.to_owned(),
                    ..event(&format!("e{number}"), roll(4), roll(5))
                };
                unit.outbox().append(&[new]).await.unwrap();
                let id = format!("e{}", 1 + roll(u64::try_from(number).unwrap()));
                match roll(3) {
                    0 => {
                        let due = START + Duration::from_secs(roll(9).try_into().unwrap());
                        unit.outbox()
                            .mark_failed(&[failed(&id, OutboxStatus::Retry, Some(due))], START)
                            .await
                            .unwrap();
                    }
                    1 => {
                        unit.outbox()
                            .mark_failed(&[failed(&id, OutboxStatus::Failed, None)], START)
                            .await
                            .unwrap();
                    }
                    _ => {}
                }
            }
            let now = START + Duration::from_secs(4);
            let rows = unit.outbox().outbox_page(&OutboxFilter::default(), None, 1000).await.unwrap();
            let on_failed = if roll(2) == 0 { OnFailed::Hold } else { OnFailed::Continue };
            let Due { rows: within, next } =
                unit.outbox().outbox_due(&DueQuery { on_failed, limit: 1000, ..due_at(now) }).await.unwrap();
            unit.commit().await.unwrap();

            let mut due_ids: Vec<i64> = within.iter().map(|row| row.id).collect();
            due_ids.sort_unstable();
            assert_eq!(due_ids, reference_due(&rows, now, on_failed), "seed {seed}");
            assert_eq!(ids(&within), due(&store, now, on_failed, 1000).await, "seed {seed}");
            let positions = |aggregate: &AggregateRef| {
                let rows =
                    within.iter().filter(|row| row.aggregate == *aggregate && row.event_type == BOOK_LENT);
                rows.map(|row| (row.aggregate_seq, row.id)).collect::<Vec<_>>()
            };
            assert!(within.iter().all(|row| positions(&row.aggregate).is_sorted()), "seed {seed}");
            for limit in 0..within.len() {
                let some = due(&store, now, on_failed, u32::try_from(limit).unwrap()).await;
                assert_eq!(some, ids(&within[..limit]), "seed {seed}");
            }
            let later =
                rows.iter().filter(|row| row.status.is_pending()).filter_map(|row| row.next_retry_time);
            assert_eq!(next, later.filter(|due| *due > now).min(), "seed {seed}");
        }
    }
}
