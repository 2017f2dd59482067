//! Messages that are not events of this outbox are parked under a hash of their body. Genuine events are not affected.

use handover_events::ConsumeStatus;
use handover_outbox::ConsumerSettings;
use handover_outbox::ports::*;
use marketplace::consumers::FULFILLMENT_QUEUE;
use marketplace::queues::DEAD_LETTER_QUEUE;

use super::scripted::{Act, NAME, QUEUE, Scripted, consuming};
use crate::support::{Process, UNSTORABLE, World, eventually, message, millis, pass, sample, secs};

/// Returns the only dead letter.
async fn single_dead_letter(world: &World) -> DeadLetter {
    pass(millis(700)).await;
    assert!(world.is_drained(QUEUE).await && world.is_drained(DEAD_LETTER_QUEUE).await);
    let mut dead_letters = world.dead_letters().await;
    assert_eq!(dead_letters.len(), 1, "{dead_letters:?}");
    dead_letters.remove(0)
}

fn is_hash(key: &str) -> bool {
    key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[tokio::test(start_paused = true)]
async fn message_without_an_outbox_row_is_parked() {
    let (world, process, handler) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    let mut foreign = message(&world.row("e-1").await);
    foreign.body = foreign.body.replace("\"e-1\"", "\"e-99\"");
    foreign.message_id = Some("e-99".into());
    world.broker.inject(QUEUE, foreign.clone());
    let dead_letter = single_dead_letter(&world).await;
    assert!(is_hash(&dead_letter.key), "{}", dead_letter.key);
    assert_eq!(dead_letter.queue, QUEUE);
    assert_eq!(dead_letter.reason, "消息消费失败: no outbox row for event e-99");
    assert_eq!((dead_letter.body, dead_letter.status), (foreign.body, DeadLetterStatus::Open));
    assert!(handler.calls().is_empty());
    assert_eq!(world.log(NAME, "e-99").await, None);
}

#[tokio::test(start_paused = true)]
async fn invalid_json_message_is_parked() {
    let (world, _process, _) = consuming(|_, _| Act::Apply).await;
    for body in ["", "{\"eventId\":", "[]"] {
        world.broker.inject(QUEUE, Message { body: body.into(), ..Message::default() });
    }
    pass(millis(700)).await;
    let dead_letters = world.dead_letters().await;
    assert_eq!(dead_letters.len(), 3);
    assert!(
        dead_letters.iter().all(|it| is_hash(&it.key) && it.reason.starts_with("消息消费失败")),
        "{dead_letters:?}"
    );
    assert!(world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn message_of_an_unknown_type_is_parked_with_the_frozen_text() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    let mut foreign = message(&world.row("e-1").await);
    foreign.body =
        foreign.body.replace("\"e-1\"", "\"e-99\"").replace("ORDER_STATUS_CHANGED", "ORDER_UNKNOWN");
    world.broker.inject(QUEUE, foreign);
    assert_eq!(single_dead_letter(&world).await.reason, "事件类型不支持: ORDER_UNKNOWN");
}

#[tokio::test(start_paused = true)]
async fn event_type_not_handled_by_the_consumer_is_dead_with_the_frozen_text() {
    let (world, process, handler) = consuming(|_, _| Act::Apply).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    world.deliver(QUEUE, "e-1").await;
    let dead_letter = single_dead_letter(&world).await;
    assert_eq!(
        (dead_letter.key.as_str(), dead_letter.reason.as_str()),
        ("e-1", "事件类型不支持: ORDER_PAID")
    );
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
    assert!(handler.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn forged_payload_is_parked_and_the_genuine_event_is_still_applied() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    let genuine = message(&world.row("e-1").await);
    let forged = [
        genuine.body.replace("88.50", "0.01"),
        genuine.body.replace("\"aggregateId\":7", "\"aggregateId\":8"),
        genuine.body.replace("ORDER_STATUS_CHANGED", "ORDER_PAID"),
    ];
    for body in forged {
        assert_ne!(body, genuine.body);
        world.broker.inject(QUEUE, Message { body, ..genuine.clone() });
    }
    pass(millis(700)).await;
    let dead_letters = world.dead_letters().await;
    assert_eq!(dead_letters.len(), 3);
    assert!(dead_letters.iter().all(|it| is_hash(&it.key)), "{dead_letters:?}");
    assert_eq!(dead_letters[0].reason, "消息消费失败: the outbox row of event e-1 has different content");
    assert_eq!(world.log(NAME, "e-1").await, None, "forged messages must not be recorded for the event");
    world.broker.inject(QUEUE, genuine);
    pass(millis(50)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Success));
}

#[tokio::test(start_paused = true)]
async fn foreign_message_in_a_batch_does_not_affect_the_others() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    for order in 1..=5 {
        world.commit_and_deliver(&process, &format!("e-{order}"), order, 1).await;
        world.broker.inject(QUEUE, Message { body: format!("{order}"), ..Message::default() });
    }
    pass(millis(700)).await;
    for order in 1..=5 {
        assert_eq!(world.effects(order).await.len(), 1);
    }
    assert_eq!(world.dead_letters().await.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn wrong_tenant_header_is_ignored() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    let mut message = message(&world.row("e-1").await);
    for tenant in ["2", "-1", "none"] {
        message.headers.insert("tenantId".into(), tenant.into());
        world.broker.inject(QUEUE, message.clone());
    }
    pass(millis(700)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert!(world.dead_letters().await.is_empty() && world.is_drained(QUEUE).await);
}

#[tokio::test(start_paused = true)]
async fn redelivered_dead_event_keeps_one_dead_letter() {
    let (world, process, _) = consuming(|_, _| Act::FailPermanently).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    single_dead_letter(&world).await;
    world.deliver(QUEUE, "e-1").await;
    let dead_letter = single_dead_letter(&world).await;
    assert_eq!((dead_letter.key.as_str(), dead_letter.status), ("e-1", DeadLetterStatus::Open));
}

#[tokio::test(start_paused = true)]
async fn dead_letter_of_a_queue_without_a_consumer_is_parked() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    let subscription = world.broker.subscribe(FULFILLMENT_QUEUE, 1.try_into().unwrap()).await.unwrap();
    world.deliver(FULFILLMENT_QUEUE, "e-1").await;
    let tags: Vec<DeliveryTag> = subscription.next().await.unwrap().iter().map(|it| it.tag).collect();
    subscription.nack(&tags, Requeue::No).await.unwrap();
    let dead_letter = single_dead_letter(&world).await;
    assert_eq!(dead_letter.queue, FULFILLMENT_QUEUE);
    assert_eq!(
        dead_letter.reason,
        "消息消费失败: no consumer is registered for queue order.fulfillment.queue"
    );
}

/// The process that drains the dead-letter queue is of a version without the consumer.
#[tokio::test(start_paused = true)]
async fn dead_event_of_a_consumer_of_another_version_has_one_dead_letter() {
    let world = World::new().await;
    world.process().start_drainer(&[]);
    let new = world.process();
    let handler = Scripted::new(&world, |_, _| Act::FailPermanently);
    new.start_consumer(&handler.subscriber(), ConsumerSettings::default()).await;
    world.commit_and_deliver(&new, "e-1", 7, 1).await;
    eventually(secs(5), async || world.log_status(NAME, "e-1").await == Some(ConsumeStatus::Dead)).await;
    pass(millis(700)).await;
    assert!(world.is_drained(DEAD_LETTER_QUEUE).await);
    assert_eq!(single_dead_letter(&world).await.key, "e-1");
}

#[tokio::test(start_paused = true)]
async fn forged_message_is_parked_whether_delivered_before_or_after_the_genuine_one() {
    for forged_first in [true, false] {
        let (world, process, _) = consuming(|_, _| Act::Apply).await;
        world.commit_event(&process, "e-1", 7, 1).await;
        let genuine = message(&world.row("e-1").await);
        let forged = Message { body: genuine.body.replace("88.50", "0.01"), ..genuine.clone() };
        let both = if forged_first { [forged, genuine] } else { [genuine, forged] };
        for message in both {
            world.broker.inject(QUEUE, message);
        }
        let dead_letter = single_dead_letter(&world).await;
        assert_eq!(dead_letter.reason, "消息消费失败: the outbox row of event e-1 has different content");
        assert_eq!(world.effects(7).await, ["e-1"]);
        process.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn dead_letters_with_a_refused_body_are_parked_without_it_and_do_not_block_others() {
    let (world, _process, _) = consuming(|_, _| Act::Apply).await;
    // The refused messages fill more than one batch of the drainer; other messages follow them.
    let refused = (0..25).map(|number| format!("{UNSTORABLE} {number}"));
    let bodies: Vec<String> = refused.chain((0..30).map(|number| format!("stray {number}"))).collect();
    for body in &bodies {
        world.broker.inject(QUEUE, Message { body: body.clone(), ..Message::default() });
    }
    eventually(secs(30), async || world.dead_letters().await.len() == bodies.len()).await;
    assert!(world.is_drained(QUEUE).await && world.is_drained(DEAD_LETTER_QUEUE).await);
    let dead_letters = world.dead_letters().await;
    let empty: Vec<&DeadLetter> = dead_letters.iter().filter(|it| it.body.is_empty()).collect();
    assert_eq!(empty.len(), 25);
    for dead_letter in empty {
        let parts =
            ["消息消费失败: the store rejected it", "bytes, at most 0 are kept; SHA-256", &dead_letter.key];
        assert!(parts.iter().all(|part| dead_letter.reason.contains(part)), "{}", dead_letter.reason);
    }
}

#[tokio::test(start_paused = true)]
async fn malicious_messages_are_each_parked_once() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    let genuine = message(&world.row("e-1").await);
    let long = format!("\0{}", "长".repeat(100_000));
    let forged = ["eventType", "aggregateType", "traceId"].map(|field| {
        let mut body: serde_json::Value = serde_json::from_str(&genuine.body).unwrap();
        body["eventId"] = "e-99".into();
        body[field] = long.as_str().into();
        body.to_string()
    });
    let malicious =
        ["", "\0", "[]", r#"{"a":"\ud800"}"#, r#"{"eventId":"a","eventId":"b"}"#, r#"{"eventId":1e999999}"#];
    let malicious = malicious.map(str::to_owned).into_iter().chain([long.clone(), "[".repeat(100_000)]);
    let bodies: Vec<String> = malicious.chain(forged).collect();
    for body in &bodies {
        for _ in 0..2 {
            let message = Message { body: body.clone(), kind: Some(long.clone()), ..genuine.clone() };
            assert!(world.broker.inject(QUEUE, message));
        }
    }
    world.broker.inject(QUEUE, genuine);
    eventually(secs(30), async || world.is_drained(QUEUE).await && world.is_drained(DEAD_LETTER_QUEUE).await)
        .await;
    assert_eq!(world.dead_letters().await.len(), bodies.len());
    assert_eq!(world.effects(7).await, ["e-1"]);
}

/// A deployment in which the broker, not the consumer, has dead-lettered an event.
async fn dead_lettered_by_the_broker() -> (World, Process, std::sync::Arc<Scripted>) {
    let world = World::new().await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    let process = world.process();
    process.start_consumer(&handler.subscriber(), Default::default()).await;
    process.kill().await;
    let process = world.process();
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    let subscription = world.broker.subscribe(QUEUE, 1.try_into().unwrap()).await.unwrap();
    let tags: Vec<DeliveryTag> = subscription.next().await.unwrap().iter().map(|it| it.tag).collect();
    subscription.nack(&tags, Requeue::No).await.unwrap();
    (world, process, handler)
}

#[tokio::test(start_paused = true)]
async fn event_dead_lettered_by_the_broker_is_dead_and_parked() {
    let (world, process, handler) = dead_lettered_by_the_broker().await;
    process.start_drainer(&[handler.subscriber()]);
    let dead_letter = single_dead_letter(&world).await;
    assert_eq!(
        (dead_letter.key.as_str(), dead_letter.reason.as_str()),
        ("e-1", "消息消费失败: the broker dead-lettered it")
    );
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}

#[tokio::test(start_paused = true)]
async fn event_applied_after_its_dead_lettering_is_not_parked() {
    let (world, process, handler) = dead_lettered_by_the_broker().await;
    process.start_consumer(&handler.subscriber(), Default::default()).await;
    world.deliver(QUEUE, "e-1").await;
    pass(millis(50)).await;
    process.start_drainer(&[handler.subscriber()]);
    pass(millis(700)).await;
    assert!(world.dead_letters().await.is_empty() && world.is_drained(DEAD_LETTER_QUEUE).await);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Success));
}
