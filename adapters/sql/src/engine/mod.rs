//! The engines: a connection, a dialect and the meaning of errors each.

#[cfg(feature = "mysql")]
pub(crate) mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod sqlite;

/// A pooled connection of a driver as our [`Connection`](crate::connection::Connection).
macro_rules! connection {
    ($database:ty, $arguments:ty, bind: $bind:path, decode: $decode:path, meaning: $meaning:path, text: $text:path) => {
        #[async_trait::async_trait]
        impl $crate::connection::Connection for sqlx::pool::PoolConnection<$database> {
            async fn execute(
                &mut self,
                sql: &str,
                values: Vec<$crate::value::Value>,
            ) -> Result<u64, handover_application::ports::StoreError> {
                let fault = |error| $crate::fault::store_error(error, $meaning);
                let arguments = bind_all(values).map_err(fault)?;
                // Safe: statements are our constants, marks and names; values are always bound.
                let query = sqlx::query_with(sqlx::AssertSqlSafe($text(sql)), arguments);
                Ok(query.execute(&mut **self).await.map_err(fault)?.rows_affected())
            }

            async fn fetch(
                &mut self,
                sql: &str,
                values: Vec<$crate::value::Value>,
            ) -> Result<Vec<$crate::row::Row>, handover_application::ports::StoreError> {
                use sqlx::{Column as _, Row as _};
                let fault = |error| $crate::fault::store_error(error, $meaning);
                let arguments = bind_all(values).map_err(fault)?;
                let query = sqlx::query_with(sqlx::AssertSqlSafe($text(sql)), arguments);
                let rows = query.fetch_all(&mut **self).await.map_err(fault)?;
                let Some(first) = rows.first() else { return Ok(Vec::new()) };
                let columns: std::sync::Arc<[String]> =
                    first.columns().iter().map(|column| column.name().to_owned()).collect();
                rows.iter()
                    .map(|row| {
                        let values =
                            (0..columns.len()).map(|index| $decode(row, index)).collect::<Result<_, _>>();
                        Ok($crate::row::Row { columns: columns.clone(), values: values.map_err(fault)? })
                    })
                    .collect()
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

/// Binds times as the driver knows them.
#[cfg(any(feature = "mysql", feature = "postgres"))]
macro_rules! bind_natively {
    ($arguments:ty) => {
        fn bind(arguments: &mut $arguments, value: Value) -> Result<(), sqlx::error::BoxDynError> {
            use sqlx::Arguments as _;
            match value {
                Value::Int(value) => arguments.add(value),
                Value::Text(value) => arguments.add(value),
                Value::Time(value) => arguments.add(value),
            }
        }
    };
}
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) use bind_natively;
