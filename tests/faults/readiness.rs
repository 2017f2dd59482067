//! Readiness depends on the database and not on the broker.

use std::time::Instant;

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::long;
use handover_tests::market::Ledger;
use handover_tests::process::eventually;

use crate::{RECOVERY_WITHIN, WITHIN, assert_progress, on_mariadb_first};

on_mariadb_first!(readiness_depends_on_database_only);

async fn readiness_depends_on_database_only(pair: Pair) {
    let deployment = Deployment::with_own_servers(pair).await;
    let launch = deployment.launch();
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    let snapshot = deployment.snapshot().await;
    let ledger = Ledger::default();
    let database = deployment.database().server();
    let rabbitmq = deployment.vhost().server();
    let becomes = async |wanted: u16| {
        let begun = Instant::now();
        eventually(WITHIN, async || match api.status_of("/readyz").await {
            Ok(status) if status == wanted => Ok(()),
            other => Err(format!("{other:?}").into()),
        })
        .await;
        let took = begun.elapsed();
        assert!(!long() || took < RECOVERY_WITHIN, "{wanted} after {took:?}");
        took
    };
    becomes(200).await;
    assert_progress(&api, &snapshot, &ledger).await;
    rabbitmq.save_queues().await.unwrap();
    rabbitmq.kill().unwrap();
    let product = api.list_product(1, "Sold during the outage").await.unwrap().id("productId");
    api.place_order(2, product).await.unwrap().value();
    eventually(WITHIN, async || {
        assert_eq!(
            api.status_of("/readyz").await.unwrap(),
            200,
            "the process must stay ready while RabbitMQ is unavailable"
        );
        match launch.log().contains("broker unreachable") {
            true => Ok(()),
            false => Err("the relay has not detected that RabbitMQ is unavailable".into()),
        }
    })
    .await;
    assert_eq!(
        api.status_of("/readyz").await.unwrap(),
        200,
        "the process must stay ready after the relay has detected that RabbitMQ is unavailable"
    );
    database.stop().unwrap();
    let not_ready_after = becomes(503).await;
    assert_eq!(api.status_of("/healthz").await.unwrap(), 200, "the process must stay alive");
    let refused = api.list_product(1, "Unavailable").await.unwrap();
    assert_eq!(refused.outcome(), (503, "C0001"));
    database.restart().await.unwrap();
    let ready_after = becomes(200).await;
    println!(
        "{pair:?}: not ready {not_ready_after:.1?} after the database stopped, ready {ready_after:.1?} after it started again"
    );
    rabbitmq.restart().await.unwrap();
    assert_progress(&api, &snapshot, &ledger).await;
}
