//! Messages that RabbitMQ returns, nacks, or closes the channel for: never SENT, and no neighbour of theirs suffers.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::Utc;
use handover_tests::books::Books;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::servers::rabbitmq::{MAX_MESSAGE_BYTES, TestVhost};

use crate::{WITHIN, literal, on_mariadb_first};

on_mariadb_first!(
    of_a_window_of_200_with_20_unroutable_messages_exactly_those_20_are_not_sent,
    of_a_window_of_200_with_20_nacked_messages_exactly_those_20_are_not_sent,
    of_a_window_of_200_with_20_refused_messages_exactly_those_20_are_not_sent,
);

const WINDOW: i64 = 200;
/// Every so many-th message is one that cannot be sent.
const EVERY: i64 = 10;
const EXCHANGE: &str = "order.events.exchange";
const SOON: &str = r#"{policy = "schedule", delays = ["50ms", "50ms", "50ms"]}"#;

/// One window of rows, written by hand with the columns of 000; those that cannot be sent have this type and payload.
async fn put(books: &Books, event_type: &str, payload: &str) {
    let now = literal(Utc::now());
    let aggregate = if event_type == "INVOICE_GENERATED" { "Invoice" } else { "Order" };
    let row = |n: i64| match n % EVERY {
        0 => format!("('odd-{n}', '{event_type}', '{aggregate}', {n}, '{payload}', {now}, {now})"),
        _ => format!("('even-{n}', 'ORDER_STATUS_CHANGED', 'Order', {n}, '{{}}', {now}, {now})"),
    };
    let rows = (0..WINDOW).map(row).collect::<Vec<_>>().join(", ");
    let columns = "event_id, event_type, aggregate_type, aggregate_id, payload, create_time, update_time";
    books.change(&format!("INSERT INTO outbox_events ({columns}) VALUES {rows}")).await;
}

/// The rows of this state, each as its event id and how often it was charged.
async fn in_state(books: &Books, status: &str) -> BTreeSet<String> {
    let sql = format!("SELECT event_id || ' ' || retry_count FROM outbox_events WHERE status = '{status}'");
    books.rows(&sql).await.unwrap().into_iter().collect()
}

#[track_caller]
fn assert_same(found: &BTreeSet<String>, wanted: &BTreeSet<String>) {
    let (more, less): (Vec<_>, Vec<_>) =
        (found.difference(wanted).collect(), wanted.difference(found).collect());
    assert!(more.is_empty() && less.is_empty(), "too many: {more:?}, missing: {less:?}");
}

fn even() -> BTreeSet<String> {
    (0..WINDOW).filter(|n| n % EVERY != 0).map(|n| format!("even-{n} 0")).collect()
}

fn odd(charged: u32) -> BTreeSet<String> {
    (0..WINDOW).filter(|n| n % EVERY == 0).map(|n| format!("odd-{n} {charged}")).collect()
}

/// Waits until so many rows are in one of these states, whatever they went through; then tells who is SENT.
async fn settled(books: &Books, states: &str) -> BTreeSet<String> {
    let sql = format!("SELECT count(*) FROM outbox_events WHERE status IN ({states})");
    eventually(WITHIN, async || match books.count(&sql).await? {
        WINDOW => Ok(()),
        other => Err(format!("{other} events are settled").into()),
    })
    .await;
    in_state(books, "SENT").await
}

/// What the last refusal of each says.
async fn refusals(books: &Books) -> Vec<String> {
    books.rows("SELECT DISTINCT last_error FROM outbox_events WHERE event_id LIKE 'odd%'").await.unwrap()
}

async fn of_a_window_of_200_with_20_unroutable_messages_exactly_those_20_are_not_sent(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let (books, vhost) = (deployment.books().await, deployment.vhost());
    let relay = deployment.launch().set("HANDOVER_OUTBOX__RETRY", SOON).roles("relay").start().unwrap();
    // Or the binding would be declared again as soon as a message comes back.
    may_bind(vhost, false).await;
    vhost.unbind(EXCHANGE, "webhook.dispatch.queue", "invoice.*").await.unwrap();
    put(&books, "INVOICE_GENERATED", "{}").await;
    assert_same(&settled(&books, "'SENT', 'FAILED'").await, &even());
    assert_same(&in_state(&books, "FAILED").await, &odd(4));
    assert_eq!(refusals(&books).await, ["消息发送失败: returned: 312 NO_ROUTE"]);
    may_bind(vhost, true).await;
    drop(relay);
}

/// Whether the program may bind queues to the exchange.
async fn may_bind(vhost: &TestVhost, may: bool) {
    let read = if may { ".*" } else { "^(?!order.events.exchange$).*" };
    let code = format!(
        "ok = rabbit_auth_backend_internal:set_permissions(<<\"handover\">>, <<\"{}\">>, <<\".*\">>, <<\".*\">>, \
         <<\"{read}\">>, <<\"test\">>).",
        vhost.name()
    );
    vhost.server().eval(&code).await.unwrap();
}

async fn of_a_window_of_200_with_20_nacked_messages_exactly_those_20_are_not_sent(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let (books, vhost) = (deployment.books().await, deployment.vhost());
    // One queue has no room, as it holds messages already.
    put(&books, "ORDER_PAID", "{}").await;
    let relay = deployment.launch().roles("relay").start().unwrap();
    settled(&books, "'SENT'").await;
    relay.terminate(WITHIN).unwrap();
    books.change("DELETE FROM outbox_events").await;
    let full = format!(
        "ok = rabbit_policy:set(<<\"{}\">>, <<\"full\">>, <<\"^order.fulfillment.queue$\">>, \
         [{{<<\"max-length\">>, 0}}], 0, <<\"queues\">>, <<\"test\">>).",
        vhost.name()
    );
    vhost.server().eval(&full).await.unwrap();
    put(&books, "ORDER_PAID", "{}").await;
    let _relay = deployment.launch().set("HANDOVER_OUTBOX__RETRY", SOON).roles("relay").start().unwrap();
    // Alone in a window they are an outage, which charges nobody: they wait.
    assert_same(&settled(&books, "'SENT', 'RETRY'").await, &even());
    assert_same(&in_state(&books, "RETRY").await, &odd(1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_same(&in_state(&books, "RETRY").await, &odd(1));
    let room = format!("ok = rabbit_policy:delete(<<\"{}\">>, <<\"full\">>, <<\"test\">>).", vhost.name());
    vhost.server().eval(&room).await.unwrap();
    assert_same(&settled(&books, "'SENT'").await, &(&even() | &odd(1)));
}

async fn of_a_window_of_200_with_20_refused_messages_exactly_those_20_are_not_sent(pair: Pair) {
    const TAKEN: usize = 20_000;
    let deployment = Deployment::start(pair).await;
    let (books, server) = (deployment.books().await, deployment.vhost().server());
    let take = async |bytes: usize| {
        let code = format!("ok = application:set_env(rabbit, max_message_size, {bytes}).");
        server.eval(&code).await.unwrap();
    };
    // A channel keeps the limit that it began with.
    take(TAKEN).await;
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(2 * TAKEN));
    put(&books, "ORDER_PAID", &large).await;
    let launch = deployment.launch().set("HANDOVER_OUTBOX__RETRY", SOON).roles("relay");
    let relay = launch.start().unwrap();
    let sent = settled(&books, "'SENT', 'FAILED'").await;
    take(MAX_MESSAGE_BYTES).await;
    assert_same(&sent, &even());
    assert_same(&in_state(&books, "FAILED").await, &odd(4));
    for refusal in refusals(&books).await {
        let said = refusal.strip_prefix("消息发送失败: refused: PRECONDITION_FAILED - message size");
        assert!(said.is_some(), "{refusal}");
    }
    drop(relay);
}
