//! Databases that are used by one test after another: restoring the rows of a migrated database is several times cheaper
//! than creating, migrating and dropping a database.
//!
//! **Invariant:** no task and no connection of an earlier test uses a database when a later test receives it.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};

use super::database::{DatabaseServer, ServerKind};
use crate::process::BoxError;

/// Maximum time until the server has closed the connections of an earlier test.
const CLOSED_WITHIN: Duration = Duration::from_secs(60);

thread_local! {
    static RETURNED: RefCell<Returned> = const { RefCell::new(Returned(Vec::new())) };
}

/// Databases of the test on this thread. Their servers receive them when the thread ends: then the runtime of the test,
/// whose tasks may still use them, has ended.
struct Returned(Vec<(Arc<DatabaseServer>, String)>);

impl Drop for Returned {
    fn drop(&mut self) {
        for (server, name) in self.0.drain(..) {
            server.receive(name);
        }
    }
}

/// Returns a database to its server when the current thread ends.
pub(super) fn return_at_end(server: &Arc<DatabaseServer>, name: String) {
    let database = (server.clone(), name);
    // A thread that is already ending returns nothing: the database stays unused.
    let _ = RETURNED.try_with(|returned| returned.borrow_mut().0.push(database));
}

/// The rows of a recycled database.
#[derive(Debug)]
pub(super) enum Template {
    /// Name of a database with the rows.
    MariaDb(String),
    /// Statements that restore the rows.
    Postgres(String),
}

impl Template {
    /// Reads the template from the database with this name and URL.
    pub(super) async fn read(kind: ServerKind, name: &str, url: String) -> Result<Template, BoxError> {
        match kind {
            ServerKind::MariaDb => Ok(Template::MariaDb(name.to_owned())),
            ServerKind::Postgres => Ok(Template::Postgres(statements_on_postgres(&url).await?)),
        }
    }

    /// Restores the rows and the next generated ids of the database with this name and URL, which has the same tables as
    /// the template.
    pub(super) async fn restore(&self, name: &str, url: &str) -> Result<(), BoxError> {
        match self {
            Template::MariaDb(template) => {
                let mut connection = MySqlConnection::connect(url).await?;
                close_others_on_mariadb(&mut connection, name).await?;
                restore_on_mariadb(&mut connection, template).await?;
                Ok(connection.close().await?)
            }
            Template::Postgres(statements) => {
                let mut connection = PgConnection::connect(url).await?;
                close_others_on_postgres(&mut connection).await?;
                sqlx::raw_sql(AssertSqlSafe(statements.clone())).execute(&mut connection).await?;
                Ok(connection.close().await?)
            }
        }
    }
}

async fn close_others_on_mariadb(connection: &mut MySqlConnection, name: &str) -> Result<(), BoxError> {
    let begun = Instant::now();
    loop {
        let others: Vec<i64> = sqlx::query_scalar(
            "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = ? AND id <> CONNECTION_ID()",
        )
        .bind(name)
        .fetch_all(&mut *connection)
        .await?;
        if others.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > CLOSED_WITHIN {
            return Err(format!("connections of an earlier test use the database {name}").into());
        }
        for other in others {
            // A connection that has ended in the meantime is unknown to the server.
            let _ = sqlx::raw_sql(AssertSqlSafe(format!("KILL {other}"))).execute(&mut *connection).await;
        }
        pause().await;
    }
}

async fn close_others_on_postgres(connection: &mut PgConnection) -> Result<(), BoxError> {
    let begun = Instant::now();
    loop {
        let others: i64 = sqlx::query_scalar(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() \
             AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
        )
        .fetch_one(&mut *connection)
        .await?;
        if others == 0 {
            return Ok(());
        }
        if begun.elapsed() > CLOSED_WITHIN {
            return Err("connections of an earlier test use the database".into());
        }
        pause().await;
    }
}

#[allow(clippy::disallowed_methods, reason = "real servers run in real time")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Empties the tables that the test has changed, and copies the rows of the template.
async fn restore_on_mariadb(connection: &mut MySqlConnection, template: &str) -> Result<(), BoxError> {
    let tables: Vec<(String, bool)> = sqlx::query_as(
        "SELECT table_name, COALESCE(auto_increment, 1) <> 1 FROM information_schema.tables \
         WHERE table_schema = DATABASE()",
    )
    .fetch_all(&mut *connection)
    .await?;
    let statements: String = tables
        .iter()
        .map(|(table, has_numbered)| {
            // TRUNCATE also restores the next generated id, but creates a file.
            let empty = if *has_numbered { "TRUNCATE" } else { "DELETE FROM" };
            format!("{empty} {table}; INSERT INTO {table} SELECT * FROM {template}.{table}; ")
        })
        .collect();
    let statements = format!("SET FOREIGN_KEY_CHECKS = 0; {statements}");
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(connection).await?;
    Ok(())
}

/// The statements that restore the rows and the next generated ids of the database at this URL.
async fn statements_on_postgres(url: &str) -> Result<String, BoxError> {
    let mut connection = PgConnection::connect(url).await?;
    let tables: Vec<String> =
        sqlx::query_scalar("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'")
            .fetch_all(&mut connection)
            .await?;
    // Without triggers: some tables refuse changes.
    let mut statements = "SET session_replication_role = replica; ".to_owned();
    for table in tables {
        statements += &format!("DELETE FROM {table}; ");
        let rows: Option<String> =
            sqlx::query_scalar(AssertSqlSafe(format!("SELECT json_agg(t)::text FROM {table} t")))
                .fetch_one(&mut connection)
                .await?;
        if let Some(rows) = rows {
            statements += &format!(
                "INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, $rows${rows}$rows$); "
            );
        }
    }
    statements += "SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) \
                   FROM pg_sequences WHERE last_value IS NOT NULL";
    connection.close().await?;
    Ok(statements)
}
