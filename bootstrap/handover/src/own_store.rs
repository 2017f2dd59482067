//! An outbox on a store of the application.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use handover_events::{EventType, PartitionSet};
use handover_outbox::ports::{
    Broker, DatabaseHealth, DatabaseMonitor, NewEvent, Store, StoreError, UnitOfWork as _,
};
use handover_outbox::{Tasks, Transactor, WakeupNotifier, append};

use crate::backend::{Backend, Needs, OpenStore, Opened, Started};
use crate::builder::Builder;
use crate::clock::OutboxClock;
use crate::enqueue::{Enqueuer, Options};
use crate::error::{BuildError, EnqueueError, Error};
use crate::outbox::Outbox;

/// The place of an outbox on a store of the application: [`Outbox::on`].
pub struct OwnStore<S: ?Sized> {
    store: PhantomData<fn(&S)>,
}

type StorePort<S> = dyn Store<Unit = <S as Store>::Unit, View = <S as Store>::View>;

/// A store of the application, as the builder receives it.
#[doc(hidden)]
pub struct OwnSource<S: Store + ?Sized + 'static> {
    store: Arc<StorePort<S>>,
    tasks: Tasks,
    wake: WakeupNotifier,
    monitor: Arc<dyn DatabaseMonitor>,
}

/// A store of the application with its transactor.
#[doc(hidden)]
pub struct OwnPlace<S: Store + ?Sized + 'static> {
    tx: Transactor<S::Unit, S::View>,
    notified: Notified,
}

/// What is known of the processes and the database of a store.
#[derive(Clone)]
struct Notified {
    wake: WakeupNotifier,
    monitor: Arc<dyn DatabaseMonitor>,
}

/// A database whose health is not known.
struct NoMonitor;

#[async_trait]
impl DatabaseMonitor for NoMonitor {
    async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        Ok(DatabaseHealth::default())
    }
}

#[async_trait]
impl OpenStore for Notified {
    fn wake_relays(&self, partitions: PartitionSet) {
        self.wake.notify(partitions);
    }

    // The store notifies when it has committed.
    #[cfg(feature = "sqlx")]
    fn wake_soon(self: Arc<Self>, _: PartitionSet, _: &OutboxClock, _: &Tasks) {}

    async fn watch(&self) {}

    fn monitor(&self) -> Arc<dyn DatabaseMonitor> {
        Arc::clone(&self.monitor)
    }

    async fn close(&self) {}
}

#[async_trait]
impl<S: Store + ?Sized + 'static> Backend for OwnStore<S> {
    type Transaction = S::Unit;
    type Unit = S::Unit;
    type View = S::View;
    type Source = OwnSource<S>;
    type Place = OwnPlace<S>;

    fn place(source: OwnSource<S>, needs: Needs) -> Result<OwnPlace<S>, BuildError> {
        if !needs.has_broker {
            return Err(BuildError::NoBroker {});
        }
        let OwnSource { store, tasks, wake, monitor } = source;
        let tx = Transactor::new(store, needs.clock.port(), needs.random, tasks);
        Ok(OwnPlace { tx, notified: Notified { wake, monitor } })
    }

    async fn open(place: &OwnPlace<S>, broker: Option<Arc<dyn Broker>>) -> Result<Opened<Self>, Error> {
        let broker = broker.ok_or(BuildError::NoBroker {})?;
        let OwnPlace { tx, notified } = place;
        let store = Arc::new(notified.clone());
        Ok(Opened { tx: tx.clone(), broker, wake: notified.wake.clone(), store })
    }

    async fn transaction(unit: &mut S::Unit) -> Result<&mut S::Unit, StoreError> {
        Ok(unit)
    }

    async fn append(
        _: &OwnPlace<S>,
        _: Option<Started>,
        unit: &mut S::Unit,
        events: &[NewEvent],
    ) -> Result<(), EnqueueError> {
        Ok(append(unit.outbox(), events).await?)
    }
}

impl<S: Store + 'static> Outbox<OwnStore<S>> {
    /// A builder for an outbox on a store of the application: any implementation of the ports of the toolkit. It needs no
    /// database of sqlx, and it MUST get a [`Builder::broker`].
    ///
    /// The methods of the builder are the same as for an outbox on a pool. What takes the connection of sqlx there takes
    /// the unit of work of the store here: [`Enqueuer::enqueue`], and the functions of
    /// [`in_transaction`](crate::in_transaction). The store manages its own tables and connections.
    ///
    /// See [the guide](crate::guide::own_store) for a complete program.
    pub fn on(store: Arc<S>) -> Builder<OwnStore<S>> {
        Builder::new(OwnSource::new(store, Tasks::default()))
    }
}

impl<S: Store + ?Sized + 'static> Outbox<OwnStore<S>> {
    /// As [`Outbox::on`], on the store of a transactor, with its clock, random source and tasks:
    /// `Outbox::<OwnStore<LibraryStore>>::on_transactor(&tx)`. [`Running::stop`](crate::Running::stop) ends these tasks.
    pub fn on_transactor(tx: &Transactor<S::Unit, S::View>) -> Builder<OwnStore<S>> {
        let builder = Builder::new(OwnSource::new(Arc::clone(tx.store()), tx.tasks().clone()));
        builder.with_process(OutboxClock::of(Arc::clone(tx.clock())), Arc::clone(tx.random()))
    }

    /// Runs units of work of the store ([`with_tx`](crate::store::with_tx)), with the clock and the tasks of this outbox.
    pub fn transactor(&self) -> &Transactor<S::Unit, S::View> {
        &Enqueuer::place(self).tx
    }
}

impl<S: Store + ?Sized + 'static> OwnSource<S> {
    fn new(store: Arc<StorePort<S>>, tasks: Tasks) -> OwnSource<S> {
        OwnSource { store, tasks, wake: WakeupNotifier::default(), monitor: Arc::new(NoMonitor) }
    }
}

impl<S: Store + ?Sized + 'static> Builder<OwnStore<S>> {
    /// Sets the notifier through which commits of the store wake the relay of this process. Without it, the relay looks for
    /// events at an interval.
    pub fn wake(self, notifier: &WakeupNotifier) -> Builder<OwnStore<S>> {
        self.map_source(|source| OwnSource { wake: notifier.clone(), ..source })
    }

    /// Sets what reads the health of the database: the archive pauses while an old transaction is open, and
    /// [`Running::state_metrics`](crate::Running::state_metrics) exports it. Without it, the health is not known.
    pub fn monitor(self, monitor: Arc<dyn DatabaseMonitor>) -> Builder<OwnStore<S>> {
        self.map_source(|source| OwnSource { monitor, ..source })
    }
}

impl<S: Store + ?Sized + 'static> Enqueuer<OwnStore<S>> {
    /// Checks an event and chooses its id, before the unit of work that appends it with [`append`](crate::store::append).
    ///
    /// [`with_tx`](crate::store::with_tx) may repeat a unit of work whose commit had an unknown outcome. An event of which the id
    /// was chosen before is then a conflict instead of a second event; with
    /// [`Attempt::may_be_committed`](crate::store::Attempt::may_be_committed), look for it before. A handler can call [`Enqueuer::enqueue`] instead: its
    /// record in the consume log prevents a second effect.
    pub fn prepare<E: EventType>(&self, event: &E, options: Options) -> Result<NewEvent, EnqueueError> {
        self.new_event(event, options)
    }
}
