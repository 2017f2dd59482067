//! Queries of operators on the consume log.

use chrono::TimeDelta;
use handover_events::{AggregateRef, ConsumeStatus, TenantId};
use handover_outbox::ports::{ConsumeCount, ConsumeCounts, Consumed, ConsumedFilter, Consumption, Expected};

use super::consume::{in_status, record};
use super::{StoreRig, view};
use crate::samples::{
    SPECIAL_CHARACTERS, aggregate, as_consumed, consumption, event, event_id, later, start, tenant,
};

fn row(consumer: &str, id: &str) -> Consumption {
    consumption(consumer, &event(id, 7, 1))
}

fn moved(from: &Consumption, status: ConsumeStatus) -> Consumption {
    Consumption { expected: Expected::At(from.status, from.attempts), status, ..from.clone() }
}

async fn of(rig: &dyn StoreRig, ids: &[&str]) -> Vec<Consumed> {
    let ids: Vec<_> = ids.iter().map(|id| event_id(id)).collect();
    view(rig).await.outbox_view().consumed_of(&ids).await.expect("cannot read the log")
}

fn names(rows: Vec<Consumed>) -> Vec<String> {
    rows.into_iter().map(|row| format!("{} {}", row.consumer, row.event_id)).collect()
}

/// Rows of a page, and the cursor of the next page.
async fn page(
    rig: &dyn StoreRig,
    filter: &ConsumedFilter,
    before: Option<i64>,
    limit: u32,
) -> (Vec<String>, Option<i64>) {
    let page = view(rig)
        .await
        .outbox_view()
        .consumed_page(filter, before, limit)
        .await
        .expect("cannot read the log");
    assert!(page.is_sorted_by(|a, b| a.id > b.id), "{page:?}");
    let next = page.last().map(|row| row.id);
    (names(page.into_iter().map(|row| row.effect).collect()), next)
}

/// A record is returned completely and in its current state.
pub async fn records_are_returned_completely(rig: &dyn StoreRig) {
    let first = Consumption {
        status: ConsumeStatus::Failed,
        attempts: 2,
        next_retry_time: Some(later(5) + TimeDelta::microseconds(1)),
        error_message: Some(format!("consuming failed: {SPECIAL_CHARACTERS}")),
        idempotency_key: Some("book:7:loan".into()),
        aggregate: AggregateRef { tenant: tenant(2), kind: "Reader".into(), id: (-7).into() },
        aggregate_seq: 17,
        event_type: "BOOK_TELEPORTED".into(),
        payload_hash: "f".repeat(64),
        trace_id: "trace-9".into(),
        cost_ms: 1_234,
        ..row("inventory", "full")
    };
    let minimal = row("webhooks", "full");
    record(rig, &[first.clone(), minimal.clone()]).await;
    assert_eq!(of(rig, &["full"]).await, [as_consumed(&first), as_consumed(&minimal)]);
    let now = Consumption {
        consume_result: Some(SPECIAL_CHARACTERS.into()),
        lease_until: Some(later(30)),
        error_message: None,
        consume_time: later(9),
        ..moved(&first, ConsumeStatus::Processing)
    };
    record(rig, std::slice::from_ref(&now)).await;
    let page =
        view(rig).await.outbox_view().consumed_page(&ConsumedFilter::default(), None, 10).await.unwrap();
    let page: Vec<_> = page.into_iter().map(|row| row.effect).collect();
    assert_eq!(page, [as_consumed(&minimal), as_consumed(&now)]);
}

/// Records of events are returned in the order in which they were first written, whatever changed later.
pub async fn records_of_events_are_ordered_by_first_write(rig: &dyn StoreRig) {
    let first = in_status(ConsumeStatus::Waiting, row("webhooks", "b"));
    record(rig, &[first.clone(), row("inventory", "c")]).await;
    record(rig, &[row("inventory", "a"), row("inventory", "b"), row("Inventory", "B")]).await;
    record(rig, &[moved(&first, ConsumeStatus::Success)]).await;
    let all = ["webhooks b", "inventory a", "inventory b"];
    assert_eq!(names(of(rig, &["a", "missing", "b", "a"]).await), all);
    assert_eq!(names(of(rig, &["B"]).await), ["Inventory B"]);
    assert_eq!(names(of(rig, &[]).await), [""; 0]);
}

/// The records of many events are all returned, and each only once even if its event is requested twice.
pub async fn records_of_many_events_are_returned_completely(rig: &dyn StoreRig) {
    let ids: Vec<_> = (0..300).map(|n| format!("e{n:03}")).collect();
    record(rig, &ids.iter().map(|id| row("inventory", id)).collect::<Vec<_>>()).await;
    let requested: Vec<_> = ids.iter().rev().chain(&ids[297..]).map(String::as_str).collect();
    let expected: Vec<_> = ids.iter().map(|id| format!("inventory {id}")).collect();
    assert_eq!(names(of(rig, &requested).await), expected);
}

/// Pages are ordered by record id, greatest first; each page starts below the cursor of the previous page.
pub async fn pages_of_the_log_are_ordered_by_descending_record_id(rig: &dyn StoreRig) {
    let first = in_status(ConsumeStatus::Failed, row("inventory", "a"));
    record(rig, std::slice::from_ref(&first)).await;
    for id in ["b", "c", "d", "e"] {
        record(rig, &[Consumption { consume_time: later(-5), ..row("inventory", id) }]).await;
    }
    record(rig, &[moved(&first, ConsumeStatus::Dead)]).await;
    let all = ConsumedFilter::default();
    let (first, next) = page(rig, &all, None, 2).await;
    assert_eq!(first, ["inventory e", "inventory d"]);
    let newer = ConsumedFilter { above_id: next, ..all.clone() };
    assert_eq!(
        page(rig, &newer, None, 9).await.0,
        ["inventory e"],
        "only records with ids above the bound may be returned"
    );
    let (second, next) = page(rig, &all, next, 2).await;
    assert_eq!(second, ["inventory c", "inventory b"]);
    let (last, next) = page(rig, &all, next, 2).await;
    assert_eq!(last, ["inventory a"], "an updated record must keep its id");
    assert_eq!(page(rig, &all, next, 2).await, (Vec::new(), None));
}

/// Each field of a filter narrows the page; several fields are combined with AND.
pub async fn every_part_of_a_filter_narrows_the_page_of_the_log(rig: &dyn StoreRig) {
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    let rows = [
        row("inventory", "a"),
        row("webhooks", "a"),
        in_status(ConsumeStatus::Dead, row("inventory", "b")),
        Consumption { aggregate: foreign, ..in_status(ConsumeStatus::Dead, row("inventory", "c")) },
        in_status(ConsumeStatus::Waiting, row("inventory", "d")),
    ];
    record(rig, &rows).await;
    let any = ConsumedFilter::default();
    let inventory = Some("inventory".to_owned());
    let dead = Some(ConsumeStatus::Dead);
    let everything = &["inventory d", "inventory c", "inventory b", "webhooks a", "inventory a"];
    let cases: [(ConsumedFilter, &[&str]); 13] = [
        (ConsumedFilter { from: Some(start()), ..any.clone() }, everything),
        (ConsumedFilter { from: Some(later(1)), ..any.clone() }, &[]),
        (ConsumedFilter { to: Some(start()), ..any.clone() }, &[]),
        (ConsumedFilter { to: Some(later(1)), ..any.clone() }, everything),
        (ConsumedFilter { tenant: Some(tenant(2)), ..any.clone() }, &["inventory c"]),
        (ConsumedFilter { tenant: Some(tenant(3)), ..any.clone() }, &[]),
        (ConsumedFilter { event_id: Some(event_id("a")), ..any.clone() }, &["webhooks a", "inventory a"]),
        (ConsumedFilter { event_id: Some(event_id("A")), ..any.clone() }, &[]),
        (ConsumedFilter { consumer: Some("webhooks".into()), ..any.clone() }, &["webhooks a"]),
        (ConsumedFilter { consumer: Some("Webhooks".into()), ..any.clone() }, &[]),
        (ConsumedFilter { status: dead, ..any.clone() }, &["inventory c", "inventory b"]),
        (
            ConsumedFilter { status: Some(ConsumeStatus::Success), consumer: inventory.clone(), ..any },
            &["inventory a"],
        ),
        (
            ConsumedFilter {
                tenant: Some(TenantId::DEFAULT),
                event_id: Some(event_id("b")),
                consumer: inventory,
                status: dead,
                from: Some(start()),
                to: Some(later(1)),
                above_id: Some(0),
            },
            &["inventory b"],
        ),
    ];
    for (filter, expected) in cases {
        assert_eq!(page(rig, &filter, None, 100).await.0, expected, "{filter:?}");
    }
}

/// Every status can be used as a filter.
pub async fn pages_of_the_log_can_be_filtered_by_each_status(rig: &dyn StoreRig) {
    for status in ConsumeStatus::ALL {
        record(rig, &[in_status(*status, row("inventory", status.as_str()))]).await;
    }
    for status in ConsumeStatus::ALL {
        let filter = ConsumedFilter { status: Some(*status), ..ConsumedFilter::default() };
        assert_eq!(page(rig, &filter, None, 10).await.0, [format!("inventory {status}")]);
    }
}

async fn counted(rig: &dyn StoreRig, of: Option<i64>) -> Vec<(String, ConsumeStatus, u64)> {
    let (counts, has_more) = counted_among(rig, of, 100_000).await;
    assert!(!has_more, "the log is small");
    counts
}

async fn counted_among(
    rig: &dyn StoreRig,
    of: Option<i64>,
    max_ids: i64,
) -> (Vec<(String, ConsumeStatus, u64)>, bool) {
    let mut view = view(rig).await;
    let counted = view.outbox_view().consume_counts(of.map(tenant), max_ids).await;
    let ConsumeCounts { counts, more_success } = counted.expect("cannot count the log");
    let counts = counts.into_iter();
    let counts = counts.map(|ConsumeCount { consumer, status, events }| (consumer, status, events)).collect();
    (counts, more_success)
}

fn count(consumer: &str, status: ConsumeStatus, events: u64) -> (String, ConsumeStatus, u64) {
    (consumer.to_owned(), status, events)
}

/// The log is counted by consumer and status, ordered by name, for one tenant or all.
pub async fn rows_of_the_log_are_counted_by_consumer_and_status(rig: &dyn StoreRig) {
    assert_eq!(counted(rig, None).await, []);
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    record(
        rig,
        &[
            row("webhooks", "a"),
            in_status(ConsumeStatus::Waiting, row("inventory", "a")),
            row("inventory", "b"),
            row("inventory", "c"),
            Consumption { aggregate: foreign, ..row("inventory", "d") },
            in_status(ConsumeStatus::Dead, row("Zeta", "a")),
        ],
    )
    .await;
    let mut all = vec![
        count("Zeta", ConsumeStatus::Dead, 1),
        count("inventory", ConsumeStatus::Success, 3),
        count("inventory", ConsumeStatus::Waiting, 1),
        count("webhooks", ConsumeStatus::Success, 1),
    ];
    assert_eq!(counted(rig, None).await, all);
    all[1].2 = 2;
    assert_eq!(counted(rig, Some(1)).await, all);
    assert_eq!(counted(rig, Some(2)).await, [count("inventory", ConsumeStatus::Success, 1)]);
    assert_eq!(counted(rig, Some(3)).await, []);
}

/// `SUCCESS` records are counted among the newest ids of the log, records in other states among all ids.
pub async fn applied_events_are_counted_among_the_newest_ids(rig: &dyn StoreRig) {
    record(rig, &[in_status(ConsumeStatus::Dead, row("inventory", "dead"))]).await;
    assert!(!counted_among(rig, None, 1).await.1, "the only record has one of the newest ids");
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    for consumption in [
        in_status(ConsumeStatus::Failed, row("inventory", "failed")),
        in_status(ConsumeStatus::Waiting, row("inventory", "waiting")),
        in_status(ConsumeStatus::Processing, row("inventory", "processing")),
        row("inventory", "applied"),
        Consumption { aggregate: foreign, ..row("webhooks", "foreign") },
    ] {
        record(rig, &[consumption]).await;
    }
    let unsettled = [
        count("inventory", ConsumeStatus::Dead, 1),
        count("inventory", ConsumeStatus::Failed, 1),
        count("inventory", ConsumeStatus::Processing, 1),
    ];
    let waiting = count("inventory", ConsumeStatus::Waiting, 1);
    let applied = count("inventory", ConsumeStatus::Success, 1);
    let foreign = count("webhooks", ConsumeStatus::Success, 1);
    let newest = [&unsettled[..], &[waiting.clone(), foreign.clone()]].concat();
    assert_eq!(counted_among(rig, None, 1).await, (newest, true));
    assert_eq!(
        counted_among(rig, Some(1), 1).await,
        ([&unsettled[..], std::slice::from_ref(&waiting)].concat(), true)
    );
    assert_eq!(counted_among(rig, Some(2), 1).await, (vec![foreign.clone()], true));
    let all = [&unsettled[..], &[applied, waiting, foreign]].concat();
    assert_eq!(counted_among(rig, None, i64::MAX).await, (all, false));
}
