//! What the schema of an SQLite file guarantees by itself.

use std::path::Path;

use handover_outbox::ports::Store;
use handover_sql::SchemaError;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, Executor, SqlSafeStr as _};

use super::{fixture, unmigrated};

#[tokio::test]
async fn the_audit_log_can_only_be_added_to() {
    let fixture = fixture().await;
    let mut outside = fixture.outside().await;
    let columns = "(tenant_id, actor, action, selection, changed, trace_id, create_time)";
    let values = "1, 'user:9', 'outbox.redrive', '{}', 1, 'trace-1', '2026-02-04T10:30:00.000001Z'";
    let insert = format!("INSERT INTO outbox_audit_log {columns} VALUES ({values})");
    for _ in 0..2 {
        outside.execute(AssertSqlSafe(insert.clone())).await.unwrap();
    }
    let replace = format!("REPLACE INTO outbox_audit_log (id, {} VALUES (1, {values})", &columns[1..]);
    for refused in [
        "UPDATE outbox_audit_log SET actor = 'nobody'",
        "UPDATE outbox_audit_log SET changed = changed WHERE id = 2",
        "DELETE FROM outbox_audit_log",
        "DELETE FROM outbox_audit_log WHERE id = 1",
        &replace,
    ] {
        let error = outside.execute(AssertSqlSafe(refused)).await.unwrap_err();
        assert!(error.to_string().contains("the audit log is only ever added to"), "{refused}: {error}");
    }
    let mut view = fixture.store.view().await.unwrap();
    let seen = view
        .outbox_view()
        .audit_page(&handover_outbox::ports::AuditFilter::default(), None, 10)
        .await
        .unwrap();
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
    assert_eq!(view.outbox_view().undecided_dead_letters(None).await.unwrap(), 1);
    assert!(outside.execute("UPDATE dead_letters SET status = 'LOST'").await.is_err());
}

#[tokio::test]
async fn migration_beside_a_foreign_table_is_refused_and_creates_nothing() {
    let fixture = unmigrated().await;
    let mut outside = fixture.outside().await;
    outside.execute("CREATE TABLE orders (id INTEGER)").await.unwrap();
    let refused = fixture.store.migrate().await;
    assert!(matches!(&refused, Err(SchemaError::ForeignTable(table)) if table == "orders"), "{refused:?}");
    let tables: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&mut outside).await.unwrap();
    assert_eq!(tables, 1);
}

#[tokio::test]
async fn every_file_of_the_folder_is_recorded_as_the_driver_reads_it() {
    let fixture = fixture().await;
    let mut outside = fixture.outside().await;
    for part in ["outbox", "marketplace"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(part).join("sqlite");
        let read = Migrator::new(folder.as_path()).await.unwrap();
        let read: Vec<(i64, String, Vec<u8>)> = read
            .iter()
            .map(|one| (one.version, one.description.to_string(), one.checksum.to_vec()))
            .collect();
        assert!(!read.is_empty(), "{part}");
        let sql = format!("SELECT version, description, checksum FROM {part}_migrations ORDER BY version");
        let recorded: Vec<(i64, String, Vec<u8>)> =
            sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut outside).await.unwrap();
        assert_eq!(recorded, read, "{part}");
    }
}

/// A service that keeps its tables in the same file, by the driver's own migrations: whoever comes first.
#[tokio::test]
async fn host_service_migrates_before_and_after() {
    let books = "CREATE TABLE books (id INTEGER PRIMARY KEY)".into_sql_str();
    let books = Migration::new(1, "books".into(), MigrationType::Simple, books, false);
    let host = Migrator::with_migrations(vec![books]);
    for host_first in [true, false] {
        let fixture = unmigrated().await;
        let mut outside = fixture.outside().await;
        if host_first {
            host.run(&mut outside).await.unwrap();
        }
        assert!(!fixture.store.is_ready().await.unwrap());
        fixture.store.migrate().await.unwrap();
        host.run(&mut outside).await.unwrap();
        fixture.store.migrate().await.unwrap();
        assert!(fixture.store.is_ready().await.unwrap());
        outside.execute("INSERT INTO books (id) VALUES (1)").await.unwrap();
    }
}
