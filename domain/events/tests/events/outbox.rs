//! Who has work with what, and the partitions that keep an aggregate together.

use std::collections::BTreeSet;

use handover_events::{ConsumeStatus, MAX_ID, OutboxStatus, PARTITIONS, Partition, PartitionSet};
use proptest::prelude::*;

use crate::ids::{tenant, tenants};

#[test]
fn the_relay_has_work_with_new_and_retry_only() {
    let pending: Vec<_> = OutboxStatus::ALL.iter().filter(|status| status.is_pending()).collect();
    assert_eq!(pending, [&OutboxStatus::New, &OutboxStatus::Retry]);
}

#[test]
fn a_consumer_is_done_with_success_and_dead_only() {
    let settled: Vec<_> = ConsumeStatus::ALL.iter().filter(|status| status.is_settled()).collect();
    assert_eq!(settled, [&ConsumeStatus::Success, &ConsumeStatus::Dead]);
}

#[test]
fn an_aggregate_stays_in_the_partition_that_its_rows_carry() {
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
        // Rows from elsewhere may carry any number.
        (1, 0, 31),
        (1, -31, 0),
        (1, -32, 63),
        (1, i64::MAX, 30),
        (MAX_ID, i64::MIN, 33),
    ];
    for (its, aggregate, number) in golden {
        assert_eq!(Partition::of(tenant(its), aggregate).number(), number, "tenant {its}, id {aggregate}");
    }
}

#[test]
fn there_are_64_partitions_numbered_from_0() {
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
fn the_empty_set_has_no_partition_and_the_full_set_has_all() {
    assert!(PartitionSet::EMPTY.is_empty() && !PartitionSet::ALL.is_empty());
    assert_eq!(PartitionSet::default(), PartitionSet::EMPTY);
    assert_eq!(PartitionSet::EMPTY.iter().count(), 0);
    assert!(PartitionSet::ALL.iter().eq(Partition::all()));
    assert_eq!(Partition::all().collect::<PartitionSet>(), PartitionSet::ALL);
}

proptest! {
    #[test]
    fn every_aggregate_has_exactly_one_of_the_partitions(tenant in tenants(), aggregate: i64) {
        let partition = Partition::of(tenant, aggregate);
        prop_assert!(partition.number() < PARTITIONS);
        prop_assert_eq!(Partition::of(tenant, aggregate), partition);
    }

    #[test]
    fn ids_in_sequence_are_spread_evenly(tenant in tenants(), first in 1..MAX_ID, rounds in 1..=4usize) {
        let mut counts = [0; PARTITIONS as usize];
        for aggregate in (first..).take(rounds * usize::from(PARTITIONS)) {
            counts[usize::from(Partition::of(tenant, aggregate).number())] += 1;
        }
        prop_assert!(counts.iter().all(|count| *count == rounds), "{:?}", counts);
    }

    #[test]
    fn a_set_holds_what_was_put_in_once_and_in_order(numbers in prop::collection::vec(0..64i64, 0..100)) {
        let put_in: Vec<Partition> = numbers.iter().filter_map(|number| Partition::from_number(*number)).collect();
        let model: BTreeSet<Partition> = put_in.iter().copied().collect();
        let set: PartitionSet = put_in.iter().copied().collect();

        prop_assert!(set.iter().eq(model.iter().copied()));
        for partition in Partition::all() {
            prop_assert_eq!(set.contains(partition), model.contains(&partition));
        }
        prop_assert_eq!(set.is_empty(), model.is_empty());
        prop_assert_eq!(set.iter().collect::<PartitionSet>(), set, "taken out and put in again");
        prop_assert_eq!(put_in.iter().rev().copied().collect::<PartitionSet>(), set, "in any order");
    }
}
