//! State of the whole deployment as metrics: numbers that are in the database and at the broker, and not in one process.
//!
//! **Invariant:** one process, the leader, reads and exports them. A process that no longer leads exports none, and nothing is
//! read when the metrics are exported.

mod database;
mod deployment;
mod sample;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::jobs::{Job, Leader, Periodic, Progress, RunBy};
use crate::outbox::Outbox;
use crate::ports::{Clock, Leadership, StoreError};

use sample::unix_seconds;

pub use database::DatabaseState;
pub use deployment::METRICS;
pub use sample::{STATE_TIME, Sample, StateSource};

/// Name of the lease of the process that reads the state.
const LEASE: &str = "handover-state";
/// A process that ended without releasing its lease is replaced after this time.
const LEASE_MS: u32 = 15_000;

/// The state metrics of a process. Clones share them.
#[derive(Clone)]
pub struct StateMetrics {
    leader: Leader,
    read: Arc<Mutex<Option<Read>>>,
}

/// The samples of one leadership.
struct Read {
    leadership: Leadership,
    samples: Vec<Sample>,
}

impl StateMetrics {
    /// Reads the state at this interval while this process leads, until it stops: the state of the outbox, and that of these
    /// sources.
    pub fn start(
        outbox: &Outbox,
        of_application: Vec<Arc<dyn StateSource>>,
        interval: Duration,
    ) -> StateMetrics {
        let outbox = outbox.for_background_tasks();
        let leader = Leader::start(&outbox.tx, LEASE, LEASE_MS);
        let state = StateMetrics { leader: leader.clone(), read: Arc::default() };
        let deployment = deployment::Deployment::new(outbox.clone(), leader.clone());
        let mut sources: Vec<Arc<dyn StateSource>> = vec![Arc::new(deployment)];
        sources.extend(of_application);
        let job = ReadState { sources, clock: Arc::clone(outbox.tx.clock()), state: state.clone() };
        Periodic::new("state-metrics", interval, RunBy::Leader(leader)).start(&outbox.tx, job);
        state
    }

    /// The values that this process read last; none unless it leads.
    pub fn samples(&self) -> Vec<Sample> {
        let leadership = self.leader.leadership();
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let current = read.as_ref().filter(|read| Some(&read.leadership) == leadership.as_ref());
        current.map(|read| read.samples.clone()).unwrap_or_default()
    }
}

/// The job of the leader.
struct ReadState {
    sources: Vec<Arc<dyn StateSource>>,
    clock: Arc<dyn Clock>,
    state: StateMetrics,
}

#[async_trait]
impl Job for ReadState {
    async fn run(&self, leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let Some(leadership) = leadership else { return Ok(Progress::Done) };
        let at = self.clock.now();
        let mut samples = vec![STATE_TIME.sample([], unix_seconds(at))];
        let mut failed = None;
        for source in &self.sources {
            match source.read().await {
                Ok(read) => samples.extend(read),
                // The others are exported all the same; the job reports its error.
                Err(error) => failed = Some(error),
            }
        }
        let read = Read { leadership: leadership.clone(), samples };
        *self.state.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
        failed.map_or(Ok(Progress::Done), Err)
    }
}
