//! Results of claimed deliveries.
//!
//! Most results of a group are alike, because receivers accept most deliveries: one statement records all that are alike.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_outbox::ports::{AfterAttempt, DeliveryState, SettledDelivery, StoreError};

use super::deliveries::in_ids;
use super::tables::{AttemptTable, DeliveryTable, NewAttempt};
use crate::dialect::{MAX_ROWS, padded};
use crate::session::Session;
use crate::table::Table;
use crate::value::{Value, values};

/// The values that a result writes into its delivery, besides the time at which the delivery ended.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Written<'s> {
    state: DeliveryState,
    /// The new due time of a pending delivery.
    due_time: Option<DateTime<Utc>>,
    is_failed_attempt: bool,
    status: Option<u16>,
    error: Option<&'s str>,
}

impl Written<'_> {
    fn by(settled: &SettledDelivery) -> Written<'_> {
        let has_attempt = settled.attempt.is_some();
        let (state, due_time, is_failed_attempt) = match settled.after {
            AfterAttempt::Delivered => (DeliveryState::Delivered, None, false),
            AfterAttempt::Retry(due) => (DeliveryState::Pending, Some(due), has_attempt),
            AfterAttempt::Released(due) => (DeliveryState::Pending, Some(due), false),
            AfterAttempt::Dead => (DeliveryState::Dead, None, has_attempt),
        };
        let status = settled.attempt.as_ref().and_then(|attempt| attempt.status);
        Written { state, due_time, is_failed_attempt, status, error: settled.error.as_deref() }
    }
}

impl Session {
    pub(super) async fn settle_deliveries(
        &mut self,
        settled: &[SettledDelivery],
    ) -> Result<Vec<i64>, StoreError> {
        let recorded = self.current(settled).await?;
        let mut alike: BTreeMap<Written<'_>, Vec<&SettledDelivery>> = BTreeMap::new();
        for settled in &recorded {
            alike.entry(Written::by(settled)).or_default().push(settled);
        }
        let mut ended = Vec::new();
        for (written, settled) in alike {
            self.write(&written, &settled).await?;
            if written.due_time.is_none() {
                ended.extend(settled.iter().map(|settled| settled.delivery));
            }
        }
        let attempts = recorded.iter().filter_map(|settled| {
            let attempt = settled.attempt.as_ref()?;
            Some(NewAttempt { delivery: settled.delivery, endpoint: settled.endpoint.id, attempt })
        });
        self.insert_into::<AttemptTable>(AttemptTable::rows(attempts), "").await?;
        self.unblock_next(&ended).await?;
        Ok(recorded.into_iter().map(|settled| settled.delivery).collect())
    }

    /// The results whose claims are the current ones, in the order of their deliveries. Locks these in this order, as every
    /// transaction does.
    async fn current<'s>(
        &mut self,
        settled: &'s [SettledDelivery],
    ) -> Result<Vec<&'s SettledDelivery>, StoreError> {
        let ids: BTreeSet<i64> = settled.iter().map(|settled| settled.delivery).collect();
        let ids: Vec<i64> = ids.into_iter().collect();
        let mut claims = BTreeMap::new();
        for ids in ids.chunks(MAX_ROWS) {
            let (in_ids, values) = in_ids(ids);
            let sql = format!(
                "SELECT id, claim_id FROM webhook_deliveries {index} \
                 WHERE id {in_ids} AND state = 'PENDING' ORDER BY id {lock}",
                index = self.dialect.lock_index("PRIMARY"),
                lock = self.dialect.for_update(),
            );
            for row in &self.fetch(&sql, values).await? {
                let row = DeliveryTable::fields(row);
                if let Some(claim) = row.opt_string("claim_id")? {
                    claims.insert(row.int("id")?, claim);
                }
            }
        }
        let mut current = BTreeMap::new();
        for settled in settled {
            if claims.get(&settled.delivery) == Some(&settled.claim.0) {
                current.entry(settled.delivery).or_insert(settled);
            }
        }
        Ok(current.into_values().collect())
    }

    /// Changes locked deliveries.
    async fn write(&mut self, written: &Written<'_>, settled: &[&SettledDelivery]) -> Result<(), StoreError> {
        for settled in settled.chunks(MAX_ROWS) {
            let ids: Vec<i64> = settled.iter().map(|settled| settled.delivery).collect();
            let mut values = values![
                written.state.as_str(),
                written.due_time,
                written.is_failed_attempt,
                written.status.map(i64::from),
                written.error
            ];
            let mut settle_time = "NULL".to_owned();
            if written.due_time.is_none() {
                let ends = padded(settled);
                settle_time = format!("CASE id{} END", " WHEN ? THEN ?".repeat(ends.len()));
                values.extend(ends.iter().flat_map(|end| [Value::from(end.delivery), Value::from(end.at)]));
            }
            let (in_ids, id_values) = in_ids(&ids);
            values.extend(id_values);
            let sql = format!(
                "UPDATE webhook_deliveries {index} SET state = ?, due_time = COALESCE(?, due_time), claim_id = NULL, \
                 claims = 0, attempts = attempts + ?, last_status = COALESCE(?, last_status), \
                 last_error = COALESCE(?, last_error), settle_time = {settle_time} WHERE id {in_ids}",
                index = self.dialect.lock_index("PRIMARY"),
            );
            self.execute(&sql, values).await?;
        }
        Ok(())
    }
}
