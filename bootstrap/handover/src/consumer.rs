//! A consumer as the builder receives it, and its functions as handlers of the toolkit.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use handover_outbox::consumers::{
    Applied, Event as StoredEvent, ExternalHandler, Handler, HandlerError as StoredError, Subscriber,
};
use handover_outbox::{BoxFuture, OwnSettings};

use crate::backend::Backend;
use crate::data::Resources;
use crate::handler::{self, AtLeastOnce, EffectCall, HandlerError, Handlers, InTransaction, TransactionCall};
use crate::layer::{Call, Layer};
use crate::registration::Registration;

/// The functions of a consumer, from [`in_transaction`](crate::in_transaction) or
/// [`at_least_once`](crate::at_least_once), for an outbox on the database or store `B`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a consumer of an outbox on `{B}`",
    label = "expected `in_transaction(..)` or `at_least_once(..)`",
    note = "the functions of `in_transaction` take the connection of the same database as the pool of the builder, or the unit of \
            work of its store"
)]
pub trait IntoConsumer<B: Backend> {
    #[doc(hidden)]
    fn into_consumer(self, name: String) -> Consumer<B::Unit>;
}

/// A consumer of which queue and values are not known yet.
#[doc(hidden)]
pub struct Consumer<U: ?Sized> {
    pub(crate) name: String,
    pub(crate) settings: OwnSettings,
    pub(crate) is_selective: bool,
    /// Exchange of the service that publishes the events; `None`: this one.
    pub(crate) receives_from: Option<String>,
    pub(crate) events: Vec<Registration>,
    /// For each function, the type of a value that it needs and that was not given.
    pub(crate) missing: Vec<fn(&Resources) -> Option<&'static str>>,
    pub(crate) connect: Box<dyn FnOnce(String, Shared) -> Subscriber<U> + Send + Sync>,
}

impl<U: ?Sized> Consumer<U> {
    /// The event types that are received from another service.
    pub(crate) fn received(&self) -> impl Iterator<Item = &Registration> {
        self.events.iter().filter(|_| self.receives_from.is_some())
    }
}

impl<B: Backend> IntoConsumer<B> for InTransaction<B::Transaction> {
    fn into_consumer(self, name: String) -> Consumer<B::Unit> {
        consumer::<B, _>(name, self, |queue, calls| Subscriber::new(queue, Arc::new(calls)))
    }
}

impl<B: Backend> IntoConsumer<B> for AtLeastOnce {
    fn into_consumer(self, name: String) -> Consumer<B::Unit> {
        consumer::<B, _>(name, self, |queue, calls| Subscriber::external(queue, Arc::new(calls)))
    }
}

fn consumer<B: Backend, F: Send + Sync + 'static>(
    name: String,
    handlers: Handlers<F>,
    subscriber: fn(String, Calls<B, F>) -> Subscriber<B::Unit>,
) -> Consumer<B::Unit> {
    Consumer {
        name: name.clone(),
        settings: handlers.settings.clone(),
        is_selective: handlers.is_selective,
        receives_from: handlers.receives_from.clone(),
        events: handlers.functions.iter().map(|function| function.event.clone()).collect(),
        missing: handlers.functions.iter().map(|function| function.missing).collect(),
        connect: Box::new(move |queue, shared| {
            let settings = handlers.settings.clone();
            let calls = Calls { name, queue: queue.clone(), handlers, shared, backend: PhantomData };
            subscriber(queue, calls).with_settings(settings)
        }),
    }
}

/// What all consumers of an outbox share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) resources: Arc<Resources>,
    /// Name of the messaging system in spans.
    pub(crate) system: &'static str,
    /// Exchange of the service.
    pub(crate) exchange: Arc<str>,
    /// The first layer is the outermost.
    pub(crate) layers: Arc<[Box<dyn Layer>]>,
}

/// The functions of a consumer with what they share.
struct Calls<B, F> {
    name: String,
    queue: String,
    handlers: Handlers<F>,
    shared: Shared,
    backend: PhantomData<fn() -> B>,
}

impl<B, F> Calls<B, F> {
    fn event_types(&self) -> Vec<&str> {
        self.handlers.functions.iter().map(|function| function.event.name).collect()
    }

    /// Runs a call of a function inside the layers.
    async fn run(
        &self,
        event: &StoredEvent,
        call: BoxFuture<'_, handler::Result<Applied>>,
    ) -> Result<Applied, StoredError> {
        let registered = self.handlers.functions.iter().map(|function| &function.event);
        let registered = registered.filter(|registered| registered.name == event.row.event_type);
        let routing_key = registered.map(|registered| registered.routing_key).next().unwrap_or_default();
        let facts = Call {
            system: self.shared.system,
            exchange: &self.shared.exchange,
            routing_key,
            queue: &self.queue,
            consumer: &self.name,
            event,
        };
        let layers = self.shared.layers.iter().rev();
        let layered = layers.fold(call, |call, layer| layer.around(facts, call));
        layered.await.map_err(HandlerError::into_stored)
    }
}

#[async_trait]
impl<B: Backend> Handler<B::Unit> for Calls<B, TransactionCall<B::Transaction>> {
    fn name(&self) -> &str {
        &self.name
    }

    fn event_types(&self) -> Vec<&str> {
        Calls::event_types(self)
    }

    async fn apply(&self, unit: &mut B::Unit, events: &[StoredEvent]) -> Result<Vec<Applied>, StoredError> {
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            let call = self.handlers.function(&event.row.event_type)?;
            let transaction = B::transaction(unit).await?;
            applied.push(self.run(event, call(event, transaction, &self.shared.resources)).await?);
        }
        Ok(applied)
    }
}

#[async_trait]
impl<B: Backend> ExternalHandler for Calls<B, EffectCall> {
    fn name(&self) -> &str {
        &self.name
    }

    fn event_types(&self) -> Vec<&str> {
        Calls::event_types(self)
    }

    async fn call(&self, event: &StoredEvent) -> Result<Applied, StoredError> {
        let call = self.handlers.function(&event.row.event_type)?;
        self.run(event, call(event, &self.shared.resources)).await
    }
}
