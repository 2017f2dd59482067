//! Version and settings of a database server.

/// Version and durability settings of a database server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Name and version, such as `MariaDB 10.11.6` or `PostgreSQL 15.18`.
    pub version: String,
    /// Settings, as `name = value`, under which a machine crash can lose a confirmed commit.
    pub unsafe_settings: Vec<String>,
}
