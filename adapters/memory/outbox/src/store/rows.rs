//! The row types that are not types of the ports.

use handover_outbox::ports::{ConsumerSubscription, Consumption, DeadLetter};

#[derive(Debug, Clone)]
pub(super) struct ConsumptionRow {
    pub(super) id: i64,
    pub(super) is: Consumption,
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
