//! The checks of a run: of the ledger while it runs, of every invariant when no work is pending, and after the recovery
//! by operators.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::Instant;

use super::World;
use crate::actors::{archive, operators};
use crate::oracle::{self, ArchiveReader, Evidence};
use crate::run_settings::ARCHIVE_INTERVAL;

/// Maximum time until no work is pending after the end of the fault phase.
const IDLE_WITHIN: Duration = Duration::from_secs(180);
/// Interval at which the ledger is checked.
const LEDGER_CHECK_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum time until events leave the outbox when their retention time is over.
const ARCHIVED_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of times that operators redrive and replay everything.
const MAX_RECOVERIES: u32 = 4;

impl World {
    /// Checks the ledger periodically.
    pub(super) async fn audits(&self) {
        loop {
            self.faults.sleep(LEDGER_CHECK_INTERVAL).await;
            for violation in
                oracle::ledger_violations(&self.store).await.expect("reads without faults succeed")
            {
                self.faults.violation(violation);
            }
        }
    }

    pub(super) fn evidence(&self, recovered: bool) -> Evidence {
        Evidence {
            store: Arc::new(self.store.clone()),
            broker: Arc::new(self.broker.clone()),
            archive: self.run_settings.has_archive.then(|| ArchiveReader::of(self.archive.clone())),
            app: self.plain_app(),
            journal: self.journal.clone(),
            gateway_model: self.gateway_model.clone(),
            faults: self.faults.clone(),
            recovered,
        }
    }

    /// Operators redrive and replay everything, several times because one replay can enable another: the replay of an
    /// asset's commit succeeds only after its lock has been replayed.
    pub(super) async fn recover(&self) -> Vec<String> {
        let evidence = self.evidence(true);
        let mut pending = Vec::new();
        if self.run_settings.has_archive {
            archive::recover(&self.app(0), &self.faults).await;
        }
        for _ in 0..MAX_RECOVERIES {
            let app = self.app(0);
            operators::recover(&app, &self.faults, &self.journal).await;
            self.operators_of_webhooks(&app).recover().await;
            pending = self.wait_until_idle(&evidence).await;
            while operators::release_unpublishable(&self.app(0), &self.faults).await {
                pending = self.wait_until_idle(&evidence).await;
            }
            let recoverable = oracle::recoverable(&self.store).await.expect("reads without faults succeed");
            if !pending.is_empty() || recoverable == 0 {
                break;
            }
        }
        if self.run_settings.has_archive && pending.is_empty() {
            pending = self.wait_until_archived(&evidence).await;
            archive::deliver_archived(&evidence, &self.broker).await.expect("reads without faults succeed");
            pending.extend(self.wait_until_idle(&evidence).await);
        }
        self.check(&evidence, pending).await
    }

    /// Waits until no work is pending and every event that may leave the outbox has left it; returns what is left. No process
    /// runs until the retention time is over: running processes would take most of the time of the test.
    async fn wait_until_archived(&self, evidence: &Evidence) -> Vec<String> {
        self.interrupt().await;
        let mut pending = self.wait_until_idle(evidence).await;
        let deadline = Instant::now() + ARCHIVED_WITHIN;
        loop {
            let left = oracle::archivable(evidence).await.expect("reads without faults succeed");
            if left == 0 {
                return pending;
            }
            if Instant::now() > deadline {
                pending.push(format!("{left} events may leave the outbox"));
                return pending;
            }
            self.faults.sleep(ARCHIVE_INTERVAL).await;
        }
    }

    /// Waits until no work is pending and checks every invariant.
    pub(super) async fn check_when_idle(&self, recovered: bool) -> Vec<String> {
        let evidence = self.evidence(recovered);
        let pending = self.wait_until_idle(&evidence).await;
        self.check(&evidence, pending).await
    }

    /// Returns the violations: work that is still pending, and violated invariants.
    async fn check(&self, evidence: &Evidence, pending: Vec<String>) -> Vec<String> {
        let mut violations: Vec<String> = pending.into_iter().map(|what| format!("stuck: {what}")).collect();
        violations.extend(oracle::violations(evidence).await.expect("reads without faults succeed"));
        violations
    }

    /// The shipped orders, if the service completes them automatically.
    async fn orders_to_complete(&self, evidence: &Evidence) -> Vec<String> {
        if self.run_settings.settings.auto_completion.after.is_none() {
            return Vec::new();
        }
        let later = evidence.app.tx.now() + TimeDelta::hours(1);
        let mut view = evidence.store.view().await.expect("reads without faults succeed");
        let shipped = view.orders_shipped(later, None, 20).await.expect("reads without faults succeed");
        shipped.iter().map(|order| format!("order {} is shipped", order.id)).collect()
    }

    /// Waits until no work is pending; returns what is still pending after [`IDLE_WITHIN`].
    async fn wait_until_idle(&self, evidence: &Evidence) -> Vec<String> {
        let deadline = Instant::now() + IDLE_WITHIN;
        let mut idle_checks = 0;
        loop {
            let limit = if Instant::now() > deadline { 20 } else { 1 };
            let pending = oracle::unsettled(evidence, limit).await.expect("reads without faults succeed");
            let pending = if pending.is_empty() { self.orders_to_complete(evidence).await } else { pending };
            // Two checks: a call that began in the fault phase may commit after the first one.
            idle_checks = if pending.is_empty() { idle_checks + 1 } else { 0 };
            if idle_checks > 1 || limit > 1 {
                return pending;
            }
            self.faults.sleep(Duration::from_millis(500)).await;
        }
    }
}
