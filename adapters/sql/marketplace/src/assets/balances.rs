//! Balances of the users' purses.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_sql::{Dialect, LookUp, MAX_ROWS, Session, Table, Value, padded, table, values};
use marketplace_domain::{Balance, Purse, UserId};

table! {
    BalanceTable("asset_balances" by "user_id"), read row as Balance, write balance as &'a Balance;
    insert {
        tenant: id("tenant_id" = balance.tenant.get()),
        user: id("user_id" = balance.user.get()),
        purse: named("purse" = balance.purse.as_str()),
    }
    update {
        available: int("available" = balance.available),
        frozen: int("frozen" = balance.frozen),
        debt: int("debt" = balance.debt),
        version: int("version" = balance.version),
        update_time: time("update_time" = balance.update_time),
    }
}

const COLUMNS: &str = BalanceTable::COLUMNS;

type Owner = (TenantId, UserId);

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
    session.fetch_one(&sql, values).await?.as_ref().map(BalanceTable::read).transpose()
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
                let balance = BalanceTable::read(row)?;
                found.insert((balance.tenant, balance.user), balance);
            }
        }
    }
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
        let empty = missing
            .iter()
            .map(|(tenant, user)| Balance::empty(*tenant, *user, purse, now))
            .collect::<Vec<_>>();
        let unchanged = session.dialect().or_replace(BalanceTable::KEY, &["purse"]);
        session.insert_into::<BalanceTable>(BalanceTable::rows(&empty), &unchanged).await?;
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
    session.insert_or_update::<BalanceTable>(BalanceTable::rows(last.into_values())).await
}
