//! Leases of partitions, and blocks of ids.

use handover_outbox::ports::*;
use marketplace::ports::*;

use super::passes_on;

passes_on! { impl LeaseRepo of inner_outbox for MarketUnit {
    fn heartbeat(relay: &RelayId, for_ms: u32) -> ();
    fn forget_relay(relay: &RelayId) -> ();
    fn take_partition(relay: &RelayId, seen: &PartitionLease, for_ms: u32) -> Changed,
        then |unit, changed| unit.wrote.takes |= *changed == Changed::One;
    fn renew_partitions(relay: &RelayId, holds: &[PartitionHold], for_ms: u32) -> Vec<PartitionHold>;
    fn give_back(relay: &RelayId, holds: &[PartitionHold]) -> ();
    fn end_all_leases() -> ();
} }
passes_on! { impl IdBlocks for MarketUnit {
    fn take_id_block(kind: IdKind, size: u32) -> i64;
    fn raise_id_block(kind: IdKind, next: i64) -> ();
} }
