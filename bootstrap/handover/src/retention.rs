//! The jobs that delete or archive old rows of the outbox's tables.

use std::sync::Arc;
use std::time::Duration;

use handover_outbox::archive::{
    Archive, ArchiveJob, ArchiveStorage, MIN_RETENTION, NoNeededEvents, RetentionPolicy,
};
use handover_outbox::jobs::Leader;
use handover_outbox::webhooks::WebhookRetention;
use handover_outbox::{AuditRetention, Outbox as Services};

use crate::backend::OpenStore;
use crate::error::BuildError;

/// Lease of the process that runs the jobs.
const LEASE: &str = "handover-retention";
/// Length of the lease in milliseconds. The jobs run once an hour, so that another process may take over late.
const LEASE_MS: u32 = 30_000;
/// Interval of the archive.
const ARCHIVE_INTERVAL: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Default time for which audit entries of reads stay.
const KEEP_AUDIT_READS: Duration = DAY.saturating_mul(30);

/// How long old rows stay.
pub(crate) struct Retention {
    pub(crate) audit_reads: Duration,
    pub(crate) webhook_deliveries: Duration,
    /// Where events go, and when; `None`: they stay.
    pub(crate) archive: Option<(Arc<dyn ArchiveStorage>, RetentionPolicy)>,
}

impl Default for Retention {
    fn default() -> Retention {
        let webhook_deliveries = WebhookRetention::DEFAULT;
        Retention { audit_reads: KEEP_AUDIT_READS, webhook_deliveries, archive: None }
    }
}

impl Retention {
    /// Refuses times that are too short.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let archive = self.archive.as_ref().map(|(_, policy)| policy.shortest());
        let times = [
            ("keep_audit_reads", Some(self.audit_reads), AuditRetention::MIN),
            ("keep_webhook_deliveries", Some(self.webhook_deliveries), DAY),
            ("archive", archive, MIN_RETENTION),
        ];
        for (setting, time, min) in times {
            if let Some(time) = time.filter(|time| *time < min) {
                return Err(BuildError::ShortRetention { setting, time, min });
            }
        }
        Ok(())
    }

    /// These services with the archive.
    pub(crate) fn with_archive(&self, services: Services) -> Services {
        match &self.archive {
            Some((storage, policy)) => {
                services.with_archive(Arc::clone(storage), policy.clone(), Arc::new(NoNeededEvents))
            }
            None => services,
        }
    }

    /// Starts the jobs. One process of all that do this runs them.
    pub(crate) fn start(&self, services: &Services, store: &dyn OpenStore) {
        let leader = Leader::start(&services.tx, LEASE, LEASE_MS);
        AuditRetention::new(services, self.audit_reads).start(&leader);
        WebhookRetention::new(services, self.webhook_deliveries).start(&leader);
        if let Some(archive) = Archive::of(services) {
            let job = ArchiveJob::new(Some(archive), store.monitor());
            job.start(&services.tx, &leader, ARCHIVE_INTERVAL);
        }
    }
}
