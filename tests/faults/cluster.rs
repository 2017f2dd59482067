//! RabbitMQ on three nodes; the leader is killed.

use std::sync::Arc;
use std::time::Duration;

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::random::RandomSource;
use handover_tests::server_rigs::shared;
use handover_tests::servers::database::ServerKind;
use handover_tests::servers::rabbitmq::RabbitCluster;

use crate::{assert_progress, with_short_timeouts};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: three nodes of RabbitMQ"]
async fn rabbitmq_cluster_loses_nothing_when_leader_is_killed_under_load() {
    let random = RandomSource::of_test("kills of the leader of three nodes");
    let kills = 6;
    let database = shared(ServerKind::Postgres).await.database(None).await.unwrap();
    let cluster = RabbitCluster::start().await.unwrap();
    let deployment = Deployment::on(Pair::PostgresAlone, Some(database), None);
    let launch = with_short_timeouts(deployment.launch()).set("HANDOVER_BROKER__URL", &cluster.url());
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    let snapshot = deployment.snapshot().await;
    let ledger = Arc::new(Ledger::default());
    cluster.wait_until_replicated().await.unwrap();
    let load = Load::start(std::slice::from_ref(&api), &ledger, &random, 6, Duration::from_millis(10)).await;
    let mut running = 0;
    for _ in 0..kills {
        assert_progress(&api, &snapshot, &ledger).await;
        let node = cluster.node_of_connection("handover: publishing", running).await.unwrap();
        for queue in ["inventory.update.queue", "webhook.dispatch.queue"] {
            cluster.make_leader(queue, node).await.unwrap();
        }
        cluster.kill(node).unwrap();
        let applied = assert_progress(&api, &snapshot, &ledger).await;
        println!("leader {} killed: an order is applied within {applied:.1?}", cluster.names()[node]);
        cluster.restart(node).await.unwrap();
        cluster.wait_until_replicated().await.unwrap();
        running = node;
    }
    load.stop().await;
    println!("{kills} leaders killed");
    balance(&api, &snapshot, &ledger).await;
    let charged = "SELECT count(*) FROM outbox_events WHERE status = 'FAILED'";
    assert_eq!(snapshot.number(charged).await, 0, "an unavailable node must not make events FAILED");
}
