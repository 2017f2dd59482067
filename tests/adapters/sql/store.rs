//! Tests specific to the store on SQLite. The contract suite covers the rules for every store.

use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use handover_contract::samples::due_at;
use handover_events::{Partition, PartitionSet, TenantId};
use handover_outbox::ports::{
    Changed, DueQuery, OutboxFilter, Store, StoreError, SystemFaultKind, outbox_of,
};
use handover_sql::{SqlStore, SqliteOptions};
use marketplace::ports::MarketStore;
use marketplace_sql::{MIGRATIONS, SqlMarket};
use sqlx::Executor;

use super::{append, event, fixture};
use crate::PATIENCE;

const SQL_INSERT: &str = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, \
    retry_count, next_retry_time, create_time, update_time) VALUES ('by-hand', 'ORDER_CREATED', 'Order', 900001, '{}', \
    'NEW', 0, NULL, '2026-02-04 10:30:00', '2026-02-04 10:30:00')";

#[tokio::test]
async fn row_inserted_by_sql_with_only_the_seed_columns_is_due() {
    let fixture = fixture().await;
    fixture.direct_connection().await.execute(SQL_INSERT).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let due =
        view.outbox_view().outbox_due(&DueQuery { limit: 10, ..due_at(Utc::now()) }).await.unwrap().rows;
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].create_time.to_rfc3339(), "2026-02-04T10:30:00+00:00");
    assert_eq!(
        (due[0].aggregate.tenant, due[0].aggregate_seq, due[0].trace_id()),
        (TenantId::DEFAULT, 0, "by-hand")
    );
}

/// Also through the wrappers that reduce a store to its outbox.
#[tokio::test]
async fn single_writer_is_reported() {
    let fixture = fixture().await;
    let store: Arc<MarketStore> = Arc::new(fixture.store.clone());
    assert!(outbox_of(&store).has_single_writer());
}

#[tokio::test]
async fn time_written_by_sql_is_normalized() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    direct.execute(SQL_INSERT).await.unwrap();
    let later = "UPDATE outbox_events SET status = 'RETRY', next_retry_time = datetime('now', '+1 hours')";
    let before = Utc::now();
    direct.execute(later).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let now = Utc::now();
    let due = view.outbox_view().outbox_due(&DueQuery { limit: 10, ..due_at(now) }).await.unwrap();
    assert!(due.rows.is_empty());
    let next = due.next.unwrap();
    // The time that SQL wrote has no fraction of a second.
    let in_range = (before - TimeDelta::seconds(1)..=now).contains(&(next - TimeDelta::hours(1)));
    assert!(in_range, "{next} must be one hour after a time from {before} to {now}");
    let due = view.outbox_view().outbox_due(&DueQuery { limit: 10, ..due_at(next) }).await.unwrap().rows;
    assert_eq!(due.len(), 1);
}

#[tokio::test]
async fn corrupt_error_names_table_column_and_row() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    let insert = "INSERT INTO dead_letters (queue, message_key, tenant_id, body, reason, died_at, status) \
                  VALUES ('q', 'k', 1, '', '', 'yesterday', 'OPEN')";
    direct.execute(insert).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let error = view.outbox_view().dead_letter("q", "k").await.unwrap_err();
    let StoreError::Corrupt { table, column, key, why } = error else { panic!("{error}") };
    assert_eq!((table, column, key.as_str()), ("dead_letters", "died_at", "message_key k"));
    assert!(why.contains("yesterday"), "{why}");
}

/// A missing table concerns the system: it is an outage that names its cause, and not a failure of one event.
#[tokio::test]
async fn missing_table_is_an_outage_with_a_cause_until_it_returns() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    direct.execute("ALTER TABLE outbox_events RENAME TO outbox_events_moved").await.unwrap();
    let error = append(&fixture.store, &[event("e-1", 1, 1)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert_eq!(error.system_fault().unwrap().kind, SystemFaultKind::Schema);
    let text = error.to_string();
    assert!(text.starts_with("the database refuses statements: changed schema: "), "{text}");
    assert!(text.contains("outbox_events"), "{text}");
    direct.execute("ALTER TABLE outbox_events_moved RENAME TO outbox_events").await.unwrap();
    append(&fixture.store, &[event("e-1", 1, 1)]).await.unwrap();
}

#[tokio::test]
async fn unreadable_row_does_not_block_other_rows() {
    let fixture = fixture().await;
    append(&fixture.store, &[event("valid", 1, 1)]).await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct.execute(SQL_INSERT).await.unwrap();
    direct.execute("PRAGMA ignore_check_constraints = ON").await.unwrap();
    direct
        .execute(
            "UPDATE outbox_events SET update_time = '2026-02-31T10:30:00.000000Z' WHERE event_id = 'by-hand'",
        )
        .await
        .unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let due =
        view.outbox_view().outbox_due(&DueQuery { limit: 10, ..due_at(Utc::now()) }).await.unwrap().rows;
    assert_eq!(due.iter().map(|row| row.event_id.as_str()).collect::<Vec<_>>(), ["valid"]);
    // If the unreadable row made a page shorter, clients would take that page for the last one.
    for limit in [1, 10] {
        let page = view.outbox_view().outbox_page(&OutboxFilter::default(), None, limit).await.unwrap();
        assert_eq!(page.iter().map(|row| row.event_id.as_str()).collect::<Vec<_>>(), ["valid"], "{limit}");
    }
    let repair = "UPDATE outbox_events SET update_time = strftime('%Y-%m-%dT%H:%M:%S', 'now') WHERE event_id = 'by-hand'";
    direct.execute(repair).await.unwrap();
    let due =
        view.outbox_view().outbox_due(&DueQuery { limit: 10, ..due_at(Utc::now()) }).await.unwrap().rows;
    assert_eq!(due.len(), 2, "a time without a zone must be valid");
}

#[tokio::test]
async fn schema_rejects_rows_that_the_relay_cannot_read() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    let time = "'2026-02-04 10:30:00'";
    for (valid, invalid) in [
        ("'by-hand'", "'by hand'"),
        ("'NEW'", "'new'"),
        (time, "'soon'"),
        (time, "'2026-02-31 10:30:00'"),
        (time, "'2026-02-31T10:30:00.000000Z'"),
        (time, "'2026-02-04T24:00:00.000000Z'"),
        (time, "'2026-00-10'"),
        (time, "'infinity'"),
        ("NULL", "'2026-02-31 10:30:00'"),
    ] {
        let insert = SQL_INSERT.replacen(valid, invalid, 1);
        assert!(direct.execute(sqlx::AssertSqlSafe(insert)).await.is_err(), "{invalid}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_begin_leaves_no_transaction_open() {
    let fixture = fixture().await;
    for step in 0..200u64 {
        let begin = fixture.store.begin();
        let _ = tokio::time::timeout(Duration::from_micros(step * 3), begin).await;
    }
    append(&fixture.store, &[event("after", 1, 1)]).await.unwrap();
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_events")
        .fetch_one(&mut fixture.direct_connection().await)
        .await
        .unwrap();
    assert_eq!(count, 1, "the commit ran inside a transaction that was left open");
}

#[tokio::test]
async fn unit_of_work_refuses_commit_after_failed_statement() {
    let fixture = fixture().await;
    append(&fixture.store, &[event("taken", 1, 1)]).await.unwrap();
    let mut unit = fixture.store.begin().await.unwrap();
    unit.outbox().append(&[event("lost", 2, 1)]).await.unwrap();
    assert!(matches!(unit.outbox().append(&[event("taken", 3, 1)]).await, Err(StoreError::Conflict { .. })));
    assert!(unit.commit().await.is_err());
    let mut view = fixture.store.view().await.unwrap();
    assert!(view.outbox_view().outbox_by_event(&["lost".parse().unwrap()]).await.unwrap().is_empty());
}

#[tokio::test]
async fn partition_column_equals_partition_of_domain() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    let mut number: u64 = 0x9e37_79b9_7f4a_7c15;
    for round in 0..300 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let aggregate = match round {
            0 => i64::MAX,
            1 => i64::MIN,
            _ => number.cast_signed() >> (number % 60),
        };
        let tenant = TenantId::try_from(1 + i64::try_from(number >> 33).unwrap()).unwrap();
        let sql = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, tenant_id, \
                   create_time, update_time) VALUES (?, 't', 'Order', ?, '{}', ?, '2026-02-04', '2026-02-04') \
                   RETURNING partition_no";
        let partition: i64 = sqlx::query_scalar(sql)
            .bind(round.to_string())
            .bind(aggregate)
            .bind(tenant.get())
            .fetch_one(&mut direct)
            .await
            .unwrap();
        assert_eq!(partition, i64::from(Partition::of(tenant, aggregate).number()), "{tenant} {aggregate}");
    }
}

#[tokio::test]
async fn due_rows_follow_aggregate_order_when_earlier_event_has_greater_id() {
    let fixture = fixture().await;
    let events = [event("second", 7, 2), event("other", 8, 1), event("first", 7, 1)];
    append(&fixture.store, &events).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let due =
        view.outbox_view().outbox_due(&DueQuery { limit: 10, ..due_at(Utc::now()) }).await.unwrap().rows;
    assert_eq!(due.iter().map(|row| row.event_id.as_str()).collect::<Vec<_>>(), ["first", "second", "other"]);
    let due = view.outbox_view().outbox_due(&DueQuery { limit: 1, ..due_at(Utc::now()) }).await.unwrap().rows;
    assert_eq!(due[0].event_id.as_str(), "first");
}

#[tokio::test]
async fn concurrent_migrations_succeed() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(directory.path().join("test.db"));
    let stores = (0..4).map(|_| {
        let options = options.clone();
        async move {
            let clock = std::sync::Arc::new(handover_system::SystemClock);
            let store = SqlStore::open_sqlite(&options, clock, Default::default()).await?;
            let store = SqlMarket::on(store);
            store.migrate().await.unwrap();
            store.is_ready(&[&MIGRATIONS]).await
        }
    });
    for ready in futures_util::future::join_all(stores).await {
        assert!(ready.unwrap());
    }
}

#[tokio::test]
async fn release_all_leases_frees_partition_and_removes_heartbeat() {
    let fixture = fixture().await;
    let relay = handover_outbox::ports::RelayId("r".into());
    let partition = Partition::of(TenantId::DEFAULT, 1);
    let mut unit = fixture.store.begin().await.unwrap();
    unit.outbox().heartbeat(&relay, 5_000).await.unwrap();
    let number = usize::from(partition.number());
    let free = unit.outbox().partition_leases().await.unwrap().remove(number);
    assert_eq!(unit.outbox().acquire_partition(&relay, &free, 5_000).await.unwrap(), Changed::One);
    unit.outbox().release_all_leases().await.unwrap();
    assert!(unit.outbox().heartbeats().await.unwrap().is_empty());
    assert_eq!(unit.outbox().partition_leases().await.unwrap()[number].owner, None);
    unit.commit().await.unwrap();
}

#[tokio::test]
async fn commit_notifies_relay_for_partitions_of_appended_events() {
    let fixture = fixture().await;
    append(&fixture.store, &[event("a", 5, 1), event("b", 6, 1)]).await.unwrap();
    let notified = tokio::time::timeout(PATIENCE, fixture.wake.notified()).await.unwrap();
    let expected: PartitionSet = [5, 6].map(|id| Partition::of(TenantId::DEFAULT, id)).into_iter().collect();
    assert_eq!(notified, expected);
}
