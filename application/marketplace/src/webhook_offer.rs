//! The event types that endpoints of webhooks can ask for.

use std::sync::{Arc, LazyLock};

use handover_outbox::webhooks::Offer;
use marketplace_domain::EventKind;

/// All event types but the internal ORDER_TIMEOUT, and those about the webhooks themselves.
pub fn webhook_offer() -> Offer {
    let events = EventKind::ALL.iter().filter(|event| event.is_ordered());
    Offer::of_events(events.map(|event| event.description()))
}

/// The offer of every instance: its schemas are expensive to derive.
pub(crate) static OFFER: LazyLock<Arc<Offer>> = LazyLock::new(|| Arc::new(webhook_offer()));
