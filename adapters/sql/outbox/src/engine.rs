//! The engines. Each one has a connection, a dialect and a classification of errors.

mod access;
#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "mysql")]
mod mysql_catalogue;
#[cfg(feature = "mysql")]
pub(crate) mod mysql_error;
#[cfg(feature = "mysql")]
mod mysql_health;
#[cfg(feature = "mysql")]
mod mysql_migrations;
#[cfg(feature = "mysql")]
mod mysql_settings;
#[cfg(feature = "mysql")]
mod mysql_wakeup;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod pooled;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "postgres")]
mod postgres_catalogue;
#[cfg(feature = "postgres")]
mod postgres_health;
#[cfg(feature = "postgres")]
mod postgres_settings;
#[cfg(feature = "postgres")]
mod postgres_wakeup;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod server;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
mod transactions;

pub use access::access_refusal;

/// Implements [`Statements`](crate::connection::Statements) for the connection of a driver, and
/// [`DriverConnection`](crate::connection::DriverConnection) for a pooled one.
macro_rules! connection {
    ($database:ty, $connection:ty, $arguments:ty, bind: $bind:path, decode: $decode:path, classify: $classify:path, text: $text:path) => {
        #[async_trait::async_trait]
        impl $crate::connection::Statements for $connection {
            async fn execute_with(
                &mut self,
                sql: &str,
                values: Vec<$crate::value::Value>,
            ) -> Result<u64, handover_outbox::ports::StoreError> {
                use futures_util::TryStreamExt as _;
                let convert = |error| $crate::error::store_error(error, $classify);
                let arguments = bind_all(values).map_err(convert)?;
                // Safe: statements consist of constants, placeholders and known names; values are always bound.
                let query = sqlx::query_with(sqlx::AssertSqlSafe($text(sql)), arguments);
                let mut results = sqlx::Executor::fetch_many(self, query);
                // Of several statements in one text, the last one counts.
                let mut affected = 0;
                while let Some(result) = results.try_next().await.map_err(convert)? {
                    if let sqlx::Either::Left(done) = result {
                        affected = done.rows_affected();
                    }
                }
                Ok(affected)
            }

            async fn fetch_with(
                &mut self,
                sql: &str,
                values: Vec<$crate::value::Value>,
            ) -> Result<Vec<$crate::row::Row>, handover_outbox::ports::StoreError> {
                use sqlx::{Column as _, Row as _};
                let convert = |error| $crate::error::store_error(error, $classify);
                let arguments = bind_all(values).map_err(convert)?;
                let query = sqlx::query_with(sqlx::AssertSqlSafe($text(sql)), arguments);
                let rows = query.fetch_all(self).await.map_err(convert)?;
                let Some(first) = rows.first() else { return Ok(Vec::new()) };
                let names = first.columns().iter().map(|column| column.name().to_owned()).collect();
                let columns = std::sync::Arc::new($crate::row::Columns::new(names));
                let read = |row, index| $decode(row, index).map_err(|error| error.to_string());
                let values = |row| (0..columns.names().len()).map(|index| read(row, index)).collect();
                Ok(rows
                    .iter()
                    .map(|row| $crate::row::Row { columns: columns.clone(), values: values(row) })
                    .collect())
            }
        }

        #[async_trait::async_trait]
        impl $crate::connection::DriverConnection for sqlx::pool::PoolConnection<$database> {
            fn statements(&mut self) -> &mut dyn $crate::connection::Statements {
                &mut **self
            }

            async fn simple(&mut self, sql: &str) -> Result<u64, handover_outbox::ports::StoreError> {
                // Safe: these statements have no parameters; they consist of constants and known names.
                let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned()));
                let done = statement.execute(&mut **self).await;
                Ok(done.map_err(|error| $crate::error::store_error(error, $classify))?.rows_affected())
            }

            async fn begin(
                &mut self,
                statement: Option<&'static str>,
            ) -> Result<(), handover_outbox::ports::StoreError> {
                let begun = $crate::engine::transactions::begin::<$database>(self, statement).await;
                begun.map_err(|error| $crate::error::store_error(error, $classify))
            }

            async fn commit(&mut self) -> Result<(), handover_outbox::ports::StoreError> {
                $crate::engine::transactions::commit::<$database>(self, $classify).await
            }

            fn driver(&mut self) -> &mut (dyn std::any::Any + Send) {
                &mut **self
            }
        }

        fn bind_all(values: Vec<$crate::value::Value>) -> Result<$arguments, sqlx::Error> {
            let mut arguments = <$arguments>::default();
            for value in values {
                $bind(&mut arguments, value).map_err(sqlx::Error::Encode)?;
            }
            Ok(arguments)
        }
    };
}
pub(crate) use connection;

/// Implements [`pooled::ServerConnection`] for a pooled connection of a driver.
#[cfg(any(feature = "mysql", feature = "postgres"))]
macro_rules! server_connection {
    ($database:ty, $classify:path) => {
        #[async_trait::async_trait]
        impl $crate::engine::pooled::ServerConnection for sqlx::pool::PoolConnection<$database> {
            async fn roll_back(&mut self) -> Result<(), handover_outbox::ports::StoreError> {
                use $crate::connection::DriverConnection as _;
                use $crate::engine::transactions;
                if transactions::depth::<$database>(self) == 0 {
                    // The transaction, if there is one, was begun by a future that was dropped.
                    return self.simple("ROLLBACK").await.map(drop);
                }
                let done = transactions::roll_back::<$database>(self).await;
                done.map_err(|error| $crate::error::store_error(error, $classify))
            }

            fn close_instead_of_pooling(&mut self) {
                self.close_on_drop();
            }
        }
    };
}
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) use server_connection;
