//! Tests specific to SQLite, with a fixture: a store on a temporary file, and sample events.

mod broker;
mod ids;
mod lent;
mod migrations;
mod prefix;
mod schema;
mod speed;
mod store;
mod unreadable_rows;
mod unreadable_webhooks;

use std::sync::Arc;

use chrono::Utc;
use handover_events::{AggregateRef, EventId, TenantId};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{EventMetadata, IdleConsumers, NewEvent, Store, StoreError};
use handover_sql::{SqlStore, SqliteOptions};
use handover_system::SystemClock;
use marketplace_sql::SqlMarket;

struct Fixture {
    store: SqlMarket,
    wake: WakeupNotifier,
    directory: tempfile::TempDir,
}

impl Fixture {
    fn options(&self) -> SqliteOptions {
        SqliteOptions::file(self.directory.path().join("test.db"))
    }

    /// A direct connection that bypasses the store.
    async fn direct_connection(&self) -> sqlx::SqliteConnection {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.options().path());
        <sqlx::SqliteConnection as sqlx::Connection>::connect_with(&options).await.unwrap()
    }
}

async fn fixture() -> Fixture {
    let fixture = unmigrated().await;
    fixture.store.migrate().await.unwrap();
    fixture
}

/// A store on an empty database.
async fn unmigrated() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let wake = WakeupNotifier::default();
    let options = SqliteOptions::file(directory.path().join("test.db"));
    let store = SqlStore::open_sqlite(&options, Arc::new(SystemClock), wake.clone()).await.unwrap();
    let store = SqlMarket::on(store);
    Fixture { store, wake, directory }
}

fn event(id: &str, aggregate: i64, seq: i64) -> NewEvent {
    NewEvent {
        event_id: id.parse::<EventId>().unwrap(),
        event_type: "ORDER_CREATED".into(),
        aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Order".into(), id: aggregate.into() },
        aggregate_seq: Some(seq),
        payload: format!("{{\"orderId\":{aggregate},\"padding\":\"{}\"}}", "x".repeat(200)),
        metadata: EventMetadata { trace_id: Some("trace".into()), ..EventMetadata::default() },
        occurred_at: Utc::now(),
        max_retry_count: 3,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

async fn append(store: &SqlMarket, events: &[NewEvent]) -> Result<(), StoreError> {
    let mut unit = store.begin().await?;
    unit.outbox().append(events).await?;
    unit.commit().await
}
