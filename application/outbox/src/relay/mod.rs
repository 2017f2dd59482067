//! The relay: carries every pending outbox row to the broker, each aggregate's in order.
//!
//! **Invariant:** a row becomes SENT only by a [`Confirmed`](crate::ports::Confirmed) of the broker, in a transaction
//! that has checked this relay's epoch of the row's partition.

mod message;
mod ownership;
mod settlement;
mod window;

use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::PartitionSet;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::mutants::{Mutant, planted};
use crate::ports::{DueQuery, OnFailed, OutboxRow, RelayId, StoreError};
use crate::settings::RelaySettings;
use crate::{Outbox, Wake};
use ownership::Ownership;
use window::WindowEnd;

pub use message::envelope_of;
pub(crate) use message::{TRACEPARENT, outgoing_to};

/// The first pause after a failure of store or broker; doubled up to `probe_cap`.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// One relay of one process.
pub struct Relay {
    outbox: Outbox,
    wake: Wake,
    settings: RelaySettings,
    ownership: Ownership,
    pause: Duration,
    /// The broker said that it takes nothing, and that was told.
    blocked: bool,
}

impl Relay {
    /// A relay under this id, which no other run of any relay may have.
    pub fn new(outbox: Outbox, wake: Wake, id: RelayId, settings: RelaySettings) -> Relay {
        let ownership = Ownership::new(outbox.tx.clone(), id, settings.lease_ms);
        Relay { outbox, wake, settings, ownership, pause: FIRST_PAUSE, blocked: false }
    }

    /// Publishes until the process stops; then gives its partitions back. An outage only makes it wait.
    pub async fn run(mut self) {
        let stopping = self.outbox.tx.tasks.stopping().clone();
        info!(relay = %self.ownership.id(), "[OutboxRelay] started");
        while !stopping.is_cancelled() {
            match self.step().await {
                Ok(Step::Worked) => self.pause = FIRST_PAUSE,
                Ok(Step::Idle(longest)) => {
                    self.pause = FIRST_PAUSE;
                    tokio::select! {
                        biased;
                        () = stopping.cancelled() => {}
                        _ = self.wake.rung() => {}
                        () = self.outbox.tx.clock.sleep(longest) => {}
                    }
                }
                Ok(Step::BrokerAway) => self.back_off().await,
                Err(error) => {
                    warn!(%error, "[OutboxRelay] the store failed; trying again in {:?}", self.pause);
                    self.back_off().await;
                }
            }
        }
        if let Err(error) = self.ownership.release().await {
            warn!(%error, "[OutboxRelay] partitions were not given back; they are free when their lease ends");
        }
    }

    async fn step(&mut self) -> Result<Step, StoreError> {
        self.ownership.tick_if_due(ownership::Surplus::GiveBack).await?;
        let owned = self.ownership.owned();
        if owned.is_empty() {
            return Ok(Step::Idle(self.ownership.until_tick()));
        }
        if self.is_blocked().await {
            return Ok(Step::BrokerAway);
        }
        // One moment for both questions: what becomes due between them would be in neither answer.
        let now = self.outbox.now();
        let due = self.due(owned, now).await?;
        if due.is_empty() {
            return Ok(Step::Idle(self.idle_for(owned, now).await?));
        }
        Ok(match self.publish_window(due).await? {
            WindowEnd::Settled => Step::Worked,
            WindowEnd::BrokerAway => Step::BrokerAway,
        })
    }

    /// Whether the broker takes nothing at the moment: then nothing is read that it could be given. Told once.
    async fn is_blocked(&mut self) -> bool {
        let reason = self.outbox.broker.blocked().await;
        match (&reason, self.blocked) {
            (Some(reason), false) => {
                warn!(%reason, "[OutboxRelay] [ALERT] the broker takes no messages; events wait")
            }
            (None, true) => info!("[OutboxRelay] the broker takes messages again"),
            (Some(_), true) | (None, false) => {}
        }
        self.blocked = reason.is_some();
        self.blocked
    }

    async fn due(&self, owned: PartitionSet, now: DateTime<Utc>) -> Result<Vec<OutboxRow>, StoreError> {
        let mut view = self.outbox.view().await?;
        let on_failed = match self.settings.on_failed {
            OnFailed::Hold if planted(Mutant::RelayIgnoresHeld) => OnFailed::Continue,
            on_failed @ (OnFailed::Hold | OnFailed::Continue) => on_failed,
        };
        let query = DueQuery {
            partitions: owned,
            now,
            on_failed,
            unordered: self.outbox.registry.unordered().clone(),
            limit: self.settings.batch.get(),
        };
        view.outbox_view().outbox_due(&query).await
    }

    /// Until the next retry is due, the next lease tick, or the scan interval: whichever is first.
    async fn idle_for(&self, owned: PartitionSet, now: DateTime<Utc>) -> Result<Duration, StoreError> {
        let next_due = self.outbox.view().await?.outbox_view().outbox_next_due(owned, now).await?;
        let until_due =
            next_due.and_then(|due| (due - now).to_std().ok()).unwrap_or(self.settings.scan_interval);
        Ok(until_due.min(self.settings.scan_interval).min(self.ownership.until_tick()))
    }

    async fn back_off(&mut self) {
        let deadline = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(self.settings.probe_cap);
        while Instant::now() < deadline && !self.outbox.tx.tasks.stopping().is_cancelled() {
            // The lease is kept through an outage of the broker; a store that is away is not asked again at once.
            let kept = self.ownership.tick_if_due(ownership::Surplus::GiveBack).await;
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = if kept.is_ok() { left.min(self.ownership.until_tick()) } else { left };
            tokio::select! {
                biased;
                () = self.outbox.tx.tasks.stopping().cancelled() => {}
                () = self.outbox.tx.clock.sleep(wait.max(Duration::from_millis(1))) => {}
            }
        }
    }
}

enum Step {
    Worked,
    Idle(Duration),
    BrokerAway,
}
