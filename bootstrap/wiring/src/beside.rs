//! Files beside the database: `handover.db` has `handover.db-lock`, `handover.db-jwt-secret`, ...

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The file of that purpose beside the database.
pub fn beside(database: &Path, purpose: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-");
    name.push(purpose);
    PathBuf::from(name)
}
