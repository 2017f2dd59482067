//! The comparison of the schema on a server with the one that the migrations create.

use handover_tests::schema::{check_committed_schema, differences};
use handover_tests::servers::database::ServerKind;

use super::{Fixture, on_every_server};

on_every_server!(
    migrated_schema_equals_the_committed_one_and_has_no_differences,
    changes_of_the_schema_are_found,
);

async fn migrated_schema_equals_the_committed_one_and_has_no_differences(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let engine = match kind {
        ServerKind::MariaDb => "mysql",
        ServerKind::Postgres => "postgres",
    };
    check_committed_schema(&fixture.store, engine).await;
    assert!(differences(&fixture.store).await.is_empty());
}

async fn changes_of_the_schema_are_found(kind: ServerKind) {
    let fixture = Fixture::new(kind).await;
    let of_every_server = [
        "DROP TABLE refund_attempts",
        "ALTER TABLE dead_letters DROP COLUMN note",
        "ALTER TABLE products ADD COLUMN extra BIGINT NOT NULL DEFAULT 1",
        "ALTER TABLE products ADD COLUMN required BIGINT NOT NULL",
        "CREATE INDEX idx_mine ON products (seller_id)",
        "CREATE TABLE mine (id BIGINT PRIMARY KEY)",
    ];
    let (of_server, expected) = match kind {
        ServerKind::MariaDb => (
            [
                "ALTER TABLE dead_letters DROP CONSTRAINT ck_dead_letters_status",
                "DROP INDEX idx_status_time ON outbox_events",
                "ALTER TABLE outbox_events MODIFY event_type VARCHAR(32) NOT NULL",
                "ALTER TABLE outbox_audit_log MODIFY changed BIGINT NOT NULL",
            ],
            [
                "the constraint CHECK ck_dead_letters_status of the table dead_letters is missing",
                "the index idx_status_time of the table outbox_events is missing: `(status, next_retry_time)`",
                "the column event_type of the table outbox_events is `varchar(32) not null` instead of `varchar(64) not null`",
                "the constraint CHECK without name, number 2 of the table outbox_audit_log is missing",
            ],
        ),
        ServerKind::Postgres => (
            [
                "ALTER TABLE dead_letters DROP CONSTRAINT dead_letters_status_check",
                "DROP INDEX idx_status_time",
                "ALTER TABLE outbox_events ALTER event_type DROP NOT NULL",
                "ALTER TABLE outbox_audit_log DISABLE TRIGGER outbox_audit_log_never_emptied",
            ],
            [
                "the constraint CHECK (((status)::text = ANY (ARRAY['OPEN'::character varying, 'REPLAYING'::character varying, \
                 'REPLAYED'::character varying, 'DISCARDED'::character varying]))) of the table dead_letters is missing",
                "the index idx_status_time of the table outbox_events is missing: `CREATE INDEX idx_status_time ON outbox_events",
                "the column event_type of the table outbox_events is `character varying(64) collate C` instead of \
                 `character varying(64) not null collate C`",
                "the trigger outbox_audit_log_never_emptied of the table outbox_audit_log is `",
            ],
        ),
    };
    for sql in of_every_server.into_iter().chain(of_server) {
        fixture.outside(sql).await.unwrap();
    }
    let found = differences(&fixture.store).await.join("\n");
    for expected in expected.into_iter().chain([
        "the table refund_attempts is missing",
        "the column note of the table dead_letters is missing: `text`",
        "the column required of the table products is not part of the schema: `bigint not null`",
    ]) {
        assert!(found.contains(expected), "{expected:?} is not in\n{found}");
    }
    for harmless in ["extra", "mine"] {
        assert!(!found.contains(harmless), "{found}");
    }
}
