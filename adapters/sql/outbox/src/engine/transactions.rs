//! Transactions of the driver.
//!
//! **Invariant:** transactions begin and end through the driver's transaction manager, so that it knows their depth: a
//! transaction that application code begins on a lent connection is then a savepoint. After a plain `BEGIN`, the commit of
//! such a transaction would commit ours.
//!
//! `sqlx::Transaction` is not used: if `begin` is abandoned, it returns a connection in a transaction to the pool, and
//! its `commit` does not refuse while a nested transaction is open.

use handover_outbox::ports::StoreError;
use sqlx::error::DatabaseError;
use sqlx::{Database, SqlSafeStr as _};
use sqlx_core::transaction::TransactionManager;

use crate::error::{ErrorClass, store_error};

/// Begins a transaction, with another statement than `BEGIN` if one is given.
pub(super) async fn begin<DB: Database>(
    connection: &mut DB::Connection,
    statement: Option<&'static str>,
) -> Result<(), sqlx::Error> {
    DB::TransactionManager::begin(connection, statement.map(|sql| sql.into_sql_str())).await
}

/// Commits the transaction. Refuses if application code left a nested transaction open, or if the driver rolled the
/// transaction back because such a transaction was abandoned while it began.
pub(super) async fn commit<DB: Database>(
    connection: &mut DB::Connection,
    classify: fn(&dyn DatabaseError) -> ErrorClass,
) -> Result<(), StoreError> {
    match depth::<DB>(connection) {
        0 => Err(StoreError::Backend("the transaction ended before its commit".into())),
        1 => DB::TransactionManager::commit(connection).await.map_err(|error| store_error(error, classify)),
        _ => Err(StoreError::Backend("a nested transaction was left open; commit it or drop it".into())),
    }
}

/// Rolls back every transaction that the driver knows. A transaction whose `begin` was abandoned is not among them.
pub(super) async fn roll_back<DB: Database>(connection: &mut DB::Connection) -> Result<(), sqlx::Error> {
    while depth::<DB>(connection) > 0 {
        DB::TransactionManager::rollback(connection).await?;
    }
    Ok(())
}

/// 0 outside of transactions, 1 in a transaction, more in nested ones.
pub(super) fn depth<DB: Database>(connection: &DB::Connection) -> usize {
    DB::TransactionManager::get_transaction_depth(connection)
}
