//! What the relay does while a backlog waits, in the outbox or in a queue: it publishes events of other groups first, and the
//! backlog only as far as the queues have room.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::PartitionSet;
use tokio::time::Instant;

use super::admission::Waiting;
use super::look_ahead::{LookAhead, Part};
use super::recent::Origin;
use super::rest::Rest;
use super::{Failure, Relay, admission};
use crate::ports::OutboxRow;
use crate::topology::{QueueSpec, topic_matches};

/// Longest time between two searches behind the backlog while the queues have no room: an event may have been committed
/// without a wake-up notification.
const SEARCH_INTERVAL: Duration = Duration::from_millis(50);

/// Time for which the first pass over all rows goes on without a window of the backlog.
const CATCH_UP: Duration = Duration::from_millis(100);

/// Number of rows that a window reads at least, although fewer may be published.
const LEAST_WINDOW: u32 = 20;

/// A queue decides about the groups that prevail only if it gets at least one of this many of their events.
const LEAST_SHARE: usize = 8;

impl Relay {
    /// Publishes rows of other groups than those of the backlog.
    pub(super) async fn publish_ahead(
        &mut self,
        owned: PartitionSet,
        now: DateTime<Utc>,
    ) -> Result<(), Failure> {
        self.publish_part(Part::End, owned, now).await?;
        let until = Instant::now() + CATCH_UP;
        loop {
            let found = self.publish_part(Part::Pass, owned, now).await?;
            let is_urgent = |ahead: &LookAhead| ahead.is_behind() && !ahead.knows_end();
            let goes_on = found == 0 && self.look_ahead.as_ref().is_some_and(is_urgent);
            if !goes_on || Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Returns the number of rows that were found.
    async fn publish_part(
        &mut self,
        part: Part,
        owned: PartitionSet,
        now: DateTime<Utc>,
    ) -> Result<usize, Failure> {
        let due = self.due_query(owned, now);
        let Some(look_ahead) = &mut self.look_ahead else { return Ok(0) };
        let Some(query) = look_ahead.query(part, due) else { return Ok(0) };
        let owned_partitions = self.ownership.leases().partitions();
        let ahead = self.outbox.view().await?.outbox_view().outbox_ahead(&query).await?;
        look_ahead.found(part, &query, &ahead);
        let found = ahead.rows.len();
        self.start(owned_partitions, ahead.rows, Rest::Some);
        self.wait_for_turn().await?;
        Ok(found)
    }

    /// Begins a search behind the backlog if the window is full, and ends it once the backlog is published.
    pub(super) fn search_behind(&mut self, window: &[OutboxRow], limit: u32) {
        match Rest::after(window.len(), limit) {
            Rest::None => self.look_ahead = None,
            // A smaller window does not show the groups.
            Rest::Some if limit == self.batch && self.look_ahead.as_ref().is_none_or(LookAhead::is_over) => {
                let before = self.look_ahead.take();
                let events: Vec<Origin> =
                    window.iter().map(|row| Origin::of(row, &self.outbox.registry)).collect();
                self.look_ahead = self.begin_behind(&events, Waiting::InOutbox, before);
            }
            Rest::Some | Rest::Unknown => {}
        }
    }

    /// Begins a search behind the groups of the events that were published recently if all of their queues are long: a
    /// group whose rows never fill a window may be faster than the consumers.
    pub(super) async fn read_load_if_due(&mut self) {
        if self.look_ahead.is_some() {
            return;
        }
        let Some(events) = self.recent.if_due() else { return };
        let begun = Instant::now();
        if let Some(look_ahead) = self.begin_behind(&events, Waiting::InQueue, None)
            && self.admission.is_exceeded(self.outbox.broker.as_ref()).await
        {
            self.look_ahead = Some(look_ahead);
        }
        self.recent.was_read(begun.elapsed());
    }

    /// A search behind the groups that fill these events; their queues are kept short meanwhile.
    fn begin_behind(
        &mut self,
        events: &[Origin],
        waiting: Waiting,
        before: Option<LookAhead>,
    ) -> Option<LookAhead> {
        let from_id = self.lowest_searched();
        let look_ahead = LookAhead::behind(events, from_id, self.settings.scan_interval, before)?;
        let held_back = events.iter().filter(|event| look_ahead.leaves_out(event));
        let mut queues = self.queues_of(held_back);
        if waiting == Waiting::InQueue {
            queues.retain(|_, count| *count * LEAST_SHARE >= events.len());
        }
        self.admission.begin(queues.into_keys().collect(), waiting);
        Some(look_ahead)
    }

    /// The queues that get these events, and how many of them.
    fn queues_of<'e>(&self, events: impl Iterator<Item = &'e Origin>) -> BTreeMap<String, usize> {
        let mut counts: BTreeMap<&Origin, usize> = BTreeMap::new();
        events.for_each(|event| *counts.entry(event).or_default() += 1);
        let mut queues = BTreeMap::new();
        for (event, count) in counts {
            let Some(key) = &event.routing_key else { continue };
            let idle = self.outbox.queues_of(&event.idle_consumers);
            let gets_it = |spec: &&QueueSpec| {
                spec.bindings.iter().any(|pattern| topic_matches(pattern, key)) && !idle.contains(&spec.name)
            };
            for spec in self.outbox.topology.queues.iter().filter(gets_it) {
                *queues.entry(spec.name.clone()).or_default() += count;
            }
        }
        queues
    }

    /// Waits until rows of the backlog may enter the queues, and returns their number. `None`: the search behind the backlog
    /// goes on first, because it has not read everything, or events may have been committed.
    pub(super) async fn wait_for_room(&mut self) -> Result<Option<u64>, Failure> {
        let until = Instant::now() + SEARCH_INTERVAL.min(self.ownership.until_tick());
        while let Some(look_ahead) = &self.look_ahead {
            let in_flight = self.in_flight.unconfirmed();
            let room = self.admission.room(self.outbox.broker.as_ref(), in_flight).await;
            if room > 0 {
                return Ok(Some(room));
            }
            if in_flight > 0 {
                self.wait_for_window().await?;
                if self.admission.since_check() < SEARCH_INTERVAL {
                    return Ok(None);
                }
                // The search would start a window of others before each check.
                continue;
            }
            if look_ahead.is_behind() || Instant::now() >= until {
                return Ok(None);
            }
            tokio::select! {
                biased;
                () = self.outbox.stopping().cancelled() => return Ok(None),
                _ = self.wake.notified() => return Ok(None),
                () = self.outbox.sleep(admission::POLL) => {}
            }
        }
        Ok(Some(u64::MAX))
    }

    /// Number of rows of the next window. A window that shows the groups of a backlog is read whole. In a very small one, all
    /// rows may be unreadable, or wait for rows in flight.
    pub(super) fn limit(&self, room: u64) -> u32 {
        match &self.look_ahead {
            Some(look_ahead) if !look_ahead.is_over() => {
                u32::try_from(room).map_or(self.batch, |room| room.max(LEAST_WINDOW).min(self.batch))
            }
            Some(_) | None => self.batch,
        }
    }
}
