//! What the answers to a window mean when the server does not take all of it.

use handover_contract::samples::event_id;
use handover_outbox::ports::{Message, Outgoing};
use handover_tests::servers::rabbitmq::MAX_MESSAGE_BYTES;

use super::*;

/// Every so many messages go nowhere.
async fn only_the_unroutable_are_returned(
    queue_type: QueueType,
    window: usize,
    windows: usize,
    every: usize,
) {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), queue_type).await;
    let (mut kept, mut lost) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..windows {
        let ids: Vec<String> = (0..window).map(|n| format!("{round}-{n}")).collect();
        let goes_nowhere = |n: usize| (n + round).is_multiple_of(every);
        let messages: Vec<(String, &str)> = ids
            .iter()
            .enumerate()
            .map(|(n, id)| (id.clone(), if goes_nowhere(n) { NOWHERE } else { KEY }))
            .collect();
        for (n, outcome) in publish(&broker, &messages).await.unwrap().iter().enumerate() {
            assert_eq!(outcome.event_id().as_str(), ids[n]);
            match outcome {
                PublishOutcome::Confirmed(_) => {
                    assert!(!goes_nowhere(n), "{round}-{n} is confirmed and nowhere")
                }
                PublishOutcome::Returned { .. } => {
                    assert!(goes_nowhere(n), "{round}-{n} is returned and there")
                }
                PublishOutcome::Nacked { .. } | PublishOutcome::Unknown { .. } => panic!("{outcome:?}"),
            }
            if goes_nowhere(n) { &mut lost } else { &mut kept }.insert(ids[n].clone());
        }
    }
    let seen = drain(&broker, QUEUE, &kept).await;
    assert_eq!(seen.len(), kept.len(), "none came twice, and none that was returned");
    assert!(!lost.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_400_messages_in_windows_of_50_exactly_the_unroutable_are_returned_by_quorum_queues() {
    for every in [7, 2] {
        only_the_unroutable_are_returned(QueueType::Quorum, 50, 8, every).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_400_messages_in_windows_of_50_exactly_the_unroutable_are_returned_by_classic_queues() {
    for every in [7, 2] {
        only_the_unroutable_are_returned(QueueType::Classic, 50, 8, every).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_window_of_200_with_20_unroutable_exactly_those_are_returned() {
    only_the_unroutable_are_returned(QueueType::Quorum, 200, 5, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_windows_published_at_once_exactly_the_unroutable_are_returned() {
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
async fn two_messages_with_one_id_are_returned_each_by_its_own_key() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    let window = [("twice".to_owned(), KEY), ("twice".to_owned(), NOWHERE), ("once".to_owned(), KEY)];
    let outcomes = publish(&broker, &window).await.unwrap();
    assert_eq!(outcomes.iter().map(is_confirmed).collect::<Vec<_>>(), [true, false, true], "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_has_its_window_refused_and_is_charged_alone() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    let sized = |id: &str, bytes: usize| {
        let body = "x".repeat(bytes);
        Outgoing::new(
            event_id(id),
            KEY.into(),
            Message { message_id: Some(id.into()), body, ..Message::default() },
        )
    };
    let what = refused(
        broker.publish(vec![sized("a", 10), sized("large", MAX_MESSAGE_BYTES + 1), sized("b", 10)]).await,
    );
    assert!(what.contains("size"), "{what}");
    // The relay then publishes one by one.
    let mut kept = BTreeSet::new();
    for message in [sized("a", 10), sized("large", MAX_MESSAGE_BYTES + 1), sized("b", MAX_MESSAGE_BYTES)] {
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
async fn a_message_that_amqp_cannot_carry_is_nacked_and_its_window_goes_on() {
    let vhost = vhost().await;
    let broker = declared(&vhost.url(), QueueType::Quorum).await;
    let headed = |id: &str, headers: &[(&str, usize)]| {
        let headers = headers.iter().map(|(name, bytes)| ((*name).to_owned(), "v".repeat(*bytes))).collect();
        let message =
            Message { message_id: Some(id.into()), headers, body: "{}".into(), ..Message::default() };
        Outgoing::new(event_id(id), KEY.into(), message)
    };
    let long = "k".repeat(256);
    let unnamed = Message { correlation_id: Some("c".repeat(300)), ..Message::default() };
    let window = vec![
        headed("a", &[]),
        headed("headers", &[("many", 200_000)]),
        headed("name", &[(&long, 1)]),
        Outgoing::new(event_id("correlation"), KEY.into(), unnamed),
        Outgoing::new(event_id("key"), long.clone(), Message::default()),
        headed("b", &[("most", 120_000)]),
    ];
    let outcomes = broker.publish(window).await.unwrap();
    let nacked = |outcome: &PublishOutcome| matches!(outcome, PublishOutcome::Nacked { .. });
    assert!(is_confirmed(&outcomes[0]) && outcomes[1..5].iter().all(nacked), "{outcomes:?}");
    assert!(is_confirmed(&outcomes[5]), "{outcomes:?}");
}
