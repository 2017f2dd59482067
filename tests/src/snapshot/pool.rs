//! A connection pool for any engine, with statements that every engine understands. All columns are returned as
//! text: statements run unprepared, because servers then send text results.

use std::path::Path;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, Row};

use crate::process::BoxError;

/// Rows of columns.
pub type Table = Vec<Vec<Option<String>>>;

/// Timeout for a connection. It is long because the server may have been killed a moment ago.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// At most two connections to a database of any engine.
#[derive(Debug, Clone)]
pub(super) enum Pool {
    Sqlite(SqlitePool),
    MySql(MySqlPool),
    Postgres(PgPool),
}

/// The rows of a query, every column as text.
macro_rules! table {
    ($pool:expr, $sql:expr) => {{
        let rows = sqlx::raw_sql($sql).fetch_all($pool).await?;
        let text = |row: &_, column| Row::try_get_unchecked::<Option<String>, _>(row, column);
        let columns = |row| (0..Row::len(row)).map(|column| text(row, column)).collect::<Result<_, _>>();
        Ok(rows.iter().map(columns).collect::<Result<_, _>>()?)
    }};
}

impl Pool {
    pub(super) async fn open(database: &Path) -> Result<Pool, BoxError> {
        let options = SqliteConnectOptions::new().filename(database).busy_timeout(Duration::from_secs(5));
        Ok(Pool::Sqlite(SqlitePoolOptions::new().max_connections(2).connect_with(options).await?))
    }

    /// Opens a database by the URL of a server. Connects on first use.
    pub(super) fn on(url: &str) -> Result<Pool, BoxError> {
        if url.starts_with("postgres") {
            let options: PgConnectOptions = url.parse()?;
            let options = options.options([("default_transaction_isolation", "read committed")]);
            let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(CONNECT_WITHIN);
            return Ok(Pool::Postgres(pool.connect_lazy_with(options.disable_statement_logging())));
        }
        let options: MySqlConnectOptions = url.parse()?;
        let pool = MySqlPoolOptions::new().max_connections(2).acquire_timeout(CONNECT_WITHIN);
        let pool = pool.after_connect(|connection, _| {
            Box::pin(async move {
                connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
                // Enables hash joins, because the effect tables have no index on their event.
                connection.execute("SET SESSION join_cache_level = 8").await?;
                Ok(())
            })
        });
        Ok(Pool::MySql(pool.connect_lazy_with(options.disable_statement_logging())))
    }

    pub(super) fn on_one_connection(&self) -> Pool {
        match self {
            Pool::Sqlite(pool) => {
                let options = SqliteConnectOptions::clone(&pool.connect_options());
                Pool::Sqlite(SqlitePoolOptions::new().max_connections(1).connect_lazy_with(options))
            }
            Pool::MySql(pool) => {
                let options = MySqlConnectOptions::clone(&pool.connect_options());
                Pool::MySql(MySqlPoolOptions::new().max_connections(1).connect_lazy_with(options))
            }
            Pool::Postgres(pool) => {
                let options = PgConnectOptions::clone(&pool.connect_options());
                Pool::Postgres(PgPoolOptions::new().max_connections(1).connect_lazy_with(options))
            }
        }
    }

    pub(super) async fn table(&self, sql: &str) -> Result<Table, BoxError> {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Pool::Sqlite(pool) => table!(pool, sql),
            Pool::MySql(pool) => table!(pool, sql),
            Pool::Postgres(pool) => table!(pool, sql),
        }
    }

    pub(super) async fn change(&self, sql: &str) -> Result<u64, BoxError> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        Ok(match self {
            Pool::Sqlite(pool) => sql.execute(pool).await?.rows_affected(),
            Pool::MySql(pool) => sql.execute(pool).await?.rows_affected(),
            Pool::Postgres(pool) => sql.execute(pool).await?.rows_affected(),
        })
    }
}
