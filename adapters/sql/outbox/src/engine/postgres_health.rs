//! Health of a PostgreSQL server.

use std::time::Duration;

use handover_outbox::ports::DatabaseHealth;
use sqlx::PgConnection;

use crate::migrations::{OUTBOX, names};
use crate::prefix::TablePrefix;

/// Transactions of clients, because the server's own ones, such as those of VACUUM, keep no rows alive; and prepared
/// transactions, which belong to no connection. Of a transaction of another user without the role `pg_read_all_stats` the
/// server does not show the begin.
const HEALTH: &str = "SELECT \
     (SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp() - min(begun)) AS FLOAT8) FROM \
      (SELECT xact_start AS begun FROM pg_stat_activity \
       WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid() \
       UNION ALL SELECT prepared FROM pg_prepared_xacts WHERE database = current_database()) AS transactions), \
     (SELECT CAST(sum(n_dead_tup) AS BIGINT) FROM pg_stat_user_tables \
      WHERE schemaname = current_schema() AND relname = ANY($1))";

pub(super) async fn read(
    connection: &mut PgConnection,
    prefix: &TablePrefix,
) -> Result<DatabaseHealth, sqlx::Error> {
    let named = OUTBOX.postgres.iter().flat_map(names);
    let tables: Vec<String> = named.map(|named| prefix.statement(named.name).into_owned()).collect();
    let (oldest, dead): (Option<f64>, Option<i64>) =
        sqlx::query_as(HEALTH).bind(tables).fetch_one(connection).await?;
    let oldest = Duration::try_from_secs_f64(oldest.unwrap_or_default()).unwrap_or_default();
    Ok(DatabaseHealth {
        oldest_transaction: Some(oldest),
        dead_rows: Some(dead.unwrap_or_default().unsigned_abs()),
        history_length: None,
    })
}
