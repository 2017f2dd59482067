//! Names in filters: a name that neither this program nor a row has is an error with the most similar name, so that a
//! misspelled one is not taken for a filter without matches.

use super::OperationError;
use crate::outbox::Outbox;
use crate::ports::OutboxFilter;
use crate::similar::most_similar;

/// The names in a filter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FilterNames<'a> {
    pub(super) event_type: Option<&'a str>,
    pub(super) aggregate_type: Option<&'a str>,
    pub(super) consumer: Option<&'a str>,
    pub(super) queue: Option<&'a str>,
}

impl<'a> FilterNames<'a> {
    pub(super) fn of_events(filter: &'a OutboxFilter) -> FilterNames<'a> {
        FilterNames {
            event_type: filter.event_type.as_deref(),
            aggregate_type: filter.aggregate_type.as_deref(),
            ..FilterNames::default()
        }
    }

    /// Checks the names of a filter that no row matched. Rows can have names that only other programs know.
    pub(super) fn require_known(self, outbox: &Outbox) -> Result<(), OperationError> {
        let registry = &outbox.registry;
        require_known("eventType", self.event_type, registry.types().map(|(name, ..)| name))?;
        require_known("aggregateType", self.aggregate_type, registry.aggregate_types())?;
        require_known("consumer", self.consumer, outbox.consumers.iter().map(|it| it.consumer.as_str()))?;
        require_known("queue", self.queue, outbox.topology.queues.iter().map(|it| it.name.as_str()))
    }
}

/// Checks one name. A program that defines no such names accepts every name.
fn require_known<'n>(
    field: &'static str,
    name: Option<&str>,
    known: impl Iterator<Item = &'n str> + Clone,
) -> Result<(), OperationError> {
    let Some(name) = name else { return Ok(()) };
    if known.clone().any(|known| known == name) {
        return Ok(());
    }
    match most_similar(name, known) {
        None => Ok(()),
        Some(nearest) => {
            let (name, nearest) = (name.to_owned(), nearest.to_owned());
            Err(OperationError::UnknownName { field, name, nearest })
        }
    }
}
