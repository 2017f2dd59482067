//! Errors of the baseline.

/// Errors of the baseline; each of them ends the run.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    #[error("RabbitMQ: {0}")]
    Broker(#[from] lapin::Error),
    /// A row or response that the baseline does not expect.
    #[error("{0}")]
    Unexpected(String),
}

impl From<serde_json::Error> for BaselineError {
    fn from(error: serde_json::Error) -> BaselineError {
        BaselineError::Unexpected(format!("cannot parse JSON: {error}"))
    }
}
