//! The connection of a unit of work, lent to the application.

use std::sync::Arc;

use handover_events::ConsumeStatus;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Store as _, StoreError, UnitOfWork as _};
use handover_sql::{HasConnection as _, Session, SqlStore, SqliteOptions};
use handover_system::SystemClock;
use handover_tests::lent::{Act, consume};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection as _, PgConnection, SqliteConnection};
use tempfile::TempDir;

/// A migrated store that is opened with the options of an application's own connections.
async fn store() -> (SqlStore, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let connect = SqliteConnectOptions::new().filename(directory.path().join("own.db"));
    let options = SqliteOptions::of(connect).unwrap();
    let store =
        SqlStore::open_sqlite(&options, Arc::new(SystemClock), WakeupNotifier::default()).await.unwrap();
    store.migrate().await.unwrap();
    (store, directory)
}

async fn connection(unit: &mut Session) -> &mut SqliteConnection {
    unit.connection().await.unwrap()
}

#[tokio::test]
async fn row_of_a_handler_is_committed_once() {
    let (store, _directory) = store().await;
    let (record, rows) = consume::<SqliteConnection>(&store, Act::Insert).await;
    assert_eq!((record.status, record.attempts, rows), (ConsumeStatus::Success, 1, 1));
}

#[tokio::test]
async fn nested_commit_of_a_failed_handler_leaves_no_row() {
    let (store, _directory) = store().await;
    let (record, rows) = consume::<SqliteConnection>(&store, Act::FailAfterNestedCommit).await;
    assert_eq!((record.status, rows), (ConsumeStatus::Dead, 0));
}

#[tokio::test]
async fn unit_of_work_that_the_application_ended_or_left_nested_is_not_committed() {
    let (store, _directory) = store().await;
    for end in ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN"] {
        let mut unit = store.begin().await.unwrap();
        sqlx::raw_sql(end).execute(connection(&mut unit).await).await.unwrap();
        let error = unit.commit().await.unwrap_err();
        assert!(error.to_string().contains("ended while the connection was lent"), "{end}: {error}");
    }
    let mut unit = store.begin().await.unwrap();
    std::mem::forget(connection(&mut unit).await.begin().await.unwrap());
    let error = unit.commit().await.unwrap_err();
    assert!(error.to_string().contains("a nested transaction was left open"), "{error}");
    store.begin().await.unwrap().commit().await.unwrap();
}

#[tokio::test]
async fn connection_is_lent_only_by_a_unit_of_work_on_its_engine() {
    let (store, _directory) = store().await;
    let mut view = store.view().await.unwrap();
    let lent: Result<&mut SqliteConnection, StoreError> = view.connection().await;
    assert!(lent.unwrap_err().to_string().contains("only a unit of work lends its connection"));
    let mut unit = store.begin().await.unwrap();
    let lent: Result<&mut PgConnection, StoreError> = unit.connection().await;
    assert!(lent.unwrap_err().to_string().contains("of another kind"));
    unit.commit().await.unwrap_err();
}

#[test]
fn in_memory_database_is_refused() {
    for url in ["sqlite::memory:", "sqlite:"] {
        assert!(SqliteOptions::of(url.parse().unwrap()).is_none(), "{url}");
    }
}
