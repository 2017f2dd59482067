//! The relay publishes pending outbox rows to the broker. Rows of an aggregate are published in order, unless their
//! type is unordered. While a few groups of events (a tenant, a type) fill every window, the events of other groups are
//! searched behind them and published first (`look_ahead`), and the queues are kept short (`admission`).
//!
//! **Invariant:** a row becomes SENT only with a [`Confirmed`](crate::ports::Confirmed) from the broker, in a
//! transaction that has checked this relay's epoch of the row's partition.

mod admission;
mod backlog;
mod look_ahead;
mod ownership;
mod settlement;
mod window;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::PartitionSet;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::low_water_mark::LowWaterMark;
use crate::outbox::Outbox;
use crate::ports::{Due, DueQuery, OutboxRow, RelayId, StoreError};
use crate::settings::RelaySettings;
use crate::transaction::with_tx;
use crate::wakeup::WakeupNotifier;
use admission::Admission;
use look_ahead::LookAhead;
use ownership::Ownership;
use settlement::Settlement;
use window::Window;

pub use crate::message::envelope_of;

/// First pause after a failure of store or broker; doubled up to `probe_cap`.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Interval at which the relay searches for retries that are due too late.
const LATE_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Clock difference between two relays that is tolerated before a retry counts as due too late.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// One relay in one process.
pub struct Relay {
    outbox: Outbox,
    wake: WakeupNotifier,
    settings: RelaySettings,
    ownership: Ownership,
    pause: Duration,
    next_late_retry_search: Instant,
    low_water: LowWaterMark,
    /// Partitions of the last search: rows of others may be below the mark.
    searched: PartitionSet,
    /// The search behind a backlog; `None` if the last window was not full.
    look_ahead: Option<LookAhead>,
    admission: Admission,
    /// Whether the broker accepted no messages at the last check.
    blocked: bool,
}

impl Relay {
    /// A relay with this id. The id MUST be unique for each run of a relay.
    pub fn new(outbox: Outbox, wake: WakeupNotifier, id: RelayId, settings: RelaySettings) -> Relay {
        let ownership = Ownership::new(outbox.tx.clone(), id, settings.lease_ms);
        let next_late_retry_search = Instant::now();
        let admission = Admission::new(settings.max_queued);
        let low_water = LowWaterMark::new(settings.scan_interval, settings.slow_search);
        Relay {
            outbox,
            wake,
            settings,
            ownership,
            pause: FIRST_PAUSE,
            next_late_retry_search,
            low_water,
            searched: PartitionSet::default(),
            look_ahead: None,
            admission,
            blocked: false,
        }
    }

    /// Publishes until the process stops, then releases its partitions. During an outage the relay waits.
    pub async fn run(mut self) {
        let stopping = self.outbox.stopping().clone();
        info!(code = "relay.started", relay = %self.ownership.id(), "[OutboxRelay] started");
        while !stopping.is_cancelled() {
            match self.step().await {
                Ok(Step::Worked) => self.pause = FIRST_PAUSE,
                Ok(Step::Idle(longest)) => {
                    self.pause = FIRST_PAUSE;
                    tokio::select! {
                        biased;
                        () = stopping.cancelled() => {}
                        _ = self.wake.notified() => {}
                        () = self.outbox.sleep(longest) => {}
                    }
                }
                Ok(Step::BrokerUnreachable) => self.back_off().await,
                Err(error) => {
                    warn!(code = "relay.database-error", %error, "[OutboxRelay] database error; retrying in {:?}", self.pause);
                    self.back_off().await;
                }
            }
        }
        if let Err(error) = self.ownership.release().await {
            warn!(code = "relay.not-released", %error, "[OutboxRelay] cannot release partitions; they become free when their lease ends");
        }
    }

    async fn step(&mut self) -> Result<Step, StoreError> {
        self.ownership.tick_if_due(ownership::Surplus::Release).await?;
        let owned = self.ownership.owned();
        if owned.is_empty() {
            return Ok(Step::Idle(self.ownership.until_tick()));
        }
        if self.is_blocked().await {
            return Ok(Step::BrokerUnreachable);
        }
        self.bring_retries_forward(owned).await?;
        // All queries use the same time: otherwise a row that becomes due between them would be missing from the results.
        let now = self.outbox.now();
        match self.publish_ahead(owned, now).await? {
            Published::All | Published::Some => {}
            Published::BrokerUnreachable => return Ok(Step::BrokerUnreachable),
        }
        let Some(room) = self.wait_for_room().await else { return Ok(Step::Worked) };
        let owned = self.ownership.owned();
        let limit = self.limit(room);
        let Due { rows: mut due, next } = self.due(owned, now, limit).await?;
        let rest = Rest::after(due.len(), limit);
        self.search_behind(&due, limit);
        due.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        if due.is_empty() {
            self.outbox.outage.nothing_due();
            return Ok(Step::Idle(self.idle_for(next)));
        }
        match self.publish(&due, rest).await? {
            Published::All if !self.wake.is_pending() => Ok(Step::Idle(self.idle_for(next))),
            Published::All | Published::Some => Ok(Step::Worked),
            Published::BrokerUnreachable => Ok(Step::BrokerUnreachable),
        }
    }

    /// Publishes the due rows and records the results.
    async fn publish(&mut self, due: &[OutboxRow], rest: Rest) -> Result<Published, StoreError> {
        // Epochs at which the rows were read. A result is recorded only if its partition still has this epoch.
        let owned_partitions = self.ownership.owned_partitions();
        let window =
            Window { outbox: &self.outbox, settings: &self.settings, ownership: &mut self.ownership };
        let results = window.publish(due, &owned_partitions).await;
        let outage = results.outage.clone();
        let confirmed = results.confirmed.len();
        let owner = self.ownership.id();
        let settlement = Settlement::of(due, owner, owned_partitions, results, self.outbox.now());
        let lost = settlement.settle(&self.outbox, due).await?;
        if !lost.is_empty() {
            warn!(code = "relay.partitions-lost", relay = %self.ownership.id(), "[OutboxRelay] partitions were lost to another relay; their results are discarded");
            self.ownership.drop_lost(&lost);
        }
        if let Some(error) = outage {
            self.outbox.outage.stops_relay(&error);
            return Ok(Published::BrokerUnreachable);
        }
        self.outbox.outage.published(confirmed, rest != Rest::Some);
        let is_all = rest == Rest::None && confirmed == due.len() && lost.is_empty();
        Ok(if is_all { Published::All } else { Published::Some })
    }

    /// Whether the broker currently accepts no messages; then no rows are read.
    async fn is_blocked(&mut self) -> bool {
        let reason = self.outbox.broker.blocked().await;
        match &reason {
            Some(reason) => {
                self.outbox.outage.stops_relay(&format_args!("broker accepts no messages: {reason}"));
            }
            None if self.blocked => self.outbox.outage.unblocked(),
            None => {}
        }
        self.blocked = reason.is_some();
        self.blocked
    }

    /// Sets retries to be due now if they are due later than the retry policy allows. If the clock was set back after
    /// the time of a retry was written, the retry and the later events of its aggregate would otherwise wait longer by
    /// that clock step. No fence is needed, because an early retry is harmless.
    async fn bring_retries_forward(&mut self, owned: PartitionSet) -> Result<(), StoreError> {
        if Instant::now() < self.next_late_retry_search {
            return Ok(());
        }
        self.next_late_retry_search = Instant::now() + LATE_RETRY_INTERVAL;
        let longest = self.settings.retry.longest_delay().saturating_add(CLOCK_TOLERANCE);
        let now = self.outbox.now();
        let beyond = TimeDelta::from_std(longest).ok().and_then(|longest| now.checked_add_signed(longest));
        let Some(beyond) = beyond else { return Ok(()) };
        let forwarded = with_tx(&self.outbox.tx, (), move |unit, (), _| {
            Box::pin(async move { unit.outbox().bring_retries_forward(owned, beyond, now).await })
        })
        .await?;
        if forwarded > 0 {
            warn!(
                code = "relay.retries-brought-forward",
                rows = forwarded,
                "[OutboxRelay] retries were due later than the retry policy allows; retrying now"
            );
        }
        Ok(())
    }

    fn due_query(&self, owned: PartitionSet, now: DateTime<Utc>) -> DueQuery {
        DueQuery {
            partitions: owned,
            now,
            on_failed: self.outbox.on_failed,
            unordered: self.outbox.registry.unordered().clone(),
            limit: self.settings.batch.get(),
            from_id: 0,
        }
    }

    async fn due(&mut self, owned: PartitionSet, now: DateTime<Utc>, limit: u32) -> Result<Due, StoreError> {
        let mut view = self.outbox.view().await?;
        if owned != self.searched {
            self.searched = owned;
            self.low_water.reset();
            self.look_ahead = None;
        }
        let from_id = self.low_water.begin();
        let query = DueQuery { from_id, limit, ..self.due_query(owned, now) };
        let begun = Instant::now();
        let due = view.outbox_view().outbox_due(&query).await?;
        self.low_water.found(from_id, due.rows.iter().map(|row| row.id).min(), begun.elapsed());
        Ok(due)
    }

    /// Shortest of three times: until the next retry is due, until the next lease renewal, and the scan interval.
    fn idle_for(&mut self, next_due: Option<DateTime<Utc>>) -> Duration {
        let now = self.outbox.now();
        let until_due = next_due
            .map_or(self.settings.scan_interval, |due| (due - now).to_std().unwrap_or(Duration::ZERO));
        self.low_water.full_within(until_due);
        until_due.min(self.settings.scan_interval).min(self.ownership.until_tick())
    }

    async fn back_off(&mut self) {
        let deadline = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(self.settings.probe_cap);
        while Instant::now() < deadline && !self.outbox.stopping().is_cancelled() {
            // Leases are renewed during a broker outage. An unavailable store is not queried again immediately.
            let renewed = self.ownership.tick_if_due(ownership::Surplus::Release).await;
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = if renewed.is_ok() { left.min(self.ownership.until_tick()) } else { left };
            tokio::select! {
                biased;
                () = self.outbox.stopping().cancelled() => {}
                () = self.outbox.sleep(wait.max(Duration::from_millis(1))) => {}
            }
        }
    }
}

/// Whether rows are due besides those of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    None,
    Unknown,
    Some,
}

impl Rest {
    /// After a window with this number of rows and this limit. Unreadable rows are missing in a window, but count against
    /// the limit: only a window far below it has all rows.
    fn after(rows: usize, limit: u32) -> Rest {
        match u32::try_from(rows).unwrap_or(u32::MAX) {
            rows if rows >= limit => Rest::Some,
            rows if rows == 0 || rows < limit / 2 => Rest::None,
            _ => Rest::Unknown,
        }
    }
}

/// Result of a window.
enum Published {
    /// All rows that were due are published and settled: nothing else is due, unless it was committed meanwhile.
    All,
    /// Other rows may be due: the window was full, or a failure has unblocked later rows of an aggregate.
    Some,
    BrokerUnreachable,
}

enum Step {
    Worked,
    Idle(Duration),
    BrokerUnreachable,
}
