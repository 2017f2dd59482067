//! Partition leases and relay heartbeats.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{ConsumeStatus, Partition};
use handover_outbox::ports::{
    Changed, Heartbeat, LeaderLease, LeaseQueries, LeaseRepo, OwnedPartition, PartitionLease, RelayId,
    StoreError,
};

use super::locks::Lock;
use super::outbox_tables::{OutboxRows as _, OutboxTables, Statement};
use super::statement::Tables;
use super::tables::Row;
use super::unit::MemoryUnit;
use crate::clock::moved;

impl Row<OutboxTables> for PartitionLease {
    type Key = Partition;
    type Index = ();

    fn key(&self) -> Partition {
        self.partition
    }
}

impl Row<OutboxTables> for Heartbeat {
    type Key = RelayId;
    type Index = ();

    fn key(&self) -> RelayId {
        self.relay.clone()
    }
}

/// The lease of a partition, if the relay still owns the partition and the epoch is still the one in `hold`.
pub(super) fn current_lease<'s>(
    statement: &'s Statement<'_>,
    owner: &RelayId,
    hold: &OwnedPartition,
) -> Option<&'s PartitionLease> {
    let lease = statement.partitions().get(&hold.partition)?;
    (lease.owner.as_ref() == Some(owner) && lease.epoch == hold.epoch).then_some(lease)
}

pub(super) fn in_ms(statement: &Statement<'_>, ms: u32) -> DateTime<Utc> {
    moved(statement.database_now(), TimeDelta::milliseconds(i64::from(ms)))
}

fn locks_of(holds: &[OwnedPartition]) -> Vec<Lock> {
    holds.iter().map(|hold| Lock::Partition(hold.partition)).collect()
}

#[async_trait]
impl<X: Tables> LeaseQueries for MemoryUnit<X> {
    async fn database_now(&mut self) -> Result<DateTime<Utc>, StoreError> {
        self.read_outbox(|statement| statement.database_now()).await
    }

    async fn heartbeats(&mut self) -> Result<Vec<Heartbeat>, StoreError> {
        self.read_outbox(|statement| statement.relays().all().cloned().collect()).await
    }

    async fn partition_leases(&mut self) -> Result<Vec<PartitionLease>, StoreError> {
        self.read_outbox(|statement| statement.partitions().all().cloned().collect()).await
    }
}

#[async_trait]
impl<X: Tables> LeaseRepo for MemoryUnit<X> {
    async fn heartbeat(&mut self, relay: &RelayId, for_ms: u32) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::Relay(relay.clone())], |statement| {
            let alive_until = in_ms(statement, for_ms);
            statement.own.relays.put(Heartbeat { relay: relay.clone(), alive_until });
            Ok(())
        })
        .await
    }

    async fn delete_heartbeat(&mut self, relay: &RelayId) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::Relay(relay.clone())], |statement| {
            statement.own.relays.remove(relay);
            Ok(())
        })
        .await
    }

    async fn acquire_partition(
        &mut self,
        relay: &RelayId,
        seen: &PartitionLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        let partition = seen.partition;
        self.write_outbox(vec![Lock::Partition(partition)], |statement| {
            let as_seen =
                |lease: &PartitionLease| lease.epoch == seen.epoch && lease.lease_until == seen.lease_until;
            if !statement.partitions().get(&partition).is_some_and(as_seen) {
                return Ok(Changed::None);
            }
            let lease_until = Some(in_ms(statement, for_ms));
            let owner = Some(relay.clone());
            let epoch = seen.epoch + 1;
            statement.own.partitions.put(PartitionLease { partition, owner, epoch, lease_until });
            Ok(Changed::One)
        })
        .await
    }

    async fn renew_partitions(
        &mut self,
        relay: &RelayId,
        holds: &[OwnedPartition],
        for_ms: u32,
    ) -> Result<Vec<OwnedPartition>, StoreError> {
        self.write_outbox(locks_of(holds), |statement| {
            let lease_until = Some(in_ms(statement, for_ms));
            let mut renewed = Vec::new();
            for hold in holds {
                if let Some(lease) = current_lease(statement, relay, hold).cloned() {
                    statement.own.partitions.put(PartitionLease { lease_until, ..lease });
                    renewed.push(*hold);
                }
            }
            Ok(renewed)
        })
        .await
    }

    async fn release_partitions(
        &mut self,
        relay: &RelayId,
        holds: &[OwnedPartition],
    ) -> Result<(), StoreError> {
        self.write_outbox(locks_of(holds), |statement| {
            for hold in holds {
                if let Some(lease) = current_lease(statement, relay, hold).cloned() {
                    statement.own.partitions.put(PartitionLease { owner: None, lease_until: None, ..lease });
                }
            }
            Ok(())
        })
        .await
    }

    async fn release_all_leases(&mut self) -> Result<(), StoreError> {
        let locks = self
            .read_outbox(|statement| {
                let relays = statement.relays();
                let consumptions = statement.consumptions();
                let relays = relays.all().map(|row| Lock::Relay(row.relay.clone()));
                let leaders = statement.leaders();
                let leaders = leaders.all().map(|row| Lock::Leader(row.name.clone()));
                let processing = consumptions.all().filter(|row| row.is.status == ConsumeStatus::Processing);
                let processing =
                    processing.map(|row| Lock::Consumption(row.is.consumer.clone(), row.is.event_id.clone()));
                let types = statement.registered_types();
                let types =
                    types.all().map(|row| Lock::RegisteredType(row.consumer.clone(), row.event_type.clone()));
                let leases = Partition::all().map(Lock::Partition).chain(relays).chain(leaders).chain(types);
                leases.chain(processing).collect()
            })
            .await?;
        self.write_outbox(locks, |statement| {
            let relays: Vec<_> = statement.relays().all().map(|row| row.relay.clone()).collect();
            for relay in relays {
                statement.own.relays.remove(&relay);
            }
            let types: Vec<_> = statement.registered_types().all().map(Row::key).collect();
            for key in types {
                statement.own.registered_types.remove(&key);
            }
            let leases: Vec<_> =
                statement.partitions().all().filter(|row| row.owner.is_some()).cloned().collect();
            for row in leases {
                statement.own.partitions.put(PartitionLease { owner: None, lease_until: None, ..row });
            }
            let leaders: Vec<_> = statement.leaders().all().cloned().collect();
            for row in leaders {
                statement.own.leaders.put(LeaderLease { leader: None, lease_until: None, ..row });
            }
            // The Unix epoch is in the past of every clock, so the leases of these consume-log records have expired.
            let ended = DateTime::UNIX_EPOCH;
            let processing: Vec<_> = statement
                .consumptions()
                .all()
                .filter(|row| row.is.status == ConsumeStatus::Processing)
                .cloned()
                .collect();
            for mut row in processing {
                row.is.lease_until = Some(ended);
                statement.own.consumptions.put(row);
            }
            Ok(())
        })
        .await
    }
}
