//! Check that a write-ahead log (`-wal`) belongs to the database file beside it.
//!
//! SQLite applies any valid log to the file of the same name. A log that a killed process left therefore corrupts a file
//! that was restored in the meantime. Nothing in SQLite's formats connects a file with its log, so this module does: each
//! log begins with a [mark](Mark) on page 1 of the database, which contains a random number and the number of the log
//! before it. The file contains the mark of its last log whose first page was copied into the file (checkpoint).
//!
//! **Limits:** a log without a frame of page 1, and a file and a log from before the marks, are accepted. Two numbers are
//! equal by chance once in 2^31.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use handover_outbox::ports::StoreError;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

/// The numbers on page 1: `user_version` has that of the current log, `application_id` that of the log before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) current: u32,
    pub(super) previous: u32,
}

/// A database file and a write-ahead log beside it that do not belong together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the write-ahead log {} does not belong to the database file {}: {why}", log.display(), database.display())]
pub struct ForeignLog {
    /// The database file.
    pub database: PathBuf,
    /// The write-ahead log beside it.
    pub log: PathBuf,
    why: &'static str,
}

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// Magic number of a log; the last bit selects the byte order of its checksums.
const MAGIC: u32 = 0x377f_0682;
/// Offsets on page 1 (SQLite file format, 1.3).
const USER_VERSION: usize = 60;
const APPLICATION_ID: usize = 68;

/// Attempts to find a consistent pair: a process that serves the file may begin a new log between two reads.
const ATTEMPTS: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Fails if a log with committed data beside the file does not belong to it. Reads both files, changes none.
#[allow(
    clippy::disallowed_methods,
    reason = "a short pause of the adapter, before the store and its clock exist"
)]
pub(super) async fn check(database: &Path, log: &Path) -> Result<(), StoreError> {
    let mut attempt = 1;
    while let Some(why) = mismatch(database, log).await {
        if attempt == ATTEMPTS {
            let foreign = ForeignLog { database: database.to_owned(), log: log.to_owned(), why };
            return Err(StoreError::Backend(Box::new(foreign)));
        }
        attempt += 1;
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    Ok(())
}

/// The reason why the log does not belong to the file. A file that cannot be read is not a mismatch: opening the
/// database reports the cause.
async fn mismatch(database: &Path, log: &Path) -> Option<&'static str> {
    let file = File::open(log).ok()?;
    if std::fs::metadata(database).map_or(true, |file| file.len() == 0) {
        let content = scan(BufReader::new(file), |_, _| false).ok()?;
        return content.has_commits.then_some("the file is missing or empty, and the log has committed data");
    }
    // The log is read before the file, so that a log that begins in between cannot be newer than the file.
    let (mark, page_size) = of_file(database).await.ok()?;
    let belongs = |of_page: Mark, is_first: bool| {
        of_page.current == mark.current || (is_first && of_page.previous == mark.current)
    };
    let content = scan(BufReader::new(file), belongs).ok()?;
    if content.has_commits && content.page_size != page_size {
        return Some("the page sizes differ");
    }
    match content.belongs {
        Some(false) => Some("the log was written for another file, or for another state of this file"),
        Some(true) | None => None,
    }
}

/// The mark and the page size of a database file, without its log. SQLite opens the file, because closing a file that
/// the process opened itself would release the locks of SQLite's connections.
async fn of_file(database: &Path) -> Result<(Mark, u32), sqlx::Error> {
    let options = SqliteConnectOptions::new().filename(database).read_only(true).immutable(true);
    let mut connection = options.disable_statement_logging().connect().await?;
    let mark = read(&mut connection).await;
    let page_size: Result<u32, _> = sqlx::query_scalar("PRAGMA page_size").fetch_one(&mut connection).await;
    connection.close().await?;
    Ok((mark?, page_size?))
}

/// The mark in the database of a connection.
pub(super) async fn read(connection: &mut sqlx::SqliteConnection) -> Result<Mark, sqlx::Error> {
    let current: i32 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *connection).await?;
    let previous: i32 = sqlx::query_scalar("PRAGMA application_id").fetch_one(connection).await?;
    Ok(Mark { current: current.cast_unsigned(), previous: previous.cast_unsigned() })
}

/// Content of a log up to its last commit.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    page_size: u32,
    has_commits: bool,
    /// Whether a page 1 in the log belongs to the file; `None` without a page 1.
    belongs: Option<bool>,
}

/// Reads the valid frames of a log, as SQLite's recovery does: a frame counts if its salts and its checksum, which
/// includes all frames before it, are right and a later frame commits it. Ends at the first page 1 that belongs.
fn scan(mut log: impl Read, belongs: impl Fn(Mark, bool) -> bool) -> io::Result<Content> {
    let mut content = Content::default();
    let mut header = [0; HEADER_BYTES];
    if !fill(&mut log, &mut header)? || number(&header, 0) & !1 != MAGIC {
        return Ok(content);
    }
    let is_big_endian = number(&header, 0) & 1 == 1;
    content.page_size = number(&header, 8);
    let mut sums = Checksum::default();
    sums.add(&header[..24], is_big_endian);
    if !sums.is(&header[24..]) || !(512..=65_536).contains(&content.page_size) {
        return Ok(content);
    }
    let mut frame = [0; FRAME_HEADER_BYTES];
    let mut page = vec![0; usize::try_from(content.page_size).unwrap_or_default()];
    let mut found = None;
    while fill(&mut log, &mut frame)? && fill(&mut log, &mut page)? {
        sums.add(&frame[..8], is_big_endian);
        sums.add(&page, is_big_endian);
        if frame[8..16] != header[16..24] || !sums.is(&frame[16..]) {
            break;
        }
        let is_page_one = number(&frame, 0) == 1;
        if is_page_one && found != Some(true) {
            let mark = Mark { current: number(&page, USER_VERSION), previous: number(&page, APPLICATION_ID) };
            found = Some(belongs(mark, found.is_none()));
        }
        let is_commit = number(&frame, 4) != 0;
        if is_commit {
            content.has_commits = true;
            content.belongs = found;
            if found == Some(true) {
                break;
            }
        }
    }
    Ok(content)
}

/// Fills the buffer; returns false if the file ends before.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The big-endian number at this offset.
fn number(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Checksum of a log (SQLite file format, 4.2).
#[derive(Default)]
struct Checksum(u32, u32);

impl Checksum {
    fn add(&mut self, bytes: &[u8], is_big_endian: bool) {
        let word = |at: &[u8]| match is_big_endian {
            true => number(at, 0),
            false => number(at, 0).swap_bytes(),
        };
        for pair in bytes.chunks_exact(8) {
            self.0 = self.0.wrapping_add(word(&pair[..4])).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(word(&pair[4..])).wrapping_add(self.0);
        }
    }

    fn is(&self, stored: &[u8]) -> bool {
        (self.0, self.1) == (number(stored, 0), number(stored, 4))
    }
}
