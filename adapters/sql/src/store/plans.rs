//! How SQLite goes about what must stay fast, and that the other engines build the same store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::Wake;
use handover_application::ports::{
    AuditFilter, Clock, ConsumedFilter, DeadLetterFilter, DeadLetterStatus, OnFailed,
};
use handover_domain::{ConsumeStatus, EventId, OrderId, TenantId, UserId};

use super::due::in_order_of_ids;
use super::{SqlStore, audit, consume, dead_letters, outbox_operations, payments};
use crate::SqliteOptions;
use crate::session::Session;
use crate::value::{Value, values};

pub(super) struct NoClock;

#[async_trait]
impl Clock for NoClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    async fn sleep(&self, _duration: Duration) {}
}

async fn plan(session: &mut Session, (sql, values): (String, Vec<Value>)) -> String {
    let rows = session.fetch(&format!("EXPLAIN QUERY PLAN {sql}"), values).await.unwrap();
    let steps = rows.iter().map(|row| row.of("plan", "id").string("detail").unwrap());
    steps.collect::<Vec<_>>().join("\n")
}

async fn store(directory: &tempfile::TempDir) -> SqlStore {
    let options = SqliteOptions::file(directory.path().join("test.db"));
    let store = SqlStore::open_sqlite(&options, Arc::new(NoClock), Wake::default()).await.unwrap();
    store.migrate().await.unwrap();
    store
}

#[tokio::test]
async fn the_relay_scans_what_is_pending_in_the_order_of_ids_and_sorts_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let mut session = store.reading().await.unwrap();
    for on_failed in [OnFailed::Continue, OnFailed::Hold] {
        let scan =
            in_order_of_ids(session.dialect, on_failed, &Value::from(-1i64), DateTime::UNIX_EPOCH, 200);
        let plan = plan(&mut session, scan).await;
        assert!(plan.contains("SCAN o USING INDEX idx_outbox_pending"), "{plan}");
        assert!(plan.contains("SEARCH e USING INDEX idx_outbox_waiting"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}

#[tokio::test]
async fn what_operators_read_is_found_by_an_index() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let mut session = store.reading().await.unwrap();
    let dialect = session.dialect;
    let tenant = Some(TenantId::DEFAULT);
    let events: [EventId; 3] = ["a", "b", "c"].map(|id| id.parse().unwrap());
    let dead = ConsumedFilter { tenant, status: Some(ConsumeStatus::Dead), ..ConsumedFilter::default() };
    let of_event = ConsumedFilter { tenant, event_id: Some(events[0].clone()), ..dead.clone() };
    let keys = ["a".to_owned(), "b".to_owned()];
    let letters = DeadLetterFilter { tenant, status: Some(DeadLetterStatus::Open), ..Default::default() };
    let looks = AuditFilter { tenant, changes: false };
    let changes = AuditFilter { tenant, changes: true };
    let payments = (payments::of_order(), values![1i64, 1i64]);
    let cases = [
        (outbox_operations::blocked(dialect, None, None, 100), "SCAN o USING INDEX idx_outbox_failed"),
        (outbox_operations::blocked(dialect, tenant, Some(9), 100), "SCAN o USING INDEX idx_outbox_failed"),
        (outbox_operations::blocked(dialect, tenant, None, 100), "SEARCH e USING INDEX idx_outbox_failed"),
        (outbox_operations::blocked(dialect, tenant, None, 100), "SEARCH e USING INDEX idx_outbox_order"),
        (outbox_operations::about(dialect, 1, "Order", &[1, 2, 3]), "SEARCH o USING INDEX idx_aggregate"),
        (consume::of_events(&events), "SEARCH event_consume_log USING INDEX idx_consume_event"),
        (consume::page(&of_event, None, 100), "SEARCH event_consume_log USING INDEX idx_consume_event"),
        (consume::page(&dead, None, 100), "SEARCH event_consume_log USING INDEX idx_consume_open"),
        (consume::counts(None), "SCAN event_consume_log USING COVERING INDEX idx_consume_count"),
        (consume::counts(tenant), "SCAN event_consume_log USING COVERING INDEX idx_consume_count"),
        (dead_letters::of_keys(&keys), "SEARCH dead_letters USING INDEX idx_dead_letters_key"),
        (dead_letters::page(&letters, None, 100), "SEARCH dead_letters USING INDEX idx_dead_letters_tenant"),
        (payments, "SEARCH payments USING INDEX idx_payments_order"),
        (audit::page(&looks, Some(9), 100), "SEARCH audit_log USING INDEX idx_audit_tenant"),
        (audit::page(&changes, Some(9), 100), "SEARCH audit_log USING INDEX idx_audit_changes"),
    ];
    for (query, step) in cases {
        let sql = query.0.clone();
        let plan = plan(&mut session, query).await;
        assert!(plan.contains(step), "{sql}\n{plan}");
    }
}

#[tokio::test]
async fn sweeps_and_long_pages_are_served_by_an_index_and_sort_no_more_than_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory).await;
    let order = OrderId::try_from(7).unwrap();
    let user = UserId::try_from(7).unwrap();
    for (index, plan) in store.explain_sweeps(DateTime::UNIX_EPOCH, order, user).await.unwrap() {
        assert!(plan.contains(&format!("INDEX {index}")), "{index}: {plan}");
        assert!(!plan.contains("SCAN asset_holds") && !plan.contains("SCAN orders"), "{index}: {plan}");
        // Pages of accounts are merged, or sorted once they are read.
        assert!(!plan.contains("TEMP B-TREE") || index == "idx_ledger_account", "{index}: {plan}");
    }
}
