//! What a migration makes of a database that is full.

use std::path::Path;

use handover_application::ports::{DeadLetter, DeadLetterFilter, DeadLetterStatus, Store};
use handover_domain::{OrderId, TenantId};
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Executor, Row, SqliteConnection};

use super::{Fixture, fixture, unmigrated};

/// A row in every table of version 3, and dead letters of each status. The last one parked was removed by hand.
const FULL: &str = "
INSERT INTO products VALUES (1, 1, 20, 'lamp', 8850, 'sold', 2, '2026-02-04T10:30:00.000001Z', '2026-02-04T10:30:00.000002Z');
INSERT INTO orders VALUES (7, 'no-7', 1, 1, 10, 20, 'paid', NULL, 8850, 8850, NULL, NULL, 2,
    '2026-02-04T10:30:00.000001Z', '2026-02-04T10:30:00.000002Z', '2026-02-04T10:30:00.000002Z');
INSERT INTO payments VALUES (3, 1, 7, 8850, 'CNY', 'card', 'SUCCESS', 'txn-1', 0, 2,
    '2026-02-04T10:30:00.000001Z', '2026-02-04T10:30:00.000002Z');
INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, status, create_time, update_time,
    tenant_id, aggregate_seq, last_error, retry_count)
VALUES ('e-new', 'ORDER_CREATED', 'Order', 7, '{}', 'NEW', '2026-02-04 10:30:00', '2026-02-04 10:30:00', 1, 3, NULL, 0),
    ('e-failed', 'ORDER_CREATED', 'Order', 7, '{\"orderId\":7}', 'FAILED', '2026-02-04 10:30:00', '2026-02-04 10:30:00', 1, 1,
     'no route', 4);
INSERT INTO event_consume_log (event_id, event_type, consumer, consume_time, status, attempts, cost_ms, payload_hash,
    trace_id, tenant_id, aggregate_type, aggregate_id, aggregate_seq)
VALUES ('e-failed', 'ORDER_CREATED', 'inventory', '2026-02-04T10:30:00.000001Z', 'DEAD', 4, 9, 'ab', 'trace-1', 1, 'Order', 7, 1);
INSERT INTO consumer_subscriptions VALUES ('inventory', '2026-02-04T10:30:00.000001Z', '2026-02-04T10:30:00.000001Z');
UPDATE outbox_partitions SET owner = 'r', epoch = 4 WHERE partition_no = 7;
INSERT INTO relays VALUES ('r', '2026-02-04T10:30:00.000001Z');
INSERT INTO id_blocks VALUES ('order', 101);
INSERT INTO dead_letters (queue, message_key, tenant_id, event_type, trace_id, body, reason, died_at, status)
VALUES ('b.queue', 'e-1', 1, 'ORDER_PAID', 'trace-1', '{\"a\":1}', 'no such order', '2026-02-04T10:30:00.000001Z', 'OPEN'),
    ('a.queue', 'e-2', 2, NULL, NULL, '', 'no json', '2026-02-04T10:30:00.000002Z', 'REPLAYED'),
    ('b.queue', 'e-3', 1, 'ORDER_PAID', NULL, '{}', 'late', '2026-02-04T10:30:00.000003Z', 'DISCARDED'),
    ('b.queue', 'e-4', 1, NULL, NULL, '', 'removed by hand', '2026-02-04T10:30:00.000004Z', 'OPEN');
DELETE FROM dead_letters WHERE message_key = 'e-4';
INSERT INTO listings VALUES (1, 20, 1, 7, 'e-new', '2026-02-04T10:30:00.000001Z');
INSERT INTO listing_changes VALUES (1, 1, 20, 1, 7, 1, 'OCCUPIED', 'e-new', '2026-02-04T10:30:00.000001Z');
INSERT INTO shipments VALUES (1, 1, 7, 20, 10, 2, 'e-new', '2026-02-04T10:30:00.000001Z');
INSERT INTO notifications VALUES (1, 1, 10, 'buyer', 7, 3, 'paid', 'shipped', '2026-02-04T10:30:00.000001Z', 'e-new',
    '2026-02-04T10:30:00.000001Z');
INSERT INTO buyer_credit_changes VALUES (1, 1, 10, 7, 4, 'COMPLETED', 'e-new', '2026-02-04T10:30:00.000001Z');
INSERT INTO buyer_credit VALUES (1, 10, 1, 0, 0, 101, 'e-new', '2026-02-04T10:30:00.000001Z');
INSERT INTO broker_queues VALUES ('b.queue', NULL, 'dead');
INSERT INTO broker_bindings VALUES ('b.queue', 'order.paid');
INSERT INTO broker_sessions VALUES (1, 'b.queue', '2026-02-04T10:30:00.000001Z');
INSERT INTO broker_messages (queue, headers, body) VALUES ('b.queue', '{}', '{}');
";

/// A database at an older version.
async fn at_version(version: i64) -> Fixture {
    let fixture = unmigrated().await;
    // Read by the driver: it and our own list have to agree on every checksum, or the newest cannot follow.
    let all =
        Migrator::new(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations/sqlite"))).await.unwrap();
    let older = all.iter().filter(|migration| migration.version <= version).cloned().collect();
    Migrator::with_migrations(older).run_direct(None, &mut fixture.outside().await, false).await.unwrap();
    fixture
}

async fn tables(database: &mut SqliteConnection) -> Vec<String> {
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
                  AND name <> '_sqlx_migrations' ORDER BY name";
    sqlx::query_scalar(tables).fetch_all(database).await.unwrap()
}

/// Every row of a table, column by column, in the columns it has by now.
async fn rows(database: &mut SqliteConnection, table: &str, columns: &[String]) -> Vec<String> {
    let quoted: Vec<_> = columns.iter().map(|column| format!("quote({column})")).collect();
    let sql = format!("SELECT {} AS row FROM {table} ORDER BY 1", quoted.join(" || ', ' || "));
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(database).await.unwrap()
}

async fn columns(database: &mut SqliteConnection, table: &str) -> Vec<String> {
    let sql = "SELECT name FROM pragma_table_info(?) ORDER BY cid";
    sqlx::query_scalar(sql).bind(table).fetch_all(database).await.unwrap()
}

#[tokio::test]
async fn a_full_database_of_version_3_comes_up_to_date_with_nothing_lost() {
    let fixture = at_version(3).await;
    let mut outside = fixture.outside().await;
    outside.execute(FULL).await.unwrap();
    let mut before = Vec::new();
    for table in tables(&mut outside).await {
        let columns = columns(&mut outside, &table).await;
        let rows = rows(&mut outside, &table, &columns).await;
        assert!(!rows.is_empty(), "{table} has no row to lose");
        before.push((table, columns, rows));
    }

    fixture.store.migrate().await.unwrap();
    assert!(fixture.store.is_ready().await.unwrap());
    for (table, columns, expected) in &before {
        assert_eq!(&rows(&mut outside, table, columns).await, expected, "{table}");
    }

    let mut view = fixture.store.view().await.unwrap();
    let letters = view.dead_letters_page(&DeadLetterFilter::default(), None, 10).await.unwrap();
    let seen: Vec<_> =
        letters.iter().map(|row| (row.id, row.effect.key.as_str(), row.effect.status)).collect();
    let expected = [
        (3, "e-3", DeadLetterStatus::Discarded),
        (2, "e-2", DeadLetterStatus::Replayed),
        (1, "e-1", DeadLetterStatus::Open),
    ];
    assert_eq!(seen, expected);
    assert!(letters.iter().all(|row| row.effect.decided_at.is_none() && row.effect.note.is_none()));
    let blocked = view.blocked_page(None, None, 10).await.unwrap();
    assert_eq!(
        blocked.iter().map(|row| row.effect.held).collect::<Vec<_>>(),
        [1],
        "what had failed still holds"
    );
    let payments = view.payments_of(TenantId::DEFAULT, OrderId::try_from(7).unwrap()).await.unwrap();
    assert_eq!(payments.len(), 1);
}

#[tokio::test]
async fn a_dead_letter_parked_after_the_migration_gets_a_number_that_none_had_before() {
    let fixture = at_version(3).await;
    fixture.outside().await.execute(FULL).await.unwrap();
    fixture.store.migrate().await.unwrap();
    let mut unit = fixture.store.begin().await.unwrap();
    let letter = unit.dead_letter("b.queue", "e-1").await.unwrap().unwrap();
    unit.park(&[DeadLetter { key: "e-5".into(), ..letter }]).await.unwrap();
    unit.commit().await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let newest = view.dead_letters_page(&DeadLetterFilter::default(), None, 1).await.unwrap();
    assert_eq!((newest[0].id, newest[0].effect.key.as_str()), (5, "e-5"), "4 was another's");
}

#[tokio::test]
async fn a_database_that_is_made_at_once_has_the_schema_of_one_that_grew() {
    let (grown, made) = (at_version(3).await, fixture().await);
    grown.store.migrate().await.unwrap();
    let schema = async |fixture: &Fixture| {
        let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";
        let rows = sqlx::query(sql).fetch_all(&mut fixture.outside().await).await.unwrap();
        let text = |row: &sqlx::sqlite::SqliteRow, column| row.get::<Option<String>, _>(column);
        rows.iter().map(|row| [0, 1, 2, 3].map(|column| text(row, column))).collect::<Vec<_>>()
    };
    assert_eq!(schema(&grown).await, schema(&made).await);
}

#[tokio::test]
async fn the_audit_log_can_only_be_added_to() {
    let fixture = fixture().await;
    let mut outside = fixture.outside().await;
    let columns = "(tenant_id, actor, action, selection, changed, trace_id, create_time)";
    let values = "1, 'user:9', 'outbox.redrive', '{}', 1, 'trace-1', '2026-02-04T10:30:00.000001Z'";
    let insert = format!("INSERT INTO audit_log {columns} VALUES ({values})");
    for _ in 0..2 {
        outside.execute(AssertSqlSafe(insert.clone())).await.unwrap();
    }
    let replace = format!("REPLACE INTO audit_log (id, {} VALUES (1, {values})", &columns[1..]);
    for refused in [
        "UPDATE audit_log SET actor = 'nobody'",
        "UPDATE audit_log SET changed = changed WHERE id = 2",
        "DELETE FROM audit_log",
        "DELETE FROM audit_log WHERE id = 1",
        &replace,
    ] {
        let error = outside.execute(AssertSqlSafe(refused)).await.unwrap_err();
        assert!(error.to_string().contains("the audit log is only ever added to"), "{refused}: {error}");
    }
    let mut view = fixture.store.view().await.unwrap();
    let seen = view.audit_page(&handover_application::ports::AuditFilter::default(), None, 10).await.unwrap();
    assert_eq!(
        seen.iter().map(|row| (row.id, row.effect.actor.as_str())).collect::<Vec<_>>(),
        [(2, "user:9"), (1, "user:9")]
    );
}

#[tokio::test]
async fn a_dead_letter_inserted_by_hand_is_read_and_one_in_no_status_refused() {
    let fixture = fixture().await;
    let mut outside = fixture.outside().await;
    let insert = "INSERT INTO dead_letters (queue, message_key, tenant_id, body, reason, died_at, status) \
                  VALUES ('b.queue', 'e-1', 1, '{}', 'late', '2026-02-04 10:30:00', 'REPLAYING')";
    outside.execute(insert).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    assert_eq!(view.undecided_dead_letters(None).await.unwrap(), 1);
    assert!(outside.execute("UPDATE dead_letters SET status = 'LOST'").await.is_err());
}
