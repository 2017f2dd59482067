//! The plan of the relay's scan, and that the other engines build the same store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::Wake;
use handover_application::ports::{Clock, OnFailed};

use super::SqlStore;
use super::due::in_order_of_ids;
use crate::SqliteOptions;
use crate::value::Value;

struct NoClock;

#[async_trait]
impl Clock for NoClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    async fn sleep(&self, _duration: Duration) {}
}

#[tokio::test]
async fn the_relay_scans_what_is_pending_in_the_order_of_ids_and_sorts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(directory.path().join("test.db"));
    let store = SqlStore::open_sqlite(&options, Arc::new(NoClock), Wake::default()).await.unwrap();
    store.migrate().await.unwrap();
    let mut session = store.reading().await.unwrap();
    for on_failed in [OnFailed::Continue, OnFailed::Hold] {
        let (sql, values) =
            in_order_of_ids(session.dialect, on_failed, &Value::from(-1i64), DateTime::UNIX_EPOCH, 200);
        let rows = session.fetch(&format!("EXPLAIN QUERY PLAN {sql}"), values).await.unwrap();
        let plan: Vec<String> =
            rows.iter().map(|row| row.of("plan", "id").string("detail").unwrap()).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("SCAN o USING INDEX idx_outbox_pending"), "{plan}");
        assert!(plan.contains("SEARCH e USING INDEX idx_outbox_waiting"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
