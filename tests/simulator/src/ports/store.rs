//! A store with the faults of databases: unavailable, slow, lost commits and commits of unknown outcome.

use std::sync::Arc;

use async_trait::async_trait;
use handover_outbox::ports::{Store, StoreError};
use handover_outbox::wrap::Wrapped;
use marketplace::ports::{MarketStore, MarketView, Work};

use super::Process;
use super::unit::Faulty;
use crate::fault_kinds::Fault;
use crate::run_settings::EngineFlavour;

/// A store that injects the faults of the run.
pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<MarketStore>,
    pub(crate) process: Process,
    pub(crate) flavour: EngineFlavour,
}

impl FaultyStore {
    async fn connect(&self) -> Result<(), StoreError> {
        self.process.faults.delay().await;
        if self.process.faults.occurs(Fault::NoConnection) {
            return Err(StoreError::Unavailable("no connection".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Store for FaultyStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        self.connect().await?;
        let inner = self.inner.begin().await?;
        Ok(Box::new(Wrapped(Faulty::new(inner, self.process.clone(), self.flavour, None))))
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        self.connect().await?;
        let viewing = self.process.faults.open_view();
        let inner = self.inner.view().await?;
        Ok(Box::new(Wrapped(Faulty::new(inner, self.process.clone(), self.flavour, viewing))))
    }

    fn has_single_writer(&self) -> bool {
        self.inner.has_single_writer()
    }
}
