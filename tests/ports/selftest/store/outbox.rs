//! Faults of the toolkit's ports.

use handover_tests::faulty::store::Fault;

use super::broken_by;

faults! { broken_by(Fault) {
    archived_events_are_forgotten: ArchivedEventsAreForgotten breaks [
        "a_restored_event_is_as_before",
        "an_archived_event_leaves_the_outbox_with_its_records",
        "archived_events_are_listed_in_pages",
    ]
    archived_pages_ignore_filter: ArchivedPagesIgnoreFilter breaks [
        "archived_events_are_listed_in_pages",
    ]
    interpreted_events_lose_records: InterpretedEventsLoseRecords breaks [
        "stored_values_are_interpreted_as_their_rows",
    ]
    archive_restarts_numbers: ArchiveRestartsNumbers breaks [
        "numbers_continue_after_archived_events",
    ]
    archive_hides_last_id: ArchiveHidesLastId breaks [
        "a_new_consumer_is_subscribed_after_archived_events",
    ]
    archive_ignores_changes: ArchiveIgnoresChanges breaks [
        "only_unchanged_sent_events_are_archived",
    ]
    archive_is_written_outside_unit: ArchiveIsWrittenOutsideUnit breaks [
        "a_dropped_unit_of_work_archives_nothing",
    ]
    archive_files_are_never_done: ArchiveFilesAreNeverDone breaks [
        "files_of_the_archive_are_recorded_until_they_are_done",
    ]
    restore_reports_every_event: RestoreReportsEveryEvent breaks [
        "a_restored_event_is_as_before",
    ]
    restore_forgets_time: RestoreForgetsTime breaks [
        "a_restored_event_is_as_before",
    ]
    any_archive_file_is_replaced: AnyArchiveFileIsReplaced breaks [
        "a_file_is_replaced_by_the_one_who_has_read_it",
    ]
    archive_files_are_not_locked: ArchiveFilesAreNotLocked breaks [
        "a_locked_file_is_not_replaced",
    ]
    recorded_files_are_given_up: RecordedFilesAreGivenUp breaks [
        "a_file_that_is_being_written_is_recorded_or_given_up",
    ]
    erasure_is_written_outside_unit: ErasureIsWrittenOutsideUnit breaks [
        "a_dropped_unit_of_work_masks_nothing",
    ]
    erasure_masks_open_dead_letters: ErasureMasksOpenDeadLetters breaks [
        "texts_of_unsettled_events_stay",
    ]
    erasure_counts_unchanged_rows: ErasureCountsUnchangedRows breaks [
        "texts_of_settled_events_are_masked_once",
    ]
    erasure_reason_is_lost: ErasureReasonIsLost breaks [
        "texts_of_settled_events_are_masked_once",
    ]
    reasons_are_not_erased: ReasonsAreNotErased breaks [
        "reasons_of_audit_entries_are_masked_once",
    ]
    events_are_appended_after_commit: EventsAreAppendedAfterCommit breaks [
        "a_text_key_is_refused_while_a_relay_of_an_older_version_is_live",
        "a_commit_cancelled_at_any_point_is_atomic",
        "dropped_commit_is_atomic_for_rows_and_events",
        "a_commit_is_visible_as_a_whole",
        "a_conflict_of_a_deferred_write_is_returned_at_the_latest_by_the_commit",
        "a_unit_of_work_reads_and_commits_its_deferred_writes",
        "a_commit_that_redrove_rows_notifies_for_their_partitions",
        "a_commit_that_released_an_aggregate_notifies_for_its_partition",
        "a_failed_unit_of_work_does_not_affect_later_ones",
        "an_existing_event_id_is_a_conflict",
        "unit_of_work_reads_its_own_rows",
        "a_unit_of_work_reads_its_own_writes",
        "an_uncommitted_unit_of_work_sends_no_notification",
        "after_a_failed_statement_nothing_can_be_committed",
        "exactly_one_of_concurrent_units_of_work_redrives_a_row",
        "exactly_one_of_concurrent_units_of_work_releases_an_aggregate",
        "rows_and_events_of_commit_become_visible_together",
        "statements_after_a_failed_one_are_not_stored",
    ]
    append_keeps_first_hundred_only: AppendKeepsFirstHundredOnly breaks [
        "events_of_one_call_are_numbered_in_their_order",
        "a_large_batch_is_handled_completely",
        "many_rows_are_redriven_each_with_its_own_due_time",
        "rows_of_many_aggregates_are_returned_completely",
    ]
    append_ignores_case: AppendIgnoresCase breaks [
        "event_ids_are_compared_byte_by_byte",
    ]
    append_reformats_payloads: AppendReformatsPayloads breaks [
        "every_id_selects_the_rows_of_its_own_aggregate",
        "a_payload_is_read_back_byte_for_byte",
        "a_redriven_row_has_no_counted_attempts",
        "an_appended_event_is_a_new_row_with_all_its_data",
        "settling_does_not_change_the_event",
    ]
    append_drops_routing_keys: AppendDropsRoutingKeys breaks [
        "an_appended_event_is_a_new_row_with_all_its_data",
    ]
    received_rows_are_new: ReceivedRowsAreNew breaks [
        "a_received_event_is_a_sent_row_with_all_its_data",
    ]
    received_events_conflict: ReceivedEventsConflict breaks [
        "an_event_is_received_once",
        "an_archived_event_is_not_received_again",
    ]
    archived_events_are_received_again: ArchivedEventsAreReceivedAgain breaks [
        "an_archived_event_is_not_received_again",
    ]
    retry_times_are_truncated_to_milliseconds: RetryTimesAreTruncatedToMilliseconds breaks [
        "a_failed_publish_is_stored",
        "a_retry_is_due_at_its_next_retry_time_and_not_before",
        "an_aggregate_whose_next_event_is_not_due_is_listed",
        "the_next_due_time_is_of_a_pending_row_in_a_requested_partition",
        "the_next_due_time_is_the_earliest_after_now",
    ]
    due_includes_blocked_rows: DueIncludesBlockedRows breaks [
        "an_event_with_a_due_time_holds_back_later_events_of_its_aggregate",
        "events_of_a_text_key_are_published_in_their_order",
        "a_failed_row_does_not_block_earlier_rows",
        "a_failed_row_blocks_later_rows_only_if_on_failed_is_hold",
        "a_redriven_row_can_be_settled_again",
        "a_redriven_row_is_due_at_the_requested_time_and_not_before",
        "a_release_unblocks_later_events_permanently",
        "a_row_that_is_not_due_does_not_block_earlier_rows",
        "a_retry_row_that_is_not_due_blocks_only_its_own_aggregate",
        "a_row_blocks_greater_sequence_numbers_even_if_its_id_is_greater",
        "an_event_of_an_unordered_type_is_never_blocked",
        "an_unknown_type_is_ordered_like_any_other",
        "rows_with_the_same_sequence_are_ordered_by_id",
        "blocked_rows_do_not_count_against_the_limit",
        "a_failure_after_a_release_blocks_again",
        "the_caller_defines_the_unordered_types",
    ]
    blocked_rows_count_against_limit: BlockedRowsCountAgainstLimit breaks [
        "blocked_rows_do_not_count_against_the_limit",
    ]
    due_starts_after_first_id: DueStartsAfterFirstId breaks [
        "due_rows_from_an_id_include_its_row_and_all_later_ones",
    ]
    due_ignores_rows_below_first_id: DueIgnoresRowsBelowFirstId breaks [
        "due_rows_from_an_id_follow_the_earlier_rows_of_their_aggregates",
    ]
    due_ids_include_end_of_range: DueIdsIncludeEndOfRange breaks [
        "due_ids_are_those_of_due_rows_in_the_range",
    ]
    due_ids_include_blocked_rows: DueIdsIncludeBlockedRows breaks [
        "due_ids_are_those_of_due_rows_in_the_range",
    ]
    due_includes_rows_in_flight: DueIncludesRowsInFlight breaks [
        "rows_in_flight_are_left_out",
    ]
    ahead_includes_excluded_groups: AheadIncludesExcludedGroups breaks [
        "a_search_ahead_leaves_out_rows_of_the_excluded_groups",
        "a_search_ahead_finds_only_the_first_pending_row_of_an_aggregate",
        "a_search_ahead_that_is_continued_finds_every_row",
    ]
    ahead_overtakes_pending_rows: AheadOvertakesPendingRows breaks [
        "a_search_ahead_finds_only_the_first_pending_row_of_an_aggregate",
        "a_search_ahead_finds_only_rows_that_may_be_published",
        "rows_in_flight_are_left_out",
    ]
    ahead_ignores_due_times: AheadIgnoresDueTimes breaks [
        "a_search_ahead_finds_only_rows_that_may_be_published",
    ]
    ahead_skips_row_of_next_id: AheadSkipsRowOfNextId breaks [
        "a_search_ahead_that_is_continued_finds_every_row",
    ]
    next_due_is_not_after_now: NextDueIsNotAfterNow breaks [
        "a_redriven_row_is_due_at_the_requested_time_and_not_before",
        "the_next_due_time_is_the_earliest_after_now",
    ]
    mark_sent_moves_failed_rows: MarkSentMovesFailedRows breaks [
        "a_confirm_does_not_change_a_settled_row",
    ]
    retries_within_bound_are_brought_forward: RetriesWithinBoundAreBroughtForward breaks [
        "a_retry_due_after_the_bound_becomes_due_now",
    ]
    retries_of_other_partitions_are_brought_forward: RetriesOfOtherPartitionsAreBroughtForward breaks [
        "only_retries_of_the_requested_partitions_become_due_now",
    ]
    redriven_rows_are_brought_forward: RedrivenRowsAreBroughtForward breaks [
        "an_event_with_a_due_time_holds_back_later_events_of_its_aggregate",
        "a_redriven_row_keeps_its_due_time_when_retries_are_brought_forward",
    ]
    sent_rows_are_not_fenced: SentRowsAreNotFenced breaks [
        "only_rows_of_owned_partitions_become_sent",
        "rows_of_a_partition_that_is_taken_at_the_same_time_are_not_settled",
    ]
    fence_always_succeeds: FenceAlwaysSucceeds breaks [
        "the_fence_rejects_the_old_epoch_of_a_partition_that_was_lost",
        "the_fence_rejects_partitions_that_are_not_owned",
    ]
    record_ignores_expected_state: RecordIgnoresExpectedState breaks [
        "a_batch_that_names_an_event_twice_is_a_conflict",
        "a_conflict_names_its_key",
        "a_failed_unit_of_work_does_not_affect_later_ones",
        "a_record_expected_to_be_absent_conflicts_with_an_existing_one",
        "a_record_in_an_unexpected_state_is_a_conflict",
        "after_a_failed_statement_nothing_can_be_committed",
        "exactly_one_of_concurrent_workers_that_read_first_retries_an_event",
        "exactly_one_of_concurrent_workers_records_a_new_event",
        "exactly_one_of_concurrent_workers_retries_an_event",
        "one_conflict_undoes_the_whole_unit_of_work",
        "statements_after_a_failed_one_are_not_stored",
    ]
    unapplied_excludes_failed: UnappliedExcludesFailed breaks [
        "an_unapplied_event_is_returned_with_its_rows",
        "an_event_without_settled_record_is_unapplied",
        "an_older_event_with_an_unsettled_record_is_unapplied",
    ]
    unapplied_excludes_older_events: UnappliedExcludesOlderEvents breaks [
        "an_older_event_with_an_unsettled_record_is_unapplied",
    ]
    unapplied_ignores_limit: UnappliedIgnoresLimit breaks [
        "unapplied_events_from_a_position_are_limited_per_aggregate",
    ]
    unapplied_begins_after_position: UnappliedBeginsAfterPosition breaks [
        "unapplied_events_from_a_position_are_limited_per_aggregate",
    ]
    unapplied_limits_all_aggregates: UnappliedLimitsAllAggregates breaks [
        "unapplied_events_from_a_position_are_limited_per_aggregate",
    ]
    unapplied_excludes_registered_types: UnappliedExcludesRegisteredTypes breaks [
        "an_event_of_a_registered_type_is_unapplied",
    ]
    unconsumed_excludes_registered_types: UnconsumedExcludesRegisteredTypes breaks [
        "an_event_of_a_registered_type_is_unconsumed",
    ]
    stale_records_include_excepted_types: StaleRecordsIncludeExceptedTypes breaks [
        "stale_records_of_excepted_types_are_omitted",
    ]
    excepted_types_count_against_limit: ExceptedTypesCountAgainstLimit breaks [
        "stale_records_of_excepted_types_are_omitted",
    ]
    registered_types_ignore_case: RegisteredTypesIgnoreCase breaks [
        "registered_types_are_ordered_by_consumer_and_type",
    ]
    registrations_are_not_renewed: RegistrationsAreNotRenewed breaks [
        "a_registration_is_renewed_from_the_database_time",
        "a_registration_renewed_since_it_was_read_is_not_removed",
    ]
    registrations_replace_others: RegistrationsReplaceOthers breaks [
        "a_registration_is_renewed_from_the_database_time",
        "registered_types_are_ordered_by_consumer_and_type",
    ]
    renewed_registrations_are_removed: RenewedRegistrationsAreRemoved breaks [
        "a_registration_renewed_since_it_was_read_is_not_removed",
    ]
    ending_leases_keeps_registered_types: EndingLeasesKeepsRegisteredTypes breaks [
        "ending_all_leases_removes_every_registered_type",
    ]
    id_blocks_are_not_raised: IdBlocksAreNotRaised breaks [
        "block_beyond_largest_id_is_refused_by_name",
        "raise_beyond_largest_id_is_refused_by_name",
        "raised_block_starts_at_or_above_given_id",
        "id_state_reports_next_and_largest_id",
    ]
    id_blocks_have_no_end: IdBlocksHaveNoEnd breaks ["block_beyond_largest_id_is_refused_by_name"]
    raises_have_no_end: RaisesHaveNoEnd breaks ["raise_beyond_largest_id_is_refused_by_name"]
    imported_ids_are_counted: ImportedIdsAreCounted breaks ["imported_row_outside_range_moves_no_counter"]
    taken_ids_are_not_found: TakenIdsAreNotFound breaks ["id_is_taken_by_row_of_any_tenant"]
    id_blocks_overlap: IdBlocksOverlap breaks [
        "block_beyond_largest_id_is_refused_by_name",
        "raise_beyond_largest_id_is_refused_by_name",
        "raised_block_starts_at_or_above_given_id",
        "block_starts_after_previous_block",
        "no_id_is_reserved_twice_after_dropped_unit_of_work",
        "blocks_of_one_unit_of_work_do_not_overlap",
        "concurrent_blocks_do_not_overlap",
    ]
    deleted_relays_keep_heartbeat: DeletedRelaysKeepHeartbeat breaks [
        "a_text_key_is_refused_while_a_relay_of_an_older_version_is_live",
        "an_ended_relay_is_removed",
    ]
    expired_leases_are_not_renewed: ExpiredLeasesAreNotRenewed breaks [
        "an_expired_lease_is_renewed_if_no_other_relay_took_the_partition",
        "only_own_leases_are_renewed_and_returned",
    ]
    rows_of_aggregates_are_sorted_by_id: RowsOfAggregatesAreSortedById breaks [
        "rows_of_aggregates_are_ordered_by_aggregate_sequence_and_id",
    ]
    numbers_restart_in_each_call: NumbersRestartInEachCall breaks [
        "concurrent_events_of_an_aggregate_are_numbered_in_the_order_of_their_commits",
        "events_of_one_call_are_numbered_in_their_order",
        "numbers_continue_after_the_highest_one_of_the_aggregate",
        "numbers_of_a_dropped_unit_of_work_do_not_disturb_the_order",
    ]
    due_times_are_ignored: DueTimesAreIgnored breaks [
        "an_event_with_a_due_time_holds_back_later_events_of_its_aggregate",
    ]
    older_relays_are_ignored: OlderRelaysAreIgnored breaks [
        "a_text_key_is_refused_while_a_relay_of_an_older_version_is_live",
    ]
    text_keys_are_read_by_their_number: TextKeysAreReadByTheirNumber breaks [
        "every_id_selects_the_rows_of_its_own_aggregate",
    ]
    text_keys_are_released_by_their_number: TextKeysAreReleasedByTheirNumber breaks [
        "a_release_and_a_redrive_apply_to_one_text_key",
    ]
    blocked_leaks_to_other_tenants: BlockedLeaksToOtherTenants breaks [
        "an_aggregate_whose_next_event_is_not_due_is_listed",
        "blocked_aggregates_belong_to_one_tenant",
    ]
    blocked_counts_all_pending_rows: BlockedCountsAllPendingRows breaks [
        "an_aggregate_is_blocked_by_its_first_failed_event",
        "events_held_by_a_failed_event_are_counted",
    ]
    blocked_aggregates_are_also_waiting: BlockedAggregatesAreAlsoWaiting breaks [
        "an_aggregate_with_a_failed_event_is_waiting_only_if_on_failed_is_continue",
    ]
    counts_include_all_tenants: CountsIncludeAllTenants breaks [
        "applied_events_are_counted_among_the_newest_ids",
        "rows_are_counted_for_one_tenant_or_all",
        "rows_of_the_log_are_counted_by_consumer_and_status",
        "sent_rows_are_counted_among_the_newest_ids",
        "undecided_dead_letters_are_open_or_being_replayed",
    ]
    counts_include_all_ids: CountsIncludeAllIds breaks [
        "applied_events_are_counted_among_the_newest_ids",
        "sent_rows_are_counted_among_the_newest_ids",
    ]
    counts_omit_older_ids: CountsOmitOlderIds breaks [
        "applied_events_are_counted_among_the_newest_ids",
        "sent_rows_are_counted_among_the_newest_ids",
    ]
    backlog_counts_future_retries_as_due: BacklogCountsFutureRetriesAsDue breaks [
        "the_backlog_counts_pending_rows_and_ages_due_ones",
    ]
    failed_rows_include_released_ones: FailedRowsIncludeReleasedOnes breaks [
        "the_backlog_counts_pending_rows_and_ages_due_ones",
    ]
    backlog_includes_end_of_range: BacklogIncludesEndOfRange breaks [
        "the_backlog_of_a_range_has_the_rows_with_its_ids",
    ]
    failed_rows_are_unreadable: FailedRowsAreUnreadable breaks [
        "a_readable_row_is_not_listed_as_unreadable",
    ]
    redrive_moves_new_rows: RedriveMovesNewRows breaks [
        "a_redrive_does_not_change_a_pending_row",
        "redriven_rows_are_returned_with_their_earlier_values",
    ]
    redrive_keeps_attempts: RedriveKeepsAttempts breaks [
        "a_redriven_row_keeps_its_due_time_when_retries_are_brought_forward",
        "a_redriven_row_has_no_counted_attempts",
    ]
    redrive_reports_unchanged_rows: RedriveReportsUnchangedRows breaks [
        "a_redrive_does_not_change_a_pending_row",
        "redriven_rows_are_returned_with_their_earlier_values",
    ]
    history_is_sorted_by_time: HistoryIsSortedByTime breaks [
        "history_is_ordered_by_insertion",
    ]
    history_is_deduplicated: HistoryIsDeduplicated breaks [
        "history_is_ordered_by_insertion",
    ]
    history_is_written_outside_unit: HistoryIsWrittenOutsideUnit breaks [
        "a_dropped_unit_of_work_undoes_all_its_writes",
        "a_history_entry_is_part_of_its_unit_of_work",
        "writes_of_a_unit_of_work_are_invisible_before_its_commit",
    ]
    release_reaches_other_tenants: ReleaseReachesOtherTenants breaks [
        "a_release_applies_to_one_aggregate",
    ]
    log_pages_ignore_tenant: LogPagesIgnoreTenant breaks [
        "every_part_of_a_filter_narrows_the_page_of_the_log",
    ]
    pages_ignore_times: PagesIgnoreTimes breaks [
        "every_part_of_a_filter_narrows_the_page_of_dead_letters",
        "every_part_of_a_filter_narrows_the_page_of_the_log",
        "the_filter_for_times_narrows_the_audit_log",
    ]
    pages_ignore_lowest_id: PagesIgnoreLowestId breaks [
        "pages_of_deliveries_are_ordered_by_descending_id",
        "pages_of_dead_letters_are_ordered_last_parked_first",
        "pages_of_the_audit_log_are_ordered_newest_first",
        "pages_of_the_log_are_ordered_by_descending_record_id",
    ]
    consume_records_are_sorted_by_consumer: ConsumeRecordsAreSortedByConsumer breaks [
        "records_of_events_are_ordered_by_first_write",
    ]
    dead_letter_pages_ignore_status: DeadLetterPagesIgnoreStatus breaks [
        "dead_letters_after_a_cursor_are_ordered_first_parked_first",
        "every_part_of_a_filter_narrows_the_page_of_dead_letters",
    ]
    dead_letters_of_key_include_one_queue_only: DeadLettersOfKeyIncludeOneQueueOnly breaks [
        "dead_letters_found_by_key_are_ordered_by_first_parking",
    ]
    park_ignores_dead_letter_being_replayed: ParkIgnoresDeadLetterBeingReplayed breaks [
        "a_dead_letter_that_is_being_replayed_is_reopened",
    ]
    dead_letters_are_parked_outside_unit: DeadLettersAreParkedOutsideUnit breaks [
        "a_begin_cancelled_at_any_point_does_not_affect_later_units_of_work",
        "a_commit_cancelled_at_any_point_is_atomic",
        "a_commit_is_visible_as_a_whole",
        "a_dropped_unit_of_work_undoes_all_its_writes",
        "a_unit_of_work_dropped_during_a_statement_is_rolled_back",
        "after_a_failed_statement_nothing_can_be_committed",
        "statements_after_a_failed_one_are_not_stored",
        "writes_of_a_unit_of_work_are_invisible_before_its_commit",
    ]
    park_refuses_nul: ParkRefusesNul breaks [
        "dead_letters_with_any_text_are_parked_in_storable_form",
    ]
    decide_ignores_status: DecideIgnoresStatus breaks [
        "a_decision_applies_only_in_the_expected_status",
        "exactly_one_of_concurrent_units_of_work_decides_about_a_dead_letter",
    ]
    decide_clears_note: DecideClearsNote breaks [
        "a_decision_without_a_note_keeps_the_previous_note",
    ]
    audit_changes_include_reads: AuditChangesIncludeReads breaks [
        "the_filter_for_changes_omits_entries_of_reads",
    ]
    audit_leaks_to_other_tenants: AuditLeaksToOtherTenants breaks [
        "audit_entries_belong_to_one_tenant",
    ]
    audit_is_written_outside_unit: AuditIsWrittenOutsideUnit breaks [
        "a_dropped_unit_of_work_undoes_all_its_writes",
        "an_audit_entry_is_part_of_its_unit_of_work",
        "writes_of_a_unit_of_work_are_invisible_before_its_commit",
    ]
    old_audit_reads_ignore_the_limit: OldAuditReadsIgnoreTheLimit breaks [
        "old_audit_entries_of_reads_are_deleted",
    ]
    old_audit_reads_include_young_ones: OldAuditReadsIncludeYoungOnes breaks [
        "old_audit_entries_of_reads_are_deleted",
    ]
    idle_consumers_are_forgotten: IdleConsumersAreForgotten breaks [
        "an_appended_event_is_a_new_row_with_all_its_data",
        "an_event_is_not_unapplied_at_its_idle_consumers",
    ]
}}
