//! The comparison of an SQLite schema with the one that the migrations create.

use handover_tests::schema::{check_committed_schema, differences};
use sqlx::{AssertSqlSafe, Executor as _};

use super::fixture;

#[tokio::test]
async fn migrated_schema_equals_the_committed_one_and_has_no_differences() {
    let fixture = fixture().await;
    check_committed_schema(&fixture.store, "sqlite").await;
    assert!(differences(&fixture.store).await.is_empty());
}

#[tokio::test]
async fn changes_of_the_schema_are_found() {
    let fixture = fixture().await;
    let mut direct = fixture.direct_connection().await;
    for sql in [
        "DROP TABLE refund_attempts",
        "DROP INDEX idx_status_time",
        "DROP TRIGGER outbox_audit_log_never_deleted",
        "ALTER TABLE dead_letters DROP COLUMN note",
        "ALTER TABLE products ADD COLUMN extra TEXT NOT NULL DEFAULT 'a'",
        "ALTER TABLE products RENAME COLUMN price_minor TO price",
        "CREATE INDEX idx_mine ON products (title)",
        "CREATE TABLE mine (id INTEGER PRIMARY KEY)",
        "DROP TABLE outbox_jobs",
        "CREATE TABLE outbox_jobs AS SELECT 1 AS job",
    ] {
        direct.execute(AssertSqlSafe(sql)).await.unwrap();
    }
    let found = differences(&fixture.store).await.join("\n");
    for expected in [
        "the table refund_attempts is missing",
        "the index idx_status_time of the table outbox_events is missing: `CREATE INDEX idx_status_time ON outbox_events",
        "the trigger outbox_audit_log_never_deleted of the table outbox_audit_log is missing",
        "the column note of the table dead_letters is missing: `text`",
        "the column price_minor of the table products is missing: `integer not null`",
        "the column price of the table products is not part of the schema: `integer not null`",
        "the column job of the table outbox_jobs is `` instead of `text not null primary key 1`",
    ] {
        assert!(found.contains(expected), "{expected:?} is not in\n{found}");
    }
    for harmless in ["extra", "mine"] {
        assert!(!found.contains(harmless), "{found}");
    }
}
