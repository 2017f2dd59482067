//! Balances of wallets and points.

use handover_events::TenantId;
use handover_memory::store::tables::Row;
use handover_outbox::ports::StoreError;
use marketplace_domain::{Balance, Purse, UserId};

use crate::tables::{Market, Statement};

impl Row<Market> for Balance {
    type Key = (TenantId, UserId, Purse);
    type Index = ();

    fn key(&self) -> (TenantId, UserId, Purse) {
        (self.tenant, self.user, self.purse)
    }
}

pub(super) fn put(statement: &mut Statement<'_>, balance: &Balance) -> Result<(), StoreError> {
    let Balance { user, purse, available, frozen, debt, .. } = balance;
    if *available < 0 || *frozen < 0 || *debt < 0 {
        return Err(StoreError::Backend(
            format!("balances: {purse} of user {user} would become negative: available {available}, frozen {frozen}, debt {debt}").into(),
        ));
    }
    statement.own.balances.put(balance.clone());
    Ok(())
}
