//! Wrappers around units of work and views, for fault injection and counting in tests. A wrapper implements only the
//! methods that it changes.
//!
//! For each port `P` marked `#[wrappable]` the macro generates a trait `PWrapper`, whose default methods call the
//! inner unit of work. [`Wrapped<W>`](Wrapped) implements `P` if `W` implements `PWrapper`.

use std::future::{Future, ready};

use async_trait::async_trait;

use crate::ports::{OutboxUnit, OutboxView, StoreError, UnitOfWork, View};

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

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await
    }
}
