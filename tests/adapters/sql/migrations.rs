//! Guarantees of the SQLite schema and its migrations.

use std::path::Path;

use handover_outbox::ports::Store;
use handover_sql::{SchemaError, SqlStore};
use handover_tests::upgrade;
use marketplace_sql::MIGRATIONS;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Executor, Row as _, SqlSafeStr as _};

use super::{fixture, unmigrated};

#[tokio::test]
async fn audit_log_rejects_update_delete_and_replace() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    let columns = "(tenant_id, actor, action, selection, changed, trace_id, create_time)";
    let values = "1, 'user:9', 'outbox.redrive', '{}', 1, 'trace-1', '2026-02-04T10:30:00.000001Z'";
    let insert = format!("INSERT INTO outbox_audit_log {columns} VALUES ({values})");
    for _ in 0..2 {
        direct.execute(AssertSqlSafe(insert.clone())).await.unwrap();
    }
    let with_reason =
        insert.replace("trace_id", "reason, trace_id").replace("'trace-1'", "'known', 'trace-1'");
    direct.execute(AssertSqlSafe(with_reason)).await.unwrap();
    let replace = format!("REPLACE INTO outbox_audit_log (id, {} VALUES (1, {values})", &columns[1..]);
    for refused in [
        "UPDATE outbox_audit_log SET actor = 'nobody'",
        "UPDATE outbox_audit_log SET changed = changed WHERE id = 2",
        // An erasure masks a reason, and nothing else.
        "UPDATE outbox_audit_log SET reason = '***'",
        "UPDATE outbox_audit_log SET reason = 'another' WHERE id = 3",
        "UPDATE outbox_audit_log SET reason = '***', actor = 'nobody' WHERE id = 3",
        "UPDATE outbox_audit_log SET reason = NULL WHERE id = 3",
        "DELETE FROM outbox_audit_log",
        "DELETE FROM outbox_audit_log WHERE id = 1",
        &replace,
    ] {
        let error = direct.execute(AssertSqlSafe(refused)).await.unwrap_err();
        assert!(error.to_string().contains("the audit log is append-only"), "{refused}: {error}");
    }
    direct.execute("UPDATE outbox_audit_log SET reason = '***' WHERE id = 3").await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    let entries = view
        .outbox_view()
        .audit_page(&handover_outbox::ports::AuditFilter::default(), None, 10)
        .await
        .unwrap();
    assert_eq!(
        entries.iter().map(|row| (row.id, row.effect.actor.as_str())).collect::<Vec<_>>(),
        [(3, "user:9"), (2, "user:9"), (1, "user:9")]
    );
    for (deleted, changed, age) in [(0, 1, 30), (0, 0, 5), (1, 0, 7)] {
        let entry = format!(
            "INSERT INTO outbox_audit_log (tenant_id, actor, action, selection, changed, trace_id, create_time) \
             VALUES (1, 'user:8', 'a', '{{}}', {changed}, 't', strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-{age} days'))"
        );
        direct.execute(AssertSqlSafe(entry)).await.unwrap();
        let done = direct
            .execute("DELETE FROM outbox_audit_log WHERE id = (SELECT max(id) FROM outbox_audit_log)")
            .await;
        match deleted {
            0 => assert!(
                done.unwrap_err().to_string().contains("the audit log is append-only"),
                "{changed} {age}"
            ),
            _ => assert_eq!(done.unwrap().rows_affected(), deleted),
        }
    }
}

#[tokio::test]
async fn dead_letter_inserted_by_sql_is_readable_and_invalid_status_is_rejected() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    let insert = "INSERT INTO dead_letters (queue, message_key, tenant_id, body, reason, died_at, status) \
                  VALUES ('b.queue', 'e-1', 1, '{}', 'late', '2026-02-04 10:30:00', 'REPLAYING')";
    direct.execute(insert).await.unwrap();
    let mut view = fixture.store.view().await.unwrap();
    assert_eq!(view.outbox_view().undecided_dead_letters(None).await.unwrap(), [("b.queue".to_owned(), 1)]);
    assert!(direct.execute("UPDATE dead_letters SET status = 'LOST'").await.is_err());
}

/// The relay compares times as texts, so all of them must have one format.
#[tokio::test]
async fn event_times_written_by_sql_are_stored_in_the_format_of_the_schema() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    let times = [
        ("2026-02-04 10:30:00", "2026-02-04T10:30:00.000000Z"),
        ("2026-02-04T10:30:00.123456Z", "2026-02-04T10:30:00.123456Z"),
        // Of the same length as the format of the schema.
        ("2026-02-04 10:30:00.000000Z", "2026-02-04T10:30:00.000000Z"),
        ("2026-02-04T10:30:00.0+08:00", "2026-02-04T02:30:00.000000Z"),
        ("2026-02-04T10:30:00.123   Z", "2026-02-04T10:30:00.123000Z"),
    ];
    for (number, (written, stored)) in times.into_iter().enumerate() {
        let insert = format!(
            "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, create_time, \
             update_time, next_retry_time) VALUES ('e-{number}', 'ORDER_CREATED', 'order', 1, '{{}}', '{written}', \
             '{written}', '{written}')"
        );
        direct.execute(AssertSqlSafe(insert)).await.unwrap();
        let select = format!(
            "SELECT create_time, update_time, next_retry_time FROM outbox_events WHERE event_id = 'e-{number}'"
        );
        let row = direct.fetch_one(AssertSqlSafe(select.clone())).await.unwrap();
        for column in 0..3 {
            assert_eq!(row.get::<&str, _>(column), stored, "{written}");
        }
        for (column, name) in ["create_time", "update_time", "next_retry_time"].into_iter().enumerate() {
            let update =
                format!("UPDATE outbox_events SET {name} = '{written}' WHERE event_id = 'e-{number}'");
            direct.execute(AssertSqlSafe(update)).await.unwrap();
            let row = direct.fetch_one(AssertSqlSafe(select.clone())).await.unwrap();
            assert_eq!(row.get::<&str, _>(column), stored, "{written}");
        }
    }
}

#[tokio::test]
async fn migration_is_refused_when_table_of_other_application_exists() {
    let fixture = unmigrated().await;
    let mut direct = fixture.direct_connection().await;
    direct.execute("CREATE TABLE orders (id INTEGER)").await.unwrap();
    let refused = fixture.store.migrate().await;
    assert!(
        matches!(&refused, Err(SchemaError::ForeignRelation { name, .. }) if name == "orders"),
        "{refused:?}"
    );
    let tables: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&mut direct).await.unwrap();
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn database_of_first_version_is_migrated() {
    let fixture = unmigrated().await;
    upgrade::migrate_to_first_version(&mut fixture.direct_connection().await, "sqlite").await;
    upgrade::fill_first_version(&fixture.store).await;
    assert!(!fixture.store.is_ready(&[&MIGRATIONS]).await.unwrap());
    let pending = async || fixture.store.pending_migrations(&[&MIGRATIONS]).await.unwrap();
    let all = SqlStore::migrations_of_new_file(&[&MIGRATIONS]).unwrap();
    let without_first: Vec<_> = all.into_iter().filter(|migration| migration.version > 1).collect();
    assert_eq!(pending().await, without_first);
    fixture.store.migrate().await.unwrap();
    assert_eq!(pending().await, []);
    upgrade::check_migrated(&fixture.store).await;
    upgrade::check_statements_of_first_version(&fixture.store).await;
}

/// The migrations add columns without ALTER TABLE.
#[tokio::test]
async fn added_columns_are_found_by_connections_that_read_the_schema_before() {
    let fixture = unmigrated().await;
    let mut direct = fixture.direct_connection().await;
    upgrade::migrate_to_first_version(&mut direct, "sqlite").await;
    let columns = "event_id, event_type, aggregate_type, aggregate_id, payload, create_time, update_time";
    let values = "'ORDER_CREATED', 'order', 1, '{}', '2026-02-04 10:30:00', '2026-02-04 10:30:00'";
    let before = format!("INSERT INTO outbox_events ({columns}) VALUES ('before', {values})");
    direct.execute(AssertSqlSafe(before)).await.unwrap();
    fixture.store.migrate().await.unwrap();
    let after = format!(
        "INSERT INTO outbox_events ({columns}, routing_key, aggregate_key) VALUES ('after', {values}, 'r', 'k')"
    );
    direct.execute(AssertSqlSafe(after)).await.unwrap();
    let keys =
        "SELECT coalesce(routing_key, '-') || coalesce(aggregate_key, '-') FROM outbox_events ORDER BY id";
    let keys: Vec<String> = sqlx::query_scalar(keys).fetch_all(&mut direct).await.unwrap();
    assert_eq!(keys, ["--", "rk"]);
    direct.execute("SELECT aggregate_key FROM event_consume_log").await.unwrap();
    let found: Vec<String> =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_all(&mut direct).await.unwrap();
    assert_eq!(found, ["ok"]);
}

/// The ledger is copied to a new table; the ids of deleted rows are not used again.
#[tokio::test]
async fn ledger_ids_of_deleted_rows_are_not_reused_after_migration() {
    let fixture = unmigrated().await;
    let mut direct = fixture.direct_connection().await;
    upgrade::migrate_to_first_version(&mut direct, "sqlite").await;
    upgrade::fill_first_version(&fixture.store).await;
    direct.execute("DELETE FROM ledger_entries").await.unwrap();
    fixture.store.migrate().await.unwrap();
    let insert = "INSERT INTO ledger_entries (tenant_id, idempotency_key, account, amount, create_time) \
                  VALUES (1, 'k', 'suspense', 0, '2026-02-04 10:30:00') RETURNING id";
    let id: i64 = sqlx::query_scalar(insert).fetch_one(&mut direct).await.unwrap();
    assert_eq!(id, 3);
}

#[tokio::test]
async fn recorded_migrations_match_files_read_by_sqlx() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    for part in ["outbox", "marketplace"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(part).join("sqlite");
        let migrator = Migrator::new(folder.as_path()).await.unwrap();
        let read: Vec<(i64, String, Vec<u8>)> = migrator
            .iter()
            .map(|one| (one.version, one.description.to_string(), one.checksum.to_vec()))
            .collect();
        assert!(!read.is_empty(), "{part}");
        let sql = format!("SELECT version, description, checksum FROM {part}_migrations ORDER BY version");
        let recorded: Vec<(i64, String, Vec<u8>)> =
            sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut direct).await.unwrap();
        assert_eq!(recorded, read, "{part}");
    }
}

/// A program starts on the schema of a newer one if every newer migration is marked as compatible.
#[tokio::test]
async fn schema_with_newer_migrations_is_accepted_if_all_are_compatible() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    for (version, description, accepted) in
        [(90, "compatible sequences", true), (91, "incompatible times", false)]
    {
        let insert = format!(
            "INSERT INTO outbox_migrations (version, description, success, checksum, execution_time) \
             VALUES ({version}, '{description}', true, x'00', 1)"
        );
        direct.execute(AssertSqlSafe(insert)).await.unwrap();
        let outbox = fixture.store.schema_version().await.unwrap();
        let found = (outbox.found, outbox.is_newer(), outbox.is_enough(), outbox.is_compatible);
        assert_eq!(found, (Some(version), true, true, accepted));
        assert_eq!(fixture.store.migrate().await.is_ok(), accepted, "{description}");
    }
    let mut view = fixture.store.view().await.unwrap();
    assert_eq!(
        view.outbox_view().registered_types().await.unwrap(),
        [],
        "the rest of the schema is migrated"
    );
}

/// A host service with tables in the same file uses the driver's own migrations, before or after those of handover.
#[tokio::test]
async fn host_service_migrates_before_or_after_handover() {
    let books = "CREATE TABLE books (id INTEGER PRIMARY KEY)".into_sql_str();
    let books = Migration::new(1, "books".into(), MigrationType::Simple, books, false);
    let host = Migrator::with_migrations(vec![books]);
    for host_first in [true, false] {
        let fixture = unmigrated().await;
        let mut direct = fixture.direct_connection().await;
        if host_first {
            host.run(&mut direct).await.unwrap();
        }
        assert!(!fixture.store.is_ready(&[&MIGRATIONS]).await.unwrap());
        fixture.store.migrate().await.unwrap();
        host.run(&mut direct).await.unwrap();
        fixture.store.migrate().await.unwrap();
        assert!(fixture.store.is_ready(&[&MIGRATIONS]).await.unwrap());
        direct.execute("INSERT INTO books (id) VALUES (1)").await.unwrap();
    }
}
