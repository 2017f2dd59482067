//! Messages that RabbitMQ returns or nacks, or for which it closes the channel: their rows never become SENT, and other
//! messages are not affected.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::Utc;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::servers::rabbitmq::{MAX_MESSAGE_BYTES, TestVhost};
use handover_tests::snapshot::DatabaseSnapshot;

use crate::{WITHIN, literal, on_mariadb_first};

on_mariadb_first!(
    window_of_200_rows_with_20_unroutable_messages_sends_180_rows,
    window_of_200_rows_with_20_nacked_messages_sends_180_rows,
    window_of_200_rows_with_20_refused_messages_sends_180_rows,
);

const WINDOW: i64 = 200;
/// Every tenth message cannot be sent.
const EVERY: i64 = 10;
const EXCHANGE: &str = "order.events.exchange";
const SOON: &str = r#"{policy = "schedule", delays = ["50ms", "50ms", "50ms"]}"#;

/// Inserts one window of rows with the columns of document 000. Unsendable rows have the given type and payload.
async fn insert_window(snapshot: &DatabaseSnapshot, event_type: &str, payload: &str) {
    let now = literal(Utc::now());
    let aggregate = if event_type == "INVOICE_GENERATED" { "Invoice" } else { "Order" };
    let row = |n: i64| match n % EVERY {
        0 => format!("('unsendable-{n}', '{event_type}', '{aggregate}', {n}, '{payload}', {now}, {now})"),
        _ => format!("('sendable-{n}', 'ORDER_STATUS_CHANGED', 'Order', {n}, '{{}}', {now}, {now})"),
    };
    let rows = (0..WINDOW).map(row).collect::<Vec<_>>().join(", ");
    let columns = "event_id, event_type, aggregate_type, aggregate_id, payload, create_time, update_time";
    snapshot.change(&format!("INSERT INTO outbox_events ({columns}) VALUES {rows}")).await;
}

/// The rows with this status: event id and retry count.
async fn in_state(snapshot: &DatabaseSnapshot, status: &str) -> BTreeSet<String> {
    let sql = format!("SELECT event_id || ' ' || retry_count FROM outbox_events WHERE status = '{status}'");
    snapshot.rows(&sql).await.unwrap().into_iter().collect()
}

#[track_caller]
fn assert_same(found: &BTreeSet<String>, wanted: &BTreeSet<String>) {
    let (more, less): (Vec<_>, Vec<_>) =
        (found.difference(wanted).collect(), wanted.difference(found).collect());
    assert!(more.is_empty() && less.is_empty(), "unexpected rows: {more:?}, missing rows: {less:?}");
}

fn sendable() -> BTreeSet<String> {
    (0..WINDOW).filter(|n| n % EVERY != 0).map(|n| format!("sendable-{n} 0")).collect()
}

fn unsendable(charged: u32) -> BTreeSet<String> {
    (0..WINDOW).filter(|n| n % EVERY == 0).map(|n| format!("unsendable-{n} {charged}")).collect()
}

/// Waits until all rows have one of these statuses. Returns the SENT ones.
async fn settled(snapshot: &DatabaseSnapshot, states: &str) -> BTreeSet<String> {
    let sql = format!("SELECT count(*) FROM outbox_events WHERE status IN ({states})");
    eventually(WITHIN, async || match snapshot.count(&sql).await? {
        WINDOW => Ok(()),
        other => Err(format!("only {other} of {WINDOW} events have one of the statuses {states}").into()),
    })
    .await;
    in_state(snapshot, "SENT").await
}

/// Waits until the relay has declared the topology and sent a window, whose rows are then deleted.
async fn send_first_window(snapshot: &DatabaseSnapshot) {
    insert_window(snapshot, "ORDER_PAID", "{}").await;
    settled(snapshot, "'SENT'").await;
    snapshot.change("DELETE FROM outbox_events").await;
}

/// The distinct errors of the unsendable rows.
async fn refusals(snapshot: &DatabaseSnapshot) -> Vec<String> {
    snapshot
        .rows("SELECT DISTINCT last_error FROM outbox_events WHERE event_id LIKE 'unsendable%'")
        .await
        .unwrap()
}

async fn window_of_200_rows_with_20_unroutable_messages_sends_180_rows(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let vhost = deployment.vhost();
    let relay = deployment.launch().set("HANDOVER_OUTBOX__RETRY", SOON).roles("relay").start().unwrap();
    // Waits until the relay has declared the topology at startup; that declaration would restore the binding that this
    // test removes.
    send_first_window(&snapshot).await;
    // The program must not have the permission to bind, because it would restore the binding as soon as a message is
    // returned.
    allow_binding(vhost, false).await;
    vhost.unbind(EXCHANGE, "webhook.dispatch.queue", "to.webhook.dispatch.queue").await.unwrap();
    insert_window(&snapshot, "INVOICE_GENERATED", "{}").await;
    assert_same(&settled(&snapshot, "'SENT', 'FAILED'").await, &sendable());
    assert_same(&in_state(&snapshot, "FAILED").await, &unsendable(4));
    assert_eq!(refusals(&snapshot).await, ["消息发送失败: returned: 312 NO_ROUTE"]);
    allow_binding(vhost, true).await;
    drop(relay);
}

/// Sets whether the program may bind queues to the exchange.
async fn allow_binding(vhost: &TestVhost, may: bool) {
    let read = if may { ".*" } else { "^(?!order.events.exchange$).*" };
    let code = format!(
        "ok = rabbit_auth_backend_internal:set_permissions(<<\"handover\">>, <<\"{}\">>, <<\".*\">>, <<\".*\">>, \
         <<\"{read}\">>, <<\"test\">>).",
        vhost.name()
    );
    vhost.server().eval(&code).await.unwrap();
}

async fn window_of_200_rows_with_20_nacked_messages_sends_180_rows(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let vhost = deployment.vhost();
    // One queue is full: it contains messages and its maximum length is 0.
    let relay = deployment.launch().roles("relay").start().unwrap();
    send_first_window(&snapshot).await;
    relay.terminate(WITHIN).unwrap();
    let full = format!(
        "ok = rabbit_policy:set(<<\"{}\">>, <<\"full\">>, <<\"^order.fulfillment.queue$\">>, \
         [{{<<\"max-length\">>, 0}}], 0, <<\"queues\">>, <<\"test\">>).",
        vhost.name()
    );
    vhost.server().eval(&full).await.unwrap();
    insert_window(&snapshot, "ORDER_PAID", "{}").await;
    let _relay = deployment.launch().set("HANDOVER_OUTBOX__RETRY", SOON).roles("relay").start().unwrap();
    // After the first attempt, windows contain only nacked messages. Such a window counts as an outage, not as
    // an attempt.
    assert_same(&settled(&snapshot, "'SENT', 'RETRY'").await, &sendable());
    assert_same(&in_state(&snapshot, "RETRY").await, &unsendable(1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_same(&in_state(&snapshot, "RETRY").await, &unsendable(1));
    let room = format!("ok = rabbit_policy:delete(<<\"{}\">>, <<\"full\">>, <<\"test\">>).", vhost.name());
    vhost.server().eval(&room).await.unwrap();
    assert_same(&settled(&snapshot, "'SENT'").await, &(&sendable() | &unsendable(1)));
}

async fn window_of_200_rows_with_20_refused_messages_sends_180_rows(pair: Pair) {
    const MAX_BYTES: usize = 20_000;
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let server = deployment.vhost().server();
    let set_max_message_bytes = async |bytes: usize| {
        let code = format!("ok = application:set_env(rabbit, max_message_size, {bytes}).");
        server.eval(&code).await.unwrap();
    };
    // The limit is set before the relay starts, because a channel keeps the message size limit that was set when the
    // channel was opened.
    let _limit = crate::MESSAGE_SIZE_LIMIT.lock().await;
    set_max_message_bytes(MAX_BYTES).await;
    let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(2 * MAX_BYTES));
    insert_window(&snapshot, "ORDER_PAID", &large).await;
    let launch = deployment.launch().set("HANDOVER_OUTBOX__RETRY", SOON).roles("relay");
    let relay = launch.start().unwrap();
    let sent = settled(&snapshot, "'SENT', 'FAILED'").await;
    set_max_message_bytes(MAX_MESSAGE_BYTES).await;
    assert_same(&sent, &sendable());
    assert_same(&in_state(&snapshot, "FAILED").await, &unsendable(4));
    for refusal in refusals(&snapshot).await {
        let rest = refusal.strip_prefix("消息发送失败: refused: PRECONDITION_FAILED - message size");
        assert!(rest.is_some(), "{refusal}");
    }
    drop(relay);
}
