//! Files next to the database file: `handover.db-lock`, `handover.db-jwt-secret`, ... for `handover.db`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Path of the file `<database>-<purpose>`.
pub fn sibling_file(database: &Path, purpose: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-");
    name.push(purpose);
    PathBuf::from(name)
}
