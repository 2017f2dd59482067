//! Dead letters that are not sent back, and why.

use handover_events::ConsumeStatus;
use handover_outbox::operations::*;
use handover_outbox::ports::*;
use marketplace::CommandContext;

use super::broken::{broken, park, whys};
use super::operators::*;
use crate::consumers::scripted::{NAME, QUEUE};
use crate::support::{TENANT, millis, pass};

#[tokio::test(start_paused = true)]
async fn what_cannot_be_replayed_is_refused_and_says_why() {
    let broken = broken(&[("e-1", 7), ("e-2", 8)]).await;
    let world = &broken.world;
    let genuine = world.letter(QUEUE, "e-1").await;
    let foreign = DeadLetter { key: "0123456789abcdef".repeat(4), event_type: None, ..genuine.clone() };
    let unworked = DeadLetter { queue: "old.queue".into(), ..genuine.clone() };
    park(world, &[foreign.clone(), unworked]).await;
    broken.replay(keys(&["e-2"])).await.unwrap();
    pass(millis(10)).await;
    let discard =
        DiscardLetters { letters: keys_at(&["e-1"], Some(QUEUE)), dry_run: false, reason: reason() };
    discard_dead_letters(&broken.process.app.outbox, &acting(&operator()), discard).await.unwrap();
    let replayed = broken.replay(keys(&["e-1", &foreign.key, "no-such"])).await.unwrap();
    assert_eq!((replayed.matched, replayed.replayed), (3, 0));
    assert_eq!(replayed.not_found, ["no-such"]);
    let mut refused = whys(&replayed);
    refused.sort_unstable();
    let expected = [
        (foreign.key.as_str(), "not an event of this outbox: discard it"),
        ("e-1", "it was discarded"),
        ("e-1", "no consumer is registered for queue old.queue"),
    ];
    assert_eq!(refused, expected);
    assert_eq!(world.letter(QUEUE, &foreign.key).await, foreign);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_was_replayed_is_not_replayed_again() {
    let broken = broken(&[("e-1", 7)]).await;
    broken.mend();
    broken.replay(keys(&["e-1"])).await.unwrap();
    pass(millis(100)).await;
    let again = broken.replay(keys(&["e-1"])).await.unwrap();
    assert_eq!((again.replayed, whys(&again)), (0, vec![("e-1", "it was replayed already")]));
    let dry = ReplayLetters { letters: keys(&["e-1"]), dry_run: true, reason: None };
    let dry = replay_dead_letters(&broken.process.app.outbox, &acting(&operator()), dry).await.unwrap();
    assert_eq!(whys(&dry), [("e-1", "it was replayed already")]);
    assert_eq!(broken.replay(all_letters()).await.unwrap(), Replayed::default());
    assert_eq!(broken.world.audit().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_what_would_be_refused_and_changes_nothing() {
    let broken = broken(&[("e-1", 7)]).await;
    let world = &broken.world;
    let genuine = world.letter(QUEUE, "e-1").await;
    park(world, &[DeadLetter { queue: "old.queue".into(), ..genuine.clone() }]).await;
    // Also while the broker is away: it is not asked.
    world.broker.set_reachable(false);
    let command = ReplayLetters { letters: all_letters(), dry_run: true, reason: None };
    let replayed =
        replay_dead_letters(&broken.process.app.outbox, &acting(&operator()), command).await.unwrap();
    assert_eq!((replayed.dry_run, replayed.matched, replayed.replayed), (true, 2, 0));
    assert_eq!(whys(&replayed), [("e-1", "no consumer is registered for queue old.queue")]);
    assert_eq!(world.letter(QUEUE, "e-1").await, genuine);
    assert!(world.audit().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn with_a_broker_that_is_away_nothing_is_begun() {
    let broken = broken(&[("e-1", 7)]).await;
    let (world, before) = (&broken.world, broken.world.letter(QUEUE, "e-1").await);
    world.broker.set_reachable(false);
    let away = broken.replay(keys(&["e-1"])).await;
    assert!(matches!(away, Err(OperationError::Broker(BrokerError::Unreachable(_)))), "{away:?}");
    assert_eq!(world.letter(QUEUE, "e-1").await, before);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
    assert!(world.audit().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn other_tenants_letters_are_not_there() {
    let broken = broken(&[("e-1", 7)]).await;
    let replay = async |context: CommandContext, letters| {
        let command = ReplayLetters { letters, dry_run: false, reason: None };
        replay_dead_letters(&broken.process.app.outbox, &acting(&context), command).await
    };
    let named = replay(elsewhere(), keys(&["e-1"])).await.unwrap();
    assert_eq!((named.matched, named.not_found.as_slice()), (0, ["e-1".to_owned()].as_slice()));
    assert_eq!(replay(elsewhere(), all_letters()).await.unwrap().matched, 0);
    let filter = Letters::Filter { queue: None, event_type: None, tenant: Some(TENANT) };
    is_missing(&replay(elsewhere(), filter).await);
    assert_eq!(replay(command_line(), keys(&["e-1"])).await.unwrap().replayed, 1);
    assert_eq!(broken.world.audit().await[0].actor, "command-line:root");
}
