//! Several processes on one database and one broker, that come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handover_tests::books::Books;
use handover_tests::chance::Chance;
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::long;
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::process::{Server, eventually, tail};

use crate::{WITHIN, goes_on, impatient};

handover_tests::on_pairs!(
    [partitions_go_round_as_processes_come_and_go_and_a_rolling_restart_loses_nothing]:
    postgres_and_rabbitmq PostgresRabbitMq,
    #[ignore = "long: the same on another database"] mariadb_and_rabbitmq MariaDbRabbitMq,
    // The broker is in the database here, and shared by all of them.
    #[ignore = "long: the same on another broker"] mariadb_and_database MariaDbAlone,
    #[ignore = "long: the same on another broker"] postgres_and_database PostgresAlone,
);

/// A lease of 5 s, and what it takes to notice its end and to take over.
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
pub(crate) async fn shared_by(books: &Books, relays: i64) -> Duration {
    let begun = Instant::now();
    eventually(WITHIN, async || {
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

fn held_to(took: Duration, promised: Duration) -> Duration {
    assert!(!long() || took < promised, "{took:?} and not {promised:?}");
    took
}

async fn partitions_go_round_as_processes_come_and_go_and_a_rolling_restart_loses_nothing(pair: Pair) {
    let chance = Chance::of_test(&format!("partitions on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let books = deployment.books().await;
    let launches: Vec<_> = (0..3).map(|_| impatient(deployment.launch())).collect();
    let mut servers: BTreeMap<usize, Server> = BTreeMap::new();
    for (n, launch) in launches.iter().enumerate() {
        servers.insert(n, launch.start().unwrap());
        let took = held_to(shared_by(&books, n as i64 + 1).await, BALANCED_WITHIN);
        println!("{pair:?}: partitions are shared by {} after {took:.1?}", n + 1);
    }
    // Two more without a relay.
    let api_alone = impatient(deployment.launch()).roles("api").start().unwrap();
    let _consumers = impatient(deployment.launch()).roles("consumers,jobs").start().unwrap();
    let (outside, ledger) = (Api::of(&api_alone), Arc::new(Ledger::default()));
    let apis: Vec<Api> = servers.values().map(|server| outside.beside(server)).collect();
    let load = Load::start(&apis, &ledger, &chance, 6, Duration::from_millis(10)).await;
    goes_on(&outside, &books, &ledger).await;

    servers.remove(&2).unwrap().kill().unwrap();
    let took = held_to(shared_by(&books, 2).await, TAKEN_OVER_WITHIN);
    println!("  what a killed one owned is taken over after {took:.1?}");
    servers.insert(2, launches[2].start().unwrap());
    apis[2].moved_to(&servers[&2]);
    held_to(shared_by(&books, 3).await, BALANCED_WITHIN);

    for n in 0..3 {
        let (status, took) = servers.remove(&n).unwrap().terminate(WITHIN).unwrap();
        assert_eq!(status.code(), Some(0), "{}", tail(&launches[n].log()));
        let others = held_to(shared_by(&books, 2).await, TAKEN_OVER_WITHIN);
        servers.insert(n, launches[n].start().unwrap());
        apis[n].moved_to(&servers[&n]);
        let back = held_to(shared_by(&books, 3).await, BALANCED_WITHIN);
        println!("  stopped within {took:.1?}, taken over after {others:.1?}, shared again after {back:.1?}");
        goes_on(&outside, &books, &ledger).await;
    }
    load.stop().await;
    balance(&outside, &books, &ledger).await;
}
