//! The deadline and the error of calls to Redis.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use handover_outbox::ports::Clock;
use redis::RedisResult;
use tokio::time::sleep;

/// Error: Redis returned no valid response in time, or is not connected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RedisUnavailable(String);

impl RedisUnavailable {
    pub(crate) fn timed_out(timeout: Duration) -> RedisUnavailable {
        RedisUnavailable(format!("no answer within {timeout:?}"))
    }

    pub(crate) fn not_connected() -> RedisUnavailable {
        RedisUnavailable("not connected to Redis".to_owned())
    }

    pub(crate) fn invalid_response(response: &dyn fmt::Debug) -> RedisUnavailable {
        RedisUnavailable(format!("invalid response {response:?}"))
    }
}

impl From<redis::RedisError> for RedisUnavailable {
    fn from(error: redis::RedisError) -> RedisUnavailable {
        RedisUnavailable(error.to_string())
    }
}

/// Deadline for one or several consecutive calls to Redis.
pub(crate) struct Deadline<'a> {
    timeout: Duration,
    expired: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

impl<'a> Deadline<'a> {
    /// Creates a deadline that `clock` measures.
    pub(crate) fn by_clock(clock: &'a dyn Clock, timeout: Duration) -> Deadline<'a> {
        Deadline { timeout, expired: clock.sleep(timeout) }
    }

    /// Creates a deadline in real time instead of the time of a `Clock`, to check a new connection.
    #[allow(clippy::disallowed_methods, reason = "the check measures how fast the server is in real time")]
    pub(crate) fn in_real_time(timeout: Duration) -> Deadline<'static> {
        Deadline { timeout, expired: Box::pin(sleep(timeout)) }
    }

    /// Awaits a response until the deadline.
    pub(crate) async fn limit<T>(
        &mut self,
        call: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, RedisUnavailable> {
        tokio::select! {
            biased;
            response = call => Ok(response?),
            () = &mut self.expired => Err(RedisUnavailable::timed_out(self.timeout)),
        }
    }
}
