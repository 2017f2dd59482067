//! The error of a handler.

use std::error::Error as StdError;
use std::fmt;

use handover_outbox::UnitError as _;
use handover_outbox::consumers::HandlerError as StoredError;
use handover_outbox::ports::{StoreError, SystemFault};

use crate::error::EnqueueError;

/// Returns a [`HandlerError::retryable`] from a handler, unless the condition holds. The other arguments are those of [`format!`].
///
/// ```
/// use handover::{Event, ensure};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Event)]
/// # #[event(name = "book.lent", aggregate = "book")]
/// # struct BookLent { #[event(key)] book: i64, reader: String }
///
/// async fn index(event: Event<BookLent>) -> handover::Result {
///     ensure!(event.book > 0, "book {} is not on the shelf yet", event.book);
///     Ok(())
/// }
/// # let _ = index;
/// ```
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return ::std::result::Result::Err($crate::HandlerError::retryable(::std::format!($($why)+)));
        }
    };
}

/// Reason why a handler did not apply an event.
///
/// `?` creates it from any error: the event is then retried as the consumer's [`Handlers::retry`](super::Handlers::retry) says, and after the last
/// attempt it becomes a dead letter. An outage of the database, a deadlock and a serialization failure do not count as an
/// attempt, also if they are the [`source`](std::error::Error::source) of your own error.
///
/// ```
/// use handover::{Event, HandlerError};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize, Event)]
/// # #[event(name = "book.lent", aggregate = "book")]
/// # struct BookLent { #[event(key)] book: i64, reader: String }
///
/// async fn index(event: Event<BookLent>) -> handover::Result {
///     let shelf: u32 = event.reader.parse()?; // retried, then a dead letter
///     if shelf == 0 {
///         return Err(HandlerError::permanent("shelf 0 does not exist")); // a dead letter at once
///     }
///     if shelf > 90 {
///         return Err(HandlerError::retryable("the shelf is locked"));
///     }
///     Ok(())
/// }
/// # let _ = index;
/// ```
// It does not implement `Error`, because `From<E: Error>` would then overlap with `From<T> for T`.
#[derive(Debug)]
pub struct HandlerError {
    cause: Box<dyn StdError + Send + Sync>,
    is_permanent: bool,
}

impl HandlerError {
    /// An error after which the event becomes a dead letter at once, because no attempt can succeed.
    pub fn permanent(why: impl Into<Box<dyn StdError + Send + Sync>>) -> HandlerError {
        HandlerError { cause: why.into(), is_permanent: true }
    }

    /// An error after which the event is retried, from a text.
    pub fn retryable(why: impl Into<Box<dyn StdError + Send + Sync>>) -> HandlerError {
        HandlerError { cause: why.into(), is_permanent: false }
    }

    /// Whether no other attempt can succeed.
    pub fn is_permanent(&self) -> bool {
        self.is_permanent
    }

    pub(crate) fn into_stored(self) -> StoredError {
        if self.is_permanent {
            return StoredError::Unrecoverable(self.to_string());
        }
        let cause = self.cause;
        #[cfg(feature = "sqlx")]
        let cause = match cause.downcast::<sqlx::Error>() {
            Ok(error) => return handover_sql::lent_error(*error).into(),
            Err(cause) => cause,
        };
        let cause = match cause.downcast::<EnqueueError>() {
            Ok(error) => return error.into_stored(),
            Err(cause) => cause,
        };
        match cause.downcast::<StoreError>() {
            Ok(error) => StoredError::Store(*error),
            Err(cause) => {
                let text = with_causes(cause.as_ref());
                let mut next = cause.source();
                while let Some(source) = next {
                    if let Some(outage) = outage(source, &text) {
                        return StoredError::Store(outage);
                    }
                    next = source.source();
                }
                StoredError::Recoverable(text)
            }
        }
    }
}

/// The outage of the database that this error is, described by this text.
fn outage(error: &(dyn StdError + 'static), text: &str) -> Option<StoreError> {
    #[cfg(feature = "sqlx")]
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        return handover_sql::lent_outage(error, text);
    }
    if let Some(EnqueueError::OlderProcess { .. }) = error.downcast_ref() {
        return Some(StoreError::Unavailable(text.into()));
    }
    let of_enqueue = error.downcast_ref().and_then(EnqueueError::store_error);
    let stored = error.downcast_ref::<StoreError>().or(of_enqueue)?;
    match (stored.system_fault(), stored) {
        (Some(SystemFault { kind, is_rolled_back, .. }), _) => {
            let (kind, is_rolled_back) = (*kind, *is_rolled_back);
            Some(StoreError::Unavailable(Box::new(SystemFault { kind, is_rolled_back, cause: text.into() })))
        }
        (None, StoreError::Transient(_)) => Some(StoreError::Transient(text.into())),
        (None, stored) => stored.is_outage().then(|| StoreError::Unavailable(text.into())),
    }
}

/// An error and its causes as one line. A cause that the text before it contains is not repeated.
fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> HandlerError {
        HandlerError { cause: Box::new(error), is_permanent: false }
    }
}

/// The error and its causes.
impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(self.cause.as_ref()))
    }
}
