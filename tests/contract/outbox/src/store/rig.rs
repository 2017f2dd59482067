//! The environment in which a rule tests a store.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::OutboxStore;

/// A fresh, empty store and its environment.
#[async_trait]
pub trait StoreRig: Send + Sync {
    /// The store; every call returns the same instance. `outbox_of` converts the store of an application.
    fn store(&self) -> Arc<OutboxStore>;

    /// The notifier through which commits of this store send wake-up notifications.
    fn wake(&self) -> WakeupNotifier;

    /// Shifts the database clock, which determines the times of leases.
    fn move_database_clock(&self, by: TimeDelta);

    /// Capabilities in which adapters may differ.
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::default()
    }

    /// The same database, opened as a restarted process would; `None` if the store is not persistent.
    async fn reopened(&self) -> Option<Arc<OutboxStore>> {
        None
    }
}

/// Capabilities in which stores differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreCapabilities {
    /// Units of work run concurrently. Otherwise a second `begin` waits until the first unit of work has ended.
    pub concurrent_units: bool,
}

impl Default for StoreCapabilities {
    fn default() -> Self {
        StoreCapabilities { concurrent_units: true }
    }
}
