//! A connection that explains what it runs.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use handover_outbox::ports::StoreError;

use crate::connection::Connection;
use crate::row::Row;
use crate::value::Value;

/// A connection that records the plan of each statement.
pub(super) struct ExplainingConnection {
    pub(super) inner: Box<dyn Connection>,
    pub(super) plans: Arc<Mutex<Vec<(String, String)>>>,
}

impl ExplainingConnection {
    async fn record_plan(&mut self, sql: &str, values: &[Value]) -> Result<(), StoreError> {
        let rows = self.inner.fetch(&format!("EXPLAIN QUERY PLAN {sql}"), values.to_vec()).await?;
        let steps: Vec<String> =
            rows.iter().map(|row| row.of("plan", "id").string("detail")).collect::<Result<_, _>>()?;
        self.plans.lock().unwrap().push((sql.to_owned(), steps.join("\n")));
        Ok(())
    }
}

#[async_trait]
impl Connection for ExplainingConnection {
    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        self.record_plan(sql, &values).await?;
        self.inner.execute(sql, values).await
    }

    async fn fetch(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        self.record_plan(sql, &values).await?;
        self.inner.fetch(sql, values).await
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        self.inner.begin().await
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.inner.commit().await
    }

    async fn lend(&mut self) -> Result<(), StoreError> {
        self.inner.lend().await
    }

    async fn reclaim(&mut self) -> Result<(), StoreError> {
        self.inner.reclaim().await
    }

    fn driver(&mut self) -> Option<&mut (dyn std::any::Any + Send)> {
        self.inner.driver()
    }
}
