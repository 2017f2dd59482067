//! Partitions that this relay owns, with the end of each lease on the relay's monotonic clock.
//!
//! **Invariant:** for each partition that [`OwnedLeases::valid`] returns, the lease in the database ends later than the end that this
//! relay has recorded on its monotonic clock.

use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{PARTITIONS, Partition};
use tokio::time::Instant;
use tracing::info;

use super::owned_leases::OwnedLeases;
use crate::lease_watch::LeaseWatch;
use crate::metrics::{RELAY_PARTITIONS, count};
use crate::ports::{Changed, Heartbeat, OwnedPartition, PartitionLease, RelayId, StoreError};
use crate::transaction::{Transactor, with_tx};

/// Handling of partitions beyond this relay's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surplus {
    /// Release these partitions: none of their rows is being published.
    Release,
    /// Keep these partitions: a window that may contain their rows is not settled yet.
    Keep,
}

/// Heartbeats and leases in the database after a renewal.
struct LeaseSnapshot {
    now: DateTime<Utc>,
    /// Renewed partitions of this relay.
    owned: Vec<OwnedPartition>,
    heartbeats: Vec<Heartbeat>,
    leases: Vec<PartitionLease>,
}

pub(super) struct Ownership {
    tx: Transactor,
    id: RelayId,
    lease_ms: u32,
    owned_leases: OwnedLeases,
    next_tick: Instant,
    relays: LeaseWatch<RelayId>,
    leases: LeaseWatch<Partition>,
    /// Whether the relay owns more partitions than its share, because a window was in progress.
    has_surplus: bool,
}

impl Ownership {
    pub(super) fn new(tx: Transactor, id: RelayId, lease_ms: u32) -> Ownership {
        let length = Duration::from_millis(u64::from(lease_ms));
        Ownership {
            tx,
            id,
            lease_ms,
            owned_leases: OwnedLeases::default(),
            next_tick: Instant::now(),
            relays: LeaseWatch::new(length),
            leases: LeaseWatch::new(length),
            has_surplus: false,
        }
    }

    pub(super) fn id(&self) -> &RelayId {
        &self.id
    }

    /// The leases of the owned partitions.
    pub(super) fn leases(&self) -> &OwnedLeases {
        &self.owned_leases
    }

    /// Whether the relay owns more partitions than its share.
    pub(super) fn has_surplus(&self) -> bool {
        self.has_surplus
    }

    pub(super) fn until_tick(&self) -> Duration {
        self.next_tick.saturating_duration_since(Instant::now())
    }

    /// Sends the heartbeat, renews leases and rebalances when a third of the lease has passed. Partitions beyond the
    /// share are released as soon as possible: a busy relay would otherwise detect them only while a window is in
    /// progress.
    pub(super) async fn tick_if_due(&mut self, surplus: Surplus) -> Result<(), StoreError> {
        let releases_surplus = self.has_surplus && surplus == Surplus::Release;
        if Instant::now() < self.next_tick && !releases_surplus {
            return Ok(());
        }
        let done = self.tick(surplus).await;
        self.report();
        done
    }

    async fn tick(&mut self, surplus: Surplus) -> Result<(), StoreError> {
        let requested_at = Instant::now();
        // The local lease starts before the request: the database lease starts later and therefore also ends later.
        let lease = Duration::from_millis(u64::from(self.lease_ms));
        let snapshot = self.renew().await?;
        let (owned_now, share) = self.rebalance(snapshot, surplus).await?;
        self.has_surplus = owned_now.len() > share;
        let before = self.owned_leases.partitions().len();
        let owned = owned_now.len();
        self.owned_leases.set(owned_now, requested_at + lease.mul_f64(0.8));
        if owned != before {
            info!(code = "relay.partitions-owned", relay = %self.id, partitions = owned, "[OutboxRelay] owns partitions");
        }
        self.next_tick = requested_at + lease / 3;
        Ok(())
    }

    /// Sends the heartbeat and renews leases; returns the heartbeats and leases that the database then contains.
    async fn renew(&self) -> Result<LeaseSnapshot, StoreError> {
        let lease_ms = self.lease_ms;
        let input = (self.id.clone(), self.owned_leases.partitions());
        with_tx(&self.tx, input, move |unit, (id, owned_partitions), _| {
            Box::pin(async move {
                unit.outbox().heartbeat(id, lease_ms).await?;
                let owned = unit.outbox().renew_partitions(id, owned_partitions, lease_ms).await?;
                let heartbeats = unit.outbox().heartbeats().await?;
                let leases = unit.outbox().partition_leases().await?;
                Ok(LeaseSnapshot { now: unit.outbox().database_now().await?, owned, heartbeats, leases })
            })
        })
        .await
    }

    /// Releases partitions beyond this relay's share unless `surplus` is [`Surplus::Keep`], or takes free partitions up
    /// to the share. Removes the heartbeats of relays that have ended. Returns the owned partitions and the share.
    async fn rebalance(
        &mut self,
        snapshot: LeaseSnapshot,
        surplus: Surplus,
    ) -> Result<(Vec<OwnedPartition>, usize), StoreError> {
        let LeaseSnapshot { now, mut owned, heartbeats, leases } = snapshot;
        let alive_until = |beat: &Heartbeat| (beat.relay.clone(), beat.alive_until);
        let ended = self.relays.ended(now, &heartbeats.iter().map(alive_until).collect::<Vec<_>>());
        let lease_until = |lease: &PartitionLease| lease.lease_until.map(|until| (lease.partition, until));
        let expired = self.leases.ended(now, &leases.iter().filter_map(lease_until).collect::<Vec<_>>());
        let is_live = |beat: &&Heartbeat| beat.relay == self.id || !ended.contains(&beat.relay);
        let live: Vec<RelayId> = heartbeats.iter().filter(is_live).map(|beat| beat.relay.clone()).collect();
        let rank = live.iter().position(|relay| *relay == self.id).unwrap_or(0);
        let share = usize::from(PARTITIONS).div_ceil(live.len().max(1));
        if owned.len() > share && surplus == Surplus::Release {
            let extra = owned.split_off(share);
            with_tx(&self.tx, (self.id.clone(), extra), |unit, (id, extra), _| {
                Box::pin(async move { unit.outbox().release_partitions(id, extra).await })
            })
            .await?;
        }
        self.remove_relays(ended.into_iter().filter(|relay| *relay != self.id).collect()).await?;
        let wanted = share.saturating_sub(owned.len());
        if wanted == 0 {
            return Ok((owned, share));
        }
        // Partitions taken by a commit whose result was lost: this relay owns them.
        let unrecorded: Vec<OwnedPartition> = leases
            .iter()
            .filter(|lease| lease.owner.as_ref() == Some(&self.id))
            .map(|lease| OwnedPartition { partition: lease.partition, epoch: lease.epoch })
            .filter(|owned_partition| !owned.contains(owned_partition))
            .collect();
        let is_free =
            |lease: &&PartitionLease| lease.lease_until.is_none() || expired.contains(&lease.partition);
        // Each relay starts at a different partition, so that two relays rarely try to take the same one.
        let start = rank * share % usize::from(PARTITIONS);
        let free: Vec<PartitionLease> =
            leases.iter().cycle().skip(start).take(leases.len()).filter(is_free).cloned().collect();
        if unrecorded.is_empty() && free.is_empty() {
            return Ok((owned, share));
        }
        owned.extend(self.take(unrecorded, free, wanted).await?);
        Ok((owned, share))
    }

    /// Renews the unrecorded partitions and takes free ones, at most `wanted` together. Returns the taken partitions.
    async fn take(
        &self,
        unrecorded: Vec<OwnedPartition>,
        free: Vec<PartitionLease>,
        wanted: usize,
    ) -> Result<Vec<OwnedPartition>, StoreError> {
        let lease_ms = self.lease_ms;
        let input = (self.id.clone(), unrecorded, free);
        with_tx(&self.tx, input, move |unit, (id, unrecorded, free), attempt| {
            Box::pin(async move {
                let mut ours = unrecorded.clone();
                if attempt.may_be_committed() {
                    // An earlier attempt may have committed: this relay then already owns some of the free partitions.
                    let of_free = |lease: &PartitionLease| OwnedPartition {
                        partition: lease.partition,
                        epoch: lease.epoch + 1,
                    };
                    ours.extend(free.iter().map(of_free));
                }
                let mut taken = unit.outbox().renew_partitions(id, &ours, lease_ms).await?;
                for lease in free {
                    if taken.len() >= wanted {
                        break;
                    }
                    match unit.outbox().acquire_partition(id, lease, lease_ms).await? {
                        Changed::One => {
                            taken.push(OwnedPartition { partition: lease.partition, epoch: lease.epoch + 1 })
                        }
                        Changed::None => {}
                    }
                }
                Ok(taken)
            })
        })
        .await
    }

    /// Removes heartbeats that were not renewed in time. A relay that is still running sends a new one.
    async fn remove_relays(&self, ended: Vec<RelayId>) -> Result<(), StoreError> {
        if ended.is_empty() {
            return Ok(());
        }
        with_tx(&self.tx, ended, |unit, ended, _| {
            Box::pin(async move {
                for relay in ended {
                    unit.outbox().delete_heartbeat(relay).await?;
                }
                Ok(())
            })
        })
        .await
    }

    /// Removes partitions that settlement found to be lost.
    pub(super) fn drop_lost(&mut self, lost: &[OwnedPartition]) {
        self.owned_leases.remove(lost);
        self.report();
    }

    /// Sets the gauge of owned partitions: those whose rows this relay may publish now.
    fn report(&self) {
        metrics::gauge!(RELAY_PARTITIONS).set(count(self.owned_leases.valid().iter().count() as u64));
    }

    /// Releases all partitions and removes the heartbeat when the relay ends.
    pub(super) async fn release(&mut self) -> Result<(), StoreError> {
        let input = (self.id.clone(), self.owned_leases.partitions());
        self.owned_leases.set(Vec::new(), Instant::now());
        self.report();
        with_tx(&self.tx, input, |unit, (id, owned_partitions), _| {
            Box::pin(async move {
                unit.outbox().release_partitions(id, owned_partitions).await?;
                unit.outbox().delete_heartbeat(id).await
            })
        })
        .await
    }
}
