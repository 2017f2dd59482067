//! Rows of events, as they enter the outbox.

use handover_events::OutboxStatus;
use handover_outbox::ports::{IdleConsumers, NewEvent, OutboxRow, ReceivedEvent};

pub(super) fn new_row(id: i64, aggregate_seq: i64, event: &NewEvent) -> OutboxRow {
    OutboxRow {
        id,
        event_id: event.event_id.clone(),
        event_type: event.event_type.clone(),
        aggregate: event.aggregate.clone(),
        aggregate_seq,
        payload: event.payload.clone(),
        metadata: event.metadata.clone(),
        status: event.status(),
        retry_count: 0,
        max_retry_count: event.max_retry_count,
        routing_key: event.routing_key.clone(),
        idle_consumers: event.idle_consumers.clone(),
        next_retry_time: event.due,
        last_error: None,
        create_time: event.occurred_at,
        update_time: event.occurred_at,
        sent_time: None,
        released_time: None,
        erased_time: None,
        erased_reason: None,
        restored_time: None,
    }
}

pub(super) fn received_row(id: i64, event: &ReceivedEvent) -> OutboxRow {
    let ReceivedEvent { received_at, .. } = *event;
    let event = event.clone();
    let new = NewEvent {
        event_id: event.event_id,
        event_type: event.event_type,
        aggregate: event.aggregate,
        aggregate_seq: Some(event.aggregate_seq),
        payload: event.payload,
        metadata: event.metadata,
        occurred_at: event.occurred_at,
        max_retry_count: event.max_retry_count,
        routing_key: event.routing_key,
        idle_consumers: IdleConsumers::default(),
        due: None,
    };
    OutboxRow {
        status: OutboxStatus::Sent,
        sent_time: Some(received_at),
        update_time: received_at,
        ..new_row(id, event.aggregate_seq, &new)
    }
}
