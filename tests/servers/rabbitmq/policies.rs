//! Policies of an administrator: they are read from the management API, and a message that one dead-letters keeps its
//! queue.

use handover_rabbitmq::{ManagementError, limiting_policies};
use marketplace::queues::{DEAD_LETTER_KEY, DEAD_LETTER_QUEUE};

use super::*;

/// A queue with a consumer, and the dead-letter queue.
fn with_dead_letters() -> Topology {
    topology(&[
        QueueSpec { dead_letter_key: Some(DEAD_LETTER_KEY.to_owned()), ..queue(QUEUE, &[KEY]) },
        queue(DEAD_LETTER_QUEUE, &[DEAD_LETTER_KEY]),
    ])
}

/// Publishes two messages of which the policy dead-letters at least one, and returns the first dead letter.
async fn dead_lettered_by(policy: &str, queue_type: QueueType) -> Delivery {
    let vhost = vhost().await;
    let broker = RabbitBroker::new(settings(&vhost.url(), queue_type));
    // Before the declaration, so that the queue has its policy when the first message arrives.
    vhost.set_policy("limits", QUEUE, policy).await.unwrap();
    broker.declare(&with_dead_letters()).await.unwrap();
    publish_until_confirmed(&broker, &routed("limited", 2)).await;
    let subscription = subscribe(&broker, DEAD_LETTER_QUEUE).await;
    let received = tokio::time::timeout(NOTICED_WITHIN, subscription.next()).await;
    received.expect("the policy must dead-letter a message").unwrap().remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn message_that_expires_by_a_policy_keeps_its_queue() {
    let dead = dead_lettered_by("[{<<\"message-ttl\">>, 20}]", QueueType::Quorum).await;
    assert_eq!(dead.died_in.as_deref(), Some(QUEUE));
}

#[tokio::test(flavor = "multi_thread")]
async fn message_over_the_length_of_a_policy_keeps_its_queue() {
    let dead = dead_lettered_by("[{<<\"max-length\">>, 1}]", QueueType::Classic).await;
    assert_eq!(dead.died_in.as_deref(), Some(QUEUE));
}

#[tokio::test(flavor = "multi_thread")]
async fn limiting_policies_are_named_with_their_queues() {
    let vhost = vhost().await;
    let url = vhost.server().management_url().await.unwrap();
    let broker = RabbitBroker::new(settings(&vhost.url(), QueueType::Quorum));
    let policy = "[{<<\"message-ttl\">>, 60000}, {<<\"dead-letter-exchange\">>, <<\"amq.fanout\">>}]";
    vhost.set_policy("all", ".*", policy).await.unwrap();
    broker.declare(&with_dead_letters()).await.unwrap();
    let with_url = settings(&vhost.url(), QueueType::Quorum).with_management_url(&url).unwrap();
    let found = limiting_policies(&with_url, &with_dead_letters()).await.unwrap();
    let found: Vec<_> = found
        .into_iter()
        .map(|limit| (limit.policy, limit.setting, limit.value, limit.queues.join(" ")))
        .collect();
    let limit =
        |setting, value: &str, queues: &str| ("all".to_owned(), setting, value.to_owned(), queues.to_owned());
    assert_eq!(
        found,
        [
            limit("dead-letter-exchange", "amq.fanout", DEAD_LETTER_QUEUE),
            limit("message-ttl", "60000", &format!("{QUEUE} {DEAD_LETTER_QUEUE}")),
        ]
    );
    // Queues that do not exist are skipped.
    let elsewhere = topology(&[queue("not.declared", &[])]);
    assert_eq!(limiting_policies(&with_url, &elsewhere).await, Ok(Vec::new()));

    let visitor = settings(&vhost.url().replace("amqp://handover:", "amqp://visitor:"), QueueType::Quorum);
    let denied = limiting_policies(&visitor.with_management_url(&url).unwrap(), &with_dead_letters()).await;
    assert!(
        matches!(denied, Err(ManagementError::Denied { ref user, .. }) if user == "visitor"),
        "{denied:?}"
    );
    let closed = settings(&vhost.url(), QueueType::Quorum).with_management_url("http://127.0.0.1:1").unwrap();
    let closed = limiting_policies(&closed, &with_dead_letters()).await;
    assert!(matches!(closed, Err(ManagementError::Unreachable { .. })), "{closed:?}");
}
