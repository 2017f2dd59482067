//! Waits until no work is pending, with a timeout.

use std::time::Duration;

use chrono::TimeDelta;
use handover_events::ConsumeStatus;
use handover_outbox::ports::{Clock, StoreError};
use handover_system::SystemClock;
use marketplace::App;
use marketplace::ports::MarketStore;
use tokio::time::Instant;

use handover_runtime::terminal::progress::Progress;

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Waiting ends, even with pending work, if nothing changes within this time.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// No order is pending.
    NoUnpaidOrders,
    /// No event has to be published, delivered or settled.
    Idle,
}

/// Pending work, and a count of finished work that shows whether there is progress.
#[derive(Debug, PartialEq, Eq)]
struct PendingWork {
    pending: Vec<String>,
    done: u64,
}

/// Waits until the condition holds, or until nothing has changed for [`STALL_TIMEOUT`]; then the report shows the
/// pending work as a broken promise.
pub(super) async fn wait(
    condition: WaitFor,
    app: &App,
    store: &MarketStore,
    progress: &Progress,
) -> Result<(), StoreError> {
    let mut before: Option<PendingWork> = None;
    let mut last_change = Instant::now();
    loop {
        let work = read_pending_work(condition, app, store).await?;
        if work.pending.is_empty() {
            return Ok(());
        }
        progress.waiting(&work.pending.join(", "));
        if before.as_ref() != Some(&work) {
            before = Some(work);
            last_change = Instant::now();
        } else if last_change.elapsed() > STALL_TIMEOUT {
            return Ok(());
        }
        SystemClock.sleep(POLL_INTERVAL).await;
    }
}

async fn read_pending_work(
    condition: WaitFor,
    app: &App,
    store: &MarketStore,
) -> Result<PendingWork, StoreError> {
    let mut work = PendingWork { pending: Vec::new(), done: 0 };
    let mut pending = |count: u64, what: &str| {
        if count > 0 {
            work.pending.push(format!("{count} {what}"));
        }
    };
    let mut view = store.view().await?;
    // Finds all pending orders, because every pending order is overdue one day from now.
    let unpaid = view.orders_overdue(app.tx.now() + TimeDelta::days(1), None, 1_000).await?;
    pending(unpaid.len() as u64, "unpaid orders");
    if condition == WaitFor::NoUnpaidOrders {
        return Ok(work);
    }
    let counts = view.outbox_view().outbox_counts(None, i64::MAX).await?;
    pending(counts.new + counts.retry, "events to publish");
    let (mut unsettled, mut settled) = (0, 0);
    for count in view.outbox_view().consume_counts(None, i64::MAX).await?.counts {
        match count.status {
            ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed => {
                unsettled += count.events
            }
            ConsumeStatus::Success | ConsumeStatus::Dead => settled += count.events,
        }
    }
    pending(unsettled, "events to settle");
    pending(queued(app).await, "messages queued");
    let webhooks = view.outbox_view().webhook_counts(app.tx.now()).await?;
    pending(webhooks.pending, "webhooks to deliver");
    if work.pending.is_empty() {
        // This query is more expensive, so it runs last. It finds events that a consumer has not recorded, for example
        // because their messages were lost.
        let mut unseen = 0;
        for consumer in app.consumers.iter() {
            let name = consumer.name();
            let takes = &consumer.event_types();
            if let Some(mark) = view.outbox_view().consumer_subscription(name).await? {
                let rows = view
                    .outbox_view()
                    .unconsumed_events(
                        name,
                        takes,
                        mark.after_id,
                        chrono::DateTime::UNIX_EPOCH,
                        app.tx.now(),
                        1,
                    )
                    .await?;
                unseen += rows.len();
            }
        }
        if unseen > 0 {
            work.pending.push("events without a message".to_owned());
        }
    }
    work.done = counts.sent + settled;
    Ok(work)
}

/// Number of messages in the queues; `u64::MAX` if the broker cannot be queried.
pub(super) async fn queued(app: &App) -> u64 {
    match app.outbox.broker.queues().await {
        Ok(queues) => queues.iter().map(|queue| queue.ready + queue.unacked).sum(),
        Err(_) => u64::MAX,
    }
}
