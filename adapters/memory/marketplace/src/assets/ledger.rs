//! The ledger: operations by idempotency key, and their entries.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use handover_events::TenantId;
use handover_memory::store::statement::next;
use handover_memory::store::tables::{Row, below};
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Numbered, StoreError};
use marketplace::ports::{AccountTotal, LedgerEntry, LedgerInconsistency, LedgerPage, LedgerPosition};
use marketplace_domain::{
    Account, Asset, AssetOperation, Entry, OperationKey, OrderId, Posting, Purse, UserId,
};

use crate::rows::{EntryRow, OperationRow};
use crate::sorted::sorted_unique;
use crate::tables::{Market, MarketRows as _, Statement};

type Key = (TenantId, OperationKey);

#[derive(Default)]
pub(crate) struct OperationIndex {
    of_order: BTreeMap<(TenantId, OrderId), BTreeSet<(i64, OperationKey)>>,
}

/// Operations are never updated. They are deleted only as by a manual SQL statement.
impl Row<Market> for OperationRow {
    type Key = Key;
    type Index = OperationIndex;

    fn key(&self) -> Key {
        (self.operation.tenant, self.operation.key.clone())
    }

    fn enter(&self, index: &mut OperationIndex) {
        if let Some(order) = self.operation.order {
            let of_order = index.of_order.entry((self.operation.tenant, order)).or_default();
            of_order.insert((self.number, self.operation.key.clone()));
        }
    }

    fn leave(&self, index: &mut OperationIndex) {
        let of_order = self.operation.order.map(|order| (self.operation.tenant, order));
        if let Some(of_order) = of_order.and_then(|order| index.of_order.get_mut(&order)) {
            of_order.remove(&(self.number, self.operation.key.clone()));
        }
    }
}

#[derive(Default)]
pub(crate) struct EntryIndex {
    of_user: BTreeMap<(TenantId, UserId, Purse), BTreeSet<i64>>,
    of_operation: BTreeMap<Key, BTreeSet<i64>>,
}

/// Entries are never updated or deleted.
impl Row<Market> for EntryRow {
    type Key = i64;
    type Index = EntryIndex;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut EntryIndex) {
        index.of_operation.entry(self.operation.clone()).or_default().insert(self.id);
        if let (Some(user), Some(purse)) = (self.entry.user, purse(self.entry.account)) {
            index.of_user.entry((self.operation.0, user, purse)).or_default().insert(self.id);
        }
    }
}

/// The purse of a user account; `None` for accounts of the marketplace.
const fn purse(account: Account) -> Option<Purse> {
    match account {
        Account::Wallet | Account::WalletHold => Some(Purse::Wallet),
        Account::Points | Account::PointsHold | Account::PointsDebt => Some(Purse::Points),
        Account::Platform | Account::Suspense | Account::Gateway | Account::PointsIssued => None,
    }
}

pub(super) fn by_key(
    statement: &Statement<'_>,
    tenant: TenantId,
    keys: &[OperationKey],
) -> Vec<AssetOperation> {
    let operations = statement.operations();
    let keys = sorted_unique(keys.iter());
    let found = keys.into_iter().filter_map(|key| operations.get(&(tenant, key.clone())));
    found.map(|row| row.operation.clone()).collect()
}

pub(super) fn entries_by_key(
    statement: &Statement<'_>,
    tenant: TenantId,
    keys: &[OperationKey],
) -> Vec<(OperationKey, Entry)> {
    let keys = sorted_unique(keys.iter());
    let of_key = |key: &OperationKey| -> Vec<Entry> { entries_of(statement, &(tenant, key.clone())) };
    keys.into_iter().flat_map(|key| of_key(key).into_iter().map(|entry| (key.clone(), entry))).collect()
}

fn entries_of(statement: &Statement<'_>, key: &Key) -> Vec<Entry> {
    let entries = statement.entries();
    let of_key = entries.select(|table| {
        let ids = table.index.of_operation.get(key).into_iter().flatten();
        ids.filter_map(|id| Some((*id, table.get(id)?)))
    });
    of_key.map(|row| row.entry.clone()).collect()
}

pub(super) fn of_order(statement: &Statement<'_>, order: (TenantId, OrderId)) -> Vec<AssetOperation> {
    let operations = statement.operations();
    let of_order = operations.select(|table| {
        let positions = table.index.of_order.get(&order).into_iter().flatten();
        positions.filter_map(move |(number, key)| Some((*number, table.get(&(order.0, key.clone()))?)))
    });
    of_order.map(|row| row.operation.clone()).collect()
}

pub(super) fn page(
    statement: &Statement<'_>,
    whose: (TenantId, UserId, Purse),
    before: Option<i64>,
    limit: u32,
) -> Vec<Numbered<LedgerEntry>> {
    let entries = statement.entries();
    let operations = statement.operations();
    let newest_first = entries.select(|table| {
        let ids = table.index.of_user.get(&whose).into_iter().flat_map(move |ids| below(ids, before));
        ids.filter_map(|id| Some((Reverse(*id), table.get(id)?)))
    });
    let with_operation = newest_first.filter_map(|row| {
        let operation = operations.get(&row.operation)?.operation.clone();
        Some(Numbered { id: row.id, effect: LedgerEntry { operation, entry: row.entry.clone() } })
    });
    with_operation.take(limited(limit)).collect()
}

pub(super) fn totals(statement: &Statement<'_>, tenant: Option<TenantId>) -> Vec<AccountTotal> {
    let mut totals = BTreeMap::new();
    for row in of_tenant(statement, tenant) {
        *totals.entry((row.operation.0, row.entry.account)).or_default() += row.entry.amount;
    }
    totals.into_iter().map(|((tenant, account), total)| AccountTotal { tenant, account, total }).collect()
}

pub(super) fn compare(
    statement: &Statement<'_>,
    tenant: Option<TenantId>,
    from: LedgerPosition,
    limit: u32,
) -> LedgerPage {
    match from {
        LedgerPosition::Entries(after) => compare_operations(statement, tenant, after, limit),
        LedgerPosition::Balances(after) => compare_balances(statement, tenant, after, limit),
    }
}

fn compare_operations(
    statement: &Statement<'_>,
    tenant: Option<TenantId>,
    after: i64,
    limit: u32,
) -> LedgerPage {
    let entries = statement.entries();
    let rows: Vec<&EntryRow> = entries.all().filter(|row| row.id > after).take(limited(limit)).collect();
    let keys =
        rows.iter().map(|row| &row.operation).filter(|(of, _)| tenant.is_none_or(|tenant| tenant == *of));
    let operations = statement.operations();
    let mut inconsistencies = Vec::new();
    for key in sorted_unique(keys) {
        let mut sums = [0, 0];
        for entry in entries_of(statement, key) {
            sums[usize::from(entry.account.asset() == Asset::Points)] += entry.amount;
        }
        if sums != [0, 0] || operations.get(key).is_none() {
            let [money, points] = sums;
            let (tenant, key) = key.clone();
            let sum = if money == 0 { points } else { money };
            inconsistencies.push(LedgerInconsistency::Unbalanced { tenant, key, sum });
        }
    }
    let next = match rows.last().filter(|_| rows.len() == limited(limit)) {
        Some(last) => LedgerPosition::Entries(last.id),
        None => LedgerPosition::Balances(None),
    };
    LedgerPage { inconsistencies, next: Some(next) }
}

fn compare_balances(
    statement: &Statement<'_>,
    tenant: Option<TenantId>,
    after: Option<(TenantId, Option<UserId>)>,
    limit: u32,
) -> LedgerPage {
    let is_next = |of: TenantId, user: UserId| match after {
        None => true,
        Some((tenant, None)) => of > tenant,
        Some((tenant, Some(after))) => (of, user) > (tenant, after),
    };
    let mut of_users: BTreeMap<(TenantId, UserId, Account), (i64, i64)> = BTreeMap::new();
    for EntryRow { operation, entry, .. } in of_tenant(statement, tenant) {
        if let (Some(user), Some(_)) = (entry.user, purse(entry.account))
            && is_next(operation.0, user)
        {
            of_users.entry((operation.0, user, entry.account)).or_insert((0, 0)).1 += entry.amount;
        }
    }
    let balances = statement.balances();
    for balance in balances.all().filter(|balance| tenant.is_none_or(|tenant| balance.tenant == tenant)) {
        let stored = match balance.purse {
            Purse::Wallet => {
                vec![(Account::Wallet, balance.available), (Account::WalletHold, balance.frozen)]
            }
            Purse::Points => vec![
                (Account::Points, balance.available),
                (Account::PointsHold, balance.frozen),
                (Account::PointsDebt, -balance.debt),
            ],
        };
        for (account, amount) in stored.into_iter().filter(|_| is_next(balance.tenant, balance.user)) {
            of_users.entry((balance.tenant, balance.user, account)).or_insert((0, 0)).0 = amount;
        }
    }
    let mut users: BTreeSet<(TenantId, UserId)> = BTreeSet::new();
    let mut inconsistencies = Vec::new();
    for ((tenant, user, account), (balance, entries)) in of_users {
        if users.len() == limited(limit) && !users.contains(&(tenant, user)) {
            let next = users.last().map(|&(tenant, user)| (tenant, Some(user)));
            return LedgerPage { inconsistencies, next: Some(LedgerPosition::Balances(next)) };
        }
        users.insert((tenant, user));
        if balance != entries {
            inconsistencies.push(LedgerInconsistency::Drifted { tenant, user, account, balance, entries });
        }
    }
    LedgerPage { inconsistencies, next: None }
}

fn of_tenant<'s>(
    statement: &'s Statement<'_>,
    tenant: Option<TenantId>,
) -> impl Iterator<Item = &'s EntryRow> {
    let entries = statement.entries();
    entries.all().filter(move |row| tenant.is_none_or(|tenant| row.operation.0 == tenant))
}

pub(super) fn post(statement: &mut Statement<'_>, posting: &Posting) -> Result<(), StoreError> {
    let Posting { operation, entries } = posting;
    if !posting.is_balanced() {
        return Err(StoreError::Backend(
            format!("the entries of operation {} do not sum to zero", operation.key).into(),
        ));
    }
    let number = next(&mut statement.sequences.operations);
    let row = OperationRow { number, operation: operation.clone() };
    let key = row.key();
    if statement.operations().get(&key).is_some() {
        return Err(conflict(format!("asset_operations.key {}", operation.key)));
    }
    let mut accounts: BTreeSet<Account> =
        entries_of(statement, &key).iter().map(|entry| entry.account).collect();
    if !entries.iter().all(|entry| accounts.insert(entry.account)) {
        return Err(conflict(format!("ledger_entries.key {}", operation.key)));
    }
    statement.own.operations.put(row);
    for entry in entries {
        let id = next(&mut statement.sequences.entries);
        statement.own.entries.put(EntryRow { id, operation: key.clone(), entry: entry.clone() });
    }
    Ok(())
}
