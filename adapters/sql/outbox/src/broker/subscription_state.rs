//! State of a subscription that the broker shares.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// State of an open subscription, shared with the broker.
#[derive(Default)]
pub(super) struct SubscriptionState {
    pub(super) is_ended: AtomicBool,
    /// Wakes the waiting consumer when messages were settled or the subscription ended.
    pub(super) changed: Notify,
}

impl SubscriptionState {
    /// Marks the session as ended and wakes the consumer.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}
