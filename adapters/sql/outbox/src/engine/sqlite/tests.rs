use std::path::Path;
use std::time::Duration;

use handover_outbox::ports::{StoreError, SystemFaultKind};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::error::class_of;
use super::group_sync::GroupSync;
use super::*;
use crate::error::{ErrorClass, commit_error};

async fn engine(folder: &TempDir) -> SqliteEngine {
    let engine = SqliteEngine::open(&SqliteOptions::file(folder.path().join("a.db"))).await.unwrap();
    let mut writer = engine.writer().await.unwrap();
    writer.execute("CREATE TABLE IF NOT EXISTS numbers (n INTEGER, text TEXT)", Vec::new()).await.unwrap();
    drop(writer);
    engine
}

/// Commits one row of this size.
async fn commit(engine: &SqliteEngine, bytes: usize) -> Result<(), StoreError> {
    let mut writer = engine.writer().await?;
    writer.begin().await?;
    let text = Value::Text(Some("x".repeat(bytes)));
    writer.execute("INSERT INTO numbers VALUES (1, ?)", vec![text]).await?;
    writer.commit().await.map_err(commit_error)
}

async fn count(engine: &SqliteEngine) -> i64 {
    let mut reader = engine.reader().await.unwrap();
    reader.fetch("SELECT count(*) AS n FROM numbers", Vec::new()).await.unwrap()[0].int("n").unwrap()
}

#[test]
fn errors_of_the_system_are_distinguished_from_errors_of_a_statement() {
    for (code, message, class) in [
        (8, "attempt to write a readonly database", ErrorClass::RolledBack(SystemFaultKind::ReadOnly)),
        (13, "database or disk is full", ErrorClass::RolledBack(SystemFaultKind::Storage)),
        (10, "disk I/O error", ErrorClass::Fault(SystemFaultKind::Storage)),
        (14, "unable to open database file", ErrorClass::Fault(SystemFaultKind::Storage)),
        (1, "no such table: books", ErrorClass::RolledBack(SystemFaultKind::Schema)),
        (1, "no such column: statu", ErrorClass::RolledBack(SystemFaultKind::Schema)),
        (5, "database is locked", ErrorClass::Transient),
        (1, "near \"SELEC\": syntax error", ErrorClass::Permanent),
        (19, "CHECK constraint failed: status", ErrorClass::Permanent),
    ] {
        assert_eq!(class_of(code, message), class, "{code} {message}");
    }
}

/// A copy of the files as a killed process would leave them.
fn killed(folder: &TempDir) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_file(folder, &copy, "a.db");
    copy_file(folder, &copy, "a.db-wal");
    copy
}

fn copy_file(from: &TempDir, to: &TempDir, name: &str) {
    std::fs::copy(from.path().join(name), to.path().join(name)).unwrap();
}

fn log_bytes(folder: &TempDir) -> u64 {
    std::fs::metadata(folder.path().join("a.db-wal")).unwrap().len()
}

async fn refusal(folder: &TempDir) -> ForeignLog {
    let error = SqliteEngine::open(&SqliteOptions::file(folder.path().join("a.db"))).await.err().unwrap();
    let StoreError::Backend(cause) = error else { panic!("{error}") };
    cause.downcast_ref::<ForeignLog>().unwrap().clone()
}

fn not_committed(error: &StoreError) -> bool {
    error.system_fault().is_some_and(|fault| fault.is_rolled_back)
}

#[tokio::test]
async fn files_of_a_killed_process_are_opened_completely_at_any_time() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    // Several checkpoints run meanwhile. Each copy is opened twice: the log of the copy continues with another mark.
    for n in 1..=500 {
        commit(&engine, 100).await.unwrap();
        if n % 37 == 0 || n == 1 {
            let copy = killed(&folder);
            let again = self::engine(&copy).await;
            assert_eq!(count(&again).await, n);
            commit(&again, 100).await.unwrap();
            let copy = killed(&copy);
            assert_eq!(count(&self::engine(&copy).await).await, n + 1);
        }
    }
}

#[tokio::test]
async fn versions_that_an_application_keeps_in_its_file_stay() {
    let folder = tempfile::tempdir().unwrap();
    let connect = || SqliteConnectOptions::new().filename(folder.path().join("a.db")).create_if_missing(true);
    let mut own = connect().connect().await.unwrap();
    sqlx::raw_sql(
        "PRAGMA application_id = 9; PRAGMA user_version = 7; CREATE TABLE numbers (n INTEGER, text TEXT)",
    )
    .execute(&mut own)
    .await
    .unwrap();
    let options = SqliteOptions::of(connect()).unwrap();
    let engine = SqliteEngine::open(&options).await.unwrap();
    // Several checkpoints run meanwhile.
    for _ in 0..400 {
        commit(&engine, 100).await.unwrap();
    }
    assert!(log_bytes(&folder) < 400 * 8192, "no checkpoint has run");
    let copy = tempfile::tempdir().unwrap();
    engine.backup(&copy.path().join("a.db")).await.unwrap();
    let mut copied = connect().filename(copy.path().join("a.db")).connect().await.unwrap();
    for of in [&mut own, &mut copied] {
        let numbers = log_check::read(of).await.unwrap();
        assert_eq!((numbers.current, numbers.previous), (7, 9));
    }
    // A migration of the application, which a killed process leaves in the log.
    sqlx::raw_sql("PRAGMA user_version = 8").execute(&mut own).await.unwrap();
    let killed = killed(&folder);
    let options = SqliteOptions::of(connect().filename(killed.path().join("a.db"))).unwrap();
    let again = SqliteEngine::open(&options).await.unwrap();
    assert_eq!(count(&again).await, 400);
}

#[tokio::test]
async fn log_of_another_state_of_the_file_is_refused_and_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    commit(&engine, 100).await.unwrap();
    engine.close().await;
    let old = tempfile::tempdir().unwrap();
    copy_file(&folder, &old, "a.db");
    let engine = self::engine(&folder).await;
    let backup = tempfile::tempdir().unwrap();
    std::fs::File::create_new(backup.path().join("a.db")).unwrap();
    engine.backup(&backup.path().join("a.db")).await.unwrap();
    for _ in 0..400 {
        commit(&engine, 100).await.unwrap();
    }
    for folder_of_file in [old, backup] {
        copy_file(&folder, &folder_of_file, "a.db-wal");
        let read = |name| std::fs::read(folder_of_file.path().join(name)).unwrap();
        let before = [read("a.db"), read("a.db-wal")];
        let refused = refusal(&folder_of_file).await;
        assert!(refused.to_string().contains("a.db-wal does not belong to the database file"), "{refused}");
        assert_eq!([read("a.db"), read("a.db-wal")], before);
        std::fs::remove_file(&refused.log).unwrap();
        assert_eq!(count(&self::engine(&folder_of_file).await).await, 1);
    }
}

#[tokio::test]
async fn log_of_another_database_or_of_a_missing_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(&folder).await;
    commit(&first, 100).await.unwrap();
    let other = tempfile::tempdir().unwrap();
    let second = engine(&other).await;
    for _ in 0..200 {
        commit(&second, 100).await.unwrap();
    }
    second.close().await;
    copy_file(&folder, &other, "a.db-wal");
    refusal(&other).await;
    for content in [None, Some("")] {
        let missing = killed(&folder);
        std::fs::remove_file(missing.path().join("a.db")).unwrap();
        if let Some(content) = content {
            std::fs::write(missing.path().join("a.db"), content).unwrap();
        }
        assert!(refusal(&missing).await.to_string().contains("missing or empty"));
    }
}

#[tokio::test]
async fn torn_end_of_a_log_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    for _ in 0..10 {
        commit(&engine, 100).await.unwrap();
    }
    let log = std::fs::read(folder.path().join("a.db-wal")).unwrap();
    for cut in [0, 10, 32, 40, 4_000, log.len() - 1] {
        let copy = killed(&folder);
        std::fs::write(copy.path().join("a.db-wal"), &log[..cut]).unwrap();
        SqliteEngine::open(&SqliteOptions::file(copy.path().join("a.db"))).await.unwrap();
    }
}

#[tokio::test]
async fn full_disk_is_named_commits_nothing_and_ends_with_the_first_write() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let limit = async |pages: &str| {
        let mut writer = engine.writer.acquire().await.unwrap();
        let sql = format!("PRAGMA max_page_count = {pages}");
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut *writer).await.unwrap();
    };
    limit("1").await;
    let error = commit(&engine, 1_000_000).await.unwrap_err();
    assert!(not_committed(&error) && error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(engine.upkeep.storage.problem(), Some(Problem::Full));
    limit("1000000").await;
    assert_eq!(engine.storage_problem().await, None);
    assert_eq!(engine.upkeep.storage.problem(), None);
    commit(&engine, 1_000_000).await.unwrap();
    assert_eq!(count(&engine).await, 1);
}

#[tokio::test]
async fn failed_writes_at_commit_are_known_not_to_be_committed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let mut writer = engine.writer.acquire().await.unwrap();
    sqlx::query("PRAGMA query_only = ON").execute(&mut *writer).await.unwrap();
    let error = sqlx::query("DELETE FROM numbers").execute(&mut *writer).await.unwrap_err();
    let error = commit_error(engine.upkeep.storage.named(to_store_error(error)));
    assert!(not_committed(&error) && error.to_string().contains("read-only"), "{error}");
    let lost = commit_error(engine.upkeep.storage.named(StoreError::Unavailable("worker ended".into())));
    assert!(matches!(lost, StoreError::CommitUnknown(_)), "{lost}");
}

/// The last connection to a file deletes the log. From its first connection on, the store keeps the log open.
#[tokio::test]
async fn log_of_a_connection_that_ended_first_is_not_taken_for_a_replaced_one() {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteEngine::open(&SqliteOptions::file(folder.path().join("a.db"))).await.unwrap();
    let mut other = second_connection(&folder).await;
    sqlx::query("CREATE TABLE numbers (n INTEGER, text TEXT)").execute(&mut other).await.unwrap();
    let mut writer = engine.writer().await.unwrap();
    other.close().await.unwrap();
    // Takes the inode of a deleted log, so that a new log has another one.
    std::fs::write(folder.path().join("file"), "").unwrap();
    writer.begin().await.unwrap();
    writer.execute("INSERT INTO numbers VALUES (1, '')", Vec::new()).await.unwrap();
    writer.commit().await.unwrap();
}

#[tokio::test]
async fn commits_are_refused_while_file_or_log_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    for name in ["a.db", "a.db-wal"] {
        let path = folder.path().join(name);
        let moved = folder.path().join("moved");
        let mut open = engine.writer().await.unwrap();
        open.begin().await.unwrap();
        open.execute("INSERT INTO numbers VALUES (2, '')", Vec::new()).await.unwrap();
        std::fs::rename(&path, &moved).unwrap();
        let error = open.commit().await.map_err(commit_error).unwrap_err();
        assert!(not_committed(&error) && error.to_string().contains("replaced"), "{error}");
        drop(open);
        let error = commit(&engine, 1).await.unwrap_err();
        assert!(not_committed(&error), "{error}");
        assert!(engine.storage_problem().await.unwrap().contains("deleted or replaced"));
        std::fs::write(&path, "another file").unwrap();
        assert!(not_committed(&commit(&engine, 1).await.unwrap_err()));
        std::fs::rename(&moved, &path).unwrap();
        assert_eq!(engine.storage_problem().await, None);
        commit(&engine, 1).await.unwrap();
    }
    assert_eq!(count(&engine).await, 2);
}

async fn second_connection(folder: &TempDir) -> SqliteConnection {
    SqliteConnectOptions::new().filename(folder.path().join("a.db")).connect().await.unwrap()
}

#[tokio::test]
async fn log_that_a_reader_made_long_is_truncated_after_the_reader_ends() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    let mut reader = second_connection(&folder).await;
    sqlx::query("BEGIN").execute(&mut reader).await.unwrap();
    sqlx::query("SELECT * FROM numbers").fetch_all(&mut reader).await.unwrap();
    while log_bytes(&folder) <= checkpoints::LOG_LIMIT_BYTES * 5 / 4 {
        commit(&engine, 1 << 20).await.unwrap();
    }
    sqlx::query("COMMIT").execute(&mut reader).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), async {
        while log_bytes(&folder) > checkpoints::LOG_LIMIT_BYTES {
            commit(&engine, 1).await.unwrap();
        }
    })
    .await
    .expect("the log is not truncated");
}

#[tokio::test]
async fn backup_contains_every_earlier_commit_while_another_connection_writes() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(&folder).await;
    for _ in 0..50 {
        commit(&engine, 1_000).await.unwrap();
    }
    let mut other = second_connection(&folder).await;
    let copy = folder.path().join("copy.db");
    std::fs::File::create_new(&copy).unwrap();
    let writing = async {
        for _ in 0..20 {
            sqlx::query("INSERT INTO numbers VALUES (3, '')").execute(&mut other).await.unwrap();
        }
    };
    let (done, ()) = tokio::join!(engine.backup(&copy), writing);
    done.unwrap();
    assert!(engine.backup(&copy).await.is_err(), "a file with content is not overwritten");
    let found = rows(&copy).await;
    assert!((50..=70).contains(&found), "{found}");
}

async fn rows(path: &Path) -> i64 {
    let mut copy = SqliteConnectOptions::new().filename(path).read_only(true).connect().await.unwrap();
    sqlx::query_scalar("SELECT count(*) FROM numbers").fetch_one(&mut copy).await.unwrap()
}

/// A log whose flushes the test counts, delays and lets fail.
#[derive(Clone, Default)]
struct Flushes {
    is_held_up: Arc<AtomicBool>,
    count: Arc<std::sync::atomic::AtomicU64>,
    fails: Arc<AtomicBool>,
}

impl Flushes {
    fn sync(&self) -> Arc<GroupSync> {
        let flushes = self.clone();
        GroupSync::new(move || {
            while flushes.is_held_up.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            flushes.count.fetch_add(1, Ordering::SeqCst);
            if flushes.fails.load(Ordering::SeqCst) { Err(std::io::Error::other("no disk")) } else { Ok(()) }
        })
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn commits_that_wait_during_a_flush_share_the_next_one() {
    let flushes = Flushes::default();
    let sync = flushes.sync();
    flushes.is_held_up.store(true, Ordering::SeqCst);
    let mut waiting = JoinSet::new();
    for _ in 0..20 {
        let number = sync.begin().number();
        let of_commit = Arc::clone(&sync);
        waiting.spawn(async move { of_commit.durable(number).await });
        // The flush of the first commit begins before the others are written.
        tokio::task::yield_now().await;
    }
    assert!(waiting.try_join_next().is_none());
    flushes.is_held_up.store(false, Ordering::SeqCst);
    for durable in waiting.join_all().await {
        durable.unwrap();
    }
    assert_eq!(flushes.count(), 2);
    sync.seen_durable().await.unwrap();
    assert_eq!(flushes.count(), 2, "nothing is left to be flushed");
}

#[tokio::test]
async fn reader_waits_for_a_commit_that_it_may_have_seen_also_if_its_owner_is_gone() {
    let flushes = Flushes::default();
    let sync = flushes.sync();
    let committing = sync.begin();
    let mut reading = JoinSet::new();
    let of_reader = Arc::clone(&sync);
    reading.spawn(async move { of_reader.seen_durable().await });
    tokio::task::yield_now().await;
    assert!(reading.try_join_next().is_none());
    assert_eq!(flushes.count(), 0, "the commit is not in the log yet");
    drop(committing);
    reading.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(flushes.count(), 1);
}

/// After a failed flush the system may report later flushes as successful although earlier writes are lost.
#[tokio::test]
async fn failed_flush_leaves_its_commits_unknown_and_refuses_all_later_ones() {
    let flushes = Flushes::default();
    let sync = flushes.sync();
    flushes.fails.store(true, Ordering::SeqCst);
    let number = sync.begin().number();
    let error = commit_error(sync.durable(number).await.unwrap_err());
    assert!(matches!(&error, StoreError::CommitUnknown(_)), "{error}");
    flushes.fails.store(false, Ordering::SeqCst);
    let why = sync.check().unwrap_err();
    assert!(why.contains("no disk") && why.contains("start the process again"), "{why}");
    let number = sync.begin().number();
    assert!(sync.durable(number).await.is_err());
    assert_eq!(flushes.count(), 1);
}

/// The connection for writing is free while a commit waits for its flush.
#[tokio::test]
async fn concurrent_units_of_work_are_all_committed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(engine(&folder).await);
    let mut units = JoinSet::new();
    for _ in 0..100 {
        let engine = Arc::clone(&engine);
        units.spawn(async move { commit(&engine, 10).await });
    }
    for committed in units.join_all().await {
        committed.unwrap();
    }
    assert_eq!(count(&engine).await, 100);
    let mut writer = engine.writer().await.unwrap();
    writer.begin().await.unwrap();
    writer.commit().await.unwrap();
    let error = writer.execute("DELETE FROM numbers", Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("committed"), "{error}");
    commit(&engine, 10).await.unwrap();
    drop(writer);
}
