//! Refused access to a database server.

use handover_outbox::ports::StoreError;
use sqlx::error::DatabaseError;

use crate::error::driver_error;

/// The server's message if it refused the user, the password, the database or the privileges on it; `None` for any other
/// error. A retry does not help: the configuration of the client or of the server is wrong.
pub fn access_refusal(error: &StoreError) -> Option<String> {
    let reported = driver_error(error)?.as_database_error()?;
    let is_refusal = refuses_access(reported);
    is_refusal.then(|| reported.message().to_owned())
}

/// Whether the error means that the server refused the user, the password, the database or the privileges on it.
#[cfg_attr(
    not(any(feature = "mysql", feature = "postgres")),
    allow(unused_variables, reason = "SQLite has no users and no privileges")
)]
fn refuses_access(error: &dyn DatabaseError) -> bool {
    #[cfg(feature = "mysql")]
    if super::mysql_error::refuses_access(error) {
        return true;
    }
    #[cfg(feature = "postgres")]
    if super::postgres::refuses_access(error) {
        return true;
    }
    false
}
