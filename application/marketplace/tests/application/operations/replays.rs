//! Replay of dead letters to their consumers.

use handover_events::*;
use handover_outbox::operations::*;
use handover_outbox::ports::*;

use super::failing_consumer::{dead_letter_fixture, next_record, park, with_scripted};
use super::operators::*;
use crate::consumers::scripted::{Act, NAME, QUEUE, Scripted};
use crate::support::{CommitFault, TENANT, World, event_id, message, millis, pass};

#[tokio::test(start_paused = true)]
async fn replayed_dead_letter_takes_effect_once_with_its_attempts_reset() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    fixture.repair_consumer();
    let world = &fixture.world;
    let before: Vec<QueueDepth> = world.broker.queues().await.unwrap();
    let replayed = fixture.replay(keys(&["e-1"])).await.unwrap();
    let sent = vec![SentDeadLetter { queue: QUEUE.into(), consumer: NAME.into(), event: event_id("e-1") }];
    assert_eq!(replayed, Replayed { matched: 1, replayed: 1, sent, ..Replayed::default() });
    let dead_letter = world.dead_letter(QUEUE, "e-1").await;
    assert_eq!(dead_letter.status, DeadLetterStatus::Replayed);
    assert_eq!(dead_letter.note.as_deref(), Some("the service is available again"));
    assert!(dead_letter.decided_at.is_some());
    pass(millis(100)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 1));
    assert_eq!(
        world.broker.queues().await.unwrap(),
        before,
        "the depth of every queue must be the same as before the replay"
    );
    let audit = world.audited_changes().await;
    assert_eq!((audit.len(), audit[0].action.as_str(), audit[0].changed), (1, "dead-letters.replay", 1));
    assert_eq!(audit[0].selection, r#"{"keys":["e-1"]}"#);
}

#[tokio::test(start_paused = true)]
async fn replayed_dead_letter_that_fails_again_is_reopened_with_its_new_reason() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    let first = fixture.world.dead_letter(QUEUE, "e-1").await;
    pass(millis(1_000)).await;
    fixture.replay(keys(&["e-1"])).await.unwrap();
    pass(millis(700)).await;
    let dead_letter = fixture.world.dead_letter(QUEUE, "e-1").await;
    assert_eq!((dead_letter.status, dead_letter.note.is_some()), (DeadLetterStatus::Open, true));
    assert!(
        dead_letter.died_at > first.died_at,
        "the dead letter must have the time of its new dead-lettering"
    );
    let record = fixture.world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 1));
    assert!(fixture.world.effects(7).await.is_empty());
    fixture.repair_consumer();
    assert_eq!(fixture.replay(keys(&["e-1"])).await.unwrap().replayed, 1);
    pass(millis(100)).await;
    assert_eq!(fixture.world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn replayed_events_of_one_order_are_applied_in_event_order() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 7), ("e-3", 7), ("f-1", 8)]).await;
    fixture.repair_consumer();
    let replayed = fixture.replay(keys(&["e-3", "f-1", "e-1", "e-2"])).await.unwrap();
    assert_eq!(replayed.replayed, 4);
    pass(millis(100)).await;
    assert_eq!(fixture.world.effects(7).await, ["e-1", "e-2", "e-3"]);
}

#[tokio::test(start_paused = true)]
async fn replay_publishes_messages_in_event_order() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 7), ("e-3", 7)]).await;
    fixture.process.kill().await;
    let process = with_scripted(fixture.world.process(), &fixture.handler);
    let selection = keys(&["e-2", "e-3", "e-1"]);
    let command = ReplayDeadLetters { selection, dry_run: false, reason: None };
    replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    let subscription = fixture.world.broker.subscribe(QUEUE, 10.try_into().unwrap()).await.unwrap();
    let deliveries = subscription.next().await.unwrap();
    let ids: Vec<_> = deliveries.iter().map(|it| it.message.message_id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["e-1", "e-2", "e-3"]);
    let row = fixture.world.row("e-1").await;
    assert_eq!(deliveries[0].message, message(&row), "the message must be rebuilt from the outbox row");
    assert!(!deliveries[0].redelivered);
}

#[tokio::test(start_paused = true)]
async fn queue_narrows_the_keys_and_a_filter_selects_undecided_dead_letters() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8)]).await;
    let world = &fixture.world;
    let genuine = world.dead_letter(QUEUE, "e-1").await;
    park(world, &[DeadLetter { queue: "old.queue".into(), ..genuine.clone() }]).await;
    fixture.repair_consumer();
    let named = fixture.replay(keys_at(&["e-1"], Some(QUEUE))).await.unwrap();
    assert_eq!((named.matched, named.replayed), (1, 1));
    let wrong_queue = fixture.replay(keys_at(&["e-1"], Some("new.queue"))).await.unwrap();
    assert_eq!((wrong_queue.matched, wrong_queue.not_found.len()), (0, 1));
    let filter = |queue: Option<&str>, event_type: Option<&str>, tenant: Option<TenantId>| {
        DeadLetterSelection::Filter {
            queue: queue.map(str::to_owned),
            event_type: event_type.map(str::to_owned),
            tenant,
            from: None,
            to: None,
        }
    };
    let dry_run = async |selection| {
        let command = ReplayDeadLetters { selection, dry_run: true, reason: None };
        replay_dead_letters(&fixture.process.app.outbox, &acting(&platform()), command).await.unwrap().matched
    };
    assert_eq!(dry_run(all_dead_letters()).await, 2);
    assert_eq!(dry_run(filter(Some(QUEUE), None, None)).await, 1);
    assert_eq!(dry_run(filter(None, Some("ORDER_STATUS_CHANGED"), None)).await, 2);
    assert_eq!(dry_run(filter(None, Some("ORDER_PAID"), None)).await, 0);
    assert_eq!(dry_run(filter(None, None, Some(TENANT))).await, 2);
    assert_eq!(dry_run(filter(None, None, Some(tenant(2)))).await, 0);
    let within =
        |from, to| DeadLetterSelection::Filter { queue: None, event_type: None, tenant: None, from, to };
    let died_at = genuine.died_at;
    assert_eq!(dry_run(within(Some(died_at), None)).await, 2);
    assert_eq!(dry_run(within(None, Some(died_at))).await, 0);
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_replay_is_reported_and_can_be_repeated() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    fixture.repair_consumer();
    let world = &fixture.world;
    world.broker.nack_next(1);
    let nacked = fixture.replay(keys(&["e-1"])).await.unwrap();
    assert_eq!((nacked.replayed, nacked.refused.len()), (0, 1));
    assert_eq!(world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
    assert_eq!(fixture.replay(all_dead_letters()).await.unwrap().replayed, 1);
    assert_eq!(world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replayed);
    pass(millis(100)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn replay_happens_and_is_audited_once_after_a_commit_fault() {
    for faults in FAULTS {
        // In the first round the faults start at the first commit, in the second round at the last one.
        for preceding in [0, 1] {
            let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8)]).await;
            fixture.process.kill().await;
            let process = with_scripted(fixture.world.process(), &fixture.handler);
            let successes = std::iter::repeat_n(CommitFault::None, preceding);
            process.faults.next_commits(successes.chain(faults.iter().copied()));
            let selection = keys(&["e-1", "e-2"]);
            let command = ReplayDeadLetters { selection, dry_run: false, reason: None };
            let replayed =
                replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
            assert_eq!((replayed.replayed, replayed.refused.len()), (2, 0), "{faults:?}");
            for id in ["e-1", "e-2"] {
                let dead_letter = fixture.world.dead_letter(QUEUE, id).await;
                assert_eq!(dead_letter.status, DeadLetterStatus::Replayed, "{faults:?}");
            }
            let audit = fixture.world.audited_changes().await;
            assert_eq!((audit.len(), audit[0].changed), (1, 2), "{faults:?}");
            assert_eq!(fixture.world.depth(QUEUE).await.ready, 2, "expected one message per dead letter");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn replay_is_limited_to_the_1000_oldest_dead_letters_per_call() {
    let world = World::new().await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    let process = with_scripted(world.process(), &handler);
    let mut dead_letters = Vec::new();
    for number in 1..=1_001 {
        let id = format!("e-{number}");
        world.commit_event(&process, &id, number, 1).await;
        let row = world.row(&id).await;
        dead_letters.push(DeadLetter {
            queue: QUEUE.into(),
            key: id,
            tenant: TENANT,
            event_type: Some(row.event_type.clone()),
            trace_id: None,
            body: message(&row).body,
            reason: "service unavailable".into(),
            died_at: world.now(),
            status: DeadLetterStatus::Open,
            decided_at: None,
            note: None,
        });
    }
    park(&world, &dead_letters).await;
    let command = ReplayDeadLetters { selection: all_dead_letters(), dry_run: false, reason: None };
    let replayed =
        replay_dead_letters(&process.app.outbox, &acting(&operator()), command.clone()).await.unwrap();
    assert_eq!((replayed.matched, replayed.replayed, replayed.more), (1_000, 1_000, true));
    let last = world.dead_letter(QUEUE, "e-1001").await;
    assert_eq!(last.status, DeadLetterStatus::Open, "the oldest dead letters must be replayed first");
    assert_eq!(world.audited_changes().await.iter().map(|entry| entry.changed).sum::<u64>(), 1_000);
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    assert_eq!((replayed.matched, replayed.replayed, replayed.more), (1, 1, false));
    assert_eq!(world.depth(QUEUE).await.ready, 1_001);
}

/// Between two replays the event fails permanently again, in a unit of work that the second replay waits for.
#[tokio::test(start_paused = true)]
async fn event_that_fails_during_a_concurrent_replay_is_retried() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    fixture.process.kill().await;
    let world = &fixture.world;
    let process = with_scripted(fixture.world.process(), &fixture.handler);
    let command = ReplayDeadLetters { selection: keys(&["e-1"]), dry_run: false, reason: None };
    world.broker.nack_next(1);
    let first =
        replay_dead_letters(&process.app.outbox, &acting(&operator()), command.clone()).await.unwrap();
    assert_eq!(first.replayed, 0, "a nacked message must not count as replayed");
    let dead_letter = world.dead_letter(QUEUE, "e-1").await;
    assert_eq!(dead_letter.status, DeadLetterStatus::Replaying);
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!(record.status, ConsumeStatus::Failed);

    let dead = next_record(world, "e-1", ConsumeStatus::Dead).await;
    let mut failing = world.store.begin().await.unwrap();
    failing.outbox().record(&[dead]).await.unwrap();
    failing.outbox().park(&[DeadLetter { status: DeadLetterStatus::Open, ..dead_letter }]).await.unwrap();
    let operator = acting(&operator());
    let second = replay_dead_letters(&process.app.outbox, &operator, command);
    let fail = async {
        pass(millis(10)).await;
        failing.commit().await.unwrap();
    };
    let (second, ()) = tokio::join!(second, fail);
    assert_eq!(second.unwrap().replayed, 1);
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!(
        record.status,
        ConsumeStatus::Failed,
        "the event must be retried, because its dead letter was replayed"
    );
}
