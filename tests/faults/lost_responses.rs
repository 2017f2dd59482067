//! Connections that lose only the response: RabbitMQ's confirms, and the database's response to COMMIT.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::long;
use handover_tests::market::{Ledger, Load, balance};
use handover_tests::process::eventually;
use handover_tests::random::RandomSource;
use handover_tests::servers::database::ServerKind;
use handover_tests::servers::proxy::{Proxy, Traffic};
use handover_tests::snapshot::{DatabaseSnapshot, moment};

use crate::{WITHIN, literal, on_mariadb_first, with_short_timeouts};

on_mariadb_first!(
    events_with_lost_confirms_are_not_sent_until_confirmed,
    response_is_correct_when_connection_is_cut_after_commit,
    lost_commit_responses_lose_and_duplicate_nothing,
);

const SELLER: i64 = 1;
const BUYER: i64 = 2;

async fn events_with_lost_confirms_are_not_sent_until_confirmed(pair: Pair) {
    let random = RandomSource::of_test(&format!("lost confirms on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let line = Proxy::start(deployment.vhost().server().port()).await.unwrap();
    let shop = with_short_timeouts(deployment.launch()).roles("api,consumers,jobs").start().unwrap();
    let relay = with_short_timeouts(deployment.launch_through(None, Some(line.port()))).roles("relay");
    let _relay = relay.set("HANDOVER_OUTBOX__CONFIRM_TIMEOUT", "1s").start().unwrap();
    let api = Api::of(&shop);
    let ledger = Arc::new(Ledger::default());
    let load = Load::start(std::slice::from_ref(&api), &ledger, &random, 4, Duration::from_millis(20)).await;
    let sent = "SELECT count(*) FROM outbox_events WHERE status = 'SENT'";
    let retried = "SELECT count(*) FROM outbox_events WHERE status = 'RETRY'";
    // The relay must be connected before responses are discarded; otherwise it publishes nothing.
    eventually(WITHIN, async || match snapshot.count(sent).await? {
        0 => Err("the relay has not sent an event yet".into()),
        _ => Ok(()),
    })
    .await;
    for _ in 0..if long() { 10 } else { 2 } {
        // The relay must be connected again, because it cannot connect while responses are discarded.
        eventually(WITHIN, async || match snapshot.count(retried).await? {
            0 => Ok(()),
            some => Err(format!("{some} events are still in RETRY after the last outage").into()),
        })
        .await;
        ledger.wait_for_orders(10).await;
        line.set(Traffic { discard_from_server: true, ..Traffic::default() });
        // Events of the current window that were confirmed before this point are settled when the relay's confirm
        // timeout ends.
        let first = confirm_timeout(&snapshot, Utc::now()).await;
        let before = snapshot.number(sent).await;
        // A relay that counted a missing confirm as success would continue to settle events under this load.
        confirm_timeout(&snapshot, first).await;
        assert_eq!(snapshot.number(sent).await, before, "events become SENT without a confirm");
        let applied =
            "SELECT count(*) FROM outbox_events e JOIN event_consume_log l ON l.event_id = e.event_id
             WHERE e.status <> 'SENT' AND l.status = 'SUCCESS'";
        eventually(WITHIN, async || match snapshot.count(applied).await? {
            0 => Err("no event with a lost confirm has been applied yet".into()),
            _ => Ok(()),
        })
        .await;
        line.set(Traffic::default());
        eventually(WITHIN, async || match snapshot.count(sent).await? {
            same if same == before => Err("no event has become SENT although confirms arrive again".into()),
            _ => Ok(()),
        })
        .await;
    }
    load.stop().await;
    balance(&api, &snapshot, &ledger).await;
}

/// Waits for the relay's next confirm timeout after the time `after`. Returns the time of that timeout.
async fn confirm_timeout(snapshot: &DatabaseSnapshot, after: DateTime<Utc>) -> DateTime<Utc> {
    let sql = format!(
        "SELECT max(update_time) FROM outbox_events WHERE status = 'RETRY' AND update_time > {}",
        literal(after)
    );
    let time = eventually(WITHIN, async || match snapshot.rows(&sql).await?.remove(0) {
        none if none.is_empty() => Err("no confirm timeout of the relay is recorded yet".into()),
        time => Ok(time),
    });
    moment(&time.await)
}

/// The bytes of a protocol message that contains only COMMIT. The word itself is also part of other statements.
fn commit(deployment: &Deployment) -> &'static str {
    match deployment.database().server().kind() {
        ServerKind::MariaDb => "\u{7}\0\0\0\u{3}COMMIT",
        ServerKind::Postgres => "Q\0\0\0\u{b}COMMIT\0",
    }
}

async fn response_is_correct_when_connection_is_cut_after_commit(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let commit = commit(&deployment);
    let line = Proxy::start(deployment.database().server().port()).await.unwrap();
    let shop = deployment.launch_through(Some(line.port()), None).roles("api").start().unwrap();
    let _others = deployment.launch().roles("relay,consumers,jobs").start().unwrap();
    let api = Api::of(&shop);
    let mut with_response = 0;
    let mut repeated = 0;
    for n in 0..if long() { 200 } else { 20 } {
        let product = api.list_product(SELLER, &format!("Lamp {n}")).await.unwrap().id("productId");
        line.cut_after(commit);
        let mut response = api.place_order(BUYER, product).await.unwrap();
        assert!(!line.is_armed(), "a response was sent before COMMIT: {response:?}");
        if response.status == 503 {
            repeated += 1;
            response = api.place_order(BUYER, product).await.unwrap();
        } else {
            with_response += 1;
        }
        let ids =
            snapshot.rows(&format!("SELECT id FROM orders WHERE product_id = {product}")).await.unwrap();
        let [order] = ids.as_slice() else {
            panic!("expected one order after {response:?}, the orders are {ids:?}")
        };
        match response.outcome() {
            (201, "00000") => assert_eq!(&response.id("orderId").to_string(), order),
            // The first request sold the product to this buyer, so the repeated one is a conflict. The buyer can read
            // the order.
            (409, "A0409") => {
                let found = api.order(BUYER, order.parse().unwrap()).await.unwrap().value();
                assert_eq!(found["productId"], product);
            }
            unexpected => panic!("{unexpected:?}: {response:?}"),
        }
    }
    println!(
        "{pair:?}: connections cut after COMMIT: {with_response} requests got a response, {repeated} were repeated"
    );
    snapshot.wait_until_settled(WITHIN).await;
    assert_eq!(snapshot.broken().await, Vec::<String>::new());
}

async fn lost_commit_responses_lose_and_duplicate_nothing(pair: Pair) {
    let random = RandomSource::of_test(&format!("lost commits on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let commit = commit(&deployment);
    let line = Proxy::start(deployment.database().server().port()).await.unwrap();
    let shop = with_short_timeouts(deployment.launch_through(Some(line.port()), None)).start().unwrap();
    let api = Api::of(&shop);
    let ledger = Arc::new(Ledger::default());
    let load = Load::start(std::slice::from_ref(&api), &ledger, &random, 6, Duration::from_millis(10)).await;
    let cuts = if long() { 1_000 } else { 50 };
    cut_commits(&line, commit, cuts).await;
    load.stop().await;
    println!("{pair:?}: {cuts} connections cut after COMMIT under load");
    balance(&api, &snapshot, &ledger).await;
    assert_no_idle_transaction(&deployment, &snapshot).await;
}

/// Repeatedly cuts the connection that sends the next COMMIT, whatever it commits: an order, the status of outbox rows,
/// effects of an event, a lease.
async fn cut_commits(line: &Proxy, commit: &'static str, cuts: u32) {
    for _ in 0..cuts {
        line.cut_after(commit);
        eventually(WITHIN, async || match line.is_armed() {
            true => Err("no transaction is committed".into()),
            false => Ok(()),
        })
        .await;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Checks that no connection stays in a transaction: every transaction that is idle now must end. The servers end
/// transactions that are idle for 15 s and log that.
pub(crate) async fn assert_no_idle_transaction(deployment: &Deployment, snapshot: &DatabaseSnapshot) {
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
    let mut left: BTreeSet<String> = snapshot.rows(idle).await.unwrap().into_iter().collect();
    eventually(WITHIN, async || {
        let now = snapshot.rows(idle).await?;
        left.retain(|transaction| now.contains(transaction));
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("connections are left in a transaction: {left:?}").into()),
        }
    })
    .await;
    let ended = deployment.database().closed_for_idling().unwrap();
    assert_eq!(ended, 0, "connections were left in a transaction until the server ended them");
}
