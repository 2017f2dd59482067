//! Connects a handler to a store and erases the handler's unit-of-work type.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::handler::{AnyHandler, Applied, Event, ExternalHandler, HandlerError, Subscriber};
use crate::ports::{Erased, OutboxUnit, OutboxView, Store, StoreError, UnitOfWork, View};
use crate::settings::OwnSettings;

/// A handler with its queue and its store.
#[derive(Clone)]
pub struct Bound {
    pub(super) queue: Arc<str>,
    /// Name of the consumer.
    pub(super) name: Arc<str>,
    event_types: Arc<[String]>,
    /// See [`Handler::delay`].
    pub(super) delay: Duration,
    pub(super) store: Arc<HandlerStore>,
    /// The handler, if its effects are outside the database.
    pub(super) external: Option<Arc<dyn ExternalHandler>>,
    pub(super) settings: OwnSettings,
}

/// A store whose units of work can run one handler.
pub(super) type HandlerStore = dyn Store<Unit = dyn HandlerUnit, View = dyn View>;

/// A unit of work that can apply events.
#[async_trait]
pub(super) trait HandlerUnit: UnitOfWork {
    /// Calls [`Handler::apply`].
    async fn apply(&mut self, events: &[Event]) -> Result<Vec<Applied>, HandlerError>;
}

impl Bound {
    /// Name of the consumer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Event types that the handler applies.
    pub(super) fn event_types(&self) -> Vec<&str> {
        self.event_types.iter().map(String::as_str).collect()
    }

    /// Whether the handler applies events of this type.
    pub(super) fn takes(&self, event_type: &str) -> bool {
        self.event_types.iter().any(|own| own == event_type)
    }
}

impl<U: UnitOfWork + ?Sized + 'static> Subscriber<U> {
    /// Connects the handler to the store in whose units of work it runs.
    pub fn bind<V: View + ?Sized + 'static>(&self, store: &Arc<dyn Store<Unit = U, View = V>>) -> Bound {
        let (delay, external) = match &self.handler {
            AnyHandler::InTransaction(handler) => (handler.delay(), None),
            AnyHandler::External(handler) => (Duration::ZERO, Some(Arc::clone(handler))),
        };
        Bound {
            queue: (*self.queue).into(),
            name: self.name().into(),
            event_types: self.event_types().into_iter().map(str::to_owned).collect(),
            delay,
            store: Arc::new(BoundStore { store: Arc::clone(store), handler: self.handler.clone() }),
            external,
            settings: self.settings.clone(),
        }
    }
}

struct BoundStore<S: ?Sized, U: ?Sized> {
    store: Arc<S>,
    handler: AnyHandler<U>,
}

#[async_trait]
impl<S: Store + ?Sized> Store for BoundStore<S, S::Unit> {
    type Unit = dyn HandlerUnit;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn HandlerUnit>, StoreError> {
        Ok(Box::new(BoundUnit { unit: self.store.begin().await?, handler: self.handler.clone() }))
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        Ok(Box::new(Erased(self.store.view().await?)))
    }

    fn has_single_writer(&self) -> bool {
        self.store.has_single_writer()
    }
}

struct BoundUnit<U: ?Sized> {
    unit: Box<U>,
    handler: AnyHandler<U>,
}

impl<U: UnitOfWork + ?Sized> View for BoundUnit<U> {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self.unit.outbox_view()
    }
}

#[async_trait]
impl<U: UnitOfWork + ?Sized> UnitOfWork for BoundUnit<U> {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self.unit.outbox()
    }

    fn defer_writes(&mut self) {
        self.unit.defer_writes();
    }

    fn defers_writes(&mut self) -> bool {
        self.unit.defers_writes()
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.unit.commit().await
    }
}

#[async_trait]
impl<U: UnitOfWork + ?Sized + 'static> HandlerUnit for BoundUnit<U> {
    async fn apply(&mut self, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        self.handler.apply(&mut self.unit, events).await
    }
}
