//! The connection of a unit of work, lent to the application, and stores that are opened with its connection options.

use std::num::NonZeroU32;
use std::str::FromStr as _;
use std::sync::Arc;

use handover_events::ConsumeStatus;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Store as _, StoreError, UnitOfWork as _};
use handover_sql::{HasConnection as _, ServerOptions, Session, SqlStore, lent_error};
use handover_system::SystemClock;
use handover_tests::lent::{Act, consume};
use handover_tests::server_rigs::{migrated, outside};
use handover_tests::servers::database::{ServerKind, TestDatabase};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, MySqlConnection, PgConnection};

use super::on_every_server;

on_every_server!(
    row_of_a_handler_is_committed_once,
    nested_commit_of_a_failed_handler_leaves_no_row,
    ignored_error_of_a_statement,
    lost_connection_of_a_handler_is_no_attempt,
    deadlock_is_transient,
    deadlock_that_a_handler_ignores_commits_nothing,
    statement_that_exceeds_the_limit_of_the_server_is_an_attempt,
    statement_with_a_wrong_number_of_parameters_is_an_attempt,
    handlers_run_under_the_settings_of_the_server,
    unit_of_work_that_the_application_ended_or_left_nested_is_not_committed,
    own_options_are_kept,
);

fn open(options: ServerOptions) -> SqlStore {
    SqlStore::open_server(&options, Arc::new(SystemClock), WakeupNotifier::default())
}

/// A store that is opened with the options of an application's own connections.
fn with_own_options(database: &TestDatabase, connections: u32) -> SqlStore {
    let options = match database.server().kind() {
        ServerKind::MariaDb => ServerOptions::mysql(MySqlConnectOptions::from_str(&database.url()).unwrap()),
        ServerKind::Postgres => ServerOptions::postgres(PgConnectOptions::from_str(&database.url()).unwrap()),
    };
    open(options.connections(NonZeroU32::new(connections).unwrap()))
}

async fn acted(kind: ServerKind, act: Act) -> (ConsumeStatus, u32, i64) {
    let database = migrated(kind).await;
    let store = with_own_options(&database, 4);
    let (record, rows) = match kind {
        ServerKind::MariaDb => consume::<MySqlConnection>(&store, act).await,
        ServerKind::Postgres => consume::<PgConnection>(&store, act).await,
    };
    store.close().await;
    (record.status, record.attempts, rows)
}

async fn row_of_a_handler_is_committed_once(kind: ServerKind) {
    assert_eq!(acted(kind, Act::Insert).await, (ConsumeStatus::Success, 1, 1));
}

async fn nested_commit_of_a_failed_handler_leaves_no_row(kind: ServerKind) {
    assert_eq!(acted(kind, Act::FailAfterNestedCommit).await, (ConsumeStatus::Dead, 2, 0));
}

/// PostgreSQL aborts the transaction; MariaDB keeps the changes of the other statements.
async fn ignored_error_of_a_statement(kind: ServerKind) {
    let expected = match kind {
        ServerKind::MariaDb => (ConsumeStatus::Success, 1, 1),
        ServerKind::Postgres => (ConsumeStatus::Dead, 2, 0),
    };
    assert_eq!(acted(kind, Act::IgnoreError).await, expected);
}

async fn lost_connection_of_a_handler_is_no_attempt(kind: ServerKind) {
    assert_eq!(acted(kind, Act::LoseConnection).await, (ConsumeStatus::Success, 1, 1));
}

/// Runs a statement on the lent connection.
async fn run(unit: &mut Session, kind: ServerKind, sql: &'static str) -> Result<u64, sqlx::Error> {
    match kind {
        ServerKind::MariaDb => {
            let connection: &mut MySqlConnection = unit.connection().await.unwrap();
            Ok(sqlx::raw_sql(sql).execute(connection).await?.rows_affected())
        }
        ServerKind::Postgres => {
            let connection: &mut PgConnection = unit.connection().await.unwrap();
            Ok(sqlx::raw_sql(sql).execute(connection).await?.rows_affected())
        }
    }
}

/// Two units of work on lent connections wait for each other. Returns the one that the database has ended, and the error.
async fn deadlocked(
    store: &SqlStore,
    database: &TestDatabase,
    kind: ServerKind,
) -> (Box<Session>, StoreError) {
    outside(database, "CREATE TABLE pair (id BIGINT PRIMARY KEY, n BIGINT)").await.unwrap();
    outside(database, "INSERT INTO pair VALUES (1, 0), (2, 0)").await.unwrap();
    let first = "UPDATE pair SET n = n + 1 WHERE id = 1";
    let second = "UPDATE pair SET n = n + 1 WHERE id = 2";
    let mut left = store.begin().await.unwrap();
    let mut right = store.begin().await.unwrap();
    run(&mut left, kind, first).await.unwrap();
    run(&mut right, kind, second).await.unwrap();
    let (of_left, of_right) = tokio::join!(run(&mut left, kind, second), run(&mut right, kind, first));
    match (of_left, of_right) {
        (Err(error), Ok(_)) => (left, lent_error(error)),
        (Ok(_), Err(error)) => (right, lent_error(error)),
        other => panic!("one of two transactions that wait for each other fails: {other:?}"),
    }
}

async fn deadlock_is_transient(kind: ServerKind) {
    let database = migrated(kind).await;
    let (_, error) = deadlocked(&with_own_options(&database, 2), &database, kind).await;
    assert!(matches!(error, StoreError::Transient(_)), "{error:?}");
}

/// On MariaDB the deadlock rolls back the transaction, and later statements would be committed one by one.
async fn deadlock_that_a_handler_ignores_commits_nothing(kind: ServerKind) {
    let database = migrated(kind).await;
    let store = with_own_options(&database, 2);
    let (mut unit, _) = deadlocked(&store, &database, kind).await;
    let later = run(&mut unit, kind, "INSERT INTO pair VALUES (3, 0)").await;
    assert_eq!(later.is_ok(), kind == ServerKind::MariaDb, "{later:?}");
    unit.commit().await.unwrap_err();
    let count = async |sql: &str| {
        let mut unit = store.begin().await.unwrap();
        unit.fetch_one(sql, vec![]).await.unwrap().unwrap().int("n").unwrap()
    };
    assert_eq!(count("SELECT count(*) AS n FROM pair WHERE id = 3").await, 0);
    // A unit of work that is committed: both connections commit a single statement at once again.
    let mut unit = store.begin().await.unwrap();
    run(&mut unit, kind, "INSERT INTO pair VALUES (4, 0)").await.unwrap();
    unit.commit().await.unwrap();
    if kind == ServerKind::MariaDb {
        let mut units = vec![store.begin().await.unwrap(), store.begin().await.unwrap()];
        for unit in &mut units {
            let row = unit.fetch_one("SELECT @@SESSION.autocommit AS n", vec![]).await.unwrap().unwrap();
            assert_eq!(row.int("n").unwrap(), 1);
        }
    }
    assert_eq!(count("SELECT count(*) AS n FROM pair WHERE id = 4").await, 1);
}

async fn statement_that_exceeds_the_limit_of_the_server_is_an_attempt(kind: ServerKind) {
    let database = migrated(kind).await;
    let (limit, sleep) = match kind {
        ServerKind::MariaDb => ("SET max_statement_time = 0.1", "SELECT SLEEP(60)"),
        ServerKind::Postgres => ("SET LOCAL statement_timeout = '100ms'", "SELECT pg_sleep(60)"),
    };
    let store = with_own_options(&database, 1);
    let mut unit = store.begin().await.unwrap();
    run(&mut unit, kind, limit).await.unwrap();
    let error = lent_error(run(&mut unit, kind, sleep).await.unwrap_err());
    assert!(matches!(error, StoreError::Backend(_)), "{error:?}");
}

async fn statement_with_a_wrong_number_of_parameters_is_an_attempt(kind: ServerKind) {
    let database = migrated(kind).await;
    let store = with_own_options(&database, 1);
    let mut unit = store.begin().await.unwrap();
    let wrong = match kind {
        ServerKind::MariaDb => {
            let connection: &mut MySqlConnection = unit.connection().await.unwrap();
            sqlx::query("SELECT ? + ?").bind(1).execute(connection).await.map(drop)
        }
        ServerKind::Postgres => {
            let connection: &mut PgConnection = unit.connection().await.unwrap();
            sqlx::query("SELECT $1::int + $2::int").bind(1).execute(connection).await.map(drop)
        }
    };
    let error = lent_error(wrong.unwrap_err());
    assert!(matches!(error, StoreError::Backend(_)), "{error:?}");
    // sqlx-mysql waits for a response that never comes, but not for so long that the pool gives up.
    drop(unit);
    store.begin().await.unwrap().commit().await.unwrap();
}

/// Values of settings on the lent connection.
async fn lent_settings(unit: &mut Session, kind: ServerKind) -> Vec<String> {
    match kind {
        ServerKind::MariaDb => {
            let connection: &mut MySqlConnection = unit.connection().await.unwrap();
            let sql = "SELECT CAST(@@SESSION.innodb_lock_wait_timeout AS CHAR), CAST(@@SESSION.max_statement_time AS CHAR), \
                       CAST(@@SESSION.idle_transaction_timeout AS CHAR), \
                       CAST(@@SESSION.sql_mode LIKE '%PIPES_AS_CONCAT%' AS CHAR)";
            let row: (String, String, String, String) =
                sqlx::query_as(sql).fetch_one(connection).await.unwrap();
            vec![row.0, row.1, row.2, row.3]
        }
        ServerKind::Postgres => {
            let connection: &mut PgConnection = unit.connection().await.unwrap();
            let mut values = Vec::new();
            for show in [
                "SHOW lock_timeout",
                "SHOW statement_timeout",
                "SHOW idle_in_transaction_session_timeout",
                "SHOW enable_seqscan",
                "SHOW enable_bitmapscan",
            ] {
                values.push(sqlx::query_scalar(show).fetch_one(&mut *connection).await.unwrap());
            }
            values
        }
    }
}

/// The same on the connection of the store.
async fn own_settings(unit: &mut Session, kind: ServerKind) -> Vec<String> {
    let names: &[(&'static str, &str)] = match kind {
        ServerKind::MariaDb => &[
            ("a", "SELECT CAST(@@SESSION.innodb_lock_wait_timeout AS CHAR) AS a"),
            ("a", "SELECT CAST(@@SESSION.max_statement_time AS CHAR) AS a"),
            ("a", "SELECT CAST(@@SESSION.idle_transaction_timeout AS CHAR) AS a"),
            ("a", "SELECT CAST(@@SESSION.sql_mode LIKE '%PIPES_AS_CONCAT%' AS CHAR) AS a"),
        ],
        ServerKind::Postgres => &[
            ("lock_timeout", "SHOW lock_timeout"),
            ("statement_timeout", "SHOW statement_timeout"),
            ("idle_in_transaction_session_timeout", "SHOW idle_in_transaction_session_timeout"),
            ("enable_seqscan", "SHOW enable_seqscan"),
            ("enable_bitmapscan", "SHOW enable_bitmapscan"),
        ],
    };
    let mut values = Vec::new();
    for (column, sql) in names {
        values.push(unit.fetch_one(sql, vec![]).await.unwrap().unwrap().text(column).unwrap().to_owned());
    }
    values
}

async fn handlers_run_under_the_settings_of_the_server(kind: ServerKind) {
    let database = migrated(kind).await;
    let (of_server, own) = match kind {
        ServerKind::MariaDb => (vec!["50", "0.000000", "0", "1"], vec!["2", "14.000000", "15", "0"]),
        ServerKind::Postgres => {
            let set = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = ''7s''', current_database()); END $$";
            outside(&database, set).await.unwrap();
            (vec!["7s", "0", "0", "on", "on"], vec!["2s", "14s", "15s", "off", "off"])
        }
    };
    // All units of work use the same connection.
    let store = with_own_options(&database, 1);
    for commits in [true, false] {
        let mut unit = store.begin().await.unwrap();
        assert_eq!(own_settings(&mut unit, kind).await, own);
        assert_eq!(lent_settings(&mut unit, kind).await, of_server);
        if kind == ServerKind::Postgres {
            // The tables of the store are in another schema, and this role must not read them.
            run(&mut unit, kind, "SET LOCAL search_path TO pg_catalog; SET LOCAL ROLE pg_monitor")
                .await
                .unwrap();
            unit.fetch_one("SELECT id FROM outbox_events LIMIT 1", vec![]).await.unwrap();
        }
        assert_eq!(own_settings(&mut unit, kind).await, own);
        assert_eq!(lent_settings(&mut unit, kind).await, of_server);
        if commits {
            unit.commit().await.unwrap();
        } else {
            drop(unit);
        }
        let mut unit = store.begin().await.unwrap();
        assert_eq!(own_settings(&mut unit, kind).await, own, "after a unit of work (commits: {commits})");
    }
}

async fn unit_of_work_that_the_application_ended_or_left_nested_is_not_committed(kind: ServerKind) {
    let database = migrated(kind).await;
    let store = with_own_options(&database, 1);
    for end in ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN"] {
        let mut unit = store.begin().await.unwrap();
        run(&mut unit, kind, end).await.unwrap();
        let error = unit.commit().await.unwrap_err();
        assert!(error.to_string().contains("ended while the connection was lent"), "{end}: {error}");
    }
    let mut unit = store.begin().await.unwrap();
    match kind {
        ServerKind::MariaDb => {
            let connection: &mut MySqlConnection = unit.connection().await.unwrap();
            std::mem::forget(connection.begin().await.unwrap());
        }
        ServerKind::Postgres => {
            let connection: &mut PgConnection = unit.connection().await.unwrap();
            std::mem::forget(connection.begin().await.unwrap());
        }
    }
    let error = unit.commit().await.unwrap_err();
    assert!(error.to_string().contains("a nested transaction was left open"), "{error}");
    store.begin().await.unwrap().commit().await.unwrap();
}

/// Schema and application name of the application's own connections on PostgreSQL; the database on MariaDB.
async fn own_options_are_kept(kind: ServerKind) {
    if kind == ServerKind::MariaDb {
        let database = migrated(kind).await;
        let store = with_own_options(&database, 1);
        store.begin().await.unwrap().commit().await.unwrap();
        return;
    }
    let database = migrated(kind).await;
    outside(&database, "CREATE SCHEMA app").await.unwrap();
    let connect = PgConnectOptions::from_str(&database.url())
        .unwrap()
        .options([("search_path", "app")])
        .application_name("clinic");
    let store = open(ServerOptions::postgres(connect).connections(NonZeroU32::MIN));
    store.migrate().await.unwrap();
    let mut unit = store.begin().await.unwrap();
    let tables = "SELECT count(*) AS n FROM pg_tables WHERE schemaname = 'app' AND tablename LIKE 'outbox%'";
    assert!(unit.fetch_one(tables, vec![]).await.unwrap().unwrap().int("n").unwrap() > 5);
    let name = unit.fetch_one("SHOW application_name", vec![]).await.unwrap().unwrap();
    assert_eq!(name.text("application_name").unwrap(), "clinic");
    let connection: &mut PgConnection = unit.connection().await.unwrap();
    let path: String = sqlx::query_scalar("SHOW search_path").fetch_one(connection).await.unwrap();
    assert_eq!(path, "app");
    unit.commit().await.unwrap();
}
