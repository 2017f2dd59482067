//! What differs between databases when tables are made room for and taken away again.

use handover_bare::{BareError, Session};

use crate::Failure;
use crate::bench::stop::{failed, refuse};

/// Tables that measurements fill, and that are emptied between them.
const FILLED: [&str; 8] = [
    "products",
    "orders",
    "outbox_events",
    "event_consume_log",
    "shipments",
    "listings",
    "listing_changes",
    "broker_messages",
];

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench) enum Kind {
    Sqlite,
    MySql,
    Postgres,
}

impl Kind {
    /// By its URL.
    pub(super) fn of(url: &str) -> Kind {
        match url.split(':').next() {
            Some("postgres" | "postgresql") => Kind::Postgres,
            Some("mysql" | "mariadb") => Kind::MySql,
            Some(_) | None => Kind::Sqlite,
        }
    }

    /// A database with tables is somebody's.
    pub(super) async fn refuse_used(self, session: &mut Session) -> Result<(), Failure> {
        let tables = self.tables(session).await.map_err(failed("the tables cannot be listed"))?;
        if tables.is_empty() {
            return Ok(());
        }
        let some = tables.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let what = format!(
            "the database has {} tables ({some}, ...), and bench drops its own at the end",
            tables.len()
        );
        Err(refuse(
            &what,
            "make an empty one for it (CREATE DATABASE handover_bench) and name that with --database",
        ))
    }

    async fn tables(self, session: &mut Session) -> Result<Vec<String>, BareError> {
        let sql = match self {
            Kind::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table'",
            Kind::MySql => "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
            Kind::Postgres => "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()",
        };
        session.texts(sql).await
    }

    /// Drops every table: there was none before.
    pub(super) async fn drop_all(self, session: &mut Session) -> Result<(), Failure> {
        let dropping = async {
            let tables = self.tables(session).await?;
            if !tables.is_empty() {
                let tables = tables.join(", ");
                session
                    .execute(&match self {
                        Kind::Sqlite | Kind::MySql => {
                            format!("SET FOREIGN_KEY_CHECKS = 0; DROP TABLE {tables}")
                        }
                        Kind::Postgres => format!("DROP TABLE {tables} CASCADE"),
                    })
                    .await?;
            }
            if self == Kind::Postgres {
                session.execute("DROP FUNCTION IF EXISTS audit_log_refuses()").await?;
            }
            Ok(())
        };
        dropping.await.map_err(failed("the tables of the bench are still there"))
    }

    /// Empties what measurements fill.
    pub(super) async fn clear(self, session: &mut Session) -> Result<(), Failure> {
        let sql = match self {
            Kind::Sqlite => FILLED.map(|table| format!("DELETE FROM {table}")).join("; "),
            Kind::MySql => FILLED.map(|table| format!("TRUNCATE TABLE {table}")).join("; "),
            Kind::Postgres => format!("TRUNCATE {}", FILLED.join(", ")),
        };
        session.execute(&sql).await.map(drop).map_err(failed("the tables cannot be emptied"))
    }

    /// Empties the queues of the database broker.
    pub(super) async fn clear_messages(self, session: &mut Session) -> Result<(), Failure> {
        let sql = match self {
            Kind::Sqlite => "DELETE FROM broker_messages",
            Kind::MySql | Kind::Postgres => "TRUNCATE TABLE broker_messages",
        };
        session.execute(sql).await.map(drop).map_err(failed("the queues cannot be emptied"))
    }

    /// A moment long ago and so many seconds, as a literal that this kind keeps as its own.
    pub(in crate::bench) fn long_ago(self, seconds: u32) -> String {
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        match self {
            Kind::MySql => format!("'2026-01-01 {hour:02}:{minute:02}:{second:02}.000000'"),
            Kind::Sqlite | Kind::Postgres => {
                format!("'2026-01-01T{hour:02}:{minute:02}:{second:02}.000000Z'")
            }
        }
    }

    /// Makes an empty copy of the outbox beside it. Not on SQLite, where two tables cannot have indexes of one name.
    pub(in crate::bench) async fn make_other_outbox(self, session: &mut Session) -> Result<(), Failure> {
        let making = async {
            match self {
                Kind::Sqlite => {}
                Kind::MySql => {
                    session.execute("CREATE TABLE outbox_other LIKE outbox_events").await?;
                }
                Kind::Postgres => {
                    session.execute("CREATE TABLE outbox_other (LIKE outbox_events INCLUDING ALL)").await?;
                    let options = "SELECT array_to_string(reloptions, ', ') FROM pg_class \
                                   WHERE oid = 'outbox_events'::regclass AND reloptions IS NOT NULL";
                    for options in session.texts(options).await? {
                        session.execute(&format!("ALTER TABLE outbox_other SET ({options})")).await?;
                    }
                }
            }
            Ok(())
        };
        making.await.map_err(failed("the outbox cannot be copied"))
    }

    /// The outbox and its copy change places.
    pub(in crate::bench) async fn swap_outboxes(self, session: &mut Session) -> Result<(), Failure> {
        let sql = match self {
            Kind::Sqlite => return Ok(()),
            Kind::MySql => {
                "RENAME TABLE outbox_events TO outbox_swap, outbox_other TO outbox_events, outbox_swap TO outbox_other"
            }
            Kind::Postgres => {
                "ALTER TABLE outbox_events RENAME TO outbox_swap; ALTER TABLE outbox_other RENAME TO outbox_events; \
                 ALTER TABLE outbox_swap RENAME TO outbox_other"
            }
        };
        session.execute(sql).await.map(drop).map_err(failed("the outboxes cannot be swapped"))
    }

    /// Drops the copy, whatever it holds.
    pub(in crate::bench) async fn drop_other_outbox(self, session: &mut Session) -> Result<(), Failure> {
        let dropping = session.execute("DROP TABLE IF EXISTS outbox_other");
        dropping.await.map(drop).map_err(failed("the copy of the outbox cannot be dropped"))
    }

    /// Statistics and visibility as after a while of service.
    pub(super) async fn settle(self, session: &mut Session) -> Result<(), Failure> {
        let sql = match self {
            // Every index is named in its statements.
            Kind::Sqlite => return Ok(()),
            Kind::MySql => "ANALYZE TABLE outbox_events, products, event_consume_log",
            Kind::Postgres => "VACUUM ANALYZE outbox_events, products, event_consume_log",
        };
        session.execute(sql).await.map(drop).map_err(failed("the tables cannot be analysed"))
    }

    /// Which database it is, and how much a commit is worth there.
    pub(super) async fn describe(self, session: &mut Session) -> Result<(String, String), Failure> {
        let (version, durability) = match self {
            Kind::Sqlite => ("SELECT concat('SQLite ', sqlite_version())", "SELECT 'WAL, synchronous FULL'"),
            Kind::MySql => (
                "SELECT concat(IF(version() LIKE '%MariaDB%', '', 'MySQL '), version())",
                "SELECT concat('innodb_flush_log_at_trx_commit ', @@innodb_flush_log_at_trx_commit, ', log_bin ', \
                 @@log_bin, ', sync_binlog ', @@sync_binlog)",
            ),
            Kind::Postgres => (
                "SELECT concat('PostgreSQL ', current_setting('server_version'))",
                "SELECT concat('fsync ', current_setting('fsync'), ', synchronous_commit ', \
                 current_setting('synchronous_commit'))",
            ),
        };
        let mut said = Vec::new();
        for sql in [version, durability] {
            said.extend(session.texts(sql).await.map_err(failed("the database does not say what it is"))?);
        }
        let mut said = said.into_iter();
        Ok((said.next().unwrap_or_default(), said.next().unwrap_or_default()))
    }
}
