//! Wrappers around units of work, views and brokers, for fault injection and counting in tests. A wrapper implements only the
//! methods that it changes.
//!
//! For each port `P` marked `#[wrappable]` the macro generates a trait `PWrapper`, whose default methods call the
//! inner unit of work. [`Wrapped<W>`](Wrapped) implements `P` if `W` implements `PWrapper`. A [`BrokerWrapper`] does the same
//! for a broker.

use std::future::{Future, ready};
use std::num::NonZeroU16;

use async_trait::async_trait;

use crate::ports::{
    Broker, BrokerError, OutboxUnit, OutboxView, Outgoing, PublishOutcome, QueueDepth, QueueLoad, StoreError,
    Subscription, UnitOfWork, View,
};
use crate::topology::Topology;

/// A wrapper around a unit of work or view.
pub trait Wraps: Send {
    /// Type of the wrapped unit of work or view.
    type Inner: ?Sized + Send;

    /// The wrapped unit of work or view.
    fn inner(&mut self) -> &mut Self::Inner;

    /// Called before each method of a port. If it returns an error, the method is not called and the error is
    /// returned.
    fn before(
        &mut self,
        _port: &'static str,
        _method: &'static str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(Ok(()))
    }
}

/// A wrapper around a unit of work.
pub trait UnitWrapper: Wraps<Inner: UnitOfWork> {
    /// Commits the inner unit of work; a wrapper that injects faults may omit the commit. See [`UnitOfWork::commit`].
    fn commit(self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// See [`UnitOfWork::defer_writes`].
    fn defer_writes(&mut self) {
        self.inner().defer_writes();
    }

    /// See [`UnitOfWork::defers_writes`].
    fn defers_writes(&mut self) -> bool {
        self.inner().defers_writes()
    }
}

/// A unit of work or view that behaves as its wrapper `W` defines.
pub struct Wrapped<W>(pub W);

impl<W: Wraps> View for Wrapped<W>
where
    Wrapped<W>: OutboxView,
{
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self
    }
}

#[async_trait]
impl<W: UnitWrapper> UnitOfWork for Wrapped<W>
where
    Wrapped<W>: OutboxUnit,
{
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self
    }

    fn defer_writes(&mut self) {
        self.0.defer_writes();
    }

    fn defers_writes(&mut self) -> bool {
        self.0.defers_writes()
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await
    }
}

/// A [`Broker`] in front of another one, which it calls in each method that it does not implement.
#[async_trait]
pub trait BrokerWrapper: Send + Sync {
    /// The wrapped broker.
    fn inner(&self) -> &dyn Broker;

    /// See [`Broker::declare`].
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.inner().declare(topology).await
    }

    /// See [`Broker::publish`].
    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.inner().publish(window).await
    }

    /// See [`Broker::subscribe`].
    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        self.inner().subscribe(queue, prefetch).await
    }

    /// See [`Broker::queues`].
    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.inner().queues().await
    }

    /// See [`Broker::load`].
    async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, BrokerError> {
        self.inner().load(queues, up_to).await
    }

    /// See [`Broker::has_messages`].
    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        self.inner().has_messages(queue).await
    }

    /// See [`Broker::blocked`].
    async fn blocked(&self) -> Option<String> {
        self.inner().blocked().await
    }
}

#[async_trait]
impl<W: BrokerWrapper> Broker for W {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        BrokerWrapper::declare(self, topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        BrokerWrapper::publish(self, window).await
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        BrokerWrapper::subscribe(self, queue, prefetch).await
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        BrokerWrapper::queues(self).await
    }

    async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, BrokerError> {
        BrokerWrapper::load(self, queues, up_to).await
    }

    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        BrokerWrapper::has_messages(self, queue).await
    }

    async fn blocked(&self) -> Option<String> {
        BrokerWrapper::blocked(self).await
    }
}
