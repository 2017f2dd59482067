//! A unit of work or a view that may fail at any statement, and remembers what it wrote.

mod assets;
mod consuming;
mod effects;
mod letters;
mod market;
mod outbox;
mod reads;

use handover_outbox::ports::{Changed, HistoryRepoWrapper, StoreError};
use handover_outbox::wrap::{UnitWrapper, Wraps};
use marketplace::ports::{IdBlocksWrapper, MarketView, RequestRepoWrapper, Work};

use super::Process;
use super::store::Flavour;
use super::wrote::Wrote;
use crate::faults::{CrashPoint, Fault, Viewing};
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

type Unit = Faulty<Work>;

impl<I: ?Sized> Faulty<I> {
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

impl<I: MarketView + ?Sized> Wraps for Faulty<I> {
    type Inner = I;

    fn inner(&mut self) -> &mut I {
        &mut self.inner
    }

    async fn before(&mut self, port: &'static str, method: &'static str) -> Result<(), StoreError> {
        // A crash comes before any fault of the statement.
        match (port, method) {
            ("AssetRepo", "put_holds") => self.process.may_die(CrashPoint::InLock).await,
            ("OutboxRepo", "fence") => self.process.may_die(CrashPoint::AfterConfirmBeforeMark).await,
            _ => {}
        }
        self.statement()
    }
}

// Writes that no invariant is about.
impl HistoryRepoWrapper for Unit {}
impl IdBlocksWrapper for Unit {}
impl RequestRepoWrapper for Unit {}

impl UnitWrapper for Unit {
    async fn commit(self) -> Result<(), StoreError> {
        let Faulty { mut inner, process, failed, mut wrote, .. } = self;
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
