//! Stores with one fault each, in the outbox or in rows of the marketplace. Rules of both contracts may find it.

use std::collections::BTreeSet;

use handover_tests::flawed::store::{Flaw, FlawedStoreRig};

use super::broken;

fn broken_by(fault: Flaw) -> BTreeSet<&'static str> {
    let mut names = broken(handover_contract::store::RULES, || Box::new(FlawedStoreRig::new(fault)));
    names.extend(broken(marketplace_contract::store::RULES, || Box::new(FlawedStoreRig::new(fault))));
    names
}

faults! { broken_by(Flaw) {
    correct_store_breaks_no_rule: None breaks []
    events_are_appended_after_commit: EventsAreAppendedAfterTheCommit breaks [
        "a_commit_cut_at_any_point_happened_whole_or_not_at_all",
        "a_commit_cut_at_any_point_keeps_rows_and_events_together",
        "a_commit_is_seen_whole",
        "a_commit_that_redrove_rows_rings_for_their_partitions",
        "a_commit_that_released_an_aggregate_rings_for_its_partition",
        "a_failed_unit_leaves_later_units_working",
        "a_taken_event_id_is_a_conflict",
        "a_unit_reads_its_own_rows",
        "a_unit_reads_its_own_writes",
        "a_unit_that_is_not_committed_rings_nobody",
        "after_a_failed_statement_nothing_can_be_committed",
        "of_units_that_redrive_one_row_exactly_one_does",
        "of_units_that_release_one_aggregate_exactly_one_does",
        "rows_and_events_of_a_commit_are_seen_together",
        "statements_after_a_failed_one_are_lost_as_well",
    ]
    append_keeps_first_hundred_only: AppendKeepsTheFirstHundredOnly breaks [
        "a_great_batch_is_handled_whole",
        "a_great_many_rows_are_redriven_each_for_its_time",
        "rows_about_a_great_many_aggregates_come_whole",
    ]
    append_ignores_case: AppendIgnoresCase breaks [
        "event_ids_are_compared_byte_by_byte",
    ]
    append_reformats_payloads: AppendReformatsPayloads breaks [
        "a_payload_comes_back_byte_for_byte",
        "a_redriven_row_has_all_its_attempts_again",
        "an_appended_event_is_a_new_row_with_all_it_had",
        "settling_leaves_the_event_as_it_was",
    ]
    retry_times_are_truncated_to_milliseconds: RetriesAreCutToMilliseconds breaks [
        "a_failed_publish_leaves_its_mark",
        "a_retry_is_due_at_its_time_and_not_before",
        "an_aggregate_whose_next_event_waits_for_its_time_is_listed_until_then",
        "the_next_due_time_counts_pending_rows_of_the_partitions_only",
        "the_next_due_time_is_the_earliest_after_now",
    ]
    insert_ignores_taken_ids: InsertIgnoresTakenIds breaks [
        "a_failed_write_of_a_row_leaves_later_units_working",
        "a_taken_product_id_is_a_conflict",
        "after_a_failed_write_of_a_row_nothing_can_be_committed",
        "statements_after_a_failed_write_of_a_row_are_lost_as_well",
    ]
    second_payment_in_processing_is_ignored: SecondPaymentInProcessingIsIgnored breaks [
        "a_failed_write_of_a_row_leaves_later_units_working",
        "a_second_payment_in_processing_for_an_order_is_a_conflict",
        "after_a_failed_write_of_a_row_nothing_can_be_committed",
        "of_payments_started_at_once_for_one_order_one_is",
        "one_unit_may_settle_a_payment_and_begin_another",
        "statements_after_a_failed_write_of_a_row_are_lost_as_well",
    ]
    titles_are_trimmed: TitlesAreTrimmed breaks [
        "a_product_is_read_back_as_it_was_written",
    ]
    orders_leak_to_other_tenants: OrdersLeakToOtherTenants breaks [
        "an_order_is_one_tenants",
    ]
    pages_repeat_last_row: PagesRepeatTheirLastRow breaks [
        "changes_are_found_among_looks",
        "pages_of_blocked_aggregates_run_from_the_greatest_number_down",
        "pages_of_dead_letters_run_from_the_last_parked_down",
        "pages_of_listings_run_from_the_greatest_product_down",
        "pages_of_notifications_run_from_the_newest_down",
        "pages_of_products_can_be_of_one_status",
        "pages_of_products_run_from_the_greatest_id_down",
        "pages_of_shipments_are_of_one_user_on_one_side",
        "pages_of_the_audit_log_run_from_the_newest_down",
        "pages_of_the_log_run_from_the_greatest_number_down",
    ]
    overdue_excludes_deadline: OverdueLeavesOutTheDeadline breaks [
        "an_order_created_at_the_deadline_is_overdue",
    ]
    updates_ignore_version: UpdatesIgnoreTheVersion breaks [
        "an_order_advances_from_the_version_before_only",
        "of_units_that_change_one_order_exactly_one_does",
        "of_units_that_read_and_then_change_exactly_one_does",
    ]
    due_includes_blocked_rows: DueIgnoresHeldRows breaks [
        "a_failed_row_does_not_hold_back_earlier_ones",
        "a_failed_row_holds_back_later_ones_only_under_hold",
        "a_redriven_row_can_be_settled_again",
        "a_redriven_row_is_due_at_its_time_and_not_before",
        "a_release_lets_later_events_pass_for_good",
        "a_row_that_waits_does_not_hold_back_earlier_ones",
        "a_row_that_waits_for_its_retry_holds_back_its_own_aggregate_only",
        "an_earlier_sequence_number_holds_back_a_smaller_id",
        "an_event_of_an_unordered_type_is_never_held_back",
        "an_unknown_type_is_ordered_like_any_other",
        "of_rows_with_one_sequence_number_the_smaller_id_is_the_earlier",
        "rows_that_are_held_back_do_not_count_against_the_limit",
        "what_fails_after_a_release_holds_again",
        "which_types_are_unordered_is_asked_for",
    ]
    blocked_rows_count_against_limit: DueCountsHeldRowsAgainstTheLimit breaks [
        "rows_that_are_held_back_do_not_count_against_the_limit",
    ]
    next_due_is_not_after_now: NextDueIsNotAfterNow breaks [
        "a_redriven_row_is_due_at_its_time_and_not_before",
        "the_next_due_time_is_the_earliest_after_now",
    ]
    mark_sent_moves_failed_rows: SentMovesFailedRows breaks [
        "a_confirm_moves_no_row_that_is_settled",
    ]
    fence_always_succeeds: TheFenceSaysYes breaks [
        "the_fence_refuses_a_hold_that_was_lost_in_between",
        "the_fence_refuses_what_is_not_held",
    ]
    record_ignores_expected_state: RecordIgnoresWhatIsExpected breaks [
        "a_batch_that_names_an_event_twice_is_a_conflict",
        "a_conflict_says_what_is_in_the_way",
        "a_failed_unit_leaves_later_units_working",
        "a_row_expected_to_be_absent_conflicts_with_one_that_is_there",
        "a_row_that_is_not_where_it_is_expected_is_a_conflict",
        "after_a_failed_statement_nothing_can_be_committed",
        "of_workers_that_read_and_then_try_again_exactly_one_does",
        "of_workers_that_record_one_event_first_exactly_one_does",
        "of_workers_that_try_one_event_again_exactly_one_does",
        "one_conflict_undoes_the_whole_unit",
        "statements_after_a_failed_one_are_lost_as_well",
    ]
    unapplied_excludes_failed: UnappliedForgetsFailed breaks [
        "an_unapplied_event_comes_with_its_rows",
        "what_is_not_settled_is_unapplied",
    ]
    effects_are_deduplicated: EffectsAreDeduplicated breaks [
        "a_second_listing_change_of_the_same_fact_conflicts",
    ]
    first_listing_release_is_ignored: ReleasesThatComeFirstAreForgotten breaks [
        "a_listing_ends_the_same_in_whatever_order_its_changes_come",
        "a_second_listing_change_of_the_same_fact_conflicts",
        "listing_changes_are_read_back_in_the_order_applied",
    ]
    notifications_are_deduplicated: NotificationsAreDeduplicated breaks [
        "a_second_notification_of_the_same_fact_conflicts",
    ]
    notifications_leak_to_other_tenants: NotificationsLeakToOtherTenants breaks [
        "notifications_are_one_tenants",
    ]
    credit_is_counted_once_per_event: CreditIsCountedOncePerEvent breaks [
        "a_second_credit_change_of_the_same_fact_conflicts",
    ]
    credit_is_counted_from_stale_read: CreditIsCountedFromAnOldRead breaks [
        "of_units_that_count_for_one_buyer_none_is_lost",
    ]
    credit_leaks_to_other_tenants: CreditLeaksToOtherTenants breaks [
        "credit_is_one_tenants",
    ]
    scores_have_no_upper_limit: ScoresHaveNoUpperLimit breaks [
        "the_score_follows_from_the_counts_alone",
    ]
    id_blocks_are_not_raised: IdBlocksAreNotRaised breaks [
        "a_raised_block_begins_there_or_above_and_never_lower",
        "the_ids_of_a_kind_stand_where_blocks_and_rows_say",
    ]
    taken_ids_are_not_found: TakenIdsAreNotSeen breaks ["an_id_is_taken_by_a_row_of_any_tenant"]
    id_blocks_overlap: IdBlocksOverlap breaks [
        "a_raised_block_begins_there_or_above_and_never_lower",
        "a_block_begins_after_the_last_of_the_one_before",
        "a_dropped_unit_hands_out_nothing_twice",
        "blocks_of_one_unit_do_not_overlap",
        "blocks_taken_at_once_do_not_overlap",
    ]
    deleted_relays_keep_heartbeat: ForgottenRelaysLiveOn breaks [
        "a_relay_that_ends_is_forgotten",
    ]
    expired_leases_are_not_renewed: EndedLeasesAreNotRenewed breaks [
        "a_lease_that_nobody_took_is_renewed_after_its_end",
        "only_ones_own_leases_are_renewed_and_told",
    ]
    commit_succeeds_after_failed_statement: CommitReportsSuccessAfterAFailure breaks [
        "a_batch_that_names_an_event_twice_is_a_conflict",
        "a_row_expected_to_be_absent_conflicts_with_one_that_is_there",
        "a_row_that_is_not_where_it_is_expected_is_a_conflict",
        "a_unit_that_is_not_committed_rings_nobody",
        "after_a_failed_statement_nothing_can_be_committed",
        "after_a_failed_write_of_a_row_nothing_can_be_committed",
        "one_conflict_undoes_the_whole_unit",
        "statements_after_a_failed_one_are_lost_as_well",
        "statements_after_a_failed_write_of_a_row_are_lost_as_well",
    ]
    commit_sends_no_notification: CommitRingsNobody breaks [
        "a_commit_that_appended_events_rings_for_their_partitions",
        "a_commit_that_redrove_rows_rings_for_their_partitions",
        "a_commit_that_released_an_aggregate_rings_for_its_partition",
        "whoever_is_woken_sees_the_events",
    ]
    dropped_units_commit: DroppedUnitsCommit breaks [
        "a_begin_cut_at_any_point_leaves_later_units_working",
        "a_decision_is_part_of_its_unit",
        "a_dropped_unit_leaves_leases_as_they_were",
        "a_dropped_unit_subscribes_nobody",
        "a_dropped_unit_undoes_everything",
        "a_dropped_unit_undoes_its_changes_of_old_rows",
        "a_dropped_unit_undoes_its_changes_of_rows",
        "a_dropped_unit_undoes_rows_and_events",
        "a_history_entry_is_part_of_its_unit",
        "a_unit_cut_in_the_middle_of_a_statement_is_undone",
        "a_unit_that_is_not_committed_rings_nobody",
        "an_audit_entry_is_part_of_its_unit",
        "dropped_units_leave_later_units_working",
        "units_side_by_side_do_not_see_each_other",
    ]
    products_are_written_outside_unit: ProductsAreWrittenOutsideTheUnit breaks [
        "a_commit_cut_at_any_point_keeps_rows_and_events_together",
        "a_dropped_unit_undoes_rows_and_events",
        "after_a_failed_write_of_a_row_nothing_can_be_committed",
        "rows_and_events_are_invisible_until_their_unit_is_committed",
        "rows_and_events_of_a_commit_are_seen_together",
        "statements_after_a_failed_write_of_a_row_are_lost_as_well",
    ]
    cancelled_begin_loses_next_unit: ACutBeginSwallowsTheNextUnit breaks [
        "a_begin_cut_at_any_point_leaves_later_units_working",
        "begins_that_are_cut_use_nothing_up",
    ]
    payments_are_sorted_by_time: PaymentsComeByTime breaks [
        "the_payments_of_an_order_come_in_the_order_of_ids",
    ]
    rows_of_aggregates_are_sorted_by_id: RowsAboutAggregatesComeById breaks [
        "rows_about_aggregates_come_by_aggregate_sequence_and_id",
    ]
    blocked_leaks_to_other_tenants: BlockedLeaksToOtherTenants breaks [
        "an_aggregate_whose_next_event_waits_for_its_time_is_listed_until_then",
        "blocked_aggregates_are_one_tenants",
    ]
    blocked_counts_all_pending_rows: BlockedCountsEverythingPending breaks [
        "an_aggregate_is_blocked_by_its_first_failed_event",
        "what_waits_behind_a_failed_event_is_counted",
    ]
    counts_include_all_tenants: CountsAreOfAllTenants breaks [
        "rows_are_counted_for_one_tenant_or_all",
        "rows_of_the_log_are_counted_by_consumer_and_status",
        "undecided_dead_letters_are_open_or_being_replayed",
    ]
    redrive_moves_new_rows: RedriveMovesNewRows breaks [
        "a_redrive_moves_no_row_that_is_on_its_way",
        "redriven_rows_are_returned_as_they_stood_before",
    ]
    redrive_keeps_attempts: RedriveKeepsTheAttempts breaks [
        "a_redriven_row_has_all_its_attempts_again",
    ]
    redrive_reports_unchanged_rows: RedriveTellsOfRowsThatDidNotMove breaks [
        "a_redrive_moves_no_row_that_is_on_its_way",
        "redriven_rows_are_returned_as_they_stood_before",
    ]
    history_is_sorted_by_time: HistoryComesByTime breaks [
        "history_comes_in_the_order_in_which_it_was_added",
    ]
    history_is_deduplicated: HistoryIsDeduplicated breaks [
        "history_comes_in_the_order_in_which_it_was_added",
    ]
    history_is_written_outside_unit: HistoryIsWrittenOutsideTheUnit breaks [
        "a_dropped_unit_undoes_everything",
        "a_history_entry_is_part_of_its_unit",
        "what_a_unit_writes_is_invisible_until_it_is_committed",
    ]
    redrive_and_release_send_no_notification: RedrivesAndReleasesRingNobody breaks [
        "a_commit_that_redrove_rows_rings_for_their_partitions",
        "a_commit_that_released_an_aggregate_rings_for_its_partition",
    ]
    release_reaches_other_tenants: ReleaseReachesOtherTenants breaks [
        "a_release_is_of_one_aggregate",
    ]
    log_pages_ignore_tenant: LogPagesIgnoreTheTenant breaks [
        "every_part_of_a_filter_narrows_the_page_of_the_log",
    ]
    consume_records_are_sorted_by_consumer: RowsOfEventsComeByConsumer breaks [
        "rows_of_events_come_in_the_order_in_which_they_were_first_written",
    ]
    dead_letter_pages_ignore_status: DeadLetterPagesIgnoreTheStatus breaks [
        "every_part_of_a_filter_narrows_the_page_of_dead_letters",
    ]
    dead_letters_of_key_include_one_queue_only: DeadLettersOfAKeyAreOfOneQueue breaks [
        "dead_letters_under_keys_come_in_the_order_in_which_they_were_parked",
    ]
    park_ignores_dead_letter_being_replayed: ParkLeavesWhatIsBeingReplayed breaks [
        "a_dead_letter_that_is_being_replayed_is_opened_again",
    ]
    dead_letters_are_parked_outside_unit: LettersAreParkedOutsideTheUnit breaks [
        "a_begin_cut_at_any_point_leaves_later_units_working",
        "a_commit_cut_at_any_point_happened_whole_or_not_at_all",
        "a_commit_is_seen_whole",
        "a_dropped_unit_undoes_everything",
        "a_unit_cut_in_the_middle_of_a_statement_is_undone",
        "after_a_failed_statement_nothing_can_be_committed",
        "statements_after_a_failed_one_are_lost_as_well",
        "what_a_unit_writes_is_invisible_until_it_is_committed",
    ]
    park_refuses_nul: ParkRefusesNul breaks [
        "dead_letters_of_any_texts_are_parked_in_their_storable_form",
    ]
    decide_ignores_status: DecideIgnoresWhereItStands breaks [
        "a_decision_holds_only_where_the_letter_stands_where_it_says",
        "of_units_that_decide_about_one_dead_letter_exactly_one_does",
    ]
    decide_clears_note: DecideForgetsTheNote breaks [
        "a_decision_without_a_note_leaves_the_one_before",
    ]
    audit_changes_include_reads: AuditShowsLooksAmongChanges breaks [
        "changes_are_found_among_looks",
    ]
    audit_leaks_to_other_tenants: AuditLeaksToOtherTenants breaks [
        "the_audit_log_is_one_tenants",
    ]
    audit_is_written_outside_unit: AuditIsWrittenOutsideTheUnit breaks [
        "a_dropped_unit_undoes_everything",
        "an_audit_entry_is_part_of_its_unit",
        "what_a_unit_writes_is_invisible_until_it_is_committed",
    ]
    taken_operation_keys_are_ignored: TakenOperationKeysAreIgnored breaks [
        "a_taken_operation_key_is_a_conflict",
        "of_units_that_post_one_key_exactly_one_does",
        "operation_keys_are_compared_byte_by_byte",
    ]
    operations_leak_to_other_tenants: OperationsLeakToOtherTenants breaks [
        "operations_are_one_tenants",
    ]
    unbalanced_postings_are_ignored: UnbalancedPostingsAreIgnored breaks [
        "entries_that_do_not_balance_are_refused",
    ]
    balances_are_not_locked: BalancesAreLockedTooLate breaks [
        "of_units_that_lock_balances_in_any_order_none_is_lost",
        "of_units_that_lock_one_balance_none_is_lost",
    ]
    negative_balances_are_ignored: NegativeBalancesAreIgnored breaks [
        "a_negative_balance_is_refused",
    ]
    balances_leak_to_other_tenants: BalancesLeakToOtherTenants breaks [
        "balances_are_one_tenants_and_of_one_purse",
    ]
    frozen_hold_pages_restart: FrozenPagesBeginAgain breaks [
        "pages_of_frozen_holds_go_on_after_the_last",
    ]
    holds_overwrite_others: HoldsAreWrittenOverOthers breaks [
        "a_hold_that_is_not_as_expected_is_a_conflict",
        "a_hold_that_is_there_already_is_a_conflict",
        "of_units_that_add_one_hold_exactly_one_does",
        "of_units_that_end_one_hold_exactly_one_does",
    ]
    second_refunds_are_ignored: SecondRefundsAreIgnored breaks [
        "a_failed_refund_makes_room_for_another",
        "a_second_refund_of_a_payment_is_a_conflict",
        "of_units_that_insert_a_refund_of_one_payment_exactly_one_does",
    ]
    taken_scopes_are_ignored: TakenScopesAreIgnored breaks [
        "a_taken_scope_is_a_conflict",
        "of_units_that_add_one_request_exactly_one_does",
    ]
    requests_advance_by_any_token: RequestsAdvanceByAnyToken breaks [
        "a_request_advances_by_its_token_only",
        "of_units_that_take_over_one_request_exactly_one_does",
    ]
    answered_requests_are_dropped: AnsweredRequestsAreDropped breaks [
        "a_request_is_dropped_by_its_token_until_it_is_answered",
    ]
    refunds_are_due_late: RefundsAreDueTooLate breaks [
        "a_refund_is_due_at_its_time_and_not_before",
        "due_refunds_are_processing_and_come_earliest_first",
    ]
    coupons_expire_late: CouponsExpireTooLate breaks [
        "a_coupon_that_ends_at_the_moment_is_expired",
    ]
    changed_orders_leak_to_other_tenants: ChangedOrdersLeakToOtherTenants breaks [
        "orders_changed_come_by_time_and_id_page_by_page",
    ]
    drift_is_not_reported: DriftIsNotNoticed breaks [
        "a_balance_that_its_entries_do_not_say_is_a_flaw",
    ]
}}
