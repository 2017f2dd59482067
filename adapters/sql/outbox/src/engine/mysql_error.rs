//! Numbers of the errors of MySQL and MariaDB.

use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;

pub(crate) fn number(error: &dyn DatabaseError) -> Option<u16> {
    error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

/// Unknown user or database, wrong password, or missing privileges on the database, a table or a column.
pub(super) fn refuses_access(error: &dyn DatabaseError) -> bool {
    matches!(number(error), Some(1044 | 1045 | 1049 | 1698 | 1142 | 1143))
}
