//! Errors of RabbitMQ, classified by how the caller can react.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use handover_outbox::ports::BrokerError;
use lapin::ErrorKind;
use lapin::protocol::AMQPError;

/// Reply codes of AMQP 0-9-1.
mod code {
    pub(super) const CONTENT_TOO_LARGE: u16 = 311;
    pub(super) const ACCESS_REFUSED: u16 = 403;
    pub(super) const NOT_FOUND: u16 = 404;
    pub(super) const PRECONDITION_FAILED: u16 = 406;
    pub(super) const FRAME_ERROR: u16 = 501;
    pub(super) const SYNTAX_ERROR: u16 = 502;
    pub(super) const UNEXPECTED_FRAME: u16 = 505;
    pub(super) const NOT_ALLOWED: u16 = 530;
    pub(super) const NOT_IMPLEMENTED: u16 = 540;
}

/// Error of a request to the server.
#[derive(Debug, Clone)]
pub(crate) enum RabbitError {
    /// No reply within the time limit.
    Timeout { what: &'static str, limit: Duration },
    /// The connection failed, or the server rejected the request.
    Lapin(lapin::Error),
    /// Not connected; the pause before the next connection attempt has not ended. Contains the last error.
    BackingOff(String),
    /// The server currently accepts no messages.
    Blocked(String),
    /// An error that fits no other variant, as text.
    Other(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// The server is or was unreachable.
    Unreachable,
    /// The server rejects the request permanently.
    Denied,
    /// The named object does not exist.
    NotFound,
    /// The server rejects this message or these arguments; a changed request can succeed.
    Invalid,
}

impl RabbitError {
    pub(crate) fn class(&self) -> ErrorClass {
        match self.reply() {
            None => ErrorClass::Unreachable,
            Some(error) => match error.get_id() {
                // Connections of another process may end.
                code::NOT_ALLOWED if error.get_message().as_str().contains("connection limit") => {
                    ErrorClass::Unreachable
                }
                code::ACCESS_REFUSED | code::NOT_ALLOWED => ErrorClass::Denied,
                code::NOT_FOUND => ErrorClass::NotFound,
                code::CONTENT_TOO_LARGE
                | code::PRECONDITION_FAILED
                | code::FRAME_ERROR
                | code::SYNTAX_ERROR
                | code::UNEXPECTED_FRAME
                | code::NOT_IMPLEMENTED => ErrorClass::Invalid,
                _ => ErrorClass::Unreachable,
            },
        }
    }

    /// Reply with which the server closed channel or connection.
    pub(crate) fn reply(&self) -> Option<&AMQPError> {
        match self {
            RabbitError::Lapin(error) => {
                if let ErrorKind::ProtocolError(reply) = error.kind() {
                    Some(reply)
                } else {
                    None
                }
            }
            RabbitError::Timeout { .. }
            | RabbitError::BackingOff(_)
            | RabbitError::Blocked(_)
            | RabbitError::Other(_) => None,
        }
    }

    /// Converts the error of a request that the server can reject permanently.
    pub(crate) fn into_refused_or_unreachable(self) -> BrokerError {
        match self.class() {
            ErrorClass::Unreachable => self.into_unreachable(),
            ErrorClass::Denied | ErrorClass::NotFound | ErrorClass::Invalid => {
                BrokerError::Refused { what: self.to_string() }
            }
        }
    }

    /// Converts the error of a request for which every error counts as an outage.
    pub(crate) fn into_unreachable(self) -> BrokerError {
        BrokerError::Unreachable(Box::new(self))
    }
}

impl fmt::Display for RabbitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RabbitError::Timeout { what, limit } => write!(formatter, "no reply to {what} within {limit:?}"),
            RabbitError::Lapin(error) => match self.reply() {
                Some(reply) => formatter.write_str(reply.get_message().as_str()),
                None => write!(formatter, "{error}"),
            },
            RabbitError::BackingOff(last) => write!(formatter, "not connected: {last}"),
            RabbitError::Blocked(reason) => write!(formatter, "blocked: {reason}"),
            RabbitError::Other(what) => formatter.write_str(what),
        }
    }
}

impl std::error::Error for RabbitError {}

impl From<lapin::Error> for RabbitError {
    fn from(error: lapin::Error) -> RabbitError {
        RabbitError::Lapin(error)
    }
}

/// Waits for a reply with a time limit. lapin itself waits forever, even if it cannot write the request to the socket.
pub(crate) async fn with_timeout<T>(
    what: &'static str,
    limit: Duration,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T, RabbitError> {
    match tokio::time::timeout(limit, call).await {
        Ok(reply) => Ok(reply?),
        Err(_) => Err(RabbitError::Timeout { what, limit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply_error(id: u16, text: &str) -> RabbitError {
        let reply = AMQPError::from_id(id, text.into()).unwrap();
        RabbitError::Lapin(ErrorKind::ProtocolError(reply).into())
    }

    #[test]
    fn reply_code_distinguishes_outage_and_rejection() {
        let classes = [
            (320, ErrorClass::Unreachable),
            (541, ErrorClass::Unreachable),
            (403, ErrorClass::Denied),
            (530, ErrorClass::Denied),
            (404, ErrorClass::NotFound),
            (406, ErrorClass::Invalid),
            (501, ErrorClass::Invalid),
        ];
        for (id, class) in classes {
            assert_eq!(reply_error(id, "server text").class(), class, "{id}");
            assert_eq!(reply_error(id, "server text").to_string(), "server text");
        }
        let limit = "NOT_ALLOWED - access to vhost '/' refused for user 'a': connection limit (2) is reached";
        assert_eq!(reply_error(530, limit).class(), ErrorClass::Unreachable);
        assert_eq!(
            RabbitError::Lapin(ErrorKind::MissingHeartbeatError.into()).class(),
            ErrorClass::Unreachable
        );
    }

    #[tokio::test(start_paused = true)]
    async fn missing_reply_is_a_timeout() {
        let late =
            with_timeout("publish", Duration::from_secs(3), std::future::pending::<lapin::Result<()>>())
                .await;
        assert_eq!(late.unwrap_err().to_string(), "no reply to publish within 3s");
    }
}
