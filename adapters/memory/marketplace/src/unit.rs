//! Unit of work of the marketplace.

use std::ops::{Deref, DerefMut};

use async_trait::async_trait;
use handover_memory::MemoryUnit;
use handover_outbox::ports::{OutboxUnit, OutboxView, StoreError, UnitOfWork, View};

use super::tables::Market;

/// A unit of work. It is a newtype of this crate, so that it can implement the marketplace's ports (orphan rule).
pub(crate) struct MarketUnit(pub(crate) MemoryUnit<Market>);

impl Deref for MarketUnit {
    type Target = MemoryUnit<Market>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for MarketUnit {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl View for MarketUnit {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self.0.outbox_view()
    }
}

#[async_trait]
impl UnitOfWork for MarketUnit {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self.0.outbox()
    }

    fn defer_writes(&mut self) {
        self.0.defer_writes();
    }

    fn defers_writes(&mut self) -> bool {
        self.0.defers_writes()
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        Box::new(self.0).commit().await
    }
}
