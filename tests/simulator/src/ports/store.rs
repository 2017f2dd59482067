//! The store with everything that databases do: away, busy, slow, commits lost and commits of unknown outcome.

use std::sync::Arc;

use async_trait::async_trait;
use handover_outbox::ports::{Store, StoreError};
use handover_outbox::wrap::Wrapped;
use marketplace::ports::{MarketStore, MarketView, Work};

use super::Process;
use super::unit::Faulty;
use crate::faults::Fault;

/// A store whose faults come from the run's dice.
pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<MarketStore>,
    pub(crate) process: Process,
    pub(crate) flavour: Flavour,
}

/// What becomes of a unit after one of its statements failed. The port promises of both the same: it cannot be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Further statements work, and are lost: a lock timeout rolls back its statement alone, and the adapter refuses the
    /// COMMIT.
    MariaDb,
    /// Further statements are refused.
    Postgres,
}

impl FaultyStore {
    async fn connect(&self) -> Result<(), StoreError> {
        self.process.faults.delay().await;
        if self.process.faults.strikes(Fault::NoConnection) {
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
        let viewing = self.process.faults.opens_view();
        let inner = self.inner.view().await?;
        Ok(Box::new(Wrapped(Faulty::new(inner, self.process.clone(), self.flavour, viewing))))
    }
}
