//! The outbox of one process.

use std::ops::Deref;
use std::sync::Arc;

use handover_outbox::consumers::Bound;
use handover_outbox::topology::Topology;
use handover_outbox::{
    ConsumerSettings, Outbox as Services, RelaySettings, Tasks, Transactor, WakeupNotifier, runtime,
};
use handover_sql::{Session, SqlStore};
use handover_system::OsRandom;

use crate::database::Database;
use crate::enqueue::Enqueuer;
use crate::error::{BuildError, Error};
use crate::parts::{DEAD_LETTERS, Parts, Role, dead_letter_key, exchange};
use crate::report::Report;
use crate::running::Running;

/// The outbox of one process: event types, consumers, and where they are stored. Clones share it.
///
/// Dereferences to [`Enqueuer`], which enqueues events in the service's own transactions.
pub struct Outbox<DB> {
    enqueuer: Enqueuer<DB>,
    parts: Arc<Parts>,
}

impl<DB> Clone for Outbox<DB> {
    fn clone(&self) -> Outbox<DB> {
        Outbox { enqueuer: self.enqueuer.clone(), parts: Arc::clone(&self.parts) }
    }
}

impl<DB> Deref for Outbox<DB> {
    type Target = Enqueuer<DB>;

    fn deref(&self) -> &Enqueuer<DB> {
        &self.enqueuer
    }
}

impl<DB: Database> Outbox<DB> {
    pub(crate) fn new(enqueuer: Enqueuer<DB>, parts: Parts) -> Outbox<DB> {
        Outbox { enqueuer, parts: Arc::new(parts) }
    }

    /// Creates the tables of the outbox, or migrates them. Several processes may do this at the same time. The tables are
    /// `event_consume_log`, `dead_letters`, and those that begin with `outbox_` or `webhook_`; those of the service are not
    /// touched. If one of them has such a name, [`Builder::table_prefix`](crate::Builder::table_prefix) is needed.
    pub async fn migrate(&self) -> Result<(), Error> {
        let store = self.open(WakeupNotifier::default()).await?;
        let migrated = store.migrate().await;
        store.close().await;
        Ok(migrated?)
    }

    /// Starts the roles of this process: publishing, and applying events. Call it once, after
    /// [`migrate`](Outbox::migrate).
    pub async fn start(&self) -> Result<Running<DB>, Error> {
        let wake = WakeupNotifier::default();
        let store = self.open(wake.clone()).await?;
        let running = self.start_on(&store, &wake).await;
        if running.is_err() {
            store.close().await;
        }
        running
    }

    async fn start_on(&self, store: &SqlStore, wake: &WakeupNotifier) -> Result<Running<DB>, Error> {
        let tx = self.transactor(store).await?;
        if !self.enqueuer.set_running(store, tx.tasks()) {
            return Err(Error::Running {});
        }
        let running = Running::new(self.enqueuer.clone(), store.clone(), self.services(&tx, store));
        let watched = store.clone();
        tx.tasks().spawn_until_stop(async move { watched.watch().await });
        let followed = store.clone();
        let clock = self.enqueuer.clock().clone();
        tx.tasks().spawn_until_stop(async move { clock.keep_following(&followed).await });
        let services = running.services().for_background_tasks();
        if let Err(error) = runtime::prepare(&services).await {
            running.abandon().await;
            return Err(error.into());
        }
        if self.has(Role::Relay) {
            runtime::start_relay(&services, wake, &RelaySettings::default());
            runtime::start_gauges(&services);
            self.parts.retention.start(&services, store);
        }
        if self.has(Role::Consumers) {
            let bound: Vec<Bound> =
                self.parts.consumers.iter().map(|consumer| consumer.subscriber.bind(tx.store())).collect();
            runtime::start_consumers(&services, bound, &ConsumerSettings::default());
        }
        if self.parts.summary {
            runtime::start_summary(&services);
        }
        tracing::info!("{}", self.report());
        Ok(running)
    }

    /// Store and services for a command, also while processes serve the database. Starts and declares nothing.
    #[cfg(feature = "cli")]
    pub(crate) async fn attach(&self) -> Result<(SqlStore, Services), Error> {
        let store = self.open(WakeupNotifier::default()).await?;
        match self.transactor(&store).await {
            Ok(tx) => {
                let mut services = self.services(&tx, &store);
                services.broker = self.parts.broker.open_for_command(&store, services.topology());
                Ok((store, services))
            }
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    /// Transactions on this store, if its schema and the server suit.
    async fn transactor(&self, store: &SqlStore) -> Result<Transactor<Session, Session>, Error> {
        self.check(store).await?;
        let clock = self.enqueuer.clock();
        clock.sample(store).await?;
        let random = OsRandom::seeded().map_err(BuildError::from)?;
        Ok(Transactor::new(Arc::new(store.clone()), clock.port(), Arc::new(random), Tasks::default()))
    }

    /// What this process publishes and consumes, and with which guarantees.
    pub fn report(&self) -> Report {
        Report::of(self.enqueuer.events().values(), &self.parts)
    }

    fn has(&self, role: Role) -> bool {
        self.parts.roles.contains(&role)
    }

    async fn open(&self, wake: WakeupNotifier) -> Result<SqlStore, Error> {
        Ok(self.parts.location.open(self.parts.connections, self.enqueuer.clock().port(), wake).await?)
    }

    /// Refuses a schema and a server that do not suit.
    async fn check(&self, store: &SqlStore) -> Result<(), Error> {
        if let Some(setting) = store.unsuitable_settings().await?.into_iter().next() {
            return Err(Error::Setting(setting));
        }
        let version = store.schema_version().await?;
        match version.found {
            Some(found) if version.is_newer() && !version.is_compatible => {
                Err(Error::NewerSchema { found, needed: version.needed })
            }
            _ if version.is_enough() => Ok(()),
            found => Err(Error::NotMigrated { found, needed: version.needed }),
        }
    }

    /// Store, broker, event types and consumers, as the toolkit uses them.
    fn services(&self, tx: &Transactor<Session, Session>, store: &SqlStore) -> Services {
        let Parts { name, broker, consumers, .. } = self.parts.as_ref();
        let topology =
            Topology::new(&exchange(name), &format!("{name}.{DEAD_LETTERS}"), &dead_letter_key(name));
        let mut services = Services::new(tx.outbox(), broker.open(store, name), topology);
        #[cfg(feature = "otel")]
        {
            services = services.with_spans(Arc::new(crate::otel::SpanContexts), broker.system());
        }
        for event in self.enqueuer.events().values() {
            services = services.with_event(event.spec.clone());
        }
        for consumer in consumers {
            services = services.with_consumer(&consumer.subscriber, &consumer.routing_keys);
            if consumer.is_selective {
                services = services.with_selective_queue(&consumer.subscriber.queue);
            }
        }
        self.parts.retention.with_archive(services)
    }
}
