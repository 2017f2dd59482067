//! Totals of the ledger, and its comparison with the operations and balances.

use std::collections::{BTreeMap, BTreeSet};

use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_sql::{Dialect, Row, Session, Value, values};
use marketplace::ports::{AccountTotal, LedgerInconsistency, LedgerPage, LedgerPosition};
use marketplace_domain::{Account, Asset, OperationKey, UserId};

use super::operations;

/// The `WHERE` clause, with its parameters, that limits a query to one tenant; empty for all tenants.
fn of_tenant(column: &str, tenant: Option<TenantId>) -> (String, Vec<Value>) {
    match tenant {
        None => (String::new(), Vec::new()),
        Some(tenant) => (format!("WHERE {column} = ?"), values![tenant.get()]),
    }
}

pub(super) async fn totals(
    session: &mut Session,
    tenant: Option<TenantId>,
) -> Result<Vec<AccountTotal>, StoreError> {
    let (only, values) = of_tenant("tenant_id", tenant);
    let total = session.dialect().sum("amount");
    let sql = format!(
        "SELECT tenant_id, account, {total} AS total FROM ledger_entries {only} GROUP BY tenant_id, account"
    );
    let rows = session.fetch(&sql, values).await?;
    let total = |row: &Row| {
        let row = row.of("ledger_entries", "account");
        Ok(AccountTotal {
            tenant: row.id("tenant_id")?,
            account: row.named("account")?,
            total: row.int("total")?,
        })
    };
    let mut totals = rows.iter().map(total).collect::<Result<Vec<_>, StoreError>>()?;
    // The totals are sorted here, because SQL would sort the accounts alphabetically.
    totals.sort_by_key(|total| (total.tenant, total.account));
    Ok(totals)
}

/// The accounts whose balance `asset_balances` stores: account, SQL expression of the balance, purse of the row.
const BALANCE_COLUMNS: &[(Account, &str, &str)] = &[
    (Account::Wallet, "available", "wallet"),
    (Account::WalletHold, "frozen", "wallet"),
    (Account::Points, "available", "points"),
    (Account::PointsHold, "frozen", "points"),
    (Account::PointsDebt, "-debt", "points"),
];

/// The users of the next balances of a tenant.
fn next_users(tenant: TenantId, after: i64, limit: u32) -> (String, Vec<Value>) {
    let sql = "SELECT user_id FROM asset_balances WHERE tenant_id = ? AND user_id > ? ORDER BY user_id, purse LIMIT ?";
    (sql.to_owned(), values![tenant.get(), after, limit])
}

/// Accounts of the users of a tenant above the first and up to the second one whose balance differs from the sum of their entries;
/// a missing balance or entry counts as zero.
fn drifted(dialect: &dyn Dialect, tenant: TenantId, (after, last): (i64, i64)) -> (String, Vec<Value>) {
    let of_users = "tenant_id = ? AND user_id > ? AND user_id <= ?";
    let balances = BALANCE_COLUMNS.iter().map(|(account, column, purse)| {
        format!(
            "SELECT user_id, '{account}' AS account, {column} AS balance_part, 0 AS amount FROM asset_balances \
             WHERE {of_users} AND purse = '{purse}'"
        )
    });
    let balances = balances.collect::<Vec<_>>().join(" UNION ALL ");
    let positions: String = BALANCE_COLUMNS
        .iter()
        .zip(0..)
        .map(|((account, ..), position)| format!("WHEN '{account}' THEN {position} "))
        .collect();
    let balance = dialect.sum("balance_part");
    let entries = dialect.sum("amount");
    let sql = format!(
        "SELECT user_id, account, {balance} AS balance, {entries} AS entries FROM ({balances} UNION ALL \
         SELECT user_id, account, 0 AS balance_part, amount FROM ledger_entries {index} WHERE {of_users} \
         AND account IN ({accounts})) AS combined GROUP BY user_id, account HAVING {balance} <> {entries} \
         ORDER BY user_id, CASE account {positions}ELSE {last} END",
        index = dialect.index("idx_ledger_account"),
        accounts =
            BALANCE_COLUMNS.iter().map(|(account, ..)| format!("'{account}'")).collect::<Vec<_>>().join(", "),
        last = BALANCE_COLUMNS.len(),
    );
    let range = values![tenant.get(), after, last];
    let values = range.iter().cycle().take(range.len() * (BALANCE_COLUMNS.len() + 1)).cloned().collect();
    (sql, values)
}

fn decode_drifted(tenant: TenantId, row: &Row) -> Result<LedgerInconsistency, StoreError> {
    let row = row.of("asset_balances", "user_id");
    Ok(LedgerInconsistency::Drifted {
        tenant,
        user: row.id("user_id")?,
        account: row.named("account")?,
        balance: row.int("balance")?,
        entries: row.int("entries")?,
    })
}

pub(super) async fn compare(
    session: &mut Session,
    tenant: Option<TenantId>,
    from: LedgerPosition,
    limit: u32,
) -> Result<LedgerPage, StoreError> {
    match from {
        LedgerPosition::Entries(after) => compare_operations(session, tenant, after, limit).await,
        LedgerPosition::Balances(Some((of, Some(after)))) => {
            compare_balances(session, of, after.get(), limit).await
        }
        LedgerPosition::Balances(after) => {
            let compared = after.map(|(tenant, _)| tenant);
            let next = match tenant {
                Some(tenant) => Some(tenant).filter(|_| compared.is_none()),
                None => next_tenant(session, compared).await?,
            };
            match next {
                Some(next) => compare_balances(session, next, i64::MIN, limit).await,
                None => Ok(LedgerPage { inconsistencies: Vec::new(), next: None }),
            }
        }
    }
}

/// Finds operations whose entries do not sum to zero, and entries without an operation. Both are immutable and written together.
async fn compare_operations(
    session: &mut Session,
    tenant: Option<TenantId>,
    after: i64,
    limit: u32,
) -> Result<LedgerPage, StoreError> {
    let sql = "SELECT id, tenant_id, idempotency_key FROM ledger_entries WHERE id > ? ORDER BY id LIMIT ?";
    let rows = session.fetch(sql, values![after, limit]).await?;
    let mut last = None;
    let mut of_tenants: BTreeMap<TenantId, BTreeSet<OperationKey>> = BTreeMap::new();
    for row in &rows {
        last = Some(row.int("id")?);
        let row = row.of("ledger_entries", "idempotency_key");
        let of: TenantId = row.id("tenant_id")?;
        if tenant.is_none_or(|tenant| tenant == of) {
            of_tenants.entry(of).or_default().insert(OperationKey::stored(row.string("idempotency_key")?));
        }
    }
    let mut inconsistencies = Vec::new();
    for (tenant, keys) in of_tenants {
        let keys: Vec<OperationKey> = keys.into_iter().collect();
        let entries = operations::entries_by_key(session, tenant, &keys).await?;
        let operations = operations::operations_by_key(session, tenant, &keys).await?;
        let existing: BTreeSet<OperationKey> =
            operations.into_iter().map(|operation| operation.key).collect();
        let mut sums: BTreeMap<OperationKey, [i64; 2]> = BTreeMap::new();
        for (key, entry) in entries {
            let is_points = entry.account.asset() == Asset::Points;
            sums.entry(key).or_default()[usize::from(is_points)] += entry.amount;
        }
        let different = sums.into_iter().filter(|(key, sums)| *sums != [0, 0] || !existing.contains(key));
        inconsistencies.extend(different.map(|(key, [money, points])| LedgerInconsistency::Unbalanced {
            tenant,
            key,
            sum: if money == 0 { points } else { money },
        }));
    }
    let next = match last.filter(|_| rows.len() == limit as usize) {
        Some(last) => LedgerPosition::Entries(last),
        None => LedgerPosition::Balances(None),
    };
    Ok(LedgerPage { inconsistencies, next: Some(next) })
}

/// Compares users of a tenant. Those with entries and without a balance are compared with the next user that has a balance.
async fn compare_balances(
    session: &mut Session,
    tenant: TenantId,
    after: i64,
    limit: u32,
) -> Result<LedgerPage, StoreError> {
    let (sql, values) = next_users(tenant, after, limit);
    let rows = session.fetch(&sql, values).await?;
    let last = rows.last().filter(|_| rows.len() == limit as usize);
    let last = last.map(|row| row.of("asset_balances", "user_id").id("user_id")).transpose()?;
    let (sql, values) = drifted(session.dialect(), tenant, (after, last.map_or(i64::MAX, UserId::get)));
    let rows = session.fetch(&sql, values).await?;
    let inconsistencies = rows.iter().map(|row| decode_drifted(tenant, row)).collect::<Result<_, _>>()?;
    Ok(LedgerPage { inconsistencies, next: Some(LedgerPosition::Balances(Some((tenant, last)))) })
}

/// The first tenant after this one with a balance or an entry of a user.
async fn next_tenant(session: &mut Session, after: Option<TenantId>) -> Result<Option<TenantId>, StoreError> {
    let after = after.map_or(i64::MIN, TenantId::get);
    let mut next = None;
    for table in ["asset_balances", "ledger_entries"] {
        let sql = format!("SELECT tenant_id FROM {table} WHERE tenant_id > ? ORDER BY tenant_id LIMIT 1");
        for row in &session.fetch(&sql, values![after]).await? {
            let found: TenantId = row.of(table, "tenant_id").id("tenant_id")?;
            next = Some(next.map_or(found, |next| found.min(next)));
        }
    }
    Ok(next)
}
