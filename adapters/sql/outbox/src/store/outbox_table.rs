//! The table of the outbox.

use handover_events::OutboxStatus;
use handover_outbox::ports::{EventMetadata, IdleConsumers, NewEvent, OutboxRow, ReceivedEvent, StoreError};

use crate::row::Fields;
use crate::table::{Table, table};

table! {
    /// Rows of the outbox. Queries give the table the alias `o`.
    pub(super) OutboxTable("outbox_events" as "o." by "id"),
    read row as OutboxRow, write event as &'a NewEvent;
    insert {
        aggregate_seq: int("aggregate_seq" = event.aggregate_seq),
        event_id: named("event_id" = &event.event_id),
        event_type: string("event_type" = &event.event_type),
        aggregate: (row.aggregate())(
            "tenant_id" = event.aggregate.tenant.get(),
            "aggregate_type" = &event.aggregate.kind,
            "aggregate_id" = event.aggregate.id.number(),
            "aggregate_key" = event.aggregate.id.key()
        ),
        payload: string("payload" = &event.payload),
        metadata: (metadata(row))("metadata" = event.metadata.to_text()),
        max_retry_count: count("max_retry_count" = event.max_retry_count),
        routing_key: opt_string("routing_key" = &event.routing_key),
        idle_consumers: (idle_consumers(row))("idle_consumers" = event.idle_consumers.to_text()),
        status: named("status" = event.status().as_str()),
        next_retry_time: opt_time("next_retry_time" = event.due),
        create_time: time("create_time" = event.occurred_at),
        update_time: time("update_time" = event.occurred_at),
    }
    read {
        id: int("id"),
        retry_count: count("retry_count"),
        last_error: opt_string("last_error"),
        sent_time: opt_time("sent_time"),
        released_time: opt_time("released_time"),
        erased_time: opt_time("erased_time"),
        erased_reason: opt_string("erased_reason"),
        restored_time: opt_time("restored_time"),
    }
}

table! {
    /// Rows of events of another outbox, as they are inserted.
    pub(super) ReceivedTable("outbox_events" by "id"),
    read row as ReceivedEvent, write event as &'a ReceivedEvent;
    insert {
        aggregate_seq: int("aggregate_seq" = event.aggregate_seq),
        event_id: named("event_id" = &event.event_id),
        event_type: string("event_type" = &event.event_type),
        aggregate: (row.aggregate())(
            "tenant_id" = event.aggregate.tenant.get(),
            "aggregate_type" = &event.aggregate.kind,
            "aggregate_id" = event.aggregate.id.number(),
            "aggregate_key" = event.aggregate.id.key()
        ),
        payload: string("payload" = &event.payload),
        metadata: (metadata(row))("metadata" = event.metadata.to_text()),
        occurred_at: time("create_time" = event.occurred_at),
        received_at: (row.time("sent_time"))(
            "sent_time" = event.received_at,
            "update_time" = event.received_at,
            "status" = OutboxStatus::Sent.as_str()
        ),
        max_retry_count: count("max_retry_count" = event.max_retry_count),
        routing_key: opt_string("routing_key" = &event.routing_key),
    }
}

fn metadata(row: Fields<'_>) -> Result<EventMetadata, StoreError> {
    let Some(text) = row.opt_text("metadata")? else { return Ok(EventMetadata::default()) };
    EventMetadata::from_text(text)
        .map_err(|error| row.corrupt("metadata", format!("the value is not a JSON object: {error}")))
}

fn idle_consumers(row: Fields<'_>) -> Result<IdleConsumers, StoreError> {
    Ok(row.opt_text("idle_consumers")?.map(IdleConsumers::from_text).unwrap_or_default())
}

pub(super) fn select() -> String {
    format!("SELECT {} FROM outbox_events o", OutboxTable::COLUMNS)
}
