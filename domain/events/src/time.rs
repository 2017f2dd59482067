//! Times entered by users.

use chrono::{DateTime, Datelike, Utc};

/// Reason why a text is not a valid time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// The text is not in the format of RFC 3339.
    #[error("must be an RFC 3339 time such as 2026-01-31T08:00:00Z")]
    Format,
    /// The UTC offset can move the time outside the years that RFC 3339 and every database can represent.
    #[error("must be in the years 1 to 9999 in UTC")]
    OutOfRange,
}

/// Parses an RFC 3339 time in the years 1 to 9999 in UTC.
pub fn parse_time(text: &str) -> Result<DateTime<Utc>, TimeError> {
    let time = DateTime::parse_from_rfc3339(text).map_err(|_| TimeError::Format)?.to_utc();
    if (1..=9999).contains(&time.year()) { Ok(time) } else { Err(TimeError::OutOfRange) }
}
