//! Cost of one isolated order without assets: the statements and commits of the whole chain, and the bytes in the log of the
//! database. The order is placed with an idempotency key, its events are published and settled, and every consumer that has
//! work with them has applied them and polled its queue again.
//!
//! The parts run one after the other, on a clock that stands still: nothing periodic runs (polls, leases, heartbeats,
//! sweeps), and the numbers do not depend on the speed of the machine. Not counted, because they depend on time: pings of
//! connections that were idle, and NOTIFY, which is sent at most once in 20 ms.

mod chain;
mod log_bytes;
mod statements;

use std::sync::Arc;

use handover_outbox::WakeupNotifier;
use handover_outbox::ports::Broker;
use handover_rabbitmq::QueueType;
use handover_sql::{DatabaseBroker, SqlStore, SqliteOptions};
use handover_tests::rabbit_rigs::RabbitBrokerRig;
use handover_tests::server_rigs::open;
use handover_tests::servers::database::{DatabaseServer, ServerKind};
use marketplace_sql::SqlMarket;

use chain::{Chain, Deployment, IdleClock, Phase};
use log_bytes::DatabaseLog;
use statements::{Recorder, Statement, commits};

/// Number of measured orders. A periodic task can only add statements: the order with the fewest counts.
const ORDERS: usize = 3;
/// Tolerated deviation of the log bytes: servers also log records of their own, and differ between versions.
const TOLERATED_PERCENT: u64 = 5;

/// Cost of one order. A change that lowers a number lowers it here; a change that raises one says in its commit message why.
struct Cost {
    /// Statements and commits of each [`Phase`].
    phases: [(Phase, usize, usize); 3],
    /// Written bytes: of the WAL file (SQLite), of the WAL (PostgreSQL), or of the binary log (MariaDB).
    log_bytes: u64,
}

const SQLITE: Cost = Cost {
    phases: [(Phase::Place, 7, 1), (Phase::Publish, 5, 2), (Phase::Consume, 9, 4)],
    log_bytes: 173_072,
};
const POSTGRES: Cost = Cost {
    phases: [(Phase::Place, 7, 1), (Phase::Publish, 5, 2), (Phase::Consume, 15, 4)],
    log_bytes: 9_112,
};
const POSTGRES_RABBITMQ: Cost =
    Cost { phases: [(Phase::Place, 7, 1), (Phase::Publish, 4, 1), (Phase::Consume, 6, 1)], log_bytes: 6_904 };
const MARIADB: Cost = Cost {
    phases: [(Phase::Place, 11, 1), (Phase::Publish, 6, 2), (Phase::Consume, 16, 4)],
    log_bytes: 15_591,
};
const MARIADB_RABBITMQ: Cost = Cost {
    phases: [(Phase::Place, 11, 1), (Phase::Publish, 5, 1), (Phase::Consume, 7, 1)],
    log_bytes: 10_397,
};

#[tokio::test]
async fn order_on_sqlite_costs_what_the_table_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.db");
    let clock = Arc::new(IdleClock::default());
    let options = SqliteOptions::file(path.clone());
    let store = SqlStore::open_sqlite(&options, clock.clone(), WakeupNotifier::default()).await.unwrap();
    let store = SqlMarket::on(store);
    store.migrate().await.unwrap();
    let broker = Arc::new(DatabaseBroker::new(&store));
    let deployment = Deployment { clock, store: store.clone(), broker, is_polling: true };
    let differences =
        measure("SQLite, database broker", &SQLITE, deployment, &DatabaseLog::of_file(path)).await;
    store.close().await;
    assert_none(&differences);
}

#[tokio::test]
async fn order_on_postgres_costs_what_the_table_says() {
    on_server(ServerKind::Postgres, &POSTGRES, &POSTGRES_RABBITMQ).await;
}

#[tokio::test]
async fn order_on_mariadb_costs_what_the_table_says() {
    on_server(ServerKind::MariaDb, &MARIADB, &MARIADB_RABBITMQ).await;
}

/// Checks the cost with the database broker and with RabbitMQ. The server is not shared: its log has no bytes of other tests.
async fn on_server(kind: ServerKind, with_database: &Cost, with_rabbitmq: &Cost) {
    let server = DatabaseServer::start_with_binary_log(kind).await.unwrap();
    let log = DatabaseLog::of_server(&server).await;
    let mut differences = Vec::new();
    for (broker_name, cost) in [("database broker", with_database), ("RabbitMQ", with_rabbitmq)] {
        let database = server.database(None).await.unwrap();
        let clock = Arc::new(IdleClock::default());
        let store = open(&database.url(), clock.clone(), &WakeupNotifier::default());
        store.migrate().await.unwrap();
        let is_polling = broker_name != "RabbitMQ";
        let rabbitmq;
        let broker: Arc<dyn Broker> = if is_polling {
            Arc::new(DatabaseBroker::new(&store))
        } else {
            rabbitmq = RabbitBrokerRig::new(QueueType::Quorum).await;
            Arc::new(rabbitmq.broker.clone())
        };
        let deployment = Deployment { clock, store: store.clone(), broker, is_polling };
        differences.extend(measure(&format!("{kind:?}, {broker_name}"), cost, deployment, &log).await);
        store.close().await;
    }
    assert_none(&differences);
}

fn assert_none(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "an order has another cost than the table in tests/servers/order_cost.rs says. If it fell, lower the number there; \
         if it rose, remove the new statement, or raise the number and say in the commit message why.\n{}",
        differences.join("\n")
    );
}

/// Measures the cost of an order, prints it as rows of a table, and returns the differences from the expected cost.
async fn measure(name: &str, expected: &Cost, deployment: Deployment, log: &DatabaseLog) -> Vec<String> {
    let recorder = Recorder::default();
    let _subscriber = recorder.subscribe();
    let chain = Chain::start(deployment).await;
    // The first order opens connections and reserves a block of ids.
    chain.order(chain.list_product().await, &recorder).await;
    let mut measured = Vec::new();
    for _ in 0..ORDERS {
        let product = chain.list_product().await;
        log.start().await;
        let phases = chain.order(product, &recorder).await;
        measured.push((phases, log.written().await));
    }
    chain.stop().await;
    let fewest = |(phases, _): &([(Phase, Vec<Statement>); 3], u64)| {
        phases.iter().map(|(_, statements)| statements.len()).sum::<usize>()
    };
    let log_bytes = measured.iter().map(|(_, bytes)| *bytes).min().unwrap();
    let (phases, _) = measured.into_iter().min_by_key(fewest).unwrap();
    let mut differences = Vec::new();
    let mut all = (0, 0);
    for ((phase, statements), (_, expected_statements, expected_commits)) in
        phases.iter().zip(expected.phases)
    {
        let found = (statements.len(), commits(statements));
        all = (all.0 + found.0, all.1 + found.1);
        println!("| {name} | {phase:?} | {} | {} | |", found.0, found.1);
        if found != (expected_statements, expected_commits) {
            let list: Vec<String> = statements.iter().map(Statement::to_string).collect();
            differences.push(format!(
                "{name}, {phase:?}: {} statements and {} commits instead of {expected_statements} and {expected_commits}:\n    {}",
                found.0,
                found.1,
                list.join("\n    ")
            ));
        }
    }
    println!("| {name} | all | {} | {} | {log_bytes} |", all.0, all.1);
    if expected.log_bytes.abs_diff(log_bytes) * 100 > expected.log_bytes * TOLERATED_PERCENT {
        differences.push(format!("{name}: {log_bytes} bytes in the log instead of {}", expected.log_bytes));
    }
    differences
}
