//! Checkpoints of the write-ahead log, and the mark at the start of each log.
//!
//! SQLite's own checkpoints are off. While a reader keeps an old snapshot, they would run after each commit and search
//! the whole log each time. They would also begin a log without a [mark](super::log_check).

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use sqlx::{AssertSqlSafe, SqliteConnection};
use tokio::time::Instant;

use super::log_check;

/// A checkpoint runs after this many commits, which write about 8 MiB.
const COMMITS: u32 = 150;
/// The same while short reads keep checkpoints from completing.
const COMMITS_WHILE_INCOMPLETE: u32 = 10;
/// Size from which a checkpoint runs after each commit, and to which SQLite truncates a longer log when the next one
/// begins.
pub(super) const LOG_LIMIT_BYTES: u64 = 16 << 20;
/// Size from which a reader that keeps the log from being truncated is reported.
const WARN_BYTES: u64 = 64 << 20;
const WARN_INTERVAL: Duration = Duration::from_secs(60);
/// Pause between checkpoints that a reader keeps from making progress.
const BLOCKED_PAUSE: Duration = Duration::from_secs(1);
/// A blocked checkpoint searches the log; at most this part of the time is spent on it.
const BLOCKED_SHARE: u32 = 20;

/// Decides after each write whether a checkpoint is due, and runs it on the writer connection.
pub(super) struct Checkpoints {
    log: PathBuf,
    /// Whether each log begins with a mark.
    pub(super) has_marks: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Commits since the last checkpoint.
    commits: u32,
    due_after: Option<u32>,
    /// Frames that were copied into the file by the last checkpoint that did not complete.
    copied: Option<i64>,
    blocked: Option<Blocked>,
}

/// A reader keeps an old snapshot, so checkpoints make no progress.
#[derive(Clone, Copy)]
struct Blocked {
    since: Instant,
    next_try: Instant,
    warned: Option<Instant>,
}

impl Checkpoints {
    pub(super) fn new(log: PathBuf, has_marks: bool) -> Checkpoints {
        Checkpoints { log, has_marks, state: Mutex::default() }
    }

    fn log_bytes(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |file| file.len())
    }

    /// Whether no frame was written since the log was created, so that the next one begins it.
    pub(super) fn log_is_empty(&self) -> bool {
        self.log_bytes() == 0
    }

    /// Writes to the file, to find out whether it can be written. The log may begin with this write.
    pub(super) async fn write_page_one(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        if self.has_marks { mark(connection).await } else { rewrite_version(connection).await }
    }

    /// Counts a commit; returns whether a checkpoint is due.
    pub(super) fn is_due(&self) -> bool {
        let is_long = self.log_bytes() > LOG_LIMIT_BYTES;
        let Ok(mut state) = self.state.lock() else { return false };
        state.commits += 1;
        match state.blocked {
            Some(blocked) => Instant::now() >= blocked.next_try,
            None => is_long || state.commits >= state.due_after.unwrap_or(COMMITS),
        }
    }

    /// Copies the log into the file. If all of it was copied, begins a new log with a mark. Without readers the new log
    /// overwrites the old one. A failure is not reported: the commit succeeded, and the next checkpoint continues.
    pub(super) async fn run(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let started = Instant::now();
        // Columns: whether it was blocked, frames of the log, frames that are in the file now.
        let (_, frames, copied): (i64, i64, i64) =
            sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut *connection).await?;
        let is_complete = frames == copied;
        if is_complete && self.has_marks {
            mark(connection).await?;
        }
        let log_bytes = self.log_bytes();
        let Ok(mut state) = self.state.lock() else { return Ok(()) };
        state.ended(is_complete, copied, started, log_bytes);
        Ok(())
    }
}

impl State {
    fn ended(&mut self, is_complete: bool, copied: i64, started: Instant, log_bytes: u64) {
        self.commits = 0;
        let is_stuck = !is_complete && self.copied == Some(copied);
        self.copied = (!is_complete).then_some(copied);
        self.due_after = (!is_complete).then_some(COMMITS_WHILE_INCOMPLETE);
        if !is_stuck {
            if let Some(Blocked { since, warned: Some(_), .. }) = self.blocked {
                let seconds = since.elapsed().as_secs();
                tracing::info!(
                    code = "sqlite.log-truncated",
                    seconds,
                    "sqlite: the reader of an old snapshot ended; the log is truncated"
                );
            }
            self.blocked = None;
            return;
        }
        let now = Instant::now();
        let next_try = now + BLOCKED_PAUSE.max(started.elapsed() * BLOCKED_SHARE);
        let blocked = self.blocked.get_or_insert(Blocked { since: now, next_try, warned: None });
        blocked.next_try = next_try;
        let may_warn = blocked.warned.is_none_or(|warned| now - warned >= WARN_INTERVAL);
        if log_bytes >= WARN_BYTES && may_warn {
            blocked.warned = Some(now);
            tracing::warn!(
                code = "sqlite.log-grows",
                log_mib = log_bytes >> 20,
                reader_age_seconds = blocked.since.elapsed().as_secs(),
                "sqlite: the write-ahead log grows, because a reader has kept an old snapshot for at least this time; \
                 end it (a backup, or a shell in a transaction); the log is truncated afterwards"
            );
        }
    }
}

/// Writes page 1 as it is.
async fn rewrite_version(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *connection).await?;
    let sql = format!("PRAGMA user_version = {version}; COMMIT");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await?;
    Ok(())
}

/// Writes a mark on page 1, as the first transaction of a log.
pub(super) async fn mark(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let previous = log_check::read(connection).await?.current.cast_signed();
    let current: i64 = sqlx::query_scalar("SELECT random() & 2147483647").fetch_one(&mut *connection).await?;
    let sql = format!(
        "BEGIN IMMEDIATE; PRAGMA application_id = {previous}; PRAGMA user_version = {current}; COMMIT"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await?;
    Ok(())
}
