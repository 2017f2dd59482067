//! Whether a process is ready follows its database, and not its broker.

use std::time::Instant;

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::long;
use handover_tests::market::Ledger;
use handover_tests::process::eventually;

use crate::{GOES_ON_WITHIN, WITHIN, goes_on, on_mariadb_first};

on_mariadb_first!(readiness_follows_the_database_alone);

async fn readiness_follows_the_database_alone(pair: Pair) {
    let deployment = Deployment::with_own_servers(pair).await;
    let launch = deployment.launch();
    let server = launch.start().unwrap();
    let (api, books, ledger) = (Api::of(&server), deployment.books().await, Ledger::default());
    let (database, rabbitmq) = (deployment.database().server(), deployment.vhost().server());
    let becomes = async |wanted: u16| {
        let begun = Instant::now();
        eventually(WITHIN, async || match api.status_of("/readyz").await {
            Ok(status) if status == wanted => Ok(()),
            other => Err(format!("{other:?}").into()),
        })
        .await;
        let took = begun.elapsed();
        assert!(!long() || took < GOES_ON_WITHIN, "{wanted} after {took:?}");
        took
    };
    becomes(200).await;
    goes_on(&api, &books, &ledger).await;
    rabbitmq.save_queues().await.unwrap();
    rabbitmq.kill().unwrap();
    let product = api.list_product(1, "Sold while the broker is away").await.unwrap().id("productId");
    api.place_order(2, product).await.unwrap().value();
    eventually(WITHIN, async || {
        assert_eq!(api.status_of("/readyz").await.unwrap(), 200, "RabbitMQ is away");
        match launch.log().contains("the broker is away") {
            true => Ok(()),
            false => Err("the relay has not noticed that RabbitMQ is away".into()),
        }
    })
    .await;
    assert_eq!(api.status_of("/readyz").await.unwrap(), 200, "RabbitMQ is away, and the relay knows it");
    database.stop().unwrap();
    let noticed = becomes(503).await;
    assert_eq!(api.status_of("/healthz").await.unwrap(), 200, "it lives");
    let refused = api.list_product(1, "Away").await.unwrap();
    assert_eq!(refused.outcome(), (503, "C0001"));
    database.restart().await.unwrap();
    let back = becomes(200).await;
    println!(
        "{pair:?}: not ready {noticed:.1?} after the database stopped, ready {back:.1?} after it is back"
    );
    rabbitmq.restart().await.unwrap();
    goes_on(&api, &books, &ledger).await;
}
