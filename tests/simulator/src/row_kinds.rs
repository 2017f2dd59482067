//! Kinds of outbox rows that actors, ports and oracle distinguish: ordered rows, and manually inserted ones.

use handover_events::EventId;
use handover_outbox::ports::OutboxRow;
use marketplace_domain::EventType;

/// Prefix of the ids of manually inserted events; those of invalid events have a longer one.
pub(crate) const MANUAL: &str = "by-hand-";
pub(crate) const CONTRADICTION: &str = "by-hand-contradiction-";
pub(crate) const UNPUBLISHABLE: &str = "by-hand-unsendable-";

/// Whether an event is ordered within its aggregate.
pub(crate) fn is_ordered(row: &OutboxRow) -> bool {
    row.event_type.parse().map_or(true, EventType::is_ordered)
}

/// Whether this event was inserted manually.
pub(crate) fn is_manual(event: &EventId) -> bool {
    event.as_str().starts_with(MANUAL)
}

/// Whether this event contradicts its order or is unpublishable.
pub(crate) fn is_invalid(event: &EventId) -> bool {
    is_contradiction(event) || is_unpublishable(event)
}

/// Whether this event contradicts its order permanently.
pub(crate) fn is_contradiction(event: &EventId) -> bool {
    event.as_str().starts_with(CONTRADICTION)
}

/// Whether the row of this event is unpublishable.
pub(crate) fn is_unpublishable(event: &EventId) -> bool {
    event.as_str().starts_with(UNPUBLISHABLE)
}
