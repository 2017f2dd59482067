//! Events of the baseline: an outbox row that becomes a message, and a message that becomes rows.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;

/// An outbox row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub id: i64,
    pub event_id: String,
    pub event_type: String,
    pub aggregate_type: String,
    pub aggregate_id: i64,
    /// Version of the aggregate.
    pub aggregate_seq: i64,
    pub tenant_id: i64,
    /// JSON.
    pub payload: String,
    /// `traceId` of the metadata, or the event id if there is none.
    pub trace_id: String,
    pub create_time: DateTime<Utc>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    trace_id: Option<String>,
}

pub(crate) fn trace_of(metadata: Option<&str>, event_id: &str) -> Result<String, serde_json::Error> {
    let metadata: Option<Metadata> = metadata.map(serde_json::from_str).transpose()?;
    Ok(metadata.and_then(|metadata| metadata.trace_id).unwrap_or_else(|| event_id.to_owned()))
}

impl Event {
    /// The body of the message, byte for byte as the service sends it.
    pub fn body(&self) -> String {
        format!(
            "{{\"eventId\":\"{}\",\"eventType\":\"{}\",\"aggregateType\":\"{}\",\"aggregateId\":{},\
             \"occurredAt\":\"{}\",\"traceId\":\"{}\",\"payload\":{}}}",
            self.event_id,
            self.event_type,
            self.aggregate_type,
            self.aggregate_id,
            self.create_time.to_rfc3339_opts(SecondsFormat::Micros, true),
            self.trace_id,
            self.payload,
        )
    }
}

/// The fields of a message that its effect needs.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Envelope {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: i64,
    pub(crate) trace_id: String,
    pub(crate) payload: EnvelopeOrder,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvelopeOrder {
    pub(crate) order_id: i64,
    pub(crate) buyer_id: i64,
    pub(crate) seller_id: i64,
}

/// An event to append, of a product that changes in the same transaction.
#[derive(Debug, Clone)]
pub(crate) struct Appended {
    pub(crate) product_id: i64,
    /// Number of the event of its product.
    pub(crate) seq: i64,
    pub(crate) event_id: String,
    /// JSON.
    pub(crate) payload: String,
    pub(crate) at: DateTime<Utc>,
}

/// An order to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: i64,
    pub(crate) tenant_id: i64,
    pub(crate) product_id: i64,
    pub(crate) buyer_id: i64,
    pub(crate) at: DateTime<Utc>,
}

/// The result of placing an order.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) seller: i64,
    pub(crate) price_minor: i64,
    /// Name and duration of each statement.
    pub(crate) steps: Vec<(&'static str, Duration)>,
}

impl Order {
    /// The order number, which is shown to people.
    pub(crate) fn number(&self) -> String {
        format!("{}{:010}", self.at.format("%Y%m%d%H%M%S"), self.id % 10_000_000_000)
    }

    pub(crate) fn trace_id(&self) -> String {
        format!("bench-{:016x}", self.id)
    }

    /// Stands for the hash of the request's body, with its length.
    pub(crate) fn body_hash(&self) -> String {
        format!("{:064x}", self.product_id)
    }

    /// Body of the response, about as long as that of the service.
    pub(crate) fn response(&self, placed: &Placed) -> String {
        format!(
            "{{\"code\":\"00000\",\"message\":\"success\",\"data\":{{{},\"status\":\"pending\"}},\"traceId\":\"{}\"}}",
            self.facts(placed.seller, placed.price_minor),
            self.trace_id(),
        )
    }

    pub(crate) fn event_id(&self, n: u8) -> String {
        new_event_id(self.at, (self.id << 2) | i64::from(n))
    }

    /// The events that the transaction of the order inserted.
    pub(crate) fn events(&self, placed: &Placed) -> [Event; 2] {
        let Placed { seller, price_minor, .. } = *placed;
        let event = |n: u8, event_type: &str, payload: String| Event {
            id: 0,
            event_id: self.event_id(n),
            event_type: event_type.to_owned(),
            aggregate_type: "Order".to_owned(),
            aggregate_id: self.id,
            aggregate_seq: 1,
            tenant_id: self.tenant_id,
            payload,
            trace_id: self.trace_id(),
            create_time: self.at,
        };
        [
            event(0, "ORDER_CREATED", self.created(seller, price_minor)),
            event(1, "ORDER_TIMEOUT", self.timeout(seller, price_minor)),
        ]
    }

    fn facts(&self, seller: i64, price_minor: i64) -> String {
        format!(
            "\"orderId\":{},\"orderNo\":\"{}\",\"buyerId\":{},\"sellerId\":{seller},\"totalAmount\":{}",
            self.id,
            self.number(),
            self.buyer_id,
            amount(price_minor),
        )
    }

    /// Payload of ORDER_CREATED.
    pub(crate) fn created(&self, seller: i64, price_minor: i64) -> String {
        let facts = self.facts(seller, price_minor);
        format!(
            "{{{facts},\"productId\":{},\"quantity\":1,\"price\":{}}}",
            self.product_id,
            amount(price_minor)
        )
    }

    /// Payload of ORDER_TIMEOUT.
    pub(crate) fn timeout(&self, seller: i64, price_minor: i64) -> String {
        let at = self.at.to_rfc3339_opts(SecondsFormat::Micros, true);
        format!("{{{},\"createTime\":\"{at}\"}}", self.facts(seller, price_minor))
    }
}

fn amount(minor: i64) -> String {
    format!("{}.{:02}", minor / 100, minor % 100)
}

/// An event id: a UUIDv7 (RFC 9562) with a number in place of its random bits.
fn new_event_id(at: DateTime<Utc>, number: i64) -> String {
    let ms = at.timestamp_millis() & 0xFFFF_FFFF_FFFF;
    let (high, low) = (ms >> 16, ms & 0xFFFF);
    format!(
        "{high:08x}-{low:04x}-7{:03x}-8{:03x}-{:012x}",
        (number >> 60) & 7,
        (number >> 48) & 0xFFF,
        number & 0xFFFF_FFFF_FFFF
    )
}

/// A delivery to an endpoint of webhooks, as it is read.
#[derive(Debug)]
pub(crate) struct WebhookDelivery {
    pub(crate) id: i64,
    pub(crate) endpoint: String,
    pub(crate) event_id: String,
    pub(crate) body: String,
}
