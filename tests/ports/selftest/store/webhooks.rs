//! Faults of webhooks.

use handover_tests::faulty::store::Fault;

use super::broken_by;

faults! { broken_by(Fault) {
    webhook_claims_exceed_the_limit: WebhookClaimsExceedTheLimit breaks [
        "an_endpoint_has_at_most_as_many_claims_as_its_limit",
        "concurrent_claims_do_not_exceed_the_limit_of_an_endpoint",
        "unavailable_endpoints_do_not_use_up_the_limit",
    ]
    webhook_claims_exceed_the_rate: WebhookClaimsExceedTheRate breaks [
        "attempts_per_second_are_limited",
        "concurrent_claims_do_not_exceed_the_attempts_per_second",
        "unavailable_endpoints_do_not_use_up_the_limit",
    ]
    webhook_order_is_ignored: WebhookOrderIsIgnored breaks [
        "a_delivery_that_is_sent_again_precedes_later_ones_of_its_key",
        "a_cancelled_delivery_blocks_nothing",
        "a_pending_delivery_blocks_later_ones_of_its_key",
        "an_endpoint_that_is_not_ordered_gets_every_due_delivery",
        "an_ordered_endpoint_gets_one_delivery_of_a_key_at_a_time",
        "blocked_deliveries_do_not_use_up_the_limit",
    ]
    endpoints_leak_to_other_tenants: EndpointsLeakToOtherTenants breaks [
        "endpoints_belong_to_one_tenant",
    ]
    pending_deliveries_ignore_body: PendingDeliveriesIgnoreBody breaks [
        "pending_deliveries_of_an_endpoint_are_found",
    ]
    delivery_pages_ignore_status: DeliveryPagesIgnoreStatus breaks [
        "every_part_of_a_filter_narrows_the_page_of_deliveries",
    ]
    webhook_claims_ignore_pauses: WebhookClaimsIgnorePauses breaks [
        "only_enabled_endpoints_that_are_not_paused_are_used",
        "unavailable_endpoints_do_not_use_up_the_limit",
    ]
    failing_endpoints_get_many_attempts: FailingEndpointsGetManyAttempts breaks [
        "a_failing_endpoint_gets_one_attempt_at_a_time",
    ]
    webhook_claims_end_early: WebhookClaimsEndEarly breaks [
        "a_claim_lasts_until_its_end",
        "a_pending_delivery_blocks_later_ones_of_its_key",
        "an_endpoint_has_at_most_as_many_claims_as_its_limit",
    ]
    repeated_claims_are_new: RepeatedClaimsAreNew breaks [
        "a_repeated_claim_returns_the_deliveries_of_its_first_call",
    ]
    newest_deliveries_are_claimed_first: NewestDeliveriesAreClaimedFirst breaks [
        "a_repeated_claim_returns_the_deliveries_of_its_first_call",
        "a_pending_delivery_blocks_later_ones_of_its_key",
        "an_endpoint_that_is_not_ordered_gets_every_due_delivery",
        "an_ordered_endpoint_gets_one_delivery_of_a_key_at_a_time",
        "attempts_at_an_endpoint_are_counted_since_a_time",
        "blocked_deliveries_do_not_use_up_the_limit",
        "deliveries_of_many_endpoints_are_claimed",
        "due_deliveries_are_claimed_the_longest_due_first",
        "results_of_a_group_are_recorded_together",
    ]
    webhook_claims_ignore_capacity: WebhookClaimsIgnoreCapacity breaks [
        "a_claim_leaves_capacity_to_other_endpoints_and_tenants",
    ]
    webhook_results_ignore_claims: WebhookResultsIgnoreClaims breaks [
        "a_result_of_an_earlier_claim_is_ignored",
        "results_of_a_group_are_recorded_together",
    ]
    interrupted_attempts_are_counted: InterruptedAttemptsAreCounted breaks [
        "an_interrupted_attempt_is_not_counted",
    ]
    interrupted_attempts_are_lost: InterruptedAttemptsAreLost breaks [
        "an_interrupted_attempt_is_not_counted",
    ]
    endpoint_replacements_reset_health: EndpointReplacementsResetHealth breaks [
        "a_locked_endpoint_is_not_changed_by_others",
        "a_replacement_keeps_the_health_and_requires_the_version",
    ]
    endpoint_locks_are_not_taken: EndpointLocksAreNotTaken breaks [
        "a_locked_endpoint_is_not_changed_by_others",
    ]
    ignored_deliveries_are_counted: IgnoredDeliveriesAreCounted breaks [
        "a_delivery_that_exists_is_ignored",
        "concurrent_deliveries_of_an_event_are_inserted_once",
    ]
    webhook_claims_are_taken_outside_unit: WebhookClaimsAreTakenOutsideUnit breaks [
        "a_claim_skips_endpoints_that_are_locked",
        "a_dropped_unit_of_work_changes_no_webhook",
    ]
    empty_deliveries_are_sent_again: EmptyDeliveriesAreSentAgain breaks [
        "only_dead_deliveries_that_can_be_sent_are_sent_again",
    ]
    young_deliveries_are_deleted: YoungDeliveriesAreDeleted breaks [
        "old_deliveries_are_deleted_with_their_attempts",
    ]
    deletion_of_deliveries_ends_early: DeletionOfDeliveriesEndsEarly breaks [
        "old_deliveries_are_deleted_with_their_attempts",
    ]
    disabled_endpoints_keep_their_deliveries: DisabledEndpointsKeepDeliveries breaks [
        "pending_deliveries_of_long_disabled_endpoints_are_cancelled",
    ]
    cancellation_ignores_limit: CancellationIgnoresLimit breaks [
        "many_pending_deliveries_are_cancelled_in_batches",
    ]
    delivery_forms_are_lost: DeliveryFormsAreLost breaks [
        "a_delivery_is_read_back_as_it_was_written",
        "every_part_of_a_filter_narrows_the_page_of_deliveries",
        "only_dead_deliveries_that_can_be_sent_are_sent_again",
        "pending_deliveries_of_an_endpoint_are_found",
    ]
    resending_ignores_limit: ResendingIgnoresLimit breaks [
        "dead_deliveries_of_a_period_are_sent_again",
    ]
    endpoint_reads_ignore_tenant: EndpointReadsIgnoreTenant breaks [
        "another_tenant_finds_no_endpoint",
    ]
    endpoint_locks_ignore_tenant: EndpointLocksIgnoreTenant breaks [
        "another_tenant_finds_no_endpoint",
    ]
    endpoint_replacements_ignore_tenant: EndpointReplacementsIgnoreTenant breaks [
        "another_tenant_changes_no_endpoint",
    ]
    endpoint_health_ignores_tenant: EndpointHealthIgnoresTenant breaks [
        "another_tenant_changes_no_endpoint",
    ]
    delivery_reads_ignore_tenant: DeliveryReadsIgnoreTenant breaks [
        "another_tenant_finds_no_delivery",
    ]
    delivery_pages_ignore_tenant: DeliveryPagesIgnoreTenant breaks [
        "another_tenant_finds_no_delivery",
    ]
    attempt_reads_ignore_tenant: AttemptReadsIgnoreTenant breaks [
        "another_tenant_finds_no_delivery",
    ]
    attempt_counts_ignore_tenant: AttemptCountsIgnoreTenant breaks [
        "another_tenant_finds_no_delivery",
    ]
    dead_delivery_counts_ignore_tenant: DeadDeliveryCountsIgnoreTenant breaks [
        "another_tenant_finds_no_delivery",
    ]
    cancellation_ignores_tenant: CancellationIgnoresTenant breaks [
        "another_tenant_changes_no_delivery",
    ]
    resending_ignores_tenant: ResendingIgnoresTenant breaks [
        "another_tenant_changes_no_delivery",
    ]
}}
