//! The consumers that have no work with an event.

use std::collections::BTreeSet;

/// Consumers for which an event means no work: it is not delivered to them, and they neither wait for it nor record it.
///
/// The process that appends the event names them, so a consumer that only processes of another version know is never among
/// them. A store keeps the names as a JSON array, and none as NULL: so a row that other programs insert concerns every
/// consumer of its type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct IdleConsumers(BTreeSet<String>);

impl IdleConsumers {
    /// Whether this consumer has no work with the event.
    pub fn contains(&self, consumer: &str) -> bool {
        self.0.contains(consumer)
    }

    /// Whether every consumer may have work with the event.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names of the consumers, sorted.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Adds a consumer.
    pub fn insert(&mut self, consumer: impl Into<String>) {
        self.0.insert(consumer.into());
    }

    /// Reads a JSON array of names. From any other text, which only other programs write, no consumer is idle.
    pub fn from_text(text: &str) -> IdleConsumers {
        IdleConsumers(serde_json::from_str(text).unwrap_or_default())
    }

    /// A JSON array of the names; `None` without a name.
    pub fn to_text(&self) -> Option<String> {
        if self.0.is_empty() { None } else { serde_json::to_string(&self.0).ok() }
    }
}

impl<S: Into<String>> FromIterator<S> for IdleConsumers {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> IdleConsumers {
        IdleConsumers(names.into_iter().map(Into::into).collect())
    }
}
