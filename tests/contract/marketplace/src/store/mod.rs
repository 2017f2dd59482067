//! The contract of [`MarketStore`] for the rows of the marketplace: one file per port.

use std::sync::Arc;

use async_trait::async_trait;
use handover_contract::store::StoreRig;
use handover_contract::within;
use marketplace::ports::{MarketStore, MarketView, Work};

pub mod balances;
pub mod coupons;
pub mod credit;
pub mod effects;
pub mod failing;
pub mod holds;
pub mod ids;
pub mod ledger;
pub mod notifications;
pub mod orders;
pub mod payments;
pub mod products;
pub mod races;
pub mod refunds;
pub mod requests;
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
}

// The list of all rules: add each rule here, under the name of its file.
handover_contract::rules! { store_rules: MarketRig;
    units: [
        rows_and_events_are_invisible_until_their_unit_is_committed,
        a_unit_reads_its_own_rows,
        a_dropped_unit_undoes_rows_and_events,
        a_dropped_unit_undoes_its_changes_of_rows,
        rows_and_events_of_a_commit_are_seen_together,
        a_commit_cut_at_any_point_keeps_rows_and_events_together,
        committed_rows_survive_a_restart,
    ]
    failing: [
        after_a_failed_write_of_a_row_nothing_can_be_committed,
        statements_after_a_failed_write_of_a_row_are_lost_as_well,
        a_failed_write_of_a_row_leaves_later_units_working,
        an_advance_that_changes_nothing_is_no_failure,
    ]
    races: [
        of_units_that_change_one_product_exactly_one_does,
        of_units_that_change_one_order_exactly_one_does,
        of_units_that_read_and_then_change_exactly_one_does,
        of_units_that_settle_one_payment_exactly_one_does,
        of_payments_that_claim_one_gateway_transaction_one_gets_it,
        of_payments_started_at_once_for_one_order_one_is,
        units_that_add_different_orders_all_succeed,
    ]
    products: [
        a_product_is_read_back_as_it_was_written,
        a_taken_product_id_is_a_conflict,
        a_product_advances_from_the_version_before_only,
        advancing_a_product_replaces_its_row,
        a_product_is_one_tenants,
        pages_of_products_run_from_the_greatest_id_down,
        pages_of_products_can_be_of_one_status,
    ]
    orders: [
        an_order_is_read_back_as_it_was_written,
        a_taken_order_id_is_a_conflict,
        an_order_advances_from_the_version_before_only,
        an_order_is_one_tenants,
        an_order_is_its_partys,
        pages_of_orders_are_of_one_user_on_one_side,
        pages_of_orders_can_be_of_one_status,
        an_order_created_at_the_deadline_is_overdue,
        overdue_orders_are_pending_and_come_oldest_first,
        orders_are_found_by_their_ids_in_one_tenant,
        a_great_many_orders_are_found_by_their_ids,
        orders_changed_in_a_time_take_its_first_moment_and_leave_out_its_last,
        orders_changed_come_by_time_and_id_page_by_page,
        an_order_is_found_at_its_last_change,
    ]
    payments: [
        a_payment_is_read_back_as_it_was_written,
        a_taken_payment_id_is_a_conflict,
        a_second_payment_in_processing_for_an_order_is_a_conflict,
        a_settled_payment_makes_room_for_another,
        one_unit_may_settle_a_payment_and_begin_another,
        the_payment_in_processing_is_found_while_it_is,
        a_payment_is_found_by_its_id_in_any_tenant,
        a_payment_advances_from_the_version_before_only,
        a_gateway_transaction_of_another_payment_is_a_conflict,
        gateway_transactions_are_compared_byte_by_byte,
        the_payments_of_an_order_come_in_the_order_of_ids,
    ]
    refunds: [
        a_refund_is_read_back_as_it_was_written,
        a_taken_refund_id_is_a_conflict,
        a_second_refund_of_a_payment_is_a_conflict,
        a_failed_refund_makes_room_for_another,
        a_refund_is_found_by_its_id_in_any_tenant,
        a_refund_advances_from_the_version_before_only,
        the_refunds_of_an_order_come_in_the_order_of_ids,
        a_refund_is_due_at_its_time_and_not_before,
        due_refunds_are_processing_and_come_earliest_first,
        of_units_that_insert_a_refund_of_one_payment_exactly_one_does,
        of_units_that_settle_one_refund_exactly_one_does,
    ]
    requests: [
        a_request_is_read_back_as_it_was_written,
        a_taken_scope_is_a_conflict,
        idempotency_keys_are_compared_byte_by_byte,
        a_request_advances_by_its_token_only,
        a_request_is_dropped_by_its_token_until_it_is_answered,
        expired_requests_are_swept_the_longest_expired_first,
        of_units_that_add_one_request_exactly_one_does,
        of_units_that_take_over_one_request_exactly_one_does,
    ]
    coupons: [
        a_coupon_is_read_back_as_it_was_written,
        a_taken_coupon_id_is_a_conflict,
        a_coupon_advances_from_the_version_before_only,
        a_coupon_is_one_tenants,
        pages_of_coupons_run_from_the_greatest_id_down,
        a_coupon_that_ends_at_the_moment_is_expired,
        expired_coupons_are_available_and_come_earliest_first,
        of_units_that_change_one_coupon_exactly_one_does,
    ]
    holds: [
        a_hold_is_read_back_as_it_was_written,
        the_holds_of_an_order_come_in_the_order_of_assets,
        a_hold_that_is_there_already_is_a_conflict,
        a_hold_that_is_not_as_expected_is_a_conflict,
        a_batch_may_add_holds_and_replace_others,
        a_great_batch_of_holds_is_written_whole,
        holds_are_one_tenants,
        locked_holds_are_those_asked_for,
        the_holds_of_a_user_are_frozen_and_come_in_the_order_of_orders,
        a_hold_made_at_the_moment_counts_as_made_by_then,
        frozen_holds_come_by_time_order_and_asset,
        pages_of_frozen_holds_go_on_after_the_last,
        of_units_that_lock_one_hold_none_is_lost,
        of_units_that_add_one_hold_exactly_one_does,
        of_units_that_end_one_hold_exactly_one_does,
    ]
    balances: [
        a_balance_is_read_back_as_it_was_written,
        a_balance_is_not_there_before_its_first_change,
        locked_balances_are_each_there_once,
        a_balance_is_written_any_number_of_versions_later,
        a_negative_balance_is_refused,
        balances_are_one_tenants_and_of_one_purse,
        a_great_batch_of_balances_is_written_whole,
        of_units_that_lock_one_balance_none_is_lost,
        of_units_that_lock_balances_in_any_order_none_is_lost,
    ]
    ledger: [
        an_operation_is_read_back_as_it_was_written,
        operations_are_found_by_their_keys,
        operation_keys_are_compared_byte_by_byte,
        a_taken_operation_key_is_a_conflict,
        operations_are_one_tenants,
        the_operations_of_an_order_come_in_the_order_of_posting,
        entries_that_do_not_balance_are_refused,
        entries_are_read_back_with_their_operation,
        entries_are_found_by_the_keys_of_their_operations,
        a_second_entry_of_an_account_under_one_key_is_a_conflict,
        pages_of_entries_run_from_the_greatest_number_down,
        accounts_are_added_up_for_each_tenant,
        a_sound_ledger_has_no_flaws,
        a_balance_that_its_entries_do_not_say_is_a_flaw,
        a_great_batch_of_operations_is_posted_whole,
        of_units_that_post_one_key_exactly_one_does,
    ]
    effects: [
        listing_changes_are_read_back_in_the_order_applied,
        a_second_listing_change_of_the_same_fact_conflicts,
        shipment_tasks_are_read_back_as_they_were_opened,
        a_second_shipment_task_of_an_order_conflicts,
        effects_are_found_by_their_orders,
        effects_without_an_order_are_found,
        an_occupied_product_is_taken_by_its_order,
        a_released_product_is_free,
        a_release_by_an_order_that_has_it_no_more_changes_nothing,
        changes_of_one_call_are_applied_in_the_order_given,
        a_listing_ends_the_same_in_whatever_order_its_changes_come,
        of_units_that_change_one_listing_every_change_counts,
        effects_are_one_tenants_and_one_sellers,
        pages_of_listings_run_from_the_greatest_product_down,
        pages_of_shipments_are_of_one_user_on_one_side,
    ]
    notifications: [
        notifications_are_read_back_in_the_order_written,
        a_second_notification_of_the_same_fact_conflicts,
        pages_of_notifications_run_from_the_newest_down,
        notifications_are_one_tenants,
    ]
    credit: [
        credit_changes_are_read_back_in_the_order_applied,
        a_second_credit_change_of_the_same_fact_conflicts,
        credit_is_counted_by_kind_for_each_buyer,
        the_score_follows_from_the_counts_alone,
        a_great_batch_of_credit_is_counted_whole,
        credit_is_one_tenants,
        of_units_that_count_for_one_buyer_none_is_lost,
    ]
    ids: [
        the_first_id_of_all_is_one,
        a_block_begins_after_the_last_of_the_one_before,
        blocks_of_one_unit_do_not_overlap,
        a_dropped_unit_hands_out_nothing_twice,
        blocks_taken_at_once_do_not_overlap,
        a_raised_block_begins_there_or_above_and_never_lower,
        the_ids_of_a_kind_stand_where_blocks_and_rows_say,
        an_id_is_taken_by_a_row_of_any_tenant,
    ]
}

/// Begins a unit of work.
async fn begin(rig: &dyn MarketRig) -> Box<Work> {
    within("begin", rig.market().begin()).await.expect("a unit of work begins")
}

/// Opens a view.
async fn view(rig: &dyn MarketRig) -> Box<dyn MarketView> {
    within("view", rig.market().view()).await.expect("a view opens")
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
