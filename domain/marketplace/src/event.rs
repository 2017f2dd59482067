//! The events of the marketplace, one per file. To add an event, create a file here and add it to the list in
//! `events!`.

mod change;
mod fields;
mod invoice_generated;
mod market_event;
mod order_cancelled;
mod order_created;
mod order_paid;
mod order_refunded;
mod order_status_changed;
mod order_timeout;
pub(crate) mod parts;
mod payment_failed;
mod payment_succeeded;
mod refund_failed;
mod refund_succeeded;

use std::sync::LazyLock;

use handover_events::{
    Envelope, EnvelopeError, EventDescription, EventType, Fields, Json, Keyed, Payload, UnknownName, named,
};
use serde::{Deserialize, Serialize};

use crate::evidence::{Contradiction, OrderEvidence};

pub use change::{Change, ChangeKind};
pub use market_event::MarketEvent;
pub use parts::{OrderFacts, PaymentFor, PaymentSettled, RefundSettled};

/// The type of aggregate that an event belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AggregateType {
    Order,
    Payment,
    Refund,
    Invoice,
}

named!(AggregateType { Order => "Order", Payment => "Payment", Refund => "Refund", Invoice => "Invoice" });

/// Defines `EventKind` and `EventBody` from the list of events.
macro_rules! events {
    ($($file:ident::$event:ident),+ $(,)?) => {
        $(pub use $file::$event;)+

        /// The event types. Their names are frozen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum EventKind {
            $($event),+
        }

        impl EventKind {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$event),+];

            /// The name in columns and JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $(EventKind::$event => <$event as EventType>::NAME),+ }
            }

            /// The routing key for publishing; that of `ORDER_TIMEOUT` routes to the delay queue.
            pub const fn routing_key(self) -> &'static str {
                match self { $(EventKind::$event => <$event as EventType>::ROUTING_KEY),+ }
            }

            /// The type of the event's aggregate ([`AggregateType`]).
            pub const fn aggregate(self) -> &'static str {
                match self { $(EventKind::$event => <$event as EventType>::AGGREGATE),+ }
            }

            /// Whether events of this type are ordered within their aggregate.
            pub const fn is_ordered(self) -> bool {
                match self { $(EventKind::$event => <$event as EventType>::IS_ORDERED),+ }
            }

            /// Name, routing key and fields of the event type.
            pub fn description(self) -> EventDescription {
                match self { $(EventKind::$event => EventDescription::of::<$event>()),+ }
            }
        }

        /// Payload of an event.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        #[serde(untagged)]
        pub enum EventBody {
            $($event($event)),+
        }

        impl EventBody {
            pub const fn event_type(&self) -> EventKind {
                match self { $(EventBody::$event(_) => EventKind::$event),+ }
            }

            pub fn aggregate_id(&self) -> i64 {
                match self { $(EventBody::$event(body) => (*body.key()).into()),+ }
            }

            /// The order fields of the payload; `None` if the aggregate is not an order.
            pub fn order(&self) -> Option<&OrderFacts> {
                match self { $(EventBody::$event(body) => body.order()),+ }
            }

            /// See [`MarketEvent::check`].
            pub(crate) fn check(&self, order: &OrderEvidence) -> Result<(), Contradiction> {
                match self { $(EventBody::$event(body) => body.check(order)),+ }
            }

            /// See [`MarketEvent::change`].
            pub fn change(&self) -> Option<Change> {
                match self { $(EventBody::$event(body) => body.change()),+ }
            }

            /// Parses the payload of an event type. The error names the first field that is missing or has the wrong
            /// type.
            pub fn parse(event_type: EventKind, payload: &Json) -> Result<EventBody, EnvelopeError> {
                let fields = Fields::of(payload, "payload")?;
                Ok(match event_type {
                    $(EventKind::$event => EventBody::$event(<$event as Payload>::read(&fields)?)),+
                })
            }
        }
    };
}

events! {
    order_created::OrderCreated,
    order_paid::OrderPaid,
    order_status_changed::OrderStatusChanged,
    order_timeout::OrderTimeout,
    order_cancelled::OrderCancelled,
    order_refunded::OrderRefunded,
    payment_succeeded::PaymentSucceeded,
    payment_failed::PaymentFailed,
    refund_succeeded::RefundSucceeded,
    refund_failed::RefundFailed,
    invoice_generated::InvoiceGenerated,
}

impl std::fmt::Display for EventKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for EventKind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<EventKind, UnknownName> {
        static EXPECTED: LazyLock<String> = LazyLock::new(|| {
            let names: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
            names.join(" ")
        });
        let kind = EventKind::ALL.iter().copied().find(|kind| kind.as_str() == name);
        kind.ok_or_else(|| UnknownName { expected: EXPECTED.as_str() })
    }
}

impl EventBody {
    /// Serializes the payload for the outbox row, with the fields in the order of the contract.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses the payload of an envelope. Rejects unknown types, missing fields, fields of the wrong type, and a
    /// payload that contradicts the aggregate of the envelope.
    pub fn of(envelope: &Envelope) -> Result<EventBody, EnvelopeError> {
        let unknown = |_| EnvelopeError::UnknownType { name: envelope.event_type.clone() };
        let event_type: EventKind = envelope.event_type.parse().map_err(unknown)?;
        if envelope.aggregate_type != event_type.aggregate() {
            return Err(EnvelopeError::Contradiction { field: "aggregateType".into(), other: "eventType" });
        }
        let body = EventBody::parse(event_type, &envelope.payload)?;
        if envelope.aggregate_id != body.aggregate_id() {
            return Err(EnvelopeError::Contradiction { field: "aggregateId".into(), other: "payload" });
        }
        Ok(body)
    }
}
