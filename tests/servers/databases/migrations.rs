//! Migrations: run concurrently by several processes, resumed after an interruption, refused if another application
//! uses one of the table names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use handover_contract::samples::start;
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Store, UnitOfWork as _};
use handover_sql::{PendingMigration, SchemaError, SqlStore};
use handover_tests::server_rigs::{migrated, open, outside, shared};
use handover_tests::servers::database::{ServerKind, TestDatabase};
use handover_tests::upgrade;
use marketplace_sql::{MIGRATIONS, SqlMarket};
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{Connection, MySqlConnection, PgConnection, SqlSafeStr as _};

use super::on_every_server;

on_every_server!(
    concurrent_migrations_are_safe,
    database_of_first_version_is_migrated_while_its_processes_run,
    migration_behind_long_transaction_fails_soon_and_can_be_repeated,
    migration_is_refused_when_table_name_is_taken,
    migrations_coexist_with_those_of_host_service,
    recorded_migrations_match_files_read_by_sqlx,
    database_of_unreleased_version_is_refused,
);

const PARTS: [&str; 2] = ["outbox", "marketplace"];

/// The version table as sqlx creates it, without rows.
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

/// Folder with the migrations of the toolkit (`outbox`) or of the marketplace.
fn folder(part: &str, kind: ServerKind) -> PathBuf {
    let engine = match kind {
        ServerKind::MariaDb => "mysql",
        ServerKind::Postgres => "postgres",
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(part).join(engine)
}

async fn empty(kind: ServerKind) -> (TestDatabase, SqlMarket) {
    let database = shared(kind).await.database(None).await.unwrap();
    let store = open(&database.url(), Arc::new(ManualClock::new(start())), &WakeupNotifier::default());
    (database, store)
}

async fn create_version_table(database: &TestDatabase, name: &str) {
    let kind = database.server().kind();
    let (_, columns) = VERSION_TABLE.iter().find(|(of, _)| *of == kind).unwrap();
    outside(database, &format!("CREATE TABLE {name} {columns}")).await.unwrap();
}

/// Number of columns, tables and indexes of the database.
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
    // The view of `SqlStore`, unlike the view of the marketplace's store, accepts SQL statements.
    let mut view = SqlStore::view(store).await.unwrap();
    let columns = view.fetch(&columns, Vec::new()).await.unwrap();
    let indexes = view.fetch(indexes, Vec::new()).await.unwrap();
    vec![columns[0].int("n").unwrap(), columns[0].int("tables").unwrap(), indexes[0].int("n").unwrap()]
}

async fn concurrent_migrations_are_safe(kind: ServerKind) {
    let database = shared(kind).await.database(None).await.unwrap();
    let stores = (0..4).map(|_| async {
        let store = open(&database.url(), Arc::new(ManualClock::new(start())), &WakeupNotifier::default());
        assert!(
            !store.is_ready(&[&MIGRATIONS]).await.unwrap()
                || store.schema_version().await.unwrap().found.is_some()
        );
        store.migrate().await.unwrap();
        store.is_ready(&[&MIGRATIONS]).await
    });
    for ready in futures_util::future::join_all(stores).await {
        assert!(ready.unwrap());
    }
}

/// Applies the first migration of the outbox and of the marketplace, and inserts rows.
async fn of_first_version(kind: ServerKind) -> (TestDatabase, SqlMarket) {
    let (database, store) = empty(kind).await;
    let url = database.url();
    match kind {
        ServerKind::MariaDb => {
            let mut connection = MySqlConnection::connect(&url).await.unwrap();
            upgrade::migrate_to_first_version(&mut connection, "mysql").await;
        }
        ServerKind::Postgres => {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            upgrade::migrate_to_first_version(&mut connection, "postgres").await;
        }
    }
    upgrade::fill_first_version(&store).await;
    (database, store)
}

async fn pending(store: &SqlMarket) -> Vec<PendingMigration> {
    store.pending_migrations(&[&MIGRATIONS]).await.unwrap()
}

async fn database_of_first_version_is_migrated_while_its_processes_run(kind: ServerKind) {
    let (_database, store) = of_first_version(kind).await;
    assert!(!store.is_ready(&[&MIGRATIONS]).await.unwrap());
    let parts: Vec<_> = pending(&store).await.iter().map(|one| (one.part, one.version)).collect();
    let newest = store.schema_versions().await.unwrap().map(|part| (part.part, part.needed));
    let expected =
        newest.into_iter().flat_map(|(part, needed)| (2..=needed).map(move |version| (part, version)));
    assert_eq!(parts, expected.collect::<Vec<_>>());
    store.migrate().await.unwrap();
    assert_eq!(pending(&store).await, []);
    upgrade::check_migrated(&store).await;
    upgrade::check_statements_of_first_version(&store).await;
}

/// Every other statement on the table waits behind a migration that waits for the transaction.
async fn migration_behind_long_transaction_fails_soon_and_can_be_repeated(kind: ServerKind) {
    let (_database, store) = of_first_version(kind).await;
    let mut unit = SqlStore::begin(&store).await.unwrap();
    unit.execute("UPDATE outbox_events SET retry_count = 0 WHERE id = 0", Vec::new()).await.unwrap();
    let begun = Instant::now();
    let refused = store.migrate().await;
    assert!(matches!(refused, Err(SchemaError::Store(_))), "{refused:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    unit.commit().await.unwrap();
    store.migrate().await.unwrap();
    assert!(store.is_ready(&[&MIGRATIONS]).await.unwrap());
}

/// The statements of a migration for MariaDB.
fn statements(part: &str, file: &str) -> Vec<String> {
    let sql = std::fs::read_to_string(folder(part, ServerKind::MariaDb).join(file)).unwrap();
    sql.split_inclusive(";\n").map(str::to_owned).collect()
}

/// Applies the migrations for MariaDB before this version.
async fn migrate_before(database: &TestDatabase, part: &str, version: i64) {
    let all = Migrator::new(folder(part, ServerKind::MariaDb).as_path()).await.unwrap();
    let before = all.iter().filter(|migration| migration.version < version).cloned().collect();
    let mut migrator = Migrator::with_migrations(before);
    migrator.dangerous_set_table_name(format!("{part}_migrations"));
    let mut connection = MySqlConnection::connect(&database.url()).await.unwrap();
    migrator.run_direct(None, &mut connection, false).await.unwrap();
}

/// Runs the first statements of a migration, as a process that was interrupted after them.
async fn interrupt(database: &TestDatabase, part: &str, (version, name): (i64, &str), statements: &[String]) {
    let begun = format!(
        "INSERT INTO {part}_migrations (version, description, success, checksum, execution_time) \
         VALUES ({version}, '{name}', false, '', -1)"
    );
    outside(database, &begun).await.unwrap();
    for statement in statements {
        outside(database, statement).await.unwrap();
    }
}

/// Asserts that the store completes an interrupted migration.
async fn assert_resumed(store: &SqlMarket, expected: &[i64], after: &str) {
    assert!(!store.is_ready(&[&MIGRATIONS]).await.unwrap(), "{after}");
    let interrupted = pending(store).await.iter().filter(|one| one.is_interrupted).count();
    assert_eq!(interrupted, 1, "{after}");
    store.migrate().await.unwrap();
    assert!(store.is_ready(&[&MIGRATIONS]).await.unwrap(), "{after}");
    assert_eq!(schema_size(store, ServerKind::MariaDb).await, expected, "{after}");
    let mut view = store.view().await.unwrap();
    assert_eq!(view.outbox_view().partition_leases().await.unwrap().len(), 64, "{after}");
}

/// Size of the schema after all migrations.
async fn complete_size(kind: ServerKind) -> Vec<i64> {
    let database = migrated(kind).await;
    let store = open(&database.url(), Arc::new(ManualClock::new(start())), &WakeupNotifier::default());
    schema_size(&store, kind).await
}

/// Tests MariaDB, where DDL is not transactional. PostgreSQL rolls back an interrupted migration as a whole.
#[test]
fn migration_interrupted_after_any_statement_is_resumed() {
    handover_contract::run(async {
        let kind = ServerKind::MariaDb;
        let expected = complete_size(kind).await;
        for part in PARTS {
            let statements = statements(part, "0001_baseline.sql");
            assert!(statements.len() > 10);
            for done in 0..=statements.len() {
                let (database, store) = empty(kind).await;
                if part == "marketplace" {
                    SqlStore::migrate(&store).await.unwrap();
                }
                create_version_table(&database, &format!("{part}_migrations")).await;
                interrupt(&database, part, (1, "baseline"), &statements[..done]).await;
                assert_resumed(&store, &expected, &format!("after {done} statements of the {part}")).await;
            }
        }
    });
}

/// Tests MariaDB, as the test above.
#[test]
fn upgrade_interrupted_after_any_statement_is_resumed() {
    handover_contract::run(async {
        let expected = complete_size(ServerKind::MariaDb).await;
        for (part, version, file, name) in [
            ("outbox", 2, "0002_jobs.sql", "jobs"),
            ("outbox", 3, "0003_compatible_event_types.sql", "compatible event types"),
            ("outbox", 4, "0004_compatible_aggregate_keys.sql", "compatible aggregate keys"),
            ("outbox", 5, "0005_compatible_webhooks.sql", "compatible webhooks"),
            ("outbox", 6, "0006_compatible_delivery_forms.sql", "compatible delivery forms"),
            ("outbox", 7, "0007_compatible_monitoring.sql", "compatible monitoring"),
            ("outbox", 8, "0008_compatible_message_times.sql", "compatible message times"),
            ("marketplace", 2, "0002_gateway_reports.sql", "gateway reports"),
            (
                "marketplace",
                3,
                "0003_compatible_reconciliation_findings.sql",
                "compatible reconciliation findings",
            ),
            ("marketplace", 6, "0006_invoices.sql", "invoices"),
        ] {
            let statements = statements(part, file);
            for done in 0..=statements.len() {
                let (database, store) = of_first_version(ServerKind::MariaDb).await;
                migrate_before(&database, part, version).await;
                interrupt(&database, part, (version, name), &statements[..done]).await;
                let after = format!("after {done} statements of the upgrade of the {part}");
                assert_resumed(&store, &expected, &after).await;
                upgrade::check_migrated(&store).await;
            }
        }
    });
}

async fn migration_is_refused_when_table_name_is_taken(kind: ServerKind) {
    let (database, store) = empty(kind).await;
    // The baseline migration creates this table as one of the last, but must be refused before it creates the first.
    outside(&database, "CREATE TABLE outbox_audit_log (id INT)").await.unwrap();
    let before = schema_size(&store, kind).await;
    let refused = store.migrate().await;
    assert!(
        matches!(&refused, Err(SchemaError::ForeignRelation { name, .. }) if name == "outbox_audit_log"),
        "{refused:?}"
    );
    assert_eq!(schema_size(&store, kind).await, before);
    outside(&database, "DROP TABLE outbox_audit_log").await.unwrap();
    store.migrate().await.unwrap();
    assert!(store.is_ready(&[&MIGRATIONS]).await.unwrap());
}

/// A host service has its own sqlx migrations in the same database and runs them before or after those of handover.
async fn migrations_coexist_with_those_of_host_service(kind: ServerKind) {
    for host_first in [true, false] {
        let (database, store) = empty(kind).await;
        if host_first {
            migrate_host(&database).await;
        }
        assert!(!store.is_ready(&[&MIGRATIONS]).await.unwrap());
        store.migrate().await.unwrap();
        for _ in 0..2 {
            migrate_host(&database).await;
            store.migrate().await.unwrap();
            assert!(store.is_ready(&[&MIGRATIONS]).await.unwrap());
        }
        assert_eq!(outside(&database, "INSERT INTO books (id) VALUES (1)").await.unwrap(), 1);
    }
}

/// Migrations of the host: they use the same version number and sqlx's default version table.
async fn migrate_host(database: &TestDatabase) {
    let books = "CREATE TABLE books (id BIGINT PRIMARY KEY)".into_sql_str();
    let books = Migration::new(1, "books".into(), MigrationType::Simple, books, false);
    let host = Migrator::with_migrations(vec![books]);
    let done = match database.server().kind() {
        ServerKind::MariaDb => host.run(&mut MySqlConnection::connect(&database.url()).await.unwrap()).await,
        ServerKind::Postgres => host.run(&mut PgConnection::connect(&database.url()).await.unwrap()).await,
    };
    done.unwrap();
}

/// The recorded checksum of each migration must be the one that sqlx computes from the file; otherwise a database of an
/// older version could not be migrated.
async fn recorded_migrations_match_files_read_by_sqlx(kind: ServerKind) {
    let (database, store) = empty(kind).await;
    store.migrate().await.unwrap();
    for part in PARTS {
        let read = Migrator::new(folder(part, kind).as_path()).await.unwrap();
        assert!(read.iter().len() > 0, "{part}");
        let mut view = SqlStore::view(&store).await.unwrap();
        let checksum =
            if kind == ServerKind::MariaDb { "HEX(checksum)" } else { "upper(encode(checksum, 'hex'))" };
        let sql = format!(
            "SELECT version, description, {checksum} AS checksum FROM {part}_migrations ORDER BY version"
        );
        let recorded = view.fetch(&sql, Vec::new()).await.unwrap();
        let recorded: Vec<_> = recorded
            .iter()
            .map(|row| {
                let text = |column| row.text(column).unwrap().to_owned();
                (row.int("version").unwrap(), text("description"), text("checksum"))
            })
            .collect();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        let read: Vec<_> =
            read.iter().map(|one| (one.version, one.description.to_string(), hex(&one.checksum))).collect();
        assert_eq!(recorded, read, "{part}");
    }
    drop(database);
}

async fn database_of_unreleased_version_is_refused(kind: ServerKind) {
    let (database, store) = empty(kind).await;
    create_version_table(&database, "handover_migrations").await;
    assert!(matches!(store.migrate().await, Err(SchemaError::Unreleased)));
    assert!(matches!(store.schema_versions().await, Err(SchemaError::Unreleased)));
    assert!(!store.is_ready(&[&MIGRATIONS]).await.unwrap());
}
