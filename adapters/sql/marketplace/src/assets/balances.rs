//! Balances of the users' purses.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_sql::{Dialect, LookUp, MAX_ROWS, Row, Session, Value, padded, values};
use marketplace_domain::{Balance, Purse, UserId};

const COLUMNS: &str = "tenant_id, user_id, purse, available, frozen, debt, version, update_time";
const KEY: &str = "tenant_id, user_id, purse";
const REPLACED: &[&str] = &["available", "frozen", "debt", "version", "update_time"];

type Owner = (TenantId, UserId);

fn balance(row: &Row) -> Result<Balance, StoreError> {
    let row = row.of("asset_balances", "user_id");
    Ok(Balance {
        tenant: row.id("tenant_id")?,
        user: row.id("user_id")?,
        purse: row.named("purse")?,
        available: row.int("available")?,
        frozen: row.int("frozen")?,
        debt: row.int("debt")?,
        version: row.int("version")?,
        update_time: row.time("update_time")?,
    })
}

fn row_of(balance: &Balance) -> Vec<Value> {
    values![
        balance.tenant.get(),
        balance.user.get(),
        balance.purse.as_str(),
        balance.available,
        balance.frozen,
        balance.debt,
        balance.version,
        balance.update_time,
    ]
}

pub(super) async fn of(
    session: &mut Session,
    tenant: TenantId,
    user: UserId,
    purse: Purse,
) -> Result<Option<Balance>, StoreError> {
    // A row with version 0 was created only for locking and contains no balance.
    let sql = format!(
        "SELECT {COLUMNS} FROM asset_balances WHERE tenant_id = ? AND user_id = ? AND purse = ? AND version > 0"
    );
    let values = values![tenant.get(), user.get(), purse.as_str()];
    session.fetch_one(&sql, values).await?.as_ref().map(balance).transpose()
}

/// The statement that reads and locks the balances of these users.
pub(crate) fn locking(
    dialect: &dyn Dialect,
    purse: Purse,
    tenant: TenantId,
    users: Vec<i64>,
) -> (String, Vec<Value>) {
    dialect.look_up(LookUp {
        columns: COLUMNS,
        from: format!("asset_balances {}", dialect.lock_index("PRIMARY")),
        column: "user_id",
        keys: users.into_iter().map(Value::from).collect(),
        conditions: "tenant_id = ? AND purse = ?".to_owned(),
        values: values![tenant.get(), purse.as_str()],
        order: "user_id",
        lock: dialect.for_update(),
        ..LookUp::default()
    })
}

/// Reads and locks the rows that exist, in the order of their key.
async fn lock_existing(
    session: &mut Session,
    purse: Purse,
    owners: impl Iterator<Item = Owner>,
    found: &mut BTreeMap<Owner, Balance>,
) -> Result<(), StoreError> {
    let mut of_tenant: BTreeMap<TenantId, Vec<i64>> = BTreeMap::new();
    for (tenant, user) in owners {
        of_tenant.entry(tenant).or_default().push(user.get());
    }
    for (tenant, users) in of_tenant {
        for users in users.chunks(MAX_ROWS) {
            let (sql, values) = locking(session.dialect(), purse, tenant, padded(users));
            for row in &session.fetch(&sql, values).await? {
                let balance = balance(row)?;
                found.insert((balance.tenant, balance.user), balance);
            }
        }
    }
    Ok(())
}

async fn put_rows(session: &mut Session, rows: Vec<Value>, replaced: &[&str]) -> Result<(), StoreError> {
    let after = session.dialect().or_replace(KEY, replaced);
    session.insert(&format!("INSERT INTO asset_balances ({COLUMNS})"), 8, rows, &after).await?;
    Ok(())
}

pub(super) async fn lock(
    session: &mut Session,
    purse: Purse,
    users: &[Owner],
    now: DateTime<Utc>,
) -> Result<Vec<Balance>, StoreError> {
    let owners: BTreeSet<Owner> = users.iter().copied().collect();
    let mut found = BTreeMap::new();
    lock_existing(session, purse, owners.iter().copied(), &mut found).await?;
    let missing: Vec<Owner> = owners.into_iter().filter(|owner| !found.contains_key(owner)).collect();
    if !missing.is_empty() {
        // A missing row cannot be locked, so it is created. If another unit of work creates it concurrently, the
        // upsert waits for that unit of work and leaves the row unchanged.
        let empty = |(tenant, user): &Owner| row_of(&Balance::empty(*tenant, *user, purse, now));
        put_rows(session, missing.iter().flat_map(empty).collect(), &["purse"]).await?;
        lock_existing(session, purse, missing.into_iter(), &mut found).await?;
    }
    let with_time = |balance: Balance| {
        if balance.version > 0 { balance } else { Balance { update_time: now, ..balance } }
    };
    Ok(found.into_values().map(with_time).collect())
}

pub(super) async fn put(session: &mut Session, balances: &[Balance]) -> Result<(), StoreError> {
    // One statement cannot write a row twice, so only the last version of each balance is written.
    let last: BTreeMap<_, &Balance> =
        balances.iter().map(|balance| ((balance.tenant, balance.user, balance.purse), balance)).collect();
    put_rows(session, last.into_values().flat_map(row_of).collect(), REPLACED).await
}
