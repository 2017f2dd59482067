//! Buyer credit.

use async_trait::async_trait;
use handover_events::{EventId, TenantId};
use handover_memory::store::statement::next;
use handover_memory::store::tables::Row;
use handover_outbox::ports::{Numbered, StoreError};
use marketplace::ports::{BuyerCredit, CreditChange, CreditQueries, CreditRepo, EffectKind};
use marketplace_domain::{OrderId, UserId};

use super::effects::{OfOrder, check_key, effects_of, keys_of};
use crate::rows::CreditRow;
use crate::tables::{Lock, Market, MarketRows as _};
use crate::unit::MarketUnit;

impl OfOrder for CreditChange {
    fn order(&self) -> (TenantId, OrderId) {
        (self.tenant, self.order)
    }

    fn fact(&self) -> String {
        self.step.as_str().to_owned()
    }

    fn event(&self) -> &EventId {
        &self.event_id
    }
}

impl Row<Market> for CreditRow {
    type Key = (TenantId, UserId);
    type Index = ();

    fn key(&self) -> (TenantId, UserId) {
        (self.tenant, self.buyer)
    }
}

#[async_trait]
impl CreditQueries for MarketUnit {
    async fn credit_of(
        &mut self,
        tenant: TenantId,
        buyer: UserId,
    ) -> Result<Option<BuyerCredit>, StoreError> {
        self.read(|statement| statement.credit().get(&(tenant, buyer)).map(|row| row.credit.clone())).await
    }

    async fn credit_changes(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<CreditChange>, StoreError> {
        self.read(|statement| effects_of(statement.credit_changes(), (tenant, orders), CreditChange::clone))
            .await
    }
}

#[async_trait]
impl CreditRepo for MarketUnit {
    async fn change_credit(&mut self, changes: &[CreditChange]) -> Result<(), StoreError> {
        let mut locks: Vec<Lock> =
            changes.iter().map(|change| Lock::Credit(change.tenant, change.buyer)).collect();
        locks.sort_unstable();
        locks.extend(keys_of(EffectKind::CreditChange, changes));
        self.write(locks, |statement| {
            for change in changes {
                check_key(statement.credit_changes(), change)?;
                let id = next(&mut statement.sequences.effects);
                statement.own.credit_changes.put(Numbered { id, effect: change.clone() });
                let before = statement.credit().get(&(change.tenant, change.buyer));
                let counts = before.map(|row| row.credit.counts).unwrap_or_default().and(change.step);
                statement.own.credit.put(CreditRow {
                    tenant: change.tenant,
                    buyer: change.buyer,
                    credit: BuyerCredit {
                        counts,
                        score: counts.score(),
                        last_event_id: change.event_id.clone(),
                        update_time: change.at,
                    },
                });
            }
            Ok(())
        })
        .await
    }
}
