//! Statistics and queue depths.

use handover_outbox::Distribution;
use handover_outbox::operations::{ConsumerStats, Stats};
use handover_outbox::ports::QueueDepth;
use serde::Serialize;
use utoipa::ToSchema;

use super::Listed;
use super::alerts::AlertView;
use super::time::Time;
use crate::openapi::kinds;

crate::views! {
    /// Depth of a queue.
    pub QueueView as Queue {
        name: String,
        ready: u64,
        unacked: u64,
        consumers: u64,
    }
}

impl Listed for QueueView {
    const COLUMNS: &'static [&'static str] = &["name", "ready", "unacked", "consumers"];
}

impl From<QueueDepth> for QueueView {
    fn from(QueueDepth { name, ready, unacked, consumers, .. }: QueueDepth) -> QueueView {
        QueueView { name, ready, unacked, consumers }
    }
}

crate::views! {
    /// Statistics of outbox, consumers, dead letters, queues and broker.
    pub StatsView as Stats {
        outbox: OutboxStatsView,
        consumers: Vec<ConsumerStatsView>,
        dead_letters: DeadLetterStatsView,
        blocked: BlockedStatsView,
        /// Queues with their depths; null while the broker is unreachable.
        queues: Option<Vec<QueueView>>,
        broker: BrokerStatsView,
        recent: RecentStatsView,
        /// Active alerts, of all tenants.
        alerts: Vec<AlertView>,
    }
}

crate::views! {
    /// Figures of the last 5 minutes, of all tenants.
    RecentStatsView as RecentStats {
        publishes: u64,
        /// Publishes that were not confirmed.
        failed_publishes: u64,
        /// Time from the creation of an event to its confirm.
        commit_to_confirm: TimesView,
    }
}

crate::views! {
    /// Times in milliseconds; null without any. They are rounded up by at most 5 %.
    TimesView as Times {
        count: u64,
        p50_ms: Option<u64>,
        p95_ms: Option<u64>,
        p99_ms: Option<u64>,
    }
}

impl From<&Distribution> for TimesView {
    fn from(times: &Distribution) -> TimesView {
        let quantile =
            |part| times.quantile(part).map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        TimesView {
            count: times.count(),
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
        }
    }
}

crate::views! {
    /// Figures of a consumer in the last 5 minutes, of all tenants.
    RecentConsumerStatsView as RecentConsumerStats {
        /// Recorded attempts, failed ones included.
        attempts: u64,
        /// Mean of `costMs` of these attempts; null without any.
        mean_cost_ms: Option<u64>,
        max_cost_ms: u64,
        /// Time from the creation of an event to the commit of its effect.
        commit_to_effect: TimesView,
    }
}

/// Whether the broker can be reached and accepts messages.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schema(as = BrokerState)]
pub(crate) enum BrokerStateView {
    Available,
    Unavailable,
}

crate::views! {
    BrokerStatsView as BrokerStats {
        state: BrokerStateView,
        /// Time at which a running process noticed the outage first; null if the broker is available, or if no process runs.
        since: Option<Time>,
        /// Why the broker is unavailable.
        error: Option<String>,
        /// Reason why the broker blocks publishers; null if it does not.
        blocked: Option<String>,
    }
}

crate::views! {
    OutboxStatsView as OutboxStats {
        new: u64,
        retry: u64,
        /// Among the newest 100,000 ids of the outbox.
        sent: u64,
        /// Whether the outbox has older rows, of any tenant and status: SENT ones among them are not counted.
        more_sent: bool,
        failed: u64,
        oldest_pending_seconds: Option<u64>,
    }
}

crate::views! {
    ConsumerStatsView as ConsumerStats {
        consumer: String,
        processing: u64,
        waiting: u64,
        /// Among the newest 100,000 ids of the consume log.
        success: u64,
        /// Whether the consume log has older records, of any tenant, consumer and state: SUCCESS ones among them are not counted.
        more_success: bool,
        failed: u64,
        dead: u64,
        recent: RecentConsumerStatsView,
    }
}

crate::views! {
    DeadLetterStatsView as DeadLetterStats {
        open: u64,
    }
}

crate::views! {
    BlockedStatsView as BlockedStats {
        aggregates: u64,
        more: bool,
    }
}

impl From<Stats> for StatsView {
    fn from(stats: Stats) -> StatsView {
        StatsView {
            outbox: OutboxStatsView {
                new: stats.outbox.new,
                retry: stats.outbox.retry,
                sent: stats.outbox.sent,
                more_sent: stats.outbox.more_sent,
                failed: stats.outbox.failed,
                oldest_pending_seconds: stats.oldest_pending.map(|age| age.as_secs()),
            },
            consumers: stats.consumers.into_iter().map(ConsumerStatsView::from).collect(),
            dead_letters: DeadLetterStatsView { open: stats.open_dead_letters },
            blocked: BlockedStatsView { aggregates: stats.blocked, more: stats.more_blocked },
            queues: stats.queues.map(|queues| queues.into_iter().map(QueueView::from).collect()),
            broker: BrokerStatsView {
                state: match stats.broker.error {
                    Some(_) => BrokerStateView::Unavailable,
                    None => BrokerStateView::Available,
                },
                since: stats.broker.since.map(Time),
                error: stats.broker.error,
                blocked: stats.broker_blocked,
            },
            recent: RecentStatsView {
                publishes: stats.recent.all_publishes(),
                failed_publishes: stats.recent.failed_publishes(),
                commit_to_confirm: TimesView::from(&stats.recent.commit_to_confirm),
            },
            alerts: stats.alerts.into_iter().map(AlertView::from).collect(),
        }
    }
}

impl From<ConsumerStats> for ConsumerStatsView {
    fn from(stats: ConsumerStats) -> ConsumerStatsView {
        let ConsumerStats { consumer, processing, waiting, success, more_success, failed, dead, recent } =
            stats;
        let recent = RecentConsumerStatsView {
            attempts: recent.attempts,
            mean_cost_ms: recent.mean_cost_ms(),
            max_cost_ms: recent.max_cost_ms,
            commit_to_effect: TimesView::from(&recent.commit_to_effect),
        };
        ConsumerStatsView { consumer, processing, waiting, success, more_success, failed, dead, recent }
    }
}
