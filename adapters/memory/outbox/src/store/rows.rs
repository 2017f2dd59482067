//! The row types that are not types of the ports.

use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    ArchivedEvent, ConsumerSubscription, Consumption, DeadLetter, EndpointId, OutboxRow, WebhookAttempt,
    WebhookEndpoint,
};

#[derive(Debug, Clone)]
pub(super) struct ConsumptionRow {
    pub(super) id: i64,
    pub(super) is: Consumption,
}

/// An archived event, with the rows that a restore inserts.
#[derive(Debug, Clone)]
pub(super) struct ArchivedRow {
    pub(super) is: ArchivedEvent,
    pub(super) row: OutboxRow,
    pub(super) records: Vec<ConsumptionRow>,
}

#[derive(Debug, Clone)]
pub(super) struct SubscriptionRow {
    pub(super) consumer: String,
    pub(super) is: ConsumerSubscription,
}

#[derive(Debug, Clone)]
pub(super) struct DeadLetterRow {
    pub(super) id: i64,
    pub(super) dead_letter: DeadLetter,
}

#[derive(Debug, Clone)]
pub(super) struct EndpointRow {
    pub(super) endpoint: WebhookEndpoint,
    /// Time of the next attempt that the limit of attempts per second permits.
    pub(super) next_attempt: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone)]
pub(super) struct AttemptRow {
    pub(super) id: i64,
    pub(super) delivery: i64,
    pub(super) endpoint: EndpointId,
    pub(super) attempt: WebhookAttempt,
}
