//! Pending and settled states, partitions and partition sets.

use std::collections::BTreeSet;

use handover_events::{ConsumeStatus, MAX_ID, OutboxStatus, PARTITIONS, Partition, PartitionSet};
use proptest::prelude::*;

use crate::ids::{tenant, tenants};

#[test]
fn only_new_and_retry_rows_are_pending() {
    let pending: Vec<_> = OutboxStatus::ALL.iter().filter(|status| status.is_pending()).collect();
    assert_eq!(pending, [&OutboxStatus::New, &OutboxStatus::Retry]);
}

#[test]
fn only_success_and_dead_records_are_settled() {
    let settled: Vec<_> = ConsumeStatus::ALL.iter().filter(|status| status.is_settled()).collect();
    assert_eq!(settled, [&ConsumeStatus::Success, &ConsumeStatus::Dead]);
}

#[test]
fn partition_of_an_aggregate_never_changes() {
    let golden = [
        (1, 1, 32),
        (1, 32, 63),
        (1, 33, 0),
        (1, 900_001, 0),
        (1, 900_002, 1),
        (2, 1, 63),
        (2, 2, 0),
        (7, 900_001, 58),
        (1, MAX_ID, 30),
        (MAX_ID, MAX_ID, 32),
        // Rows of other writers may have any aggregate id.
        (1, 0, 31),
        (1, -31, 0),
        (1, -32, 63),
        (1, i64::MAX, 30),
        (MAX_ID, i64::MIN, 33),
    ];
    for (tenant_id, aggregate, number) in golden {
        assert_eq!(
            Partition::of(tenant(tenant_id), aggregate).number(),
            number,
            "tenant {tenant_id}, id {aggregate}"
        );
    }
}

#[test]
fn partitions_are_numbered_from_0_to_63() {
    assert_eq!(PARTITIONS, 64);
    let numbers: Vec<u8> = Partition::all().map(Partition::number).collect();
    assert_eq!(numbers, (0..64).collect::<Vec<u8>>());
    for number in 0..64 {
        assert_eq!(
            Partition::from_number(number).map(|partition| i64::from(partition.number())),
            Some(number)
        );
    }
    for number in [i64::MIN, -1, 64, 255, 256, 320, i64::MAX] {
        assert_eq!(Partition::from_number(number), None, "{number}");
    }
}

#[test]
fn empty_set_contains_no_partition_and_full_set_contains_all() {
    assert!(PartitionSet::EMPTY.is_empty() && !PartitionSet::ALL.is_empty());
    assert_eq!(PartitionSet::default(), PartitionSet::EMPTY);
    assert_eq!(PartitionSet::EMPTY.iter().count(), 0);
    assert!(PartitionSet::ALL.iter().eq(Partition::all()));
    assert_eq!(Partition::all().collect::<PartitionSet>(), PartitionSet::ALL);
}

proptest! {
    #[test]
    fn every_aggregate_has_exactly_one_partition(tenant in tenants(), aggregate: i64) {
        let partition = Partition::of(tenant, aggregate);
        prop_assert!(partition.number() < PARTITIONS);
        prop_assert_eq!(Partition::of(tenant, aggregate), partition);
    }

    #[test]
    fn consecutive_ids_are_distributed_evenly(tenant in tenants(), first in 1..MAX_ID, rounds in 1..=4usize) {
        let mut counts = [0; PARTITIONS as usize];
        for aggregate in (first..).take(rounds * usize::from(PARTITIONS)) {
            counts[usize::from(Partition::of(tenant, aggregate).number())] += 1;
        }
        prop_assert!(counts.iter().all(|count| *count == rounds), "{:?}", counts);
    }

    #[test]
    fn partition_set_iterates_its_members_once_in_order(numbers in prop::collection::vec(0..64i64, 0..100)) {
        let members: Vec<Partition> = numbers.iter().filter_map(|number| Partition::from_number(*number)).collect();
        let model: BTreeSet<Partition> = members.iter().copied().collect();
        let set: PartitionSet = members.iter().copied().collect();

        prop_assert!(set.iter().eq(model.iter().copied()));
        for partition in Partition::all() {
            prop_assert_eq!(set.contains(partition), model.contains(&partition));
        }
        prop_assert_eq!(set.is_empty(), model.is_empty());
        prop_assert_eq!(set.iter().collect::<PartitionSet>(), set, "the partitions that the iterator returns must form the same set");
        prop_assert_eq!(members.iter().rev().copied().collect::<PartitionSet>(), set, "the insertion order must not matter");
    }
}
