//! A database of the first schema versions, its migration, and statements of processes of that version.

use std::collections::BTreeSet;
use std::path::Path;

use handover_events::TenantId;
use handover_sql::{SchemaVersion, SqlStore};
use marketplace::ports::MarketView;
use marketplace_contract::samples::{order_id, payment_id, refund_id};
use marketplace_domain::{Capture, Payment, Reference, Refund, RefundStatus};
use marketplace_sql::SqlMarket;
use sqlx::migrate::{Migrate, Migrator};

use handover_outbox::ports::{Store as _, UnitOfWork as _};

use crate::schema;

/// A time as each engine accepts it.
const AT: &str = "'2026-02-04 10:30:00.000001'";

/// Applies the first migration of the outbox and of the marketplace.
pub async fn migrate_to_first_version<C: Migrate>(connection: &mut C, engine: &str) {
    for part in ["outbox", "marketplace"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(part).join(engine);
        let all = Migrator::new(folder.as_path()).await.expect("the folder contains migrations");
        let first = all.iter().filter(|migration| migration.version == 1).cloned().collect();
        let mut migrator = Migrator::with_migrations(first);
        migrator.dangerous_set_table_name(format!("{part}_migrations"));
        migrator.run_direct(None, connection, false).await.expect("cannot apply the first migration");
    }
}

/// An `INSERT` of the first version; the order id is the same number as the id.
fn payment(id: i64, status: &str, transaction: &str, refund_due: i64) -> String {
    format!(
        "INSERT INTO payments (id, tenant_id, order_id, amount_minor, currency, payment_method, status, \
         transaction_id, refund_due, trace_id, traceparent, version, create_time, update_time) \
         VALUES ({id}, 1, {id}, 8850, 'CNY', 'card', '{status}', {transaction}, {refund_due}, NULL, NULL, 2, {AT}, {AT})"
    )
}

/// An `INSERT` of the first version; the order id is the same number as the payment id.
fn refund(id: i64, payment: i64, status: &str) -> String {
    format!(
        "INSERT INTO refunds (id, tenant_id, order_id, payment_id, amount_minor, currency, cause, reason, status, \
         attempts, next_attempt_time, last_error, trace_id, traceparent, version, create_time, update_time) \
         VALUES ({id}, 1, {payment}, {payment}, 8850, 'CNY', 'buyer', 'r', '{status}', 1, {AT}, NULL, NULL, NULL, 2, \
         {AT}, {AT})"
    )
}

/// An `INSERT` of the first version.
fn order(id: i64, status: &str) -> String {
    format!(
        "INSERT INTO orders (id, order_no, tenant_id, product_id, buyer_id, seller_id, status, total_minor, \
         payable_minor, version, create_time, update_time) \
         VALUES ({id}, '2026', 1, 1, 7, 8, '{status}', 8850, 8850, 1, {AT}, {AT})"
    )
}

fn ledger_entry(key: &str, account: &str) -> String {
    format!(
        "INSERT INTO ledger_entries (tenant_id, idempotency_key, account, user_id, amount, balance_after, create_time) \
         VALUES (1, '{key}', '{account}', 7, 0, NULL, {AT})"
    )
}

async fn execute(store: &SqlMarket, sql: &str) -> Result<u64, String> {
    let mut unit = SqlStore::begin(store).await.expect("cannot begin a unit of work");
    let changed = unit.execute(sql, Vec::new()).await.map_err(|error| error.to_string())?;
    unit.commit().await.map_err(|error| error.to_string())?;
    Ok(changed)
}

/// Fills a database of the first version: payments in each status, with and without a due refund, and refunds in each
/// status.
pub async fn fill_first_version(store: &SqlMarket) {
    for sql in [
        order(1, "completed"),
        order(2, "paid"),
        payment(1, "SUCCESS", "'t-1'", 0),
        payment(2, "SUCCESS", "'t-2'", 1),
        payment(3, "FAILED", "'t-3'", 0),
        payment(4, "PROCESSING", "NULL", 0),
        payment(5, "SUCCESS", "NULL", 0),
        refund(1, 1, "FAILED"),
        refund(2, 1, "PROCESSING"),
        refund(3, 2, "SUCCESS"),
        ledger_entry("payment:1:capture", "gateway"),
        ledger_entry("payment:2:capture", "gateway"),
    ] {
        assert_eq!(execute(store, &sql).await, Ok(1), "{sql}");
    }
}

/// Asserts that the rows of [`fill_first_version`] are complete after the migration.
pub async fn check_migrated(store: &SqlMarket) {
    let versions = store.schema_versions().await.expect("the schema has a version");
    assert!(versions.iter().all(SchemaVersion::is_enough), "{versions:?}");
    let differences = schema::differences(store).await;
    assert!(differences.is_empty(), "{differences:#?}");
    let mut view = store.view().await.expect("cannot open a view");
    for (id, is_completed) in [(1, true), (2, false)] {
        let order = view.order_by_id(TenantId::DEFAULT, order_id(id)).await.unwrap().unwrap();
        assert_eq!(order.complete_time, is_completed.then_some(order.update_time), "{order:?}");
    }
    let references = references(view.as_mut()).await;
    assert_eq!(references.len(), 8, "each payment and refund has a reference of its own: {references:?}");
    let orders: Vec<_> = (1..=5).map(order_id).collect();
    let captures = view.captures_of(TenantId::DEFAULT, &orders).await.unwrap();
    let expected: Vec<Capture> = vec![implied(view.as_mut(), 1).await, implied(view.as_mut(), 2).await];
    assert_eq!(captures, expected);
    assert_eq!(captures.iter().map(|capture| capture.refund_due).collect::<Vec<_>>(), [false, true]);
    for (id, succeeded) in [(1, false), (2, false), (3, true)] {
        let refund = refund_of(view.as_mut(), id).await;
        assert_eq!((refund.capture, refund.attempt, refund.is_keyed_by_id), (1, 1, true), "{refund:?}");
        assert_eq!(refund.settled_attempt, succeeded.then_some(1), "{refund:?}");
        assert_eq!(refund.payouts, u32::from(succeeded), "{refund:?}");
        assert!(!refund.is_excess && refund.transaction_id.is_none() && refund.settled_by.is_none());
        let found = view.attempt_by_reference(refund.reference.unwrap()).await.unwrap();
        assert_eq!(found, Some((refund.id, 1)));
    }
    assert_eq!(ledger(store).await, [(1, "payment:1:capture".into()), (2, "payment:2:capture".into())]);
}

/// Runs statements of processes of the first version, which may still run after the migration, and asserts that their
/// rows are readable and that the limits of that version apply to them.
pub async fn check_statements_of_first_version(store: &SqlMarket) {
    for sql in [
        payment(6, "SUCCESS", "'t-6'", 0),
        payment(7, "SUCCESS", "'t-7'", 0),
        refund(4, 6, "PROCESSING"),
        refund(5, 7, "SUCCESS"),
        // Settles a refund that was in PROCESSING during the migration.
        format!(
            "UPDATE refunds SET order_id = 1, payment_id = 1, amount_minor = 8850, currency = 'CNY', cause = 'buyer', \
             reason = 'r', status = 'SUCCESS', attempts = 2, next_attempt_time = NULL, last_error = NULL, trace_id = \
             NULL, traceparent = NULL, version = 3, create_time = {AT}, update_time = {AT} \
             WHERE id = 2 AND tenant_id = 1 AND version = 2"
        ),
        ledger_entry("payment:6:capture", "platform"),
    ] {
        assert_eq!(execute(store, &sql).await, Ok(1), "{sql}");
    }
    for second in [refund(9, 1, "PROCESSING"), refund(9, 6, "SUCCESS"), payment(9, "SUCCESS", "'t-6'", 0)] {
        let refused = execute(store, &second).await;
        assert!(refused.is_err(), "{second}: {refused:?}");
    }
    let mut view = store.view().await.expect("cannot open a view");
    let payment = view.payment_by_id(payment_id(6)).await.unwrap().unwrap();
    assert_eq!(payment.reference, None);
    for (id, attempt) in [(2, Some(1)), (4, None), (5, Some(1))] {
        let refund = refund_of(view.as_mut(), id).await;
        assert_eq!((refund.attempt, refund.is_keyed_by_id), (1, true), "{refund:?}");
        assert_eq!(refund.settled_attempt, attempt, "{refund:?}");
        assert_eq!(refund.payouts, u32::from(refund.status == RefundStatus::Success), "{refund:?}");
        assert_eq!(refund.reference.is_some(), id == 2, "{refund:?}");
    }
    drop(view);
    assert_eq!(execute(store, &ledger_entry("payment:7:capture", "suspense")).await, Ok(1));
    let unknown = execute(store, &ledger_entry("payment:8:capture", "nobody")).await;
    assert!(unknown.is_err(), "the accounts of the ledger are checked: {unknown:?}");
    let entries = ledger(store).await;
    assert_eq!(entries.len(), 4, "{entries:?}");
    assert!(entries.is_sorted() && entries[2].1 == "payment:6:capture", "{entries:?}");
}

async fn references(view: &mut dyn MarketView) -> BTreeSet<Reference> {
    let mut references = BTreeSet::new();
    for id in 1..=5 {
        let payment = view.payment_by_id(payment_id(id)).await.unwrap().unwrap();
        references.extend(payment.reference);
    }
    for id in 1..=3 {
        references.extend(refund_of(view, id).await.reference);
    }
    references
}

async fn implied(view: &mut dyn MarketView, id: i64) -> Capture {
    let payment: Payment = view.payment_by_id(payment_id(id)).await.unwrap().unwrap();
    Capture::implied_by(&payment).expect("the payment succeeded")
}

async fn refund_of(view: &mut dyn MarketView, id: i64) -> Refund {
    view.refund_by_id(refund_id(id)).await.unwrap().expect("the refund exists")
}

/// Ids and keys of the ledger's entries, by id.
async fn ledger(store: &SqlMarket) -> Vec<(i64, String)> {
    let mut view = SqlStore::view(store).await.expect("cannot open a view");
    let sql = "SELECT id, idempotency_key FROM ledger_entries ORDER BY id";
    let rows = view.fetch(sql, Vec::new()).await.expect("cannot read the ledger");
    rows.iter().map(|row| (row.int("id").unwrap(), row.text("idempotency_key").unwrap().to_owned())).collect()
}
