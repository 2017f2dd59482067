//! Events as the plain code sees them: a row that becomes a message, and a message that becomes rows.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;

/// A row of the outbox on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The number of the row.
    pub id: i64,
    /// The event.
    pub event_id: String,
    /// Its type.
    pub event_type: String,
    /// What it is about.
    pub aggregate_type: String,
    /// Its id.
    pub aggregate_id: i64,
    /// Its version.
    pub aggregate_seq: i64,
    /// Whose it is.
    pub tenant_id: i64,
    /// The payload, JSON.
    pub payload: String,
    /// `traceId` of the metadata; the event's own id where there is none.
    pub trace_id: String,
    /// When it happened.
    pub create_time: DateTime<Utc>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    trace_id: Option<String>,
}

/// The trace of a row.
pub(crate) fn trace_of(metadata: Option<&str>, event_id: &str) -> Result<String, serde_json::Error> {
    let metadata: Option<Metadata> = metadata.map(serde_json::from_str).transpose()?;
    Ok(metadata.and_then(|metadata| metadata.trace_id).unwrap_or_else(|| event_id.to_owned()))
}

impl Event {
    /// The message's body: byte by byte what the service sends.
    pub fn body(&self) -> String {
        format!(
            "{{\"eventId\":\"{}\",\"eventType\":\"{}\",\"aggregateType\":\"{}\",\"aggregateId\":{},\
             \"occurredAt\":\"{}\",\"traceId\":\"{}\",\"payload\":{}}}",
            self.event_id,
            self.event_type,
            self.aggregate_type,
            self.aggregate_id,
            self.create_time.to_rfc3339_opts(SecondsFormat::AutoSi, true),
            self.trace_id,
            self.payload,
        )
    }
}

/// What an effect needs of a message.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Arrived {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: i64,
    pub(crate) trace_id: String,
    pub(crate) payload: ArrivedOrder,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArrivedOrder {
    pub(crate) order_id: i64,
    pub(crate) buyer_id: i64,
    pub(crate) seller_id: i64,
}

/// An order that is to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Its id.
    pub id: i64,
    /// Whose it is.
    pub tenant_id: i64,
    /// What it takes.
    pub product_id: i64,
    /// Who buys.
    pub buyer_id: i64,
    /// When.
    pub at: DateTime<Utc>,
}

/// An order that was placed.
#[derive(Debug, Clone)]
pub struct Placed {
    pub(crate) seller: i64,
    pub(crate) price_minor: i64,
    /// How long each of its statements took.
    pub parts: [(&'static str, Duration); 6],
}

impl Order {
    /// Its number for people.
    pub(crate) fn number(&self) -> String {
        format!("{}{:010}", self.at.format("%Y%m%d%H%M%S"), self.id % 10_000_000_000)
    }

    /// The trace it belongs to.
    pub(crate) fn trace_id(&self) -> String {
        format!("bench-{:016x}", self.id)
    }

    /// The id of its n-th event.
    pub(crate) fn event_id(&self, n: u8) -> String {
        new_event_id(self.at, (self.id << 2) | i64::from(n))
    }

    /// Its events, as its transaction has written them.
    pub fn events(&self, placed: &Placed) -> [Event; 2] {
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

    /// The payload of its ORDER_CREATED.
    pub(crate) fn created(&self, seller: i64, price_minor: i64) -> String {
        let facts = self.facts(seller, price_minor);
        format!(
            "{{{facts},\"productId\":{},\"quantity\":1,\"price\":{}}}",
            self.product_id,
            amount(price_minor)
        )
    }

    /// The payload of its ORDER_TIMEOUT.
    pub(crate) fn timeout(&self, seller: i64, price_minor: i64) -> String {
        let at = self.at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        format!("{{{},\"createTime\":\"{at}\"}}", self.facts(seller, price_minor))
    }
}

fn amount(minor: i64) -> String {
    format!("{}.{:02}", minor / 100, minor % 100)
}

/// An event id: UUIDv7 of a moment, with a number in place of chance.
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
