//! Faults of the marketplace's ports.

use handover_tests::faulty::store::Fault;

use super::broken_by;

faults! { broken_by(Fault) {
    insert_ignores_taken_ids: InsertIgnoresTakenIds breaks [
        "later_units_of_work_succeed_after_failed_row_write",
        "duplicate_product_id_is_conflict",
        "commit_fails_after_failed_row_write",
        "statements_after_failed_row_write_are_not_committed",
    ]
    second_payment_in_processing_is_ignored: SecondPaymentInProcessingIsIgnored breaks [
        "later_units_of_work_succeed_after_failed_row_write",
        "second_processing_payment_of_order_is_conflict",
        "commit_fails_after_failed_row_write",
        "concurrent_payments_of_order_succeed_exactly_once",
        "unit_of_work_can_settle_payment_and_insert_another",
        "statements_after_failed_row_write_are_not_committed",
    ]
    titles_are_trimmed: TitlesAreTrimmed breaks [
        "product_is_read_as_written",
    ]
    orders_leak_to_other_tenants: OrdersLeakToOtherTenants breaks [
        "order_is_isolated_by_tenant",
    ]
    pages_repeat_last_row: PagesRepeatLastRow breaks [
        "pages_of_deliveries_are_ordered_by_descending_id",
        "the_filter_for_changes_omits_entries_of_reads",
        "pages_of_blocked_aggregates_are_ordered_by_descending_outbox_id",
        "pages_of_dead_letters_are_ordered_last_parked_first",
        "listing_pages_are_ordered_by_descending_product",
        "notification_pages_are_ordered_newest_first",
        "product_pages_filter_by_status",
        "refund_pages_are_ordered_by_descending_id",
        "payment_pages_are_ordered_by_descending_id",
        "refund_pages_filter_by_tenant_and_status",
        "report_pages_are_ordered_by_descending_id",
        "finding_pages_are_ordered_by_descending_id",
        "subjects_of_open_findings_are_ordered_by_descending_id",
        "finding_pages_filter_by_tenant_and_state",
        "report_pages_filter_by_tenant_and_state",
        "product_pages_are_ordered_by_descending_id",
        "shipment_pages_filter_by_seller_or_buyer",
        "pages_of_the_audit_log_are_ordered_newest_first",
        "pages_of_the_log_are_ordered_by_descending_record_id",
    ]
    shipped_excludes_limit: ShippedExcludesLimit breaks [
        "order_shipped_at_limit_is_to_be_completed",
    ]
    shipped_pages_ignore_cursor: ShippedPagesIgnoreCursor breaks [
        "shipped_orders_are_paged_oldest_first",
    ]
    overdue_excludes_deadline: OverdueExcludesDeadline breaks [
        "order_created_at_deadline_is_overdue",
    ]
    overdue_pages_ignore_cursor: OverduePagesIgnoreCursor breaks [
        "overdue_order_pages_continue_after_the_last_order",
    ]
    updates_ignore_version: UpdatesIgnoreVersion breaks [
        "order_advances_only_from_previous_version",
        "concurrent_order_changes_succeed_exactly_once",
        "concurrent_read_then_change_succeeds_exactly_once",
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
    shipment_pages_ignore_state: ShipmentPagesIgnoreState breaks [
        "shipment_pages_filter_by_state_of_order",
    ]
    scores_have_no_upper_limit: ScoresHaveNoUpperLimit breaks [
        "score_depends_only_on_counts",
    ]
    products_are_written_outside_unit: ProductsAreWrittenOutsideUnit breaks [
        "dropped_commit_is_atomic_for_rows_and_events",
        "dropped_unit_of_work_rolls_back_inserts",
        "commit_fails_after_failed_row_write",
        "uncommitted_rows_and_events_are_invisible",
        "rows_and_events_of_commit_become_visible_together",
        "statements_after_failed_row_write_are_not_committed",
    ]
    payments_are_sorted_by_time: PaymentsAreSortedByTime breaks [
        "payments_of_order_are_ordered_by_id",
        "rows_of_many_orders_are_ordered_by_order",
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
        "concurrent_balance_locks_in_different_sequences_succeed",
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
        "second_refund_of_capture_is_conflict",
        "refunds_of_different_captures_do_not_conflict",
        "excess_refunds_do_not_conflict",
        "concurrent_refunds_of_payment_succeed_exactly_once",
    ]
    refunds_of_all_captures_conflict: RefundsOfAllCapturesConflict breaks [
        "refunds_of_different_captures_do_not_conflict",
        "failed_refund_is_counted_until_another_one_returns_its_money",
    ]
    excess_refunds_are_counted: ExcessRefundsAreCounted breaks [
        "excess_refunds_do_not_conflict",
    ]
    superseded_attempts_are_not_found: SupersededAttemptsAreNotFound breaks [
        "attempt_is_found_by_current_or_superseded_reference",
    ]
    refund_request_errors_are_lost: RefundRequestErrorsAreLost breaks [
        "latest_requests_of_refund_are_read_with_their_errors",
    ]
    taken_refund_requests_are_ignored: TakenRefundRequestsAreIgnored breaks [
        "duplicate_refund_request_is_conflict",
    ]
    refund_requests_are_oldest_first: RefundRequestsAreOldestFirst breaks [
        "latest_requests_of_refund_are_read_with_their_errors",
    ]
    refund_pages_ignore_status: RefundPagesIgnoreStatus breaks [
        "refund_pages_filter_by_tenant_and_status",
    ]
    payment_pages_ignore_bound: PaymentPagesIgnoreBound breaks [
        "payment_pages_filter_by_tenant_status_and_bound",
    ]
    taken_references_are_ignored: TakenReferencesAreIgnored breaks [
        "duplicate_payment_reference_is_conflict",
    ]
    taken_captured_transactions_are_ignored: TakenCapturedTransactionsAreIgnored breaks [
        "duplicate_captured_transaction_is_conflict",
        "concurrent_captures_of_transaction_succeed_exactly_once",
    ]
    captures_ignore_case: CapturesIgnoreCase breaks [
        "captured_transactions_are_compared_byte_by_byte",
    ]
    updates_of_missing_captures_are_reported: UpdatesOfMissingCapturesAreReported breaks [
        "update_of_capture_replaces_only_what_becomes_of_the_money",
    ]
    taken_report_keys_are_ignored: TakenReportKeysAreIgnored breaks [
        "duplicate_report_key_is_conflict",
        "concurrent_inserts_of_report_succeed_exactly_once",
    ]
    reports_leak_to_other_tenants: ReportsLeakToOtherTenants breaks [
        "report_pages_filter_by_tenant_and_state",
    ]
    report_ranges_include_end: ReportRangesIncludeEnd breaks [
        "report_pages_include_range_start_and_exclude_end",
    ]
    closed_reports_are_counted: ClosedReportsAreCounted breaks [
        "open_reports_are_counted_up_to_limit",
    ]
    closed_reports_are_closed_again: ClosedReportsAreClosedAgain breaks [
        "only_open_reports_are_closed",
        "concurrent_closings_of_report_succeed_exactly_once",
    ]
    taken_finding_subjects_are_ignored: TakenFindingSubjectsAreIgnored breaks [
        "finding_is_identified_by_tenant_kind_and_subject",
        "concurrent_inserts_of_finding_succeed_exactly_once",
    ]
    findings_leak_to_other_tenants: FindingsLeakToOtherTenants breaks [
        "finding_pages_filter_by_tenant_and_state",
    ]
    findings_without_tenant_have_default_tenant: FindingsWithoutTenantHaveDefaultTenant breaks [
        "finding_is_read_as_written",
        "finding_is_identified_by_tenant_kind_and_subject",
        "finding_pages_filter_by_tenant_and_state",
        "subjects_of_open_findings_are_ordered_by_descending_id",
        "open_findings_are_counted_by_kind",
    ]
    findings_advance_from_any_version: FindingsAdvanceFromAnyVersion breaks [
        "finding_advances_only_from_previous_version",
        "finding_does_not_advance_from_its_version_before_the_erasure",
        "concurrent_changes_of_finding_succeed_exactly_once",
    ]
    acknowledged_findings_are_counted: AcknowledgedFindingsAreCounted breaks [
        "open_findings_are_counted_by_kind",
    ]
    taken_invoice_periods_are_ignored: TakenInvoicePeriodsAreIgnored breaks [
        "second_invoice_of_period_is_conflict",
        "concurrent_invoices_of_period_succeed_exactly_once",
    ]
    invoices_leak_to_other_tenants: InvoicesLeakToOtherTenants breaks [
        "invoice_pages_filter_by_tenant_and_status",
    ]
    only_first_invoice_lines_are_written: OnlyFirstInvoiceLinesAreWritten breaks [
        "invoice_lines_are_paged_by_order",
    ]
    invoiced_orders_are_ignored: InvoicedOrdersAreIgnored breaks [
        "second_invoice_line_of_order_is_conflict",
    ]
    invoices_advance_from_any_version: InvoicesAdvanceFromAnyVersion breaks [
        "invoice_advances_only_from_previous_version",
        "concurrent_changes_of_invoice_succeed_exactly_once",
    ]
    second_payment_of_invoice_is_ignored: SecondPaymentOfInvoiceIsIgnored breaks [
        "second_processing_payment_of_invoice_is_conflict",
    ]
    invoice_payments_leak_to_other_tenants: InvoicePaymentsLeakToOtherTenants breaks [
        "payments_of_invoice_are_complete_and_sorted",
    ]
    tenants_with_orders_are_skipped: TenantsWithOrdersAreSkipped breaks [
        "tenants_with_orders_are_found_in_sequence",
    ]
    completed_orders_include_the_end: CompletedOrdersIncludeTheEnd breaks [
        "completed_orders_are_paged_by_time_and_id",
    ]
    taken_scopes_are_claimed: TakenScopesAreClaimed breaks [
        "claim_of_taken_scope_returns_its_record",
    ]
    locked_scopes_are_claimed: LockedScopesAreClaimed breaks [
        "uncommitted_claim_locks_its_scope",
        "concurrent_request_claims_succeed_exactly_once",
    ]
    responses_start_again: ResponsesStartAgain breaks [
        "stored_responses_are_returned_page_by_page",
    ]
    titles_are_not_erased: TitlesAreNotErased breaks [
        "titles_are_masked_once",
    ]
    order_texts_are_counted_again: OrderTextsAreCountedAgain breaks [
        "texts_of_orders_are_masked_once",
    ]
    finding_reasons_are_not_erased: FindingReasonsAreNotErased breaks [
        "reasons_of_findings_are_masked_once",
        "finding_does_not_advance_from_its_version_before_the_erasure",
    ]
    requests_advance_by_any_token: RequestsAdvanceByAnyToken breaks [
        "request_advances_only_with_its_token",
        "concurrent_request_takeovers_succeed_exactly_once",
    ]
    answered_requests_are_dropped: AnsweredRequestsAreDropped breaks [
        "request_without_response_is_dropped_with_its_token",
    ]
    refunds_are_due_late: RefundsAreDueLate breaks [
        "refund_is_due_at_its_next_attempt_time",
        "due_refunds_are_processing_and_ordered_earliest_first",
    ]
    oldest_refund_is_the_first: OldestRefundIsTheFirst breaks [
        "open_refunds_are_counted_with_the_earliest_creation_in_processing",
        "age_of_retried_refund_counts_from_first_request_of_its_attempt",
    ]
    failed_refunds_are_counted_for_ever: FailedRefundsAreCountedForEver breaks [
        "failed_refund_is_counted_until_another_one_returns_its_money",
        "failed_refund_of_shipped_order_is_counted_only_if_its_money_pays_nothing",
    ]
    coupons_expire_late: CouponsExpireLate breaks [
        "coupon_is_expired_at_its_expiry_time",
    ]
    expired_coupon_pages_restart: ExpiredCouponPagesRestart breaks [
        "expired_coupon_pages_continue_after_the_last_coupon",
    ]
    changed_orders_leak_to_other_tenants: ChangedOrdersLeakToOtherTenants breaks [
        "changed_orders_are_paged_by_time_and_id",
    ]
    products_by_id_leak_to_other_tenants: ProductsByIdLeakToOtherTenants breaks [
        "products_are_found_by_ids_in_tenant",
    ]
    only_first_products_are_found: OnlyFirstProductsAreFound breaks [
        "many_products_are_found_by_ids",
    ]
    newest_products_leak_to_other_tenants: NewestProductsLeakToOtherTenants breaks [
        "newest_products_are_ordered_by_descending_id",
    ]
    listing_changes_of_products_are_sorted_by_order: ListingChangesOfProductsAreSortedByOrder breaks [
        "listing_changes_are_found_by_their_products",
    ]
    drift_is_not_reported: DriftIsNotReported breaks [
        "balance_that_differs_from_entries_is_reported",
        "ledger_is_compared_in_parts",
    ]
    ledger_comparison_ends_early: LedgerComparisonEndsEarly breaks [
        "ledger_is_compared_in_parts",
    ]
}}
