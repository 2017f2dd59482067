//! One trace from the request to the effect: header, log, outbox row, message, consume log.

use std::time::Duration;

use handover_application::topology::TIMEOUT_DELAY_QUEUE;
use handover_tests::books::Books;
use handover_tests::client::Api;

use crate::{beside_others, eventually, fresh};

const TRACE: &str = "trace-of_one-Order";

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_id_is_found_in_log_outbox_message_and_consume_log() {
    let _turn = beside_others().await;
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let api = Api::of(&server).traced(TRACE);
    let product = api.list_product(1, "Lamp").await.unwrap().id("productId");
    api.place_order(2, product).await.unwrap().id("orderId");
    let books = Books::open(&launch.database()).await;
    let consumed =
        format!("SELECT count(*) FROM event_consume_log WHERE status = 'SUCCESS' AND trace_id = '{TRACE}'");
    eventually(Duration::from_secs(10), async || match books.number(&consumed).await {
        5 => Ok(()),
        other => Err(format!("{other} of inventory, coupon, wallet, points and webhooks").into()),
    })
    .await;
    let rows =
        format!("SELECT count(*) FROM outbox_events WHERE json_extract(metadata, '$.traceId') = '{TRACE}'");
    assert_eq!(books.number(&rows).await, 2, "ORDER_CREATED and ORDER_TIMEOUT");
    // A message is taken away only after what it did was committed.
    let messages = format!("SELECT queue FROM broker_messages WHERE correlation_id = '{TRACE}'");
    eventually(Duration::from_secs(10), async || match books.rows(&messages).await?.as_slice() {
        [delayed] if delayed.starts_with(TIMEOUT_DELAY_QUEUE) => Ok(()),
        others => Err(format!("{others:?} instead of the timeout alone, in its delay queue").into()),
    })
    .await;
    for line in
        ["answered", "[OutboxRelay] Event sent successfully", "[inventory] Message consumed successfully"]
    {
        eventually(Duration::from_secs(10), async || {
            let log = launch.log();
            match log.lines().any(|logged| logged.contains(line) && logged.contains(TRACE)) {
                true => Ok(()),
                false => Err(format!("no line \"{line}\" of this trace in\n{log}").into()),
            }
        })
        .await;
    }
}
