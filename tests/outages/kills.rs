//! kill -9 of servers and processes at any moment: nothing is lost or doubled, and work goes on by itself.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use handover_tests::books::{Books, moment};
use handover_tests::client::{Api, rand_like};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::process::{Launch, Server, eventually};

use crate::{literal, share_of, turn};

handover_tests::on_rabbitmq!(kills_in_mid_load_lose_nothing_and_double_nothing);

/// Publishing and consuming go on within this long of the server being back.
const GOES_ON_WITHIN: Duration = Duration::from_secs(10);
/// An outbox is stuck if it does not get shorter for so long.
const STUCK_AFTER: Duration = Duration::from_secs(20);
/// With the deadlines of unpaid orders, and redeliveries.
const QUIET_WITHIN: Duration = Duration::from_secs(60);
/// RabbitMQ 3.10 may forget a quorum queue that it declared for the first time just before it was killed.
const NEW_QUEUES_SETTLE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Process,
    Broker,
    Database,
    All,
}

/// Every kind as often as it is due, mixed.
fn victims() -> Vec<Victim> {
    let due = [
        (Victim::Process, share_of(30)),
        (Victim::Broker, share_of(10)),
        (Victim::Database, share_of(10)),
        (Victim::All, share_of(3)),
    ];
    let mut victims: Vec<(u64, Victim)> =
        due.into_iter().flat_map(|(victim, times)| (0..times).map(move |_| (rand_like(), victim))).collect();
    victims.sort_by_key(|(place, _)| *place);
    victims.into_iter().map(|(_, victim)| victim).collect()
}

async fn kills_in_mid_load_lose_nothing_and_double_nothing(pair: Pair) {
    let _turn = turn().await;
    let deployment = Deployment::with_own_servers(pair).await;
    // Unpaid orders are closed after six seconds, so that timeouts fall into the chaos too.
    let launch = deployment
        .launch()
        .set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.1")
        .set("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "2s")
        .set("HANDOVER_CONSUMER__SWEEP_INTERVAL", "1s");
    let mut process = launch.start().unwrap();
    let (api, books) = (Api::of(&process), deployment.books().await);
    eventually(GOES_ON_WITHIN, async || {
        let queues = deployment.vhost().messages().await?.len();
        if queues >= 8 { Ok(()) } else { Err(format!("{queues} queues").into()) }
    })
    .await;
    tokio::time::sleep(NEW_QUEUES_SETTLE).await;
    let ledger = Arc::new(Ledger::default());
    let load = Load::start(&api, &ledger, 4, Duration::from_millis(40));
    goes_on(&books, Utc::now()).await;
    let mut slowest = Recovery::default();
    let victims = victims();
    for victim in &victims {
        tokio::time::sleep(Duration::from_millis(300 + rand_like() % 1_000)).await;
        let back;
        (process, back) = killed_and_back(*victim, &deployment, &launch, process, &api).await;
        let recovery = goes_on(&books, back).await;
        println!("{pair:?}, {victim:?} killed: {recovery}");
        slowest = slowest.max(recovery);
    }
    load.stop().await;
    let (left, took) = drained(&books).await;
    books.wait_until_quiet(QUIET_WITHIN).await;
    println!("{pair:?}, {} kills, at most {slowest}: {}", victims.len(), ledger.summary());
    println!(
        "  in the database: {}; {left} at the end to publish, sent in {took:.1?}",
        books.summary().await
    );
    let lost = launch.log().matches("the broker lost a confirmed event").count();
    println!("  {lost} events applied that the broker had confirmed and lost");
    balance(&books, &ledger).await;
    let orders = ledger.orders().len();
    assert!(orders > 20 * victims.len(), "the load was too thin to prove anything: {}", ledger.summary());
    assert!(slowest.most() < TimeDelta::from_std(GOES_ON_WITHIN).unwrap(), "{slowest}");
    assert_eq!(api.status_of("/readyz").await.unwrap(), 200);
    let (status, _) = process.terminate(Duration::from_secs(10)).unwrap();
    assert_eq!(status.code(), Some(0));
}

/// Kills and starts again; tells since when the victim is back: it answers, or says that it listens.
async fn killed_and_back(
    victim: Victim,
    deployment: &Deployment,
    launch: &Launch,
    process: Server,
    api: &Api,
) -> (Server, DateTime<Utc>) {
    let (broker, database) = (deployment.vhost().server(), deployment.database().server());
    let again = || {
        let process = launch.start().unwrap();
        api.moved_to(&process);
        (process, Utc::now())
    };
    match victim {
        Victim::Process => {
            process.kill().unwrap();
            again()
        }
        Victim::Broker => {
            broker.kill().unwrap();
            broker.restart().await.unwrap();
            (process, Utc::now())
        }
        Victim::Database => {
            database.kill().unwrap();
            database.restart().await.unwrap();
            (process, Utc::now())
        }
        Victim::All => {
            process.kill().unwrap();
            broker.kill().unwrap();
            database.kill().unwrap();
            tokio::try_join!(broker.restart(), database.restart()).unwrap();
            again()
        }
    }
}

/// How long after a server was back its work went on.
#[derive(Debug, Clone, Copy, Default)]
struct Recovery {
    publishing: TimeDelta,
    consuming: TimeDelta,
}

impl Recovery {
    fn max(self, other: Recovery) -> Recovery {
        Recovery {
            publishing: self.publishing.max(other.publishing),
            consuming: self.consuming.max(other.consuming),
        }
    }

    fn most(self) -> TimeDelta {
        self.publishing.max(self.consuming)
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (publishing, consuming) = (self.publishing.num_milliseconds(), self.consuming.num_milliseconds());
        write!(formatter, "publishing after {publishing} ms, consuming after {consuming} ms")
    }
}

/// Waits for the first event that was sent, and the first that took effect, after that moment.
async fn goes_on(books: &Books, back: DateTime<Utc>) -> Recovery {
    let since = literal(back);
    let sent = format!("SELECT min(sent_time) FROM outbox_events WHERE sent_time > {since}");
    let applied = format!(
        "SELECT min(consume_time) FROM event_consume_log
         WHERE consumer = 'inventory' AND status = 'SUCCESS' AND consume_time > {since}"
    );
    let first = async |sql: &str, what: &str| {
        let time = eventually(GOES_ON_WITHIN, async || {
            let found = books.rows(sql).await?.into_iter().next().unwrap_or_default();
            if found.is_empty() { Err(format!("nothing was {what} since {since}").into()) } else { Ok(found) }
        })
        .await;
        moment(&time) - back
    };
    let (publishing, consuming) = tokio::join!(first(&sent, "sent"), first(&applied, "applied"));
    Recovery { publishing, consuming }
}

/// Waits until everything is sent, for as long as it gets less: how much it was, and how long that took.
async fn drained(books: &Books) -> (i64, Duration) {
    let left =
        async || books.number("SELECT count(*) FROM outbox_events WHERE status IN ('NEW', 'RETRY')").await;
    let (all, begun) = (left().await, Instant::now());
    let (mut least, mut since) = (all, begun);
    while least > 0 {
        assert!(since.elapsed() < STUCK_AFTER, "{least} of {all} events are not sent and do not get less");
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = left().await;
        if now < least {
            (least, since) = (now, Instant::now());
        }
    }
    (all, begun.elapsed())
}
