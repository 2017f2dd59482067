//! Migrations: from several processes at once, resumed after an interruption, refused beside tables of somebody else.

use std::path::Path;
use std::sync::Arc;

use handover_contract::samples::start;
use handover_memory::ManualClock;
use handover_outbox::Wake;
use handover_outbox::ports::Store;
use handover_sql::{SchemaError, SqlStore};
use handover_tests::server_rigs::{migrated, open, outside, shared};
use handover_tests::servers::database::{ServerKind, TestDatabase};
use marketplace_sql::SqlMarket;

use super::on_every_server;

on_every_server!(
    migrating_from_many_places_at_once_is_safe,
    migration_beside_a_foreign_table_is_refused_before_the_first_statement,
    migrations_of_the_host_service_are_left_alone,
    database_of_an_unreleased_version_is_refused,
);

/// The version table as the driver creates it, without rows.
const VERSION_TABLE: [(ServerKind, &str); 2] = [
    (
        ServerKind::MariaDb,
        "(version BIGINT PRIMARY KEY, description TEXT NOT NULL, installed_on TIMESTAMP NOT NULL DEFAULT \
         CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, checksum BLOB NOT NULL, execution_time BIGINT NOT NULL)",
    ),
    (
        ServerKind::Postgres,
        "(version BIGINT PRIMARY KEY, description TEXT NOT NULL, installed_on TIMESTAMPTZ NOT NULL DEFAULT now(), \
         success BOOLEAN NOT NULL, checksum BYTEA NOT NULL, execution_time BIGINT NOT NULL)",
    ),
];

async fn empty(kind: ServerKind) -> (TestDatabase, SqlMarket) {
    let database = shared(kind).await.database(None).await.unwrap();
    let store = open(&database.url(), Arc::new(ManualClock::new(start())), &Wake::default());
    (database, store)
}

async fn create_version_table(database: &TestDatabase, name: &str) {
    let kind = database.server().kind();
    let (_, columns) = VERSION_TABLE.iter().find(|(of, _)| *of == kind).unwrap();
    outside(database, &format!("CREATE TABLE {name} {columns}")).await.unwrap();
}

/// How many tables, columns and indexes the database has.
async fn schema_size(store: &SqlMarket, kind: ServerKind) -> Vec<i64> {
    let (schema, indexes) = match kind {
        ServerKind::MariaDb => (
            "DATABASE()",
            "SELECT count(DISTINCT table_name, index_name) AS n FROM information_schema.statistics \
             WHERE table_schema = DATABASE()",
        ),
        ServerKind::Postgres => {
            ("current_schema()", "SELECT count(*) AS n FROM pg_indexes WHERE schemaname = current_schema()")
        }
    };
    let columns = format!(
        "SELECT count(*) AS n, count(DISTINCT table_name) AS tables FROM information_schema.columns \
         WHERE table_schema = {schema}"
    );
    // The outbox's own view: it takes statements.
    let mut view = SqlStore::view(store).await.unwrap();
    let columns = view.fetch(&columns, Vec::new()).await.unwrap();
    let indexes = view.fetch(indexes, Vec::new()).await.unwrap();
    vec![columns[0].int("n").unwrap(), columns[0].int("tables").unwrap(), indexes[0].int("n").unwrap()]
}

async fn migrating_from_many_places_at_once_is_safe(kind: ServerKind) {
    let database = shared(kind).await.database(None).await.unwrap();
    let stores = (0..4).map(|_| async {
        let store = open(&database.url(), Arc::new(ManualClock::new(start())), &Wake::default());
        assert!(!store.is_ready().await.unwrap() || store.schema_version().await.unwrap().0.is_some());
        store.migrate().await.unwrap();
        store.is_ready().await
    });
    for ready in futures_util::future::join_all(stores).await {
        assert!(ready.unwrap());
    }
}

/// Where DDL is not transactional. PostgreSQL undoes an interrupted migration as a whole.
#[test]
fn interrupted_migration_is_resumed_after_each_statement() {
    handover_contract::run(async {
        let kind = ServerKind::MariaDb;
        let complete =
            open(&migrated(kind).await.url(), Arc::new(ManualClock::new(start())), &Wake::default());
        let expected = schema_size(&complete, kind).await;
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations/mysql/0001_baseline.sql");
        let sql = std::fs::read_to_string(file).unwrap();
        let statements: Vec<&str> = sql.split_inclusive(";\n").collect();
        assert!(statements.len() > 20);
        for done in 0..=statements.len() {
            let (database, store) = empty(kind).await;
            create_version_table(&database, "handover_migrations").await;
            let begun = "INSERT INTO handover_migrations (version, description, success, checksum, execution_time) \
                         VALUES (1, 'baseline', false, '', -1)";
            outside(&database, begun).await.unwrap();
            for statement in &statements[..done] {
                outside(&database, statement).await.unwrap();
            }
            assert!(!store.is_ready().await.unwrap(), "after {done} statements");
            store.migrate().await.unwrap();
            assert!(store.is_ready().await.unwrap(), "after {done} statements");
            assert_eq!(schema_size(&store, kind).await, expected, "after {done} statements");
            let mut view = store.view().await.unwrap();
            assert_eq!(
                view.outbox_view().partition_leases().await.unwrap().len(),
                64,
                "after {done} statements"
            );
        }
    });
}

async fn migration_beside_a_foreign_table_is_refused_before_the_first_statement(kind: ServerKind) {
    let (database, store) = empty(kind).await;
    // One of the last that the baseline creates.
    outside(&database, "CREATE TABLE audit_log (id INT)").await.unwrap();
    let before = schema_size(&store, kind).await;
    let refused = store.migrate().await;
    assert!(matches!(&refused, Err(SchemaError::ForeignTable(table)) if table == "audit_log"), "{refused:?}");
    assert_eq!(schema_size(&store, kind).await, before);
    outside(&database, "DROP TABLE audit_log").await.unwrap();
    store.migrate().await.unwrap();
    assert!(store.is_ready().await.unwrap());
}

async fn migrations_of_the_host_service_are_left_alone(kind: ServerKind) {
    let (database, store) = empty(kind).await;
    create_version_table(&database, "_sqlx_migrations").await;
    let of_the_host = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                       VALUES (1, 'store', true, 'host', 5)";
    outside(&database, of_the_host).await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), (None, 1));
    store.migrate().await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), (Some(1), 1));
    let unchanged = "UPDATE _sqlx_migrations SET execution_time = 6 WHERE version = 1 AND execution_time = 5";
    assert_eq!(outside(&database, unchanged).await.unwrap(), 1);
}

async fn database_of_an_unreleased_version_is_refused(kind: ServerKind) {
    let (database, store) = empty(kind).await;
    create_version_table(&database, "_sqlx_migrations").await;
    let checksum = match kind {
        ServerKind::MariaDb => {
            "X'80d31db6df1e636bda6c1f5013cab886045055ee847888b5469a8968fe579c8d02a1d4ed22d64af09a4ddaba940b9e9a'"
        }
        ServerKind::Postgres => {
            "'\\x233bc807286fa4012b0bf0685ef49785341d3bd9eba6a6319a8ada7cac1d4d41257297ad6b7131c45f9c9b94a82c3839'"
        }
    };
    let first = format!(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (1, 'store', true, {checksum}, 5)"
    );
    outside(&database, &first).await.unwrap();
    assert!(matches!(store.migrate().await, Err(SchemaError::Unreleased)));
    assert!(matches!(store.schema_version().await, Err(SchemaError::Unreleased)));
    assert!(!store.is_ready().await.unwrap());
}
