//! What a delivery is about: the aggregate that it claims, and the outbox row whose content it has.

use std::sync::Arc;

use handover_events::{AggregateRef, Envelope, Json, TenantId};

use super::received_event::why_not_received;
use crate::message::{AGGREGATE_SEQ, TENANT_ID};
use crate::outbox::Outbox;
use crate::ports::{
    ArchiveQueries, ArchivedEvent, Delivery, MAX_DEAD_LETTER_REASON_BYTES, Message, OutboxQueries, OutboxRow,
    StoreError,
};
use crate::privacy::erased_json;
use crate::registry::EventRegistry;
use crate::settings::ConsumeOrder;
use crate::storable_text::storable;

/// Result of comparing a message with its outbox row.
#[derive(Debug)]
pub(super) enum Identity {
    /// The message matches this row.
    Known(Box<OutboxRow>),
    /// The message is of an archived event, so every consumer that it concerns has settled it.
    Archived(Box<Envelope>),
    /// The message is not an event of this outbox. The text is the reason.
    Unknown(String),
}

impl Identity {
    fn unknown(why: String) -> Identity {
        Identity::Unknown(storable(&why, MAX_DEAD_LETTER_REASON_BYTES).into_owned())
    }
}

/// Compares a message of a queue with its outbox row. The row is authoritative; the message is only a trigger. The reason given
/// for an unknown message may quote the message, so the length of the reason is limited.
pub(super) async fn identify<V: OutboxQueries + ArchiveQueries + ?Sized>(
    view: &mut V,
    outbox: &Outbox,
    queue: &str,
    message: &Message,
) -> Result<Identity, StoreError> {
    let envelope = match Envelope::parse(&message.body) {
        Ok(envelope) => envelope,
        Err(error) => return Ok(Identity::unknown(outbox.texts.consume_failed(&error.to_string()))),
    };
    let Envelope { event_id, event_type, .. } = &envelope;
    let event = std::slice::from_ref(event_id);
    let mut row = view.outbox_by_event(event).await?.pop();
    if row.is_none() {
        if let Some(archived) = view.archived_by_event(event).await?.pop() {
            return Ok(if is_of_archived(&envelope, &archived) {
                Identity::Archived(Box::new(envelope))
            } else {
                let why = format!("the archived event {event_id} has different content");
                Identity::unknown(outbox.texts.consume_failed(&why))
            });
        }
        // The event may have been restored between the two reads.
        row = view.outbox_by_event(event).await?.pop();
    }
    let Some(row) = row else {
        let is_received = outbox.receives_from(queue).is_some();
        return Ok(Identity::unknown(if is_received {
            outbox.texts.consume_failed(&why_not_received(outbox, &envelope, message))
        } else if outbox.registry.contains(event_type) {
            outbox.texts.consume_failed(&format!("no outbox row for event {event_id}"))
        } else {
            outbox.texts.unsupported_type(event_type)
        }));
    };
    if matches_row(&outbox.registry, &envelope, &row) {
        Ok(Identity::Known(Box::new(row)))
    } else {
        let why = format!("the outbox row of event {event_id} has different content");
        Ok(Identity::unknown(outbox.texts.consume_failed(&why)))
    }
}

/// Whether an envelope is of this archived event, as far as the database knows it.
fn is_of_archived(envelope: &Envelope, archived: &ArchivedEvent) -> bool {
    envelope.event_type == archived.event_type
        && envelope.aggregate_type == archived.aggregate.kind
        && envelope.aggregate_id == archived.aggregate.id
}

/// Whether envelope and outbox row have the same content, except for the values of closed fields: the relay replaces those
/// outside the set, and a relay of another version may have another set. A message that was published before its row was
/// erased contains the texts that are masked in the row.
pub(super) fn matches_row(registry: &EventRegistry, envelope: &Envelope, row: &OutboxRow) -> bool {
    envelope.event_id == row.event_id
        && envelope.event_type == row.event_type
        && envelope.aggregate_type == row.aggregate.kind
        && envelope.aggregate_id == row.aggregate.id
        && (is_payload(registry, &row.event_type, &envelope.payload, &row.payload)
            || row.erased_time.is_some() && is_erased_payload(registry, &envelope.payload, row))
}

fn is_erased_payload(registry: &EventRegistry, payload: &Json, row: &OutboxRow) -> bool {
    let erased = erased_json(registry, Some(&row.event_type), &payload.to_string());
    Json::parse(&erased)
        .ok()
        .is_some_and(|erased| is_payload(registry, &row.event_type, &erased, &row.payload))
}

/// Whether a payload equals the payload of a row, except for closed fields. A payload of a row in our own serialization is
/// compared without parsing.
fn is_payload(registry: &EventRegistry, event_type: &str, payload: &Json, row: &str) -> bool {
    let written = payload.to_string();
    if written == row {
        return true;
    }
    let Ok(stored) = Json::parse(row) else { return false };
    stored == *payload || registry.are_equal_except_closed(event_type, &stored, payload)
}

/// A delivery with its envelope, parsed once.
#[derive(Debug)]
pub(super) struct ParsedDelivery {
    pub(super) delivery: Delivery,
    /// `None` if the body is not an envelope.
    pub(super) envelope: Option<Arc<Envelope>>,
}

impl ParsedDelivery {
    pub(super) fn of(delivery: Delivery) -> ParsedDelivery {
        ParsedDelivery { envelope: Envelope::parse(&delivery.message.body).ok().map(Arc::new), delivery }
    }

    /// The aggregate that the message claims. A message without an envelope gets a separate lane, and so does every
    /// message of a consumer without order.
    pub(super) fn lane(&self, order: ConsumeOrder) -> AggregateRef {
        match (&self.envelope, order) {
            (Some(envelope), ConsumeOrder::Sequence) => claimed_aggregate(envelope, &self.delivery.message),
            (None, _) | (_, ConsumeOrder::Any) => AggregateRef {
                tenant: TenantId::DEFAULT,
                kind: String::new(),
                id: i64::try_from(self.delivery.tag.0).unwrap_or(i64::MAX).into(),
            },
        }
    }
}

/// The aggregate that a message claims; its outbox row is authoritative.
pub(super) fn claimed_aggregate(envelope: &Envelope, message: &Message) -> AggregateRef {
    let tenant =
        message.headers.get(TENANT_ID).and_then(|text| text.parse().ok()).unwrap_or(TenantId::DEFAULT);
    AggregateRef { tenant, kind: envelope.aggregate_type.clone(), id: envelope.aggregate_id.clone() }
}

/// The position in its aggregate that a message claims; 0 without one.
pub(super) fn claimed_position(message: &Message) -> i64 {
    message.headers.get(AGGREGATE_SEQ).and_then(|text| text.parse().ok()).unwrap_or(0)
}
