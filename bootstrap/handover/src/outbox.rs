//! The outbox of one process.

use std::ops::Deref;
use std::sync::Arc;

use handover_outbox::consumers::Bound;
use handover_outbox::topology::Topology;
use handover_outbox::{ConsumerSettings, Outbox as Services, RelaySettings, runtime};

#[cfg(feature = "cli")]
use crate::backend::OpenStore;
use crate::backend::{Backend, Opened, Started};
use crate::enqueue::Enqueuer;
use crate::error::Error;
use crate::parts::{DEAD_LETTERS, Parts, Role, dead_letter_key, exchange};
use crate::report::Report;
use crate::running::{Ending, Running};

/// The outbox of one process: event types, consumers, and where they are stored. Clones share it.
///
/// Dereferences to [`Enqueuer`], which enqueues events in the service's own transactions.
///
/// ```
/// use std::time::Duration;
///
/// use handover::{Event, Outbox};
/// use serde::{Deserialize, Serialize};
/// use sqlx::SqlitePool;
///
/// #[derive(Serialize, Deserialize, Event)]
/// #[event(name = "book.lent", aggregate = "book")]
/// struct BookLent {
///     #[event(key)]
///     book: i64,
/// }
///
/// async fn run(pool: SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
///     let outbox = Outbox::builder(pool.clone()).event::<BookLent>().build()?;
///     outbox.migrate().await?;
///     let running = outbox.start().await?;
///     let mut tx = pool.begin().await?;
///     outbox.enqueue(&mut tx, BookLent { book: 1 }).await?;
///     tx.commit().await?;
///     Ok(running.stop(Duration::from_secs(15)).await?)
/// }
/// ```
pub struct Outbox<B: Backend> {
    enqueuer: Enqueuer<B>,
    parts: Arc<Parts<B>>,
}

impl<B: Backend> Clone for Outbox<B> {
    fn clone(&self) -> Outbox<B> {
        Outbox { enqueuer: self.enqueuer.clone(), parts: Arc::clone(&self.parts) }
    }
}

impl<B: Backend> Deref for Outbox<B> {
    type Target = Enqueuer<B>;

    fn deref(&self) -> &Enqueuer<B> {
        &self.enqueuer
    }
}

impl<B: Backend> Outbox<B> {
    pub(crate) fn new(enqueuer: Enqueuer<B>, parts: Parts<B>) -> Outbox<B> {
        Outbox { enqueuer, parts: Arc::new(parts) }
    }

    /// Starts the roles of this process: publishing, and applying events. Call it once, after `migrate`.
    pub async fn start(&self) -> Result<Running<B>, Error> {
        let opened = self.open().await?;
        let store = Arc::clone(&opened.store);
        let running = self.start_on(opened).await;
        if running.is_err() {
            store.close().await;
        }
        running
    }

    async fn start_on(&self, opened: Opened<B>) -> Result<Running<B>, Error> {
        let services = self.services(&opened);
        let Opened { tx, wake, store, .. } = opened;
        if tx.stopping().is_cancelled() {
            return Err(Error::Stopped {});
        }
        let started = Started {
            store: Arc::clone(&store),
            #[cfg(feature = "sqlx")]
            tasks: tx.tasks().clone(),
        };
        if !self.enqueuer.set_running(started) {
            return Err(Error::Running {});
        }
        let running = Running::new(self.enqueuer.clone(), Arc::clone(&store), services);
        let ending = Ending::of(&running);
        let watched = Arc::clone(&store);
        tx.tasks().spawn_until_stop(async move { watched.watch().await });
        let followed = tx.outbox();
        let clock = self.enqueuer.clock().clone();
        tx.tasks().spawn_until_stop(async move { clock.keep_following(&followed).await });
        let services = running.services().for_background_tasks();
        runtime::prepare(&services).await?;
        ending.cancel();
        if self.has(Role::Relay) {
            runtime::start_relay(&services, &wake, &RelaySettings::default());
            runtime::start_gauges(&services);
            self.parts.retention.start(&services, store.as_ref());
        }
        if self.has(Role::Consumers) {
            let bound: Vec<Bound> =
                self.parts.consumers.iter().map(|consumer| consumer.subscriber.bind(tx.store())).collect();
            let services = services.with_handler_units(store.handler_units());
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
    pub(crate) async fn attach(&self) -> Result<(Arc<dyn OpenStore>, Services), Error> {
        let opened = self.open().await?;
        let mut services = self.services(&opened);
        if let Some(broker) = &self.parts.broker {
            services.broker = broker.open_for_command(services.topology());
        }
        Ok((opened.store, services))
    }

    /// What this process publishes and consumes, and with which guarantees.
    pub fn report(&self) -> Report {
        Report::of(self.enqueuer.events().values(), &self.parts)
    }

    fn has(&self, role: Role) -> bool {
        self.parts.roles.contains(&role)
    }

    /// Opens the store, if its schema and the server suit, and adjusts the clock.
    async fn open(&self) -> Result<Opened<B>, Error> {
        let broker = self.parts.broker.as_ref().map(|broker| broker.open(&self.parts.name));
        let opened = B::open(self.enqueuer.place(), broker).await?;
        if let Err(error) = self.enqueuer.clock().sample(&opened.tx.outbox()).await {
            opened.store.close().await;
            return Err(error.into());
        }
        Ok(opened)
    }

    /// Store, broker, event types and consumers, as the toolkit uses them.
    fn services(&self, opened: &Opened<B>) -> Services {
        let Parts { name, consumers, .. } = self.parts.as_ref();
        let topology =
            Topology::new(&exchange(name), &format!("{name}.{DEAD_LETTERS}"), &dead_letter_key(name));
        let mut services = Services::new(opened.tx.outbox(), Arc::clone(&opened.broker), topology);
        #[cfg(feature = "otel")]
        {
            let system = crate::broker::system(self.parts.broker.as_ref());
            services = services.with_spans(Arc::new(crate::otel::SpanContexts), system);
        }
        for event in self.enqueuer.events().values() {
            services = services.with_event(event.spec.clone());
        }
        for event in consumers.iter().flat_map(|consumer| &consumer.received) {
            services = services.with_event(event.spec.clone());
        }
        for consumer in consumers {
            let subscriber = &consumer.subscriber;
            let keys = &consumer.routing_keys;
            services = match &consumer.receives_from {
                Some(exchange) => services.with_receiving_consumer(subscriber, exchange, keys),
                None => services.with_consumer(subscriber, keys),
            };
            if consumer.is_selective {
                services = services.with_selective_queue(&consumer.subscriber.queue);
            }
        }
        self.parts.retention.with_archive(services.with_alerts(self.parts.alerts.iter().copied()))
    }
}
