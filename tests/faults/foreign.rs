//! Messages with arbitrary bytes that other programs put into the queues of RabbitMQ: each is parked once and can be
//! discarded, and none blocks other messages.

use handover_rabbitmq::{QueueType, unsupervised_connection};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::rabbit_rigs::settings;
use handover_tests::servers::rabbitmq::MAX_MESSAGE_BYTES;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};
use marketplace::consumers::FULFILLMENT_QUEUE;
use marketplace::queues::DEAD_LETTER_QUEUE;
use serde_json::Value;

use crate::WITHIN;

handover_tests::on_rabbitmq!(messages_with_arbitrary_bytes_are_parked_once_and_can_be_discarded);

/// Body size in bytes: more than MariaDB accepts in a statement (`max_allowed_packet`, 16 MiB by default).
const LARGE: usize = 17 * 1024 * 1024;
/// Number of messages with forged headers: more than the dead-letter consumer receives at a time.
const FORGED: usize = 25;
const PLAIN: usize = 30;

async fn send(channel: &Channel, queue: &str, headers: FieldTable, body: &[u8]) {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let properties = BasicProperties::default().with_delivery_mode(2).with_headers(headers);
    let sent = channel.basic_publish("".into(), queue.into(), options, body, properties).await.unwrap();
    assert!(sent.await.unwrap().is_ack(), "{queue}");
}

/// Headers of a message that claims to be dead-lettered from a queue with an impossible name.
fn forged() -> FieldTable {
    let text = |text: &str| AMQPValue::LongString(text.into());
    let mut death = FieldTable::default();
    death.insert("queue".into(), text(&"q".repeat(300)));
    death.insert("reason".into(), text("rejected"));
    let mut headers = FieldTable::default();
    headers.insert("x-death".into(), AMQPValue::FieldArray(vec![AMQPValue::FieldTable(death)].into()));
    headers
}

async fn messages_with_arbitrary_bytes_are_parked_once_and_can_be_discarded(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    let vhost = deployment.vhost();
    let set_max_message_bytes = async |bytes: usize| {
        let code = format!("ok = application:set_env(rabbit, max_message_size, {bytes}).");
        vhost.server().eval(&code).await.unwrap();
    };
    // The limit is raised before any channel is opened, because a channel keeps the message size limit that was set
    // when the channel was opened.
    let _limit = crate::MESSAGE_SIZE_LIMIT.lock().await;
    set_max_message_bytes(2 * LARGE).await;
    let server = deployment.launch().start().unwrap();
    let connection = unsupervised_connection(settings(&vhost.url(), QueueType::Quorum)).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let large = vec![b'x'; LARGE];
    let invalid: [&[u8]; 8] = [
        b"",
        b"\0",
        b"{\"title\":\"\0\"}",
        b"\xff\xfe\0\x01",
        b"\xff\xfe\0\x02",
        br#"{"eventId":"e","eventType":"\u0000","aggregateType":"\u0000","aggregateId":1,"occurredAt":"2026-02-04T10:30:00Z","traceId":"t","payload":{}}"#,
        &[b'['; 100_000],
        &large,
    ];
    for body in invalid {
        for _ in 0..2 {
            send(&channel, FULFILLMENT_QUEUE, FieldTable::default(), body).await;
        }
    }
    for number in 0..FORGED {
        send(&channel, DEAD_LETTER_QUEUE, forged(), format!("forged {number}").as_bytes()).await;
    }
    for number in 0..PLAIN {
        send(&channel, DEAD_LETTER_QUEUE, FieldTable::default(), format!("plain {number}").as_bytes()).await;
    }
    set_max_message_bytes(MAX_MESSAGE_BYTES).await;
    let all = invalid.len() + FORGED + PLAIN;
    eventually(WITHIN, async || {
        let parked = snapshot.count("SELECT count(*) FROM dead_letters").await?;
        let queued: u64 = vhost.messages().await?.iter().map(|(_, count)| count).sum();
        if usize::try_from(parked)? == all && queued == 0 {
            return Ok(());
        }
        Err(format!("{parked} of {all} are parked, {queued} messages are queued").into())
    })
    .await;

    let (code, listed, stderr) =
        deployment.launch().run(&["dlq", "list", "--limit", "1000", "--output", "json"]).unwrap();
    assert_eq!(code, Some(0), "{stderr}");
    let dead_letters: Value = serde_json::from_str(&listed).unwrap();
    let reasons: Vec<&str> =
        dead_letters["items"].as_array().unwrap().iter().map(|it| it["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons.len(), all);
    let shortened = format!("the message has {LARGE} bytes, at most 131072 are kept; SHA-256 ");
    assert_eq!(reasons.iter().filter(|reason| reason.contains(&shortened)).count(), 1, "{reasons:?}");
    let discard = ["dlq", "discard", "--all", "--reason", "foreign"];
    let (code, _, stderr) = deployment.launch().run(&discard).unwrap();
    assert_eq!(code, Some(0), "{stderr}");
    let open = snapshot.number("SELECT count(*) FROM dead_letters WHERE status <> 'DISCARDED'").await;
    assert_eq!(open, 0);
    // No message was parked repeatedly: the log contains at most one such line per message that was sent.
    let log = server.launch().log();
    let announced =
        log.lines().filter(|line| line.contains("unknown message parked as a dead letter")).count();
    assert!(announced <= all + invalid.len(), "{announced} announcements");
    connection.close(200, "done".into()).await.unwrap();
}
