//! Duplicate deliveries are ignored and recorded in the history of the event.

use handover_events::HistoryKind;
use handover_outbox::ports::*;

use super::scripted::{Act, NAME, QUEUE, consuming};
use crate::support::{CommitFault, World, event_id, message, pass, secs};

async fn ignored_count(world: &World, id: &str) -> usize {
    let history = world.view().await.outbox_view().history_of(&[event_id(id)]).await.unwrap();
    let is_ours = |entry: &HistoryEntry| {
        entry.kind == HistoryKind::Duplicate && entry.consumer.as_deref() == Some(NAME)
    };
    assert!(history.iter().all(is_ours), "{history:?}");
    history.len()
}

#[tokio::test(start_paused = true)]
async fn event_consumed_once_has_no_history() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert_eq!(ignored_count(&world, "e-1").await, 0);
}

#[tokio::test(start_paused = true)]
async fn duplicates_in_a_batch_are_ignored_in_one_unit_of_work() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    let ids: Vec<String> = (1..=5).map(|n| format!("e-{n}")).collect();
    for (number, id) in (1..).zip(&ids) {
        world.commit_and_deliver(&process, id, number, 1).await;
    }
    pass(secs(1)).await;
    let units_before = process.faults.begun_units();
    let rows = world.rows().await;
    assert!(rows.iter().all(|row| world.broker.inject(QUEUE, message(row))));
    pass(secs(1)).await;
    for (number, id) in (1..).zip(&ids) {
        assert_eq!(ignored_count(&world, id).await, 1, "{id}");
        assert_eq!(world.effects(number).await, [id.as_str()]);
    }
    assert!(world.is_drained(QUEUE).await);
    assert_eq!(
        process.faults.begun_units() - units_before,
        1,
        "expected one unit of work for the whole batch"
    );
}

#[tokio::test(start_paused = true)]
async fn one_of_two_deliveries_of_a_new_event_is_ignored() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.commit_event(&process, "e-1", 7, 1).await;
    world.deliver(QUEUE, "e-1").await;
    world.deliver(QUEUE, "e-1").await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert_eq!(ignored_count(&world, "e-1").await, 1);
}

#[tokio::test(start_paused = true)]
async fn single_duplicate_is_recorded_once_after_a_commit_fault() {
    for fault in [CommitFault::None, CommitFault::ReplyLost, CommitFault::Lost, CommitFault::Transient] {
        let (world, process, _) = consuming(|_, _| Act::Apply).await;
        world.commit_and_deliver(&process, "e-1", 7, 1).await;
        pass(secs(1)).await;
        for faults in [vec![fault], vec![CommitFault::Unavailable]] {
            process.faults.next_commits(faults);
            world.deliver(QUEUE, "e-1").await;
            pass(secs(1)).await;
            process.faults.set_unavailable(false);
            pass(secs(5)).await;
        }
        assert_eq!(ignored_count(&world, "e-1").await, 2, "{fault:?}");
        assert_eq!(world.effects(7).await, ["e-1"]);
        assert!(world.is_drained(QUEUE).await);
        process.kill().await;
    }
}
