//! A consistent copy of a database that may be in use.

use std::path::Path;

use handover_outbox::ports::StoreError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, SqliteConnection};

use super::error::to_store_error;

/// Copies the database of the connection into `copy`, an empty file, and verifies the copy. It contains every
/// transaction committed before the call. Other connections and processes can read and write meanwhile; the write-ahead
/// log grows until the copy is complete.
///
/// `VACUUM INTO` reads one snapshot. The backup interface of SQLite would start again at each commit of another process.
pub(super) async fn copy(
    source: &mut SqliteConnection,
    copy: &Path,
    has_marks: bool,
) -> Result<(), StoreError> {
    let path =
        copy.to_str().ok_or_else(|| StoreError::Backend("the path of the copy is not UTF-8".into()))?;
    sqlx::query("VACUUM INTO ?").bind(path).execute(source).await.map_err(to_store_error)?;
    let options = SqliteConnectOptions::new().filename(copy).synchronous(SqliteSynchronous::Full);
    let mut connection = options.disable_statement_logging().connect().await.map_err(to_store_error)?;
    let verified = verify(&mut connection, has_marks).await;
    connection.close().await.map_err(to_store_error)?;
    verified
}

async fn verify(copy: &mut SqliteConnection, has_marks: bool) -> Result<(), StoreError> {
    if has_marks {
        set_marks(copy).await.map_err(to_store_error)?;
    }
    let found: Vec<String> =
        sqlx::query_scalar("PRAGMA integrity_check").fetch_all(copy).await.map_err(to_store_error)?;
    match found.iter().find(|line| *line != "ok") {
        Some(problem) => Err(StoreError::Backend(format!("the copy is damaged: {problem}").into())),
        None => Ok(()),
    }
}

/// Sets other numbers than in the original: the original's log does not belong to the copy (see `log_check`).
async fn set_marks(copy: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let numbers: (i64, i64) =
        sqlx::query_as("SELECT random() & 2147483647, random() & 2147483647").fetch_one(&mut *copy).await?;
    let marks = format!("PRAGMA application_id = {}; PRAGMA user_version = {}", numbers.0, numbers.1);
    sqlx::raw_sql(AssertSqlSafe(marks)).execute(copy).await.map(drop)
}
