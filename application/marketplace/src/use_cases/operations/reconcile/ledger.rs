//! The comparison of the ledger, in parts of bounded size.

use handover_events::TenantId;
use handover_outbox::ports::StoreError;

use super::continuous::Pace;
use super::report::MAX_FINDINGS;
use crate::ports::{LedgerInconsistency, LedgerPosition};
use crate::use_cases::operations::Operations;

/// Number of entries or balances of one part.
const ENTRIES: u32 = 1_000;

impl Operations {
    /// Discrepancies of the ledger, at most one part more than can be reported, and whether all of it was compared.
    pub(super) async fn ledger_inconsistencies(
        &self,
        tenant: Option<TenantId>,
        pace: &mut Pace,
    ) -> Result<(Vec<LedgerInconsistency>, bool), StoreError> {
        let mut found = Vec::new();
        let mut position = Some(LedgerPosition::START);
        while let Some(from) = position.filter(|_| found.len() <= MAX_FINDINGS && !pace.is_stopped()) {
            let page = self.tx.view().await?.compare_ledger(tenant, from, ENTRIES).await?;
            position = page.next;
            page.add_to(&mut found);
            pace.rest(&self.tx).await;
        }
        Ok((found, position.is_none()))
    }
}
