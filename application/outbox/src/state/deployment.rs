//! State of outbox, queues, dead letters, jobs and webhooks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::PARTITIONS;

use super::database::{DEAD_ROWS, HISTORY_LENGTH, OLDEST_TRANSACTION};
use super::sample::{STATE_TIME, Sample, StateSource, unix_seconds};
use crate::backlog::Counted;
use crate::consumers::broker_timeout;
use crate::figures::{ConsumerFigures, Figures};
use crate::jobs::{Leader, missed_runs};
use crate::metrics::{CONSUMER, Metric, OLDEST_DUE, PENDING, age_seconds, count};
use crate::operations::MAX_BLOCKED_COUNTED;
use crate::outbox::Outbox;
use crate::ports::{Leadership, OnFailed, OutboxView, PartitionLease, StoreError};
use crate::process_report::reported;

const QUEUE: &[&str] = &["queue"];

pub(super) const ROWS: Metric = Metric::state(
    "handover.outbox.rows",
    "Outbox rows by status: NEW, RETRY, FAILED; without FAILED ones that an operator has released",
)
.by(&["status"]);
const BLOCKED: Metric = Metric::state(
    "handover.outbox.blocked.aggregates",
    "Aggregates whose later events wait for a FAILED one, at most 1,000; 0 if failed events do not block",
);
pub(super) const WITHOUT_OWNER: Metric = Metric::state(
    "handover.outbox.partitions.without.owner",
    "Partitions of the outbox that no relay owns: their events are not published",
);
pub(super) const READY: Metric =
    Metric::state("handover.queue.messages.ready", "Messages that wait in the queue").by(QUEUE);
const UNACKED: Metric = Metric::state(
    "handover.queue.messages.unacked",
    "Messages that are delivered to a consumer and not settled",
)
.by(QUEUE);
const OLDEST_READY: Metric = Metric::state(
    "handover.queue.oldest.ready.seconds",
    "Age of the first message that waits in the queue, since it entered the queue, in seconds; 0: none waits. RabbitMQ does not \
     show it: there it is the time since the confirm of the oldest event that the consumer has not recorded, and absent if every \
     waiting message repeats a recorded event",
)
.by(QUEUE);
const CONSUMERS: Metric = Metric::state("handover.queue.consumers", "Subscriptions of the queue").by(QUEUE);
const BROKER_REACHABLE: Metric =
    Metric::state("handover.broker.reachable", "1 if the leader reached the broker, otherwise 0");
const BROKER_BLOCKED: Metric =
    Metric::state("handover.broker.blocked", "1 while the broker accepts no messages (an alarm of RabbitMQ)");
pub(super) const BROKER_UNREACHABLE: Metric = Metric::state(
    "handover.broker.unreachable.seconds",
    "Time for which the leader has not reached the broker, in seconds; 0: it is reachable",
);
pub(super) const BROKER_BLOCKED_TIME: Metric = Metric::state(
    "handover.broker.blocked.seconds",
    "Time for which the leader has seen that the broker accepts no messages, in seconds; 0: it accepts messages",
);
pub(super) const DEAD_LETTERS: Metric = Metric::state(
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
pub(super) const WEBHOOK_UNDELIVERED: Metric =
    Metric::state("handover.webhook.deliveries.dead", "DEAD webhook deliveries that nobody sent again");
const WEBHOOK_DISABLED_ENDPOINTS: Metric =
    Metric::state("handover.webhook.endpoints.disabled", "Webhook endpoints that are disabled");
pub(super) const WEBHOOK_DISABLED_FAILING: Metric = Metric::state(
    "handover.webhook.endpoints.disabled.failing",
    "Webhook endpoints that were disabled automatically, or by an operator while their deliveries failed",
);
pub(super) const WEBHOOK_OLDEST_DUE: Metric = Metric::state(
    "handover.webhook.oldest.due.seconds",
    "Time for which the longest due webhook delivery is not sent, in seconds, without those of disabled or paused \
     endpoints and those behind an earlier delivery of an ordered one; 0: none",
);

pub(super) const UNATTENDED: Metric = Metric::state(
    "handover.queue.messages.unattended",
    "Messages that wait in the queue of a consumer while no process subscribes to it; 0 if one does",
)
.by(QUEUE);
pub(super) const MISSED_RUNS: Metric = Metric::state(
    "handover.job.missed.runs",
    "Intervals of the job, of at least 10 s, since its last successful run; at most 1,000",
)
.by(&["job"]);
pub(super) const BEHIND: Metric = Metric::state(
    "handover.job.behind.seconds",
    "Time for which every run of the job has left work that was due, in seconds; 0: the last one left none",
)
.by(&["job"]);
pub(super) const MOST_RETRIES: Metric = Metric::state(
    "handover.event.retries.max",
    "Most retries of an event that is neither published nor failed, or neither applied nor dead",
);
pub(super) const PUBLISH_FAILURES: Metric = Metric::state(
    "handover.publish.failures.ratio",
    "Publishes of the last 5 minutes that were not confirmed, between 0 and 1; 0 with fewer than 20 publishes",
);
pub(super) const PAUSED_CONSUMERS: Metric = Metric::state(
    "handover.consumer.paused.processes",
    "Processes in which the breaker of the consumer is open",
)
.by(CONSUMER);
const RECENT_PUBLISHED: Metric =
    Metric::state("handover.outbox.recent.published", "Events published in the last 5 minutes");
const RECENT_APPLIED: Metric =
    Metric::state("handover.consumer.recent.applied", "Events applied in the last 5 minutes").by(CONSUMER);
const RECENT_TO_CONFIRM: Metric = Metric::state(
    "handover.commit.to.confirm.recent.seconds",
    "Time from the creation of an event to its confirm in the last 5 minutes, percentiles of the deployment",
)
.by(&["percentile"]);
const RECENT_TO_EFFECT: Metric = Metric::state(
    "handover.commit.to.effect.recent.seconds",
    "Time from the creation of an event to the commit of its effect in the last 5 minutes, percentiles of the deployment",
)
.by(&["consumer", "percentile"]);

/// Publishes of 5 minutes below which their failures are no rate.
const MIN_PUBLISHES: u64 = 20;
const PERCENTILES: [(&str, f64); 3] = [("50", 0.5), ("95", 0.95), ("99", 0.99)];

/// The metrics of the deployment's state.
pub(super) const METRICS: &[Metric] = &[
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
    WEBHOOK_DISABLED_FAILING,
    WEBHOOK_OLDEST_DUE,
    UNATTENDED,
    MISSED_RUNS,
    BEHIND,
    MOST_RETRIES,
    PUBLISH_FAILURES,
    PAUSED_CONSUMERS,
    RECENT_PUBLISHED,
    RECENT_APPLIED,
    RECENT_TO_CONFIRM,
    RECENT_TO_EFFECT,
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
        // Before the view, because it may be read in slices, with pauses.
        let backlog = self.outbox.backlog.read(&self.outbox.tx).await?;
        let mut view = self.outbox.view().await?;
        self.read_outbox(view.outbox_view(), &backlog, &mut samples).await?;
        self.read_dead_letters(view.outbox_view(), &mut samples).await?;
        let now = self.outbox.now();
        for record in view.outbox_view().job_records().await? {
            if let Some(at) = record.last_success {
                samples.push(LAST_SUCCESS.sample([&record.job], unix_seconds(at)));
            }
            if let Some(missed) = missed_runs(&record, now) {
                samples.push(MISSED_RUNS.sample([&record.job], missed));
            }
            samples.push(BEHIND.sample([&record.job], age_seconds(record.behind_since, now)));
        }
        samples.push(MOST_RETRIES.sample([], f64::from(view.outbox_view().most_retries().await?)));
        self.sample_figures(&reported(view.outbox_view()).await?, &mut samples);
        read_webhooks(view.outbox_view(), now, &mut samples).await?;
        // The view is dropped before the broker is queried, because the broker may use the same database.
        drop(view);
        self.read_broker(&mut samples).await?;
        Ok(samples)
    }
}

impl Deployment {
    async fn read_outbox(
        &self,
        view: &mut dyn OutboxView,
        Counted { backlog, at }: &Counted,
        samples: &mut Vec<Sample>,
    ) -> Result<(), StoreError> {
        samples.push(PENDING.sample([], count(backlog.new + backlog.retry)));
        let failed = view.unreleased_failed_rows().await?;
        for (status, rows) in [("NEW", backlog.new), ("RETRY", backlog.retry), ("FAILED", failed)] {
            samples.push(ROWS.sample([status], count(rows)));
        }
        samples.push(OLDEST_DUE.sample([], age_seconds(backlog.oldest_due, *at)));
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

    /// Every consumer has a value, so that an alert can see that it is not paused.
    fn sample_figures(&self, figures: &Figures, samples: &mut Vec<Sample>) {
        let all = figures.all_publishes();
        let failures = if all < MIN_PUBLISHES { 0.0 } else { count(figures.failed_publishes()) / count(all) };
        samples.push(PUBLISH_FAILURES.sample([], failures));
        samples.push(RECENT_PUBLISHED.sample([], count(figures.commit_to_confirm.count())));
        for (percentile, part) in PERCENTILES {
            if let Some(time) = figures.commit_to_confirm.quantile(part) {
                samples.push(RECENT_TO_CONFIRM.sample([percentile], time.as_secs_f64()));
            }
        }
        let none = ConsumerFigures::default();
        let registered = self.outbox.consumers().iter().map(|it| it.consumer.as_str());
        let consumers: BTreeSet<&str> =
            registered.chain(figures.consumers.keys().map(String::as_str)).collect();
        for consumer in consumers {
            let of_consumer = figures.consumers.get(consumer).unwrap_or(&none);
            samples.push(PAUSED_CONSUMERS.sample([consumer], count(of_consumer.paused)));
            samples.push(RECENT_APPLIED.sample([consumer], count(of_consumer.commit_to_effect.count())));
            for (percentile, part) in PERCENTILES {
                if let Some(time) = of_consumer.commit_to_effect.quantile(part) {
                    samples.push(RECENT_TO_EFFECT.sample([consumer, percentile], time.as_secs_f64()));
                }
            }
        }
    }

    async fn read_broker(&self, samples: &mut Vec<Sample>) -> Result<(), StoreError> {
        let queues = broker_timeout(self.outbox.broker.queues()).await;
        let is_blocked = self.outbox.broker.blocked().await.is_some();
        samples.push(BROKER_REACHABLE.sample([], if queues.is_ok() { 1.0 } else { 0.0 }));
        samples.push(BROKER_BLOCKED.sample([], if is_blocked { 1.0 } else { 0.0 }));
        self.read_outages(queues.is_err(), is_blocked, samples);
        for queue in queues.unwrap_or_default() {
            samples.push(READY.sample([&queue.name], count(queue.ready)));
            samples.push(UNACKED.sample([&queue.name], count(queue.unacked)));
            samples.push(CONSUMERS.sample([&queue.name], count(queue.consumers)));
            // Messages of a delay queue wait by intent.
            if self.outbox.consumer_of(&queue.name).is_some() {
                let unattended = if queue.consumers == 0 { queue.ready } else { 0 };
                samples.push(UNATTENDED.sample([&queue.name], count(unattended)));
            }
            let oldest = match queue.oldest_ready {
                None if queue.ready > 0 => self.oldest_unconsumed(&queue.name).await?,
                shown => shown,
            };
            if queue.ready == 0 || oldest.is_some() {
                let age = age_seconds(oldest, self.outbox.now());
                samples.push(OLDEST_READY.sample([&queue.name], age));
            }
        }
        Ok(())
    }

    /// Time at which the oldest event without a record of its consumer entered this queue. A delay queue in front of it has
    /// kept the message for its time to live.
    async fn oldest_unconsumed(&self, queue: &str) -> Result<Option<DateTime<Utc>>, StoreError> {
        let Some(subscriber) = self.outbox.consumers().iter().rfind(|it| it.queue == queue) else {
            return Ok(None);
        };
        let mut view = self.outbox.view().await?;
        let view = view.outbox_view();
        let consumer = subscriber.consumer.as_str();
        let Some(position) = view.consumer_subscription(consumer).await? else { return Ok(None) };
        let types: Vec<&str> = subscriber.event_types.iter().map(String::as_str).collect();
        let (after_id, checked_until) = (position.after_id, position.checked_until);
        let oldest = view
            .unconsumed_events(consumer, &types, after_id, checked_until, self.outbox.now(), 1)
            .await?
            .pop();
        let sent = oldest.and_then(|event| event.sent_time);
        Ok(sent.and_then(|sent| sent.checked_add_signed(self.delay_before(queue))))
    }

    fn delay_before(&self, queue: &str) -> TimeDelta {
        let queues = &self.outbox.topology().queues;
        let bindings = queues.iter().find(|spec| spec.name == queue).map(|spec| spec.bindings.as_slice());
        let leads_here = |key: &String| bindings.is_some_and(|bindings| bindings.contains(key));
        let before = queues.iter().filter(|spec| spec.dead_letter_key.as_ref().is_some_and(leads_here));
        let longest = before.filter_map(|spec| spec.ttl).max();
        longest.and_then(|delay| TimeDelta::from_std(delay).ok()).unwrap_or_default()
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
        WEBHOOK_DISABLED_FAILING.sample([], count(webhooks.disabled_failing)),
        WEBHOOK_OLDEST_DUE.sample([], age_seconds(webhooks.oldest_due, now)),
    ]);
    Ok(())
}
