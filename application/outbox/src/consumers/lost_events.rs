//! Searches events that the broker confirmed and did not deliver, and applies them from the outbox.
//!
//! **Invariant:** the stored position `checked_until` never passes a readable event that is lost and has no consume-log record.
//! An operator who corrects an unreadable row redrives its event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::EventId;
use tokio::time::Instant;

use super::broker_timeout::broker_timeout;
use super::event_processor::EventProcessor;
use super::undelivered_event::{LONGEST_RUN, SweepOutcome, apply_event};
use crate::event_line::event_line;
use crate::ports::{ConsumerSubscription, OutboxRow, StoreError};
use crate::transaction::with_tx;

/// Maximum number of events per query, and number of rejected events after which a search ends.
const BATCH: u32 = 100;
/// A search that takes longer is continued by the next sweep.
const LONGEST_SEARCH: Duration = Duration::from_secs(3);
/// Length of the first period of a search. Each query is for one period, so that it reads a bounded number of rows also after days
/// without a search; the next period is twice as long if the query was fast.
const PERIOD: TimeDelta = TimeDelta::minutes(1);
const LONGEST_PERIOD: TimeDelta = TimeDelta::hours(1);
/// A query that takes less time is fast.
const FAST: TimeDelta = TimeDelta::milliseconds(100);
/// If the queue is not empty, it may still contain the event. An event then counts as lost only after this percentage
/// of the normal time (`consumer.lost-after`).
const QUEUED_WAIT_PERCENT: i32 = 150;

/// The search of a consumer for lost events, from sweep to sweep.
#[derive(Default)]
pub(super) struct LostEvents {
    /// Events that the store rejects, with the times at which they were sent. Each search tries them again, and the stored
    /// position stays before them.
    rejected: BTreeMap<EventId, DateTime<Utc>>,
    /// While an event is rejected: end of the time that was searched.
    searched_until: DateTime<Utc>,
}

impl LostEvents {
    /// Applies lost events and advances the stored position.
    pub(super) async fn find(&mut self, processor: &EventProcessor) -> Result<(), StoreError> {
        let name = processor.name();
        // Open only one view at a time: a caller that keeps one view and waits for another can block forever on a store
        // with few connections.
        let Some(position) = processor.outbox.view().await?.outbox_view().consumer_subscription(name).await?
        else {
            return Ok(());
        };
        let now = processor.outbox.now();
        if self.searched_until > now {
            // The clock was set back: the time since then is searched again.
            *self = LostEvents::default();
        }
        let delivery_limit = processor.settings.lost_after + processor.bound.delay;
        let mut wait_limit = TimeDelta::from_std(delivery_limit).unwrap_or(TimeDelta::MAX);
        let Some(until) = now.checked_sub_signed(wait_limit) else { return Ok(()) };
        if position.checked_until > now {
            // The clock was set back. If `checked_until` stayed in the future, events sent until then would not be checked.
            return set_checked_until(processor, until).await;
        }
        let has_queued = until > position.checked_until && has_queued_messages(processor).await;
        if has_queued {
            wait_limit = wait_limit
                .checked_mul(QUEUED_WAIT_PERCENT)
                .map_or(TimeDelta::MAX, |wait_limit| wait_limit / 100);
        }
        let until = now.checked_sub_signed(wait_limit).filter(|until| *until > position.checked_until);
        let Some(until) = until else { return Ok(()) };
        let mut search = Search::new(processor, &position, until, std::mem::take(self));
        // Another consumer may have received an event from another outbox. Earlier ones of its aggregate have no rows while they
        // are only in this queue, so the order gate would not see them.
        let waits_for_queue = has_queued && processor.outbox.receives_from(processor.queue()).is_some();
        let ended = match waits_for_queue {
            true => search.skip_applied().await,
            false => search.apply_lost(has_queued).await,
        };
        // Complete periods are searched, also if an error or a pause ended the search.
        let Search { from, rejected, .. } = search;
        let first_rejected = rejected.values().min().map(|sent| just_before(*sent));
        let checked = first_rejected.map_or(from, |first| first.min(from));
        *self = LostEvents { rejected, searched_until: from };
        if checked > position.checked_until {
            set_checked_until(processor, checked).await?;
        }
        ended
    }
}

/// One search.
struct Search<'a> {
    processor: &'a EventProcessor,
    /// Events with this outbox id or a smaller one are older than the subscription.
    after_id: i64,
    /// Everything that was sent up to here is applied, recorded or rejected.
    from: DateTime<Utc>,
    /// Events that were sent later may still be delivered.
    until: DateTime<Utc>,
    rejected: BTreeMap<EventId, DateTime<Utc>>,
    begin: DateTime<Utc>,
    /// Length of the next period.
    period: TimeDelta,
}

impl<'a> Search<'a> {
    fn new(
        processor: &'a EventProcessor,
        position: &ConsumerSubscription,
        until: DateTime<Utc>,
        LostEvents { rejected, searched_until }: LostEvents,
    ) -> Search<'a> {
        let stored = position.checked_until;
        let from = if rejected.is_empty() { stored } else { stored.max(searched_until) };
        let begin = processor.outbox.now();
        Search { processor, after_id: position.after_id, from, until, rejected, begin, period: PERIOD }
    }

    /// Applies the lost events. If the queue is not empty, at most a batch of them: most may still be in the queue.
    async fn apply_lost(&mut self, has_queued: bool) -> Result<(), StoreError> {
        // Events that could not be settled are found again.
        let mut tried: BTreeSet<EventId> = self.rejected.keys().cloned().collect();
        if !self.apply_rejected().await? {
            return Ok(());
        }
        let mut found_again = 0;
        while self.continues() && self.rejected.len() < BATCH as usize {
            let limit = BATCH.saturating_add(found_again);
            let (mut lost, end) = self.unconsumed(limit).await?;
            let found = lost.len();
            lost.retain(|row| tried.insert(row.event_id.clone()));
            found_again = u32::try_from(found - lost.len()).unwrap_or(u32::MAX);
            for row in &lost {
                event_line!(
                    WARN,
                    self.processor.fields(row),
                    code = "consumer.event.lost",
                    queue = self.processor.queue(),
                    consumer = self.processor.name(),
                    "[{}] the broker lost a confirmed event; applying it from the outbox",
                    self.processor.name()
                );
                let goes_on = self.apply(&row.event_id, row.sent_time.unwrap_or(end), Some(row)).await?;
                // The next sweep finds the remaining ones: unsettled events must not wait for all of them.
                if !goes_on || !self.continues() {
                    return Ok(());
                }
            }
            if found < limit as usize {
                self.from = end;
                found_again = 0;
            }
            if has_queued && !lost.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Tries events again that the store rejected. Returns `false` if no other event can be applied either.
    async fn apply_rejected(&mut self) -> Result<bool, StoreError> {
        if self.rejected.is_empty() {
            return Ok(true);
        }
        let rejected = self.rejected.clone();
        let events: Vec<EventId> = rejected.keys().cloned().collect();
        let rows = self.processor.outbox.view().await?.outbox_view().outbox_by_event(&events).await?;
        for (event, sent) in rejected {
            let row = rows.iter().find(|row| row.event_id == event);
            if !self.apply(&event, sent, row).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Continues up to the first event that is not applied, which the queue may still contain.
    async fn skip_applied(&mut self) -> Result<(), StoreError> {
        while self.continues() {
            let (found, end) = self.unconsumed(1).await?;
            if let Some(first) = found.first() {
                self.from = first.sent_time.map_or(self.from, just_before);
                break;
            }
            self.from = end;
        }
        Ok(())
    }

    fn continues(&self) -> bool {
        let elapsed = (self.processor.outbox.now() - self.begin).to_std().unwrap_or_default();
        self.from < self.until && elapsed < LONGEST_SEARCH
    }

    /// Events of the next period, and its end.
    async fn unconsumed(&mut self, limit: u32) -> Result<(Vec<OutboxRow>, DateTime<Utc>), StoreError> {
        let end = self.from.checked_add_signed(self.period).map_or(self.until, |end| end.min(self.until));
        let queried_at = self.processor.outbox.now();
        let types = self.processor.bound.event_types();
        let mut view = self.processor.outbox.view().await?;
        let found = view
            .outbox_view()
            .unconsumed_events(self.processor.name(), &types, self.after_id, self.from, end, limit)
            .await?;
        let is_fast = self.processor.outbox.now() - queried_at < FAST;
        self.period = if is_fast { (self.period * 2).min(LONGEST_PERIOD) } else { PERIOD };
        Ok((found, end))
    }

    /// Returns `false` if no other event can be applied either.
    async fn apply(
        &mut self,
        event: &EventId,
        sent: DateTime<Utc>,
        row: Option<&OutboxRow>,
    ) -> Result<bool, StoreError> {
        if self.processor.outbox.stopping().is_cancelled() {
            return Ok(false);
        }
        match apply_event(self.processor, event, row, Instant::now() + LONGEST_RUN).await? {
            SweepOutcome::Recorded | SweepOutcome::Postponed => {
                self.rejected.remove(event);
                Ok(true)
            }
            SweepOutcome::Rejected => {
                self.rejected.insert(event.clone(), sent);
                Ok(true)
            }
            SweepOutcome::Paused => Ok(false),
        }
    }
}

/// The resolution of stored times is a microsecond.
fn just_before(sent: DateTime<Utc>) -> DateTime<Utc> {
    sent - TimeDelta::microseconds(1)
}

async fn set_checked_until(processor: &EventProcessor, until: DateTime<Utc>) -> Result<(), StoreError> {
    let name = Arc::clone(&processor.bound.name);
    with_tx(&processor.outbox.tx, name, move |unit, name, _| {
        Box::pin(async move { unit.outbox().set_checked_until(name, until).await })
    })
    .await
}

/// Whether the queue still contains messages, or this process has unsettled ones of it. If the broker is unreachable, the queue counts
/// as not empty.
async fn has_queued_messages(processor: &EventProcessor) -> bool {
    broker_timeout(processor.outbox.broker.has_messages(processor.queue())).await.unwrap_or(true)
}
