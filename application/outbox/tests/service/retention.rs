//! Selection of the events that may leave the database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_events::{ConsumeStatus, EventId};
use handover_outbox::archive::{
    ExaminedPage, KeptBecause, MAX_EXAMINED_ROWS, NeededEvents, NoNeededEvents, RetentionPolicy, examine,
};
use handover_outbox::consumers::Subscriber;
use handover_outbox::ports::*;
use uuid::Uuid;

use crate::library::{Library, QUEUE, event_id, eventually};
use crate::{Loans, lent, noted};

const DAY: Duration = Duration::from_secs(86_400);

fn thirty_days() -> RetentionPolicy {
    RetentionPolicy::new(30 * DAY)
}

fn library() -> Library {
    Library::sending([lent(), noted()]).with(&Subscriber::new(QUEUE, Arc::new(Loans)))
}

fn kept(reasons: &[(KeptBecause, u64)]) -> BTreeMap<KeptBecause, u64> {
    reasons.iter().copied().collect()
}

fn ids(page: &ExaminedPage) -> Vec<&str> {
    page.archivable.iter().map(|event| event.row.event_id.as_str()).collect()
}

/// Exactly these events stay, as the application says.
struct Needs(&'static str);

#[async_trait]
impl NeededEvents for Needs {
    async fn needed(&self, rows: &[OutboxRow]) -> Result<BTreeSet<EventId>, StoreError> {
        assert!(rows.iter().any(|row| row.event_id.as_str() == self.0), "the application is asked about it");
        Ok([event_id(self.0)].into())
    }
}

impl Library {
    async fn examined(&self, policy: &RetentionPolicy, after: Option<i64>) -> ExaminedPage {
        examine(&self.outbox, policy, &NoNeededEvents, after).await.unwrap()
    }

    /// Runs work in a unit of work.
    async fn write(&self, work: impl AsyncFnOnce(&mut dyn OutboxUnit)) {
        let mut unit = self.tx.begin().await.unwrap();
        work(unit.outbox()).await;
        unit.commit().await.unwrap();
    }

    /// Commits a `BOOK_LENT` event for each id, each about another book.
    async fn lent(&self, ids: &[&str]) {
        let books = 1..;
        let events = books.zip(ids).map(|(book, id)| self.event(id, "BOOK_LENT", book, 1, r#"{"reader":3}"#));
        self.commit(events.collect()).await;
    }

    /// Waits until the consumer has settled the event.
    async fn applied(&self, id: &str) {
        eventually(async || {
            self.consumed("loans", id).await.map(|(status, _)| status) == Some(ConsumeStatus::Success)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn settled_event_may_leave_with_its_records_when_its_retention_time_is_over() {
    let library = library().started().await;
    library.lent(&["old"]).await;
    library.applied("old").await;
    eventually(async || library.row("old").await.sent_time.is_some()).await;
    library.set_clock_forward(30 * DAY - Duration::from_secs(3_600));
    let page = library.examined(&thirty_days(), None).await;
    assert_eq!((ids(&page), page.kept.get(&KeptBecause::Recent)), (vec![], Some(&1)));
    library.set_clock_forward(30 * DAY);
    let page = library.examined(&thirty_days(), None).await;
    assert_eq!(ids(&page), ["old"]);
    let records: Vec<&str> = page.archivable[0].records.iter().map(|it| it.consumer.as_str()).collect();
    assert_eq!(records, ["loans"]);
    assert_eq!(page.archivable[0].row, library.row("old").await);
    // The note that the handler appended has no queue: its row is FAILED.
    assert_eq!(page.kept, kept(&[(KeptBecause::Failed, 1)]));
    assert_eq!(page.next, None);
}

#[tokio::test(start_paused = true)]
async fn retention_time_of_a_type_replaces_the_default() {
    let library = library().started().await;
    library.lent(&["old"]).await;
    library.applied("old").await;
    library.set_clock_forward(2 * DAY);
    let short = thirty_days().with_type("BOOK_LENT", DAY);
    assert_eq!(ids(&library.examined(&short, None).await), ["old"]);
    let other = thirty_days().with_type("LOAN_EXPIRED", DAY);
    assert_eq!(ids(&library.examined(&other, None).await), [""; 0]);
    let never = thirty_days().with_type("BOOK_LENT", Duration::MAX);
    assert_eq!(ids(&library.examined(&never, None).await), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn event_that_is_not_published_stays() {
    let library = library();
    library.prepare().await;
    library.lent(&["pending"]).await;
    library.set_clock_forward(90 * DAY);
    let page = library.examined(&thirty_days(), None).await;
    assert_eq!((ids(&page), page.kept.clone()), (vec![], kept(&[(KeptBecause::Pending, 1)])));
}

#[tokio::test(start_paused = true)]
async fn redriven_event_begins_a_new_retention_time() {
    let library = library().started().await;
    library.lent(&["old"]).await;
    library.applied("old").await;
    library.set_clock_forward(40 * DAY);
    library.redrive("old").await;
    let page = library.examined(&thirty_days(), None).await;
    assert_eq!((ids(&page), page.kept.get(&KeptBecause::Recent)), (vec![], Some(&1)));
}

#[tokio::test(start_paused = true)]
async fn event_stays_until_every_consumer_that_it_concerns_has_settled_it() {
    let library = library();
    library.prepare().await;
    library.lent(&["first", "second"]).await;
    let idle = NewEvent {
        idle_consumers: ["loans", "of-a-newer-version"].into_iter().collect(),
        ..library.event("idle", "BOOK_LENT", 9, 1, "{}")
    };
    library.commit(vec![idle]).await;
    library.start_relay();
    eventually(async || library.row("idle").await.sent_time.is_some()).await;
    library.set_clock_forward(31 * DAY);
    library
        .write(async |unit| {
            unit.subscribe_consumer("late", library.outbox.now()).await.map(drop).unwrap();
            let registered = [
                ("late", "BOOK_LENT"),
                ("of-a-newer-version", "BOOK_LENT"),
                ("of-other-types", "LOAN_CREATED"),
            ];
            for (consumer, event_type) in registered {
                unit.register_types(consumer, &[event_type], 120_000).await.unwrap();
            }
        })
        .await;
    let page = library.examined(&thirty_days(), None).await;
    assert_eq!((ids(&page), page.kept.clone()), (vec!["idle"], kept(&[(KeptBecause::Unsettled, 2)])));
    for (consumer, status, archivable) in [
        ("loans", ConsumeStatus::Success, vec!["idle"]),
        ("of-a-newer-version", ConsumeStatus::Success, vec!["first", "idle"]),
        ("of-a-removed-consumer", ConsumeStatus::Waiting, vec!["idle"]),
    ] {
        library.set_clock_forward(Duration::ZERO);
        library.record(consumer, "first", status).await;
        library.set_clock_forward(31 * DAY);
        assert_eq!(ids(&library.examined(&thirty_days(), None).await), archivable, "{consumer}");
    }
}

#[tokio::test(start_paused = true)]
async fn event_of_an_undecided_dead_letter_stays() {
    let library = library();
    library.prepare().await;
    library.lent(&["dead"]).await;
    library.start_relay();
    eventually(async || library.row("dead").await.sent_time.is_some()).await;
    library.record("loans", "dead", ConsumeStatus::Dead).await;
    library.set_clock_forward(31 * DAY);
    let page = library.examined(&thirty_days(), None).await;
    assert_eq!(page.kept, kept(&[(KeptBecause::Unsettled, 1)]), "its message is not parked yet");
    let row = library.row("dead").await;
    let parked = DeadLetter {
        queue: QUEUE.to_owned(),
        key: "dead".to_owned(),
        tenant: row.aggregate.tenant,
        event_type: Some(row.event_type.clone()),
        trace_id: None,
        body: "{}".to_owned(),
        reason: "consuming failed".to_owned(),
        died_at: library.outbox.now(),
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    library.write(async |unit| unit.park(&[parked]).await.unwrap()).await;
    let mut from = DeadLetterStatus::Open;
    for (to, is_archivable) in [(DeadLetterStatus::Replaying, false), (DeadLetterStatus::Discarded, true)] {
        let page = library.examined(&thirty_days(), None).await;
        assert_eq!(page.kept, kept(&[(KeptBecause::DeadLetter, 1)]), "{from:?}");
        let decision = Decision {
            queue: QUEUE.to_owned(),
            key: "dead".to_owned(),
            from: vec![from],
            to,
            note: None,
            at: library.outbox.now(),
        };
        library.write(async |unit| assert_eq!(unit.decide(&decision).await.unwrap(), Changed::One)).await;
        assert_eq!(ids(&library.examined(&thirty_days(), None).await) == ["dead"], is_archivable, "{to:?}");
        from = to;
    }
}

#[tokio::test(start_paused = true)]
async fn event_with_a_pending_webhook_delivery_stays() {
    let library = library().started().await;
    library.lent(&["offered"]).await;
    library.applied("offered").await;
    let row = library.row("offered").await;
    let delivery = |dead_because: Option<String>| NewWebhookDelivery {
        endpoint: EndpointId(Uuid::from_u128(1)),
        tenant: row.aggregate.tenant,
        event_id: row.event_id.clone(),
        redelivery: u32::from(dead_because.is_none()),
        event_type: "book.lent".to_owned(),
        order_key: "Book/1".to_owned(),
        body: "{}".to_owned(),
        body_form: BodyForm::Thin,
        dead_because,
        at: library.outbox.now(),
    };
    let dead = delivery(Some("the endpoint is disabled".to_owned()));
    let pending = delivery(None);
    library.write(async |unit| unit.insert_webhook_deliveries(&[dead]).await.map(drop).unwrap()).await;
    library.set_clock_forward(31 * DAY);
    assert_eq!(ids(&library.examined(&thirty_days(), None).await), ["offered"]);
    library.write(async |unit| unit.insert_webhook_deliveries(&[pending]).await.map(drop).unwrap()).await;
    let page = library.examined(&thirty_days(), None).await;
    assert_eq!((ids(&page), page.kept.get(&KeptBecause::PendingDelivery)), (vec![], Some(&1)));
}

#[tokio::test(start_paused = true)]
async fn event_that_the_application_needs_stays() {
    let library = library().started().await;
    library.lent(&["needed", "other"]).await;
    library.applied("needed").await;
    library.applied("other").await;
    library.set_clock_forward(31 * DAY);
    let page = examine(&library.outbox, &thirty_days(), &Needs("needed"), None).await.unwrap();
    assert_eq!((ids(&page), page.kept.get(&KeptBecause::Needed)), (vec!["other"], Some(&1)));
}

#[tokio::test(start_paused = true)]
async fn pages_continue_after_the_low_water_mark_until_the_rows_are_too_new() {
    let library = library();
    library.prepare().await;
    let page = i64::from(MAX_EXAMINED_ROWS);
    let old = (1..=page + 1).map(|n| library.event(&format!("old-{n}"), "BOOK_LENT", n, 1, "{}"));
    library.commit(old.collect()).await;
    library.set_clock_forward(31 * DAY);
    let new = (1..=2 * page).map(|n| library.event(&format!("new-{n}"), "BOOK_LENT", page + 1 + n, 1, "{}"));
    library.commit(new.collect()).await;
    let first = library.examined(&thirty_days(), None).await;
    assert_eq!(first.kept, kept(&[(KeptBecause::Pending, u64::from(MAX_EXAMINED_ROWS))]));
    let last_of_first = library.row(&format!("old-{page}")).await.id;
    assert_eq!(first.next, Some(last_of_first));
    let second = library.examined(&thirty_days(), first.next).await;
    assert!(second.next.is_some(), "the page contains an old row");
    let third = library.examined(&thirty_days(), second.next).await;
    assert_eq!(third.next, None, "a pass ends at the first page without an old row");
    assert_eq!(
        library.examined(&RetentionPolicy::new(Duration::ZERO), third.next).await.next,
        Some(last_of_first)
    );
}

impl Library {
    /// Writes the first consume-log record of an event.
    pub(crate) async fn record(&self, consumer: &str, id: &str, status: ConsumeStatus) {
        let row = self.row(id).await;
        let record = Consumption {
            consumer: consumer.to_owned(),
            event_id: row.event_id,
            event_type: row.event_type,
            aggregate: row.aggregate,
            aggregate_seq: row.aggregate_seq,
            expected: Expected::Absent,
            status,
            attempts: 1,
            next_retry_time: None,
            lease_until: None,
            error_message: None,
            idempotency_key: None,
            consume_result: None,
            payload_hash: "ab".repeat(32),
            trace_id: "trace-1".to_owned(),
            cost_ms: 3,
            consume_time: self.outbox.now(),
        };
        self.write(async |unit| unit.record(&[record]).await.unwrap()).await;
    }
}
