//! Rig of the store on which a service works that the crate `handover` has assembled.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use handover::store::{OwnStore, Tasks, Transactor};
use handover::{Outbox, Running};
use handover_contract::samples::start;
use handover_contract::store::StoreRig;
use handover_memory::{ManualClock, MemoryBroker, SeededRandom};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::OutboxStore;

use crate::rigs::MemoryStoreRig;

/// Rig of the store of a started [`Outbox`] without roles, on the store in memory.
pub struct OutboxRig {
    inner: MemoryStoreRig,
    running: Running<OwnStore<OutboxStore>>,
}

impl OutboxRig {
    /// A rig with an empty store.
    pub async fn new() -> OutboxRig {
        let inner = MemoryStoreRig::new();
        let clock = Arc::new(ManualClock::new(start()));
        let random = Arc::new(SeededRandom::new(1));
        let tx = Transactor::new(inner.store(), clock.clone(), random, Tasks::default());
        let builder = Outbox::<OwnStore<OutboxStore>>::on_transactor(&tx)
            .wake(&inner.wake())
            .broker(Arc::new(MemoryBroker::new(clock)));
        let outbox = builder.roles([]).build().expect("the parts fit together");
        OutboxRig { inner, running: outbox.start().await.expect("a store in memory is available") }
    }
}

#[async_trait]
impl StoreRig for OutboxRig {
    fn store(&self) -> Arc<OutboxStore> {
        Arc::clone(self.running.services().tx.store())
    }

    fn wake(&self) -> WakeupNotifier {
        self.inner.wake()
    }

    fn move_database_clock(&self, by: TimeDelta) {
        self.inner.move_database_clock(by);
    }
}
