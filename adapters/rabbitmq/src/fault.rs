//! What went wrong between RabbitMQ and us, and what a caller can do about it.

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

/// Why the server did not do what it was asked.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// It did not answer in time.
    Late { what: &'static str, limit: Duration },
    /// It is not connected, or said no.
    Lapin(lapin::Error),
    /// Connecting is not tried again yet; this is what went wrong last.
    Pausing(String),
    /// It takes no messages now.
    Blocked(String),
    /// Anything else.
    Broken(String),
}

/// What a fault tells about the thing that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The server is away, or was.
    Away,
    /// The server is there and says no, and will again.
    Denied,
    /// What was named does not exist.
    Missing,
    /// What was sent is not to its taste: another message or other arguments would be.
    Unfit,
}

impl Fault {
    pub(crate) fn kind(&self) -> Kind {
        match self.reply() {
            None => Kind::Away,
            Some(error) => match error.get_id() {
                code::ACCESS_REFUSED | code::NOT_ALLOWED => Kind::Denied,
                code::NOT_FOUND => Kind::Missing,
                code::CONTENT_TOO_LARGE
                | code::PRECONDITION_FAILED
                | code::FRAME_ERROR
                | code::SYNTAX_ERROR
                | code::UNEXPECTED_FRAME
                | code::NOT_IMPLEMENTED => Kind::Unfit,
                _ => Kind::Away,
            },
        }
    }

    /// What the server said when it closed channel or connection.
    pub(crate) fn reply(&self) -> Option<&AMQPError> {
        match self {
            Fault::Lapin(error) => {
                if let ErrorKind::ProtocolError(reply) = error.kind() {
                    Some(reply)
                } else {
                    None
                }
            }
            Fault::Late { .. } | Fault::Pausing(_) | Fault::Blocked(_) | Fault::Broken(_) => None,
        }
    }

    /// For a caller who asked for something that the server may deny for good.
    pub(crate) fn refused_or_away(self) -> BrokerError {
        match self.kind() {
            Kind::Away => self.away(),
            Kind::Denied | Kind::Missing | Kind::Unfit => BrokerError::Refused { what: self.to_string() },
        }
    }

    /// For a caller to whom it is an outage in any case.
    pub(crate) fn away(self) -> BrokerError {
        BrokerError::Unreachable(Box::new(self))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Late { what, limit } => write!(formatter, "no answer to {what} within {limit:?}"),
            Fault::Lapin(error) => match self.reply() {
                Some(reply) => formatter.write_str(reply.get_message().as_str()),
                None => write!(formatter, "{error}"),
            },
            Fault::Pausing(last) => write!(formatter, "not connected: {last}"),
            Fault::Blocked(reason) => write!(formatter, "blocked: {reason}"),
            Fault::Broken(what) => formatter.write_str(what),
        }
    }
}

impl std::error::Error for Fault {}

impl From<lapin::Error> for Fault {
    fn from(error: lapin::Error) -> Fault {
        Fault::Lapin(error)
    }
}

/// The server's answer, waited for within bounds: lapin waits for ever, also while nothing can be written.
pub(crate) async fn answered<T>(
    what: &'static str,
    limit: Duration,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Fault::Late { what, limit }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(id: u16) -> Fault {
        let reply = AMQPError::from_id(id, "what it says".into()).unwrap();
        Fault::Lapin(ErrorKind::ProtocolError(reply).into())
    }

    #[test]
    fn the_reply_code_tells_an_outage_from_a_refusal() {
        let kinds = [
            (320, Kind::Away),
            (541, Kind::Away),
            (403, Kind::Denied),
            (530, Kind::Denied),
            (404, Kind::Missing),
            (406, Kind::Unfit),
            (501, Kind::Unfit),
        ];
        for (id, kind) in kinds {
            assert_eq!(said(id).kind(), kind, "{id}");
            assert_eq!(said(id).to_string(), "what it says");
        }
        assert_eq!(Fault::Lapin(ErrorKind::MissingHeartbeatError.into()).kind(), Kind::Away);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_comes_is_late() {
        let late =
            answered("publish", Duration::from_secs(3), std::future::pending::<lapin::Result<()>>()).await;
        assert_eq!(late.unwrap_err().to_string(), "no answer to publish within 3s");
    }
}
