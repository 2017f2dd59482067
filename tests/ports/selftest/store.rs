//! Stores with one fault each, in the outbox or in rows of the marketplace. Rules of both contracts may find a fault.
//! This file has the faults of how units of work begin and end, and of both ports together.

mod jobs;
mod market;
mod outbox;
mod webhooks;

use std::collections::BTreeSet;

use handover_tests::faulty::store::{Fault, FaultyStoreRig};

use super::broken;

fn broken_by(fault: Fault, expected: &[&str]) -> BTreeSet<&'static str> {
    let mut names =
        broken(handover_contract::store::RULES, expected, || Box::new(FaultyStoreRig::new(fault)));
    names.extend(broken(marketplace_contract::store::RULES, expected, || {
        Box::new(FaultyStoreRig::new(fault))
    }));
    names
}

faults! { broken_by(Fault) {
    correct_store_breaks_no_rule: None breaks []
    commit_succeeds_after_failed_statement: CommitSucceedsAfterFailedStatement breaks [
        "a_batch_that_names_an_event_twice_is_a_conflict",
        "a_conflict_of_a_deferred_write_is_returned_at_the_latest_by_the_commit",
        "a_record_expected_to_be_absent_conflicts_with_an_existing_one",
        "a_record_in_an_unexpected_state_is_a_conflict",
        "an_uncommitted_unit_of_work_sends_no_notification",
        "after_a_failed_statement_nothing_can_be_committed",
        "commit_fails_after_failed_row_write",
        "one_conflict_undoes_the_whole_unit_of_work",
        "statements_after_a_failed_one_are_not_stored",
        "statements_after_failed_row_write_are_not_committed",
    ]
    commit_sends_no_notification: CommitSendsNoNotification breaks [
        "a_commit_that_appended_events_notifies_for_their_partitions",
        "a_commit_that_redrove_rows_notifies_for_their_partitions",
        "a_commit_that_released_an_aggregate_notifies_for_its_partition",
        "a_notified_relay_sees_the_events",
        "a_release_and_a_redrive_apply_to_one_text_key",
    ]
    dropped_units_commit: DroppedUnitsCommit breaks [
        "a_claim_skips_endpoints_that_are_locked",
        "a_dropped_unit_of_work_archives_nothing",
        "a_dropped_unit_of_work_changes_no_webhook",
        "a_begin_cancelled_at_any_point_does_not_affect_later_units_of_work",
        "a_decision_is_part_of_its_unit_of_work",
        "a_dropped_unit_of_work_changes_no_leader_and_no_job",
        "a_dropped_unit_of_work_changes_no_registered_type",
        "a_dropped_unit_of_work_does_not_change_leases",
        "a_dropped_unit_of_work_subscribes_no_consumer",
        "a_dropped_unit_of_work_undoes_all_its_writes",
        "a_dropped_unit_of_work_undoes_its_changes_of_existing_rows",
        "numbers_of_a_dropped_unit_of_work_do_not_disturb_the_order",
        "dropped_unit_of_work_rolls_back_updates",
        "dropped_unit_of_work_rolls_back_inserts",
        "a_history_entry_is_part_of_its_unit_of_work",
        "a_unit_of_work_dropped_during_a_statement_is_rolled_back",
        "an_uncommitted_unit_of_work_sends_no_notification",
        "an_audit_entry_is_part_of_its_unit_of_work",
        "dropped_units_of_work_do_not_affect_later_ones",
        "concurrent_units_of_work_do_not_see_each_others_writes",
    ]
    deferred_events_are_lost: DeferredEventsAreLost breaks [
        "a_unit_of_work_reads_and_commits_its_deferred_writes",
        "a_conflict_of_a_deferred_write_is_returned_at_the_latest_by_the_commit",
    ]
    cancelled_begin_loses_next_unit: CancelledBeginLosesNextUnit breaks [
        "a_begin_cancelled_at_any_point_does_not_affect_later_units_of_work",
        "cancelled_begins_free_their_resources",
    ]
    redrive_and_release_send_no_notification: RedriveAndReleaseSendNoNotification breaks [
        "a_commit_that_redrove_rows_notifies_for_their_partitions",
        "a_commit_that_released_an_aggregate_notifies_for_its_partition",
        "a_release_and_a_redrive_apply_to_one_text_key",
    ]
}}
