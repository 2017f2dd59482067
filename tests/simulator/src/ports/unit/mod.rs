//! A unit of work or a view that may fail at any statement, and remembers what it wrote.
//!
//! Each port of the store is passed on by [`passes_on!`], in the file of what it is about.

mod assets;
mod consuming;
mod effects;
mod leases;
mod letters;
mod market;
mod outbox;
mod reads;
mod requests;

use async_trait::async_trait;
use handover_outbox::ports::{Changed, OutboxUnit, OutboxView, StoreError, UnitOfWork, View};
use marketplace::ports::{MarketUnit, MarketView, Work};

use super::Process;
use super::store::Flavour;
use super::wrote::Wrote;
use crate::faults::{Fault, Viewing};
use crate::machines::NOTHING;

/// A unit or a view, whichever `I` is.
pub(super) struct Faulty<I: ?Sized> {
    inner: Box<I>,
    process: Process,
    flavour: Flavour,
    failed: bool,
    wrote: Wrote,
    /// A view is open for as long as this lives.
    _viewing: Option<Viewing>,
}

impl<I: ?Sized> Faulty<I> {
    fn inner(&mut self) -> &mut I {
        &mut self.inner
    }

    pub(super) fn new(
        inner: Box<I>,
        process: Process,
        flavour: Flavour,
        viewing: Option<Viewing>,
    ) -> Faulty<I> {
        Faulty { inner, process, flavour, failed: false, wrote: Wrote::default(), _viewing: viewing }
    }

    fn step(&mut self, step: (&'static str, &'static str, &'static str), what: impl FnOnce() -> String) {
        self.wrote.step(&self.process, step, what);
    }

    /// The first step of something.
    fn inserted(&mut self, machine: &'static str, to: &'static str, what: impl FnOnce() -> String) {
        self.step((machine, NOTHING, to), what);
    }

    /// A step of something that was `from` before the statement, if the statement changed it.
    fn advanced(
        &mut self,
        changed: Changed,
        (machine, from, to): (&'static str, Option<&'static str>, &'static str),
        what: impl FnOnce() -> String,
    ) {
        if let (Changed::One, Some(from)) = (changed, from) {
            self.step((machine, from, to), what);
        }
    }

    fn cover(&self, place: &'static str) {
        self.process.faults.cover(|coverage| coverage.place(place));
    }

    fn statement(&mut self) -> Result<(), StoreError> {
        if self.failed && self.flavour == Flavour::Postgres {
            return Err(StoreError::Backend("the transaction is aborted".into()));
        }
        let faults = &self.process.faults;
        let error = if faults.strikes(Fault::Deadlock) {
            StoreError::Transient("deadlock found when trying to get lock".into())
        } else if faults.strikes(Fault::LockTimeout) {
            StoreError::Transient("lock wait timeout exceeded".into())
        } else if faults.strikes(Fault::Refused) {
            StoreError::Backend("the disk is full".into())
        } else {
            return Ok(());
        };
        self.failed = true;
        Err(error)
    }
}

/// Writes each method of a port once: a fault, or the inner call.
///
/// `dies POINT` may be as far as the process gets. `of |unit| arg = ..` passes something else on instead of an argument.
/// `first |unit| was = ..` looks at what is there before the call, or
/// refuses it; `was` is for what comes later. `then |unit, result| ..` comes after a call that succeeded: it records
/// or changes the result. Both may await, fail, and use the arguments.
macro_rules! passes_on {
    (impl $port:ident for $bound:ident { $($methods:tt)* }) => {
        passes_on! { impl $port of inner for $bound { $($methods)* } }
    };
    (impl $port:ident of $half:ident for $bound:ident { $(
        fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty
            $(, dies $point:path)?
            $(, of |$owner:ident| $own:ident = $owned:expr)?
            $(, first |$before:ident| $was:pat = $first:expr)?
            $(, then |$after:ident, $result:ident| $then:expr)?;
    )* }) => {
        #[async_trait::async_trait]
        impl<I: $bound + ?Sized> $port for $crate::ports::unit::Faulty<I> {
            $(async fn $name(&mut self, $($arg: $ty),*) -> Result<$out, StoreError> {
                $(self.process.may_die($point).await;)?
                self.statement()?;
                $(
                    let $own = {
                        let $owner = &mut *self;
                        $owned
                    };
                    let $own = &*$own;
                )?
                $(let $was = {
                    let $before = &mut *self;
                    $first
                };)?
                #[allow(unused_mut, reason = "not every call has somebody who looks at its result")]
                let mut result = self.$half().$name($($arg),*).await?;
                $({
                    let ($after, $result) = (&mut *self, &mut result);
                    $then
                })?
                Ok(result)
            })*
        }
    };
}
use passes_on;

impl<I: MarketView + ?Sized> Faulty<I> {
    fn inner_outbox_view(&mut self) -> &mut dyn OutboxView {
        self.inner.outbox_view()
    }
}

impl<I: MarketUnit + ?Sized> Faulty<I> {
    fn inner_outbox(&mut self) -> &mut dyn OutboxUnit {
        self.inner.outbox()
    }
}

impl<I: MarketView + ?Sized + 'static> View for Faulty<I> {
    fn outbox_view(&mut self) -> &mut dyn OutboxView {
        self
    }
}

#[async_trait]
impl UnitOfWork for Faulty<Work> {
    fn outbox(&mut self) -> &mut dyn OutboxUnit {
        self
    }

    async fn commit(self: Box<Self>) -> Result<(), StoreError> {
        let Faulty { mut inner, process, failed, mut wrote, .. } = *self;
        process.faults.delay().await;
        if failed {
            return Err(StoreError::Transient("an earlier statement failed".into()));
        }
        if process.faults.strikes(Fault::CommitLost) {
            return Err(StoreError::Transient("serialization failure".into()));
        }
        let unknown = || StoreError::CommitUnknown("the connection was lost in COMMIT".into());
        if process.faults.strikes(Fault::CommitUnknownLost) {
            return Err(unknown());
        }
        wrote.check_owner(inner.as_mut()).await?;
        wrote.check_purses(inner.as_mut()).await?;
        inner.commit().await?;
        wrote.happened(&process);
        for point in wrote.crash_points() {
            process.may_die(point).await;
        }
        if process.faults.strikes(Fault::CommitUnknownApplied) {
            return Err(unknown());
        }
        process.faults.delay().await;
        Ok(())
    }
}
