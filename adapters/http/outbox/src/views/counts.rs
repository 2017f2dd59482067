//! Statistics and queue depths.

use handover_outbox::operations::{ConsumerStats, Stats};
use handover_outbox::ports::QueueDepth;

use super::Listed;
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
    }
}

crate::views! {
    BrokerStatsView as BrokerStats {
        /// Reason why the broker blocks publishers; null if it does not.
        blocked: Option<String>,
    }
}

crate::views! {
    OutboxStatsView as OutboxStats {
        new: u64,
        retry: u64,
        sent: u64,
        failed: u64,
        oldest_pending_seconds: Option<u64>,
    }
}

crate::views! {
    ConsumerStatsView as ConsumerStats {
        consumer: String,
        processing: u64,
        waiting: u64,
        success: u64,
        failed: u64,
        dead: u64,
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
                failed: stats.outbox.failed,
                oldest_pending_seconds: stats.oldest_pending.map(|age| age.as_secs()),
            },
            consumers: stats.consumers.into_iter().map(ConsumerStatsView::from).collect(),
            dead_letters: DeadLetterStatsView { open: stats.open_dead_letters },
            blocked: BlockedStatsView { aggregates: stats.blocked, more: stats.more_blocked },
            queues: stats.queues.map(|queues| queues.into_iter().map(QueueView::from).collect()),
            broker: BrokerStatsView { blocked: stats.broker_blocked },
        }
    }
}

impl From<ConsumerStats> for ConsumerStatsView {
    fn from(stats: ConsumerStats) -> ConsumerStatsView {
        let ConsumerStats { consumer, processing, waiting, success, failed, dead } = stats;
        ConsumerStatsView { consumer, processing, waiting, success, failed, dead }
    }
}
