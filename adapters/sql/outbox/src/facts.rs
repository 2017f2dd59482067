//! What a database server says about itself.

/// What a database server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Name and version: `MariaDB 10.11.6`, `PostgreSQL 15.18`.
    pub version: String,
    /// Settings under which an answered commit may be gone after a crash of its machine, as `name = value`.
    pub unsafe_settings: Vec<String>,
}
