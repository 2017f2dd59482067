//! What the parts of an outbox need from the place where its events are.

use std::sync::Arc;

use async_trait::async_trait;
use handover_events::PartitionSet;
#[cfg(feature = "sqlx")]
use handover_outbox::Tasks;
use handover_outbox::ports::{Broker, DatabaseMonitor, NewEvent, RandomSource, StoreError, UnitOfWork, View};
use handover_outbox::{Transactor, WakeupNotifier};

use crate::clock::OutboxClock;
use crate::error::{BuildError, EnqueueError, Error};

/// Where the events of an outbox are: a database of sqlx, such as `Postgres`, or a store of the application,
/// `OwnStore`. Other types cannot implement it.
#[async_trait]
pub trait Backend: Sized + 'static {
    /// What `enqueue` and the functions of [`in_transaction`](crate::in_transaction) take by `&mut`: the connection of sqlx in
    /// a transaction, or the unit of work of an own store.
    type Transaction: ?Sized + Send + 'static;
    #[doc(hidden)]
    type Unit: UnitOfWork + ?Sized + 'static;
    #[doc(hidden)]
    type View: View + ?Sized + 'static;
    /// What the builder receives.
    #[doc(hidden)]
    type Source: Send + Sync;
    /// What the builder has checked.
    #[doc(hidden)]
    type Place: Send + Sync + 'static;

    #[doc(hidden)]
    fn place(source: Self::Source, needs: Needs) -> Result<Self::Place, BuildError>;

    /// Opens the store. Without a broker, messages are rows of the same database.
    #[doc(hidden)]
    async fn open(place: &Self::Place, broker: Option<Arc<dyn Broker>>) -> Result<Opened<Self>, Error>;

    /// The transaction of a unit of work.
    #[doc(hidden)]
    async fn transaction(unit: &mut Self::Unit) -> Result<&mut Self::Transaction, StoreError>;

    /// Appends events in a transaction. `started` is what works on the store while the outbox is running.
    #[doc(hidden)]
    async fn append(
        place: &Self::Place,
        started: Option<Started>,
        transaction: &mut Self::Transaction,
        events: &[NewEvent],
    ) -> Result<(), EnqueueError>;
}

/// What an outbox needs from its place.
#[doc(hidden)]
pub struct Needs {
    pub(crate) clock: OutboxClock,
    pub(crate) random: Arc<dyn RandomSource>,
    /// Number of consumers.
    #[cfg(feature = "sqlx")]
    pub(crate) consumers: usize,
    /// Whether the builder was given a broker.
    #[cfg(feature = "store")]
    pub(crate) has_broker: bool,
}

/// An open store with what works on it.
#[doc(hidden)]
pub struct Opened<B: Backend> {
    pub(crate) tx: Transactor<B::Unit, B::View>,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) wake: WakeupNotifier,
    pub(crate) store: Arc<dyn OpenStore>,
}

/// An open store, and the tasks that work on it.
#[doc(hidden)]
#[derive(Clone)]
pub struct Started {
    pub(crate) store: Arc<dyn OpenStore>,
    #[cfg(feature = "sqlx")]
    pub(crate) tasks: Tasks,
}

/// An open store, apart from its transactions.
#[async_trait]
pub(crate) trait OpenStore: Send + Sync {
    /// Wakes the relays of all processes for these partitions.
    fn wake_relays(&self, partitions: PartitionSet);

    /// Wakes the relays a few times soon, for events on a connection of the service: the time of its commit is not known.
    #[cfg(feature = "sqlx")]
    fn wake_soon(self: Arc<Self>, partitions: PartitionSet, clock: &OutboxClock, tasks: &Tasks);

    /// Exchanges wake-up notifications with the other processes while it is polled.
    async fn watch(&self);

    /// Number of units of work in which handlers may run at the same time, so that the relay gets a connection, too.
    fn handler_units(&self) -> usize {
        handover_outbox::MAX_UNITS
    }

    /// The health of the database.
    fn monitor(&self) -> Arc<dyn DatabaseMonitor>;

    /// Closes the connections that belong to the outbox.
    async fn close(&self);
}
