//! Kinds of outbox rows that actors, ports and oracle distinguish: rows of event types that are applied in the order of
//! `aggregate_seq`, and manually inserted rows.

use handover_events::EventId;
use handover_outbox::ports::OutboxRow;
use marketplace_domain::EventKind;

/// Prefix of the ids of manually inserted events. The longer prefixes below mark invalid events.
pub(crate) const MANUAL: &str = "by-hand-";
pub(crate) const CONTRADICTION: &str = "by-hand-contradiction-";
pub(crate) const UNPUBLISHABLE: &str = "by-hand-unsendable-";

/// Whether the event must be applied after the earlier events of its aggregate.
pub(crate) fn is_ordered(row: &OutboxRow) -> bool {
    row.event_type.parse().map_or(true, EventKind::is_ordered)
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
