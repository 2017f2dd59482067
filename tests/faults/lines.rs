//! Lines that lose just the answer: confirms of RabbitMQ, and what the database says to a COMMIT.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_tests::books::{Books, moment};
use handover_tests::chance::Chance;
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::long;
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::process::eventually;
use handover_tests::servers::database::ServerKind;
use handover_tests::servers::proxy::{Proxy, Traffic};

use crate::{WITHIN, impatient, literal, on_mariadb_first};

on_mariadb_first!(
    events_whose_confirms_are_lost_are_not_sent_until_one_arrives,
    a_client_is_told_the_truth_when_the_line_is_cut_right_after_commit,
    commits_whose_answers_are_lost_double_nothing_and_lose_nothing,
);

const SELLER: i64 = 1;
const BUYER: i64 = 2;

async fn events_whose_confirms_are_lost_are_not_sent_until_one_arrives(pair: Pair) {
    let chance = Chance::of_test(&format!("lost confirms on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let books = deployment.books().await;
    let line = Proxy::start(deployment.vhost().server().port()).await.unwrap();
    let shop = impatient(deployment.launch()).roles("api,consumers,jobs").start().unwrap();
    let relay = impatient(deployment.launch_by(None, Some(line.port()))).roles("relay");
    let _relay = relay.set("HANDOVER_OUTBOX__CONFIRM_TIMEOUT", "1s").start().unwrap();
    let (api, ledger) = (Api::of(&shop), Arc::new(Ledger::default()));
    let load = Load::start(std::slice::from_ref(&api), &ledger, &chance, 4, Duration::from_millis(20)).await;
    let sent = "SELECT count(*) FROM outbox_events WHERE status = 'SENT'";
    let retried = "SELECT count(*) FROM outbox_events WHERE status = 'RETRY'";
    for _ in 0..if long() { 10 } else { 2 } {
        // A relay that is not connected publishes nothing while the server's answers vanish.
        eventually(WITHIN, async || match books.count(retried).await? {
            0 => Ok(()),
            some => Err(format!("{some} events wait since the last outage").into()),
        })
        .await;
        ledger.wait_for_orders(10).await;
        line.set(Traffic { from_server_vanishes: true, ..Traffic::default() });
        // What was confirmed of the window in flight is settled when the relay gives up the rest of it.
        let first = given_up(&books, Utc::now()).await;
        let before = books.number(sent).await;
        // A relay that took silence for a confirm would go on and on under this load.
        given_up(&books, first).await;
        assert_eq!(books.number(sent).await, before, "events become SENT without a confirm");
        let applied =
            "SELECT count(*) FROM outbox_events e JOIN event_consume_log l ON l.event_id = e.event_id
             WHERE e.status <> 'SENT' AND l.status = 'SUCCESS'";
        eventually(WITHIN, async || match books.count(applied).await? {
            0 => Err("no event was applied whose confirm was lost".into()),
            _ => Ok(()),
        })
        .await;
        line.set(Traffic::default());
        eventually(WITHIN, async || match books.count(sent).await? {
            same if same == before => Err("nothing was sent since".into()),
            _ => Ok(()),
        })
        .await;
    }
    load.stop().await;
    balance(&api, &books, &ledger).await;
}

/// Waits until the relay gives up waiting for confirms, after this moment; tells when it did.
async fn given_up(books: &Books, after: DateTime<Utc>) -> DateTime<Utc> {
    let sql = format!(
        "SELECT max(update_time) FROM outbox_events WHERE status = 'RETRY' AND update_time > {}",
        literal(after)
    );
    let given_up = eventually(WITHIN, async || match books.rows(&sql).await?.remove(0) {
        none if none.is_empty() => Err("the relay still waits".into()),
        time => Ok(time),
    });
    moment(&given_up.await)
}

/// COMMIT as it goes over the line. The bare word is part of other statements too.
fn commit(deployment: &Deployment) -> &'static str {
    match deployment.database().server().kind() {
        ServerKind::MariaDb => "\u{7}\0\0\0\u{3}COMMIT",
        ServerKind::Postgres => "Q\0\0\0\u{b}COMMIT\0",
    }
}

async fn a_client_is_told_the_truth_when_the_line_is_cut_right_after_commit(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let (books, commit) = (deployment.books().await, commit(&deployment));
    let line = Proxy::start(deployment.database().server().port()).await.unwrap();
    let shop = deployment.launch_by(Some(line.port()), None).roles("api").start().unwrap();
    let _others = deployment.launch().roles("relay,consumers,jobs").start().unwrap();
    let api = Api::of(&shop);
    let (mut answered, mut asked_again) = (0, 0);
    for n in 0..if long() { 200 } else { 20 } {
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
    let chance = Chance::of_test(&format!("lost commits on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let (books, commit) = (deployment.books().await, commit(&deployment));
    let line = Proxy::start(deployment.database().server().port()).await.unwrap();
    let shop = impatient(deployment.launch_by(Some(line.port()), None)).start().unwrap();
    let (api, ledger) = (Api::of(&shop), Arc::new(Ledger::default()));
    let load = Load::start(std::slice::from_ref(&api), &ledger, &chance, 6, Duration::from_millis(10)).await;
    let cuts = if long() { 1_000 } else { 50 };
    cut_commits(&line, commit, cuts).await;
    load.stop().await;
    println!("{pair:?}: {cuts} lines cut after COMMIT in mid-load");
    balance(&api, &books, &ledger).await;
    nobody_is_left_in_a_transaction(&deployment, &books).await;
}

/// Cuts off whoever commits, again and again, whatever it was: an order, a settlement, effects, a lease.
async fn cut_commits(line: &Proxy, commit: &'static str, cuts: u32) {
    for _ in 0..cuts {
        line.cut_after(commit);
        eventually(WITHIN, async || match line.is_waiting_to_cut() {
            true => Err("nobody commits".into()),
            false => Ok(()),
        })
        .await;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// No connection is left in a transaction: each that idles in one now ends it by itself. The servers end those that idle for
/// 15 s, and log it.
pub(crate) async fn nobody_is_left_in_a_transaction(deployment: &Deployment, books: &Books) {
    let idle = match deployment.database().server().kind() {
        ServerKind::Postgres => {
            "SELECT pid || ' ' || xact_start || ' ' || query FROM pg_stat_activity
             WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        }
        ServerKind::MariaDb => {
            "SELECT concat(p.id, ' ', t.trx_started, ' ', t.trx_id) FROM information_schema.innodb_trx t
             JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
             WHERE p.db = database() AND p.command = 'Sleep'"
        }
    };
    let mut left: BTreeSet<String> = books.rows(idle).await.unwrap().into_iter().collect();
    eventually(WITHIN, async || {
        let now = books.rows(idle).await?;
        left.retain(|transaction| now.contains(transaction));
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("connections are left in a transaction: {left:?}").into()),
        }
    })
    .await;
    let ended = deployment.database().ended_for_idling().unwrap();
    assert_eq!(ended, 0, "connections were left in a transaction until the server ended them");
}
