//! Results of claimed deliveries.

use chrono::{DateTime, Utc};
use handover_outbox::ports::{AfterAttempt, DeliveryState, SettledDelivery, StoreError};

use super::tables::{AttemptTable, NewAttempt};
use crate::session::Session;
use crate::table::Table;
use crate::value::values;

/// The new state, and the new due time of a pending delivery.
fn after(settled: &SettledDelivery) -> (DeliveryState, Option<DateTime<Utc>>) {
    match settled.after {
        AfterAttempt::Delivered => (DeliveryState::Delivered, None),
        AfterAttempt::Retry(due) | AfterAttempt::Released(due) => (DeliveryState::Pending, Some(due)),
        AfterAttempt::Dead => (DeliveryState::Dead, None),
    }
}

/// Whether the result counts as a failed attempt.
fn is_failed_attempt(settled: &SettledDelivery) -> bool {
    match settled.after {
        AfterAttempt::Retry(_) | AfterAttempt::Dead => settled.attempt.is_some(),
        AfterAttempt::Delivered | AfterAttempt::Released(_) => false,
    }
}

impl Session {
    pub(super) async fn settle_deliveries(
        &mut self,
        settled: &[SettledDelivery],
    ) -> Result<Vec<i64>, StoreError> {
        // Every transaction locks deliveries in the order of their ids.
        let mut in_order: Vec<&SettledDelivery> = settled.iter().collect();
        in_order.sort_by_key(|settled| settled.delivery);
        let mut recorded = Vec::with_capacity(settled.len());
        for settled in in_order {
            if self.settle_one(settled).await? {
                recorded.push(settled);
            }
        }
        let attempts = recorded.iter().filter_map(|settled| {
            let attempt = settled.attempt.as_ref()?;
            Some(NewAttempt { delivery: settled.delivery, endpoint: settled.endpoint, attempt })
        });
        self.insert_into::<AttemptTable>(AttemptTable::rows(attempts), "").await?;
        let ended = recorded.iter().filter(|settled| after(settled).1.is_none());
        let ended: Vec<i64> = ended.map(|settled| settled.delivery).collect();
        self.unblock_next(&ended).await?;
        Ok(recorded.into_iter().map(|settled| settled.delivery).collect())
    }

    /// Changes the delivery if the claim is the current one.
    async fn settle_one(&mut self, settled: &SettledDelivery) -> Result<bool, StoreError> {
        let (state, due_time) = after(settled);
        let settle_time = due_time.is_none().then_some(settled.at);
        let status = settled.attempt.as_ref().and_then(|attempt| attempt.status);
        let sql = "UPDATE webhook_deliveries SET state = ?, due_time = COALESCE(?, due_time), claim_id = NULL, \
                   claims = 0, attempts = attempts + ?, last_status = COALESCE(?, last_status), \
                   last_error = COALESCE(?, last_error), settle_time = ? \
                   WHERE id = ? AND claim_id = ? AND state = 'PENDING'";
        let values = values![
            state.as_str(),
            due_time,
            is_failed_attempt(settled),
            status.map(i64::from),
            &settled.error,
            settle_time,
            settled.delivery,
            &settled.claim.0,
        ];
        Ok(self.execute(sql, values).await? == 1)
    }
}
