//! Continuous reconciliation: compares what has settled, records the findings, and repairs what needs no decision of a person.
//!
//! Two jobs of the leader share the work. One compares each order soon after its last change; the other compares, at a longer
//! interval, all orders of the window, the orders of unresolved findings, and what belongs to no order of the window.
//!
//! **Invariant:** no event takes effect twice. If consumers applied an event before its outbox row was lost, the event is
//! appended with its old id, so these consumers ignore it. The id of an event that every consumer rejected is not used again.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

use super::ConsistencySettings;
use crate::use_cases::operations::{Operations, ReconcileContinuously, Scope};
use handover_outbox::jobs::{Job, Leader, Periodic, Progress, RunBy};
use handover_outbox::ports::{Leadership, StoreError};

#[derive(Clone)]
pub struct ContinuousReconciliation {
    operations: Operations,
    settings: ConsistencySettings,
    /// End of the window of the last run of the first job; `None` before the first run.
    compared_until: Arc<Mutex<Option<DateTime<Utc>>>>,
}

impl ContinuousReconciliation {
    pub fn new(operations: Operations, settings: ConsistencySettings) -> ContinuousReconciliation {
        ContinuousReconciliation { operations, settings, compared_until: Arc::default() }
    }

    /// Starts both jobs on the leader: the runs of several processes would read the same orders.
    pub fn start(self, leader: &Leader) {
        let tx = self.operations.tx.outbox();
        let run_by = RunBy::Leader(leader.clone());
        Periodic::new("Reconciliation", self.settings.recent_interval, run_by.clone())
            .start(&tx, Recent(self.clone()));
        Periodic::new("OrderAssetConsistency", self.settings.scan_interval, run_by)
            .start(&tx, Complete(self));
    }

    /// Compares the orders that changed between one and two intervals ago, and those since the last run. Returns the number of
    /// repaired findings.
    pub async fn compare_recent(&self) -> Result<usize, StoreError> {
        let interval = TimeDelta::from_std(self.settings.recent_interval).unwrap_or(TimeDelta::MAX);
        let until = self.ago(interval);
        let last = *self.compared_until.lock().unwrap_or_else(PoisonError::into_inner);
        let since = match last {
            // The other job compares older orders.
            Some(last) => last.clamp(self.window_start().min(until), until),
            None => until.checked_sub_signed(interval).unwrap_or_default(),
        };
        let repaired = self.run(Scope::Orders, since, until).await?;
        if !self.operations.tx.stopping().is_cancelled() {
            *self.compared_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        }
        Ok(repaired)
    }

    /// Compares all orders of the window, and the rows that belong to no order of it. Returns the number of repaired findings.
    pub async fn compare_all(&self) -> Result<usize, StoreError> {
        self.run(Scope::Complete, self.window_start(), self.operations.tx.now()).await
    }

    fn window_start(&self) -> DateTime<Utc> {
        self.ago(TimeDelta::from_std(self.settings.scan_window).unwrap_or(TimeDelta::MAX))
    }

    fn ago(&self, time: TimeDelta) -> DateTime<Utc> {
        self.operations.tx.now().checked_sub_signed(time).unwrap_or_default()
    }

    async fn run(
        &self,
        scope: Scope,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<usize, StoreError> {
        let grace = self.settings.recent_interval;
        let command = ReconcileContinuously { scope, since, until, grace, batch: self.settings.batch };
        let report = self.operations.reconcile_continuously(command).await?;
        Ok(report.findings.iter().filter(|finding| finding.repair.is_some()).count())
    }
}

struct Recent(ContinuousReconciliation);

#[async_trait]
impl Job for Recent {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        self.0.compare_recent().await.map(|_| Progress::Done)
    }
}

struct Complete(ContinuousReconciliation);

#[async_trait]
impl Job for Complete {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        self.0.compare_all().await.map(|_| Progress::Done)
    }
}
