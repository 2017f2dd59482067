//! The job of the leader that deletes deliveries whose retention time is over, and cancels those of endpoints that have been
//! disabled for that time. A pending delivery keeps its event in the outbox.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::Json;
use tokio::time::Instant;
use tracing::info;

use super::sweep::MAX_CANCELLED;
use crate::jobs::{Job, Leader, Periodic, Progress, RunBy};
use crate::outbox::Outbox;
use crate::ports::{
    AuditEntry, EndpointId, EndpointStatus, Leadership, OldDeliveries, StoreError, WebhookEndpoint,
};
use crate::transaction::with_tx;

/// Interval of the job.
const INTERVAL: Duration = Duration::from_secs(3_600);
/// Margin of [`WebhookRetention::deleted_before`]: the job may run between the time that the caller takes as the present and its
/// read of deliveries.
const MARGIN: TimeDelta = TimeDelta::hours(1);
/// Name of the job, also in the audit log.
const JOB: &str = "WebhookRetention";
/// Number of deliveries that one unit of work examines.
const BATCH: u32 = 500;
/// Number of endpoints per page.
const ENDPOINTS: u32 = 500;
/// After each unit of work the job pauses for this multiple of the time that it took.
const PAUSE: u32 = 9;

/// Deletes and cancels old deliveries.
pub struct WebhookRetention {
    outbox: Outbox,
    keep: Duration,
}

impl WebhookRetention {
    /// Time for which deliveries stay by default.
    pub const DEFAULT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    /// The job: deliveries that were delivered or cancelled stay for this time. Dead ones stay until they are sent again and
    /// that redelivery is as old.
    pub fn new(outbox: &Outbox, keep: Duration) -> WebhookRetention {
        WebhookRetention { outbox: outbox.for_background_tasks(), keep }
    }

    /// Time before which deliveries that stay for `keep` may have been deleted: an event that was applied before it may have
    /// had a delivery that is missing now.
    pub fn deleted_before(now: DateTime<Utc>, keep: Duration) -> DateTime<Utc> {
        let limit = limit(now, keep).and_then(|limit| limit.checked_add_signed(MARGIN));
        limit.unwrap_or(DateTime::<Utc>::MIN_UTC)
    }

    /// Starts the job on the leader.
    pub fn start(self, leader: &Leader) {
        let tx = self.outbox.tx.clone();
        Periodic::new(JOB, INTERVAL, RunBy::Leader(leader.clone())).start(&tx, self);
    }

    /// Cancels the deliveries of endpoints that were last changed before this time and are disabled. Returns their number.
    async fn cancel(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut cancelled = 0;
        let mut after: Option<EndpointId> = None;
        loop {
            let mut view = self.outbox.view().await?;
            let page = view.outbox_view().webhook_endpoints_after(after, ENDPOINTS).await?;
            after = page.last().map(|endpoint| endpoint.id);
            drop(view);
            let is_old = |endpoint: &&WebhookEndpoint| {
                endpoint.status == EndpointStatus::Disabled && endpoint.update_time < before
            };
            for endpoint in page.iter().filter(is_old) {
                cancelled += self.cancel_of(endpoint, before).await?;
            }
            if after.is_none() || self.outbox.stopping().is_cancelled() {
                return Ok(cancelled);
            }
        }
    }

    /// Cancels the deliveries of an endpoint in batches, so that their number does not limit the time of a statement.
    async fn cancel_of(&self, endpoint: &WebhookEndpoint, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut cancelled = 0;
        loop {
            let begun = Instant::now();
            let batch = self.cancel_batch(endpoint, before).await?;
            cancelled += batch;
            if batch == 0 || !self.pause_since(begun).await {
                return Ok(cancelled);
            }
        }
    }

    async fn cancel_batch(
        &self,
        endpoint: &WebhookEndpoint,
        before: DateTime<Utc>,
    ) -> Result<u64, StoreError> {
        let now = self.outbox.now();
        let key = endpoint.key();
        let entry = AuditEntry {
            tenant: endpoint.tenant,
            actor: JOB.to_owned(),
            action: "webhooks.cancel".to_owned(),
            selection: Json::object(vec![("id".to_owned(), endpoint.id.to_string().into())]).to_string(),
            matched: 0,
            changed: 0,
            reason: Some(format!("disabled since {}", endpoint.update_time.to_rfc3339())),
            trace_id: format!("webhooks-{}", endpoint.id),
            at: now,
        };
        with_tx(&self.outbox.tx, entry, move |unit, entry, _| {
            Box::pin(async move {
                let outbox = unit.outbox();
                // Enabling the endpoint locks it, too: then it is no longer disabled here, or not yet enabled.
                outbox.lock_webhook_endpoint(Some(key.tenant), key.id).await?;
                let cancelled =
                    outbox.cancel_webhook_deliveries(Some(key), Some(before), now, MAX_CANCELLED).await?;
                if cancelled > 0 {
                    outbox
                        .audit(&AuditEntry { matched: cancelled, changed: cancelled, ..entry.clone() })
                        .await?;
                }
                Ok(cancelled)
            })
        })
        .await
    }

    /// Deletes the deliveries that ended before this time. Returns their number.
    async fn delete(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut deleted = 0;
        let mut after = 0;
        loop {
            let begun = Instant::now();
            let old = OldDeliveries { after, before, limit: BATCH };
            let done = with_tx(&self.outbox.tx, old, move |unit, old, _| {
                Box::pin(async move { unit.outbox().delete_webhook_deliveries(old).await })
            })
            .await?;
            deleted += done.deleted;
            let Some(last) = done.last else { return Ok(deleted) };
            after = last;
            if !self.pause_since(begun).await {
                return Ok(deleted);
            }
        }
    }

    /// Pauses after a unit of work that began then; false if the process begins to stop.
    async fn pause_since(&self, begun: Instant) -> bool {
        tokio::select! {
            biased;
            () = self.outbox.stopping().cancelled() => false,
            () = self.outbox.sleep(begun.elapsed() * PAUSE) => true,
        }
    }
}

/// Deliveries that ended before this time are deleted; `None` outside the supported calendar.
fn limit(now: DateTime<Utc>, keep: Duration) -> Option<DateTime<Utc>> {
    TimeDelta::from_std(keep).ok().and_then(|keep| now.checked_sub_signed(keep))
}

#[async_trait]
impl Job for WebhookRetention {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let Some(before) = limit(self.outbox.now(), self.keep) else { return Ok(Progress::Done) };
        let cancelled = self.cancel(before).await?;
        let deleted = self.delete(before).await?;
        if cancelled + deleted > 0 {
            info!(
                code = "webhooks.old-deliveries",
                cancelled, deleted, "[{JOB}] old deliveries of webhooks removed"
            );
        }
        Ok(Progress::Done)
    }
}
