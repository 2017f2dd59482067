//! Results of publishing a window of messages if the server does not accept all of them.

use handover_contract::samples::event_id;
use handover_outbox::ports::{Message, Outgoing};
use handover_tests::servers::rabbitmq::MAX_MESSAGE_BYTES;

use super::*;

/// Publishes windows in which every `every`-th message is unroutable. Checks that only these messages are returned.
async fn assert_only_unroutable_are_returned(
    queue_type: QueueType,
    window: usize,
    windows: usize,
    every: usize,
) {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), queue_type).await;
    let mut kept = BTreeSet::new();
    let mut lost = BTreeSet::new();
    for round in 0..windows {
        let ids: Vec<String> = (0..window).map(|n| format!("{round}-{n}")).collect();
        let is_unroutable = |n: usize| (n + round).is_multiple_of(every);
        let messages: Vec<(String, &str)> = ids
            .iter()
            .enumerate()
            .map(|(n, id)| (id.clone(), if is_unroutable(n) { NOWHERE } else { KEY }))
            .collect();
        for (n, outcome) in publish(&broker, &messages).await.unwrap().iter().enumerate() {
            assert_eq!(outcome.event_id().as_str(), ids[n]);
            match outcome {
                PublishOutcome::Confirmed(_) => {
                    assert!(!is_unroutable(n), "message {round}-{n} is confirmed but unroutable")
                }
                PublishOutcome::Returned { .. } => {
                    assert!(is_unroutable(n), "message {round}-{n} is returned but routable")
                }
                PublishOutcome::Nacked { .. } | PublishOutcome::Unknown { .. } => panic!("{outcome:?}"),
            }
            if is_unroutable(n) { &mut lost } else { &mut kept }.insert(ids[n].clone());
        }
    }
    let seen = drain(&broker, QUEUE, &kept).await;
    assert_eq!(seen.len(), kept.len(), "a message was delivered twice, or a returned message was delivered");
    assert!(!lost.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_of_50_messages_return_only_unroutable_messages_on_quorum_queues() {
    for every in [7, 2] {
        assert_only_unroutable_are_returned(QueueType::Quorum, 50, 8, every).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn windows_of_50_messages_return_only_unroutable_messages_on_classic_queues() {
    for every in [7, 2] {
        assert_only_unroutable_are_returned(QueueType::Classic, 50, 8, every).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn window_of_200_messages_returns_exactly_20_unroutable_messages() {
    assert_only_unroutable_are_returned(QueueType::Quorum, 200, 5, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_windows_return_only_unroutable_messages() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    let publishers = (0..8).map(|p| {
        let broker = broker.clone();
        tokio::spawn(async move {
            for round in 0..10 {
                let key = |n: usize| if n % 3 == p % 3 { NOWHERE } else { KEY };
                let window: Vec<_> = (0..12).map(|n| (format!("{p}-{round}-{n}"), key(n))).collect();
                for (n, outcome) in publish(&broker, &window).await.unwrap().iter().enumerate() {
                    assert_eq!(is_confirmed(outcome), key(n) == KEY, "{outcome:?}");
                }
            }
        })
    });
    for publisher in publishers.collect::<Vec<_>>() {
        publisher.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_unroutable_one_of_two_messages_with_same_id_is_returned() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    let window = [("twice".to_owned(), KEY), ("twice".to_owned(), NOWHERE), ("once".to_owned(), KEY)];
    let outcomes = publish(&broker, &window).await.unwrap();
    assert_eq!(outcomes.iter().map(is_confirmed).collect::<Vec<_>>(), [true, false, true], "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn window_with_oversized_message_is_refused_and_only_that_message_is_nacked() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    let of_size = |id: &str, bytes: usize| {
        let body = "x".repeat(bytes);
        Outgoing::new(
            event_id(id),
            KEY.into(),
            Message { message_id: Some(id.into()), body, ..Message::default() },
        )
    };
    let what = refused(
        broker
            .publish(vec![of_size("a", 10), of_size("large", MAX_MESSAGE_BYTES + 1), of_size("b", 10)])
            .await,
    );
    assert!(what.contains("size"), "{what}");
    // After the refusal of a window, the relay publishes its messages one by one. This loop does the same.
    let mut kept = BTreeSet::new();
    for message in
        [of_size("a", 10), of_size("large", MAX_MESSAGE_BYTES + 1), of_size("b", MAX_MESSAGE_BYTES)]
    {
        match broker.publish(vec![message]).await.unwrap().as_slice() {
            [PublishOutcome::Confirmed(proof)] => {
                kept.insert(proof.event_id().to_string());
            }
            [PublishOutcome::Nacked { event_id, reason }] => {
                assert_eq!(event_id.as_str(), "large");
                assert!(reason.contains("size"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(kept, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    drain(&broker, QUEUE, &kept).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn message_unsupported_by_amqp_is_nacked_and_rest_of_window_is_published() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    let with_headers = |id: &str, headers: &[(&str, usize)]| {
        let headers = headers.iter().map(|(name, bytes)| ((*name).to_owned(), "v".repeat(*bytes))).collect();
        let message =
            Message { message_id: Some(id.into()), headers, body: "{}".into(), ..Message::default() };
        Outgoing::new(event_id(id), KEY.into(), message)
    };
    let long = "k".repeat(256);
    let unnamed = Message { correlation_id: Some("c".repeat(300)), ..Message::default() };
    let window = vec![
        with_headers("a", &[]),
        with_headers("headers", &[("many", 200_000)]),
        with_headers("name", &[(&long, 1)]),
        Outgoing::new(event_id("correlation"), KEY.into(), unnamed),
        Outgoing::new(event_id("key"), long.clone(), Message::default()),
        with_headers("b", &[("most", 120_000)]),
    ];
    let outcomes = broker.publish(window).await.unwrap();
    let nacked = |outcome: &PublishOutcome| matches!(outcome, PublishOutcome::Nacked { .. });
    assert!(is_confirmed(&outcomes[0]) && outcomes[1..5].iter().all(nacked), "{outcomes:?}");
    assert!(is_confirmed(&outcomes[5]), "{outcomes:?}");
}
