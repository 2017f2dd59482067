//! The contract suite, tested: a sound adapter passes every rule, and one that breaks a single promise fails exactly
//! the rules that state it.
//!
//! A flaw that no rule notices is a promise that nothing checks. Add a flaw with its rules when a rule is added.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test outside any process of the application"
)]

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::Once;

use handover_tests::contract::{broker, keys, limiter, store};
use handover_tests::flawed::broker::{Flaw as BrokerFlaw, FlawedBrokerRig};
use handover_tests::flawed::keys::{Flaw as KeysFlaw, FlawedKeysRig};
use handover_tests::flawed::limiter::{Flaw as LimiterFlaw, FlawedLimiterRig};
use handover_tests::flawed::store::{Flaw as StoreFlaw, FlawedStoreRig};
use tokio::task::JoinSet;

/// Each test has a runtime of its own; what its workers panic with is what they are for.
fn in_silence<T>(work: impl Future<Output = T>) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().name() != Some("broken rule") {
                usual(panic);
            }
        }));
    });
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime =
        builder.worker_threads(2).thread_name("broken rule").enable_all().build().expect("a runtime");
    let out = runtime.block_on(work);
    runtime.shutdown_background();
    out
}

async fn broken(rules: Vec<(String, impl Future<Output = ()> + Send + 'static)>) -> BTreeSet<String> {
    let mut running = JoinSet::new();
    let mut names = std::collections::HashMap::new();
    for (name, rule) in rules {
        names.insert(running.spawn(rule).id(), name);
    }
    let mut broken = BTreeSet::new();
    while let Some(ended) = running.join_next_with_id().await {
        if let Err(error) = ended {
            broken.insert(names[&error.id()].clone());
        }
    }
    broken
}

fn broken_by_store(flaw: StoreFlaw) -> BTreeSet<String> {
    let run = |rule: &store::StoreRule| {
        let rule = *rule;
        (rule.name.to_owned(), async move { (rule.run)(&FlawedStoreRig::new(flaw)).await })
    };
    in_silence(async { broken(store::RULES.iter().map(run).collect()).await })
}

fn broken_by_broker(flaw: BrokerFlaw) -> BTreeSet<String> {
    let run = |rule: &broker::BrokerRule| {
        let rule = *rule;
        (rule.name.to_owned(), async move { (rule.run)(&FlawedBrokerRig::new(flaw)).await })
    };
    in_silence(async { broken(broker::RULES.iter().map(run).collect()).await })
}

fn broken_by_limiter(flaw: LimiterFlaw) -> BTreeSet<String> {
    let run = |rule: &limiter::LimiterRule| {
        let rule = *rule;
        (rule.name.to_owned(), async move { (rule.run)(&FlawedLimiterRig::new(flaw)).await })
    };
    in_silence(async { broken(limiter::RULES.iter().map(run).collect()).await })
}

fn broken_by_keys(flaw: KeysFlaw) -> BTreeSet<String> {
    let run = |rule: &keys::KeysRule| {
        let rule = *rule;
        (rule.name.to_owned(), async move { (rule.run)(&FlawedKeysRig::new(flaw)).await })
    };
    in_silence(async { broken(keys::RULES.iter().map(run).collect()).await })
}

#[track_caller]
fn fails(broken: &BTreeSet<String>, expected: &[&str]) {
    let expected: BTreeSet<_> = expected.iter().map(|name| (*name).to_owned()).collect();
    let unnoticed: Vec<_> = expected.difference(broken).collect();
    let falsely: Vec<_> = broken.difference(&expected).collect();
    assert!(
        unnoticed.is_empty() && falsely.is_empty(),
        "unnoticed: {unnoticed:#?}\nfalsely accused: {falsely:#?}"
    );
}

macro_rules! flaws {
    ($run:ident($flaws:ident) { $($test:ident: $flaw:ident breaks [$($rule:literal),* $(,)?])* }) => {
        $(#[test]
        fn $test() {
            fails(&$run($flaws::$flaw), &[$($rule),*]);
        })*
    };
}

#[test]
fn every_rule_that_is_written_is_in_the_list_and_has_a_name_of_its_own() {
    let listed: Vec<(&str, &str, &str)> = (store::RULES.iter().map(|rule| ("store", rule.file, rule.name)))
        .chain(broker::RULES.iter().map(|rule| ("broker", rule.file, rule.name)))
        .chain(limiter::RULES.iter().map(|rule| ("limiter", rule.file, rule.name)))
        .chain(keys::RULES.iter().map(|rule| ("keys", rule.file, rule.name)))
        .collect();
    let mut written = BTreeSet::new();
    for port in ["store", "broker", "limiter", "keys"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/contract").join(port);
        for entry in fs::read_dir(folder).expect("the rules are there") {
            let path = entry.expect("a file").path();
            let file = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
            for line in fs::read_to_string(&path).expect("a source file").lines() {
                if let Some(rest) = line.strip_prefix("pub async fn ") {
                    let name = rest.split('(').next().unwrap_or(rest).to_owned();
                    assert!(written.insert((port, file.clone(), name.clone())), "{name} is written twice");
                }
            }
        }
    }
    let listed: BTreeSet<_> =
        listed.into_iter().map(|(port, file, name)| (port, file.to_owned(), name.to_owned())).collect();
    assert_eq!(listed, written);
}

flaws! { broken_by_store(StoreFlaw) {
    a_sound_store_breaks_no_rule: None breaks []
    events_are_appended_after_the_commit: EventsAreAppendedAfterTheCommit breaks [
        "a_commit_cut_at_any_point_happened_whole_or_not_at_all",
        "a_commit_is_seen_whole",
        "a_commit_that_redrove_rows_rings_for_their_partitions",
        "a_commit_that_released_an_aggregate_rings_for_its_partition",
        "a_failed_unit_leaves_later_units_working",
        "a_taken_event_id_is_a_conflict",
        "a_unit_reads_its_own_writes",
        "a_unit_that_is_not_committed_rings_nobody",
        "after_a_failed_statement_nothing_can_be_committed",
        "of_units_that_redrive_one_row_exactly_one_does",
        "of_units_that_release_one_aggregate_exactly_one_does",
        "statements_after_a_failed_one_are_lost_as_well",
    ]
    append_keeps_the_first_hundred_only: AppendKeepsTheFirstHundredOnly breaks [
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
    retries_are_cut_to_milliseconds: RetriesAreCutToMilliseconds breaks [
        "a_failed_publish_leaves_its_mark",
        "a_retry_is_due_at_its_time_and_not_before",
        "the_next_due_time_counts_pending_rows_of_the_partitions_only",
        "the_next_due_time_is_the_earliest_after_now",
    ]
    insert_ignores_taken_ids: InsertIgnoresTakenIds breaks [
        "a_failed_unit_leaves_later_units_working",
        "a_taken_product_id_is_a_conflict",
        "after_a_failed_statement_nothing_can_be_committed",
        "statements_after_a_failed_one_are_lost_as_well",
    ]
    second_payment_in_processing_is_ignored: SecondPaymentInProcessingIsIgnored breaks [
        "a_failed_unit_leaves_later_units_working",
        "a_second_payment_in_processing_for_an_order_is_a_conflict",
        "after_a_failed_statement_nothing_can_be_committed",
        "of_payments_started_at_once_for_one_order_one_is",
        "statements_after_a_failed_one_are_lost_as_well",
        "one_unit_may_settle_a_payment_and_begin_another",
    ]
    titles_are_trimmed: TitlesAreTrimmed breaks [
        "a_product_is_read_back_as_it_was_written",
    ]
    orders_leak_to_other_tenants: OrdersLeakToOtherTenants breaks [
        "an_order_is_one_tenants",
    ]
    pages_repeat_their_last_row: PagesRepeatTheirLastRow breaks [
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
    overdue_leaves_out_the_deadline: OverdueLeavesOutTheDeadline breaks [
        "an_order_created_at_the_deadline_is_overdue",
    ]
    updates_ignore_the_version: UpdatesIgnoreTheVersion breaks [
        "an_order_advances_from_the_version_before_only",
        "of_units_that_change_one_order_exactly_one_does",
        "of_units_that_read_and_then_change_exactly_one_does",
    ]
    due_ignores_held_rows: DueIgnoresHeldRows breaks [
        "a_failed_row_does_not_hold_back_earlier_ones",
        "a_failed_row_holds_back_later_ones_only_under_hold",
        "a_redriven_row_can_be_settled_again",
        "a_redriven_row_is_due_at_its_time_and_not_before",
        "a_release_lets_later_events_pass_for_good",
        "a_row_that_waits_does_not_hold_back_earlier_ones",
        "a_row_that_waits_for_its_retry_holds_back_its_own_aggregate_only",
        "an_earlier_sequence_number_holds_back_a_smaller_id",
        "an_order_timeout_is_never_held_back",
        "an_unknown_type_is_ordered_like_any_other",
        "of_rows_with_one_sequence_number_the_smaller_id_is_the_earlier",
        "rows_that_are_held_back_do_not_count_against_the_limit",
        "what_fails_after_a_release_holds_again",
    ]
    due_counts_held_rows_against_the_limit: DueCountsHeldRowsAgainstTheLimit breaks [
        "rows_that_are_held_back_do_not_count_against_the_limit",
    ]
    next_due_is_not_after_now: NextDueIsNotAfterNow breaks [
        "a_redriven_row_is_due_at_its_time_and_not_before",
        "the_next_due_time_is_the_earliest_after_now",
    ]
    sent_moves_failed_rows: SentMovesFailedRows breaks [
        "a_confirm_moves_no_row_that_is_settled",
    ]
    the_fence_says_yes: TheFenceSaysYes breaks [
        "the_fence_refuses_a_hold_that_was_lost_in_between",
        "the_fence_refuses_what_is_not_held",
    ]
    record_ignores_what_is_expected: RecordIgnoresWhatIsExpected breaks [
        "a_batch_that_names_an_event_twice_is_a_conflict",
        "a_conflict_says_what_is_in_the_way",
        "a_failed_unit_leaves_later_units_working",
        "a_row_expected_to_be_absent_conflicts_with_one_that_is_there",
        "a_row_that_is_not_where_it_is_expected_is_a_conflict",
        "after_a_failed_statement_nothing_can_be_committed",
        "of_workers_that_record_one_event_first_exactly_one_does",
        "of_workers_that_try_one_event_again_exactly_one_does",
        "one_conflict_undoes_the_whole_unit",
        "statements_after_a_failed_one_are_lost_as_well",
    ]
    unapplied_forgets_failed: UnappliedForgetsFailed breaks [
        "an_unapplied_event_comes_with_its_rows",
        "what_is_not_settled_is_unapplied",
    ]
    effects_are_deduplicated: EffectsAreDeduplicated breaks [
        "a_listing_change_applied_twice_shows_twice",
    ]
    releases_that_come_first_are_forgotten: ReleasesThatComeFirstAreForgotten breaks [
        "a_listing_ends_the_same_in_whatever_order_its_changes_come",
        "listing_changes_are_read_back_in_the_order_applied",
    ]
    notifications_are_deduplicated: NotificationsAreDeduplicated breaks [
        "notifications_are_read_back_in_the_order_written_and_show_twice",
    ]
    notifications_leak_to_other_tenants: NotificationsLeakToOtherTenants breaks [
        "notifications_are_one_tenants",
    ]
    credit_is_counted_once_per_event: CreditIsCountedOncePerEvent breaks [
        "credit_changes_are_read_back_in_the_order_applied_and_show_twice",
        "the_score_follows_from_the_counts_alone",
    ]
    credit_is_counted_from_an_old_read: CreditIsCountedFromAnOldRead breaks [
        "of_units_that_count_for_one_buyer_none_is_lost",
    ]
    credit_leaks_to_other_tenants: CreditLeaksToOtherTenants breaks [
        "credit_is_one_tenants",
    ]
    scores_have_no_upper_limit: ScoresHaveNoUpperLimit breaks [
        "the_score_follows_from_the_counts_alone",
    ]
    id_blocks_overlap: IdBlocksOverlap breaks [
        "a_block_begins_after_the_last_of_the_one_before",
        "a_dropped_unit_hands_out_nothing_twice",
        "blocks_of_one_unit_do_not_overlap",
        "blocks_taken_at_once_do_not_overlap",
    ]
    forgotten_relays_live_on: ForgottenRelaysLiveOn breaks [
        "a_relay_that_ends_is_forgotten",
    ]
    ended_leases_are_not_renewed: EndedLeasesAreNotRenewed breaks [
        "a_lease_that_nobody_took_is_renewed_after_its_end",
        "only_ones_own_leases_are_renewed_and_told",
    ]
    commit_reports_success_after_a_failure: CommitReportsSuccessAfterAFailure breaks [
        "a_batch_that_names_an_event_twice_is_a_conflict",
        "a_row_expected_to_be_absent_conflicts_with_one_that_is_there",
        "a_row_that_is_not_where_it_is_expected_is_a_conflict",
        "a_unit_that_is_not_committed_rings_nobody",
        "after_a_failed_statement_nothing_can_be_committed",
        "one_conflict_undoes_the_whole_unit",
        "statements_after_a_failed_one_are_lost_as_well",
    ]
    commit_rings_nobody: CommitRingsNobody breaks [
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
        "a_unit_cut_in_the_middle_of_a_statement_is_undone",
        "a_unit_that_is_not_committed_rings_nobody",
        "an_audit_entry_is_part_of_its_unit",
        "dropped_units_leave_later_units_working",
        "units_side_by_side_do_not_see_each_other",
    ]
    products_are_written_outside_the_unit: ProductsAreWrittenOutsideTheUnit breaks [
        "a_commit_cut_at_any_point_happened_whole_or_not_at_all",
        "a_commit_is_seen_whole",
        "a_dropped_unit_undoes_everything",
        "a_unit_cut_in_the_middle_of_a_statement_is_undone",
        "after_a_failed_statement_nothing_can_be_committed",
        "dropped_units_leave_later_units_working",
        "statements_after_a_failed_one_are_lost_as_well",
        "units_side_by_side_do_not_see_each_other",
        "what_a_unit_writes_is_invisible_until_it_is_committed",
    ]
    a_cut_begin_swallows_the_next_unit: ACutBeginSwallowsTheNextUnit breaks [
        "a_begin_cut_at_any_point_leaves_later_units_working",
        "begins_that_are_cut_use_nothing_up",
    ]
    payments_come_by_time: PaymentsComeByTime breaks [
        "the_payments_of_an_order_come_in_the_order_of_ids",
    ]
    rows_about_aggregates_come_by_id: RowsAboutAggregatesComeById breaks [
        "rows_about_aggregates_come_by_aggregate_sequence_and_id",
    ]
    blocked_leaks_to_other_tenants: BlockedLeaksToOtherTenants breaks [
        "blocked_aggregates_are_one_tenants",
    ]
    blocked_counts_everything_pending: BlockedCountsEverythingPending breaks [
        "an_aggregate_is_blocked_by_its_first_failed_event",
        "what_waits_behind_a_failed_event_is_counted",
    ]
    counts_are_of_all_tenants: CountsAreOfAllTenants breaks [
        "rows_are_counted_for_one_tenant_or_all",
        "rows_of_the_log_are_counted_by_consumer_and_status",
        "undecided_dead_letters_are_open_or_being_replayed",
    ]
    redrive_moves_new_rows: RedriveMovesNewRows breaks [
        "a_redrive_moves_no_row_that_is_on_its_way",
    ]
    redrive_keeps_the_attempts: RedriveKeepsTheAttempts breaks [
        "a_redriven_row_has_all_its_attempts_again",
    ]
    redrives_and_releases_ring_nobody: RedrivesAndReleasesRingNobody breaks [
        "a_commit_that_redrove_rows_rings_for_their_partitions",
        "a_commit_that_released_an_aggregate_rings_for_its_partition",
    ]
    release_reaches_other_tenants: ReleaseReachesOtherTenants breaks [
        "a_release_is_of_one_aggregate",
    ]
    log_pages_ignore_the_tenant: LogPagesIgnoreTheTenant breaks [
        "every_part_of_a_filter_narrows_the_page_of_the_log",
    ]
    rows_of_events_come_by_consumer: RowsOfEventsComeByConsumer breaks [
        "rows_of_events_come_in_the_order_in_which_they_were_first_written",
    ]
    dead_letter_pages_ignore_the_status: DeadLetterPagesIgnoreTheStatus breaks [
        "every_part_of_a_filter_narrows_the_page_of_dead_letters",
    ]
    dead_letters_of_a_key_are_of_one_queue: DeadLettersOfAKeyAreOfOneQueue breaks [
        "dead_letters_under_keys_come_in_the_order_in_which_they_were_parked",
    ]
    park_leaves_what_is_being_replayed: ParkLeavesWhatIsBeingReplayed breaks [
        "a_dead_letter_that_is_being_replayed_is_opened_again",
    ]
    decide_ignores_where_it_stands: DecideIgnoresWhereItStands breaks [
        "a_decision_holds_only_where_the_letter_stands_where_it_says",
        "of_units_that_decide_about_one_dead_letter_exactly_one_does",
    ]
    decide_forgets_the_note: DecideForgetsTheNote breaks [
        "a_decision_without_a_note_leaves_the_one_before",
    ]
    audit_shows_looks_among_changes: AuditShowsLooksAmongChanges breaks [
        "changes_are_found_among_looks",
    ]
    audit_leaks_to_other_tenants: AuditLeaksToOtherTenants breaks [
        "the_audit_log_is_one_tenants",
    ]
    audit_is_written_outside_the_unit: AuditIsWrittenOutsideTheUnit breaks [
        "an_audit_entry_is_part_of_its_unit",
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
    balances_are_locked_too_late: BalancesAreLockedTooLate breaks [
        "of_units_that_lock_balances_in_any_order_none_is_lost",
        "of_units_that_lock_one_balance_none_is_lost",
    ]
    negative_balances_are_ignored: NegativeBalancesAreIgnored breaks [
        "a_negative_balance_is_refused",
    ]
    balances_leak_to_other_tenants: BalancesLeakToOtherTenants breaks [
        "balances_are_one_tenants_and_of_one_purse",
    ]
    frozen_pages_begin_again: FrozenPagesBeginAgain breaks [
        "pages_of_frozen_holds_go_on_after_the_last",
    ]
    holds_are_written_over_others: HoldsAreWrittenOverOthers breaks [
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
    refunds_are_due_too_late: RefundsAreDueTooLate breaks [
        "a_refund_is_due_at_its_time_and_not_before",
        "due_refunds_are_processing_and_come_earliest_first",
    ]
    coupons_expire_too_late: CouponsExpireTooLate breaks [
        "a_coupon_that_ends_at_the_moment_is_expired",
    ]
    changed_orders_leak_to_other_tenants: ChangedOrdersLeakToOtherTenants breaks [
        "orders_changed_come_by_time_and_id_page_by_page",
    ]
    drift_is_not_noticed: DriftIsNotNoticed breaks [
        "a_balance_that_its_entries_do_not_say_is_a_flaw",
    ]
}}

flaws! { broken_by_broker(BrokerFlaw) {
    a_sound_broker_breaks_no_rule: None breaks []
    unroutable_is_confirmed: UnroutableIsConfirmed breaks [
        "a_message_that_no_queue_takes_is_returned",
        "a_queue_without_bindings_gets_nothing",
        "of_a_window_only_what_no_queue_takes_is_returned",
    ]
    returns_are_attached_to_a_neighbour: ReturnsAreAttachedToANeighbour breaks [
        "a_message_for_a_queue_that_is_not_there_is_returned",
        "of_a_window_only_what_no_queue_takes_is_returned",
    ]
    long_windows_lose_their_order: LongWindowsLoseTheirOrder breaks [
        "messages_come_in_the_order_of_the_queue",
        "messages_enter_a_queue_in_the_order_of_their_window",
        "messages_for_one_queue_keep_their_place_in_the_window",
    ]
    headers_are_lost: HeadersAreLost breaks [
        "a_message_arrives_as_it_was_published",
        "a_message_for_one_queue_reaches_it_alone",
        "a_message_is_routed_on_when_it_expires_and_not_before",
    ]
    keys_ignore_case: KeysIgnoreCase breaks [
        "a_plain_binding_takes_its_own_key_only",
    ]
    a_star_takes_any_number_of_words: AStarTakesAnyNumberOfWords breaks [
        "a_star_and_a_hash_stand_for_at_least_one_word",
        "a_star_stands_for_exactly_one_word",
        "a_star_stands_in_any_place",
    ]
    prefetch_is_ignored: PrefetchIsIgnored breaks [
        "a_closed_subscription_returns_what_it_had",
        "a_dropped_subscription_returns_what_it_had",
        "a_full_consumer_goes_on_once_something_is_settled",
        "a_message_is_counted_where_it_is",
        "a_refused_declaration_deletes_nothing",
        "a_rejected_message_makes_room",
        "a_requeued_message_comes_before_those_behind_it",
        "both_consumers_get_their_share",
        "messages_requeued_together_keep_their_order",
        "no_more_are_unsettled_than_the_prefetch_allows",
        "other_subscriptions_live_on",
        "the_same_declared_again_changes_nothing",
    ]
    requeued_is_lost: RequeuedIsLost breaks [
        "a_message_is_counted_where_it_is",
        "a_redelivered_message_dies_like_any_other",
        "a_requeued_message_comes_again_marked",
        "a_requeued_message_comes_before_those_behind_it",
        "a_requeued_message_may_come_to_another_consumer",
        "messages_requeued_together_keep_their_order",
    ]
    requeued_goes_unmarked: RequeuedGoesUnmarked breaks [
        "a_closed_subscription_returns_what_it_had",
        "a_consumer_that_waits_gets_what_a_dropped_one_had",
        "a_dropped_subscription_returns_what_it_had",
        "a_requeued_message_comes_again_marked",
        "a_requeued_message_comes_before_those_behind_it",
        "a_requeued_message_may_come_to_another_consumer",
        "messages_requeued_together_keep_their_order",
    ]
    rejected_is_requeued: RejectedIsRequeued breaks [
        "a_consumer_of_dead_letters_is_woken_by_one",
        "a_dead_letter_reaches_every_queue_that_takes_its_key",
        "a_message_published_anew_has_not_died",
        "a_message_that_dies_again_tells_where_it_died_last",
        "a_redelivered_message_dies_like_any_other",
        "a_rejected_message_is_dropped_where_the_queue_says_nothing",
        "a_rejected_message_makes_room",
        "a_rejected_message_moves_to_the_dead_letters",
        "a_settled_message_is_not_dead_lettered",
        "an_expired_message_that_is_rejected_died_where_it_was_rejected",
        "dead_letters_keep_their_order_and_are_not_redelivered",
    ]
    dead_letters_forget_where_they_died: DeadLettersForgetWhereTheyDied breaks [
        "a_dead_letter_reaches_every_queue_that_takes_its_key",
        "a_message_that_dies_again_tells_where_it_died_last",
        "a_rejected_message_moves_to_the_dead_letters",
        "an_expired_message_that_is_rejected_died_where_it_was_rejected",
    ]
    expiry_never_comes: ExpiryNeverComes breaks [
        "a_consumer_that_waits_is_woken_by_an_expiry",
        "a_message_for_one_queue_expires_like_any_other",
        "a_message_is_routed_on_when_it_expires_and_not_before",
        "an_expired_message_is_dropped_where_the_queue_says_nothing",
        "an_expired_message_that_is_rejected_died_where_it_was_rejected",
        "an_expiry_into_nowhere_disturbs_nobody",
        "each_message_has_its_own_time",
        "what_expired_while_nobody_listened_is_delivered",
    ]
    expiry_is_early: ExpiryIsEarly breaks [
        "a_message_is_routed_on_when_it_expires_and_not_before",
    ]
    closed_subscriptions_lose_what_they_had: ClosedSubscriptionsLoseWhatTheyHad breaks [
        "a_closed_subscription_returns_what_it_had",
        "a_closed_subscription_settles_nothing",
        "a_consumer_that_waits_gets_what_a_closed_one_had",
        "a_rejected_message_is_dropped_where_the_queue_says_nothing",
        "a_settled_tag_is_ignored",
        "a_subscription_can_be_closed_again",
        "an_acked_message_is_gone",
        "deliveries_are_settled_in_any_order",
        "messages_come_in_the_order_of_the_queue",
        "other_subscriptions_live_on",
    ]
    dropped_subscriptions_keep_what_they_had: DroppedSubscriptionsKeepWhatTheyHad breaks [
        "a_consumer_that_waits_gets_what_a_dropped_one_had",
        "a_dropped_subscription_returns_what_it_had",
        "live_subscriptions_are_counted",
    ]
    closed_subscriptions_ack_on: ClosedSubscriptionsAckOn breaks [
        "a_closed_subscription_settles_nothing",
    ]
    other_arguments_are_accepted: OtherArgumentsAreAccepted breaks [
        "a_refused_declaration_deletes_nothing",
        "an_argument_that_comes_or_goes_is_refused",
        "another_dead_letter_key_is_refused_with_both_values",
        "another_ttl_is_refused_with_both_values",
    ]
    queues_are_listed_backwards: QueuesAreListedBackwards breaks [
        "every_declared_queue_is_listed_by_name",
    ]
    messages_for_one_queue_reach_those_bound_to_its_name_too: MessagesForOneQueueReachThoseBoundToItsNameToo breaks [
        "a_message_for_a_queue_that_is_not_there_is_returned",
        "a_message_for_one_queue_reaches_it_alone",
    ]
    messages_for_no_queue_are_confirmed: MessagesForNoQueueAreConfirmed breaks [
        "a_message_for_a_queue_that_is_not_there_is_returned",
    ]
}}

flaws! { broken_by_limiter(LimiterFlaw) {
    a_sound_limiter_breaks_no_rule: None breaks []
    one_token_too_many: OneTokenTooMany breaks [
        "a_bucket_holds_what_it_says_and_no_more",
        "a_clock_set_back_keeps_no_bucket_empty",
        "every_party_and_route_has_a_bucket_of_its_own",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
        "of_many_at_once_no_more_are_let_in_than_the_bucket_holds",
    ]
    routes_share_a_bucket: RoutesShareABucket breaks [
        "every_party_and_route_has_a_bucket_of_its_own",
    ]
    tenants_share_a_bucket: TenantsShareABucket breaks [
        "every_party_and_route_has_a_bucket_of_its_own",
    ]
    addresses_share_a_bucket: AddressesShareABucket breaks [
        "every_party_and_route_has_a_bucket_of_its_own",
    ]
    waits_are_too_short: WaitsAreTooShort breaks [
        "a_clock_set_back_keeps_no_bucket_empty",
        "a_refusal_costs_nothing",
        "a_refusal_says_when_there_is_a_token",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    waits_are_too_long: WaitsAreTooLong breaks [
        "a_clock_set_back_keeps_no_bucket_empty",
        "a_refusal_costs_nothing",
        "a_refusal_says_when_there_is_a_token",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    refusals_cost: RefusalsCost breaks [
        "a_refusal_costs_nothing",
        "a_refusal_says_when_there_is_a_token",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    fills_twice_as_fast: FillsTwiceAsFast breaks [
        "a_bucket_fills_at_its_pace_and_no_further_than_full",
        "a_refusal_costs_nothing",
        "a_refusal_says_when_there_is_a_token",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    fills_beyond_full: FillsBeyondFull breaks [
        "a_bucket_fills_at_its_pace_and_no_further_than_full",
        "a_clock_set_forward_gives_one_full_bucket_at_most",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    two_at_once_take_one_token: TwoAtOnceTakeOneToken breaks [
        "of_many_at_once_no_more_are_let_in_than_the_bucket_holds",
    ]
    waits_for_a_clock_that_was_set_back: WaitsForAClockThatWasSetBack breaks [
        "a_clock_set_back_keeps_no_bucket_empty",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
    a_clock_set_back_fills: AClockSetBackFills breaks [
        "a_clock_set_back_gives_nothing",
        "a_clock_set_back_keeps_no_bucket_empty",
        "in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow",
    ]
}}

flaws! { broken_by_keys(KeysFlaw) {
    sound_keys_break_no_rule: None breaks []
    tenants_share_keys: TenantsShareKeys breaks ["every_tenant_user_route_and_key_is_for_itself"]
    users_share_keys: UsersShareKeys breaks ["every_tenant_user_route_and_key_is_for_itself"]
    routes_share_keys: RoutesShareKeys breaks ["every_tenant_user_route_and_key_is_for_itself"]
    idempotency_keys_ignore_case: KeysIgnoreCase breaks ["every_tenant_user_route_and_key_is_for_itself"]
    scopes_are_run_together: ScopesAreRunTogether breaks ["every_tenant_user_route_and_key_is_for_itself"]
    two_at_once_claim_one: TwoAtOnceClaimOne breaks ["of_many_at_once_exactly_one_claims_a_key"]
    two_at_once_take_over: TwoAtOnceTakeOver breaks ["of_many_that_take_over_exactly_one_does"]
    own_claims_are_in_progress: OwnClaimsAreInProgress breaks ["a_claim_that_is_written_again_stands"]
    another_body_is_a_repeat: AnotherBodyIsARepeat breaks [
        "a_lease_keeps_others_away_until_it_ends",
        "another_body_is_another_request",
    ]
    leases_end_at_once: LeasesEndAtOnce breaks [
        "a_claim_that_expired_is_as_if_it_had_never_come",
        "a_claim_that_is_written_again_stands",
        "a_key_that_was_released_is_free",
        "a_lease_keeps_others_away_until_it_ends",
        "of_many_at_once_exactly_one_claims_a_key",
        "of_many_that_take_over_exactly_one_does",
        "while_one_is_at_work_others_are_told_so",
        "whoever_was_overtaken_changes_nothing",
    ]
    leases_never_end: LeasesNeverEnd breaks [
        "a_lease_keeps_others_away_until_it_ends",
        "of_many_that_take_over_exactly_one_does",
        "whoever_was_overtaken_changes_nothing",
    ]
    overtaken_ones_answer: OvertakenOnesAnswer breaks [
        "an_answer_has_a_token_of_its_own",
        "whoever_was_overtaken_changes_nothing",
    ]
    overtaken_ones_release: OvertakenOnesRelease breaks [
        "a_claim_that_expired_is_as_if_it_had_never_come",
        "a_key_that_was_released_is_free",
        "whoever_was_overtaken_changes_nothing",
    ]
    answers_keep_the_token_of_the_claim: AnswersKeepTheTokenOfTheClaim breaks [
        "an_answer_has_a_token_of_its_own",
    ]
    answers_are_released: AnswersAreReleased breaks ["an_answer_has_a_token_of_its_own"]
    answers_are_cut: AnswersAreCut breaks ["a_key_is_claimed_once_and_then_answered_as_it_was"]
    answers_end_with_the_lease: AnswersEndWithTheLease breaks [
        "an_answer_lasts_as_long_as_was_claimed_and_no_longer",
    ]
    answers_last_from_when_they_came: AnswersLastFromWhenTheyCame breaks [
        "an_answer_lasts_as_long_as_was_claimed_and_no_longer",
    ]
    nothing_expires: NothingExpires breaks [
        "a_claim_that_expired_is_as_if_it_had_never_come",
        "an_answer_lasts_as_long_as_was_claimed_and_no_longer",
    ]
    unclaimed_answers_are_kept: UnclaimedAnswersAreKept breaks ["nothing_is_changed_where_nothing_stands"]
}}
