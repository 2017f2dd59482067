//! Faults of the leader, of jobs, and of what processes report.

use handover_tests::faulty::store::Fault;

use super::broken_by;

faults! { broken_by(Fault) {
    leaders_are_taken_unseen: LeadersAreTakenUnseen breaks [
        "exactly_one_of_concurrent_candidates_leads",
        "exactly_one_of_two_processes_leads",
        "leadership_is_taken_only_if_its_lease_is_unchanged",
    ]
    leader_leases_are_too_long: LeaderLeasesAreTooLong breaks [
        "leadership_is_renewed_from_the_database_time",
        "leadership_is_taken_whatever_the_database_clock_shows",
        "the_first_candidate_of_a_name_leads",
    ]
    ended_leaders_are_not_renewed: EndedLeadersAreNotRenewed breaks [
        "leadership_is_renewed_from_the_database_time",
    ]
    lost_leaders_renew: LostLeadersRenew breaks [
        "lost_leadership_is_neither_renewed_nor_released",
    ]
    leader_renewals_are_lost: LeaderRenewalsAreLost breaks [
        "exactly_one_of_two_processes_leads",
        "leadership_is_renewed_from_the_database_time",
        "leadership_is_taken_only_if_its_lease_is_unchanged",
        "lost_leadership_is_neither_renewed_nor_released",
    ]
    leader_names_ignore_case: LeaderNamesIgnoreCase breaks [
        "lost_leadership_is_neither_renewed_nor_released",
        "the_fence_accepts_only_the_current_leader",
        "the_first_candidate_of_a_name_leads",
    ]
    leaders_are_not_released: LeadersAreNotReleased breaks [
        "a_stopped_leader_releases_its_lease",
        "released_leadership_is_free_at_once",
        "the_fence_accepts_only_the_current_leader",
    ]
    leader_fence_always_succeeds: LeaderFenceAlwaysSucceeds breaks [
        "a_fenced_lease_changes_its_leader_only_after_the_commit",
        "a_frozen_leader_takes_no_step_after_its_lease",
        "another_process_leads_after_the_leader_was_killed",
        "the_fence_accepts_only_the_current_leader",
    ]
    leader_fence_takes_no_lock: LeaderFenceTakesNoLock breaks [
        "a_fenced_lease_changes_its_leader_only_after_the_commit",
    ]
    ending_leases_reelects_leaders: EndingLeasesReelectsLeaders breaks [
        "ending_all_leases_frees_every_leader_lease",
    ]
    failed_runs_clear_last_success: FailedRunsClearLastSuccess breaks [
        "a_failed_run_keeps_the_last_success",
        "a_job_is_behind_since_the_first_run_that_left_work",
    ]
    jobs_are_behind_since_their_last_run: JobsAreBehindSinceTheirLastRun breaks [
        "a_job_is_behind_since_the_first_run_that_left_work",
    ]
    job_names_ignore_case: JobNamesIgnoreCase breaks [
        "job_records_are_ordered_by_name",
    ]
    job_records_are_sorted_by_time: JobRecordsAreSortedByTime breaks [
        "job_records_are_ordered_by_name",
    ]
    job_intervals_are_lost: JobIntervalsAreLost breaks [
        "a_failed_run_keeps_the_last_success",
    ]
    saved_alerts_lose_their_acknowledgement: SavedAlertsLoseTheirAcknowledgement breaks [
        "the_state_of_an_alert_and_its_acknowledgement_are_independent",
    ]
    acknowledgements_reset_alerts: AcknowledgementsResetAlerts breaks [
        "the_state_of_an_alert_and_its_acknowledgement_are_independent",
    ]
    alert_names_ignore_case: AlertNamesIgnoreCase breaks [
        "alerts_are_ordered_by_name",
    ]
    reports_count_too_long: ReportsCountTooLong breaks [
        "the_last_report_of_a_process_counts_from_the_database_time",
    ]
    samples_include_the_end: SamplesIncludeTheEnd breaks [
        "a_sample_is_written_once_and_read_in_its_period",
    ]
    samples_are_replaced: SamplesAreReplaced breaks [
        "a_sample_is_written_once_and_read_in_its_period",
    ]
    deletes_reach_other_resolutions: DeletesReachOtherResolutions breaks [
        "old_samples_of_one_resolution_are_deleted",
    ]
    retries_of_consumers_are_ignored: RetriesOfConsumersAreIgnored breaks [
        "the_most_retries_are_those_of_unsettled_events",
    ]
    reports_are_written_outside_unit: ReportsAreWrittenOutsideUnit breaks [
        "a_dropped_unit_of_work_changes_nothing_of_the_monitoring",
    ]
}}
