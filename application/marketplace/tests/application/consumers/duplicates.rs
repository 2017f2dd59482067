//! Deliveries of events that were applied before are ignored, and the history of the event says so.

use handover_events::HistoryKind;
use handover_outbox::ports::*;

use super::scripted::{Act, NAME, QUEUE, consuming};
use crate::support::{CommitFault, World, event_id, message, pass, secs};

async fn ignored(world: &World, id: &str) -> usize {
    let history = world.view().await.outbox_view().history_of(&[event_id(id)]).await.unwrap();
    let is_ours = |entry: &HistoryEntry| {
        entry.kind == HistoryKind::Duplicate && entry.consumer.as_deref() == Some(NAME)
    };
    assert!(history.iter().all(is_ours), "{history:?}");
    history.len()
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_consumed_once_has_no_history() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert_eq!(ignored(&world, "e-1").await, 0);
}

#[tokio::test(start_paused = true)]
async fn duplicates_of_a_group_are_ignored_in_one_unit_of_work() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    let ids: Vec<String> = (1..=5).map(|n| format!("e-{n}")).collect();
    for (number, id) in (1..).zip(&ids) {
        world.arrived(&process, id, number, 1).await;
    }
    pass(secs(1)).await;
    let begun = process.faults.begun();
    let rows = world.rows().await;
    assert!(rows.iter().all(|row| world.broker.inject(QUEUE, message(row))));
    pass(secs(1)).await;
    for (number, id) in (1..).zip(&ids) {
        assert_eq!(ignored(&world, id).await, 1, "{id}");
        assert_eq!(world.effects(number).await, [id.as_str()]);
    }
    assert!(world.is_drained(QUEUE).await);
    assert_eq!(process.faults.begun() - begun, 1, "the group has one unit");
}

#[tokio::test(start_paused = true)]
async fn of_two_deliveries_of_a_new_event_one_is_ignored() {
    let (world, process, _) = consuming(|_, _| Act::Apply).await;
    world.happened(&process, "e-1", 7, 1).await;
    world.deliver(QUEUE, "e-1").await;
    world.deliver(QUEUE, "e-1").await;
    pass(secs(1)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    assert_eq!(ignored(&world, "e-1").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_that_is_delivered_alone_is_in_the_history_once_whatever_becomes_of_the_commit() {
    for fault in [CommitFault::None, CommitFault::AnswerLost, CommitFault::Lost, CommitFault::Transient] {
        let (world, process, _) = consuming(|_, _| Act::Apply).await;
        world.arrived(&process, "e-1", 7, 1).await;
        pass(secs(1)).await;
        for faults in [vec![fault], vec![CommitFault::GoesAway]] {
            process.faults.next_commits(faults);
            world.deliver(QUEUE, "e-1").await;
            pass(secs(1)).await;
            process.faults.set_away(false);
            pass(secs(5)).await;
        }
        assert_eq!(ignored(&world, "e-1").await, 2, "{fault:?}");
        assert_eq!(world.effects(7).await, ["e-1"]);
        assert!(world.is_drained(QUEUE).await);
        process.kill().await;
    }
}
