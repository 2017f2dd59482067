//! Election of one leader among the processes of a deployment, by a named lease in the database.
//!
//! **Invariant:** a process acts as leader only while its monotonic clock shows that its lease in the database has not
//! ended. A write of a leader that was late nevertheless is refused by the epoch
//! ([`LeaderRepo::fence_leader`](crate::ports::LeaderRepo::fence_leader)).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{info, warn};

use crate::lease_watch::LeaseWatch;
use crate::ports::{CandidateId, Changed, LeaderLease, Leadership, StoreError};
use crate::supervision::keep_running;
use crate::transaction::{Transactor, with_tx};

/// First pause after an error of the database; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause after an error of the database.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Candidate for leadership in one process. Clones share it.
#[derive(Clone)]
pub struct Leader {
    shared: Arc<Shared>,
}

struct Shared {
    tx: Transactor,
    name: &'static str,
    id: CandidateId,
    lease_ms: u32,
    term: Mutex<Option<Term>>,
    /// Notified at each change of the term. Wakes its waiters in their sequence, unlike a `watch` channel, so that a
    /// simulation with a seed is repeatable.
    changed: Notify,
    /// Runs of jobs. The lease is not released before all of them have ended.
    runs: TaskTracker,
}

/// Leadership of this process, with the end of its lease on the monotonic clock of this process.
#[derive(Debug, Clone)]
struct Term {
    leadership: Leadership,
    valid_until: Instant,
}

impl Term {
    fn is_valid(&self) -> bool {
        Instant::now() < self.valid_until
    }
}

impl Leader {
    /// A candidate for the lease of this name. The id MUST be unique for each run of a process.
    pub fn new(tx: Transactor, name: &'static str, id: CandidateId, lease_ms: u32) -> Leader {
        let shared = Shared {
            tx,
            name,
            id,
            lease_ms,
            term: Mutex::default(),
            changed: Notify::new(),
            runs: TaskTracker::new(),
        };
        Leader { shared: Arc::new(shared) }
    }

    /// Starts a candidate under a new random id. It stands for election until the process stops.
    pub fn start(tx: &Transactor, name: &'static str, lease_ms: u32) -> Leader {
        let id = CandidateId(format!("candidate-{:016x}", tx.random().next()));
        let leader = Leader::new(tx.clone(), name, id, lease_ms);
        let candidate = leader.clone();
        keep_running(tx, name, move || candidate.clone().run());
        leader
    }

    /// Leadership of this process, unless its lease may have ended.
    pub fn leadership(&self) -> Option<Leadership> {
        self.term().filter(Term::is_valid).map(|term| term.leadership)
    }

    /// Waits until this process leads.
    pub async fn elected(&self) -> Leadership {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // Before the term is read, so that no change is missed.
            changed.as_mut().enable();
            if let Some(leadership) = self.leadership() {
                return leadership;
            }
            changed.await;
        }
    }

    /// Runs `work` until it ends, or drops it when this leadership may have ended; then returns `None`.
    ///
    /// A unit of work of [`with_tx`] is a task of its own, so it is not dropped. If it must not be committed after the
    /// end of the leadership, it has to be fenced.
    pub async fn while_leading<T>(
        &self,
        leadership: &Leadership,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        let mut lost = pin!(self.lost(leadership));
        poll_fn(|context| {
            // Reads the clock before each step of the work: the timers of a process that was frozen fire late.
            if self.leadership().as_ref() != Some(leadership) || lost.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Waits until this leadership may have ended.
    async fn lost(&self, leadership: &Leadership) {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // Before the term is read, so that no change is missed.
            changed.as_mut().enable();
            let current = self.term().filter(|term| term.leadership == *leadership && term.is_valid());
            let Some(term) = current else { return };
            // An elapsed time limit is not an error: the term is read again.
            let _ = tokio::time::timeout_at(term.valid_until, changed).await;
        }
    }

    /// Delays the release of the lease until the returned token is dropped. A run of a job takes a token before it checks
    /// whether the process is stopping.
    pub(super) fn token(&self) -> TaskTrackerToken {
        self.shared.runs.token()
    }

    /// Stands for election and renews the lease until the process stops and all runs of jobs have ended, then releases
    /// the lease. During an outage of the database the candidate waits.
    pub async fn run(self) {
        let Shared { tx, name, runs, .. } = &*self.shared;
        let ended = async {
            tx.stopping().cancelled().await;
            runs.close();
            runs.wait().await;
        };
        let mut ended = pin!(ended);
        let mut observed = LeaseWatch::new(self.lease());
        let mut pause = FIRST_PAUSE;
        loop {
            let wait = match self.tick(&mut observed).await {
                Ok(wait) => {
                    pause = FIRST_PAUSE;
                    wait
                }
                Err(error) => {
                    if pause == FIRST_PAUSE {
                        warn!(code = "leader.lease-unreadable", %error, "[{name}] cannot read or renew the leader lease; retrying every {LONGEST_PAUSE:?}");
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    pause
                }
            };
            tokio::select! {
                biased;
                () = &mut ended => break,
                () = tx.sleep(wait) => {}
            }
        }
        if let Err(error) = self.release().await {
            warn!(code = "leader.not-released", %error, "[{name}] cannot release the leader lease; another process leads when it ends");
        }
    }

    fn term(&self) -> Option<Term> {
        self.shared.term.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_term(&self, term: Option<Term>) {
        *self.shared.term.lock().unwrap_or_else(PoisonError::into_inner) = term;
        self.shared.changed.notify_waiters();
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(u64::from(self.shared.lease_ms))
    }

    /// The last known leadership of this process, even if its lease may have ended.
    fn last_leadership(&self) -> Option<Leadership> {
        self.term().map(|term| term.leadership)
    }

    /// Renews the lease, or tries to acquire it. Returns the time until the next call.
    async fn tick(&self, observed: &mut LeaseWatch<()>) -> Result<Duration, StoreError> {
        // The local lease starts before the request: the database lease starts later and therefore also ends later.
        let requested_at = Instant::now();
        if let Some(leadership) = self.last_leadership() {
            if self.renew(&leadership).await? == Changed::One {
                self.lead(leadership, requested_at);
                return Ok(self.lease() / 3);
            }
            self.set_term(None);
            warn!(code = "leader.lost", leader = %self.shared.id, epoch = leadership.epoch,
                "[{}] leadership lost to another process", self.shared.name);
        }
        self.stand(observed).await
    }

    /// Acquires the lease if it is free or has ended. Returns the time until the next call of [`Leader::tick`].
    async fn stand(&self, observed: &mut LeaseWatch<()>) -> Result<Duration, StoreError> {
        let Shared { tx, name, id, .. } = &*self.shared;
        let third = self.lease() / 3;
        let mut view = tx.view().await?;
        let now = view.outbox_view().database_now().await?;
        let seen = view.outbox_view().leader_lease(name).await?;
        drop(view);
        // This process acquired the lease by a commit whose result was lost.
        let is_own = seen.leader.as_ref() == Some(id);
        if let Some(until) = seen.lease_until
            && !observed.ended(now, &[((), until)]).contains(&())
            && !is_own
        {
            // The lease is read again as soon as it has ended.
            let left = (until - now).to_std().unwrap_or_default() + Duration::from_millis(1);
            return Ok(if until > now { left.min(third) } else { third });
        }
        let requested_at = Instant::now();
        let epoch = if is_own { seen.epoch } else { seen.epoch + 1 };
        let leadership = Leadership { name: (*name).to_owned(), leader: id.clone(), epoch };
        let changed = if is_own { self.renew(&leadership).await? } else { self.acquire(seen).await? };
        if changed == Changed::One {
            info!(code = "leader.acquired", leader = %id, epoch, "[{name}] this process leads");
            self.lead(leadership, requested_at);
        }
        Ok(third)
    }

    fn lead(&self, leadership: Leadership, requested_at: Instant) {
        let valid_until = requested_at + self.lease().mul_f64(0.8);
        self.set_term(Some(Term { leadership, valid_until }));
    }

    async fn acquire(&self, seen: LeaderLease) -> Result<Changed, StoreError> {
        let lease_ms = self.shared.lease_ms;
        with_tx(&self.shared.tx, (self.shared.id.clone(), seen), move |unit, (id, seen), _| {
            Box::pin(async move { unit.outbox().acquire_leadership(id, seen, lease_ms).await })
        })
        .await
    }

    async fn renew(&self, leadership: &Leadership) -> Result<Changed, StoreError> {
        let lease_ms = self.shared.lease_ms;
        with_tx(&self.shared.tx, leadership.clone(), move |unit, leadership, _| {
            Box::pin(async move { unit.outbox().renew_leadership(leadership, lease_ms).await })
        })
        .await
    }

    async fn release(&self) -> Result<(), StoreError> {
        let Some(leadership) = self.last_leadership() else { return Ok(()) };
        self.set_term(None);
        with_tx(&self.shared.tx, leadership, |unit, leadership, _| {
            Box::pin(async move { unit.outbox().release_leadership(leadership).await })
        })
        .await
    }
}
