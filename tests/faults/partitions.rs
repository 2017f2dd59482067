//! Several processes that start and stop on one database and one broker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::long;
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::process::{Server, eventually, tail};
use handover_tests::random::RandomSource;
use handover_tests::snapshot::DatabaseSnapshot;

use crate::{WITHIN, assert_progress, with_short_timeouts};

handover_tests::on_pairs!(
    [partitions_are_rebalanced_and_rolling_restart_loses_nothing]:
    postgres_and_rabbitmq PostgresRabbitMq,
    #[ignore = "long: CI runs this test on PostgreSQL and RabbitMQ"] mariadb_and_rabbitmq MariaDbRabbitMq,
    // The database broker is in the database that all processes share.
    #[ignore = "long: CI runs this test on PostgreSQL and RabbitMQ"] mariadb_and_database MariaDbAlone,
    #[ignore = "long: CI runs this test on PostgreSQL and RabbitMQ"] postgres_and_database PostgresAlone,
);

/// Maximum duration of a takeover: a lease of 5 s, and 5 s to detect its end and to take the partitions over.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(5 + 5);

/// A relay detects that it owns more partitions than its share when it renews its leases, three times per lease
/// duration. It releases the excess partitions after it has settled its current window of messages.
const BALANCED_WITHIN: Duration = Duration::from_secs(15);

const PARTITIONS: i64 = 64;

/// Number of partitions per relay in ascending order, including partitions with an expired lease.
async fn shares(snapshot: &DatabaseSnapshot) -> Vec<i64> {
    let sql =
        "SELECT count(*) FROM outbox_partitions WHERE owner IS NOT NULL GROUP BY owner ORDER BY count(*)";
    snapshot.rows(sql).await.unwrap().iter().map(|count| count.parse().unwrap()).collect()
}

/// Waits until this many relays share all partitions evenly. Returns how long that took.
pub(crate) async fn shared_by(snapshot: &DatabaseSnapshot, relays: i64) -> Duration {
    let begun = Instant::now();
    eventually(WITHIN, async || {
        let shares = shares(snapshot).await;
        // No relay owns more than its share; some may own a little less.
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

fn assert_within(took: Duration, promised: Duration) -> Duration {
    assert!(
        !long() || took < promised,
        "the relays share all partitions after {took:?}; the limit is {promised:?}"
    );
    took
}

async fn partitions_are_rebalanced_and_rolling_restart_loses_nothing(pair: Pair) {
    let random = RandomSource::of_test(&format!("partitions on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let launches: Vec<_> = (0..3).map(|_| with_short_timeouts(deployment.launch())).collect();
    let mut servers: BTreeMap<usize, Server> = BTreeMap::new();
    for (n, launch) in launches.iter().enumerate() {
        servers.insert(n, launch.start().unwrap());
        let took = assert_within(shared_by(&snapshot, n as i64 + 1).await, BALANCED_WITHIN);
        println!("{pair:?}: number of relays that share the partitions is {} after {took:.1?}", n + 1);
    }
    // Two processes without a relay, in addition to the processes with one.
    let api_alone = with_short_timeouts(deployment.launch()).roles("api").start().unwrap();
    let _consumers = with_short_timeouts(deployment.launch()).roles("consumers,jobs").start().unwrap();
    let api = Api::of(&api_alone);
    let ledger = Arc::new(Ledger::default());
    let apis: Vec<Api> = servers.values().map(|server| api.for_server(server)).collect();
    let load = Load::start(&apis, &ledger, &random, 6, Duration::from_millis(10)).await;
    assert_progress(&api, &snapshot, &ledger).await;

    servers.remove(&2).unwrap().kill().unwrap();
    let took = assert_within(shared_by(&snapshot, 2).await, TAKEN_OVER_WITHIN);
    println!("  the partitions of the killed process are taken over after {took:.1?}");
    servers.insert(2, launches[2].start().unwrap());
    apis[2].set_server(&servers[&2]);
    assert_within(shared_by(&snapshot, 3).await, BALANCED_WITHIN);

    for n in 0..3 {
        let (status, took) = servers.remove(&n).unwrap().terminate(WITHIN).unwrap();
        assert_eq!(status.code(), Some(0), "{}", tail(&launches[n].log()));
        let others = assert_within(shared_by(&snapshot, 2).await, TAKEN_OVER_WITHIN);
        servers.insert(n, launches[n].start().unwrap());
        apis[n].set_server(&servers[&n]);
        let back = assert_within(shared_by(&snapshot, 3).await, BALANCED_WITHIN);
        println!(
            "  process stopped within {took:.1?}; partitions taken over after {others:.1?}, shared again after {back:.1?}"
        );
        assert_progress(&api, &snapshot, &ledger).await;
    }
    load.stop().await;
    balance(&api, &snapshot, &ledger).await;
}
