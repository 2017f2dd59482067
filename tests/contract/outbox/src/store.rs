//! The contract of [`Store`](handover_outbox::ports::Store) for the outbox ports: one file per topic.

use handover_outbox::ports::{UnitOfWork, View};

use super::within;

pub mod archive;
pub mod audit;
pub mod blocked;
pub mod cancellation;
pub mod concurrent_operators;
pub mod consume;
pub mod consumer_catch_up;
pub mod dead_letters;
pub mod decisions;
pub mod election;
pub mod erasure;
pub mod failed_statements;
pub mod history;
pub mod jobs;
pub mod leases;
pub mod log_reads;
pub mod monitoring;
pub mod outbox;
pub mod outbox_ahead;
pub mod outbox_due;
pub mod outbox_reads;
pub mod races;
pub mod receiving;
pub mod redriving;
pub mod registered_types;
mod rig;
pub mod sequences;
pub mod settling;
pub mod text_keys;
pub mod units;
pub mod wakeup;
pub mod webhook_claims;
pub mod webhook_deliveries;
pub mod webhook_endpoints;
pub mod webhook_order;
pub mod webhook_retention;
pub mod webhook_settling;
pub mod webhook_tenants;

pub use rig::{StoreCapabilities, StoreRig};

// The list of all rules: add each rule here, under its module.
crate::rules! { store_rules: StoreRig;
    units: [
        writes_of_a_unit_of_work_are_invisible_before_its_commit,
        writes_of_a_unit_of_work_are_visible_after_its_commit,
        a_unit_of_work_reads_its_own_writes,
        a_dropped_unit_of_work_undoes_all_its_writes,
        a_dropped_unit_of_work_undoes_its_changes_of_existing_rows,
        dropped_units_of_work_do_not_affect_later_ones,
        a_view_sees_every_earlier_commit,
        a_unit_of_work_sees_every_earlier_commit,
        a_view_does_not_block_writers,
        dropped_views_free_their_resources,
        a_commit_is_visible_as_a_whole,
        committed_data_survives_a_restart,
        concurrent_units_of_work_do_not_see_each_others_writes,
        times_are_stored_with_microsecond_precision,
        a_unit_of_work_reads_and_commits_its_deferred_writes,
        a_conflict_of_a_deferred_write_is_returned_at_the_latest_by_the_commit,
    ]
    failed_statements: [
        after_a_failed_statement_nothing_can_be_committed,
        statements_after_a_failed_one_are_not_stored,
        a_failed_unit_of_work_does_not_affect_later_ones,
        a_write_that_changes_no_row_is_not_a_failure,
    ]
    cancellation: [
        a_begin_cancelled_at_any_point_does_not_affect_later_units_of_work,
        cancelled_begins_free_their_resources,
        a_unit_of_work_dropped_during_a_statement_is_rolled_back,
        a_commit_cancelled_at_any_point_is_atomic,
    ]
    wakeup: [
        a_commit_that_appended_events_notifies_for_their_partitions,
        a_commit_that_redrove_rows_notifies_for_their_partitions,
        a_commit_that_released_an_aggregate_notifies_for_its_partition,
        a_notified_relay_sees_the_events,
        an_uncommitted_unit_of_work_sends_no_notification,
    ]
    races: [
        exactly_one_of_concurrent_units_of_work_appends_an_event,
        exactly_one_of_concurrent_workers_records_a_new_event,
        exactly_one_of_concurrent_workers_retries_an_event,
        exactly_one_of_concurrent_workers_that_read_first_retries_an_event,
        a_row_confirmed_concurrently_becomes_sent_once,
        exactly_one_of_concurrent_relays_takes_a_partition,
        a_fenced_partition_changes_its_owner_only_after_the_settlement,
        a_partition_with_rows_marked_as_sent_changes_its_owner_only_after_the_settlement,
        rows_of_a_partition_that_is_taken_at_the_same_time_are_not_settled,
        units_of_work_that_write_different_rows_all_succeed,
    ]
    concurrent_operators: [
        exactly_one_of_concurrent_units_of_work_redrives_a_row,
        exactly_one_of_concurrent_units_of_work_releases_an_aggregate,
        exactly_one_of_concurrent_units_of_work_decides_about_a_dead_letter,
    ]
    outbox: [
        an_appended_event_is_a_new_row_with_all_its_data,
        unknown_types_and_aggregates_are_stored_unchanged,
        a_payload_is_read_back_byte_for_byte,
        rows_get_increasing_ids_in_the_order_given,
        empty_arguments_are_not_an_error,
        a_large_batch_is_handled_completely,
        an_existing_event_id_is_a_conflict,
        event_ids_are_compared_byte_by_byte,
        an_event_id_of_64_special_characters_is_stored,
        rows_are_found_by_event_id_and_missing_ones_omitted,
        pages_are_ordered_by_descending_id,
        rows_after_a_cursor_are_ordered_by_ascending_id,
        every_part_of_a_filter_narrows_the_page,
        a_time_filter_includes_its_start_and_excludes_its_end,
    ]
    receiving: [
        a_received_event_is_a_sent_row_with_all_its_data,
        an_event_is_received_once,
        an_event_that_is_received_concurrently_is_one_row,
        an_archived_event_is_not_received_again,
    ]
    outbox_due: [
        new_rows_are_due_in_the_order_of_their_ids,
        no_more_rows_than_the_limit_are_returned,
        only_rows_of_the_requested_partitions_are_due,
        every_aggregate_is_in_the_partition_that_the_domain_computes,
        a_retry_is_due_at_its_next_retry_time_and_not_before,
        a_retry_without_a_time_is_due_at_once,
        sent_and_failed_rows_are_never_due,
        a_retry_row_that_is_not_due_blocks_only_its_own_aggregate,
        a_row_that_is_not_due_does_not_block_earlier_rows,
        an_aggregate_is_identified_by_tenant_kind_and_id,
        a_failed_row_blocks_later_rows_only_if_on_failed_is_hold,
        a_failed_row_does_not_block_earlier_rows,
        an_event_of_an_unordered_type_is_never_blocked,
        an_event_of_an_unordered_type_blocks_nothing,
        the_caller_defines_the_unordered_types,
        an_unknown_type_is_ordered_like_any_other,
        rows_of_an_aggregate_are_ordered_by_sequence_then_id,
        rows_with_the_same_sequence_are_ordered_by_id,
        a_row_blocks_greater_sequence_numbers_even_if_its_id_is_greater,
        a_limit_never_skips_an_earlier_due_row_of_an_aggregate,
        due_rows_from_an_id_include_its_row_and_all_later_ones,
        due_rows_from_an_id_follow_the_earlier_rows_of_their_aggregates,
        due_ids_are_those_of_due_rows_in_the_range,
        blocked_rows_do_not_count_against_the_limit,
        a_unit_of_work_sees_its_own_changes_when_it_reads_due_rows,
        the_next_due_time_is_the_earliest_after_now,
        the_next_due_time_is_of_a_pending_row_in_a_requested_partition,
    ]
    outbox_ahead: [
        a_search_ahead_leaves_out_rows_of_the_excluded_groups,
        a_search_ahead_finds_only_the_first_pending_row_of_an_aggregate,
        a_search_ahead_finds_only_rows_that_may_be_published,
        a_search_ahead_that_is_continued_finds_every_row,
        rows_in_flight_are_left_out,
    ]
    outbox_reads: [
        rows_of_aggregates_are_ordered_by_aggregate_sequence_and_id,
        rows_of_many_aggregates_are_returned_completely,
        rows_are_counted_by_status,
        rows_are_counted_for_one_tenant_or_all,
        sent_rows_are_counted_among_the_newest_ids,
        the_backlog_counts_pending_rows_and_ages_due_ones,
        the_backlog_of_a_range_has_the_rows_with_its_ids,
        a_readable_row_is_not_listed_as_unreadable,
    ]
    sequences: [
        concurrent_events_of_an_aggregate_are_numbered_in_the_order_of_their_commits,
        events_of_one_call_are_numbered_in_their_order,
        numbers_continue_after_the_highest_one_of_the_aggregate,
        numbers_of_a_dropped_unit_of_work_do_not_disturb_the_order,
        an_event_with_a_due_time_holds_back_later_events_of_its_aggregate,
    ]
    text_keys: [
        every_id_selects_the_rows_of_its_own_aggregate,
        events_of_a_text_key_are_published_in_their_order,
        a_release_and_a_redrive_apply_to_one_text_key,
        a_text_key_is_refused_while_a_relay_of_an_older_version_is_live,
    ]
    blocked: [
        an_aggregate_is_blocked_by_its_first_failed_event,
        an_aggregate_whose_next_event_is_not_due_is_listed,
        an_aggregate_with_a_failed_event_is_waiting_only_if_on_failed_is_continue,
        only_an_ordered_failed_event_blocks_its_aggregate,
        events_held_by_a_failed_event_are_counted,
        pages_of_blocked_aggregates_are_ordered_by_descending_outbox_id,
        blocked_aggregates_belong_to_one_tenant,
        a_release_unblocks_later_events_permanently,
        a_failure_after_a_release_blocks_again,
        a_release_does_not_change_events_that_block_nothing,
        a_release_applies_to_one_aggregate,
    ]
    redriving: [
        a_redriven_row_has_no_counted_attempts,
        a_redrive_does_not_change_a_pending_row,
        a_redriven_row_is_due_at_the_requested_time_and_not_before,
        a_redriven_row_can_be_settled_again,
        many_rows_are_redriven_each_with_its_own_due_time,
        redriven_rows_are_returned_with_their_earlier_values,
    ]
    history: [
        a_history_entry_is_read_back_as_it_was_written,
        history_is_ordered_by_insertion,
        many_history_entries_are_returned_completely,
        a_history_entry_is_part_of_its_unit_of_work,
    ]
    settling: [
        a_confirmed_row_is_sent_with_its_time,
        a_confirm_does_not_change_a_settled_row,
        a_failed_publish_is_stored,
        a_failed_publish_does_not_change_a_settled_row,
        settling_does_not_change_the_event,
        a_retry_due_after_the_bound_becomes_due_now,
        only_retries_of_the_requested_partitions_become_due_now,
        a_redriven_row_keeps_its_due_time_when_retries_are_brought_forward,
        the_fence_accepts_owned_partitions,
        the_fence_rejects_partitions_that_are_not_owned,
        the_fence_rejects_the_old_epoch_of_a_partition_that_was_lost,
        the_fence_accepts_an_expired_lease_if_no_other_relay_took_it,
        the_fence_accepts_every_partition_in_one_call,
        only_rows_of_owned_partitions_become_sent,
    ]
    consume: [
        a_record_is_read_back_as_it_was_written,
        every_status_of_the_log_is_stored,
        a_record_expected_to_be_absent_conflicts_with_an_existing_one,
        a_record_in_the_expected_state_is_updated,
        a_record_in_an_unexpected_state_is_a_conflict,
        one_conflict_undoes_the_whole_unit_of_work,
        a_batch_may_insert_some_rows_and_update_others,
        a_batch_that_names_an_event_twice_is_a_conflict,
        each_consumer_has_its_own_records,
        consumers_and_events_are_compared_byte_by_byte,
        a_large_batch_is_recorded_completely,
        a_conflict_names_its_key,
    ]
    log_reads: [
        records_are_returned_completely,
        records_of_events_are_ordered_by_first_write,
        records_of_many_events_are_returned_completely,
        pages_of_the_log_are_ordered_by_descending_record_id,
        every_part_of_a_filter_narrows_the_page_of_the_log,
        pages_of_the_log_can_be_filtered_by_each_status,
        rows_of_the_log_are_counted_by_consumer_and_status,
        applied_events_are_counted_among_the_newest_ids,
    ]
    consumer_catch_up: [
        an_event_without_settled_record_is_unapplied,
        an_unapplied_event_is_returned_with_its_rows,
        only_events_of_the_requested_aggregates_are_returned_as_unapplied,
        only_events_of_the_requested_types_are_returned_as_unapplied,
        an_event_is_not_unapplied_at_its_idle_consumers,
        only_events_after_the_subscription_are_unapplied,
        an_older_event_with_an_unsettled_record_is_unapplied,
        unapplied_events_are_ordered_by_aggregate_sequence_and_id,
        an_event_is_unapplied_whatever_its_status_in_the_outbox,
        unapplied_events_from_a_position_are_limited_per_aggregate,
        unchanged_waiting_and_failed_records_are_stale,
        a_record_is_not_stale_before_its_next_attempt_is_due,
        a_processing_record_is_stale_after_its_lease_ended,
        a_record_with_a_future_consume_time_is_stale,
        stale_records_are_ordered_oldest_first,
        stale_records_belong_to_one_consumer,
        unconsumed_events_are_ordered_by_sent_time,
        an_event_with_any_record_in_the_log_is_not_returned_as_unconsumed,
        only_own_types_and_events_after_the_subscription_are_unconsumed,
        a_consumer_keeps_its_first_subscription,
        checked_until_can_be_set_forward_and_backward,
        a_dropped_unit_of_work_subscribes_no_consumer,
    ]
    dead_letters: [
        a_dead_letter_is_read_back_as_it_was_parked,
        dead_letters_with_any_text_are_parked_in_storable_form,
        parking_an_open_dead_letter_again_changes_nothing,
        parking_a_dead_letter_twice_in_a_unit_of_work_stores_one_row,
        a_decided_dead_letter_is_reopened,
        a_dead_letter_that_is_being_replayed_is_reopened,
        pages_of_dead_letters_are_ordered_last_parked_first,
        dead_letters_after_a_cursor_are_ordered_first_parked_first,
        every_part_of_a_filter_narrows_the_page_of_dead_letters,
        dead_letters_found_by_key_are_ordered_by_first_parking,
        dead_letters_are_identified_by_queue_and_key,
        undecided_dead_letters_are_open_or_being_replayed,
    ]
    decisions: [
        a_decision_is_stored_with_its_time_and_note,
        a_decision_without_a_note_keeps_the_previous_note,
        a_decision_applies_only_in_the_expected_status,
        a_decision_about_a_missing_dead_letter_changes_nothing,
        a_decision_is_part_of_its_unit_of_work,
    ]
    audit: [
        an_audit_entry_is_read_back_as_it_was_written,
        pages_of_the_audit_log_are_ordered_newest_first,
        the_filter_for_changes_omits_entries_of_reads,
        the_filter_for_times_narrows_the_audit_log,
        audit_entries_belong_to_one_tenant,
        an_audit_entry_is_part_of_its_unit_of_work,
        old_audit_entries_of_reads_are_deleted,
    ]
    leases: [
        every_partition_has_a_lease_row_in_a_new_store,
        there_are_always_as_many_lease_rows_as_partitions,
        a_free_partition_can_be_taken,
        a_partition_is_taken_only_if_unchanged_since_it_was_read,
        a_partition_is_taken_only_at_the_epoch_that_was_read,
        a_partition_is_taken_whatever_the_database_clock_shows,
        the_epoch_increases_by_one_with_each_owner,
        renewal_extends_a_lease_from_the_database_time,
        an_expired_lease_is_renewed_if_no_other_relay_took_the_partition,
        only_own_leases_are_renewed_and_returned,
        a_released_partition_is_free_at_the_same_epoch,
        only_own_leases_are_released,
        a_dropped_unit_of_work_does_not_change_leases,
        the_test_rig_can_shift_the_database_clock,
        a_heartbeat_starts_at_the_database_time,
        an_ended_relay_is_removed,
        ending_all_leases_frees_every_partition,
        ending_all_leases_ends_leases_of_processing_events,
    ]
    registered_types: [
        registered_types_are_ordered_by_consumer_and_type,
        a_registration_is_renewed_from_the_database_time,
        a_registration_renewed_since_it_was_read_is_not_removed,
        ending_all_leases_removes_every_registered_type,
        a_dropped_unit_of_work_changes_no_registered_type,
        an_event_of_a_registered_type_is_unapplied,
        an_event_of_a_registered_type_is_unconsumed,
        stale_records_of_excepted_types_are_omitted,
    ]
    jobs: [
        the_first_candidate_of_a_name_leads,
        leadership_is_taken_only_if_its_lease_is_unchanged,
        leadership_is_taken_whatever_the_database_clock_shows,
        leadership_is_renewed_from_the_database_time,
        lost_leadership_is_neither_renewed_nor_released,
        released_leadership_is_free_at_once,
        the_fence_accepts_only_the_current_leader,
        exactly_one_of_concurrent_candidates_leads,
        a_fenced_lease_changes_its_leader_only_after_the_commit,
        a_dropped_unit_of_work_changes_no_leader_and_no_job,
        ending_all_leases_frees_every_leader_lease,
        a_failed_run_keeps_the_last_success,
        a_job_is_behind_since_the_first_run_that_left_work,
        job_records_are_ordered_by_name,
    ]
    archive: [
        an_archived_event_leaves_the_outbox_with_its_records,
        only_unchanged_sent_events_are_archived,
        a_concurrently_redriven_event_is_not_archived,
        numbers_continue_after_archived_events,
        a_new_consumer_is_subscribed_after_archived_events,
        a_restored_event_is_as_before,
        a_dropped_unit_of_work_archives_nothing,
        files_of_the_archive_are_recorded_until_they_are_done,
        archived_events_are_listed_in_pages,
        stored_values_are_interpreted_as_their_rows,
        masked_values_of_an_archived_event_are_restored,
        a_file_is_replaced_by_the_one_who_has_read_it,
        a_locked_file_is_not_replaced,
        a_file_that_is_being_written_is_recorded_or_given_up,
    ]
    erasure: [
        texts_of_settled_events_are_masked_once,
        texts_of_unsettled_events_stay,
        a_dropped_unit_of_work_masks_nothing,
        reasons_of_audit_entries_are_masked_once,
    ]
    monitoring: [
        the_state_of_an_alert_and_its_acknowledgement_are_independent,
        alerts_are_ordered_by_name,
        the_last_report_of_a_process_counts_from_the_database_time,
        a_sample_is_written_once_and_read_in_its_period,
        old_samples_of_one_resolution_are_deleted,
        the_most_retries_are_those_of_unsettled_events,
        a_dropped_unit_of_work_changes_nothing_of_the_monitoring,
    ]
    election: [
        exactly_one_of_two_processes_leads,
        another_process_leads_after_the_leader_was_killed,
        a_stopped_leader_releases_its_lease,
        a_frozen_leader_takes_no_step_after_its_lease,
    ]
    webhook_endpoints: [
        an_endpoint_is_read_back_as_it_was_written,
        an_endpoint_id_in_use_is_a_conflict,
        a_slot_of_a_tenant_has_one_endpoint,
        exactly_one_of_concurrent_endpoints_gets_a_slot,
        a_replacement_keeps_the_health_and_requires_the_version,
        exactly_one_of_concurrent_replacements_succeeds,
        a_locked_endpoint_is_not_changed_by_others,
        endpoints_belong_to_one_tenant,
        pages_of_endpoints_are_ordered_by_id,
        the_health_of_endpoints_is_read_at_once,
    ]
    webhook_deliveries: [
        a_delivery_is_read_back_as_it_was_written,
        a_delivery_that_exists_is_ignored,
        concurrent_deliveries_of_an_event_are_inserted_once,
        many_deliveries_are_inserted_in_order,
        pages_of_deliveries_are_ordered_by_descending_id,
        pending_deliveries_of_an_endpoint_are_found,
        every_part_of_a_filter_narrows_the_page_of_deliveries,
        dead_deliveries_of_a_period_are_sent_again,
        only_dead_deliveries_that_can_be_sent_are_sent_again,
        a_dead_delivery_is_sent_again_by_one_of_concurrent_units_of_work,
        webhooks_of_all_tenants_are_counted,
        the_oldest_due_delivery_is_neither_paused_nor_blocked,
        a_dropped_unit_of_work_changes_no_webhook,
    ]
    webhook_retention: [
        pending_deliveries_of_deleted_endpoints_are_cancelled,
        pending_deliveries_of_long_disabled_endpoints_are_cancelled,
        many_pending_deliveries_are_cancelled_in_batches,
        old_deliveries_are_deleted_with_their_attempts,
        a_redelivery_of_a_dead_delivery_is_not_deleted,
    ]
    webhook_claims: [
        due_deliveries_are_claimed_the_longest_due_first,
        a_claim_lasts_until_its_end,
        a_repeated_claim_returns_the_deliveries_of_its_first_call,
        only_enabled_endpoints_that_are_not_paused_are_used,
        an_endpoint_has_at_most_as_many_claims_as_its_limit,
        concurrent_claims_do_not_exceed_the_limit_of_an_endpoint,
        a_failing_endpoint_gets_one_attempt_at_a_time,
        attempts_per_second_are_limited,
        concurrent_claims_do_not_exceed_the_attempts_per_second,
        unavailable_endpoints_do_not_use_up_the_limit,
        a_claim_skips_endpoints_that_are_locked,
        deliveries_of_many_endpoints_are_claimed,
        a_claim_leaves_capacity_to_other_endpoints_and_tenants,
    ]
    webhook_order: [
        an_ordered_endpoint_gets_one_delivery_of_a_key_at_a_time,
        a_pending_delivery_blocks_later_ones_of_its_key,
        a_cancelled_delivery_blocks_nothing,
        blocked_deliveries_do_not_use_up_the_limit,
        an_endpoint_that_is_not_ordered_gets_every_due_delivery,
        a_delivery_that_is_sent_again_precedes_later_ones_of_its_key,
        concurrent_dispatchers_deliver_every_key_in_order,
    ]
    webhook_settling: [
        a_result_is_recorded_with_its_attempt,
        a_failed_attempt_is_counted,
        a_delivery_without_a_further_attempt_is_dead,
        an_interrupted_attempt_is_not_counted,
        a_recorded_result_resets_the_number_of_claims,
        a_result_of_an_earlier_claim_is_ignored,
        results_of_a_group_are_recorded_together,
        attempts_at_an_endpoint_are_counted_since_a_time,
    ]
    webhook_tenants: [
        another_tenant_finds_no_endpoint,
        another_tenant_changes_no_endpoint,
        another_tenant_finds_no_delivery,
        another_tenant_changes_no_delivery,
    ]
}

async fn begin(rig: &dyn StoreRig) -> Box<dyn UnitOfWork> {
    within("begin", rig.store().begin()).await.expect("cannot begin a unit of work")
}

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
