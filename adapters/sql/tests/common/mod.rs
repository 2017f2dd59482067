//! A store on a file of its own, and values to fill it with.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]
#![allow(clippy::disallowed_methods, reason = "tests of an adapter use the machine's clock")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_application::Wake;
use handover_application::ports::{Clock, EventMetadata, NewEvent, Store, StoreError};
use handover_domain::{AggregateRef, EventId, TenantId};
use handover_sql::{SqlStore, SqliteOptions};

pub struct MachineClock;

#[async_trait]
impl Clock for MachineClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

pub struct Fixture {
    pub store: SqlStore,
    pub wake: Wake,
    pub directory: tempfile::TempDir,
}

impl Fixture {
    pub fn options(&self) -> SqliteOptions {
        SqliteOptions::file(self.directory.path().join("test.db"))
    }

    /// A connection behind the store's back.
    pub async fn outside(&self) -> sqlx::SqliteConnection {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.options().path());
        <sqlx::SqliteConnection as sqlx::Connection>::connect_with(&options).await.unwrap()
    }
}

pub async fn fixture() -> Fixture {
    let fixture = unmigrated().await;
    fixture.store.migrate().await.unwrap();
    fixture
}

/// A store on a database without any table.
pub async fn unmigrated() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let wake = Wake::default();
    let options = SqliteOptions::file(directory.path().join("test.db"));
    let store = SqlStore::open_sqlite(&options, Arc::new(MachineClock), wake.clone()).await.unwrap();
    Fixture { store, wake, directory }
}

pub fn event(id: &str, aggregate: i64, seq: i64) -> NewEvent {
    NewEvent {
        event_id: id.parse::<EventId>().unwrap(),
        event_type: "ORDER_CREATED".into(),
        aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Order".into(), id: aggregate },
        aggregate_seq: seq,
        payload: format!("{{\"orderId\":{aggregate},\"padding\":\"{}\"}}", "x".repeat(200)),
        metadata: EventMetadata { trace_id: Some("trace".into()), ..EventMetadata::default() },
        occurred_at: Utc::now(),
        max_retry_count: 3,
    }
}

pub async fn append(store: &SqlStore, events: &[NewEvent]) -> Result<(), StoreError> {
    let mut unit = store.begin().await?;
    unit.append(events).await?;
    unit.commit().await
}
