//! Checks that at most one process leads: a job of the leader runs only in the process that acquired the lease last.

use handover_outbox::ports::{CandidateId, Changed, LeaderLease, LeaderRepoWrapper, StoreError};
use marketplace::ports::MarketView;

use super::super::{Faulty, Unit};

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

impl<I: MarketView + ?Sized> Faulty<I> {
    /// Reports a violation if this process, which runs this job of the leader, is not the leader.
    pub(crate) fn check_leader(&self, job: &str) {
        let leader = self.process.faults.observed(|observed| observed.leader.clone());
        if leader.as_ref() != Some(&self.process.name) {
            let leader = leader.as_deref().unwrap_or("no process");
            let process = &self.process.name;
            self.process.faults.violation(format!("{process} runs the {job} of the leader; {leader} leads"));
        }
    }
}
