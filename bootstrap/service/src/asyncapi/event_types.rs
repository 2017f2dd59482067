//! The event types of the document.

use marketplace_domain::EventKind;

/// The event types that the service emits. Others are omitted, because no message of them would ever arrive.
pub(super) fn emitted() -> impl Iterator<Item = EventKind> {
    // No use case creates invoices yet, so no message of this type is sent.
    EventKind::ALL.iter().copied().filter(|event_type| *event_type != EventKind::InvoiceGenerated)
}
