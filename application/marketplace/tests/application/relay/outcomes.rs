//! The state of a row after each outcome of a publish.

use handover_events::{AggregateRef, HistoryKind, OutboxStatus, RetryPolicy};
use handover_outbox::RelaySettings;
use handover_outbox::ports::*;

use super::relay_on;
use super::test_brokers::{BrokerReply, confirming_broker, mock_broker_by_id};
use crate::support::{CommitFault, TENANT, World, event_id, eventually, millis, pass, sample, secs};

#[tokio::test(start_paused = true)]
async fn confirmed_event_becomes_sent_with_its_confirm_time() {
    let (broker, _) = confirming_broker();
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    pass(millis(100)).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.retry_count, row.last_error.as_deref()), (OutboxStatus::Sent, 0, None));
    let sent = row.sent_time.expect("a SENT row has a sent_time");
    assert!(sent >= row.create_time && sent <= world.now(), "{sent}");
}

async fn assert_retry_schedule(reply: BrokerReply, error: &str) {
    let (broker, windows) = mock_broker_by_id(move |_| reply);
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    for (failures, delay) in [(1, secs(5)), (2, secs(30)), (3, secs(120))] {
        eventually(millis(200), async || world.row("e-1").await.retry_count == failures).await;
        let row = world.row("e-1").await;
        assert_eq!(row.status, OutboxStatus::Retry);
        let due = row.next_retry_time.expect("a failure sets the time of the next attempt");
        assert_eq!((due - row.update_time).to_std().unwrap(), delay, "after failure {failures}");
        assert_eq!(row.last_error.as_deref(), Some(error));
        pass((due - world.now()).to_std().unwrap()).await;
    }
    eventually(millis(200), async || world.row("e-1").await.retry_count == 4).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.next_retry_time), (OutboxStatus::Failed, None));
    assert_eq!(row.last_error.as_deref(), Some(error));
    pass(secs(3_600)).await;
    assert_eq!(windows.all().len(), 4, "a FAILED row must not be published again without a redrive");
    let pauses = windows.pauses("e-1");
    for (pause, delay) in pauses.iter().zip([secs(5), secs(30), secs(120)]) {
        assert!(*pause >= delay && *pause < delay + millis(100), "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn returned_event_is_retried_after_5_s_30_s_and_2_min_and_then_fails() {
    assert_retry_schedule(BrokerReply::Return, "消息发送失败: returned: NO_ROUTE").await;
}

#[tokio::test(start_paused = true)]
async fn nacked_event_is_retried_after_5_s_30_s_and_2_min_and_then_fails() {
    assert_retry_schedule(BrokerReply::Nack, "消息发送失败: refused: the disk is full").await;
}

/// Kind, number of attempts and error of each history entry of an event.
async fn history(world: &World, id: &str) -> Vec<(HistoryKind, u32, Option<String>)> {
    let history = world.view().await.outbox_view().history_of(&[event_id(id)]).await.unwrap();
    assert!(history.iter().all(|entry| (entry.tenant, &entry.consumer) == (TENANT, &None)), "{history:?}");
    assert!(history.is_sorted_by_key(|entry| entry.at), "{history:?}");
    history.into_iter().map(|entry| (entry.kind, entry.attempts, entry.detail)).collect()
}

#[tokio::test(start_paused = true)]
async fn each_failed_attempt_is_recorded_in_the_history_once() {
    use HistoryKind::{Failed, Retry};
    let (broker, _) =
        mock_broker_by_id(|id| if id == "e-1" { BrokerReply::Return } else { BrokerReply::Confirm });
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let event = |id: &str, order| world.event(id, 1, &sample::paid(order));
    process.commit(vec![event("e-1", 7), event("e-2", 8)]).await;
    pass(secs(3)).await;
    // From now on, every second commit loses its reply: each commit of the relay is repeated once.
    process.faults.next_commits([CommitFault::ReplyLost, CommitFault::None].repeat(200));
    pass(secs(200)).await;
    let error = Some("消息发送失败: returned: NO_ROUTE".to_owned());
    let expected = [(Retry, 1), (Retry, 2), (Retry, 3), (Failed, 4)];
    let expected = expected.map(|(kind, attempts)| (kind, attempts, error.clone()));
    assert_eq!(history(&world, "e-1").await, expected);
    assert_eq!(history(&world, "e-2").await, [], "a row confirmed at its first attempt must have no history");
}

#[tokio::test(start_paused = true)]
async fn max_retry_count_of_the_row_limits_its_retries() {
    let (broker, windows) = mock_broker_by_id(|_| BrokerReply::Return);
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let event = world.event("e-1", 1, &sample::paid(7));
    process.commit(vec![NewEvent { max_retry_count: 1, ..event }]).await;
    pass(secs(60)).await;
    assert_eq!((world.status("e-1").await, windows.all().len()), (OutboxStatus::Failed, 2));
}

#[tokio::test(start_paused = true)]
async fn unpublishable_row_fails_at_its_first_attempt_and_does_not_delay_others() {
    let (broker, windows) = confirming_broker();
    let (world, process) = relay_on(broker, RelaySettings::default()).await;
    let event = |id: &str, order: i64| world.event(id, 1, &sample::paid(order));
    let of_kind = |kind: &str, id| AggregateRef { tenant: TENANT, kind: kind.into(), id };
    process
        .commit(vec![
            NewEvent { event_type: "ORDER_UNKNOWN".into(), ..event("unknown", 1) },
            NewEvent { payload: "{\"orderId\":".into(), ..event("broken", 2) },
            NewEvent { payload: "[1]".into(), ..event("list", 3) },
            NewEvent { aggregate: of_kind("Payment", 4.into()), ..event("kind", 4) },
            NewEvent { aggregate: of_kind("Order", 5.into()), ..event("id", 6) },
            event("good", 4),
            world.event("later", 2, &sample::changed(2)),
        ])
        .await;
    pass(millis(100)).await;
    assert_eq!(world.status("good").await, OutboxStatus::Sent);
    assert_eq!(
        world.status("later").await,
        OutboxStatus::Sent,
        "the event must be published although its order has an unpublishable row"
    );
    for (id, error) in [
        ("unknown", "消息发送失败: 事件类型不支持: ORDER_UNKNOWN"),
        ("broken", "消息发送失败: the payload is not JSON"),
        ("list", "消息发送失败: the payload is not a JSON object"),
        ("kind", "消息发送失败: aggregate_type is Payment, but ORDER_PAID requires Order"),
        ("id", "消息发送失败: aggregate_id is 5, but the payload's orderId is 6"),
    ] {
        let row = world.row(id).await;
        assert_eq!((row.status, row.retry_count), (OutboxStatus::Failed, 1), "{id}");
        let last_error = row.last_error.unwrap();
        assert!(last_error.starts_with(error), "{last_error}");
    }
    assert_eq!(windows.ids(), [["good"], ["later"]], "the unpublishable rows must never reach the broker");
}

#[tokio::test(start_paused = true)]
async fn retry_without_a_time_is_due_at_once() {
    let world = crate::support::World::new().await;
    let process = world.process();
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    let mut unit = world.store.begin().await.unwrap();
    let failed = FailedPublish {
        event_id: "e-1".parse().unwrap(),
        status: OutboxStatus::Retry,
        retry_count: 1,
        next_retry_time: None,
        error: "消息发送失败".into(),
    };
    unit.outbox().mark_failed(&[failed], world.now()).await.unwrap();
    unit.commit().await.unwrap();
    process.start_relay("relay-1", RelaySettings::default());
    pass(millis(50)).await;
    let row = world.row("e-1").await;
    assert_eq!((row.status, row.retry_count), (OutboxStatus::Sent, 1));
}

#[tokio::test(start_paused = true)]
async fn retry_happens_when_due_and_does_not_wait_for_the_next_poll() {
    let (broker, windows) = mock_broker_by_id(|_| BrokerReply::Return);
    let delays = [700, 1_100, 1_900].map(millis).to_vec();
    let retry = RetryPolicy::Schedule { delays: delays.clone() };
    let (world, process) = relay_on(broker, RelaySettings { retry, ..RelaySettings::default() }).await;
    process.commit(vec![world.event("e-1", 1, &sample::paid(7))]).await;
    pass(secs(10)).await;
    let pauses = windows.pauses("e-1");
    assert!(pauses.iter().zip(delays).all(|(pause, delay)| *pause < delay + millis(20)), "{pauses:?}");
}
