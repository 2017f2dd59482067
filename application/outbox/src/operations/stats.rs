//! Statistics of outbox, consumers, dead letters and queues.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, TenantId};

use super::alerts::{AlertState, states};
use super::{OperationError, Operator};
use crate::consumers::broker_timeout;
use crate::figures::{ConsumerFigures, Figures};
use crate::outbox::Outbox;
use crate::ports::{ConsumeCounts, OnFailed, OutboxCounts, QueueDepth};
use crate::process_report::{reported, reported_outage, running_on_failed};

/// Maximum number of blocked aggregates that are counted.
pub const MAX_BLOCKED_COUNTED: u32 = 1_000;

/// Number of newest ids of the outbox, and of the consume log, among which `SENT` rows and `SUCCESS` records are counted.
/// Other states are counted completely: an index contains just their rows.
pub const MAX_IDS_COUNTED: i64 = 100_000;

/// Number of events per state at one consumer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConsumerStats {
    /// Name of the consumer.
    pub consumer: String,
    /// Events whose attempt is running, or was running when its process ended.
    pub processing: u64,
    /// Events that wait for an earlier event or for a lock.
    pub waiting: u64,
    /// Applied events among the newest [`MAX_IDS_COUNTED`] ids of the consume log.
    pub success: u64,
    /// Whether the consume log has older records, of any consumer: applied events among them are not counted.
    pub more_success: bool,
    /// Events whose last attempt failed and that will be retried.
    pub failed: u64,
    /// Events that failed permanently.
    pub dead: u64,
    /// Figures of the last 5 minutes, of all tenants.
    pub recent: ConsumerFigures,
}

/// State of the broker, from the reports of the running processes and the call of this operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BrokerState {
    /// Time at which a running process noticed the outage first.
    pub since: Option<DateTime<Utc>>,
    /// Why the broker cannot be reached or accepts no messages; `None`: it is available.
    pub error: Option<String>,
}

/// Current statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Outbox rows per status; `SENT` rows among the newest [`MAX_IDS_COUNTED`] ids.
    pub outbox: OutboxCounts,
    /// Age of the oldest pending event that was never confirmed.
    pub oldest_pending: Option<Duration>,
    /// Consumers by name: all registered consumers, and former consumers that still have counted records.
    pub consumers: Vec<ConsumerStats>,
    /// Dead letters without a final decision.
    pub open_dead_letters: u64,
    /// Blocked aggregates, up to [`MAX_BLOCKED_COUNTED`]; 0 if failed events do not block.
    pub blocked: u64,
    /// Whether there are more than [`MAX_BLOCKED_COUNTED`] blocked aggregates.
    pub more_blocked: bool,
    /// Queue depths, the same for every tenant; `None` while the broker is unreachable.
    pub queues: Option<Vec<QueueDepth>>,
    /// Whether the broker is available.
    pub broker: BrokerState,
    /// Reason why the broker currently accepts no messages; `None` if it accepts messages or does not report it.
    pub broker_blocked: Option<String>,
    /// Figures of the last 5 minutes, of all tenants; those of the consumers are in [`ConsumerStats::recent`].
    pub recent: Figures,
    /// Active alerts, of all tenants.
    pub alerts: Vec<AlertState>,
}

/// Statistics of the rows that the operator may see. Not recorded in the audit log: programs poll them.
pub async fn stats(
    outbox: &Outbox,
    operator: &Operator,
    tenant: Option<TenantId>,
) -> Result<Stats, OperationError> {
    let tenant = operator.visible(tenant)?;
    let mut view = outbox.view().await?;
    let events = view.outbox_view().outbox_counts(tenant, MAX_IDS_COUNTED).await?;
    let counts = view.outbox_view().consume_counts(tenant, MAX_IDS_COUNTED).await?;
    let by_queue = view.outbox_view().undecided_dead_letters(tenant).await?;
    let open_dead_letters = by_queue.into_iter().map(|(_, open)| open).sum();
    let blocked = match running_on_failed(outbox, view.outbox_view()).await? {
        OnFailed::Continue => 0,
        OnFailed::Hold => {
            let unordered = outbox.registry.unordered();
            view.outbox_view().blocked_page(unordered, tenant, None, MAX_BLOCKED_COUNTED + 1).await?.len()
                as u64
        }
    };
    let recent = reported(view.outbox_view()).await?;
    let outage = reported_outage(outbox, view.outbox_view()).await?;
    let mut alerts = states(outbox, view.outbox_view()).await?;
    alerts.retain(|state| state.record.is_active());
    // The view is dropped before the broker is queried, because the broker may use the same database.
    drop(view);
    let queues = broker_timeout(outbox.broker.queues()).await;
    let broker_blocked = outbox.broker.blocked().await;
    let not_reachable = queues.as_ref().err().map(ToString::to_string);
    let broker = BrokerState {
        since: outage.as_ref().map(|outage| outage.since),
        error: outage.map(|outage| outage.error).or(not_reachable).or(broker_blocked.clone()),
    };
    let queues = queues.ok();
    let now = outbox.now();
    Ok(Stats {
        outbox: events,
        oldest_pending: events.oldest_pending.map(|since| (now - since).to_std().unwrap_or_default()),
        consumers: by_consumer(outbox, counts, &recent),
        open_dead_letters,
        blocked: blocked.min(u64::from(MAX_BLOCKED_COUNTED)),
        more_blocked: blocked > u64::from(MAX_BLOCKED_COUNTED),
        queues,
        broker,
        broker_blocked,
        recent,
        alerts,
    })
}

fn by_consumer(outbox: &Outbox, counted: ConsumeCounts, recent: &Figures) -> Vec<ConsumerStats> {
    let named = |name: &str| {
        let recent = recent.consumers.get(name).cloned().unwrap_or_default();
        let more_success = counted.more_success;
        ConsumerStats { consumer: name.to_owned(), more_success, recent, ..ConsumerStats::default() }
    };
    let mut consumers: BTreeMap<String, ConsumerStats> =
        outbox.consumers.iter().map(|it| (it.consumer.clone(), named(&it.consumer))).collect();
    for count in counted.counts {
        let stats = consumers.entry(count.consumer.clone()).or_insert_with(|| named(&count.consumer));
        let field = match count.status {
            ConsumeStatus::Processing => &mut stats.processing,
            ConsumeStatus::Waiting => &mut stats.waiting,
            ConsumeStatus::Success => &mut stats.success,
            ConsumeStatus::Failed => &mut stats.failed,
            ConsumeStatus::Dead => &mut stats.dead,
        };
        *field += count.events;
    }
    consumers.into_values().collect()
}
