//! Leader leases and the records of periodic jobs.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::{CandidateId, JobRecord, LeaderLease, Leadership, RunResult, StoreError};

use super::{StoreRig, begin, in_unit, view};
use crate::concurrency::{one_changed, race};
use crate::samples::{later, start};
use crate::within;
use crate::work::{changes_none, changes_one, commit};

const MINUTE: u32 = 60_000;
const INTERVAL: Duration = Duration::from_millis(1_500);

pub(super) const NAME: &str = "jobs";

fn candidate(name: &str) -> CandidateId {
    CandidateId(name.to_owned())
}

pub(super) async fn lease(rig: &dyn StoreRig, name: &str) -> LeaderLease {
    view(rig).await.outbox_view().leader_lease(name).await.expect("cannot read the leader lease")
}

pub(super) async fn now(rig: &dyn StoreRig) -> DateTime<Utc> {
    view(rig).await.outbox_view().database_now().await.expect("cannot read the database clock")
}

async fn take(rig: &dyn StoreRig, leader: &str) -> Leadership {
    let seen = lease(rig, NAME).await;
    in_unit!(rig, |unit| changes_one(
        unit.outbox().acquire_leadership(&candidate(leader), &seen, MINUTE).await
    ));
    Leadership { name: NAME.to_owned(), leader: candidate(leader), epoch: seen.epoch + 1 }
}

async fn release(rig: &dyn StoreRig, leadership: &Leadership) {
    in_unit!(rig, |unit| unit.outbox().release_leadership(leadership).await.unwrap());
}

pub(super) async fn is_fenced(rig: &dyn StoreRig, leadership: &Leadership) -> bool {
    in_unit!(rig, |unit| unit.outbox().fence_leader(leadership).await.unwrap())
}

async fn record(rig: &dyn StoreRig, job: &str, at: DateTime<Utc>, result: RunResult) {
    in_unit!(rig, |unit| unit.outbox().record_run(job, at, result, INTERVAL).await.unwrap());
}

async fn records(rig: &dyn StoreRig) -> Vec<JobRecord> {
    view(rig).await.outbox_view().job_records().await.expect("cannot read the records of jobs")
}

/// Asserts that the lease of this leadership began at the database time after `before`, and lasts a minute.
async fn lasts_a_minute(rig: &dyn StoreRig, leadership: &Leadership, before: DateTime<Utc>) {
    let lease = lease(rig, NAME).await;
    assert_eq!((lease.leader.as_ref(), lease.epoch), (Some(&leadership.leader), leadership.epoch));
    let begin = lease.lease_until.expect("there is no lease") - TimeDelta::minutes(1);
    let slack = TimeDelta::milliseconds(2); // a clock may be coarser than a microsecond
    let after = now(rig).await;
    assert!(before - slack <= begin && begin <= after + slack, "{begin} for {before}..{after}");
}

/// A lease that no candidate has acquired is free at epoch 0. The first leader gets a lease from the database time at
/// epoch 1. Leases of other names are independent; names are compared byte by byte.
pub async fn the_first_candidate_of_a_name_leads(rig: &dyn StoreRig) {
    assert_eq!(lease(rig, NAME).await, LeaderLease::unused(NAME));
    let before = now(rig).await;
    let leadership = take(rig, "c1").await;
    assert_eq!(leadership.epoch, 1);
    lasts_a_minute(rig, &leadership, before).await;
    assert_eq!(lease(rig, "Jobs").await, LeaderLease::unused("Jobs"));
}

/// A lease that was taken or renewed since it was read cannot be taken, not even by its leader.
pub async fn leadership_is_taken_only_if_its_lease_is_unchanged(rig: &dyn StoreRig) {
    let unused = lease(rig, NAME).await;
    let leadership = take(rig, "c1").await;
    let taken = lease(rig, NAME).await;
    rig.move_database_clock(TimeDelta::seconds(1));
    in_unit!(rig, |unit| changes_one(unit.outbox().renew_leadership(&leadership, MINUTE).await));
    let renewed = lease(rig, NAME).await;
    let earlier = LeaderLease { epoch: renewed.epoch - 1, ..renewed.clone() };
    for seen in [&unused, &taken, &earlier] {
        for name in ["c2", "c1"] {
            in_unit!(rig, |unit| changes_none(
                unit.outbox().acquire_leadership(&candidate(name), seen, MINUTE).await
            ));
        }
    }
    assert_eq!(lease(rig, NAME).await, renewed);
}

/// The candidate decides whether the old lease has ended: the store accepts the takeover of an unchanged row, whatever
/// the database clock shows. The new lease starts at the current time of that clock.
pub async fn leadership_is_taken_whatever_the_database_clock_shows(rig: &dyn StoreRig) {
    let mut epoch = take(rig, "c1").await.epoch;
    for (step, name) in [(TimeDelta::minutes(-5), "c2"), (TimeDelta::minutes(10), "c3")] {
        rig.move_database_clock(step);
        let before = now(rig).await;
        let leadership = take(rig, name).await;
        assert_eq!(leadership.epoch, epoch + 1);
        lasts_a_minute(rig, &leadership, before).await;
        epoch = leadership.epoch;
    }
}

/// Leadership is renewed from the database's current time, even after its lease has ended, and keeps its epoch.
pub async fn leadership_is_renewed_from_the_database_time(rig: &dyn StoreRig) {
    let leadership = take(rig, "c1").await;
    for step in [TimeDelta::seconds(50), TimeDelta::minutes(5), TimeDelta::minutes(-10)] {
        rig.move_database_clock(step);
        let before = now(rig).await;
        in_unit!(rig, |unit| changes_one(unit.outbox().renew_leadership(&leadership, MINUTE).await));
        lasts_a_minute(rig, &leadership, before).await;
    }
}

/// A leader whose lease another candidate took can neither renew nor release it, nor can a leader of an earlier epoch.
pub async fn lost_leadership_is_neither_renewed_nor_released(rig: &dyn StoreRig) {
    let lost = take(rig, "c1").await;
    let current = take(rig, "c2").await;
    let before = lease(rig, NAME).await;
    let earlier = Leadership { epoch: current.epoch - 1, ..current.clone() };
    let other = Leadership { leader: candidate("c1"), ..current.clone() };
    let unused = Leadership { name: "Jobs".to_owned(), ..current };
    for lost in [lost, earlier, other, unused] {
        in_unit!(rig, |unit| changes_none(unit.outbox().renew_leadership(&lost, MINUTE).await));
        release(rig, &lost).await;
    }
    assert_eq!(lease(rig, NAME).await, before);
}

/// After its release a lease is free at the same epoch, so that another candidate can take it at once.
pub async fn released_leadership_is_free_at_once(rig: &dyn StoreRig) {
    let first = take(rig, "c1").await;
    release(rig, &first).await;
    assert_eq!(lease(rig, NAME).await, LeaderLease { epoch: first.epoch, ..LeaderLease::unused(NAME) });
    assert_eq!(take(rig, "c2").await.epoch, first.epoch + 1);
}

/// The fence accepts the current leader, even after its lease has ended, and refuses everyone else.
pub async fn the_fence_accepts_only_the_current_leader(rig: &dyn StoreRig) {
    let lost = take(rig, "c1").await;
    assert!(is_fenced(rig, &lost).await);
    rig.move_database_clock(TimeDelta::minutes(5));
    assert!(is_fenced(rig, &lost).await, "no other candidate has taken the lease");
    let current = take(rig, "c2").await;
    assert!(is_fenced(rig, &current).await);
    let again = Leadership { leader: candidate("c2"), ..lost.clone() };
    let unused = Leadership { name: "Jobs".to_owned(), ..current.clone() };
    for refused in [&lost, &again, &unused] {
        assert!(!is_fenced(rig, refused).await, "{refused:?}");
    }
    release(rig, &current).await;
    assert!(!is_fenced(rig, &current).await, "the lease was released");
}

/// If eight candidates take a lease that nobody has acquired before, one of them leads afterwards.
pub async fn exactly_one_of_concurrent_candidates_leads(rig: &dyn StoreRig) {
    for epoch in [1, 2] {
        let seen = lease(rig, NAME).await;
        let free = seen.clone();
        let outcomes = race(&rig.store(), move |unit, n| {
            let free = free.clone();
            let name = candidate(&format!("c{n}"));
            Box::pin(async move { unit.outbox().acquire_leadership(&name, &free, MINUTE).await })
        })
        .await;
        let winner = one_changed(outcomes);
        let lease = lease(rig, NAME).await;
        assert_eq!((lease.leader, lease.epoch), (Some(candidate(&format!("c{winner}"))), epoch));
    }
}

/// A fenced lease cannot be taken until the leader's unit of work has ended.
pub async fn a_fenced_lease_changes_its_leader_only_after_the_commit(rig: &dyn StoreRig) {
    let leadership = take(rig, "c1").await;
    let seen = lease(rig, NAME).await;
    let mut fenced = begin(rig).await;
    assert!(fenced.outbox().fence_leader(&leadership).await.unwrap());
    let store = rig.store();
    let taker = tokio::spawn(async move {
        loop {
            let work = async {
                let mut unit = store.begin().await?;
                let taken = unit.outbox().acquire_leadership(&candidate("c2"), &seen, MINUTE).await?;
                unit.commit().await?;
                Ok(taken)
            };
            match work.await {
                Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                outcome => return outcome,
            }
        }
    });
    for _ in 0..20 {
        assert_eq!(lease(rig, NAME).await.leader, Some(candidate("c1")));
        tokio::task::yield_now().await;
    }
    fenced.outbox().record_run("sweep", start(), RunResult::Success, INTERVAL).await.unwrap();
    commit(fenced).await;
    changes_one(within("taking the lease", taker).await.expect("the task does not panic"));
}

/// A dropped unit of work changes no leader lease and records no run.
pub async fn a_dropped_unit_of_work_changes_no_leader_and_no_job(rig: &dyn StoreRig) {
    let leadership = take(rig, "c1").await;
    record(rig, "sweep", start(), RunResult::Success).await;
    let before = (lease(rig, NAME).await, records(rig).await);
    let mut unit = begin(rig).await;
    unit.outbox().release_leadership(&leadership).await.unwrap();
    let unused = LeaderLease::unused("others");
    changes_one(unit.outbox().acquire_leadership(&candidate("c2"), &unused, MINUTE).await);
    unit.outbox().record_run("sweep", later(1), RunResult::Success, INTERVAL).await.unwrap();
    unit.outbox().record_run("reaper", later(1), RunResult::Success, INTERVAL).await.unwrap();
    drop(unit);
    assert_eq!((lease(rig, NAME).await, records(rig).await), before);
    assert_eq!(lease(rig, "others").await, unused);
}

/// Ending all leases frees every leader lease, without changing its epoch.
pub async fn ending_all_leases_frees_every_leader_lease(rig: &dyn StoreRig) {
    let leadership = take(rig, "c1").await;
    in_unit!(rig, |unit| unit.outbox().release_all_leases().await.unwrap());
    assert_eq!(lease(rig, NAME).await, LeaderLease { epoch: leadership.epoch, ..LeaderLease::unused(NAME) });
}

/// A failed run changes the time of the last run, not that of the last success, whichever process recorded it. The record has
/// the interval of the job.
pub async fn a_failed_run_keeps_the_last_success(rig: &dyn StoreRig) {
    let record_of = |last_run, last_success| JobRecord {
        job: "sweep".to_owned(),
        last_run,
        last_success,
        behind_since: None,
        interval: Some(INTERVAL),
    };
    for (at, result, last_success) in [
        (later(0), RunResult::Failure, None),
        (later(1), RunResult::Success, Some(later(1))),
        (later(2), RunResult::Failure, Some(later(1))),
        // The clock of the process was set back.
        (later(-9), RunResult::Failure, Some(later(1))),
        (later(-8), RunResult::Success, Some(later(-8))),
    ] {
        record(rig, "sweep", at, result).await;
        assert_eq!(records(rig).await, [record_of(at, last_success)]);
    }
    if let Some(reopened) = rig.reopened().await {
        let mut view = reopened.view().await.unwrap();
        let records = view.outbox_view().job_records().await.unwrap();
        assert_eq!(records, [record_of(later(-8), Some(later(-8)))]);
    }
}

/// A run that leaves work is a success, too. The job is behind since the first such run, until a run leaves none; a failed run
/// changes nothing.
pub async fn a_job_is_behind_since_the_first_run_that_left_work(rig: &dyn StoreRig) {
    for (at, result, last_success, behind_since) in [
        (1, RunResult::WorkLeft, 1, Some(1)),
        (2, RunResult::WorkLeft, 2, Some(1)),
        (3, RunResult::Failure, 2, Some(1)),
        (4, RunResult::WorkLeft, 4, Some(1)),
        (5, RunResult::Success, 5, None),
        (6, RunResult::Failure, 5, None),
        (7, RunResult::WorkLeft, 7, Some(7)),
    ] {
        record(rig, "sweep", later(at), result).await;
        let [record] = records(rig).await.try_into().expect("there is one job");
        assert_eq!(
            (record.last_run, record.last_success, record.behind_since),
            (later(at), Some(later(last_success)), behind_since.map(later)),
            "after run {at}, {result:?}"
        );
    }
}

/// Records of jobs are ordered by name, byte by byte.
pub async fn job_records_are_ordered_by_name(rig: &dyn StoreRig) {
    for (n, job) in ["sweep", "Sweep", "reaper"].into_iter().enumerate() {
        record(rig, job, later(n as i64), RunResult::Success).await;
    }
    let records: Vec<_> =
        records(rig).await.into_iter().map(|record| (record.job, record.last_run)).collect();
    assert_eq!(
        records,
        [("Sweep".to_owned(), later(1)), ("reaper".to_owned(), later(2)), ("sweep".to_owned(), later(0))]
    );
}
