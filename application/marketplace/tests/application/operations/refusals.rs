//! Dead letters that are not replayed, with the reason.

use handover_events::ConsumeStatus;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::CommandContext;

use super::failing_consumer::{dead_letter_fixture, park, refusals};
use super::operators::*;
use crate::consumers::scripted::{NAME, QUEUE};
use crate::support::{TENANT, millis, pass};

#[tokio::test(start_paused = true)]
async fn unreplayable_dead_letters_are_refused_with_a_reason() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8)]).await;
    let world = &fixture.world;
    let genuine = world.dead_letter(QUEUE, "e-1").await;
    let foreign = DeadLetter { key: "0123456789abcdef".repeat(4), event_type: None, ..genuine.clone() };
    let without_consumer = DeadLetter { queue: "old.queue".into(), ..genuine.clone() };
    park(world, &[foreign.clone(), without_consumer]).await;
    fixture.replay(keys(&["e-2"])).await.unwrap();
    pass(millis(10)).await;
    let discard =
        DiscardDeadLetters { selection: keys_at(&["e-1"], Some(QUEUE)), dry_run: false, reason: reason() };
    discard_dead_letters(&fixture.process.app.outbox, &acting(&operator()), discard).await.unwrap();
    let replayed = fixture.replay(keys(&["e-1", &foreign.key, "no-such"])).await.unwrap();
    assert_eq!((replayed.matched, replayed.replayed), (3, 0));
    assert_eq!(replayed.not_found, ["no-such"]);
    let mut refused = refusals(&replayed);
    refused.sort_unstable();
    let expected = [
        (foreign.key.as_str(), "the message is not an event of this outbox: discard it"),
        ("e-1", "no consumer is registered for queue old.queue"),
        ("e-1", "the dead letter was discarded"),
    ];
    assert_eq!(refused, expected);
    assert_eq!(world.dead_letter(QUEUE, &foreign.key).await, foreign);
}

#[tokio::test(start_paused = true)]
async fn replayed_dead_letter_is_not_replayed_again() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    fixture.repair_consumer();
    fixture.replay(keys(&["e-1"])).await.unwrap();
    pass(millis(100)).await;
    let again = fixture.replay(keys(&["e-1"])).await.unwrap();
    assert_eq!(
        (again.replayed, refusals(&again)),
        (0, vec![("e-1", "the dead letter was already replayed")])
    );
    let dry = ReplayDeadLetters { selection: keys(&["e-1"]), dry_run: true, reason: None };
    let dry = replay_dead_letters(&fixture.process.app.outbox, &acting(&operator()), dry).await.unwrap();
    assert_eq!(refusals(&dry), [("e-1", "the dead letter was already replayed")]);
    assert_eq!(fixture.replay(all_dead_letters()).await.unwrap(), Replayed::default());
    assert_eq!(fixture.world.audited_changes().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dry_run_reports_refusals_and_changes_nothing() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    let world = &fixture.world;
    let genuine = world.dead_letter(QUEUE, "e-1").await;
    park(world, &[DeadLetter { queue: "old.queue".into(), ..genuine.clone() }]).await;
    // A dry run does not use the broker: it succeeds while the broker is unreachable.
    world.broker.set_reachable(false);
    let command = ReplayDeadLetters { selection: all_dead_letters(), dry_run: true, reason: None };
    let replayed =
        replay_dead_letters(&fixture.process.app.outbox, &acting(&operator()), command).await.unwrap();
    assert_eq!((replayed.dry_run, replayed.matched, replayed.replayed), (true, 2, 0));
    assert_eq!(refusals(&replayed), [("e-1", "no consumer is registered for queue old.queue")]);
    assert_eq!(world.dead_letter(QUEUE, "e-1").await, genuine);
    assert!(world.audited_changes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn replay_fails_without_changes_when_the_broker_is_unreachable() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    let world = &fixture.world;
    let before = fixture.world.dead_letter(QUEUE, "e-1").await;
    world.broker.set_reachable(false);
    let unreachable = fixture.replay(keys(&["e-1"])).await;
    assert!(
        matches!(unreachable, Err(OperationError::Broker(BrokerError::Unreachable(_)))),
        "{unreachable:?}"
    );
    assert_eq!(world.dead_letter(QUEUE, "e-1").await, before);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
    assert!(world.audited_changes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn dead_letters_of_other_tenants_are_not_found() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    let replay = async |context: CommandContext, selection| {
        let command = ReplayDeadLetters { selection, dry_run: false, reason: None };
        replay_dead_letters(&fixture.process.app.outbox, &acting(&context), command).await
    };
    let named = replay(other_tenant_operator(), keys(&["e-1"])).await.unwrap();
    assert_eq!((named.matched, named.not_found.as_slice()), (0, ["e-1".to_owned()].as_slice()));
    assert_eq!(replay(other_tenant_operator(), all_dead_letters()).await.unwrap().matched, 0);
    let filter = DeadLetterSelection::Filter {
        queue: None,
        event_type: None,
        tenant: Some(TENANT),
        from: None,
        to: None,
    };
    assert_not_found(&replay(other_tenant_operator(), filter).await);
    assert_eq!(replay(command_line(), keys(&["e-1"])).await.unwrap().replayed, 1);
    assert_eq!(fixture.world.audited_changes().await[0].actor, "command-line:root");
}
