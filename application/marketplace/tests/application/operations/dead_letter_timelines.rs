//! The dead letters of an event in the timeline of its order.

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::consumers::INVENTORY_QUEUE;
use marketplace::service;
use marketplace::use_cases::operations::TimelineKind;

use super::operators::*;
use crate::support::{BUYER, TENANT, World, by, pass, secs};

/// Records changes of another operator, one every two seconds.
async fn other_changes(world: &World, begin: DateTime<Utc>) {
    let mut unit = world.store.begin().await.unwrap();
    for number in 0..1_500 {
        let entry = AuditEntry {
            tenant: TENANT,
            actor: "user:99".into(),
            action: "dead-letters.discard".into(),
            selection: "{}".into(),
            matched: 1,
            changed: 1,
            reason: None,
            trace_id: String::new(),
            at: begin + TimeDelta::seconds(2 * number),
        };
        unit.outbox().audit(&entry).await.unwrap();
    }
    unit.commit().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn earlier_deaths_stay_visible_after_a_replay_and_decisions_name_the_operator() {
    let world = World::new().await;
    let process = world.process();
    service::prepare(&process.app).await.unwrap();
    let order = process.ordered().await.id;
    let row = world.rows().await.remove(0);
    let id = row.event_id.to_string();
    let dies = async |reason: &str| {
        let dead_letter = DeadLetter {
            queue: INVENTORY_QUEUE.into(),
            key: id.clone(),
            tenant: TENANT,
            event_type: None,
            trace_id: None,
            body: row.payload.clone(),
            reason: reason.into(),
            died_at: world.now(),
            status: DeadLetterStatus::Open,
            decided_at: None,
            note: None,
        };
        let mut unit = world.store.begin().await.unwrap();
        unit.outbox().park(&[dead_letter]).await.unwrap();
        unit.commit().await.unwrap();
        pass(secs(1)).await;
    };
    dies("out of paper").await;
    let by_operator = acting(&operator());
    let replay = ReplayDeadLetters { selection: keys(&[&id]), dry_run: false, reason: Some(reason()) };
    assert_eq!(replay_dead_letters(&process.app.outbox, &by_operator, replay).await.unwrap().replayed, 1);
    pass(secs(1)).await;
    dies("out of ink").await;
    other_changes(&world, world.now() - TimeDelta::hours(1)).await;
    let discard = DiscardDeadLetters { selection: keys(&[&id]), dry_run: false, reason: reason() };
    assert_eq!(discard_dead_letters(&process.app.outbox, &by_operator, discard).await.unwrap().discarded, 1);
    other_changes(&world, world.now() + TimeDelta::seconds(2)).await;
    let items_seen_by = async |context| {
        let shown = process.app.operations.timeline(&context, None, order).await.unwrap();
        let items = shown.items.into_iter().filter(|item| item.kind == TimelineKind::DeadLetter);
        items.map(|item| (item.what, item.actor, item.detail)).collect::<Vec<_>>()
    };
    let line = |what: &str, actor: Option<&str>, detail: &str| {
        (what.to_owned(), actor.map(str::to_owned), Some(detail.to_owned()))
    };
    let expected = [
        line("parked as dead letter", None, "out of paper"),
        line("replayed by an operator", Some("user:9"), "user:9: the service is available again"),
        line("parked as dead letter", None, "out of ink"),
        line("discarded by an operator", Some("user:9"), "the service is available again"),
    ];
    assert_eq!(items_seen_by(operator()).await, expected);
    let of_buyer = items_seen_by(by(BUYER)).await;
    assert!(of_buyer.iter().all(|(_, actor, detail)| actor.is_none() && detail.is_none()), "{of_buyer:?}");
    assert_eq!(of_buyer.len(), 4);
}
