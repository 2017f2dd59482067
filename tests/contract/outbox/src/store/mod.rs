//! The contract of [`Store`](handover_outbox::ports::Store) for the outbox ports: one file per topic.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::TimeDelta;
use handover_outbox::Wake;
use handover_outbox::ports::{OutboxStore, UnitOfWork, View};

use super::within;

pub mod audit;
pub mod blocked;
pub mod catching_up;
pub mod consume;
pub mod cutting;
pub mod dead_letters;
pub mod deciding;
pub mod failing;
pub mod history;
pub mod leases;
pub mod log_reads;
pub mod operators_at_once;
pub mod outbox;
pub mod outbox_due;
pub mod outbox_reads;
pub mod races;
pub mod redriving;
pub mod settling;
pub mod units;
pub mod waking;

/// A fresh, empty store and its environment.
#[async_trait]
pub trait StoreRig: Send + Sync {
    /// The store; every call returns the same. `outbox_of` converts the store of an application.
    fn store(&self) -> Arc<OutboxStore>;

    /// The wake-up notification that commits of this store send.
    fn wake(&self) -> Wake;

    /// Shifts the database clock, which writes the leases.
    fn move_database_clock(&self, by: TimeDelta);

    /// Capabilities in which adapters differ by nature.
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::default()
    }

    /// The same database as a restarted process opens it; `None` if the store has no restart.
    async fn reopened(&self) -> Option<Arc<OutboxStore>> {
        None
    }
}

/// Capabilities in which stores differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreCapabilities {
    /// Units of work run concurrently. Otherwise a second `begin` waits until the first unit has ended.
    pub side_by_side: bool,
}

impl Default for StoreCapabilities {
    fn default() -> Self {
        StoreCapabilities { side_by_side: true }
    }
}

// The list of all rules: add each rule here, under its module.
crate::rules! { store_rules: StoreRig;
    units: [
        what_a_unit_writes_is_invisible_until_it_is_committed,
        writes_of_a_unit_are_visible_after_its_commit,
        a_unit_reads_its_own_writes,
        a_dropped_unit_undoes_everything,
        a_dropped_unit_undoes_its_changes_of_old_rows,
        dropped_units_leave_later_units_working,
        a_view_sees_every_commit_before_it,
        a_unit_sees_every_commit_before_it,
        a_view_does_not_block_writers,
        dropped_views_free_their_resources,
        a_commit_is_seen_whole,
        committed_data_survives_a_restart,
        units_side_by_side_do_not_see_each_other,
        times_are_stored_with_microsecond_precision,
    ]
    failing: [
        after_a_failed_statement_nothing_can_be_committed,
        statements_after_a_failed_one_are_lost_as_well,
        a_failed_unit_leaves_later_units_working,
        a_write_that_changes_no_row_is_not_a_failure,
    ]
    cutting: [
        a_begin_cut_at_any_point_leaves_later_units_working,
        begins_that_are_cut_use_nothing_up,
        a_unit_cut_in_the_middle_of_a_statement_is_undone,
        a_commit_cut_at_any_point_happened_whole_or_not_at_all,
    ]
    waking: [
        a_commit_that_appended_events_rings_for_their_partitions,
        a_commit_that_redrove_rows_rings_for_their_partitions,
        a_commit_that_released_an_aggregate_rings_for_its_partition,
        a_notified_relay_sees_the_events,
        a_unit_that_is_not_committed_rings_nobody,
    ]
    races: [
        exactly_one_of_concurrent_units_appends_an_event,
        of_workers_that_record_one_event_first_exactly_one_does,
        of_workers_that_try_one_event_again_exactly_one_does,
        of_workers_that_read_and_then_try_again_exactly_one_does,
        exactly_one_of_concurrent_units_settles_a_row,
        exactly_one_of_concurrent_relays_takes_a_partition,
        a_fenced_partition_changes_its_owner_only_after_the_settlement,
        units_that_write_different_rows_all_succeed,
    ]
    operators_at_once: [
        of_units_that_redrive_one_row_exactly_one_does,
        of_units_that_release_one_aggregate_exactly_one_does,
        of_units_that_decide_about_one_dead_letter_exactly_one_does,
    ]
    outbox: [
        an_appended_event_is_a_new_row_with_all_it_had,
        unknown_types_and_aggregates_are_stored_unchanged,
        a_payload_comes_back_byte_for_byte,
        rows_get_increasing_ids_in_the_order_given,
        empty_arguments_are_not_an_error,
        a_great_batch_is_handled_whole,
        a_taken_event_id_is_a_conflict,
        event_ids_are_compared_byte_by_byte,
        an_event_id_of_64_special_characters_is_stored,
        rows_are_found_by_event_id_and_missing_ones_omitted,
        pages_are_ordered_by_descending_id,
        rows_after_a_cursor_are_ordered_by_ascending_id,
        every_part_of_a_filter_narrows_the_page,
        a_time_filter_includes_its_start_and_excludes_its_end,
    ]
    outbox_due: [
        new_rows_are_due_in_the_order_of_their_ids,
        no_more_rows_than_the_limit_are_returned,
        only_rows_of_the_requested_partitions_are_due,
        every_aggregate_is_in_the_partition_that_the_domain_computes,
        a_retry_is_due_at_its_time_and_not_before,
        a_retry_without_a_time_is_due_at_once,
        sent_and_failed_rows_are_never_due,
        a_row_that_waits_for_its_retry_holds_back_its_own_aggregate_only,
        a_row_that_waits_does_not_hold_back_earlier_ones,
        an_aggregate_is_identified_by_tenant_kind_and_id,
        a_failed_row_holds_back_later_ones_only_under_hold,
        a_failed_row_does_not_hold_back_earlier_ones,
        an_event_of_an_unordered_type_is_never_held_back,
        an_event_of_an_unordered_type_blocks_nothing,
        the_caller_defines_the_unordered_types,
        an_unknown_type_is_ordered_like_any_other,
        rows_of_an_aggregate_are_ordered_by_sequence_then_id,
        of_rows_with_one_sequence_number_the_smaller_id_is_the_earlier,
        an_earlier_sequence_number_holds_back_a_smaller_id,
        no_limit_separates_a_row_from_its_earlier_due_rows,
        rows_that_are_held_back_do_not_count_against_the_limit,
        a_unit_sees_its_own_changes_in_due_rows,
        the_next_due_time_is_the_earliest_after_now,
        the_next_due_time_counts_pending_rows_of_the_partitions_only,
    ]
    outbox_reads: [
        rows_about_aggregates_come_by_aggregate_sequence_and_id,
        rows_about_a_great_many_aggregates_come_whole,
        rows_are_counted_by_status,
        rows_are_counted_for_one_tenant_or_all,
    ]
    blocked: [
        an_aggregate_is_blocked_by_its_first_failed_event,
        an_aggregate_whose_next_event_waits_for_its_time_is_listed_until_then,
        nothing_but_an_ordered_failed_event_blocks,
        events_held_by_a_failed_event_are_counted,
        pages_of_blocked_aggregates_run_from_the_greatest_number_down,
        blocked_aggregates_are_one_tenants,
        a_release_lets_later_events_pass_for_good,
        what_fails_after_a_release_holds_again,
        a_release_does_not_change_events_that_block_nothing,
        a_release_is_of_one_aggregate,
    ]
    redriving: [
        a_redriven_row_has_all_its_attempts_again,
        a_redrive_moves_no_row_that_is_on_its_way,
        a_redriven_row_is_due_at_its_time_and_not_before,
        a_redriven_row_can_be_settled_again,
        a_great_many_rows_are_redriven_each_for_its_time,
        redriven_rows_are_returned_as_they_stood_before,
    ]
    history: [
        a_history_entry_is_read_back_as_it_was_written,
        history_comes_in_the_order_in_which_it_was_added,
        many_history_entries_are_returned_completely,
        a_history_entry_is_part_of_its_unit,
    ]
    settling: [
        a_confirmed_row_is_sent_with_its_time,
        a_confirm_moves_no_row_that_is_settled,
        a_failed_publish_leaves_its_mark,
        a_failed_publish_does_not_change_a_settled_row,
        settling_leaves_the_event_as_it_was,
        the_fence_accepts_owned_partitions,
        the_fence_refuses_what_is_not_held,
        the_fence_refuses_a_hold_that_was_lost_in_between,
        the_fence_accepts_an_expired_lease_that_was_not_taken,
        the_fence_accepts_every_partition_in_one_call,
    ]
    consume: [
        a_record_is_read_back_as_it_was_written,
        every_status_of_the_log_is_stored,
        a_row_expected_to_be_absent_conflicts_with_one_that_is_there,
        a_record_in_the_expected_state_is_updated,
        a_row_that_is_not_where_it_is_expected_is_a_conflict,
        one_conflict_undoes_the_whole_unit,
        a_batch_may_insert_some_rows_and_update_others,
        a_batch_that_names_an_event_twice_is_a_conflict,
        each_consumer_has_its_own_records,
        consumers_and_events_are_compared_byte_by_byte,
        a_large_batch_is_recorded_completely,
        a_conflict_says_what_is_in_the_way,
    ]
    log_reads: [
        records_are_returned_completely,
        rows_of_events_come_in_the_order_in_which_they_were_first_written,
        records_of_many_events_are_returned_completely,
        pages_of_the_log_run_from_the_greatest_number_down,
        every_part_of_a_filter_narrows_the_page_of_the_log,
        pages_of_the_log_can_be_filtered_by_each_status,
        rows_of_the_log_are_counted_by_consumer_and_status,
    ]
    catching_up: [
        what_is_not_settled_is_unapplied,
        an_unapplied_event_comes_with_its_rows,
        only_events_of_the_aggregates_are_unapplied,
        only_events_of_the_types_are_unapplied,
        only_events_after_the_subscription_are_unapplied,
        unapplied_events_are_ordered_by_aggregate_sequence_and_id,
        an_event_is_unapplied_whatever_its_status_in_the_outbox,
        unchanged_waiting_and_failed_records_are_left_over,
        a_record_whose_next_attempt_is_not_long_due_is_not_left_over,
        a_processing_record_is_left_over_after_its_lease_ended,
        a_record_written_later_than_now_is_left_over,
        leftovers_are_ordered_oldest_first,
        leftovers_belong_to_one_consumer,
        unseen_events_are_returned_by_their_sent_time,
        an_event_with_any_record_in_the_log_is_not_unseen,
        only_own_types_and_events_after_the_subscription_are_unseen,
        a_consumer_keeps_its_first_subscription,
        checked_until_can_be_set_forward_and_backward,
        a_dropped_unit_subscribes_nobody,
    ]
    dead_letters: [
        a_dead_letter_is_read_back_as_it_was_parked,
        dead_letters_of_any_texts_are_parked_in_their_storable_form,
        parking_an_open_dead_letter_again_changes_nothing,
        parking_a_dead_letter_twice_in_a_unit_stores_one_row,
        a_decided_dead_letter_is_reopened,
        a_dead_letter_that_is_being_replayed_is_opened_again,
        pages_of_dead_letters_run_from_the_last_parked_down,
        every_part_of_a_filter_narrows_the_page_of_dead_letters,
        dead_letters_under_keys_come_in_the_order_in_which_they_were_parked,
        dead_letters_are_identified_by_queue_and_key,
        undecided_dead_letters_are_open_or_being_replayed,
    ]
    deciding: [
        a_decision_is_stored_with_its_time_and_note,
        a_decision_without_a_note_leaves_the_one_before,
        a_decision_holds_only_where_the_letter_stands_where_it_says,
        a_decision_about_a_missing_dead_letter_changes_nothing,
        a_decision_is_part_of_its_unit,
    ]
    audit: [
        an_audit_entry_is_read_back_as_it_was_written,
        pages_of_the_audit_log_run_from_the_newest_down,
        changes_are_found_among_looks,
        the_audit_log_is_one_tenants,
        an_audit_entry_is_part_of_its_unit,
    ]
    leases: [
        every_partition_has_a_row_from_the_start,
        there_are_always_as_many_rows_as_partitions,
        a_free_partition_can_be_taken,
        a_partition_is_taken_only_if_unchanged_since_it_was_read,
        a_partition_is_taken_only_at_the_epoch_that_was_read,
        a_partition_is_taken_whatever_the_database_clock_shows,
        the_epoch_increases_by_one_with_each_owner,
        renewal_extends_a_lease_from_the_database_time,
        a_lease_that_nobody_took_is_renewed_after_its_end,
        only_ones_own_leases_are_renewed_and_told,
        a_released_partition_is_free_at_the_same_epoch,
        only_own_leases_are_released,
        a_dropped_unit_leaves_leases_as_they_were,
        the_database_clock_is_shifted_by_the_rig,
        a_heartbeat_starts_at_the_database_time,
        a_relay_that_ends_is_forgotten,
        ending_all_leases_frees_every_partition,
        ending_all_leases_ends_leases_of_processing_events,
    ]
}

/// Begins a unit of work.
async fn begin(rig: &dyn StoreRig) -> Box<dyn UnitOfWork> {
    within("begin", rig.store().begin()).await.expect("a unit of work begins")
}

/// Opens a view.
async fn view(rig: &dyn StoreRig) -> Box<dyn View> {
    within("view", rig.store().view()).await.expect("a view opens")
}

/// Runs statements in one unit of work and commits it.
macro_rules! in_unit {
    ($rig:expr, |$unit:ident| $($body:tt)*) => {{
        let mut $unit = $crate::store::begin($rig).await;
        let out = { $($body)* };
        $crate::work::commit($unit).await;
        out
    }};
}
pub(crate) use in_unit;
