//! Code around every call of a handler.

use handover_outbox::BoxFuture;
use handover_outbox::consumers::{Applied, Event as StoredEvent};

use crate::handler::Result;

/// Code around every call of a handler, such as a tracing span or a metric. Added with
/// [`Builder::layer`](crate::Builder::layer).
pub trait Layer: Send + Sync + 'static {
    /// Returns a future that runs `call`. It may run code before and after it, and replace its result. A future that ends
    /// without running `call` MUST return an error, because the event otherwise counts as applied.
    ///
    /// ```
    /// # use handover::{Applied, BoxFuture, Call, Layer};
    /// struct Log;
    ///
    /// impl Layer for Log {
    ///     fn around<'a>(
    ///         &self,
    ///         event: Call<'_>,
    ///         call: BoxFuture<'a, handover::Result<Applied>>,
    ///     ) -> BoxFuture<'a, handover::Result<Applied>> {
    ///         let name = format!("{} of {}", event.event_type(), event.consumer());
    ///         Box::pin(async move {
    ///             let outcome = call.await;
    ///             println!("{name}: {}", if outcome.is_ok() { "applied" } else { "failed" });
    ///             outcome
    ///         })
    ///     }
    /// }
    /// ```
    fn around<'a>(
        &self,
        event: Call<'_>,
        call: BoxFuture<'a, Result<Applied>>,
    ) -> BoxFuture<'a, Result<Applied>>;
}

/// What a [`Layer`] knows about a call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    pub(crate) system: &'static str,
    pub(crate) exchange: &'c str,
    pub(crate) routing_key: &'c str,
    pub(crate) queue: &'c str,
    pub(crate) consumer: &'c str,
    pub(crate) event: &'c StoredEvent,
}

impl<'c> Call<'c> {
    /// Name of the consumer.
    pub fn consumer(&self) -> &'c str {
        self.consumer
    }

    /// Name of the consumer's queue.
    pub fn queue(&self) -> &'c str {
        self.queue
    }

    /// Name of the event type.
    pub fn event_type(&self) -> &'c str {
        &self.event.row.event_type
    }

    /// Id of the event.
    pub fn event_id(&self) -> &'c str {
        self.event.row.event_id.as_str()
    }

    /// Trace id of the request that caused the event; without one, the event id.
    pub fn trace_id(&self) -> &'c str {
        self.event.row.trace_id()
    }

    /// The W3C `traceparent` of the request that caused the event.
    pub fn traceparent(&self) -> Option<&'c str> {
        self.event.row.metadata.traceparent.as_deref()
    }

    /// The W3C `traceparent` of the span in which the event was published, which its message carries; `None` if there is none.
    pub fn published_in(&self) -> Option<&'c str> {
        self.event.published.as_deref()
    }

    /// Id of the request that caused the event; see [`Options::request_id`](crate::Options::request_id).
    pub fn request_id(&self) -> Option<&'c str> {
        self.event.row.metadata.request_id.as_deref()
    }

    /// Number of the attempt, from 1. A first attempt together with other events, which is repeated for each of them if it
    /// fails, is not counted.
    pub fn attempt(&self) -> u32 {
        self.event.attempt
    }
}
