//! Faults of leases and id blocks.

use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> LeaseQueriesWrapper for Faulty<U> {}

impl LeaseRepoWrapper for Unit {
    async fn delete_heartbeat(&mut self, relay: &RelayId) -> Result<(), StoreError> {
        if self.has(Fault::DeletedRelaysKeepHeartbeat) {
            Ok(())
        } else {
            self.inner().outbox().delete_heartbeat(relay).await
        }
    }

    async fn renew_partitions(
        &mut self,
        relay: &RelayId,
        holds: &[OwnedPartition],
        for_ms: u32,
    ) -> Result<Vec<OwnedPartition>, StoreError> {
        let mut holds = holds.to_vec();
        if self.has(Fault::ExpiredLeasesAreNotRenewed) {
            let now = self.inner().outbox().database_now().await?;
            let leases = self.inner().outbox().partition_leases().await?;
            let ended = |hold: &OwnedPartition| {
                let lease = &leases[usize::from(hold.partition.number())];
                lease.lease_until.is_none_or(|until| until <= now)
            };
            holds.retain(|hold| !ended(hold));
        }
        self.inner().outbox().renew_partitions(relay, &holds, for_ms).await
    }

    async fn release_all_leases(&mut self) -> Result<(), StoreError> {
        let before = self.inner().outbox().leader_lease("jobs").await?;
        let types = self.inner().outbox().registered_types().await?;
        self.inner().outbox().release_all_leases().await?;
        if self.has(Fault::EndingLeasesKeepsRegisteredTypes) {
            for RegisteredType { consumer, event_type, .. } in &types {
                self.inner().outbox().register_types(consumer, &[event_type], 60_000).await?;
            }
        }
        if self.has(Fault::EndingLeasesReelectsLeaders)
            && let Some(leader) = before.leader
        {
            let free = self.inner().outbox().leader_lease("jobs").await?;
            self.inner().outbox().acquire_leadership(&leader, &free, 60_000).await.map(drop)?;
        }
        Ok(())
    }
}

impl<U: MarketView + ?Sized> IdQueriesWrapper for Faulty<U> {
    async fn id_state(&mut self, kind: IdKind) -> Result<IdState, StoreError> {
        let state = self.inner().id_state(kind).await?;
        // The store in memory cannot hold imported rows; the row 42 stands for one.
        let is_counted = self.has(Fault::ImportedIdsAreCounted) && state.largest == 42;
        Ok(if is_counted { IdState { largest: i64::MAX, ..state } } else { state })
    }

    async fn id_is_taken(&mut self, kind: IdKind, id: i64) -> Result<bool, StoreError> {
        Ok(!self.has(Fault::TakenIdsAreNotFound) && self.inner().id_is_taken(kind, id).await?)
    }
}

impl IdBlocksWrapper for Unit {
    async fn raise_id_block(&mut self, kind: IdKind, next: i64) -> Result<(), StoreError> {
        if self.has(Fault::IdBlocksAreNotRaised) {
            Ok(())
        } else if self.has(Fault::RaisesHaveNoEnd) {
            self.inner().raise_id_block(kind, next.min(END_OF_IDS)).await
        } else {
            self.inner().raise_id_block(kind, next).await
        }
    }

    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError> {
        if self.has(Fault::IdBlocksHaveNoEnd) {
            let next = self.inner().id_state(kind).await?.next;
            if next + i64::from(size) > END_OF_IDS {
                return Ok(next);
            }
        }
        let first = self.inner().take_id_block(kind, size).await?;
        Ok(if self.has(Fault::IdBlocksOverlap) && first > 1 { first - 1 } else { first })
    }
}
