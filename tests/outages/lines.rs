//! Lines that lose just the answer: confirms of RabbitMQ, and what the database says to a COMMIT.

use std::sync::Arc;
use std::time::{Duration, Instant};

use handover_tests::books::Books;
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::process::eventually;
use handover_tests::servers::database::ServerKind;
use handover_tests::servers::proxy::{Proxy, Traffic};

use crate::turn;

handover_tests::on_rabbitmq!(
    events_whose_confirms_are_lost_are_not_sent_until_one_arrives,
    a_client_is_told_the_truth_when_the_line_is_cut_right_after_commit,
    commits_whose_answers_are_lost_double_nothing_and_lose_nothing,
);

const WITHIN: Duration = Duration::from_secs(30);
const QUIET_WITHIN: Duration = Duration::from_secs(90);
const SELLER: i64 = 1;
const BUYER: i64 = 2;

async fn events_whose_confirms_are_lost_are_not_sent_until_one_arrives(pair: Pair) {
    let _turn = turn().await;
    let deployment = Deployment::start(pair).await;
    let books = deployment.books().await;
    let line = Proxy::start(deployment.vhost().server().port()).await.unwrap();
    let shop = deployment.launch().roles("api,consumers,jobs");
    let shop = shop.set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.1");
    let shop = shop.set("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "2s").start().unwrap();
    let relay = deployment.launch_by(None, Some(line.port())).roles("relay");
    let relay = relay.set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.1");
    let _relay = relay.set("HANDOVER_OUTBOX__CONFIRM_TIMEOUT", "1s").start().unwrap();
    let ledger = Arc::new(Ledger::default());
    let load = Load::start(&Api::of(&shop), &ledger, 4, Duration::from_millis(20));
    let sent = "SELECT count(*) FROM outbox_events WHERE status = 'SENT'";
    let mut published = 0;
    for _ in 0..if handover_tests::long() { 10 } else { 2 } {
        tokio::time::sleep(Duration::from_millis(500)).await;
        line.set(Traffic { from_server_vanishes: true, ..Traffic::default() });
        let before = unchanged(&books, sent).await;
        let unconfirmed =
            "SELECT count(*) FROM outbox_events e JOIN event_consume_log l ON l.event_id = e.event_id
             WHERE e.status <> 'SENT' AND l.status = 'SUCCESS'";
        published += books.number(unconfirmed).await;
        line.set(Traffic::default());
        eventually(WITHIN, async || match books.count(sent).await? {
            same if same == before => Err("nothing was sent since".into()),
            _ => Ok(()),
        })
        .await;
    }
    load.stop().await;
    books.wait_until_quiet(QUIET_WITHIN).await;
    println!("{pair:?}: {published} effects of events whose confirms were lost: {}", ledger.summary());
    assert!(published > 0, "no confirm was lost");
    balance(&books, &ledger).await;
}

/// What a count comes to rest at: what was confirmed of a window before its confirms got lost is settled when the
/// second of its deadline is over. A relay that took silence for a confirm would go on and on under this load.
async fn unchanged(books: &Books, count: &str) -> i64 {
    let (begun, mut last) = (Instant::now(), books.number(count).await);
    loop {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        match books.number(count).await {
            same if same == last => return same,
            _ if begun.elapsed() > WITHIN => panic!("events become SENT without a confirm"),
            more => last = more,
        }
    }
}

/// COMMIT as it goes over the line. The bare word is part of other statements too.
fn commit(deployment: &Deployment) -> &'static str {
    match deployment.database().server().kind() {
        ServerKind::MariaDb => "\u{7}\0\0\0\u{3}COMMIT",
        ServerKind::Postgres => "Q\0\0\0\u{b}COMMIT\0",
    }
}

async fn a_client_is_told_the_truth_when_the_line_is_cut_right_after_commit(pair: Pair) {
    let _turn = turn().await;
    let deployment = Deployment::start(pair).await;
    let (books, commit) = (deployment.books().await, commit(&deployment));
    let line = Proxy::start(deployment.database().server().port()).await.unwrap();
    let shop = deployment.launch_by(Some(line.port()), None).roles("api").start().unwrap();
    let _others = deployment.launch().roles("relay,consumers,jobs").start().unwrap();
    let api = Api::of(&shop);
    let (mut answered, mut asked_again) = (0, 0);
    for n in 0..if handover_tests::long() { 200 } else { 20 } {
        let product = api.list_product(SELLER, &format!("Lamp {n}")).await.unwrap().id("productId");
        line.cut_after(commit);
        let mut answer = api.place_order(BUYER, product).await.unwrap();
        assert!(!line.is_waiting_to_cut(), "the order was answered without a COMMIT: {answer:?}");
        if answer.status == 503 {
            asked_again += 1;
            answer = api.place_order(BUYER, product).await.unwrap();
        } else {
            answered += 1;
        }
        let ids = books.rows(&format!("SELECT id FROM orders WHERE product_id = {product}")).await.unwrap();
        let [order] = ids.as_slice() else { panic!("{answer:?}, and the orders are {ids:?}") };
        match answer.outcome() {
            (201, "00000") => assert_eq!(&answer.id("orderId").to_string(), order),
            // Sold: to the one who asks, and who finds the order.
            (409, "A0409") => {
                let found = api.order(BUYER, order.parse().unwrap()).await.unwrap().value();
                assert_eq!(found["productId"], product);
            }
            odd => panic!("{odd:?}: {answer:?}"),
        }
    }
    println!("{pair:?}: lines cut after COMMIT: {answered} answered, {asked_again} asked again");
    books.wait_until_settled(WITHIN).await;
    assert_eq!(books.broken().await, Vec::<String>::new());
}

async fn commits_whose_answers_are_lost_double_nothing_and_lose_nothing(pair: Pair) {
    let _turn = turn().await;
    let deployment = Deployment::start(pair).await;
    let (books, commit) = (deployment.books().await, commit(&deployment));
    let line = Proxy::start(deployment.database().server().port()).await.unwrap();
    let launch = deployment.launch_by(Some(line.port()), None);
    let launch = launch.set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.1");
    let launch = launch.set("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "2s");
    let shop = launch.set("HANDOVER_CONSUMER__SWEEP_INTERVAL", "1s").start().unwrap();
    let ledger = Arc::new(Ledger::default());
    let load = Load::start(&Api::of(&shop), &ledger, 6, Duration::from_millis(10));
    let cuts =
        cut_commits(&line, commit, Duration::from_secs(if handover_tests::long() { 60 } else { 5 })).await;
    load.stop().await;
    books.wait_until_quiet(QUIET_WITHIN).await;
    println!("{pair:?}: {cuts} lines cut after COMMIT in mid-load: {}", ledger.summary());
    balance(&books, &ledger).await;
    assert!(cuts > 20, "{cuts}");
    nobody_is_left_in_a_transaction(&books, pair).await;
}

/// Cuts off whoever commits, again and again, whatever it was: an order, a settlement, effects, a lease.
async fn cut_commits(line: &Proxy, commit: &'static str, time: Duration) -> u32 {
    let (begun, mut cuts) = (Instant::now(), 0);
    while begun.elapsed() < time {
        line.cut_after(commit);
        eventually(WITHIN, async || match line.is_waiting_to_cut() {
            true => Err("nobody commits".into()),
            false => Ok(()),
        })
        .await;
        cuts += 1;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    cuts
}

/// For so long nobody does nothing within a transaction; the servers end those that do after 15 s.
pub(crate) const AT_WORK: Duration = Duration::from_secs(2);

/// No connection was left in a transaction, by those who were done [`AT_WORK`] ago.
pub(crate) async fn nobody_is_left_in_a_transaction(books: &Books, pair: Pair) {
    let idle = match pair.database_server() {
        Some(ServerKind::Postgres) => {
            "SELECT pid || ' ' || query FROM pg_stat_activity WHERE datname = current_database()
             AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '2 seconds'"
        }
        Some(ServerKind::MariaDb) | None => {
            "SELECT concat(p.id, ' ', t.trx_state) FROM information_schema.innodb_trx t
             JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
             WHERE p.db = database() AND p.command = 'Sleep' AND p.time_ms >= 2000"
        }
    };
    // A machine that is too busy has them too, and soon has them no more.
    eventually(Duration::from_secs(5), async || match books.rows(idle).await? {
        none if none.is_empty() => Ok(()),
        some => Err(format!("connections are left in a transaction: {some:?}").into()),
    })
    .await;
}
