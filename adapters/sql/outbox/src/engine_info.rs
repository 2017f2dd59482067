//! Version and settings of a database server.

use std::fmt;

/// Version and durability settings of a database server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Name and version, such as `MariaDB 10.11.6` or `PostgreSQL 15.18`.
    pub version: String,
    /// Settings, as `name = value`, under which a machine crash can lose a confirmed commit.
    pub unsafe_settings: Vec<String>,
}

/// A setting of the server, database or user under which the store cannot work, and which a connection cannot change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsuitableSetting {
    /// Name of the setting.
    pub setting: &'static str,
    /// Its value.
    pub value: String,
    /// Effect of this value.
    pub why: &'static str,
    /// What an administrator has to do.
    pub remedy: &'static str,
}

impl fmt::Display for UnsuitableSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.setting, self.value)
    }
}
