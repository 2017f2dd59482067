//! Stores with one fault each, in the outbox or in rows of the marketplace. Rules of both contracts may find a fault.

use std::collections::BTreeSet;

use handover_tests::faulty::store::{Fault, FaultyStoreRig};

use super::broken;

fn broken_by(fault: Fault) -> BTreeSet<&'static str> {
    let mut names = broken(handover_contract::store::RULES, || Box::new(FaultyStoreRig::new(fault)));
    names.extend(broken(marketplace_contract::store::RULES, || Box::new(FaultyStoreRig::new(fault))));
    names
}

faults! { broken_by(Fault) {
    correct_store_breaks_no_rule: None breaks []
    events_are_appended_after_commit: EventsAreAppendedAfterCommit breaks [
        "a_commit_cancelled_at_any_point_is_atomic",
        "dropped_commit_is_atomic_for_rows_and_events",
        "a_commit_is_visible_as_a_whole",
        "a_commit_that_redrove_rows_notifies_for_their_partitions",
        "a_commit_that_released_an_aggregate_notifies_for_its_partition",
        "a_failed_unit_does_not_affect_later_units",
        "an_existing_event_id_is_a_conflict",
        "unit_reads_its_own_rows",
        "a_unit_reads_its_own_writes",
        "an_uncommitted_unit_sends_no_notification",
        "after_a_failed_statement_nothing_can_be_committed",
        "exactly_one_of_concurrent_units_redrives_a_row",
        "exactly_one_of_concurrent_units_releases_an_aggregate",
        "rows_and_events_of_commit_become_visible_together",
        "statements_after_a_failed_one_are_not_stored",
    ]
    append_keeps_first_hundred_only: AppendKeepsFirstHundredOnly breaks [
        "a_large_batch_is_handled_completely",
        "many_rows_are_redriven_each_with_its_own_time",
        "rows_of_many_aggregates_are_returned_completely",
    ]
    append_ignores_case: AppendIgnoresCase breaks [
        "event_ids_are_compared_byte_by_byte",
    ]
    append_reformats_payloads: AppendReformatsPayloads breaks [
        "a_payload_is_read_back_byte_for_byte",
        "a_redriven_row_has_no_counted_attempts",
        "an_appended_event_is_a_new_row_with_all_its_data",
        "settling_does_not_change_the_event",
    ]
    retry_times_are_truncated_to_milliseconds: RetryTimesAreTruncatedToMilliseconds breaks [
        "a_failed_publish_is_stored",
        "a_retry_is_due_at_its_time_and_not_before",
        "an_aggregate_whose_next_event_is_not_due_is_listed",
        "the_next_due_time_counts_pending_rows_of_the_partitions_only",
        "the_next_due_time_is_the_earliest_after_now",
    ]
    insert_ignores_taken_ids: InsertIgnoresTakenIds breaks [
        "later_units_work_after_failed_row_write",
        "duplicate_product_id_is_conflict",
        "commit_fails_after_failed_row_write",
        "statements_after_failed_row_write_are_not_committed",
    ]
    second_payment_in_processing_is_ignored: SecondPaymentInProcessingIsIgnored breaks [
        "later_units_work_after_failed_row_write",
        "second_processing_payment_of_order_is_conflict",
        "commit_fails_after_failed_row_write",
        "concurrent_payments_of_order_succeed_exactly_once",
        "unit_may_settle_payment_and_insert_another",
        "statements_after_failed_row_write_are_not_committed",
    ]
    titles_are_trimmed: TitlesAreTrimmed breaks [
        "product_is_read_as_written",
    ]
    orders_leak_to_other_tenants: OrdersLeakToOtherTenants breaks [
        "order_is_isolated_by_tenant",
    ]
    pages_repeat_last_row: PagesRepeatLastRow breaks [
        "the_filter_for_changes_omits_reads",
        "pages_of_blocked_aggregates_are_ordered_by_descending_number",
        "pages_of_dead_letters_are_ordered_last_parked_first",
        "listing_pages_are_ordered_by_descending_product",
        "notification_pages_are_ordered_newest_first",
        "product_pages_filter_by_status",
        "product_pages_are_ordered_by_descending_id",
        "shipment_pages_filter_by_user_and_side",
        "pages_of_the_audit_log_are_ordered_newest_first",
        "pages_of_the_log_are_ordered_by_descending_number",
    ]
    overdue_excludes_deadline: OverdueExcludesDeadline breaks [
        "order_created_at_deadline_is_overdue",
    ]
    updates_ignore_version: UpdatesIgnoreVersion breaks [
        "order_advances_only_from_previous_version",
        "concurrent_order_changes_succeed_exactly_once",
        "concurrent_read_then_change_succeeds_exactly_once",
    ]
    due_includes_blocked_rows: DueIncludesBlockedRows breaks [
        "a_failed_row_does_not_block_earlier_rows",
        "a_failed_row_blocks_later_rows_only_under_hold",
        "a_redriven_row_can_be_settled_again",
        "a_redriven_row_is_due_at_its_time_and_not_before",
        "a_release_unblocks_later_events_permanently",
        "a_row_that_is_not_due_does_not_block_earlier_rows",
        "a_retry_row_that_is_not_due_blocks_only_its_own_aggregate",
        "an_earlier_sequence_number_blocks_a_smaller_id",
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
    next_due_is_not_after_now: NextDueIsNotAfterNow breaks [
        "a_redriven_row_is_due_at_its_time_and_not_before",
        "the_next_due_time_is_the_earliest_after_now",
    ]
    mark_sent_moves_failed_rows: MarkSentMovesFailedRows breaks [
        "a_confirm_does_not_change_a_settled_row",
    ]
    retries_within_bound_are_brought_forward: RetriesWithinBoundAreBroughtForward breaks [
        "a_retry_due_beyond_the_bound_is_brought_forward",
    ]
    retries_of_other_partitions_are_brought_forward: RetriesOfOtherPartitionsAreBroughtForward breaks [
        "only_retries_of_the_partitions_are_brought_forward",
    ]
    redriven_rows_are_brought_forward: RedrivenRowsAreBroughtForward breaks [
        "a_redriven_row_is_not_brought_forward",
    ]
    fence_always_succeeds: FenceAlwaysSucceeds breaks [
        "the_fence_rejects_a_partition_that_was_lost_in_between",
        "the_fence_rejects_partitions_that_are_not_owned",
    ]
    record_ignores_expected_state: RecordIgnoresExpectedState breaks [
        "a_batch_that_names_an_event_twice_is_a_conflict",
        "a_conflict_names_its_key",
        "a_failed_unit_does_not_affect_later_units",
        "a_record_expected_to_be_absent_conflicts_with_an_existing_one",
        "a_record_in_an_unexpected_state_is_a_conflict",
        "after_a_failed_statement_nothing_can_be_committed",
        "exactly_one_of_concurrent_workers_with_reads_retries_an_event",
        "exactly_one_of_concurrent_workers_records_a_new_event",
        "exactly_one_of_concurrent_workers_retries_an_event",
        "one_conflict_undoes_the_whole_unit",
        "statements_after_a_failed_one_are_not_stored",
    ]
    unapplied_excludes_failed: UnappliedExcludesFailed breaks [
        "an_unapplied_event_is_returned_with_its_rows",
        "an_event_without_settled_record_is_unapplied",
    ]
    effects_are_deduplicated: EffectsAreDeduplicated breaks [
        "second_listing_change_of_fact_is_conflict",
    ]
    first_listing_release_is_ignored: FirstListingReleaseIsIgnored breaks [
        "listing_is_independent_of_order_of_changes",
        "second_listing_change_of_fact_is_conflict",
        "listing_changes_are_read_in_order_of_application",
    ]
    notifications_are_deduplicated: NotificationsAreDeduplicated breaks [
        "second_notification_of_fact_is_conflict",
    ]
    notifications_leak_to_other_tenants: NotificationsLeakToOtherTenants breaks [
        "notifications_are_isolated_by_tenant",
    ]
    credit_is_counted_once_per_event: CreditIsCountedOncePerEvent breaks [
        "second_credit_change_of_fact_is_conflict",
    ]
    credit_is_counted_from_stale_read: CreditIsCountedFromStaleRead breaks [
        "concurrent_credit_changes_are_not_lost",
    ]
    credit_leaks_to_other_tenants: CreditLeaksToOtherTenants breaks [
        "credit_is_isolated_by_tenant",
    ]
    scores_have_no_upper_limit: ScoresHaveNoUpperLimit breaks [
        "score_depends_only_on_counts",
    ]
    id_blocks_are_not_raised: IdBlocksAreNotRaised breaks [
        "raised_block_starts_at_or_above_given_id",
        "id_state_reports_next_and_largest_id",
    ]
    taken_ids_are_not_found: TakenIdsAreNotFound breaks ["id_is_taken_by_row_of_any_tenant"]
    id_blocks_overlap: IdBlocksOverlap breaks [
        "raised_block_starts_at_or_above_given_id",
        "block_starts_after_previous_block",
        "dropped_unit_reserves_no_id_twice",
        "blocks_of_one_unit_do_not_overlap",
        "concurrent_blocks_do_not_overlap",
    ]
    deleted_relays_keep_heartbeat: DeletedRelaysKeepHeartbeat breaks [
        "an_ended_relay_is_removed",
    ]
    expired_leases_are_not_renewed: ExpiredLeasesAreNotRenewed breaks [
        "an_expired_lease_that_was_not_taken_is_renewed",
        "only_own_leases_are_renewed_and_returned",
    ]
    commit_succeeds_after_failed_statement: CommitSucceedsAfterFailedStatement breaks [
        "a_batch_that_names_an_event_twice_is_a_conflict",
        "a_record_expected_to_be_absent_conflicts_with_an_existing_one",
        "a_record_in_an_unexpected_state_is_a_conflict",
        "an_uncommitted_unit_sends_no_notification",
        "after_a_failed_statement_nothing_can_be_committed",
        "commit_fails_after_failed_row_write",
        "one_conflict_undoes_the_whole_unit",
        "statements_after_a_failed_one_are_not_stored",
        "statements_after_failed_row_write_are_not_committed",
    ]
    commit_sends_no_notification: CommitSendsNoNotification breaks [
        "a_commit_that_appended_events_notifies_for_their_partitions",
        "a_commit_that_redrove_rows_notifies_for_their_partitions",
        "a_commit_that_released_an_aggregate_notifies_for_its_partition",
        "a_notified_relay_sees_the_events",
    ]
    dropped_units_commit: DroppedUnitsCommit breaks [
        "a_begin_cancelled_at_any_point_does_not_affect_later_units",
        "a_decision_is_part_of_its_unit",
        "a_dropped_unit_does_not_change_leases",
        "a_dropped_unit_subscribes_no_consumer",
        "a_dropped_unit_undoes_everything",
        "a_dropped_unit_undoes_its_changes_of_existing_rows",
        "dropped_unit_rolls_back_updates",
        "dropped_unit_rolls_back_inserts",
        "a_history_entry_is_part_of_its_unit",
        "a_unit_cancelled_during_a_statement_is_rolled_back",
        "an_uncommitted_unit_sends_no_notification",
        "an_audit_entry_is_part_of_its_unit",
        "dropped_units_do_not_affect_later_units",
        "concurrent_units_do_not_see_each_other",
    ]
    products_are_written_outside_unit: ProductsAreWrittenOutsideUnit breaks [
        "dropped_commit_is_atomic_for_rows_and_events",
        "dropped_unit_rolls_back_inserts",
        "commit_fails_after_failed_row_write",
        "uncommitted_rows_and_events_are_invisible",
        "rows_and_events_of_commit_become_visible_together",
        "statements_after_failed_row_write_are_not_committed",
    ]
    cancelled_begin_loses_next_unit: CancelledBeginLosesNextUnit breaks [
        "a_begin_cancelled_at_any_point_does_not_affect_later_units",
        "cancelled_begins_free_their_resources",
    ]
    payments_are_sorted_by_time: PaymentsAreSortedByTime breaks [
        "payments_of_order_are_ordered_by_id",
    ]
    rows_of_aggregates_are_sorted_by_id: RowsOfAggregatesAreSortedById breaks [
        "rows_of_aggregates_are_ordered_by_aggregate_sequence_and_id",
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
        "an_aggregate_behind_a_failed_event_is_waiting_only_under_continue",
    ]
    counts_include_all_tenants: CountsIncludeAllTenants breaks [
        "rows_are_counted_for_one_tenant_or_all",
        "rows_of_the_log_are_counted_by_consumer_and_status",
        "undecided_dead_letters_are_open_or_being_replayed",
    ]
    failed_rows_are_unreadable: FailedRowsAreUnreadable breaks [
        "a_readable_row_is_not_listed_as_unreadable",
    ]
    redrive_moves_new_rows: RedriveMovesNewRows breaks [
        "a_redrive_does_not_change_a_pending_row",
        "redriven_rows_are_returned_with_their_earlier_values",
    ]
    redrive_keeps_attempts: RedriveKeepsAttempts breaks [
        "a_redriven_row_is_not_brought_forward",
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
        "a_dropped_unit_undoes_everything",
        "a_history_entry_is_part_of_its_unit",
        "writes_of_a_unit_are_invisible_before_its_commit",
    ]
    redrive_and_release_send_no_notification: RedriveAndReleaseSendNoNotification breaks [
        "a_commit_that_redrove_rows_notifies_for_their_partitions",
        "a_commit_that_released_an_aggregate_notifies_for_its_partition",
    ]
    release_reaches_other_tenants: ReleaseReachesOtherTenants breaks [
        "a_release_applies_to_one_aggregate",
    ]
    log_pages_ignore_tenant: LogPagesIgnoreTenant breaks [
        "every_part_of_a_filter_narrows_the_page_of_the_log",
    ]
    consume_records_are_sorted_by_consumer: ConsumeRecordsAreSortedByConsumer breaks [
        "records_of_events_are_ordered_by_first_write",
    ]
    dead_letter_pages_ignore_status: DeadLetterPagesIgnoreStatus breaks [
        "every_part_of_a_filter_narrows_the_page_of_dead_letters",
    ]
    dead_letters_of_key_include_one_queue_only: DeadLettersOfKeyIncludeOneQueueOnly breaks [
        "dead_letters_by_key_are_ordered_by_parking",
    ]
    park_ignores_dead_letter_being_replayed: ParkIgnoresDeadLetterBeingReplayed breaks [
        "a_dead_letter_that_is_being_replayed_is_reopened",
    ]
    dead_letters_are_parked_outside_unit: DeadLettersAreParkedOutsideUnit breaks [
        "a_begin_cancelled_at_any_point_does_not_affect_later_units",
        "a_commit_cancelled_at_any_point_is_atomic",
        "a_commit_is_visible_as_a_whole",
        "a_dropped_unit_undoes_everything",
        "a_unit_cancelled_during_a_statement_is_rolled_back",
        "after_a_failed_statement_nothing_can_be_committed",
        "statements_after_a_failed_one_are_not_stored",
        "writes_of_a_unit_are_invisible_before_its_commit",
    ]
    park_refuses_nul: ParkRefusesNul breaks [
        "dead_letters_with_any_text_are_parked_in_storable_form",
    ]
    decide_ignores_status: DecideIgnoresStatus breaks [
        "a_decision_applies_only_in_the_expected_status",
        "exactly_one_of_concurrent_units_decides_about_a_dead_letter",
    ]
    decide_clears_note: DecideClearsNote breaks [
        "a_decision_without_a_note_keeps_the_previous_note",
    ]
    audit_changes_include_reads: AuditChangesIncludeReads breaks [
        "the_filter_for_changes_omits_reads",
    ]
    audit_leaks_to_other_tenants: AuditLeaksToOtherTenants breaks [
        "audit_entries_belong_to_one_tenant",
    ]
    audit_is_written_outside_unit: AuditIsWrittenOutsideUnit breaks [
        "a_dropped_unit_undoes_everything",
        "an_audit_entry_is_part_of_its_unit",
        "writes_of_a_unit_are_invisible_before_its_commit",
    ]
    taken_operation_keys_are_ignored: TakenOperationKeysAreIgnored breaks [
        "duplicate_operation_key_is_conflict",
        "concurrent_postings_of_one_key_succeed_exactly_once",
        "operation_keys_are_compared_byte_by_byte",
    ]
    operations_leak_to_other_tenants: OperationsLeakToOtherTenants breaks [
        "operations_are_isolated_by_tenant",
    ]
    unbalanced_postings_are_ignored: UnbalancedPostingsAreIgnored breaks [
        "unbalanced_entries_are_refused",
    ]
    balances_are_not_locked: BalancesAreNotLocked breaks [
        "concurrent_balance_locks_in_any_order_succeed",
        "concurrent_updates_of_one_balance_are_not_lost",
    ]
    negative_balances_are_ignored: NegativeBalancesAreIgnored breaks [
        "negative_balance_is_refused",
    ]
    balances_leak_to_other_tenants: BalancesLeakToOtherTenants breaks [
        "balances_are_isolated_by_tenant_and_purse",
    ]
    frozen_hold_pages_restart: FrozenHoldPagesRestart breaks [
        "frozen_hold_pages_continue_after_the_last_hold",
    ]
    holds_overwrite_others: HoldsOverwriteOthers breaks [
        "hold_with_unexpected_version_is_conflict",
        "existing_hold_is_conflict",
        "concurrent_hold_inserts_succeed_exactly_once",
        "concurrent_hold_endings_succeed_exactly_once",
    ]
    second_refunds_are_ignored: SecondRefundsAreIgnored breaks [
        "refund_is_allowed_after_previous_failed",
        "second_refund_of_payment_is_conflict",
        "concurrent_refunds_of_payment_succeed_exactly_once",
    ]
    taken_scopes_are_ignored: TakenScopesAreIgnored breaks [
        "duplicate_scope_is_conflict",
        "concurrent_request_inserts_succeed_exactly_once",
    ]
    requests_advance_by_any_token: RequestsAdvanceByAnyToken breaks [
        "request_advances_only_with_its_token",
        "concurrent_request_takeovers_succeed_exactly_once",
    ]
    answered_requests_are_dropped: AnsweredRequestsAreDropped breaks [
        "request_without_response_is_dropped_with_its_token",
    ]
    refunds_are_due_late: RefundsAreDueLate breaks [
        "refund_is_due_at_its_time",
        "due_refunds_are_processing_and_ordered_earliest_first",
    ]
    coupons_expire_late: CouponsExpireLate breaks [
        "coupon_is_expired_at_its_expiry_time",
    ]
    changed_orders_leak_to_other_tenants: ChangedOrdersLeakToOtherTenants breaks [
        "changed_orders_are_paged_by_time_and_id",
    ]
    drift_is_not_reported: DriftIsNotReported breaks [
        "balance_that_differs_from_entries_is_reported",
    ]
}}
