//! Bytes that a database writes into its log.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use handover_tests::servers::database::{DatabaseServer, ServerKind};
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, Row as _};

/// The log of a database that only one test uses.
pub(super) struct DatabaseLog {
    source: Source,
    started_at: AtomicU64,
}

enum Source {
    /// The file of the database.
    Sqlite(PathBuf),
    Server(Arc<DatabaseServer>),
}

impl DatabaseLog {
    /// The log of a database file.
    pub(super) fn of_file(path: PathBuf) -> DatabaseLog {
        DatabaseLog { source: Source::Sqlite(path), started_at: AtomicU64::new(0) }
    }

    /// The log of a server. Vacuums, which depend on time, are switched off.
    pub(super) async fn of_server(server: &Arc<DatabaseServer>) -> DatabaseLog {
        if server.kind() == ServerKind::Postgres {
            server.execute("ALTER SYSTEM SET autovacuum = off").await.unwrap();
            server.execute("SELECT pg_reload_conf()").await.unwrap();
        }
        DatabaseLog { source: Source::Server(Arc::clone(server)), started_at: AtomicU64::new(0) }
    }

    /// Starts a measurement.
    pub(super) async fn start(&self) {
        if let Source::Sqlite(path) = &self.source {
            // The file begins again, so that its length is what is written from here on.
            let mut connection = SqliteConnection::connect(&path.display().to_string()).await.unwrap();
            let done =
                sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&mut connection).await.unwrap();
            assert_eq!(done.get::<i64, _>(0), 0, "the WAL is in use");
            connection.close().await.unwrap();
        }
        self.started_at.store(self.position().await, Ordering::Relaxed);
    }

    /// Bytes written since [`DatabaseLog::start`].
    pub(super) async fn written(&self) -> u64 {
        self.position().await - self.started_at.load(Ordering::Relaxed)
    }

    async fn position(&self) -> u64 {
        let server = match &self.source {
            Source::Sqlite(path) => {
                let log = PathBuf::from(format!("{}-wal", path.display()));
                return std::fs::metadata(log).unwrap().len();
            }
            Source::Server(server) => server,
        };
        let position: i64 = match server.kind() {
            ServerKind::Postgres => {
                let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
                let mut connection =
                    PgConnection::connect(&server.url("postgres", server.port())).await.unwrap();
                sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
            }
            ServerKind::MariaDb => {
                let sql = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                           WHERE variable_name = 'BINLOG_BYTES_WRITTEN'";
                let mut connection =
                    MySqlConnection::connect(&server.url("mysql", server.port())).await.unwrap();
                sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
            }
        };
        u64::try_from(position).unwrap()
    }
}
