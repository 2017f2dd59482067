//! Checks that at most one process leads: a job of the leader runs only in the process that acquired the lease last.

use std::time::Duration;

use handover_outbox::jobs::LEADER_LEASE_MS;
use handover_outbox::ports::{CandidateId, Changed, LeaderLease, LeaderRepoWrapper, StoreError};

use super::super::Unit;
use crate::ports::Process;

/// Time after a change of the database's clock in which two processes may lead: until a new process has taken a lease that
/// was written before the change, and the other leader has tried to renew it.
const UNCERTAIN: Duration = Duration::from_millis(2 * LEADER_LEASE_MS as u64);

impl LeaderRepoWrapper for Unit {
    async fn acquire_leadership(
        &mut self,
        candidate: &CandidateId,
        seen: &LeaderLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        let changed = self.inner.outbox().acquire_leadership(candidate, seen, for_ms).await?;
        self.writes.acquires_leadership |= changed == Changed::One;
        Ok(changed)
    }
}

impl Process {
    /// Reports a violation if this process, which runs this job of the leader, is not the leader. A process that starts
    /// while the clock of the database has just been set cannot know whether a lease has ended, and may take it; the other
    /// leader detects that within the length of a lease.
    pub(crate) fn check_leader(&self, job: &str) {
        let (leader, clock_set) =
            self.faults.observed(|observed| (observed.leader.clone(), observed.database_clock_set));
        let is_certain = clock_set.is_none_or(|set| set.elapsed() > UNCERTAIN);
        if is_certain && leader.as_ref() != Some(&self.name) {
            let leader = leader.as_deref().unwrap_or("no process");
            let process = &self.name;
            self.faults.violation(format!("{process} runs the {job} of the leader; {leader} leads"));
        }
    }
}
