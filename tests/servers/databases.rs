//! Tests specific to database servers, on MariaDB and PostgreSQL: query plans and locks, classification of errors,
//! interrupted migrations, rows inserted by SQL, wake-up notifications between processes. The contract suite tests the
//! behaviour that all stores have in common.
mod canaries;
mod commands;
mod encryption;
mod errors;
mod health;
mod hot_statements;
mod inserted_rows;
mod late_messages;
mod lent;
mod locks;
mod migrations;
mod outages;
mod permissions;
mod prefix;
mod query_plans;
mod schema;
mod settings;
mod wakeup;

use std::sync::Arc;

use handover_contract::samples::start;
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{NewEvent, Store, StoreError};
use handover_tests::server_rigs::{migrated, open};
use handover_tests::servers::database::{ServerKind, TestDatabase};
use marketplace_sql::SqlMarket;

/// Generates each of these tests for every kind of server.
macro_rules! on_every_server {
    ($($test:ident),* $(,)?) => {
        mod mariadb {
            $(#[test] fn $test() {
                handover_contract::run(super::$test(super::ServerKind::MariaDb));
            })*
        }
        mod postgres {
            $(#[test] fn $test() {
                handover_contract::run(super::$test(super::ServerKind::Postgres));
            })*
        }
    };
}
pub(crate) use on_every_server;

/// A migrated database and a store on it.
struct Fixture {
    store: SqlMarket,
    database: TestDatabase,
}

impl Fixture {
    async fn new(kind: ServerKind) -> Fixture {
        let database = migrated(kind).await;
        let clock = Arc::new(ManualClock::new(start()));
        let store = open(&database.url(), clock, &WakeupNotifier::default());
        Fixture { store, database }
    }

    /// Opens the store again, as another process does.
    fn open_as_other_process(&self) -> Process {
        Process::new(&self.database.url())
    }

    /// The same through a proxy.
    fn open_through(&self, port: u16) -> Process {
        Process::new(&self.database.url_through(port))
    }

    async fn outside(&self, sql: &str) -> Result<u64, sqlx::Error> {
        handover_tests::server_rigs::outside(&self.database, sql).await
    }
}

/// Another process on the same database.
struct Process {
    store: SqlMarket,
    wake: WakeupNotifier,
}

impl Process {
    fn new(url: &str) -> Process {
        let wake = WakeupNotifier::default();
        let store = open(url, Arc::new(ManualClock::new(start())), &wake);
        Process { store, wake }
    }
}

async fn append(store: &SqlMarket, events: &[NewEvent]) -> Result<(), StoreError> {
    let mut unit = store.begin().await?;
    unit.outbox().append(events).await?;
    unit.commit().await
}
