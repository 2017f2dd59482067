//! Query plans on SQLite: of searches for due rows and of operator queries.

mod explaining;
mod hot_statements;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, EventId, OutboxStatus, PartitionSet, TenantId};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{
    AheadQuery, AuditFilter, Clock, ConsumedFilter, DeadLetterFilter, DeadLetterStatus, DueQuery, EventGroup,
    OnFailed, OutboxFilter, UnorderedTypes,
};

use super::outbox::{Access, filtered};
use super::outbox_ahead::{extent, rows_ahead};
use super::outbox_due::in_order_of_ids;
use super::page::{NewestIds, Page, greatest_id};
use super::{SqlStore, archive, audit, consume, dead_letters, outbox_operations};
use crate::engine::sqlite::SqliteOptions;
use crate::session::Session;
use crate::value::Value;

pub(super) struct NoClock;

#[async_trait]
impl Clock for NoClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    async fn sleep(&self, _duration: Duration) {}
}

fn unordered() -> UnorderedTypes {
    ["REMINDER"].into_iter().collect()
}

fn due(on_failed: OnFailed) -> DueQuery {
    DueQuery {
        partitions: PartitionSet::ALL,
        now: DateTime::UNIX_EPOCH,
        on_failed,
        unordered: unordered(),
        limit: 200,
        from_id: 0,
        in_flight: Vec::new(),
    }
}

async fn plan(session: &mut Session, (sql, values): (String, Vec<Value>)) -> String {
    let rows = session.fetch(&format!("EXPLAIN QUERY PLAN {sql}"), values).await.unwrap();
    let steps = rows.iter().map(|row| row.of("plan", "id").string("detail").unwrap());
    steps.collect::<Vec<_>>().join("\n")
}

async fn store(directory: &tempfile::TempDir) -> SqlStore {
    let options = SqliteOptions::file(directory.path().join("test.db"));
    let store = SqlStore::open_sqlite(&options, Arc::new(NoClock), WakeupNotifier::default()).await.unwrap();
    store.migrate().await.unwrap();
    store
}

#[tokio::test]
async fn due_query_scans_pending_rows_in_id_order_without_sort() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let mut session = store.reading().await.unwrap();
    let dialect = session.dialect;
    for on_failed in [OnFailed::Continue, OnFailed::Hold] {
        for (from_id, access, in_flight) in [
            (0, "SCAN o", Vec::new()),
            (0, "SCAN o", (1..=200).chain([300, 400]).collect()),
            (9, "SEARCH o", vec![11]),
        ] {
            let query = DueQuery { from_id, in_flight, ..due(on_failed) };
            let plan = plan(&mut session, in_order_of_ids(dialect, &query)).await;
            assert!(plan.contains(&format!("{access} USING INDEX idx_outbox_pending")), "{plan}");
            assert!(plan.contains("SEARCH e USING INDEX idx_outbox_waiting"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}

#[tokio::test]
async fn search_behind_a_backlog_reads_pending_rows_in_id_order_without_sort() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let mut session = store.reading().await.unwrap();
    let dialect = session.dialect;
    for on_failed in [OnFailed::Continue, OnFailed::Hold] {
        let except = BTreeSet::from([EventGroup::Tenant(TenantId::DEFAULT)]);
        let query = AheadQuery { due: DueQuery { from_id: 9, ..due(on_failed) }, except, max_read: 5_000 };
        for statement in [extent(dialect, &query), rows_ahead(dialect, &query, 90)] {
            let plan = plan(&mut session, statement).await;
            assert!(plan.contains("SEARCH o USING"), "{plan}");
            assert!(plan.contains("INDEX idx_outbox_pending (id>"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE") && !plan.contains("SCAN e"), "{plan}");
        }
    }
}

#[tokio::test]
async fn operator_queries_use_an_index() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let mut session = store.reading().await.unwrap();
    let dialect = session.dialect;
    let tenant = Some(TenantId::DEFAULT);
    let events: [EventId; 3] = ["a", "b", "c"].map(|id| id.parse().unwrap());
    let dead = ConsumedFilter { tenant, status: Some(ConsumeStatus::Dead), ..ConsumedFilter::default() };
    let of_event = ConsumedFilter { tenant, event_id: Some(events[0].clone()), ..dead.clone() };
    let keys = ["a".to_owned(), "b".to_owned()];
    let open_dead_letters =
        DeadLetterFilter { tenant, status: Some(DeadLetterStatus::Open), ..Default::default() };
    let in_range = "USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
    let of_tenant = DeadLetterFilter { tenant, ..Default::default() };
    let open_of_all_tenants = DeadLetterFilter { tenant: None, ..open_dead_letters.clone() };
    let of_consumer =
        ConsumedFilter { consumer: Some("c".to_owned()), above_id: Some(1), ..ConsumedFilter::default() };
    let of_books = OutboxFilter {
        tenant,
        aggregate_type: Some("Book".to_owned()),
        above_id: Some(1),
        ..OutboxFilter::default()
    };
    let changes_of_all_tenants = AuditFilter { changes: true, above_id: Some(1), ..AuditFilter::default() };
    let discarded = DeadLetterFilter {
        tenant,
        queue: Some("a.queue".to_owned()),
        status: Some(DeadLetterStatus::Discarded),
        above_id: Some(1),
        ..Default::default()
    };
    let of_a_day =
        AuditFilter { from: Some(DateTime::UNIX_EPOCH), above_id: Some(1), ..AuditFilter::default() };
    let all_entries = AuditFilter { tenant, changes: false, ..AuditFilter::default() };
    let changes = AuditFilter { tenant, changes: true, ..AuditFilter::default() };
    let unordered = &unordered();
    let blocked = |tenant, before| outbox_operations::blocked(dialect, unordered, tenant, before, 100);
    let waiting = |tenant, before| {
        outbox_operations::waiting(
            dialect,
            unordered,
            OnFailed::Hold,
            tenant,
            DateTime::UNIX_EPOCH,
            before,
            100,
        )
    };
    let newest = NewestIds { after: 9, has_older: true };
    let outbox_counts = |tenant| outbox_operations::counts(dialect, tenant, &newest);
    let consume_counts = |tenant| consume::counts(dialect, tenant, &newest);
    let rare = OutboxFilter {
        tenant,
        status: Some(OutboxStatus::Sent),
        event_type: Some("BOOK_LOST".to_owned()),
        aggregate_type: Some("Book".to_owned()),
        from: Some(DateTime::UNIX_EPOCH),
        above_id: Some(9),
        below_id: Some(100_009),
        ..OutboxFilter::default()
    };
    let (select, id) = Access::InOrder.select(dialect);
    let in_window = |page| filtered(page, &rare, &Access::InOrder).limit(100);
    let by_id = "SEARCH o USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
    let cases = [
        (in_window(Page::above(&select, id, None)), by_id),
        (in_window(Page::below(&select, id, None)), by_id),
        (blocked(None, None), "SCAN o USING INDEX idx_outbox_failed"),
        (blocked(tenant, Some(9)), "SCAN o USING INDEX idx_outbox_failed"),
        (blocked(tenant, None), "SEARCH e USING INDEX idx_outbox_failed"),
        (blocked(tenant, None), "SEARCH e USING INDEX idx_outbox_order"),
        (waiting(None, None), "SEARCH o USING INDEX idx_outbox_pending"),
        (waiting(tenant, Some(9)), "SEARCH e USING INDEX idx_outbox_order"),
        (waiting(tenant, None), "SEARCH e USING INDEX idx_outbox_failed"),
        (outbox_operations::about(dialect, 1, "Book", &[1, 2, 3]), "SEARCH o USING INDEX idx_aggregate"),
        (consume::of_events(&events), "SEARCH event_consume_log USING INDEX idx_consume_event"),
        (
            consume::page(dialect, &of_event, None, 100),
            "SEARCH event_consume_log USING INDEX idx_consume_event",
        ),
        (consume::page(dialect, &dead, None, 100), "SEARCH event_consume_log USING INDEX idx_consume_open"),
        (outbox_counts(None), "SCAN o USING INDEX idx_outbox_pending"),
        (outbox_counts(tenant), "SEARCH f USING INDEX idx_status_time (status=?)"),
        (outbox_counts(tenant), "SEARCH s USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (consume_counts(None), "SEARCH l USING INDEX idx_consume_open (status=?)"),
        (consume_counts(tenant), "SEARCH l USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
        (
            (greatest_id("outbox_events"), vec![Value::from(9_i64)]),
            "SEARCH outbox_events USING INTEGER PRIMARY KEY (rowid<?)",
        ),
        (dead_letters::of_keys(&keys), "SEARCH dead_letters USING INDEX idx_dead_letters_key"),
        (
            dead_letters::page(dialect, &open_dead_letters, None, 100),
            "SEARCH dead_letters USING INDEX idx_dead_letters_undecided",
        ),
        (
            dead_letters::page(dialect, &of_tenant, None, 100),
            "SEARCH dead_letters USING INDEX idx_dead_letters_tenant",
        ),
        (
            dead_letters::page(dialect, &open_of_all_tenants, None, 100),
            "SCAN dead_letters USING INDEX idx_dead_letters_undecided",
        ),
        (
            dead_letters::page(
                dialect,
                &DeadLetterFilter { key: Some("a".to_owned()), ..of_tenant.clone() },
                None,
                9,
            ),
            "SEARCH dead_letters USING INDEX idx_dead_letters_key",
        ),
        (consume::page(dialect, &of_consumer, None, 100), in_range),
        (archive::page(dialect, &of_books, None, 100), in_range),
        (dead_letters::page(dialect, &discarded, None, 100), in_range),
        (
            dead_letters::page(dialect, &DeadLetterFilter { tenant: None, ..discarded.clone() }, None, 100),
            in_range,
        ),
        (audit::page(dialect, &changes_of_all_tenants, Some(9), 100), in_range),
        (audit::page(dialect, &of_a_day, Some(9), 100), in_range),
        (
            audit::page(dialect, &all_entries, Some(9), 100),
            "SEARCH outbox_audit_log USING INDEX idx_outbox_audit_tenant",
        ),
        (
            audit::page(dialect, &changes, Some(9), 100),
            "SEARCH outbox_audit_log USING INDEX idx_outbox_audit_changes",
        ),
        (
            audit::old_reads(dialect, DateTime::UNIX_EPOCH, 100),
            "SEARCH outbox_audit_log USING INDEX idx_outbox_audit_reads",
        ),
    ];
    for (query, step) in cases {
        let sql = query.0.clone();
        let plan = plan(&mut session, query).await;
        assert!(plan.contains(step), "{sql}\n{plan}");
    }
}
