//! The contract of [`Store`](handover_outbox::ports::Store), as far as the outbox goes: one file per port.

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

/// A fresh, empty store and what surrounds it.
#[async_trait]
pub trait StoreRig: Send + Sync {
    /// The store; every call gives the same. `outbox_of` makes one of the store of an application.
    fn store(&self) -> Arc<OutboxStore>;

    /// The wake-up notification that commits of this store send.
    fn wake(&self) -> Wake;

    /// Moves the database's own clock, by which leases are written.
    fn move_database_clock(&self, by: TimeDelta);

    /// What the adapter offers where adapters differ by nature.
    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities::default()
    }

    /// The same database as a process finds it that starts anew; `None` where there is no such thing.
    async fn reopened(&self) -> Option<Arc<OutboxStore>> {
        None
    }
}

/// What stores do not have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreCapabilities {
    /// Units of work run side by side. Without it a second `begin` waits until the first unit has ended.
    pub side_by_side: bool,
}

impl Default for StoreCapabilities {
    fn default() -> Self {
        StoreCapabilities { side_by_side: true }
    }
}

// The one list of the rules: add a rule here, under the file it is in.
crate::rules! { store_rules: StoreRig;
    units: [
        what_a_unit_writes_is_invisible_until_it_is_committed,
        what_a_unit_wrote_is_visible_once_it_is_committed,
        a_unit_reads_its_own_writes,
        a_dropped_unit_undoes_everything,
        a_dropped_unit_undoes_its_changes_of_old_rows,
        dropped_units_leave_later_units_working,
        a_view_sees_every_commit_before_it,
        a_unit_sees_every_commit_before_it,
        a_view_holds_up_no_writer,
        views_that_are_dropped_use_nothing_up,
        a_commit_is_seen_whole,
        what_was_committed_survives_a_restart,
        units_side_by_side_do_not_see_each_other,
        times_survive_to_the_microsecond,
    ]
    failing: [
        after_a_failed_statement_nothing_can_be_committed,
        statements_after_a_failed_one_are_lost_as_well,
        a_failed_unit_leaves_later_units_working,
        a_write_that_changes_nothing_is_no_failure,
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
        whoever_is_woken_sees_the_events,
        a_unit_that_is_not_committed_rings_nobody,
    ]
    races: [
        of_units_that_append_one_event_exactly_one_does,
        of_workers_that_record_one_event_first_exactly_one_does,
        of_workers_that_try_one_event_again_exactly_one_does,
        of_workers_that_read_and_then_try_again_exactly_one_does,
        of_units_that_settle_one_row_exactly_one_does,
        of_relays_that_take_one_partition_exactly_one_does,
        a_fenced_partition_changes_hands_only_after_the_settlement,
        units_that_write_different_rows_all_succeed,
    ]
    operators_at_once: [
        of_units_that_redrive_one_row_exactly_one_does,
        of_units_that_release_one_aggregate_exactly_one_does,
        of_units_that_decide_about_one_dead_letter_exactly_one_does,
    ]
    outbox: [
        an_appended_event_is_a_new_row_with_all_it_had,
        types_and_aggregates_that_nobody_knows_are_carried_as_they_are,
        a_payload_comes_back_byte_for_byte,
        rows_get_growing_ids_in_the_order_given,
        nothing_to_do_is_no_error,
        a_great_batch_is_handled_whole,
        a_taken_event_id_is_a_conflict,
        event_ids_are_compared_byte_by_byte,
        an_event_id_of_64_awkward_characters_survives,
        rows_are_found_by_their_events_and_missing_ones_left_out,
        pages_run_from_the_greatest_id_down,
        rows_above_a_bound_run_from_the_smallest_id_up,
        every_part_of_a_filter_narrows_the_page,
        a_filter_takes_its_first_moment_and_leaves_out_its_last,
    ]
    outbox_due: [
        new_rows_are_due_in_the_order_of_their_ids,
        no_more_rows_come_than_the_limit_says,
        only_rows_of_the_partitions_asked_for_are_due,
        every_aggregate_is_in_the_partition_that_the_domain_computes,
        a_retry_is_due_at_its_time_and_not_before,
        a_retry_without_a_time_is_due_at_once,
        sent_and_failed_rows_are_never_due,
        a_row_that_waits_for_its_retry_holds_back_its_own_aggregate_only,
        a_row_that_waits_does_not_hold_back_earlier_ones,
        an_aggregate_is_tenant_and_kind_and_id_together,
        a_failed_row_holds_back_later_ones_only_under_hold,
        a_failed_row_does_not_hold_back_earlier_ones,
        an_event_of_an_unordered_type_is_never_held_back,
        an_event_of_an_unordered_type_holds_back_nothing,
        which_types_are_unordered_is_asked_for,
        an_unknown_type_is_ordered_like_any_other,
        rows_of_an_aggregate_come_by_their_sequence_then_by_id,
        of_rows_with_one_sequence_number_the_smaller_id_is_the_earlier,
        an_earlier_sequence_number_holds_back_a_smaller_id,
        no_limit_separates_a_row_from_its_earlier_due_ones,
        rows_that_are_held_back_do_not_count_against_the_limit,
        a_unit_sees_its_own_marks_in_what_is_due,
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
        what_waits_behind_a_failed_event_is_counted,
        pages_of_blocked_aggregates_run_from_the_greatest_number_down,
        blocked_aggregates_are_one_tenants,
        a_release_lets_later_events_pass_for_good,
        what_fails_after_a_release_holds_again,
        a_release_leaves_what_holds_nothing_back,
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
        a_great_many_history_entries_come_whole,
        a_history_entry_is_part_of_its_unit,
    ]
    settling: [
        a_confirmed_row_is_sent_and_knows_when,
        a_confirm_moves_no_row_that_is_settled,
        a_failed_publish_leaves_its_mark,
        a_failure_moves_no_row_that_is_settled,
        settling_leaves_the_event_as_it_was,
        the_fence_lets_good_holds_through,
        the_fence_refuses_what_is_not_held,
        the_fence_refuses_a_hold_that_was_lost_in_between,
        the_fence_lets_a_lease_through_that_ended_and_nobody_took,
        the_fence_takes_every_partition_at_once,
    ]
    consume: [
        a_recorded_row_is_read_back_as_it_was_written,
        every_status_of_the_log_survives,
        a_row_expected_to_be_absent_conflicts_with_one_that_is_there,
        a_row_that_is_where_it_is_expected_moves_on,
        a_row_that_is_not_where_it_is_expected_is_a_conflict,
        one_conflict_undoes_the_whole_unit,
        a_batch_may_add_rows_and_move_others,
        a_batch_that_names_an_event_twice_is_a_conflict,
        consumers_have_rows_of_their_own,
        consumers_and_events_are_compared_byte_by_byte,
        a_great_batch_is_recorded_whole,
        a_conflict_says_what_is_in_the_way,
    ]
    log_reads: [
        rows_of_the_log_are_shown_whole,
        rows_of_events_come_in_the_order_in_which_they_were_first_written,
        rows_of_a_great_many_events_come_whole,
        pages_of_the_log_run_from_the_greatest_number_down,
        every_part_of_a_filter_narrows_the_page_of_the_log,
        pages_of_the_log_can_be_of_each_status,
        rows_of_the_log_are_counted_by_consumer_and_status,
    ]
    catching_up: [
        what_is_not_settled_is_unapplied,
        an_unapplied_event_comes_with_its_rows,
        only_events_of_the_aggregates_are_unapplied,
        only_events_of_the_types_are_unapplied,
        only_events_after_the_subscription_are_unapplied,
        unapplied_events_come_by_aggregate_sequence_and_id,
        an_event_is_unapplied_whatever_its_status_in_the_outbox,
        waiting_and_failed_rows_that_nobody_touched_are_left_over,
        a_row_whose_next_attempt_is_not_long_due_is_not_left_over,
        a_processing_row_is_left_over_once_its_lease_ended,
        a_row_written_later_than_now_is_left_over,
        the_oldest_leftovers_come_first,
        leftovers_are_of_one_consumer,
        events_sent_but_never_seen_are_told_by_the_time_they_were_sent,
        an_event_in_the_log_was_seen_whatever_became_of_it,
        only_types_taken_and_events_after_the_subscription_are_unseen,
        a_consumer_keeps_its_first_subscription,
        checked_until_moves_as_it_is_set,
        a_dropped_unit_subscribes_nobody,
    ]
    dead_letters: [
        a_dead_letter_is_read_back_as_it_was_parked,
        dead_letters_of_any_texts_are_parked_in_their_storable_form,
        parking_an_open_dead_letter_again_changes_nothing,
        parking_a_dead_letter_twice_in_a_unit_is_once,
        a_dead_letter_that_was_decided_is_opened_again,
        a_dead_letter_that_is_being_replayed_is_opened_again,
        pages_of_dead_letters_run_from_the_last_parked_down,
        every_part_of_a_filter_narrows_the_page_of_dead_letters,
        dead_letters_under_keys_come_in_the_order_in_which_they_were_parked,
        dead_letters_are_told_apart_by_queue_and_key,
        undecided_dead_letters_are_open_or_being_replayed,
    ]
    deciding: [
        a_decision_is_written_down_with_its_time_and_note,
        a_decision_without_a_note_leaves_the_one_before,
        a_decision_holds_only_where_the_letter_stands_where_it_says,
        a_decision_about_a_letter_that_is_not_there_changes_nothing,
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
        every_partition_has_its_row_from_the_start,
        there_are_always_as_many_rows_as_partitions,
        a_free_partition_can_be_taken,
        a_partition_is_taken_only_as_it_was_seen,
        a_partition_is_taken_at_the_epoch_that_was_seen_only,
        a_partition_is_taken_whatever_the_databases_clock_shows,
        the_epoch_rises_by_one_with_each_owner,
        renewing_prolongs_a_lease_from_now,
        a_lease_that_nobody_took_is_renewed_after_its_end,
        only_ones_own_leases_are_renewed_and_told,
        a_partition_given_back_is_free_at_the_same_epoch,
        only_ones_own_leases_are_given_back,
        a_dropped_unit_leaves_leases_as_they_were,
        the_databases_clock_moves_by_what_it_is_moved,
        a_heartbeat_counts_from_now,
        a_relay_that_ends_is_forgotten,
        ending_all_leases_frees_every_partition,
        ending_all_leases_ends_those_of_events_in_processing,
    ]
}

/// A unit of work.
async fn begin(rig: &dyn StoreRig) -> Box<dyn UnitOfWork> {
    within("begin", rig.store().begin()).await.expect("a unit of work begins")
}

/// A view.
async fn view(rig: &dyn StoreRig) -> Box<dyn View> {
    within("view", rig.store().view()).await.expect("a view opens")
}

/// Runs statements in one unit and commits it.
macro_rules! in_unit {
    ($rig:expr, |$unit:ident| $($body:tt)*) => {{
        let mut $unit = $crate::store::begin($rig).await;
        let out = { $($body)* };
        $crate::work::commit($unit).await;
        out
    }};
}
pub(crate) use in_unit;
