//! What the schema of an SQLite file guarantees by itself.

use handover_outbox::ports::Store;
use handover_sql::SchemaError;
use sqlx::{AssertSqlSafe, Executor};

use super::{fixture, unmigrated};

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
