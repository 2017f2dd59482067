//! Selects the events that may leave the database, page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::EventId;

use super::kept::{Evidence, Interest, KeptBecause, by_evidence, by_row};
use super::needed::{NeededEvents, Needs, ask};
use super::policy::RetentionPolicy;
use crate::outbox::Outbox;
use crate::ports::{
    Consumed, DeadLetterStatus, DeliveryState, OutboxFilter, OutboxRow, OutboxView, StoreError,
};

/// Maximum number of outbox rows that one call of [`examine`] reads.
pub const MAX_EXAMINED_ROWS: u32 = 500;

/// An event that may leave the database, with its consume-log records, which leave with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivableEvent {
    /// Outbox row.
    pub row: OutboxRow,
    /// Consume-log records.
    pub records: Vec<Consumed>,
}

/// Result of [`examine`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExaminedPage {
    /// Events that may leave the database, smallest id first.
    pub archivable: Vec<ArchivableEvent>,
    /// Number of the other events, by the reason why they stay.
    pub kept: BTreeMap<KeptBecause, u64>,
    /// Low-water mark: `after` of the next page; `None` if later rows are too new, or there are none.
    pub next: Option<i64>,
}

/// Examines at most [`MAX_EXAMINED_ROWS`] outbox rows with an id above `after`.
///
/// The cost of a call does not depend on the number of rows: it reads one range of ids, and looks up the events of this
/// range whose retention time is over. The rows are not locked: the unit of work that deletes an event has to check that it
/// is still archivable.
pub async fn examine(
    outbox: &Outbox,
    policy: &RetentionPolicy,
    application: &dyn NeededEvents,
    after: Option<i64>,
) -> Result<ExaminedPage, StoreError> {
    let now = outbox.now();
    let mut view = outbox.view().await?;
    let rows = view.outbox_view().outbox_after(&OutboxFilter::default(), after, MAX_EXAMINED_ROWS).await?;
    // The application reads its own view: a task with two views could wait forever for a connection.
    drop(view);
    // Ids ascend with the times of the events, apart from rows that were imported.
    let is_old = |row: &OutboxRow| policy.may_be_over(row.create_time, now);
    let is_last = rows.len() < MAX_EXAMINED_ROWS as usize || !rows.iter().any(is_old);
    let next = if is_last { None } else { rows.last().map(|row| row.id) };
    let mut page = ExaminedPage { next, ..ExaminedPage::default() };
    let mut candidates = Vec::new();
    for row in rows {
        match by_row(&row, policy, now) {
            Some(reason) => page.keep(reason),
            None => candidates.push(row),
        }
    }
    let Needs { needed, unreadable } = ask(application, &candidates).await?;
    unreadable.iter().for_each(|_| page.keep(KeptBecause::Unreadable));
    candidates.retain(|row| !unreadable.contains(&row.event_id));
    if !candidates.is_empty() {
        let mut view = outbox.view().await?;
        let view = view.outbox_view();
        let interests = interests(outbox, view).await?;
        page.decide(view, needed, interests, candidates).await?;
        page.keep_recently_consumed(policy, now);
    }
    Ok(page)
}

/// Those of these events that may still leave the database, for the unit of work in which they leave it: `application` MUST NOT
/// read the database.
pub(super) async fn still_archivable(
    outbox: &Outbox,
    view: &mut dyn OutboxView,
    policy: &RetentionPolicy,
    application: &dyn NeededEvents,
    events: &[EventId],
) -> Result<BTreeSet<EventId>, StoreError> {
    let now = outbox.now();
    let mut rows = view.outbox_by_event(events).await?;
    rows.retain(|row| by_row(row, policy, now).is_none());
    let needed = application.needed(&rows).await?;
    let interests = interests(outbox, view).await?;
    let mut page = ExaminedPage::default();
    page.decide(view, needed, interests, rows).await?;
    page.keep_recently_consumed(policy, now);
    Ok(page.archivable.into_iter().map(|event| event.row.event_id).collect())
}

/// Examines these rows as if every retention time were over and the application needed none of them: what remains is what relay,
/// consumers, operators and receivers of webhooks have not settled.
pub(crate) async fn settled(
    outbox: &Outbox,
    view: &mut dyn OutboxView,
    rows: Vec<OutboxRow>,
) -> Result<ExaminedPage, StoreError> {
    let (policy, now) = (RetentionPolicy::new(Duration::ZERO), outbox.now());
    let mut page = ExaminedPage::default();
    let mut candidates = Vec::new();
    for row in rows {
        match by_row(&row, &policy, now) {
            Some(reason) => page.keep(reason),
            None => candidates.push(row),
        }
    }
    if !candidates.is_empty() {
        let interests = interests(outbox, view).await?;
        page.decide(view, BTreeSet::new(), interests, candidates).await?;
    }
    Ok(page)
}

impl ExaminedPage {
    fn keep(&mut self, reason: KeptBecause) {
        *self.kept.entry(reason).or_default() += 1;
    }

    /// Keeps the events of which a record is so young that another attempt, which began before it, may still be in progress: such an
    /// attempt would not find the record in the database.
    fn keep_recently_consumed(&mut self, policy: &RetentionPolicy, now: DateTime<Utc>) {
        let is_recent = |event: &ArchivableEvent| {
            let mut records = event.records.iter();
            records.any(|it| !policy.is_over(&event.row.event_type, it.record.consume_time, now))
        };
        let (recent, archivable) = std::mem::take(&mut self.archivable).into_iter().partition(is_recent);
        self.archivable = archivable;
        let recent: Vec<ArchivableEvent> = recent;
        recent.iter().for_each(|_| self.keep(KeptBecause::Recent));
    }

    async fn decide(
        &mut self,
        view: &mut dyn OutboxView,
        needed: BTreeSet<EventId>,
        interests: BTreeMap<String, Interest>,
        candidates: Vec<OutboxRow>,
    ) -> Result<(), StoreError> {
        let mut evidence = Evidence { interests, needed, ..Evidence::default() };
        let mut readable = Vec::new();
        match evidence.read(view, &candidates).await {
            Ok(()) => readable = candidates,
            // One event must not stop the others.
            Err(StoreError::Corrupt { .. }) => {
                for row in candidates {
                    match evidence.read(view, std::slice::from_ref(&row)).await {
                        Ok(()) => readable.push(row),
                        Err(StoreError::Corrupt { .. }) => self.keep(KeptBecause::Unreadable),
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) => return Err(error),
        }
        for row in readable {
            match by_evidence(&row, &evidence) {
                Some(reason) => self.keep(reason),
                None => {
                    let records = evidence.records.remove(&row.event_id).unwrap_or_default();
                    self.archivable.push(ArchivableEvent { row, records });
                }
            }
        }
        Ok(())
    }
}

/// The consumers of all processes: those of this process also while none of them runs, and those that only processes of
/// another version know.
async fn interests(
    outbox: &Outbox,
    view: &mut dyn OutboxView,
) -> Result<BTreeMap<String, Interest>, StoreError> {
    let mut interests: BTreeMap<String, Interest> = BTreeMap::new();
    for consumer in outbox.consumers() {
        let interest = interests.entry(consumer.consumer.clone()).or_default();
        interest.event_types.extend(consumer.event_types.iter().cloned());
    }
    for registered in view.registered_types().await? {
        interests.entry(registered.consumer).or_default().event_types.insert(registered.event_type);
    }
    for (consumer, interest) in &mut interests {
        let subscription = view.consumer_subscription(consumer).await?;
        interest.after_id = subscription.map(|subscription| subscription.after_id);
    }
    Ok(interests)
}

impl Evidence {
    /// Adds what the database knows about these events.
    async fn read(&mut self, view: &mut dyn OutboxView, rows: &[OutboxRow]) -> Result<(), StoreError> {
        let events: Vec<EventId> = rows.iter().map(|row| row.event_id.clone()).collect();
        let keys: Vec<String> = events.iter().map(EventId::to_string).collect();
        let records = view.consumed_of(&events).await?;
        let dead_letters = view.dead_letters_of(&keys).await?;
        let deliveries = view.webhook_deliveries_of(&events).await?;
        for record in records {
            self.records.entry(record.event_id.clone()).or_default().push(record);
        }
        for dead_letter in dead_letters {
            match dead_letter.status {
                DeadLetterStatus::Open | DeadLetterStatus::Replaying => {
                    self.undecided.insert(dead_letter.key.clone());
                }
                DeadLetterStatus::Replayed | DeadLetterStatus::Discarded => {}
            }
            self.dead_lettered.insert(dead_letter.key);
        }
        for delivery in deliveries {
            match delivery.state {
                DeliveryState::Pending => {
                    self.pending_deliveries.insert(delivery.event_id);
                }
                DeliveryState::Delivered | DeliveryState::Dead | DeliveryState::Cancelled => {}
            }
        }
        Ok(())
    }
}
