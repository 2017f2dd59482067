//! Guides, in reading order.

/// Your first event: dependencies, event type, transaction, consumer.
#[doc = include_str!("guide/start.md")]
pub mod start {}

/// Events in your own transactions.
#[doc = include_str!("guide/transactions.md")]
pub mod transactions {}

/// Consumers: guarantees, errors, retries, settings.
#[doc = include_str!("guide/consumers.md")]
pub mod consumers {}

/// The order of events.
#[doc = include_str!("guide/order.md")]
pub mod order {}

/// Events that could not be published or applied.
#[doc = include_str!("guide/dead_letters.md")]
pub mod dead_letters {}

/// Tests of a service with an outbox.
#[doc = include_str!("guide/testing.md")]
pub mod testing {}

/// Processes, roles, rights, monitoring.
#[doc = include_str!("guide/operations.md")]
pub mod operations {}

/// New versions of your events, of this crate, and the way from another solution.
#[doc = include_str!("guide/upgrading.md")]
pub mod upgrading {}
