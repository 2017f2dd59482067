//! Waits until nothing is on its way any more, within bounds.

use std::time::Duration;

use chrono::TimeDelta;
use handover_events::ConsumeStatus;
use handover_outbox::ports::{Clock, StoreError};
use handover_system::SystemClock;
use marketplace::App;
use marketplace::ports::MarketStore;
use tokio::time::Instant;

use marketplace_wiring::terminal::progress::Progress;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);
/// For how long nothing may move while something is open.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// No order is unpaid.
    Closed,
    /// Nothing is to be published, delivered or settled.
    Quiet,
}

/// What is open, and how much is done: while that grows, waiting is worth it.
#[derive(Debug, PartialEq, Eq)]
struct Sight {
    open: Vec<String>,
    done: u64,
}

/// Waits; gives up when nothing has moved for a while, which the verdict will tell.
pub(super) async fn wait(
    until: Until,
    app: &App,
    store: &MarketStore,
    progress: &Progress,
) -> Result<(), StoreError> {
    let mut before: Option<Sight> = None;
    let mut moved = Instant::now();
    loop {
        let sight = look(until, app, store).await?;
        if sight.open.is_empty() {
            return Ok(());
        }
        progress.waiting(&sight.open.join(", "));
        if before.as_ref() != Some(&sight) {
            before = Some(sight);
            moved = Instant::now();
        } else if moved.elapsed() > PATIENCE {
            return Ok(());
        }
        SystemClock.sleep(LOOK).await;
    }
}

async fn look(until: Until, app: &App, store: &MarketStore) -> Result<Sight, StoreError> {
    let mut sight = Sight { open: Vec::new(), done: 0 };
    let mut open = |count: u64, what: &str| {
        if count > 0 {
            sight.open.push(format!("{count} {what}"));
        }
    };
    let mut view = store.view().await?;
    // Every pending order is overdue by then.
    let unpaid = view.orders_overdue(app.now() + TimeDelta::days(1), 1_000).await?;
    open(unpaid.len() as u64, "unpaid orders");
    if until == Until::Closed {
        return Ok(sight);
    }
    let counts = view.outbox_view().outbox_counts(None).await?;
    open(counts.new + counts.retry, "events to publish");
    let (mut unsettled, mut settled) = (0, 0);
    for count in view.outbox_view().consume_counts(None).await? {
        match count.status {
            ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed => {
                unsettled += count.events
            }
            ConsumeStatus::Success | ConsumeStatus::Dead => settled += count.events,
        }
    }
    open(unsettled, "events to settle");
    open(queued(app).await, "messages queued");
    if sight.open.is_empty() {
        // Dearer to ask: what no message will bring any more is found by the consumers themselves.
        let mut unseen = 0;
        for subscriber in app.subscribers() {
            let (name, takes) = (subscriber.handler.name(), subscriber.handler.takes());
            if let Some(mark) = view.outbox_view().consumer_subscription(name).await? {
                let rows = view
                    .outbox_view()
                    .unseen(name, takes, mark.after_id, chrono::DateTime::UNIX_EPOCH, app.now(), 1)
                    .await?;
                unseen += rows.len();
            }
        }
        if unseen > 0 {
            sight.open.push("events that a broker lost".to_owned());
        }
    }
    sight.done = counts.sent + settled;
    Ok(sight)
}

/// How many messages are in the queues; a broker that does not answer may hold any.
pub(super) async fn queued(app: &App) -> u64 {
    match app.outbox.broker.queues().await {
        Ok(queues) => queues.iter().map(|queue| queue.ready + queue.unacked).sum(),
        Err(_) => u64::MAX,
    }
}
