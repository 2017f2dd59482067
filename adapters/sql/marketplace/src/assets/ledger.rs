//! What the ledger adds up to, and where it does not.

use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_sql::{Dialect, Row, Session, Value, values};
use marketplace::ports::{AccountTotal, LedgerFlaw};
use marketplace_domain::{Account, Asset, OperationKey};

/// Narrows a query to one tenant, if it is about one.
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
    // Not in SQL: the order of accounts is not that of their names.
    totals.sort_by_key(|total| (total.tenant, total.account));
    Ok(totals)
}

/// The names of the accounts that are kept in money, or in points, as a list for `IN`.
fn kept_in(asset: Asset) -> String {
    let accounts = Account::ALL.iter().filter(|account| account.asset() == asset);
    accounts.map(|account| format!("'{account}'")).collect::<Vec<_>>().join(", ")
}

/// Operations whose entries do not sum to zero, and entries of operations that are not there.
fn unbalanced(dialect: &dyn Dialect, tenant: Option<TenantId>, most: u32) -> (String, Vec<Value>) {
    let (only, mut values) = of_tenant("e.tenant_id", tenant);
    let sum =
        |asset| dialect.sum(&format!("CASE WHEN e.account IN ({}) THEN e.amount ELSE 0 END", kept_in(asset)));
    let (money, points) = (sum(Asset::Wallet), sum(Asset::Points));
    let sql = format!(
        "SELECT e.tenant_id, e.idempotency_key, {money} AS money, {points} AS points FROM ledger_entries e \
         LEFT JOIN asset_operations o ON o.tenant_id = e.tenant_id AND o.idempotency_key = e.idempotency_key {only} \
         GROUP BY e.tenant_id, e.idempotency_key HAVING {money} <> 0 OR {points} <> 0 OR count(o.id) = 0 \
         ORDER BY e.tenant_id, e.idempotency_key LIMIT ?"
    );
    values.push(most.into());
    (sql, values)
}

fn unbalanced_flaw(row: &Row) -> Result<LedgerFlaw, StoreError> {
    let row = row.of("ledger_entries", "idempotency_key");
    let (money, points) = (row.int("money")?, row.int("points")?);
    Ok(LedgerFlaw::Unbalanced {
        tenant: row.id("tenant_id")?,
        key: OperationKey::stored(row.string("idempotency_key")?),
        sum: if money == 0 { points } else { money },
    })
}

/// What a column of the balances says about an account: account, column, purse.
const SAID: &[(Account, &str, &str)] = &[
    (Account::Wallet, "available", "wallet"),
    (Account::WalletHold, "frozen", "wallet"),
    (Account::Points, "available", "points"),
    (Account::PointsHold, "frozen", "points"),
    (Account::PointsDebt, "-debt", "points"),
];

/// Balances beside the sums of their entries, where they differ; either may be missing.
fn drifted(dialect: &dyn Dialect, tenant: Option<TenantId>, most: u32) -> (String, Vec<Value>) {
    let (only, mut values) = of_tenant("tenant_id", tenant);
    let said = SAID.iter().map(|(account, column, purse)| {
        format!(
            "SELECT tenant_id, user_id, '{account}' AS account, {column} AS said, 0 AS amount FROM asset_balances \
             WHERE purse = '{purse}'"
        )
    });
    let said = said.collect::<Vec<_>>().join(" UNION ALL ");
    let place: String = SAID
        .iter()
        .zip(0..)
        .map(|((account, ..), place)| format!("WHEN '{account}' THEN {place} "))
        .collect();
    let (balance, entries) = (dialect.sum("said"), dialect.sum("amount"));
    let sql = format!(
        "SELECT tenant_id, user_id, account, {balance} AS balance, {entries} AS entries FROM ({said} UNION ALL \
         SELECT tenant_id, user_id, account, 0 AS said, amount FROM ledger_entries WHERE user_id IS NOT NULL \
         AND account IN ({accounts})) AS both_of \
         {only} GROUP BY tenant_id, user_id, account HAVING {balance} <> {entries} \
         ORDER BY tenant_id, user_id, CASE account {place}ELSE {last} END LIMIT ?",
        accounts = SAID.iter().map(|(account, ..)| format!("'{account}'")).collect::<Vec<_>>().join(", "),
        last = SAID.len(),
    );
    values.push(most.into());
    (sql, values)
}

fn drifted_flaw(row: &Row) -> Result<LedgerFlaw, StoreError> {
    let row = row.of("asset_balances", "user_id");
    Ok(LedgerFlaw::Drifted {
        tenant: row.id("tenant_id")?,
        user: row.id("user_id")?,
        account: row.named("account")?,
        balance: row.int("balance")?,
        entries: row.int("entries")?,
    })
}

pub(super) async fn flaws(
    session: &mut Session,
    tenant: Option<TenantId>,
    most: u32,
) -> Result<Vec<LedgerFlaw>, StoreError> {
    let (sql, values) = unbalanced(session.dialect(), tenant, most);
    let rows = session.fetch(&sql, values).await?;
    let mut flaws = rows.iter().map(unbalanced_flaw).collect::<Result<Vec<_>, _>>()?;
    let left = most.saturating_sub(u32::try_from(flaws.len()).unwrap_or(most));
    if left > 0 {
        let (sql, values) = drifted(session.dialect(), tenant, left);
        for row in &session.fetch(&sql, values).await? {
            flaws.push(drifted_flaw(row)?);
        }
    }
    Ok(flaws)
}
