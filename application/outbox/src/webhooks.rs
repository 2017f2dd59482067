//! Webhooks: events reach systems of others over signed HTTP.
//!
//! The consumer ([`DeliveryWriter`]) writes one delivery per event and endpoint in the transaction that records the event
//! as applied; the dispatcher ([`WebhookDispatcher`]) sends the deliveries and records each attempt. Operators manage
//! endpoints and deliveries ([`Webhooks`]).
//!
//! **Invariant:** a delivery is sent at least once, with the same body and the same `webhook-id` at every attempt, until
//! the receiver answers 2xx or the attempts are used up.

mod access;
mod deliveries;
mod delivery_operations;
mod dispatcher;
mod endpoints;
mod events;
mod offer;
mod operations;
mod record;
mod recover;
mod retention;
mod schedule;
mod secret_operations;
mod sweep;

pub use deliveries::DeliveryWriter;
pub use delivery_operations::ShownDelivery;
pub use dispatcher::{DeliveryInProgress, WebhookDispatcher, WebhookSettings};
pub use endpoints::{
    DEFAULT_IN_FLIGHT, EndpointChange, InvalidEndpoint, MAX_DESCRIPTION_CHARS, MAX_ENDPOINTS, MAX_HEADERS,
    MAX_IN_FLIGHT, MAX_PATTERNS, MAX_PER_SECOND, WebhookError,
};
pub use events::{DeliveryDead, EndpointDisabled, event_descriptions};
pub use offer::{
    COMMON_FIELDS, LARGE_BODY_BYTES, MAX_BODY_BYTES, Offer, OfferedType, UnknownType, body_field, matches,
};
pub use operations::{EndpointDetails, NewEndpoint, Webhooks};
pub use record::Recording;
pub use recover::{MAX_RECOVERED, Recover, Recovered};
pub use retention::WebhookRetention;
pub use secret_operations::{MAX_OVERLAP_HOURS, RotatedKeys};
