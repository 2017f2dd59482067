//! RabbitMQ on three nodes, of which the one that leads is killed.

use std::sync::Arc;
use std::time::Duration;

use handover_tests::chance::Chance;
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::server_rigs::shared;
use handover_tests::servers::database::ServerKind;
use handover_tests::servers::rabbitmq::RabbitCluster;

use crate::{goes_on, impatient};

#[tokio::test(flavor = "multi_thread")]
async fn of_three_rabbitmq_nodes_the_leader_is_killed_in_mid_load_and_nothing_is_lost() {
    let chance = Chance::of_test("kills of the leader of three nodes");
    let kills = if handover_tests::long() { 6 } else { 1 };
    let database = shared(ServerKind::Postgres).await.database(None).await.unwrap();
    let cluster = RabbitCluster::start().await.unwrap();
    let deployment = Deployment::on(Pair::PostgresAlone, Some(database), None);
    let launch = impatient(deployment.launch()).set("HANDOVER_BROKER__URL", &cluster.url());
    let server = launch.start().unwrap();
    let (api, books) = (Api::of(&server), deployment.books().await);
    let ledger = Arc::new(Ledger::default());
    cluster.wait_until_replicated().await.unwrap();
    let load = Load::start(std::slice::from_ref(&api), &ledger, &chance, 6, Duration::from_millis(10)).await;
    let mut alive = 0;
    for _ in 0..kills {
        goes_on(&api, &books, &ledger).await;
        let node = cluster.node_of_connection("handover: publishing", alive).await.unwrap();
        for queue in ["inventory.update.queue", "webhook.dispatch.queue"] {
            cluster.let_lead(queue, node).await.unwrap();
        }
        cluster.kill(node).unwrap();
        let applied = goes_on(&api, &books, &ledger).await;
        println!("{} leads and is killed: an order is applied within {applied:.1?}", cluster.names()[node]);
        cluster.restart(node).await.unwrap();
        cluster.wait_until_replicated().await.unwrap();
        alive = node;
    }
    load.stop().await;
    println!("{kills} leaders killed");
    balance(&api, &books, &ledger).await;
    let charged = "SELECT count(*) FROM outbox_events WHERE status = 'FAILED'";
    assert_eq!(books.number(charged).await, 0, "a node that is away is no failure of an event");
}
