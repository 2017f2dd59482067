//! Which partitions this relay owns, and until when by its own clock.
//!
//! **Invariant:** what `owned` names is leased in the database for longer than this relay's monotonic clock says.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{PARTITIONS, Partition, PartitionSet};
use tokio::time::Instant;
use tracing::info;

use crate::mutants::{Mutant, planted};
use crate::ports::{Changed, Heartbeat, PartitionHold, PartitionLease, RelayId, StoreError};
use crate::{LeaseWatch, Transactor, with_tx};

/// What to do with partitions beyond this relay's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surplus {
    /// Give them back: nothing of them is in flight.
    GiveBack,
    /// Keep them: a window is not settled yet.
    Keep,
}

/// The leases as the database has them after a renewal.
struct Seen {
    now: DateTime<Utc>,
    /// Those of this relay's that were renewed.
    held: Vec<PartitionHold>,
    heartbeats: Vec<Heartbeat>,
    leases: Vec<PartitionLease>,
}

struct Held {
    epoch: i64,
    valid_until: Instant,
}

pub(super) struct Ownership {
    tx: Transactor,
    id: RelayId,
    lease_ms: u32,
    held: BTreeMap<Partition, Held>,
    next_tick: Instant,
    relays: LeaseWatch<RelayId>,
    leases: LeaseWatch<Partition>,
    /// More than its share, kept for a window that was in flight.
    has_surplus: bool,
}

impl Ownership {
    pub(super) fn new(tx: Transactor, id: RelayId, lease_ms: u32) -> Ownership {
        let length = Duration::from_millis(u64::from(lease_ms));
        Ownership {
            tx,
            id,
            lease_ms,
            held: BTreeMap::new(),
            next_tick: Instant::now(),
            relays: LeaseWatch::new(length),
            leases: LeaseWatch::new(length),
            has_surplus: false,
        }
    }

    pub(super) fn id(&self) -> &RelayId {
        &self.id
    }

    /// The partitions that may be published now.
    pub(super) fn owned(&self) -> PartitionSet {
        let now = Instant::now();
        self.held.iter().filter(|(_, held)| now < held.valid_until).map(|(partition, _)| *partition).collect()
    }

    /// Those of them that have been held ever since: in the same epoch.
    pub(super) fn owned_since(&self, holds: &[PartitionHold]) -> PartitionSet {
        let owned = self.owned();
        let same = |hold: &&PartitionHold| {
            self.held.get(&hold.partition).is_some_and(|held| held.epoch == hold.epoch)
        };
        holds.iter().filter(same).map(|hold| hold.partition).filter(|it| owned.contains(*it)).collect()
    }

    /// The holds that settlement has to show.
    pub(super) fn holds(&self) -> Vec<PartitionHold> {
        self.held
            .iter()
            .map(|(partition, held)| PartitionHold { partition: *partition, epoch: held.epoch })
            .collect()
    }

    pub(super) fn until_tick(&self) -> Duration {
        self.next_tick.saturating_duration_since(Instant::now())
    }

    /// Heartbeat, renewal and rebalancing, when a third of the lease has passed. A surplus is given back as soon as it
    /// may be: a relay that is always at a window would find that out during one each time.
    pub(super) async fn tick_if_due(&mut self, surplus: Surplus) -> Result<(), StoreError> {
        let gives_back = self.has_surplus && surplus == Surplus::GiveBack;
        if Instant::now() < self.next_tick && !gives_back {
            return Ok(());
        }
        let asked = Instant::now();
        // Counted from before the question: the database's lease begins later, so it also ends later.
        let lease = Duration::from_millis(u64::from(self.lease_ms));
        let seen = self.renew().await?;
        let (now_held, share) = self.rebalance(seen, surplus).await?;
        self.has_surplus = now_held.len() > share;
        let before = self.held.len();
        let valid_until = asked + lease.mul_f64(0.8);
        self.held = now_held
            .into_iter()
            .map(|hold| (hold.partition, Held { epoch: hold.epoch, valid_until }))
            .collect();
        if self.held.len() != before {
            info!(relay = %self.id, partitions = self.held.len(), "[OutboxRelay] owns partitions");
        }
        self.next_tick = asked + lease / 3;
        Ok(())
    }

    /// Heartbeat and renewal; returns what the database holds afterwards.
    async fn renew(&self) -> Result<Seen, StoreError> {
        let (id, lease_ms, holds) = (self.id.clone(), self.lease_ms, self.holds());
        with_tx(&self.tx, move |unit, _| {
            let (id, holds) = (id.clone(), holds.clone());
            Box::pin(async move {
                unit.outbox().heartbeat(&id, lease_ms).await?;
                let held = if planted(Mutant::LeaseNotRenewed) {
                    holds
                } else {
                    unit.outbox().renew_partitions(&id, &holds, lease_ms).await?
                };
                let heartbeats = unit.outbox().heartbeats().await?;
                let leases = unit.outbox().partition_leases().await?;
                Ok(Seen { now: unit.outbox().database_now().await?, held, heartbeats, leases })
            })
        })
        .await
    }

    /// Gives back partitions beyond this relay's share, or takes free ones up to it. Returns the holds and the share.
    async fn rebalance(
        &mut self,
        seen: Seen,
        surplus: Surplus,
    ) -> Result<(Vec<PartitionHold>, usize), StoreError> {
        let Seen { now, mut held, heartbeats, leases } = seen;
        let alive_until = |beat: &Heartbeat| (beat.relay.clone(), beat.alive_until);
        let ended = self.relays.ended(now, &heartbeats.iter().map(alive_until).collect::<Vec<_>>());
        let lease_until = |lease: &PartitionLease| lease.lease_until.map(|until| (lease.partition, until));
        let lapsed = self.leases.ended(now, &leases.iter().filter_map(lease_until).collect::<Vec<_>>());
        let is_live = |beat: &&Heartbeat| beat.relay == self.id || !ended.contains(&beat.relay);
        let live: Vec<RelayId> = heartbeats.iter().filter(is_live).map(|beat| beat.relay.clone()).collect();
        let rank = live.iter().position(|relay| *relay == self.id).unwrap_or(0);
        let share = usize::from(PARTITIONS).div_ceil(live.len().max(1));
        if held.len() > share && surplus == Surplus::GiveBack {
            let extra = held.split_off(share);
            let id = self.id.clone();
            with_tx(&self.tx, move |unit, _| {
                let (id, extra) = (id.clone(), extra.clone());
                Box::pin(async move { unit.outbox().give_back(&id, &extra).await })
            })
            .await?;
        }
        self.forget(ended.into_iter().filter(|relay| *relay != self.id).collect()).await?;
        let wanted = share.saturating_sub(held.len());
        if wanted == 0 {
            return Ok((held, share));
        }
        // What a commit took whose answer was lost: ours, though we did not know.
        let forgotten: Vec<PartitionHold> = leases
            .iter()
            .filter(|lease| lease.owner.as_ref() == Some(&self.id))
            .map(|lease| PartitionHold { partition: lease.partition, epoch: lease.epoch })
            .filter(|hold| !held.contains(hold))
            .collect();
        let is_free =
            |lease: &&PartitionLease| lease.lease_until.is_none() || lapsed.contains(&lease.partition);
        // Each relay begins at its own place, so that two seldom reach for the same partition.
        let start = rank * share % usize::from(PARTITIONS);
        let free: Vec<PartitionLease> =
            leases.iter().cycle().skip(start).take(leases.len()).filter(is_free).cloned().collect();
        if forgotten.is_empty() && free.is_empty() {
            return Ok((held, share));
        }
        let (id, lease_ms) = (self.id.clone(), self.lease_ms);
        let taken = with_tx(&self.tx, move |unit, attempt| {
            let (id, mut ours, free) = (id.clone(), forgotten.clone(), free.clone());
            Box::pin(async move {
                if attempt.may_have_happened() {
                    // An earlier attempt may have taken some of them after all.
                    let of_free = |lease: &PartitionLease| PartitionHold {
                        partition: lease.partition,
                        epoch: lease.epoch + 1,
                    };
                    ours.extend(free.iter().map(of_free));
                }
                let mut taken = unit.outbox().renew_partitions(&id, &ours, lease_ms).await?;
                for lease in &free {
                    if taken.len() >= wanted {
                        break;
                    }
                    match unit.outbox().take_partition(&id, lease, lease_ms).await? {
                        Changed::One => {
                            taken.push(PartitionHold { partition: lease.partition, epoch: lease.epoch + 1 })
                        }
                        Changed::None => {}
                    }
                }
                Ok::<_, StoreError>(taken)
            })
        })
        .await?;
        held.extend(taken);
        Ok((held, share))
    }

    /// Forgets killed relays, whose heartbeats nobody else removes. One that lives on beats again.
    async fn forget(&self, ended: Vec<RelayId>) -> Result<(), StoreError> {
        if ended.is_empty() {
            return Ok(());
        }
        with_tx(&self.tx, move |unit, _| {
            let ended = ended.clone();
            Box::pin(async move {
                for relay in &ended {
                    unit.outbox().forget_relay(relay).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Forgets holds that settlement found to be good no longer.
    pub(super) fn lost(&mut self, lost: &[PartitionHold]) {
        self.held.retain(|partition, held| {
            !lost.contains(&PartitionHold { partition: *partition, epoch: held.epoch })
        });
    }

    /// Gives everything back, at the end.
    pub(super) async fn release(&mut self) -> Result<(), StoreError> {
        let (id, holds) = (self.id.clone(), self.holds());
        self.held.clear();
        with_tx(&self.tx, move |unit, _| {
            let (id, holds) = (id.clone(), holds.clone());
            Box::pin(async move {
                unit.outbox().give_back(&id, &holds).await?;
                unit.outbox().forget_relay(&id).await
            })
        })
        .await
    }
}
