//! A handler and the store in whose units it works, joined: from here on nobody knows the type of those units.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Applied, Event, Handler, HandlerError, Subscriber};
use crate::ports::{Erased, OutboxUnit, OutboxView, Store, StoreError, UnitOfWork, View};

/// A handler on its queue, and the store in whose units it works.
#[derive(Clone)]
pub struct Bound {
    /// The queue.
    pub(super) queue: &'static str,
    /// The consumer's name.
    pub(super) name: &'static str,
    /// The types it takes.
    pub(super) takes: &'static [&'static str],
    /// How long its events are on their way on purpose.
    pub(super) delay: Duration,
    pub(super) store: Arc<HandlerStore>,
}

/// A store in whose units one handler works.
pub(super) type HandlerStore = dyn Store<Unit = dyn HandlerUnit, View = dyn View>;

/// A unit of work in which events can be applied.
#[async_trait]
pub(super) trait HandlerUnit: UnitOfWork {
    /// Does what [`Handler::apply`] does.
    async fn apply(&mut self, events: &[Event]) -> Result<Vec<Applied>, HandlerError>;
}

impl Bound {
    /// The consumer's name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl<U: UnitOfWork + ?Sized + 'static> Subscriber<U> {
    /// The same subscriber at work in the units of this store.
    pub fn bind<V: View + ?Sized + 'static>(&self, store: &Arc<dyn Store<Unit = U, View = V>>) -> Bound {
        Bound {
            queue: self.queue,
            name: self.handler.name(),
            takes: self.handler.takes(),
            delay: self.handler.delay(),
            store: Arc::new(BoundStore { store: Arc::clone(store), handler: Arc::clone(&self.handler) }),
        }
    }
}

/// The two that are joined.
struct BoundStore<S: ?Sized, U: ?Sized> {
    store: Arc<S>,
    handler: Arc<dyn Handler<U>>,
}

#[async_trait]
impl<S: Store + ?Sized> Store for BoundStore<S, S::Unit> {
    type Unit = dyn HandlerUnit;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn HandlerUnit>, StoreError> {
        Ok(Box::new(BoundUnit { unit: self.store.begin().await?, handler: Arc::clone(&self.handler) }))
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        Ok(Box::new(Erased(self.store.view().await?)))
    }
}

struct BoundUnit<U: ?Sized> {
    unit: Box<U>,
    handler: Arc<dyn Handler<U>>,
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
