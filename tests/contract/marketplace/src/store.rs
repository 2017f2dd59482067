//! The contract of [`MarketStore`] for the rows of the marketplace: one file per topic.

use std::sync::Arc;

use async_trait::async_trait;
use handover_contract::store::StoreRig;
use handover_contract::within;
use marketplace::ports::{IdKind, MarketStore, MarketView, Work};

pub mod balances;
pub mod captures;
pub mod coupons;
pub mod credit;
pub mod effects;
pub mod failed_statements;
pub mod findings;
pub mod gateway_reports;
pub mod holds;
pub mod ids;
pub mod invoices;
pub mod ledger;
pub mod notifications;
pub mod orders;
pub mod payments;
pub mod personal_texts;
pub mod products;
pub mod races;
pub mod refunds;
pub mod requests;
pub mod rows_of_orders;
pub mod units;

/// A new, empty store of the marketplace under test. Its outbox is the store of [`StoreRig`].
#[async_trait]
pub trait MarketRig: StoreRig {
    /// The store; every call returns the same instance.
    fn market(&self) -> Arc<MarketStore>;

    /// The same database, opened as a restarted process would; `None` if the store is not persistent.
    async fn reopened_market(&self) -> Option<Arc<MarketStore>> {
        None
    }

    /// Changes the id of a row to one outside the range of ids, as if the row was imported with SQL. Returns whether the
    /// store can hold such a row; if not, nothing changes.
    async fn import_row(&self, _kind: IdKind, _id: i64, _imported: i64) -> bool {
        false
    }
}

// The list of all rules: add each rule here, under the name of its file.
handover_contract::rules! { store_rules: MarketRig;
    units: [
        uncommitted_rows_and_events_are_invisible,
        unit_of_work_reads_its_own_rows,
        dropped_unit_of_work_rolls_back_inserts,
        dropped_unit_of_work_rolls_back_updates,
        rows_and_events_of_commit_become_visible_together,
        dropped_commit_is_atomic_for_rows_and_events,
        committed_rows_survive_restart,
    ]
    failed_statements: [
        commit_fails_after_failed_row_write,
        statements_after_failed_row_write_are_not_committed,
        later_units_of_work_succeed_after_failed_row_write,
        advance_that_changes_no_row_does_not_fail_unit_of_work,
    ]
    races: [
        concurrent_product_changes_succeed_exactly_once,
        concurrent_order_changes_succeed_exactly_once,
        concurrent_read_then_change_succeeds_exactly_once,
        concurrent_payment_settlements_succeed_exactly_once,
        concurrent_uses_of_gateway_transaction_succeed_exactly_once,
        concurrent_payments_of_order_succeed_exactly_once,
        concurrent_inserts_of_different_rows_all_succeed,
    ]
    products: [
        product_is_read_as_written,
        duplicate_product_id_is_conflict,
        product_advances_only_from_previous_version,
        advance_of_product_replaces_row,
        product_is_isolated_by_tenant,
        product_pages_are_ordered_by_descending_id,
        product_pages_filter_by_status,
        products_are_found_by_ids_in_tenant,
        many_products_are_found_by_ids,
        newest_products_are_ordered_by_descending_id,
    ]
    orders: [
        order_is_read_as_written,
        duplicate_order_id_is_conflict,
        order_advances_only_from_previous_version,
        order_is_isolated_by_tenant,
        order_is_visible_only_to_its_parties,
        order_pages_filter_by_buyer_or_seller,
        order_pages_filter_by_status,
        order_created_at_deadline_is_overdue,
        overdue_orders_are_pending_and_ordered_oldest_first,
        overdue_order_pages_continue_after_the_last_order,
        order_shipped_at_limit_is_to_be_completed,
        shipped_orders_are_paged_oldest_first,
        orders_are_found_by_ids_in_tenant,
        many_orders_are_found_by_ids,
        changed_orders_include_range_start_and_exclude_end,
        changed_orders_are_paged_by_time_and_id,
        order_is_found_only_at_the_time_of_its_last_change,
    ]
    payments: [
        payment_is_read_as_written,
        duplicate_payment_id_is_conflict,
        duplicate_payment_reference_is_conflict,
        payment_is_found_by_reference_without_tenant,
        payment_is_found_by_gateway_transaction_that_settled_it_last,
        second_processing_payment_of_order_is_conflict,
        payment_is_allowed_after_previous_is_settled,
        unit_of_work_can_settle_payment_and_insert_another,
        processing_payment_is_found_only_in_that_status,
        payment_is_found_by_id_without_tenant,
        payment_advances_only_from_previous_version,
        duplicate_gateway_transaction_is_conflict,
        gateway_transactions_are_compared_byte_by_byte,
        payments_of_order_are_ordered_by_id,
        payment_pages_are_ordered_by_descending_id,
        payment_pages_filter_by_tenant_status_and_bound,
    ]
    captures: [
        capture_is_read_as_written,
        duplicate_capture_number_is_conflict,
        duplicate_captured_transaction_is_conflict,
        captured_transactions_are_compared_byte_by_byte,
        update_of_capture_replaces_only_what_becomes_of_the_money,
        captures_of_order_are_ordered_by_payment_and_number,
        concurrent_captures_of_transaction_succeed_exactly_once,
    ]
    refunds: [
        refund_is_read_as_written,
        duplicate_refund_id_is_conflict,
        duplicate_refund_reference_is_conflict,
        second_refund_of_capture_is_conflict,
        refunds_of_different_captures_do_not_conflict,
        excess_refunds_do_not_conflict,
        refund_is_allowed_after_previous_failed,
        refund_is_found_by_id_without_tenant,
        attempt_is_found_by_current_or_superseded_reference,
        duplicate_superseded_reference_is_conflict,
        latest_requests_of_refund_are_read_with_their_errors,
        duplicate_refund_request_is_conflict,
        refund_pages_are_ordered_by_descending_id,
        refund_pages_filter_by_tenant_and_status,
        refund_advances_only_from_previous_version,
        refunds_of_order_are_ordered_by_id,
        refund_is_due_at_its_next_attempt_time,
        due_refunds_are_processing_and_ordered_earliest_first,
        open_refunds_are_counted_with_the_earliest_creation_in_processing,
        age_of_retried_refund_counts_from_first_request_of_its_attempt,
        failed_refund_is_counted_until_another_one_returns_its_money,
        failed_refund_of_shipped_order_is_counted_only_if_its_money_pays_nothing,
        concurrent_refunds_of_payment_succeed_exactly_once,
        concurrent_refund_settlements_succeed_exactly_once,
    ]
    gateway_reports: [
        report_is_read_as_written,
        duplicate_report_key_is_conflict,
        report_keys_are_compared_byte_by_byte,
        report_pages_are_ordered_by_descending_id,
        report_pages_filter_by_tenant_and_state,
        report_pages_include_range_start_and_exclude_end,
        open_reports_are_counted_up_to_limit,
        reports_of_order_are_ordered_by_id,
        only_open_reports_are_closed,
        concurrent_inserts_of_report_succeed_exactly_once,
        concurrent_closings_of_report_succeed_exactly_once,
    ]
    findings: [
        finding_is_read_as_written,
        finding_is_identified_by_tenant_kind_and_subject,
        finding_advances_only_from_previous_version,
        finding_pages_are_ordered_by_descending_id,
        finding_pages_filter_by_tenant_and_state,
        subjects_of_open_findings_are_ordered_by_descending_id,
        open_findings_are_counted_by_kind,
        concurrent_inserts_of_finding_succeed_exactly_once,
        concurrent_changes_of_finding_succeed_exactly_once,
    ]
    invoices: [
        invoice_is_read_as_written,
        duplicate_invoice_id_is_conflict,
        second_invoice_of_period_is_conflict,
        concurrent_invoices_of_period_succeed_exactly_once,
        invoice_pages_filter_by_tenant_and_status,
        invoice_lines_are_paged_by_order,
        second_invoice_line_of_order_is_conflict,
        tenants_with_orders_are_found_in_sequence,
        completed_orders_are_paged_by_time_and_id,
        order_is_found_as_completed_when_it_was_completed,
        first_invoice_period_is_a_past_or_current_month,
        invoice_advances_only_from_previous_version,
        concurrent_changes_of_invoice_succeed_exactly_once,
        payments_of_invoice_are_complete_and_sorted,
        second_processing_payment_of_invoice_is_conflict,
    ]
    rows_of_orders: [
        rows_of_many_orders_are_ordered_by_order,
    ]
    personal_texts: [
        titles_are_masked_once,
        texts_of_orders_are_masked_once,
        reasons_of_findings_are_masked_once,
        finding_does_not_advance_from_its_version_before_the_erasure,
        reason_of_refund_stays_masked_after_a_later_change,
        stored_responses_are_returned_page_by_page,
    ]
    requests: [
        request_is_read_as_written,
        claim_of_taken_scope_returns_its_record,
        idempotency_keys_are_compared_byte_by_byte,
        request_advances_only_with_its_token,
        request_without_response_is_dropped_with_its_token,
        expired_requests_are_removed_earliest_first,
        uncommitted_claim_locks_its_scope,
        concurrent_request_claims_succeed_exactly_once,
        concurrent_request_takeovers_succeed_exactly_once,
    ]
    coupons: [
        coupon_is_read_as_written,
        duplicate_coupon_id_is_conflict,
        coupon_advances_only_from_previous_version,
        coupon_is_isolated_by_tenant,
        coupon_pages_are_ordered_by_descending_id,
        coupon_is_expired_at_its_expiry_time,
        expired_coupons_are_available_and_ordered_earliest_first,
        expired_coupon_pages_continue_after_the_last_coupon,
        concurrent_coupon_changes_succeed_exactly_once,
    ]
    holds: [
        hold_is_read_as_written,
        holds_of_order_are_ordered_by_asset,
        existing_hold_is_conflict,
        hold_with_unexpected_version_is_conflict,
        batch_may_insert_and_replace_holds,
        large_batch_of_holds_is_written_completely,
        holds_are_isolated_by_tenant,
        lock_returns_the_requested_holds,
        query_for_holds_of_user_returns_frozen_holds_ordered_by_order_id,
        frozen_hold_created_exactly_at_the_given_time_is_included,
        frozen_holds_are_ordered_by_time_order_and_asset,
        frozen_hold_pages_continue_after_the_last_hold,
        concurrent_hold_updates_are_not_lost,
        concurrent_hold_inserts_succeed_exactly_once,
        concurrent_hold_endings_succeed_exactly_once,
    ]
    balances: [
        balance_is_read_as_written,
        balance_does_not_exist_before_first_change,
        lock_returns_each_balance_once,
        balance_accepts_any_later_version,
        negative_balance_is_refused,
        balances_are_isolated_by_tenant_and_purse,
        large_batch_of_balances_is_written_completely,
        concurrent_updates_of_one_balance_are_not_lost,
        concurrent_balance_locks_in_different_sequences_succeed,
    ]
    ledger: [
        operation_is_read_as_written,
        operations_are_found_by_their_keys,
        operation_keys_are_compared_byte_by_byte,
        duplicate_operation_key_is_conflict,
        operations_are_isolated_by_tenant,
        operations_of_order_are_in_posting_order,
        unbalanced_entries_are_refused,
        entries_are_read_with_their_operation,
        entries_are_found_by_the_keys_of_their_operations,
        second_entry_of_account_for_key_is_conflict,
        entry_pages_are_ordered_by_descending_id,
        account_totals_are_per_tenant,
        consistent_ledger_has_no_discrepancies,
        ledger_is_compared_in_parts,
        balance_that_differs_from_entries_is_reported,
        large_batch_of_operations_is_posted_completely,
        concurrent_postings_of_one_key_succeed_exactly_once,
    ]
    effects: [
        listing_changes_are_read_in_order_of_application,
        second_listing_change_of_fact_is_conflict,
        shipment_tasks_are_read_as_written,
        second_shipment_task_of_order_is_conflict,
        effects_are_found_by_their_orders,
        effects_without_an_order_are_found,
        listing_changes_are_found_by_their_products,
        occupied_product_is_assigned_to_its_order,
        released_product_is_free,
        late_release_does_not_change_listing,
        listing_changes_of_one_call_are_applied_in_order,
        listing_is_independent_of_order_of_changes,
        concurrent_listing_changes_are_not_lost,
        effects_are_isolated_by_tenant_and_seller,
        listing_pages_are_ordered_by_descending_product,
        shipment_pages_filter_by_seller_or_buyer,
        shipment_pages_filter_by_state_of_order,
    ]
    notifications: [
        notifications_are_read_in_order_written,
        second_notification_of_fact_is_conflict,
        notification_pages_are_ordered_newest_first,
        notifications_are_isolated_by_tenant,
    ]
    credit: [
        credit_changes_are_read_in_order_of_application,
        second_credit_change_of_fact_is_conflict,
        credit_is_counted_per_kind_and_buyer,
        score_depends_only_on_counts,
        large_batch_of_credit_is_counted_completely,
        credit_is_isolated_by_tenant,
        concurrent_credit_changes_are_not_lost,
    ]
    ids: [
        first_id_is_one,
        block_starts_after_previous_block,
        blocks_of_one_unit_of_work_do_not_overlap,
        no_id_is_reserved_twice_after_dropped_unit_of_work,
        concurrent_blocks_do_not_overlap,
        raised_block_starts_at_or_above_given_id,
        id_state_reports_next_and_largest_id,
        id_is_taken_by_row_of_any_tenant,
        block_beyond_largest_id_is_refused_by_name,
        raise_beyond_largest_id_is_refused_by_name,
        imported_row_outside_range_moves_no_counter,
        imported_row_outside_range_is_on_no_page,
    ]
}

async fn begin(rig: &dyn MarketRig) -> Box<Work> {
    within("begin", rig.market().begin()).await.expect("cannot begin a unit of work")
}

async fn view(rig: &dyn MarketRig) -> Box<dyn MarketView> {
    within("view", rig.market().view()).await.expect("cannot open a view")
}

/// Runs statements in one unit of work and commits it.
macro_rules! in_unit {
    ($rig:expr, |$unit:ident| $($body:tt)*) => {{
        let mut $unit = $crate::store::begin($rig).await;
        let result = { $($body)* };
        handover_contract::work::commit($unit).await;
        result
    }};
}
pub(crate) use in_unit;
