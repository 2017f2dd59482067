//! A rolling deployment on database servers, over the database and over RabbitMQ.

use std::sync::Arc;

use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Broker, outbox_of};
use handover_rabbitmq::{QueueType, RabbitBroker};
use handover_sql::{DatabaseBroker, ServerOptions, SqlStore};
use handover_system::SystemClock;
use handover_tests::rabbit_rigs::{patient, shared};
use handover_tests::server_rigs::migrated;
use handover_tests::servers::database::ServerKind;
use handover_tests::versions::rolling_deployment;

fn open(url: &str) -> SqlStore {
    let options = ServerOptions::parse(url).unwrap();
    SqlStore::open_server(&options, Arc::new(SystemClock), WakeupNotifier::default())
}

fn over_database(kind: ServerKind) {
    handover_contract::run(async {
        let database = migrated(kind).await;
        let store = open(&database.url());
        let broker = || -> Arc<dyn Broker> { Arc::new(DatabaseBroker::new(&store)) };
        rolling_deployment(outbox_of(&Arc::new(store.clone())), broker).await;
    });
}

fn over_rabbitmq(kind: ServerKind, queue_type: QueueType) {
    handover_contract::run(async {
        let database = migrated(kind).await;
        let vhost = shared().await.vhost().await.unwrap();
        let url = vhost.url();
        let broker = || -> Arc<dyn Broker> { Arc::new(RabbitBroker::new(patient(&url, queue_type))) };
        rolling_deployment(outbox_of(&Arc::new(open(&database.url()))), broker).await;
    });
}

#[test]
fn rolling_deployment_on_mariadb_applies_each_event_once_and_in_order() {
    over_database(ServerKind::MariaDb);
}

#[test]
fn rolling_deployment_on_postgres_applies_each_event_once_and_in_order() {
    over_database(ServerKind::Postgres);
}

#[test]
fn rolling_deployment_over_rabbitmq_applies_each_event_once_and_in_order() {
    over_rabbitmq(ServerKind::Postgres, QueueType::Quorum);
    over_rabbitmq(ServerKind::MariaDb, QueueType::Classic);
}
