//! State of outbox, queues, dead letters, jobs and webhooks.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::PARTITIONS;

use super::sample::{STATE_TIME, Sample, StateSource, unix_seconds};
use crate::consumers::broker_timeout;
use crate::metrics::{Metric, OLDEST_DUE, PENDING, age_seconds, count};
use crate::operations::MAX_BLOCKED_COUNTED;
use crate::outbox::Outbox;
use crate::ports::{OnFailed, OutboxView, PartitionLease, StoreError};

const QUEUE: &[&str] = &["queue"];

const ROWS: Metric =
    Metric::state("handover.outbox.rows", "Outbox rows by status: NEW, RETRY, FAILED").by(&["status"]);
const BLOCKED: Metric = Metric::state(
    "handover.outbox.blocked.aggregates",
    "Aggregates whose later events wait for a FAILED one, at most 1,000; 0 if failed events do not block",
);
const WITHOUT_OWNER: Metric = Metric::state(
    "handover.outbox.partitions.without.owner",
    "Partitions of the outbox that no relay owns: their events are not published",
);
const READY: Metric =
    Metric::state("handover.queue.messages.ready", "Messages that wait in the queue").by(QUEUE);
const UNACKED: Metric = Metric::state(
    "handover.queue.messages.unacked",
    "Messages that are delivered to a consumer and not settled",
)
.by(QUEUE);
const CONSUMERS: Metric = Metric::state("handover.queue.consumers", "Subscriptions of the queue").by(QUEUE);
const BROKER_REACHABLE: Metric =
    Metric::state("handover.broker.reachable", "1 if the leader reached the broker, otherwise 0");
const BROKER_BLOCKED: Metric =
    Metric::state("handover.broker.blocked", "1 while the broker accepts no messages (an alarm of RabbitMQ)");
const DEAD_LETTERS: Metric = Metric::state(
    "handover.dead.letters.open",
    "Dead letters that nobody replayed or discarded, by the queue of their consumer",
)
.by(QUEUE);
const LAST_SUCCESS: Metric = Metric::state(
    "handover.job.last.success.timestamp.seconds",
    "Begin of the last successful run of the job, in seconds since 1970; recorded every 10 s at most",
)
.by(&["job"]);
const WEBHOOK_PENDING: Metric =
    Metric::state("handover.webhook.deliveries.pending", "Webhook deliveries that are pending");
const WEBHOOK_UNDELIVERED: Metric =
    Metric::state("handover.webhook.deliveries.dead", "DEAD webhook deliveries that nobody sent again");
const WEBHOOK_DISABLED_ENDPOINTS: Metric =
    Metric::state("handover.webhook.endpoints.disabled", "Webhook endpoints that are disabled");
const WEBHOOK_OLDEST_DUE: Metric = Metric::state(
    "handover.webhook.oldest.due.seconds",
    "Time for which the longest due webhook delivery is not sent, in seconds, without those of disabled or paused \
     endpoints and those behind an earlier delivery of an ordered one; 0: none",
);

/// The metrics of the deployment's state.
pub const METRICS: &[Metric] = &[
    STATE_TIME,
    PENDING,
    ROWS,
    OLDEST_DUE,
    BLOCKED,
    WITHOUT_OWNER,
    READY,
    UNACKED,
    CONSUMERS,
    BROKER_REACHABLE,
    BROKER_BLOCKED,
    DEAD_LETTERS,
    LAST_SUCCESS,
    WEBHOOK_PENDING,
    WEBHOOK_UNDELIVERED,
    WEBHOOK_DISABLED_ENDPOINTS,
    WEBHOOK_OLDEST_DUE,
];

/// State of a deployment's tables and broker.
pub(super) struct Deployment(pub(super) Outbox);

#[async_trait]
impl StateSource for Deployment {
    async fn read(&self) -> Result<Vec<Sample>, StoreError> {
        let mut samples = Vec::new();
        let mut view = self.0.view().await?;
        self.read_outbox(view.outbox_view(), &mut samples).await?;
        self.read_dead_letters(view.outbox_view(), &mut samples).await?;
        for record in view.outbox_view().job_records().await? {
            if let Some(at) = record.last_success {
                samples.push(LAST_SUCCESS.sample([&record.job], unix_seconds(at)));
            }
        }
        read_webhooks(view.outbox_view(), self.0.now(), &mut samples).await?;
        // The view is dropped before the broker is queried, because the broker may use the same database.
        drop(view);
        self.read_broker(&mut samples).await;
        Ok(samples)
    }
}

impl Deployment {
    async fn read_outbox(
        &self,
        view: &mut dyn OutboxView,
        samples: &mut Vec<Sample>,
    ) -> Result<(), StoreError> {
        let now = self.0.now();
        let backlog = view.outbox_backlog(now).await?;
        samples.push(PENDING.sample([], count(backlog.new + backlog.retry)));
        for (status, rows) in [("NEW", backlog.new), ("RETRY", backlog.retry), ("FAILED", backlog.failed)] {
            samples.push(ROWS.sample([status], count(rows)));
        }
        samples.push(OLDEST_DUE.sample([], age_seconds(backlog.oldest_due, now)));
        let blocked = match self.0.on_failed {
            OnFailed::Continue => 0,
            OnFailed::Hold => {
                let unordered = self.0.registry.unordered();
                view.blocked_page(unordered, None, None, MAX_BLOCKED_COUNTED).await?.len() as u64
            }
        };
        samples.push(BLOCKED.sample([], count(blocked)));
        let database_now = view.database_now().await?;
        let is_owned = |lease: &PartitionLease| {
            lease.owner.is_some() && lease.lease_until.is_some_and(|until| until > database_now)
        };
        let owned = view.partition_leases().await?.into_iter().filter(is_owned).count() as u64;
        samples.push(WITHOUT_OWNER.sample([], count(u64::from(PARTITIONS).saturating_sub(owned))));
        Ok(())
    }

    /// Every queue of a consumer has a value, so that an alert can see that there are no dead letters.
    async fn read_dead_letters(
        &self,
        view: &mut dyn OutboxView,
        samples: &mut Vec<Sample>,
    ) -> Result<(), StoreError> {
        let open = view.undecided_dead_letters(None).await?;
        let with_dead_letters: BTreeSet<&str> = open.iter().map(|(queue, _)| queue.as_str()).collect();
        let queues = self.0.consumers().iter().map(|it| it.queue.as_str());
        for queue in queues.collect::<BTreeSet<&str>>().difference(&with_dead_letters) {
            samples.push(DEAD_LETTERS.sample([queue], 0.0));
        }
        samples.extend(open.iter().map(|(queue, open)| DEAD_LETTERS.sample([queue], count(*open))));
        Ok(())
    }

    async fn read_broker(&self, samples: &mut Vec<Sample>) {
        let queues = broker_timeout(self.0.broker.queues()).await;
        samples.push(BROKER_REACHABLE.sample([], if queues.is_ok() { 1.0 } else { 0.0 }));
        let is_blocked = self.0.broker.blocked().await.is_some();
        samples.push(BROKER_BLOCKED.sample([], if is_blocked { 1.0 } else { 0.0 }));
        for queue in queues.unwrap_or_default() {
            samples.push(READY.sample([&queue.name], count(queue.ready)));
            samples.push(UNACKED.sample([&queue.name], count(queue.unacked)));
            samples.push(CONSUMERS.sample([&queue.name], count(queue.consumers)));
        }
    }
}

async fn read_webhooks(
    view: &mut dyn OutboxView,
    now: DateTime<Utc>,
    samples: &mut Vec<Sample>,
) -> Result<(), StoreError> {
    let webhooks = view.webhook_counts(now).await?;
    samples.extend([
        WEBHOOK_PENDING.sample([], count(webhooks.pending)),
        WEBHOOK_UNDELIVERED.sample([], count(webhooks.dead)),
        WEBHOOK_DISABLED_ENDPOINTS.sample([], count(webhooks.disabled_endpoints)),
        WEBHOOK_OLDEST_DUE.sample([], age_seconds(webhooks.oldest_due, now)),
    ]);
    Ok(())
}
