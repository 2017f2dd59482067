//! Election of a leader among processes: [`Leader`] on the leader leases of a store.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::jobs::Leader;
use handover_outbox::ports::{Clock, LeaderLease, Leadership, RandomSource};
use handover_outbox::{Tasks, Transactor, TxPolicy};
use tokio::time::Instant;

use super::StoreRig;
use super::jobs::{NAME, is_fenced, lease, now};
use crate::samples::start;
use crate::{eventually, within};

const LEASE_MS: u32 = 600;

/// Clock and random numbers of a process.
struct ProcessPorts {
    began: Instant,
    number: AtomicU64,
}

#[async_trait]
impl Clock for ProcessPorts {
    fn now(&self) -> DateTime<Utc> {
        start() + TimeDelta::from_std(self.began.elapsed()).expect("a short time")
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

impl RandomSource for ProcessPorts {
    fn next(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }
}

/// A process with a candidate.
struct Process {
    tasks: Tasks,
    leader: Leader,
}

impl Process {
    fn start(rig: &dyn StoreRig, number: u64) -> Process {
        let ports = Arc::new(ProcessPorts { began: Instant::now(), number: AtomicU64::new(number << 32) });
        let tasks = Tasks::default();
        let tx = Transactor {
            store: rig.store(),
            tasks: tasks.clone(),
            clock: ports.clone(),
            random: ports,
            policy: TxPolicy::default(),
        };
        Process { tasks, leader: Leader::start(&tx, NAME, LEASE_MS) }
    }

    fn leads(&self) -> bool {
        self.leader.leadership().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}

/// Lets a short time pass, also for the database clock, which stands still in some rigs.
async fn pass(rig: &dyn StoreRig) {
    let step = Duration::from_millis(20);
    let before = now(rig).await;
    tokio::time::sleep(step).await;
    if now(rig).await == before {
        rig.move_database_clock(TimeDelta::from_std(step).expect("a short time"));
    }
}

async fn until_one_leads(rig: &dyn StoreRig, processes: &[&Process]) -> Leadership {
    eventually("election", || async {
        pass(rig).await;
        processes.iter().find_map(|process| process.leader.leadership())
    })
    .await
}

/// Lets several leases pass, and asserts that never two of the processes lead.
async fn at_most_one_leads(rig: &dyn StoreRig, processes: &[&Process]) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(u64::from(3 * LEASE_MS)) {
        let leading = processes.iter().filter(|process| process.leads()).count();
        assert!(leading <= 1, "{leading} processes lead");
        pass(rig).await;
    }
}

/// Of two processes, exactly one leads, also while the database clock is set forward and back.
pub async fn exactly_one_of_two_processes_leads(rig: &dyn StoreRig) {
    let processes = [Process::start(rig, 1), Process::start(rig, 2)];
    let processes = [&processes[0], &processes[1]];
    until_one_leads(rig, &processes).await;
    at_most_one_leads(rig, &processes).await;
    for step in [TimeDelta::hours(1), TimeDelta::hours(-2)] {
        rig.move_database_clock(step);
        at_most_one_leads(rig, &processes).await;
        until_one_leads(rig, &processes).await;
    }
}

/// After the leader was killed, another process leads at a later epoch. The fence refuses the killed leader.
pub async fn another_process_leads_after_the_leader_was_killed(rig: &dyn StoreRig) {
    let first = Process::start(rig, 1);
    let killed = until_one_leads(rig, &[&first]).await;
    first.tasks.kill();
    let second = Process::start(rig, 2);
    at_most_one_leads(rig, &[&first, &second]).await;
    let leadership = until_one_leads(rig, &[&second]).await;
    assert!(leadership.epoch > killed.epoch && !first.leads(), "{leadership:?} after {killed:?}");
    assert!(!is_fenced(rig, &killed).await);
}

/// A process that stops releases its lease, so that another process leads without waiting for the end of the lease.
pub async fn a_stopped_leader_releases_its_lease(rig: &dyn StoreRig) {
    let first = Process::start(rig, 1);
    let stopped = until_one_leads(rig, &[&first]).await;
    within("stop", first.tasks.stop()).await;
    assert!(!first.leads());
    assert_eq!(lease(rig, NAME).await, LeaderLease { epoch: stopped.epoch, ..LeaderLease::unused(NAME) });
    let second = Process::start(rig, 2);
    assert_eq!(until_one_leads(rig, &[&second]).await.epoch, stopped.epoch + 1);
}

/// A leader that was frozen and continues after another process was elected takes no further step, and its fenced unit
/// of work changes nothing.
pub async fn a_frozen_leader_takes_no_step_after_its_lease(rig: &dyn StoreRig) {
    let first = Process::start(rig, 1);
    let frozen = until_one_leads(rig, &[&first]).await;
    let mut steps = 0;
    let run = std::future::poll_fn(|_| {
        steps += 1;
        Poll::<()>::Pending
    });
    let outcome = {
        let mut run = pin!(first.leader.while_leading(&frozen, run));
        assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The frozen process neither renews its lease nor polls the run.
        first.tasks.kill();
        let second = Process::start(rig, 2);
        until_one_leads(rig, &[&second]).await;
        run.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    };
    assert_eq!((outcome, steps), (Poll::Ready(None), 1));
    assert!(!is_fenced(rig, &frozen).await);
}
