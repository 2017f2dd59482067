//! Wrappers of units and views: faults and counters for tests, with no line for a method that they do not change.
//!
//! Beside each port `P` with `#[wrappable]` there is `PWrapper`, whose methods call those of the inner unit; a wrapper
//! implements it with the methods that differ. [`Wrapped<W>`](Wrapped) implements `P` if `W` implements `PWrapper`.

use std::future::{Future, ready};

use async_trait::async_trait;

use crate::ports::{OutboxUnit, OutboxView, StoreError, UnitOfWork, View};

/// What is around a unit or view.
pub trait Wraps: Send {
    /// The unit or view within.
    type Inner: ?Sized + Send;

    /// The unit or view within.
    fn inner(&mut self) -> &mut Self::Inner;

    /// Called before each method of a port; after an error the method is not called.
    fn before(
        &mut self,
        _port: &'static str,
        _method: &'static str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(Ok(()))
    }
}

/// A wrapper of units.
pub trait UnitWrapper: Wraps<Inner: UnitOfWork> {
    /// Commits the inner unit, or not ([`UnitOfWork::commit`]).
    fn commit(self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A unit or view that works as its wrapper says.
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

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        self.0.commit().await
    }
}
