//! Leadership by named leases, and the records of periodic jobs.
//!
//! **Invariant:** taking a leader lease increments its epoch, and a lease is taken only if its row is unchanged since it
//! was read. The observer decides whether a lease has ended ([`crate::LeaseWatch`]), because the database
//! clock may have been set.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::error::{Changed, StoreError};

/// Identifies one run of one candidate for leadership.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(pub String);

impl fmt::Display for CandidateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Leadership of a candidate at an epoch. [`LeaderRepo::fence_leader`] needs this value to fence the writes of a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    /// Name of the lease.
    pub name: String,
    /// Candidate that acquired the lease.
    pub leader: CandidateId,
    /// Epoch that the lease had after the candidate acquired it.
    pub epoch: i64,
}

/// Row of a leader lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderLease {
    /// Name of the lease.
    pub name: String,
    /// Leader; `None` before the first election and after the lease was released.
    pub leader: Option<CandidateId>,
    /// Number that increases by one each time a candidate acquires the lease; 0 before the first election.
    pub epoch: i64,
    /// End of the leader's lease.
    pub lease_until: Option<DateTime<Utc>>,
}

impl LeaderLease {
    /// The lease before its first election.
    pub fn unused(name: &str) -> LeaderLease {
        LeaderLease { name: name.to_owned(), leader: None, epoch: 0, lease_until: None }
    }
}

/// Result of one run of a periodic job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunResult {
    /// The run ended without an error, and left no work that was due.
    Success,
    /// The run ended without an error, and left work that was due.
    WorkLeft,
    /// The run ended with an error.
    Failure,
}

/// Times of the last runs of a job, of all processes together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// Name of the job.
    pub job: String,
    /// Begin of the run that was recorded last.
    pub last_run: DateTime<Utc>,
    /// Begin of the run without an error that was recorded last.
    pub last_success: Option<DateTime<Utc>>,
    /// Begin of the first run since which every recorded run without an error has left work that was due; `None`: the last one
    /// left none.
    pub behind_since: Option<DateTime<Utc>>,
    /// Interval of the runs; `None` if a process of outbox schema 6 or earlier recorded them.
    pub interval: Option<Duration>,
}

/// Reads leader leases and the records of jobs.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait JobQueries: Send {
    /// The lease with this name. A lease that was never acquired MUST be equal to [`LeaderLease::unused`].
    async fn leader_lease(&mut self, name: &str) -> Result<LeaderLease, StoreError>;

    /// The records of all jobs that have run, ordered by name.
    async fn job_records(&mut self) -> Result<Vec<JobRecord>, StoreError>;
}

/// Writes leader leases. Durations start at the current time of the database clock.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait LeaderRepo: Send {
    /// Takes a lease if its row is still equal to `seen`, so that no candidate has taken, renewed or released it since.
    /// After `Changed::One` the epoch is `seen.epoch + 1`.
    async fn acquire_leadership(
        &mut self,
        candidate: &CandidateId,
        seen: &LeaderLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError>;

    /// Renews the lease if this leader still owns it at its epoch, even if the lease has expired.
    async fn renew_leadership(&mut self, leadership: &Leadership, for_ms: u32)
    -> Result<Changed, StoreError>;

    /// Releases the lease if this leader still owns it at its epoch: no leader, no lease, same epoch.
    async fn release_leadership(&mut self, leadership: &Leadership) -> Result<(), StoreError>;

    /// Whether this leader still owns the lease at its epoch, even if the lease has expired. If so, no other candidate
    /// can take the lease until the unit of work ends.
    async fn fence_leader(&mut self, leadership: &Leadership) -> Result<bool, StoreError>;
}

/// Writes the records of jobs.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait JobRepo: Send {
    /// Records a run that began at this time, and the interval of the job in milliseconds. A failed run MUST NOT change the time of the
    /// last successful run, which another process may have recorded, nor `behind_since`. A run that left work MUST set `behind_since`
    /// only if it is `None`.
    async fn record_run(
        &mut self,
        job: &str,
        at: DateTime<Utc>,
        result: RunResult,
        interval: Duration,
    ) -> Result<(), StoreError>;
}
