//! The parts of an outbox, as the builder has checked them.

use handover_outbox::Alert;
use handover_outbox::consumers::Subscriber;

use crate::backend::Backend;
use crate::broker::BrokerChoice;
use crate::registration::Registration;
use crate::retention::Retention;

/// Last part of the name of the queue of dead letters.
pub(crate) const DEAD_LETTERS: &str = "dead-letters";

/// Exchange of a service.
pub(crate) fn exchange(service: &str) -> String {
    format!("{service}.events")
}

/// Routing key of the dead letters of a service.
pub(crate) fn dead_letter_key(service: &str) -> String {
    format!("{service}.dead")
}

/// A part of a process that runs in the background.
///
/// ```
/// use handover::{Builder, Role};
/// # use sqlx::Sqlite;
///
/// /// A worker: another process publishes the events.
/// fn worker(builder: Builder<Sqlite>) -> Builder<Sqlite> {
///     builder.roles([Role::Consumers])
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Publishes events.
    Relay,
    /// Applies events and records dead letters.
    Consumers,
}

/// What the builder has checked.
pub(crate) struct Parts<B: Backend> {
    pub(crate) name: String,
    /// `None`: messages are rows of the same database.
    pub(crate) broker: Option<BrokerChoice>,
    pub(crate) consumers: Vec<ConnectedConsumer<B::Unit>>,
    pub(crate) roles: Vec<Role>,
    /// Whether a summary of the events is logged.
    pub(crate) summary: bool,
    pub(crate) retention: Retention,
    pub(crate) alerts: Vec<Alert>,
}

/// A consumer with its queue and its values.
pub(crate) struct ConnectedConsumer<U: ?Sized> {
    pub(crate) routing_keys: Vec<&'static str>,
    pub(crate) subscriber: Subscriber<U>,
    /// Whether events can exclude the queue.
    pub(crate) is_selective: bool,
    /// Exchange of the service that publishes the events; `None`: this one.
    pub(crate) receives_from: Option<String>,
    /// The event types that are received from another service.
    pub(crate) received: Vec<Registration>,
}
