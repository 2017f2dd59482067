//! State of outbox, queues, dead letters, jobs and webhooks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::PARTITIONS;

use super::database::{DEAD_ROWS, HISTORY_LENGTH, OLDEST_TRANSACTION};
use super::sample::{STATE_TIME, Sample, StateSource, unix_seconds};
use crate::consumers::broker_timeout;
use crate::jobs::Leader;
use crate::metrics::{Metric, OLDEST_DUE, PENDING, age_seconds, count};
use crate::operations::MAX_BLOCKED_COUNTED;
use crate::outbox::Outbox;
use crate::ports::{Leadership, OnFailed, OutboxView, PartitionLease, StoreError};

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
const OLDEST_READY: Metric = Metric::state(
    "handover.queue.oldest.ready.seconds",
    "Age of the first message that waits in the queue, since it entered the queue, in seconds; 0: none waits. Absent while \
     messages wait at RabbitMQ, which does not show their age",
)
.by(QUEUE);
const CONSUMERS: Metric = Metric::state("handover.queue.consumers", "Subscriptions of the queue").by(QUEUE);
const BROKER_REACHABLE: Metric =
    Metric::state("handover.broker.reachable", "1 if the leader reached the broker, otherwise 0");
const BROKER_BLOCKED: Metric =
    Metric::state("handover.broker.blocked", "1 while the broker accepts no messages (an alarm of RabbitMQ)");
const BROKER_UNREACHABLE: Metric = Metric::state(
    "handover.broker.unreachable.seconds",
    "Time for which the leader has not reached the broker, in seconds; 0: it is reachable",
);
const BROKER_BLOCKED_TIME: Metric = Metric::state(
    "handover.broker.blocked.seconds",
    "Time for which the leader has seen that the broker accepts no messages, in seconds; 0: it accepts messages",
);
const DEAD_LETTERS: Metric = Metric::state(
    "handover.dead.letters.open",
    "Dead letters that nobody replayed or discarded, by queue and its consumer; without a consumer if none is registered here",
)
.by(&["queue", "consumer"]);
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
    OLDEST_READY,
    CONSUMERS,
    BROKER_REACHABLE,
    BROKER_BLOCKED,
    BROKER_UNREACHABLE,
    BROKER_BLOCKED_TIME,
    OLDEST_TRANSACTION,
    DEAD_ROWS,
    HISTORY_LENGTH,
    DEAD_LETTERS,
    LAST_SUCCESS,
    WEBHOOK_PENDING,
    WEBHOOK_UNDELIVERED,
    WEBHOOK_DISABLED_ENDPOINTS,
    WEBHOOK_OLDEST_DUE,
];

/// State of a deployment's tables and broker.
pub(super) struct Deployment {
    outbox: Outbox,
    leader: Leader,
    outages: Mutex<Outages>,
}

/// Begin of the broker's current outages, as one leadership has seen them.
#[derive(Default)]
struct Outages {
    /// A process that leads again does not know what has happened in the meantime.
    leadership: Option<Leadership>,
    unreachable_since: Option<DateTime<Utc>>,
    blocked_since: Option<DateTime<Utc>>,
}

impl Deployment {
    pub(super) fn new(outbox: Outbox, leader: Leader) -> Deployment {
        Deployment { outbox, leader, outages: Mutex::default() }
    }
}

#[async_trait]
impl StateSource for Deployment {
    async fn read(&self) -> Result<Vec<Sample>, StoreError> {
        let mut samples = Vec::new();
        let mut view = self.outbox.view().await?;
        self.read_outbox(view.outbox_view(), &mut samples).await?;
        self.read_dead_letters(view.outbox_view(), &mut samples).await?;
        for record in view.outbox_view().job_records().await? {
            if let Some(at) = record.last_success {
                samples.push(LAST_SUCCESS.sample([&record.job], unix_seconds(at)));
            }
        }
        read_webhooks(view.outbox_view(), self.outbox.now(), &mut samples).await?;
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
        let now = self.outbox.now();
        let backlog = view.outbox_backlog(now).await?;
        samples.push(PENDING.sample([], count(backlog.new + backlog.retry)));
        for (status, rows) in [("NEW", backlog.new), ("RETRY", backlog.retry), ("FAILED", backlog.failed)] {
            samples.push(ROWS.sample([status], count(rows)));
        }
        samples.push(OLDEST_DUE.sample([], age_seconds(backlog.oldest_due, now)));
        let blocked = match self.outbox.on_failed {
            OnFailed::Continue => 0,
            OnFailed::Hold => {
                let unordered = self.outbox.registry.unordered();
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
        let mut open: BTreeMap<String, u64> = view.undecided_dead_letters(None).await?.into_iter().collect();
        let consumers: BTreeMap<&str, &str> =
            self.outbox.consumers().iter().map(|it| (it.queue.as_str(), it.consumer.as_str())).collect();
        for (queue, consumer) in consumers {
            let open = open.remove(queue).unwrap_or(0);
            samples.push(DEAD_LETTERS.sample([queue, consumer], count(open)));
        }
        samples.extend(open.iter().map(|(queue, open)| DEAD_LETTERS.sample([queue, ""], count(*open))));
        Ok(())
    }

    async fn read_broker(&self, samples: &mut Vec<Sample>) {
        let queues = broker_timeout(self.outbox.broker.queues()).await;
        let is_blocked = self.outbox.broker.blocked().await.is_some();
        samples.push(BROKER_REACHABLE.sample([], if queues.is_ok() { 1.0 } else { 0.0 }));
        samples.push(BROKER_BLOCKED.sample([], if is_blocked { 1.0 } else { 0.0 }));
        self.read_outages(queues.is_err(), is_blocked, samples);
        for queue in queues.unwrap_or_default() {
            samples.push(READY.sample([&queue.name], count(queue.ready)));
            samples.push(UNACKED.sample([&queue.name], count(queue.unacked)));
            samples.push(CONSUMERS.sample([&queue.name], count(queue.consumers)));
            if queue.ready == 0 || queue.oldest_ready.is_some() {
                let age = age_seconds(queue.oldest_ready, self.outbox.now());
                samples.push(OLDEST_READY.sample([&queue.name], age));
            }
        }
    }

    fn read_outages(&self, is_unreachable: bool, is_blocked: bool, samples: &mut Vec<Sample>) {
        let now = self.outbox.now();
        let leadership = self.leader.leadership();
        let mut outages = self.outages.lock().unwrap_or_else(PoisonError::into_inner);
        if outages.leadership != leadership {
            *outages = Outages { leadership, ..Outages::default() };
        }
        let unreachable = since(outages.unreachable_since, is_unreachable, now);
        let blocked = since(outages.blocked_since, is_blocked, now);
        outages.unreachable_since = unreachable;
        outages.blocked_since = blocked;
        samples.push(BROKER_UNREACHABLE.sample([], age_seconds(unreachable, now)));
        samples.push(BROKER_BLOCKED_TIME.sample([], age_seconds(blocked, now)));
    }
}

/// Begin of an outage that began at `before`, or now.
fn since(before: Option<DateTime<Utc>>, lasts: bool, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    lasts.then(|| before.unwrap_or(now))
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
