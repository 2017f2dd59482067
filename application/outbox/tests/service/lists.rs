//! Tests of the operators' lists, counts and redrives if a table has more rows than are searched by one call.

use chrono::TimeDelta;
use handover_contract::samples::{audit_entry, consumption, dead_letter};
use handover_events::{AggregateRef, OutboxStatus, TenantId, Trace};
use handover_outbox::Page;
use handover_outbox::operations::{
    self, Operator, RedriveEvents, RedriveFilter, RedriveRate, RedriveSelection, redrive_events,
};
use handover_outbox::ports::*;

use crate::lent;
use crate::library::Library;
use crate::versions::confirmed;

/// Number of ids in a table: more than the 100,000 ids that one call searches or counts at most.
pub(crate) const MANY: i64 = 100_010;

fn operator() -> Operator {
    Operator {
        name: "user:9".to_owned(),
        tenant: TenantId::DEFAULT,
        sees_all_tenants: false,
        sees_personal_data: false,
        trace: Trace { trace_id: "trace-1".to_owned(), traceparent: None },
    }
}

/// Requests pages until a page has no cursor; returns the number of rows of each page.
pub(crate) async fn rows_per_page<T>(mut page: impl AsyncFnMut(Option<i64>) -> Page<T>) -> Vec<usize> {
    let mut rows = Vec::new();
    let mut cursor = None;
    loop {
        let page = page(cursor).await;
        rows.push(page.items.len());
        cursor = page.next;
        if cursor.is_none() {
            return rows;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn list_searches_limited_number_of_rows_per_page_if_event_type_is_rare() {
    // Only rows have the name of the rare type; an empty page before a next one is no reason to refuse it.
    let library = Library::sending([lent()]);
    let events = (1..=MANY).map(|n| {
        let event_type = if n <= 2 { "BOOK_LOST" } else { "BOOK_LENT" };
        library.event(&format!("e-{n}"), event_type, n, 1, "{}")
    });
    library.commit(events.collect()).await;
    let list = async |filter: OutboxFilter, cursor| {
        operations::outbox(&library.outbox, &operator(), filter, cursor, 10).await.unwrap()
    };
    let lost = OutboxFilter { event_type: Some("BOOK_LOST".to_owned()), ..OutboxFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(lost.clone(), cursor).await).await, [0, 2]);
    let unknown = OutboxFilter { event_type: Some("BOOK_BURNT".to_owned()), ..OutboxFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(unknown.clone(), cursor).await).await, [0, 0]);
    // An index serves the filter by aggregate id, so all ids of the table are searched for one page.
    let of_book = OutboxFilter { aggregate_id: Some(1.into()), ..OutboxFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(of_book.clone(), cursor).await).await, [1]);
}

/// Records the event `n` as applied, for each of [`MANY`] events.
async fn record_many(library: &Library, consumer: impl Fn(i64) -> &'static str) {
    let records = (1..=MANY).map(|n| {
        let event = library.event(&format!("e-{n}"), "BOOK_LENT", n, 1, "{}");
        Consumption { consume_time: library.outbox.now(), ..consumption(consumer(n), &event) }
    });
    let mut unit = library.tx.begin().await.unwrap();
    unit.outbox().record(&records.collect::<Vec<_>>()).await.unwrap();
    unit.commit().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn list_searches_limited_number_of_records_per_page_if_consumer_is_rare() {
    let library = Library::sending([]);
    record_many(&library, |n| if n <= 2 { "audit" } else { "loans" }).await;
    let list = async |filter: ConsumedFilter, cursor| {
        operations::consumptions(&library.outbox, &operator(), filter, cursor, 10).await.unwrap()
    };
    let audit = ConsumedFilter { consumer: Some("audit".to_owned()), ..ConsumedFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(audit.clone(), cursor).await).await, [0, 2]);
    let of_event =
        ConsumedFilter { event_id: Some(crate::library::event_id("e-1")), ..ConsumedFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(of_event.clone(), cursor).await).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn list_searches_limited_number_of_audit_entries_per_page_if_its_time_is_long_ago() {
    let library = Library::sending([]);
    let now = library.outbox.now();
    let long_ago = now - TimeDelta::days(9);
    let mut unit = library.tx.begin().await.unwrap();
    for n in 1..=MANY {
        let (at, changed) = if n <= 2 { (long_ago, 1) } else { (now, 0) };
        unit.outbox().audit(&AuditEntry { at, changed, ..audit_entry("outbox.redrive") }).await.unwrap();
    }
    unit.commit().await.unwrap();
    let list = async |filter: AuditFilter, cursor| {
        operations::audit_log(&library.outbox, &operator(), filter, cursor, 10).await.unwrap()
    };
    let old = AuditFilter { to: Some(now - TimeDelta::days(1)), ..AuditFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(old.clone(), cursor).await).await, [0, 2]);
    // An index serves the filter for changes, so all ids of the table are searched for one page.
    let changes = AuditFilter { changes: true, ..AuditFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(changes.clone(), cursor).await).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn list_searches_limited_number_of_dead_letters_per_page_if_those_of_a_time_are_rare() {
    let library = Library::sending([]);
    let now = library.outbox.now();
    let dead_letters = (1..=MANY).map(|n| DeadLetter {
        died_at: if n <= 2 { now - TimeDelta::days(9) } else { now },
        ..dead_letter("loans", &format!("e-{n}"))
    });
    let mut unit = library.tx.begin().await.unwrap();
    unit.outbox().park(&dead_letters.collect::<Vec<_>>()).await.unwrap();
    unit.commit().await.unwrap();
    let list = async |filter: DeadLetterFilter, cursor| {
        operations::dead_letters(&library.outbox, &operator(), filter, cursor, 10).await.unwrap()
    };
    let to = Some(now - TimeDelta::days(1));
    let old = DeadLetterFilter { to, ..DeadLetterFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(old.clone(), cursor).await).await, [0, 2]);
    // A limit of the caller is kept, and the search ends there.
    let above = DeadLetterFilter { above_id: Some(MANY - 5), ..old.clone() };
    assert_eq!(rows_per_page(async |cursor| list(above.clone(), cursor).await).await, [0]);
    // An index serves the filter for undecided ones, so all ids of the table are searched for one page.
    let open = DeadLetterFilter { status: Some(DeadLetterStatus::Open), ..old };
    assert_eq!(rows_per_page(async |cursor| list(open.clone(), cursor).await).await, [2]);
    let discarded =
        DeadLetterFilter { status: Some(DeadLetterStatus::Discarded), ..DeadLetterFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(discarded.clone(), cursor).await).await, [0, 0]);
    // An index serves the filter by key, so all ids of the table are searched for one page.
    let of_event = DeadLetterFilter { key: Some("e-1".to_owned()), to, ..DeadLetterFilter::default() };
    assert_eq!(rows_per_page(async |cursor| list(of_event.clone(), cursor).await).await, [1]);
}

#[tokio::test(start_paused = true)]
async fn stats_count_sent_and_applied_events_among_limited_number_of_ids() {
    let library = Library::sending([]);
    let statistics = async || operations::stats(&library.outbox, &operator(), None).await.unwrap();
    assert!(!statistics().await.outbox.more_sent);
    let events = (1..=MANY).map(|n| ReceivedEvent {
        event_id: crate::library::event_id(&format!("e-{n}")),
        event_type: "BOOK_LENT".to_owned(),
        aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Book".to_owned(), id: n.into() },
        aggregate_seq: 1,
        payload: "{}".to_owned(),
        metadata: EventMetadata::default(),
        occurred_at: library.outbox.now(),
        received_at: library.outbox.now(),
        max_retry_count: 0,
        routing_key: None,
    });
    let mut unit = library.tx.begin().await.unwrap();
    unit.outbox().receive(&events.collect::<Vec<_>>()).await.unwrap();
    unit.commit().await.unwrap();
    record_many(&library, |_| "loans").await;
    let stats = statistics().await;
    assert_eq!((stats.outbox.sent, stats.outbox.more_sent), (100_000, true));
    let loans = &stats.consumers[0];
    assert_eq!((loans.consumer.as_str(), loans.success, loans.more_success), ("loans", 100_000, true));
}

#[tokio::test(start_paused = true)]
async fn redrive_searches_limited_number_of_rows_per_call_if_sent_event_type_is_rare() {
    let library = Library::sending([]);
    let events = (1..=MANY).map(|n| {
        let event_type = match n {
            1 | MANY => "BOOK_LOST",
            n if n == MANY - 2 => "BOOK_TORN",
            _ => "BOOK_LENT",
        };
        library.event(&format!("e-{n}"), event_type, n, 1, "{}")
    });
    library.commit(events.collect()).await;
    let sent: Vec<Confirmed> = (1..=MANY).map(|n| confirmed(&format!("e-{n}"))).collect();
    let mut unit = library.tx.begin().await.unwrap();
    unit.outbox().mark_sent(&sent.iter().collect::<Vec<_>>(), library.outbox.now()).await.unwrap();
    unit.commit().await.unwrap();
    // Number of matching rows of each call, until a call has no cursor.
    let matched = async |filter: OutboxFilter, dry_run: bool| {
        let filter = RedriveFilter::new(OutboxFilter { status: Some(OutboxStatus::Sent), ..filter }).unwrap();
        let mut matched = Vec::new();
        let mut after = None;
        loop {
            let rows = RedriveSelection::Filter { filter: filter.clone(), after };
            let command = RedriveEvents { rows, dry_run, pace: RedriveRate::default(), reason: None };
            let redriven = redrive_events(&library.outbox, &operator(), command).await.unwrap();
            assert_eq!(redriven.more, redriven.next.is_some());
            assert_eq!(redriven.redriven, if dry_run { 0 } else { redriven.matched });
            matched.push(redriven.matched);
            after = redriven.next;
            if after.is_none() {
                return matched;
            }
        }
    };
    let lost = OutboxFilter { event_type: Some("BOOK_LOST".to_owned()), ..OutboxFilter::default() };
    assert_eq!(matched(lost.clone(), true).await, [1, 1]);
    assert_eq!(matched(lost.clone(), false).await, [1, 1]);
    assert_eq!(matched(lost, false).await, [0, 0], "both are already due");
    let torn = OutboxFilter { event_type: Some("BOOK_TORN".to_owned()), ..OutboxFilter::default() };
    assert_eq!(matched(torn, true).await, [0, 1]);
    // An index serves the filter by aggregate id, so all ids of the table are searched by one call.
    let of_book = OutboxFilter { aggregate_id: Some((MANY - 1).into()), ..OutboxFilter::default() };
    assert_eq!(matched(of_book, false).await, [1]);
}
