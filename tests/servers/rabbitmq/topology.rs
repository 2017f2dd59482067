//! Declarations that differ from the existing topology are refused; missing parts are declared again.

use std::num::NonZeroU16;

use handover_rabbitmq::unsupervised_connection;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};

use super::*;

/// A broker that restores its topology only after a failed publish, so that tests can observe missing parts.
async fn declared_once(url: &str) -> RabbitBroker {
    let mut settings = settings(url, QueueType::Quorum);
    settings.watch_interval = Duration::from_secs(3600);
    let broker = RabbitBroker::new(settings);
    broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await.expect("the queue must be declared");
    broker
}

#[tokio::test(flavor = "multi_thread")]
async fn different_ttl_is_refused_with_queue_argument_values_and_remedy() {
    let vhost = vhost().await;
    let broker = RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum));
    let delay = |seconds: u64| {
        let spec = QueueSpec {
            ttl: Some(Duration::from_secs(seconds)),
            ..queue("order.timeout.delay.queue", &["later"])
        };
        topology(&[QueueSpec { dead_letter_key: Some("due".to_owned()), ..spec }])
    };
    broker.declare(&delay(900)).await.unwrap();
    let what = refused(broker.declare(&delay(30)).await);
    for part in ["order.timeout.delay.queue", "x-message-ttl", "900000", "30000", "delete_queue"] {
        assert!(what.contains(part), "{part} is not in: {what}");
    }
    broker.declare(&delay(900)).await.unwrap();
}

/// Declares [`QUEUE`] as a process does that requests this delivery limit.
async fn declare_with_delivery_limit(url: &str, limit: Option<i64>) -> lapin::Result<()> {
    let connection = unsupervised_connection(settings(url, QueueType::Quorum)).await.unwrap();
    let channel = connection.create_channel().await?;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    if let Some(limit) = limit {
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(limit));
    }
    channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), arguments).await.map(drop)
}

/// The arguments of a queue stay those of the version of RabbitMQ with which it was declared: before 4.0 without a limit, since then
/// with the limit -1. The server is one before 4.0, so the limits are exchanged.
#[tokio::test(flavor = "multi_thread")]
async fn queue_with_another_delivery_limit_is_used_and_its_other_arguments_are_compared() {
    let vhost = vhost().await;
    declare_with_delivery_limit(&vhost.url(), Some(5)).await.unwrap();
    let broker = declared_once(&vhost.url()).await;
    publish_until_confirmed(&broker, &routed("limited", 1)).await;
    drain(&broker, QUEUE, &["limited-0".to_owned()].into()).await;
    let with_ttl = QueueSpec { ttl: Some(Duration::from_secs(60)), ..queue(QUEUE, &[KEY]) };
    let what = refused(broker.declare(&topology(&[with_ttl])).await);
    assert!(what.contains("x-message-ttl"), "{what}");
    // From now on this process requests the limit of the existing queue, which is again another one.
    eventually("the queue is declared without a limit", || async {
        vhost.delete_queue(QUEUE).await.unwrap();
        declare_with_delivery_limit(&vhost.url(), None).await.ok()
    })
    .await;
    broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await.unwrap();
    publish_until_confirmed(&broker, &routed("unlimited", 1)).await;
    drain(&broker, QUEUE, &["unlimited-0".to_owned()].into()).await;
}

/// A broker whose queue is not selective publishes as a relay of an older version.
#[tokio::test(flavor = "multi_thread")]
async fn selective_queue_gets_messages_of_older_relays_until_they_have_ended() {
    let vhost = vhost().await;
    let older = declared_once(&vhost.url()).await;
    let newer = RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum));
    let queues = [QueueSpec { is_selective: true, ..queue(QUEUE, &[KEY]) }];
    let with_older_relays = Topology { has_older_relays: true, ..topology(&queues) };
    newer.declare(&with_older_relays).await.unwrap();
    publish_until_confirmed(&older, &routed("older", 1)).await;
    publish_until_confirmed(&newer, &routed("newer", 1)).await;
    let wanted = ["older-0", "newer-0"].map(str::to_owned).into();
    assert_eq!(drain(&newer, QUEUE, &wanted).await.len(), 2, "each message is delivered once");
    // The older broker may repeat its declaration, as the process of a relay does that has not ended.
    eventually("a message of the older relay is returned", || async {
        newer.declare(&topology(&queues)).await.unwrap();
        let outcomes = publish(&older, &routed("late", 1)).await.ok()?;
        confirmed(&outcomes).is_empty().then_some(())
    })
    .await;
    publish_until_confirmed(&newer, &routed("after", 1)).await;
    drain(&newer, QUEUE, &["after-0".to_owned()].into()).await;
}

/// The broker of a service whose queue receives from the exchange of another service, and that of this other service.
async fn receiving(url: &str) -> (RabbitBroker, RabbitBroker) {
    let receiver = RabbitBroker::new(settings(url, QueueType::Quorum));
    let spec = QueueSpec { receives_from: Some(OTHER.to_owned()), ..queue(QUEUE, &[KEY]) };
    receiver.declare(&topology(&[spec])).await.expect("a missing exchange of another service is no error");
    (receiver, RabbitBroker::new(settings(url, QueueType::Quorum)))
}

const OTHER: &str = "other.events";

#[tokio::test(flavor = "multi_thread")]
async fn queue_receives_from_exchange_of_other_service_as_soon_as_it_exists() {
    let vhost = vhost().await;
    let (receiver, other) = receiving(&vhost.url()).await;
    publish_until_confirmed(&receiver, &routed("own", 1)).await;
    // The other service has no queue for the event, so its message is returned until the queue is bound.
    other.declare(&Topology { exchange: OTHER.to_owned(), ..topology(&[]) }).await.unwrap();
    publish_until_confirmed(&other, &routed("other", 1)).await;
    let wanted: BTreeSet<String> = ["own-0", "other-0"].map(str::to_owned).into();
    assert_eq!(drain(&receiver, QUEUE, &wanted).await, ["own-0", "other-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn exchange_that_the_user_may_not_read_is_refused_with_queue_exchange_and_remedy() {
    let vhost = vhost().await;
    vhost.set_readable("^(?!other).*").await.unwrap();
    let receiver = RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum));
    let spec = QueueSpec { receives_from: Some(OTHER.to_owned()), ..queue(QUEUE, &[KEY]) };
    let what = refused(receiver.declare(&topology(std::slice::from_ref(&spec))).await);
    for part in [QUEUE, OTHER, "ACCESS_REFUSED", "read permission", "set_permissions"] {
        assert!(what.contains(part), "{part} is not in: {what}");
    }
    vhost.set_readable(".*").await.unwrap();
    receiver.declare(&topology(&[spec])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_that_receives_delivers_to_one_subscription_at_a_time() {
    let vhost = vhost().await;
    let (receiver, _) = receiving(&vhost.url()).await;
    let active = subscribe(&receiver, QUEUE).await;
    let standby = subscribe(&receiver, QUEUE).await;
    publish_until_confirmed(&receiver, &routed("event", 20)).await;
    let mut first = Vec::new();
    while first.len() < 20 {
        first.extend(ids(&active.next().await.unwrap()));
    }
    let expected: Vec<String> = routed("event", 20).into_iter().map(|(id, _)| id).collect();
    assert_eq!(first, expected, "the other subscription gets none of them");
    active.close().await.unwrap();
    let mut again = Vec::new();
    while again.len() < 20 {
        let next =
            tokio::time::timeout(NOTICED_WITHIN, standby.next()).await.expect("the standby takes over");
        again.extend(ids(&next.unwrap()));
    }
    assert_eq!(again, expected, "unsettled messages return in their order");
}

/// A dropped subscription, as of a task that was aborted, returns its messages before another one gets the next message.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_subscription_of_queue_that_receives_keeps_the_order() {
    let vhost = vhost().await;
    let (receiver, _) = receiving(&vhost.url()).await;
    let active = receiver.subscribe(QUEUE, NonZeroU16::new(5).unwrap()).await.unwrap();
    let standby = subscribe(&receiver, QUEUE).await;
    publish_until_confirmed(&receiver, &routed("event", 20)).await;
    let mut first = Vec::new();
    while first.len() < 5 {
        first.extend(ids(&active.next().await.unwrap()));
    }
    drop(active);
    let mut again = Vec::new();
    while again.len() < 20 {
        let next =
            tokio::time::timeout(NOTICED_WITHIN, standby.next()).await.expect("the standby takes over");
        again.extend(ids(&next.unwrap()));
    }
    let expected: Vec<String> = routed("event", 20).into_iter().map(|(id, _)| id).collect();
    assert_eq!(again, expected, "unsettled messages return before later ones are delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn different_queue_type_is_refused_with_setting_to_change() {
    let vhost = vhost().await;
    declared(&vhost.url(), QueueType::Classic).await;
    let quorum = RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum));
    let what = refused(quorum.declare(&topology(&[queue(QUEUE, &[KEY])])).await);
    for part in [QUEUE, "x-queue-type", "quorum", "classic", "rabbitmq.queue-type"] {
        assert!(what.contains(part), "{part} is not in: {what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_queue_is_declared_again_and_its_subscription_ends() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    let consumer = subscribe(&broker, QUEUE).await;
    vhost.delete_queue(QUEUE).await.unwrap();
    match tokio::time::timeout(NOTICED_WITHIN, consumer.next()).await.expect("the subscription must end") {
        Err(BrokerError::Closed { queue }) => assert_eq!(queue, QUEUE),
        other => panic!("expected the subscription to be closed, got {other:?}"),
    }
    publish_until_confirmed(&broker, &routed("after", 3)).await;
    drain(&broker, QUEUE, &routed("after", 3).into_iter().map(|(id, _)| id).collect()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_unused_queue_is_declared_again() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Classic).await;
    vhost.delete_queue(QUEUE).await.unwrap();
    eventually("the queue exists again", || async {
        broker.queues().await.unwrap().into_iter().find(|depth| depth.name == QUEUE)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_binding_is_declared_again() {
    let vhost = vhost().await;
    let broker = declared_once(&vhost.url()).await;
    publish_until_confirmed(&broker, &routed("before", 1)).await;
    vhost.unbind(EXCHANGE, QUEUE, KEY).await.unwrap();
    // Messages may still be routed for a moment.
    eventually("a message is returned", || async {
        let outcomes = publish(&broker, &routed("lost", 1)).await.unwrap();
        matches!(outcomes.as_slice(), [PublishOutcome::Returned { .. }]).then_some(())
    })
    .await;
    publish_until_confirmed(&broker, &routed("after", 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_exchange_is_outage_until_declared_again() {
    let vhost = vhost().await;
    let broker = declared_once(&vhost.url()).await;
    publish_until_confirmed(&broker, &routed("before", 1)).await;
    vhost.delete_exchange(EXCHANGE).await.unwrap();
    let why = unreachable(publish(&broker, &routed("lost", 2)).await);
    assert!(why.contains(EXCHANGE), "{why}");
    publish_until_confirmed(&broker, &routed("after", 2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn process_without_declaration_can_read_queue_depths() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    publish_until_confirmed(&broker, &routed("seen", 3)).await;
    let observer = RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum));
    let wanted = topology(&[queue(QUEUE, &[]), queue("not.there", &[])]);
    let depths = eventually("three messages", || async {
        Some(observer.depths(&wanted).await.unwrap())
            .filter(|depths| depths.iter().any(|depth| depth.ready == 3))
    })
    .await;
    assert_eq!(depths.iter().map(|depth| depth.name.as_str()).collect::<Vec<_>>(), [QUEUE]);
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_to_exchange_is_unreachable_before_declaration() {
    let vhost = vhost().await;
    let _declared = declared(&vhost.url(), QueueType::Quorum).await;
    let other = RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum));
    match publish(&other, &routed("early", 1)).await {
        // The declaration may still be in progress, so no attempt may be counted.
        Err(BrokerError::Unreachable(why)) => assert!(why.to_string().contains("not declared yet"), "{why}"),
        other => panic!("{other:?}"),
    }
    // A message that is addressed to a queue needs no exchange; commands replay dead letters this way.
    let addressed = outgoing("replayed", KEY);
    let event = addressed.event_id().clone();
    let addressed = Outgoing::to_queue(event, QUEUE.to_owned(), addressed.message().clone());
    let outcomes = other.publish(vec![addressed]).await.unwrap();
    assert!(matches!(outcomes.as_slice(), [PublishOutcome::Confirmed(_)]), "{outcomes:?}");
    other.declare(&topology(&[])).await.unwrap();
    publish_until_confirmed(&other, &routed("now", 1)).await;
}
