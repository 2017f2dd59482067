//! What went wrong; nobody gets over it.

/// Why the plain code gave up.
#[derive(Debug, thiserror::Error)]
pub enum BareError {
    /// The database said so.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// The broker said so.
    #[error("RabbitMQ: {0}")]
    Broker(#[from] lapin::Error),
    /// Something is not as the plain code expects it.
    #[error("{0}")]
    Odd(String),
}

impl From<serde_json::Error> for BareError {
    fn from(error: serde_json::Error) -> BareError {
        BareError::Odd(format!("no JSON as expected: {error}"))
    }
}
