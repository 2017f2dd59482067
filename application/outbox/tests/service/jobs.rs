//! Periodic jobs in every process or in the leader: intervals, errors, panics, outages, leadership, shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_memory::{MemoryStore, SeededRandom, VirtualClock};
use handover_outbox::jobs::{Job, LEADER_LEASE_MS, Leader, Periodic, Progress, RunBy};
use handover_outbox::ports::*;
use handover_outbox::{Tasks, Transactor, WakeupNotifier};
use tokio::time::Instant;

use crate::library::eventually;

const INTERVAL: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_millis(LEADER_LEASE_MS as u64);

/// A database that several processes share, and whose outages a test controls.
#[derive(Clone)]
struct Database {
    store: Arc<MemoryStore>,
    clock: VirtualClock,
    is_unavailable: Arc<AtomicBool>,
}

#[async_trait]
impl Store for Database {
    type Unit = dyn UnitOfWork;
    type View = dyn View;

    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        self.is_available()?;
        outbox_of(&self.store).begin().await
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.is_available()?;
        outbox_of(&self.store).view().await
    }
}

impl Database {
    fn new() -> Database {
        let clock = VirtualClock::new("2026-02-04T10:30:00Z".parse().unwrap());
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone()), WakeupNotifier::default()));
        Database { store, clock, is_unavailable: Arc::default() }
    }

    fn is_available(&self) -> Result<(), StoreError> {
        if self.is_unavailable.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("connection refused".into()));
        }
        Ok(())
    }

    fn process(&self, seed: u64) -> Transactor {
        Transactor::new(
            Arc::new(self.clone()),
            Arc::new(self.clock.clone()),
            Arc::new(SeededRandom::new(seed)),
            Tasks::default(),
        )
    }

    async fn record(&self) -> Option<JobRecord> {
        let mut view = outbox_of(&self.store).view().await.unwrap();
        view.outbox_view().job_records().await.unwrap().pop()
    }
}

/// What each run of a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Succeed,
    /// Reports more due work in its first runs.
    DrainFirst(usize),
    /// Leaves work to the next run.
    Postpone,
    /// Leaves work to each second run.
    LeaveEverySecond,
    Fail,
    PanicFirst,
    /// Works until it is dropped or the process stops, then for two more leases.
    Hang,
}

/// A job that counts its runs.
#[derive(Clone)]
struct Counted {
    tx: Transactor,
    act: Act,
    runs: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Counted {
    fn start(tx: &Transactor, run_by: RunBy, act: Act) -> Counted {
        Counted::start_as(tx, Periodic::new("Sweep", INTERVAL, run_by), act)
    }

    fn start_as(tx: &Transactor, plan: Periodic, act: Act) -> Counted {
        let job = Counted { tx: tx.clone(), act, runs: Arc::default(), ended: Arc::default() };
        plan.start(tx, job.clone());
        job
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Job for Counted {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        match self.act {
            Act::Succeed => {}
            Act::DrainFirst(runs) if run < runs => return Ok(Progress::MoreDue),
            Act::DrainFirst(_) => {}
            Act::Postpone => return Ok(Progress::Postponed),
            Act::LeaveEverySecond if run % 2 == 1 => return Ok(Progress::Postponed),
            Act::LeaveEverySecond => {}
            Act::Fail => return Err(StoreError::Backend("the job failed".into())),
            Act::PanicFirst => assert!(run > 1, "the first run fails"),
            Act::Hang => {
                self.tx.stopping().cancelled().await;
                self.tx.sleep(2 * LEASE).await;
            }
        }
        self.ended.fetch_add(1, Ordering::Relaxed);
        Ok(Progress::Done)
    }
}

#[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

fn leader(tx: &Transactor) -> Leader {
    Leader::start(tx, "sweeps", LEADER_LEASE_MS)
}

#[tokio::test(start_paused = true)]
async fn job_runs_at_once_and_then_within_each_interval() {
    let database = Database::new();
    let process = database.process(1);
    let job = Counted::start(&process, RunBy::EveryProcess, Act::Succeed);
    pass(Duration::from_millis(10)).await;
    assert_eq!(job.runs(), 1);
    pass(INTERVAL * 9 / 10 - Duration::from_millis(20)).await;
    assert_eq!(job.runs(), 1, "at most a tenth of the interval is subtracted");
    pass(INTERVAL / 10 + Duration::from_millis(20)).await;
    assert_eq!(job.runs(), 2);
    pass(INTERVAL * 100).await;
    assert!((102..=112).contains(&job.runs()), "{}", job.runs());
}

#[tokio::test(start_paused = true)]
async fn job_with_more_due_work_runs_again_at_once() {
    let database = Database::new();
    let process = database.process(1);
    let job = Counted::start(&process, RunBy::EveryProcess, Act::DrainFirst(5));
    pass(Duration::from_secs(1)).await;
    assert_eq!(job.runs(), 5);
}

/// The time is kept in the database, because deployments replace the leader.
#[tokio::test(start_paused = true)]
async fn job_is_behind_since_its_first_run_that_left_work_whichever_process_runs_it() {
    let database = Database::new();
    let begun = database.clock.now();
    for process in [1, 2] {
        let process = database.process(process);
        let job = Counted::start(&process, RunBy::Leader(leader(&process)), Act::Postpone);
        pass(3 * INTERVAL + LEASE).await;
        assert!((3..=5).contains(&job.runs()), "the next run follows after the interval: {}", job.runs());
        process.tasks().stop().await;
    }
    let behind = database.record().await.unwrap();
    assert!(behind.last_success.unwrap() > begun + 4 * INTERVAL, "{behind:?}");
    assert!((begun..begun + LEASE).contains(&behind.behind_since.unwrap()), "{behind:?}");
    // The last of these runs follows within the time in which a success is recorded only once.
    let process = database.process(3);
    Counted::start(&process, RunBy::EveryProcess, Act::DrainFirst(5));
    pass(Duration::from_secs(1)).await;
    let done = database.record().await.unwrap();
    assert_eq!((done.last_success, done.behind_since), (Some(done.last_run), None), "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn notification_starts_next_run() {
    let database = Database::new();
    let process = database.process(1);
    let wake = WakeupNotifier::default();
    let plan = Periodic::new("Sweep", INTERVAL, RunBy::EveryProcess).woken_by(wake.clone());
    let job = Counted::start_as(&process, plan, Act::Succeed);
    pass(Duration::from_secs(1)).await;
    wake.notify(handover_events::PartitionSet::ALL);
    pass(Duration::from_secs(1)).await;
    assert_eq!(job.runs(), 2);
}

#[tokio::test(start_paused = true)]
async fn job_continues_after_error_and_panic_and_last_success_is_kept() {
    let database = Database::new();
    let process = database.process(1);
    Counted::start(&process, RunBy::EveryProcess, Act::Succeed);
    pass(Duration::from_secs(1)).await;
    let first = database.record().await.unwrap();
    assert_eq!(first.last_success, Some(first.last_run));
    process.tasks().stop().await;

    let process = database.process(2);
    let job = Counted::start(&process, RunBy::EveryProcess, Act::Fail);
    pass(3 * INTERVAL).await;
    assert!(job.runs() >= 3, "{}", job.runs());
    let failed = database.record().await.unwrap();
    assert!(failed.last_run > first.last_run && failed.last_success == first.last_success, "{failed:?}");
    process.tasks().stop().await;

    let process = database.process(3);
    let job = Counted::start(&process, RunBy::EveryProcess, Act::PanicFirst);
    pass(Duration::from_secs(2)).await;
    assert_eq!(job.runs(), 2);
    let last = database.record().await.unwrap();
    assert_eq!(last.last_success, Some(last.last_run));
}

#[tokio::test(start_paused = true)]
async fn frequent_runs_are_recorded_every_ten_seconds_and_changed_results_at_once() {
    // A job that leaves work in every second run has two results within 10 seconds.
    for (act, records) in [(Act::Succeed, 4..=6), (Act::LeaveEverySecond, 8..=12)] {
        let database = Database::new();
        let process = database.process(1);
        let plan = Periodic::new("Sweep", Duration::from_millis(100), RunBy::EveryProcess);
        Counted::start_as(&process, plan, act);
        let mut times = std::collections::BTreeSet::<DateTime<Utc>>::new();
        for _ in 0..1_000 {
            pass(Duration::from_millis(50)).await;
            times.extend(database.record().await.map(|record| record.last_run));
        }
        assert!(records.contains(&times.len()), "{act:?}: {times:?}");
        process.tasks().stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn outage_ends_neither_job_nor_candidate() {
    let database = Database::new();
    let process = database.process(1);
    let leader = leader(&process);
    let led = Counted::start(&process, RunBy::Leader(leader.clone()), Act::Succeed);
    let everywhere = Counted::start(&process, RunBy::EveryProcess, Act::Succeed);
    pass(Duration::from_secs(1)).await;
    assert_eq!((led.runs(), everywhere.runs()), (1, 1));
    database.is_unavailable.store(true, Ordering::Relaxed);
    pass(10 * INTERVAL).await;
    assert_eq!((led.runs(), leader.leadership()), (1, None), "the lease may have ended");
    assert!(everywhere.runs() >= 10, "{}", everywhere.runs());
    database.is_unavailable.store(false, Ordering::Relaxed);
    pass(LEASE + INTERVAL).await;
    assert!(led.runs() >= 2 && leader.leadership().is_some());
}

#[tokio::test(start_paused = true)]
async fn only_leader_runs_job_and_another_process_runs_it_after_a_kill() {
    let database = Database::new();
    let processes = [database.process(1), database.process(2)];
    let jobs = processes.each_ref().map(|tx| Counted::start(tx, RunBy::Leader(leader(tx)), Act::Succeed));
    pass(Duration::from_secs(1)).await;
    for _ in 0..20 {
        let runs = jobs.each_ref().map(Counted::runs);
        assert_eq!(runs.iter().filter(|runs| **runs > 0).count(), 1, "{runs:?}");
        pass(INTERVAL / 7).await;
    }
    let first = usize::from(jobs[0].runs() == 0);
    let second = 1 - first;
    processes[first].tasks().kill();
    let killed_at = Instant::now();
    eventually(async || jobs[second].runs() > 0).await;
    assert!(killed_at.elapsed() <= LEASE + Duration::from_millis(100), "{:?}", killed_at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn steps_of_the_database_clock_never_make_two_leaders() {
    let database = Database::new();
    let processes = [database.process(1), database.process(2), database.process(3)];
    let leaders = processes.each_ref().map(leader);
    pass(Duration::from_secs(1)).await;
    for step in [TimeDelta::hours(1), TimeDelta::hours(-2), TimeDelta::seconds(-3), TimeDelta::seconds(4)] {
        database.store.move_database_clock(step);
        for _ in 0..200 {
            let leading = leaders.iter().filter(|leader| leader.leadership().is_some()).count();
            assert_eq!(leading, 1, "after a step of {step}");
            pass(LEASE / 50).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_leader_keeps_lease_until_its_run_has_ended_and_then_releases_it() {
    let database = Database::new();
    let first = database.process(1);
    let hanging = Counted::start(&first, RunBy::Leader(leader(&first)), Act::Hang);
    pass(Duration::from_secs(1)).await;
    let second = database.process(2);
    let next = Counted::start(&second, RunBy::Leader(leader(&second)), Act::Succeed);
    let stopped_at = Instant::now();
    let stop = first.tasks().stop();
    let watch = async {
        while next.runs() == 0 {
            pass(Duration::from_millis(10)).await;
        }
        (hanging.ended.load(Ordering::Relaxed), stopped_at.elapsed())
    };
    let ((), (ended, elapsed)) = tokio::join!(stop, watch);
    assert_eq!(ended, 1, "another process led while the run had not ended");
    assert!(elapsed >= 2 * LEASE && elapsed < 2 * LEASE + LEASE / 2, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn run_is_dropped_when_leadership_is_lost() {
    let database = Database::new();
    let first = database.process(1);
    let hanging = Counted::start(&first, RunBy::Leader(leader(&first)), Act::Hang);
    pass(Duration::from_secs(1)).await;
    let mut unit = outbox_of(&database.store).begin().await.unwrap();
    let seen = unit.outbox().leader_lease("sweeps").await.unwrap();
    let other = CandidateId("other".to_owned());
    assert_eq!(unit.outbox().acquire_leadership(&other, &seen, 60_000).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    pass(LEASE).await;
    first.tasks().stop().await;
    assert_eq!((hanging.runs(), hanging.ended.load(Ordering::Relaxed)), (1, 0));
    assert_eq!(database.record().await, None, "the fence refuses the record of a lost leader");
}
