//! Partition leases and heartbeats of relays.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::Partition;
use handover_outbox::ports::{
    Changed, Heartbeat, LeaseQueries, LeaseRepo, OlderRelay, OwnedPartition, PartitionLease, RelayId,
    StoreError, older_relay,
};

use crate::connection::Statements;
use crate::dialect::{Dialect, Sequencing, padded, placeholders};
use crate::prefix::TablePrefix;
use crate::row::Row;
use crate::session::Session;
use crate::value::{Value, values};

/// The columns that [`lease`] reads.
const LEASE: &str = "partition_no, owner, epoch, lease_until";

/// The partition of a lease.
pub(super) fn partition(row: &Row) -> Result<Partition, StoreError> {
    let row = row.of("outbox_partitions", "partition_no");
    Partition::from_number(row.int("partition_no")?)
        .ok_or_else(|| row.corrupt("partition_no", "the number is not between 0 and 63"))
}

fn lease(row: &Row) -> Result<PartitionLease, StoreError> {
    let partition = partition(row)?;
    let row = row.of("outbox_partitions", "partition_no");
    Ok(PartitionLease {
        partition,
        owner: row.opt_string("owner")?.map(RelayId),
        epoch: row.int("epoch")?,
        lease_until: row.opt_time("lease_until")?,
    })
}

const HEARTBEATS: &str = "SELECT relay, alive_until FROM outbox_relays ORDER BY relay";

fn heartbeat(row: &Row) -> Result<Heartbeat, StoreError> {
    let row = row.of("outbox_relays", "relay");
    Ok(Heartbeat { relay: RelayId(row.string("relay")?), alive_until: row.time("alive_until")? })
}

/// One of the live relays that do not know text keys.
pub(crate) async fn read_older_relay(
    connection: &mut dyn Statements,
    dialect: &dyn Dialect,
    prefix: &TablePrefix,
) -> Result<Option<OlderRelay>, StoreError> {
    if dialect.sequencing() == Sequencing::NewestRow {
        // SQLite refuses the writes of a transaction that has read before another one wrote: write first, no row.
        let delete = prefix.statement("DELETE FROM outbox_relays WHERE relay IS NULL");
        connection.execute_with(&delete, Vec::new()).await?;
    }
    let heartbeats = connection.fetch_with(&prefix.statement(HEARTBEATS), Vec::new()).await?;
    let heartbeats = heartbeats.iter().map(heartbeat).collect::<Result<Vec<_>, _>>()?;
    if heartbeats.iter().all(|beat| beat.relay.knows_text_keys()) {
        return Ok(None);
    }
    let now = connection.fetch_with(dialect.now(), Vec::new()).await?;
    let now =
        now.first().map_or(Ok(DateTime::UNIX_EPOCH), |row| row.of("the database", "now").time("now"))?;
    Ok(older_relay(&heartbeats, now))
}

impl Session {
    /// Locks these partitions and returns those that the relay still owns in the epoch given with the partition, in the
    /// given order.
    pub(super) async fn still_owned(
        &mut self,
        relay: &RelayId,
        partitions: &[OwnedPartition],
    ) -> Result<Vec<OwnedPartition>, StoreError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        // The rows are locked by primary key and in ascending order, so that relays that own other partitions are not
        // blocked and no deadlock occurs.
        let numbers = padded(&partitions.iter().map(|owned| owned.partition.number()).collect::<Vec<_>>());
        let sql = format!(
            "SELECT {LEASE} FROM outbox_partitions {key} \
             WHERE partition_no IN ({numbers}) ORDER BY partition_no {lock}",
            key = self.dialect.lock_index("PRIMARY"),
            numbers = placeholders(numbers.len()),
            lock = self.dialect.for_update(),
        );
        let rows = self.fetch(&sql, numbers.into_iter().map(Value::from).collect()).await?;
        let leases = rows.iter().map(lease).collect::<Result<Vec<_>, _>>()?;
        let is_owned = |owned: &&OwnedPartition| {
            leases.iter().any(|lease| {
                lease.partition == owned.partition
                    && lease.epoch == owned.epoch
                    && lease.owner.as_ref() == Some(relay)
            })
        };
        Ok(partitions.iter().filter(is_owned).copied().collect())
    }

    async fn set_leases(
        &mut self,
        set: &str,
        until: Option<DateTime<Utc>>,
        partitions: &[OwnedPartition],
    ) -> Result<(), StoreError> {
        if partitions.is_empty() {
            return Ok(());
        }
        let numbers = padded(&partitions.iter().map(|owned| owned.partition.number()).collect::<Vec<_>>());
        let sql = format!(
            "UPDATE outbox_partitions SET {set} WHERE partition_no IN ({})",
            placeholders(numbers.len())
        );
        let values = [Value::Time(until)].into_iter().chain(numbers.into_iter().map(Value::from)).collect();
        self.execute(&sql, values).await?;
        Ok(())
    }
}

#[async_trait]
impl LeaseQueries for Session {
    async fn database_now(&mut self) -> Result<DateTime<Utc>, StoreError> {
        self.now().await
    }

    async fn heartbeats(&mut self) -> Result<Vec<Heartbeat>, StoreError> {
        self.fetch(HEARTBEATS, Vec::new()).await?.iter().map(heartbeat).collect()
    }

    async fn partition_leases(&mut self) -> Result<Vec<PartitionLease>, StoreError> {
        let sql = format!("SELECT {LEASE} FROM outbox_partitions ORDER BY partition_no");
        self.fetch(&sql, Vec::new()).await?.iter().map(lease).collect()
    }
}

#[async_trait]
impl LeaseRepo for Session {
    async fn heartbeat(&mut self, relay: &RelayId, for_ms: u32) -> Result<(), StoreError> {
        let (_, until) = self.now_and(for_ms).await?;
        let after = self.dialect.or_replace("relay", &["alive_until"]);
        self.insert("INSERT INTO outbox_relays (relay, alive_until)", 2, values![&relay.0, until], &after)
            .await?;
        Ok(())
    }

    async fn delete_heartbeat(&mut self, relay: &RelayId) -> Result<(), StoreError> {
        self.execute("DELETE FROM outbox_relays WHERE relay = ?", values![&relay.0]).await?;
        Ok(())
    }

    async fn acquire_partition(
        &mut self,
        relay: &RelayId,
        seen: &PartitionLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        let (_, until) = self.now_and(for_ms).await?;
        let mut values = values![&relay.0, until, seen.partition.number(), seen.epoch];
        // A changed epoch means that a relay acquired the partition in the meantime; a changed `lease_until` means that
        // the owner renewed or released it.
        let lease = match seen.lease_until {
            Some(seen_until) => {
                values.push(seen_until.into());
                "lease_until = ?"
            }
            None => "lease_until IS NULL",
        };
        let sql = format!(
            "UPDATE outbox_partitions SET owner = ?, epoch = epoch + 1, lease_until = ? \
             WHERE partition_no = ? AND epoch = ? AND {lease}"
        );
        Ok(Changed::of(self.execute(&sql, values).await?))
    }

    async fn renew_partitions(
        &mut self,
        relay: &RelayId,
        partitions: &[OwnedPartition],
        for_ms: u32,
    ) -> Result<Vec<OwnedPartition>, StoreError> {
        let owned = self.still_owned(relay, partitions).await?;
        let (_, until) = self.now_and(for_ms).await?;
        self.set_leases("lease_until = ?", Some(until), &owned).await?;
        Ok(owned)
    }

    async fn release_partitions(
        &mut self,
        relay: &RelayId,
        partitions: &[OwnedPartition],
    ) -> Result<(), StoreError> {
        let owned = self.still_owned(relay, partitions).await?;
        self.set_leases("owner = NULL, lease_until = ?", None, &owned).await
    }

    async fn release_all_leases(&mut self) -> Result<(), StoreError> {
        let free = "UPDATE outbox_partitions SET owner = NULL, lease_until = NULL WHERE owner IS NOT NULL";
        self.execute(free, Vec::new()).await?;
        self.execute("DELETE FROM outbox_relays", Vec::new()).await?;
        self.execute("DELETE FROM outbox_consumer_types", Vec::new()).await?;
        let leaders = "UPDATE outbox_leaders SET leader = NULL, lease_until = NULL WHERE leader IS NOT NULL";
        self.execute(leaders, Vec::new()).await?;
        let processing = format!(
            "UPDATE event_consume_log {} SET lease_until = ? \
             WHERE status = 'PROCESSING' AND status IN ('PROCESSING', 'WAITING', 'FAILED')",
            self.dialect.index("idx_consume_unsettled")
        );
        // The Unix epoch is earlier than any time with which a lease is compared, so the leases of these consume-log
        // records have expired.
        self.execute(&processing, values![DateTime::UNIX_EPOCH]).await?;
        Ok(())
    }
}
