//! A temporary database, and waiting for an effect.

use std::time::Duration;

use sqlx::SqlitePool;
use tempfile::TempDir;

/// Creates an SQLite file with these tables. The file is removed with the folder.
pub(crate) async fn database(
    tables: &'static str,
) -> Result<(SqlitePool, TempDir), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("example.db").display());
    let pool = SqlitePool::connect(&url).await?;
    sqlx::raw_sql(tables).execute(&pool).await?;
    Ok((pool, folder))
}

/// Waits until a query returns this number, for at most 30 seconds.
#[allow(clippy::disallowed_methods, reason = "an example runs in real time")]
pub(crate) async fn wait_for(
    pool: &SqlitePool,
    number: i64,
    query: &'static str,
) -> Result<(), Box<dyn std::error::Error>> {
    for _ in 0..3_000 {
        if sqlx::query_scalar::<_, i64>(query).fetch_one(pool).await? == number {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("`{query}` did not return {number} within 30 seconds").into())
}
