//! The event types of the document.

use handover_events::EventDescription;
use marketplace::event_types::descriptions;
use marketplace_domain::EventKind;

/// The event types that the service emits. Others are omitted, because no message of them would ever arrive.
pub(super) fn emitted() -> impl Iterator<Item = EventDescription> {
    // No use case creates invoices yet, so no message of this type is sent.
    descriptions().into_iter().filter(|event_type| event_type.name != EventKind::InvoiceGenerated.as_str())
}
