//! The relay publishes pending outbox rows to the broker. Rows of an aggregate are published in order, unless their
//! type is unordered. While a few groups of events (a tenant, a type) fill every window, or fill a queue faster than its
//! consumers drain it, the events of other groups are searched behind them and published first (`look_ahead`), and the
//! queues are kept short (`admission`). While a window of a backlog is published and settled, the next one is read and
//! published (`in_flight`). While a transaction stays open in the database, searches begin at a mark (`search`).
//!
//! **Invariant:** a row becomes SENT only with a [`Confirmed`](crate::ports::Confirmed) from the broker, in a
//! transaction that has checked this relay's epoch of the row's partition.

mod admission;
mod backlog;
mod in_flight;
mod look_ahead;
mod owned_leases;
mod ownership;
mod recent;
mod rest;
mod search;
mod settlement;
mod window;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::PartitionSet;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::low_water_mark::LowWaterMark;
use crate::outbox::Outbox;
use crate::ports::{Due, OutboxRow, OwnedPartition, RelayId, StoreError};
use crate::settings::RelaySettings;
use crate::transaction::with_tx;
use crate::wakeup::WakeupNotifier;
use admission::Admission;
use in_flight::{Ended, InFlight};
use look_ahead::LookAhead;
use ownership::{Ownership, Surplus};
use recent::Recent;
use rest::Rest;
use window::{Publishes, Window, batch_after};

pub use crate::message::envelope_of;

/// First pause after a failure of store or broker; doubled up to `probe_cap`.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Pause before leases are renewed again after an error of the database.
const RENEWAL_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of windows that are published or settled at the same time.
const MAX_WINDOWS: usize = 2;

/// Interval at which the relay searches for retries that are due too late.
const LATE_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Clock difference between two relays that is tolerated before a retry counts as due too late.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// One relay in one process.
pub struct Relay {
    outbox: Outbox,
    wake: WakeupNotifier,
    settings: Arc<RelaySettings>,
    ownership: Ownership,
    pause: Duration,
    in_flight: InFlight,
    /// Whether each window that ended since the last search began was confirmed and settled as a whole.
    is_complete: bool,
    publishes: Publishes,
    next_late_retry_search: Instant,
    low_water: Arc<Mutex<LowWaterMark>>,
    /// Partitions of the last search: rows of others may be below the mark.
    searched: PartitionSet,
    /// The search behind a backlog; `None` while there is none.
    look_ahead: Option<LookAhead>,
    /// The events that show whether a search behind a backlog in a queue is needed.
    recent: Recent,
    admission: Admission,
    /// Whether the broker accepted no messages at the last check.
    blocked: bool,
    /// Maximum number of rows of the next window.
    batch: u32,
}

impl Relay {
    /// A relay with this id. The id MUST be unique for each run of a relay.
    pub fn new(outbox: Outbox, wake: WakeupNotifier, id: RelayId, settings: RelaySettings) -> Relay {
        let ownership = Ownership::new(outbox.tx.clone(), id, settings.lease_ms);
        let next_late_retry_search = Instant::now();
        let admission = Admission::new(settings.max_queued);
        let batch = settings.batch.get();
        let low_water = Arc::new(Mutex::new(LowWaterMark::new(settings.scan_interval, settings.slow_search)));
        Relay {
            outbox,
            wake,
            settings: Arc::new(settings),
            ownership,
            pause: FIRST_PAUSE,
            in_flight: InFlight::default(),
            is_complete: true,
            publishes: Publishes::default(),
            next_late_retry_search,
            low_water,
            searched: PartitionSet::default(),
            look_ahead: None,
            recent: Recent::new(),
            admission,
            blocked: false,
            batch,
        }
    }

    /// Publishes until the process stops, then releases its partitions. During an outage the relay waits.
    pub async fn run(mut self) {
        let stopping = self.outbox.stopping().clone();
        info!(code = "relay.started", relay = %self.ownership.id(), "[OutboxRelay] started");
        while !stopping.is_cancelled() {
            match self.step().await {
                Ok(Step::Worked) => {}
                Ok(Step::Idle(longest)) => {
                    self.pause = FIRST_PAUSE;
                    tokio::select! {
                        biased;
                        () = stopping.cancelled() => {}
                        _ = self.wake.notified() => {}
                        () = self.outbox.sleep(longest) => {}
                    }
                }
                Err(failure) => {
                    self.report(&failure);
                    self.admission.interrupt();
                    self.end_windows().await;
                    self.back_off().await;
                }
            }
        }
        self.end_windows().await;
        if let Err(error) = self.ownership.release().await {
            warn!(code = "relay.not-released", %error, "[OutboxRelay] cannot release partitions; they become free when their lease ends");
        }
    }

    async fn step(&mut self) -> Result<Step, Failure> {
        self.wait_for_turn().await?;
        let surplus = if self.in_flight.is_empty() { Surplus::Release } else { Surplus::Keep };
        self.ownership.tick_if_due(surplus).await?;
        let owned = self.ownership.leases().valid();
        if owned.is_empty() {
            self.wait_until_in_flight(0).await?;
            return Ok(Step::Idle(self.ownership.until_tick()));
        }
        if self.is_blocked().await {
            return Err(Failure::BrokerUnreachable);
        }
        self.bring_retries_forward(owned).await?;
        self.read_load_if_due().await;
        // All queries use the same time: otherwise a row that becomes due between them would be missing from the results.
        let now = self.outbox.now();
        self.publish_ahead(owned, now).await?;
        let Some(room) = self.wait_for_room().await? else { return Ok(Step::Worked) };
        let owned = self.ownership.leases().valid();
        let owned_partitions = self.ownership.leases().partitions();
        let limit = self.limit(room);
        self.search_fully(owned);
        let (from, Due { rows: mut due, next }) = self.due(owned, now, limit).await?;
        let found = due.len();
        let rest = match from.late {
            Some(_) => Rest::Some,
            None => {
                self.search_behind(&due, limit);
                Rest::after(found, limit)
            }
        };
        self.in_flight.retain_other_sequences(&mut due, self.outbox.registry.unordered());
        due.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        let rest = if due.len() < found { Rest::Some } else { rest };
        match rest {
            Rest::None => {
                self.start(owned_partitions, due, rest);
                self.end_backlog(next).await
            }
            // Each of these rows waits for a row in flight.
            Rest::Unknown | Rest::Some if due.is_empty() => {
                self.wait_for_window().await?;
                Ok(Step::Worked)
            }
            Rest::Unknown | Rest::Some => {
                self.start(owned_partitions, due, rest);
                Ok(Step::Worked)
            }
        }
    }

    /// Waits until the next window may be read: it is the only one after a failure, until a window is published again, and if
    /// partitions have to be released.
    async fn wait_for_turn(&mut self) -> Result<(), Failure> {
        let is_single = self.pause > FIRST_PAUSE || self.ownership.has_surplus();
        self.wait_until_in_flight(if is_single { 0 } else { MAX_WINDOWS - 1 }).await
    }

    /// Waits for the windows in flight, which have all rows that are due.
    async fn end_backlog(&mut self, next_due: Option<DateTime<Utc>>) -> Result<Step, Failure> {
        self.wait_until_in_flight(0).await?;
        if !self.is_complete {
            return Ok(Step::Worked);
        }
        self.outbox.outage.nothing_due();
        Ok(Step::Idle(self.idle_for(next_due)))
    }

    /// Waits until one of the windows in flight ends.
    async fn wait_for_window(&mut self) -> Result<(), Failure> {
        self.wait_until_in_flight(self.in_flight.len().saturating_sub(1)).await
    }

    /// Waits until at most this many windows are in flight; renews the leases meanwhile.
    async fn wait_until_in_flight(&mut self, windows: usize) -> Result<(), Failure> {
        while self.in_flight.len() > windows {
            tokio::select! {
                biased;
                ended = self.in_flight.ended() => if let Some(ended) = ended {
                    self.record(ended?)?;
                },
                () = self.outbox.sleep(self.ownership.until_tick()) => self.renew_leases().await,
            }
        }
        Ok(())
    }

    async fn renew_leases(&mut self) {
        if let Err(error) = self.ownership.tick_if_due(Surplus::Keep).await {
            warn!(code = "relay.not-renewed", %error, "[OutboxRelay] cannot renew leases; retrying");
            self.outbox.sleep(RENEWAL_PAUSE).await;
        }
    }

    /// Waits for all windows in flight.
    async fn end_windows(&mut self) {
        while let Err(failure) = self.wait_until_in_flight(0).await {
            self.report(&failure);
        }
    }

    /// Starts to publish a window of these rows, unless there are none. `owned_partitions` are those of the time when the rows
    /// were read.
    fn start(&mut self, owned_partitions: Vec<OwnedPartition>, rows: Vec<OutboxRow>, rest: Rest) {
        if rows.is_empty() {
            return;
        }
        self.batch = batch_after(&rows, self.batch).min(self.settings.batch.get());
        if self.settings.max_queued > 0 {
            self.recent.add(&rows, &self.outbox.registry);
        }
        let window = Window {
            outbox: self.outbox.clone(),
            settings: Arc::clone(&self.settings),
            owned_partitions,
            leases: self.ownership.leases().clone(),
            publishes: self.publishes.clone(),
        };
        self.in_flight.start(window, self.ownership.id().clone(), rows, rest);
    }

    /// Records the result of a window.
    fn record(&mut self, ended: Ended) -> Result<(), Failure> {
        self.is_complete &= ended.is_confirmed && ended.lost.is_empty();
        if !ended.lost.is_empty() {
            warn!(code = "relay.partitions-lost", relay = %self.ownership.id(), "[OutboxRelay] partitions were lost to another relay; their results are discarded");
            self.ownership.drop_lost(&ended.lost);
        }
        if let Some(error) = ended.outage {
            self.outbox.outage.stops_relay(&error);
            return Err(Failure::BrokerUnreachable);
        }
        self.pause = FIRST_PAUSE;
        self.outbox.outage.published(ended.confirmed, ended.rest != Rest::Some && self.in_flight.is_empty());
        Ok(())
    }

    fn report(&self, failure: &Failure) {
        match failure {
            Failure::Database(error) => {
                warn!(code = "relay.database-error", %error, "[OutboxRelay] database error; retrying in {:?}", self.pause);
            }
            // The outage has its own lines.
            Failure::BrokerUnreachable => {}
        }
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

    async fn back_off(&mut self) {
        let deadline = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(self.settings.probe_cap);
        while Instant::now() < deadline && !self.outbox.stopping().is_cancelled() {
            // Leases are renewed during a broker outage. An unavailable store is not queried again immediately.
            let renewed = self.ownership.tick_if_due(Surplus::Release).await;
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

enum Step {
    Worked,
    Idle(Duration),
}

/// Why the relay pauses.
enum Failure {
    BrokerUnreachable,
    Database(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Database(error)
    }
}
