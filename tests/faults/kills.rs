//! The program, the broker and the database are killed under load: no acknowledged change is lost, no effect is applied
//! twice, money and points always add up, and no manual repair is necessary.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::long;
use handover_tests::market::{Ledger, Load, balance, ledger_sums};
use handover_tests::process::{Launch, Server};
use handover_tests::random::RandomSource;
use handover_tests::snapshot::DatabaseSnapshot;
use tokio::time::timeout;

use crate::{WITHIN, assert_progress, share_of, with_short_timeouts};

handover_tests::on_pairs!([kills_under_load_lose_and_duplicate_nothing]:
    sqlite_and_database SqliteAlone, mariadb_and_rabbitmq MariaDbRabbitMq, postgres_and_rabbitmq PostgresRabbitMq);

/// Maximum start time after a crash on an otherwise idle machine.
const READY_AGAIN_WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Process,
    Broker,
    Database,
    All,
}

/// Returns the target of each kill, in random sequence.
fn victims(pair: Pair, random: &RandomSource) -> Vec<Victim> {
    let due = match pair.database_server() {
        // SQLite runs in the program's process; there is no server to kill.
        None => vec![(Victim::Process, 60)],
        Some(_) => {
            vec![(Victim::Process, 30), (Victim::Broker, 10), (Victim::Database, 10), (Victim::All, 3)]
        }
    };
    random.shuffled(due.into_iter().flat_map(|(victim, times)| vec![victim; share_of(times)]))
}

async fn kills_under_load_lose_and_duplicate_nothing(pair: Pair) {
    let random = RandomSource::of_test(&format!("kills on {pair:?}"));
    let deployment = Deployment::with_own_servers(pair).await;
    let launch = with_short_timeouts(deployment.launch());
    let mut process = launch.start().unwrap();
    let api = Api::of(&process);
    let snapshot = deployment.snapshot().await;
    let ledger = Arc::new(Ledger::default());
    assert_progress(&api, &snapshot, &ledger).await;
    if pair.is_on_rabbitmq() {
        deployment.vhost().server().save_queues().await.unwrap();
    }
    let pause = Duration::from_millis(if pair == Pair::SqliteAlone { 5 } else { 40 });
    let load = Load::start(std::slice::from_ref(&api), &ledger, &random, 6, pause).await;
    let victims = victims(pair, &random);
    let killer = random.stream("killer");
    for victim in &victims {
        assert_ledger_sums_stay_zero_during(&snapshot, ledger.wait_for_orders(20)).await;
        tokio::time::sleep(killer.millis(0..300)).await;
        let begun = Instant::now();
        process = killed_and_restarted(*victim, &deployment, &launch, process, &api).await;
        let restarted = begun.elapsed();
        assert!(!long() || *victim != Victim::Process || restarted < READY_AGAIN_WITHIN, "{restarted:?}");
        let applied = assert_progress(&api, &snapshot, &ledger).await;
        println!(
            "{pair:?}, {victim:?} killed: restarted within {restarted:.1?}, an order is applied after {applied:.1?}"
        );
    }
    load.stop().await;
    println!("{pair:?}, {} kills", victims.len());
    balance(&api, &snapshot, &ledger).await;
    let lost = launch.log().matches("the broker lost a confirmed event").count();
    println!("  {lost} events were applied although the broker had confirmed and then lost them");
    assert_eq!(api.status_of("/readyz").await.unwrap(), 200);
    let (status, _) = process.terminate(WITHIN).unwrap();
    assert_eq!(status.code(), Some(0));
}

async fn assert_ledger_sums_stay_zero_during(snapshot: &DatabaseSnapshot, load: impl Future<Output = ()>) {
    let mut load = pin!(load);
    let mut is_over = false;
    while !is_over {
        assert_eq!(ledger_sums(snapshot).await.unwrap(), ["0", "0"], "money and points");
        is_over = timeout(Duration::from_millis(100), load.as_mut()).await.is_ok();
    }
}

async fn killed_and_restarted(
    victim: Victim,
    deployment: &Deployment,
    launch: &Launch,
    process: Server,
    api: &Api,
) -> Server {
    let broker = || deployment.vhost().server();
    let database = || deployment.database().server();
    match victim {
        Victim::Process => {
            process.kill().unwrap();
        }
        Victim::Broker => {
            broker().kill().unwrap();
            broker().restart().await.unwrap();
            return process;
        }
        Victim::Database => {
            database().kill().unwrap();
            database().restart().await.unwrap();
            return process;
        }
        Victim::All => {
            process.kill().unwrap();
            broker().kill().unwrap();
            database().kill().unwrap();
            tokio::try_join!(broker().restart(), database().restart()).unwrap();
        }
    }
    let process = launch.start().unwrap();
    api.set_server(&process);
    process
}
