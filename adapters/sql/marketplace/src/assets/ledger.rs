//! Totals of the ledger, and checks for discrepancies.

use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_sql::{Dialect, Row, Session, Value, values};
use marketplace::ports::{AccountTotal, LedgerInconsistency};
use marketplace_domain::{Account, Asset, OperationKey};

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

/// The names of this asset's accounts, as a list for `IN`.
fn accounts_of(asset: Asset) -> String {
    let accounts = Account::ALL.iter().filter(|account| account.asset() == asset);
    accounts.map(|account| format!("'{account}'")).collect::<Vec<_>>().join(", ")
}

/// Operations whose entries do not sum to zero, and entries without an operation.
fn unbalanced(dialect: &dyn Dialect, tenant: Option<TenantId>, most: u32) -> (String, Vec<Value>) {
    let (only, mut values) = of_tenant("e.tenant_id", tenant);
    let sum = |asset| {
        dialect.sum(&format!("CASE WHEN e.account IN ({}) THEN e.amount ELSE 0 END", accounts_of(asset)))
    };
    let money = sum(Asset::Wallet);
    let points = sum(Asset::Points);
    let sql = format!(
        "SELECT e.tenant_id, e.idempotency_key, {money} AS money, {points} AS points FROM ledger_entries e \
         LEFT JOIN asset_operations o ON o.tenant_id = e.tenant_id AND o.idempotency_key = e.idempotency_key {only} \
         GROUP BY e.tenant_id, e.idempotency_key HAVING {money} <> 0 OR {points} <> 0 OR count(o.id) = 0 \
         ORDER BY e.tenant_id, e.idempotency_key LIMIT ?"
    );
    values.push(most.into());
    (sql, values)
}

fn decode_unbalanced(row: &Row) -> Result<LedgerInconsistency, StoreError> {
    let row = row.of("ledger_entries", "idempotency_key");
    let money = row.int("money")?;
    let points = row.int("points")?;
    Ok(LedgerInconsistency::Unbalanced {
        tenant: row.id("tenant_id")?,
        key: OperationKey::stored(row.string("idempotency_key")?),
        sum: if money == 0 { points } else { money },
    })
}

/// The accounts whose balance `asset_balances` stores: account, SQL expression of the balance, purse of the row.
const BALANCE_COLUMNS: &[(Account, &str, &str)] = &[
    (Account::Wallet, "available", "wallet"),
    (Account::WalletHold, "frozen", "wallet"),
    (Account::Points, "available", "points"),
    (Account::PointsHold, "frozen", "points"),
    (Account::PointsDebt, "-debt", "points"),
];

/// Accounts whose balance differs from the sum of their entries; a missing balance or entry counts as zero.
fn drifted(dialect: &dyn Dialect, tenant: Option<TenantId>, most: u32) -> (String, Vec<Value>) {
    let (only, mut values) = of_tenant("tenant_id", tenant);
    let balances = BALANCE_COLUMNS.iter().map(|(account, column, purse)| {
        format!(
            "SELECT tenant_id, user_id, '{account}' AS account, {column} AS balance_part, 0 AS amount FROM asset_balances \
             WHERE purse = '{purse}'"
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
        "SELECT tenant_id, user_id, account, {balance} AS balance, {entries} AS entries FROM ({balances} UNION ALL \
         SELECT tenant_id, user_id, account, 0 AS balance_part, amount FROM ledger_entries WHERE user_id IS NOT NULL \
         AND account IN ({accounts})) AS combined \
         {only} GROUP BY tenant_id, user_id, account HAVING {balance} <> {entries} \
         ORDER BY tenant_id, user_id, CASE account {positions}ELSE {last} END LIMIT ?",
        accounts =
            BALANCE_COLUMNS.iter().map(|(account, ..)| format!("'{account}'")).collect::<Vec<_>>().join(", "),
        last = BALANCE_COLUMNS.len(),
    );
    values.push(most.into());
    (sql, values)
}

fn decode_drifted(row: &Row) -> Result<LedgerInconsistency, StoreError> {
    let row = row.of("asset_balances", "user_id");
    Ok(LedgerInconsistency::Drifted {
        tenant: row.id("tenant_id")?,
        user: row.id("user_id")?,
        account: row.named("account")?,
        balance: row.int("balance")?,
        entries: row.int("entries")?,
    })
}

pub(super) async fn discrepancies(
    session: &mut Session,
    tenant: Option<TenantId>,
    most: u32,
) -> Result<Vec<LedgerInconsistency>, StoreError> {
    let (sql, values) = unbalanced(session.dialect(), tenant, most);
    let rows = session.fetch(&sql, values).await?;
    let mut discrepancies = rows.iter().map(decode_unbalanced).collect::<Result<Vec<_>, _>>()?;
    let left = most.saturating_sub(u32::try_from(discrepancies.len()).unwrap_or(most));
    if left > 0 {
        let (sql, values) = drifted(session.dialect(), tenant, left);
        for row in &session.fetch(&sql, values).await? {
            discrepancies.push(decode_drifted(row)?);
        }
    }
    Ok(discrepancies)
}
