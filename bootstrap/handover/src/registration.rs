//! An event type as the builder registers it.

use std::any::{TypeId, type_name};

use handover_events::EventType;
use handover_outbox::EventSpec;

/// An event type as the builder registers it.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) name: &'static str,
    pub(crate) aggregate: &'static str,
    pub(crate) routing_key: &'static str,
    pub(crate) is_ordered: bool,
    pub(crate) spec: EventSpec,
    /// The Rust type, which is the only one with this name.
    pub(crate) rust_type: TypeId,
    pub(crate) rust_name: &'static str,
}

impl Registration {
    pub(crate) fn of<E: EventType>() -> Registration {
        Registration {
            name: E::NAME,
            aggregate: E::AGGREGATE,
            routing_key: E::ROUTING_KEY,
            is_ordered: E::IS_ORDERED,
            spec: EventSpec::of::<E>(),
            rust_type: TypeId::of::<E>(),
            rust_name: type_name::<E>(),
        }
    }
}
