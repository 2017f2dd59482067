//! A rolling deployment on the adapters that need no server.

use std::sync::Arc;

use handover_memory::{MemoryBroker, MemoryStore};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Broker, outbox_of};
use handover_sql::{DatabaseBroker, SqlStore, SqliteOptions};
use handover_system::SystemClock;
use handover_tests::versions::rolling_deployment;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_deployment_in_memory_applies_each_event_once_and_in_order() {
    let clock = Arc::new(SystemClock);
    let store: Arc<MemoryStore> = Arc::new(MemoryStore::new(clock.clone(), WakeupNotifier::default()));
    let broker: Arc<dyn Broker> = Arc::new(MemoryBroker::new(clock));
    rolling_deployment(outbox_of(&store), || Arc::clone(&broker)).await;
}

/// A database file is served by one process, so both versions use one store here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_deployment_on_sqlite_applies_each_event_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::file(folder.path().join("test.db"));
    let store =
        SqlStore::open_sqlite(&options, Arc::new(SystemClock), WakeupNotifier::default()).await.unwrap();
    store.migrate().await.unwrap();
    let broker = || -> Arc<dyn Broker> { Arc::new(DatabaseBroker::new(&store)) };
    rolling_deployment(outbox_of(&Arc::new(store.clone())), broker).await;
}
