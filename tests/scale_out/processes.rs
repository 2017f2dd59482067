//! Several processes on one database and one broker, that come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handover_tests::books::Books;
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::process::{Server, eventually, tail};

use crate::{GOES_ON_WITHIN, QUIET_WITHIN, goes_on, impatient, turn};

handover_tests::on_pairs!(
    [partitions_go_round_as_processes_come_and_go_and_a_rolling_restart_loses_nothing]:
    mariadb_and_rabbitmq MariaDbRabbitMq, postgres_and_rabbitmq PostgresRabbitMq,
    // The broker is in the database here, and shared by all of them.
    mariadb_and_database MariaDbAlone, postgres_and_database PostgresAlone,
);

mod readiness {
    use super::readiness_follows_the_database_alone;

    handover_tests::on_rabbitmq!(readiness_follows_the_database_alone);
}

/// A lease, and what it takes to notice its end and to take over on a busy machine.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(5 + 5);

/// Leases are renewed at a third, where surplus is found; it is given back after the window that is in flight.
const BALANCED_WITHIN: Duration = Duration::from_secs(15);

const PARTITIONS: i64 = 64;

/// How many partitions each relay owns, or owned until its lease ended; the fewest first.
async fn shares(books: &Books) -> Vec<i64> {
    let sql =
        "SELECT count(*) FROM outbox_partitions WHERE owner IS NOT NULL GROUP BY owner ORDER BY count(*)";
    books.rows(sql).await.unwrap().iter().map(|count| count.parse().unwrap()).collect()
}

/// Waits until so many relays share all partitions evenly; tells how long that took.
async fn shared_by(books: &Books, relays: i64, within: Duration) -> Duration {
    let begun = Instant::now();
    eventually(within, async || {
        let shares = shares(books).await;
        // None has more than its share; who came last may have a little less.
        let fair = PARTITIONS.cast_unsigned().div_ceil(relays.cast_unsigned()).cast_signed();
        let even = shares.iter().all(|own| (fair - relays..=fair).contains(own));
        match shares.len() as i64 == relays && even && shares.iter().sum::<i64>() == PARTITIONS {
            true => Ok(()),
            false => Err(format!("{shares:?}").into()),
        }
    })
    .await;
    begun.elapsed()
}

async fn partitions_go_round_as_processes_come_and_go_and_a_rolling_restart_loses_nothing(pair: Pair) {
    let _turn = turn().await;
    let deployment = Deployment::start(pair).await;
    let books = deployment.books().await;
    let launches: Vec<_> = (0..3).map(|_| impatient(deployment.launch())).collect();
    let mut servers: BTreeMap<usize, Server> = BTreeMap::new();
    for (n, launch) in launches.iter().enumerate() {
        servers.insert(n, launch.start().unwrap());
        let took = shared_by(&books, n as i64 + 1, BALANCED_WITHIN).await;
        println!("{pair:?}: partitions are shared by {} after {took:.1?}", n + 1);
    }
    // Two more without a relay.
    let api_alone = impatient(deployment.launch()).roles("api").start().unwrap();
    let _consumers = impatient(deployment.launch()).roles("consumers,jobs").start().unwrap();
    let (outside, ledger) = (Api::of(&api_alone), Arc::new(Ledger::default()));
    let apis: Vec<Api> = servers.values().map(|server| outside.beside(server)).collect();
    let load = Load::across(&apis, &ledger, 6, Duration::from_millis(10));
    goes_on(&outside, &books, &ledger).await;

    servers.remove(&2).unwrap().kill().unwrap();
    let took = shared_by(&books, 2, TAKEN_OVER_WITHIN).await;
    println!("  what a killed one owned is taken over after {took:.1?}");
    servers.insert(2, launches[2].start().unwrap());
    apis[2].moved_to(&servers[&2]);
    shared_by(&books, 3, BALANCED_WITHIN).await;

    for n in 0..3 {
        let (status, took) = servers.remove(&n).unwrap().terminate(Duration::from_secs(10)).unwrap();
        assert_eq!(status.code(), Some(0), "{}", tail(&launches[n].log()));
        let others = shared_by(&books, 2, TAKEN_OVER_WITHIN).await;
        servers.insert(n, launches[n].start().unwrap());
        apis[n].moved_to(&servers[&n]);
        let back = shared_by(&books, 3, BALANCED_WITHIN).await;
        println!("  stopped within {took:.1?}, taken over after {others:.1?}, shared again after {back:.1?}");
        goes_on(&outside, &books, &ledger).await;
    }
    load.stop().await;
    books.wait_until_quiet(QUIET_WITHIN).await;
    println!("  {}", ledger.summary());
    balance(&books, &ledger).await;
}

async fn readiness_follows_the_database_alone(pair: Pair) {
    let _turn = turn().await;
    let deployment = Deployment::with_own_servers(pair).await;
    let server = deployment.launch().start().unwrap();
    let (api, books) = (Api::of(&server), deployment.books().await);
    let (database, rabbitmq) = (deployment.database().server(), deployment.vhost().server());
    let becomes = async |wanted: u16| {
        let begun = Instant::now();
        eventually(GOES_ON_WITHIN, async || match api.status_of("/readyz").await {
            Ok(status) if status == wanted => Ok(()),
            other => Err(format!("{other:?}").into()),
        })
        .await;
        begun.elapsed()
    };
    becomes(200).await;
    let ledger = Ledger::default();
    goes_on(&api, &books, &ledger).await;
    // RabbitMQ 3.10 writes the name of a new quorum queue to disk half a second later.
    tokio::time::sleep(Duration::from_secs(2)).await;
    rabbitmq.kill().unwrap();
    for _ in 0..20 {
        assert_eq!(api.status_of("/readyz").await.unwrap(), 200, "RabbitMQ is away");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
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
    let applied = goes_on(&api, &books, &ledger).await;
    assert!(applied < GOES_ON_WITHIN, "{applied:?}");
}
