//! Operations on assets, and their ledger entries.

use std::collections::BTreeSet;

use handover_events::{EventId, TenantId};
use handover_outbox::ports::{Numbered, StoreError};
use handover_sql::{Dialect, Fields, LookUp, MAX_ROWS, Row, Session, Table, Value, padded, table, values};
use marketplace::ports::LedgerEntry;
use marketplace_domain::{
    Account, AssetOperation, CouponId, Entry, OperationKey, OrderId, Posting, Purse, RefundId, UserId,
};

use crate::of_orders::OfOrders;

table! {
    OperationTable("asset_operations" by "idempotency_key"),
    read row as AssetOperation, write operation as &'a AssetOperation;
    insert {
        tenant: id("tenant_id" = operation.tenant.get()),
        key: (row.string("idempotency_key").map(OperationKey::stored))("idempotency_key" = operation.key.as_str()),
        asset: named("asset" = operation.asset.as_str()),
        kind: named("kind" = operation.kind.as_str()),
        user: opt_id("user_id" = operation.user.map(UserId::get)),
        order: opt_id("order_id" = operation.order.map(OrderId::get)),
        refund: opt_id("refund_id" = operation.refund.map(RefundId::get)),
        coupon: opt_id("coupon_id" = operation.coupon.map(CouponId::get)),
        amount: int("amount" = operation.amount),
        balance_after: opt_int("balance_after" = operation.balance_after),
        event_id: opt_named("event_id" = operation.event_id.as_ref().map(EventId::as_str)),
        trace_id: opt_string("trace_id" = &operation.trace_id),
        at: time("create_time" = operation.at),
    }
}

const OPERATION: &str = OperationTable::COLUMNS;

/// An entry of the ledger, and the key of its operation.
struct KeyedEntry {
    key: OperationKey,
    entry: Entry,
}

table! {
    EntryTable("ledger_entries" by "id"),
    read row as KeyedEntry, write new as (&'a AssetOperation, &'a Entry);
    insert {
        key: (row.string("idempotency_key").map(OperationKey::stored))(
            "tenant_id" = new.0.tenant.get(),
            "idempotency_key" = new.0.key.as_str()
        ),
        entry: (entry(row))(
            "account" = new.1.account.as_str(),
            "user_id" = new.1.user.map(UserId::get),
            "amount" = new.1.amount,
            "balance_after" = new.1.balance_after,
            "create_time" = new.0.at
        ),
    }
}

fn entry(row: Fields<'_>) -> Result<Entry, StoreError> {
    Ok(Entry {
        account: row.named("account")?,
        user: row.opt_id("user_id")?,
        amount: row.int("amount")?,
        balance_after: row.opt_int("balance_after")?,
    })
}

fn numbered(row: &Row) -> Result<Numbered<LedgerEntry>, StoreError> {
    let entry = row.of("ledger_entries", "entry_id");
    Ok(Numbered {
        id: entry.int("entry_id")?,
        effect: LedgerEntry {
            entry: Entry {
                account: entry.named("entry_account")?,
                user: entry.opt_id("entry_user")?,
                amount: entry.int("entry_amount")?,
                balance_after: entry.opt_int("entry_balance")?,
            },
            operation: OperationTable::read(row)?,
        },
    })
}

/// The rows of `table` that belong to the operations with these keys.
pub(crate) fn rows_by_key(
    dialect: &dyn Dialect,
    columns: &str,
    table: &str,
    tenant: TenantId,
    keys: &[&str],
) -> (String, Vec<Value>) {
    dialect.look_up(LookUp {
        columns,
        from: table.to_owned(),
        column: "idempotency_key",
        keys: keys.iter().map(|key| Value::from(*key)).collect(),
        conditions: format!("{} = ?", dialect.unindexed("tenant_id")),
        values: values![tenant.get()],
        ..LookUp::default()
    })
}

pub(super) async fn operations_by_key(
    session: &mut Session,
    tenant: TenantId,
    keys: &[OperationKey],
) -> Result<Vec<AssetOperation>, StoreError> {
    let keys: BTreeSet<&str> = keys.iter().map(OperationKey::as_str).collect();
    let mut found = Vec::new();
    for keys in keys.into_iter().collect::<Vec<_>>().chunks(MAX_ROWS) {
        let keys = padded(keys);
        let (sql, values) = rows_by_key(session.dialect(), OPERATION, "asset_operations", tenant, &keys);
        for row in &session.fetch(&sql, values).await? {
            found.push(OperationTable::read(row)?);
        }
    }
    Ok(found)
}

pub(super) async fn entries_by_key(
    session: &mut Session,
    tenant: TenantId,
    keys: &[OperationKey],
) -> Result<Vec<(OperationKey, Entry)>, StoreError> {
    let keys: BTreeSet<&str> = keys.iter().map(OperationKey::as_str).collect();
    let mut found = Vec::new();
    for keys in keys.into_iter().collect::<Vec<_>>().chunks(MAX_ROWS) {
        let keys = padded(keys);
        let columns = format!("id, {}", EntryTable::COLUMNS);
        let (sql, values) = rows_by_key(session.dialect(), &columns, "ledger_entries", tenant, &keys);
        for row in &session.fetch(&sql, values).await? {
            let KeyedEntry { key, entry } = EntryTable::read(row)?;
            found.push((key, entry));
        }
    }
    Ok(found)
}

pub(super) async fn of_orders(
    session: &mut Session,
    tenant: TenantId,
    orders: &[OrderId],
) -> Result<Vec<AssetOperation>, StoreError> {
    let columns = format!("id, {OPERATION}");
    let of_orders = OfOrders { table: "asset_operations", columns: &columns, sequence: "id" };
    of_orders.fetch(session, (tenant, orders), OperationTable::read).await
}

const fn accounts(purse: Purse) -> &'static [Account] {
    match purse {
        Purse::Wallet => &[Account::Wallet, Account::WalletHold],
        Purse::Points => &[Account::Points, Account::PointsHold, Account::PointsDebt],
    }
}

/// A page of the entries of a purse, newest first. The index returns the entries of each account in id order, so at
/// most one page per account is read and merged.
pub(crate) fn entries(
    dialect: &dyn Dialect,
    (tenant, user): (TenantId, UserId),
    purse: Purse,
    before: Option<i64>,
    most: u32,
) -> (String, Vec<Value>) {
    let mut parts = Vec::new();
    let mut values = Vec::new();
    for account in accounts(purse) {
        parts.push(format!(
            "SELECT * FROM (SELECT e.id AS entry_id, e.account AS entry_account, e.user_id AS entry_user, \
               e.amount AS entry_amount, e.balance_after AS entry_balance, {operation} \
             FROM ledger_entries e {by_account} JOIN asset_operations o {key_hint} \
               ON o.tenant_id = e.tenant_id AND o.idempotency_key = e.idempotency_key \
             WHERE e.tenant_id = ? AND e.user_id = ? AND e.account = '{account}' AND e.id < ? \
             ORDER BY e.id DESC LIMIT ?) AS of_{account}",
            operation =
                OPERATION.split(", ").map(|column| format!("o.{column}")).collect::<Vec<_>>().join(", "),
            by_account = dialect.index("idx_ledger_account"),
            key_hint = dialect.lock_index("uk_asset_operations"),
        ));
        values.extend(values![tenant.get(), user.get(), before.unwrap_or(i64::MAX), most]);
    }
    let sql = format!("{} ORDER BY entry_id DESC LIMIT ?", parts.join(" UNION ALL "));
    values.push(most.into());
    (sql, values)
}

pub(super) async fn entries_page(
    session: &mut Session,
    owner: (TenantId, UserId),
    purse: Purse,
    before: Option<i64>,
    most: u32,
) -> Result<Vec<Numbered<LedgerEntry>>, StoreError> {
    let (sql, values) = entries(session.dialect(), owner, purse, before, most);
    session.fetch(&sql, values).await?.iter().map(numbered).collect()
}

pub(super) async fn post(session: &mut Session, postings: &[Posting]) -> Result<(), StoreError> {
    if !postings.iter().all(Posting::is_balanced) {
        return Err(session.refuse("the entries of an operation do not sum to zero"));
    }
    let operations = OperationTable::rows(postings.iter().map(|posting| &posting.operation));
    session.insert_into::<OperationTable>(operations, "").await?;
    let entries =
        postings.iter().flat_map(|posting| posting.entries.iter().map(|entry| (&posting.operation, entry)));
    session.insert_into::<EntryTable>(EntryTable::rows(entries), "").await
}
