//! A unit of work or view whose statements may fail. It records the writes for the checks.

mod market;
mod outbox;
mod reads;

use handover_outbox::ports::{
    Changed, ErasureRepoWrapper, HistoryRepoWrapper, JobRepoWrapper, MonitoringRepoWrapper, StoreError,
};
use handover_outbox::wrap::{UnitWrapper, Wraps};
use marketplace::ports::{IdBlocksWrapper, MarketView, PersonalTextRepoWrapper, RequestRepoWrapper, Work};

use super::Process;
use super::unit_writes::{StatusChange, UnitWrites};
use crate::fault_kinds::{CrashPoint, Fault};
use crate::faults::OpenView;
use crate::machines::NOTHING;
use crate::run_settings::EngineFlavour;

/// A faulty unit of work or view, depending on `I`.
pub(super) struct Faulty<I: ?Sized> {
    inner: Box<I>,
    process: Process,
    flavour: EngineFlavour,
    failed: bool,
    writes: UnitWrites,
    /// Marks the task as having an open view.
    _viewing: Option<OpenView>,
}

type Unit = Faulty<Work>;

impl<I: ?Sized> Faulty<I> {
    pub(super) fn new(
        inner: Box<I>,
        process: Process,
        flavour: EngineFlavour,
        viewing: Option<OpenView>,
    ) -> Faulty<I> {
        Faulty { inner, process, flavour, failed: false, writes: UnitWrites::default(), _viewing: viewing }
    }

    fn transition(
        &mut self,
        transition: (&'static str, &'static str, &'static str),
        what: impl FnOnce() -> String,
    ) {
        self.writes.transition(&self.process, transition, what);
    }

    /// Adds the first transition of an object.
    fn inserted(&mut self, machine: &'static str, to: &'static str, what: impl FnOnce() -> String) {
        self.transition((machine, NOTHING, to), what);
    }

    /// Adds a transition if the statement changed the object, whose status was `from`.
    fn advanced(
        &mut self,
        changed: Changed,
        (machine, from, to): (&'static str, Option<&'static str>, &'static str),
        what: impl FnOnce() -> String,
    ) {
        if let (Changed::One, Some(from)) = (changed, from) {
            self.transition((machine, from, to), what);
        }
    }

    /// Records that an order, payment or refund, whose status was `from`, was written, if its status changed.
    fn written(&mut self, changed: Changed, from: Option<&'static str>, after: StatusChange) {
        if changed == Changed::One && from != Some(after.status) {
            self.writes.record_status_change(after);
        }
    }

    fn cover(&self, place: &'static str) {
        self.process.faults.cover(|coverage| coverage.situation(place));
    }

    fn statement(&mut self) -> Result<(), StoreError> {
        if self.failed && self.flavour == EngineFlavour::Postgres {
            return Err(StoreError::Backend("the transaction is aborted".into()));
        }
        let faults = &self.process.faults;
        let error = if faults.occurs(Fault::Deadlock) {
            StoreError::Transient("deadlock found when trying to get lock".into())
        } else if faults.occurs(Fault::LockTimeout) {
            StoreError::Transient("lock wait timeout exceeded".into())
        } else if faults.occurs(Fault::Refused) {
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
        // A crash takes precedence over a fault of the statement.
        match (port, method) {
            ("ArchiveRepo", "add_archive_file") => {
                self.process.maybe_crash(CrashPoint::AfterFileBeforeRecord).await;
            }
            ("AssetRepo", "put_holds") => self.process.maybe_crash(CrashPoint::InLock).await,
            ("OutboxRepo", "fence" | "mark_sent_if_owned") => {
                self.process.maybe_crash(CrashPoint::AfterConfirmBeforeMark).await;
            }
            _ => {}
        }
        self.statement()
    }
}

// No invariant covers writes of history, jobs, id blocks and request records, so these wrappers record nothing.
impl HistoryRepoWrapper for Unit {}
impl ErasureRepoWrapper for Unit {}
impl JobRepoWrapper for Unit {}
impl MonitoringRepoWrapper for Unit {}
impl IdBlocksWrapper for Unit {}
impl RequestRepoWrapper for Unit {}
impl PersonalTextRepoWrapper for Unit {}

impl UnitWrapper for Unit {
    async fn commit(self) -> Result<(), StoreError> {
        let Faulty { mut inner, process, failed, mut writes, .. } = self;
        process.faults.delay().await;
        if failed {
            return Err(StoreError::Transient("an earlier statement failed".into()));
        }
        if process.faults.occurs(Fault::CommitLost) {
            return Err(StoreError::Transient("serialization failure".into()));
        }
        let unknown = || StoreError::CommitUnknown("the connection was lost in COMMIT".into());
        if process.faults.occurs(Fault::CommitUnknownLost) {
            return Err(unknown());
        }
        writes.check_owner(inner.as_mut()).await?;
        writes.check_purses(inner.as_mut()).await?;
        let found = writes.webhooks.check_applied(inner.as_mut()).await?;
        writes.violations.extend(found);
        inner.commit().await?;
        writes.record_commit(&process);
        for point in writes.crash_points() {
            process.maybe_crash(point).await;
        }
        if process.faults.occurs(Fault::CommitUnknownApplied) {
            return Err(unknown());
        }
        process.faults.delay().await;
        Ok(())
    }
}
