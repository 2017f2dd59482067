//! Dead letters sent back to the consumers they died at.

use handover_events::*;
use handover_outbox::operations::*;
use handover_outbox::ports::*;

use super::broken::{broken, next_record, park, with_scripted};
use super::operators::*;
use crate::consumers::scripted::{Act, NAME, QUEUE, Scripted};
use crate::support::{CommitFault, TENANT, World, message, millis, pass};

#[tokio::test(start_paused = true)]
async fn a_replayed_letter_takes_effect_once_at_the_consumer_it_died_at_with_its_attempts_counted_anew() {
    let broken = broken(&[("e-1", 7)]).await;
    broken.mend();
    let world = &broken.world;
    let before: Vec<QueueDepth> = world.broker.queues().await.unwrap();
    let replayed = broken.replay(keys(&["e-1"])).await.unwrap();
    assert_eq!(replayed, Replayed { matched: 1, replayed: 1, ..Replayed::default() });
    let letter = world.letter(QUEUE, "e-1").await;
    assert_eq!(letter.status, DeadLetterStatus::Replayed);
    assert_eq!(letter.note.as_deref(), Some("the printer has paper again"));
    assert!(letter.decided_at.is_some());
    pass(millis(100)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Success, 1));
    assert_eq!(world.broker.queues().await.unwrap(), before, "nobody else got a copy");
    let audit = world.audit().await;
    assert_eq!((audit.len(), audit[0].action.as_str(), audit[0].changed), (1, "dead-letters.replay", 1));
    assert_eq!(audit[0].selection, r#"{"keys":["e-1"]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_replayed_letter_that_dies_again_is_open_again_with_its_new_reason() {
    let broken = broken(&[("e-1", 7)]).await;
    let first = broken.world.letter(QUEUE, "e-1").await;
    pass(millis(1_000)).await;
    broken.replay(keys(&["e-1"])).await.unwrap();
    pass(millis(700)).await;
    let letter = broken.world.letter(QUEUE, "e-1").await;
    assert_eq!((letter.status, letter.note.is_some()), (DeadLetterStatus::Open, true));
    assert!(letter.died_at > first.died_at, "it died later");
    let record = broken.world.log(NAME, "e-1").await.unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 1));
    assert!(broken.world.effects(7).await.is_empty());
    broken.mend();
    assert_eq!(broken.replay(keys(&["e-1"])).await.unwrap().replayed, 1);
    pass(millis(100)).await;
    assert_eq!(broken.world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn letters_of_one_order_are_replayed_in_the_order_of_its_events() {
    let broken = broken(&[("e-1", 7), ("e-2", 7), ("e-3", 7), ("f-1", 8)]).await;
    broken.mend();
    let replayed = broken.replay(keys(&["e-3", "f-1", "e-1", "e-2"])).await.unwrap();
    assert_eq!(replayed.replayed, 4);
    pass(millis(100)).await;
    assert_eq!(broken.world.effects(7).await, ["e-1", "e-2", "e-3"]);
}

#[tokio::test(start_paused = true)]
async fn the_messages_of_a_replay_enter_the_queue_in_the_order_of_their_events() {
    let broken = broken(&[("e-1", 7), ("e-2", 7), ("e-3", 7)]).await;
    broken.process.kill().await;
    let process = with_scripted(broken.world.process(), &broken.handler);
    let letters = keys(&["e-2", "e-3", "e-1"]);
    let command = ReplayLetters { letters, dry_run: false, reason: None };
    replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    let subscription = broken.world.broker.subscribe(QUEUE, 10.try_into().unwrap()).await.unwrap();
    let deliveries = subscription.next().await.unwrap();
    let ids: Vec<_> = deliveries.iter().map(|it| it.message.message_id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["e-1", "e-2", "e-3"]);
    let row = broken.world.row("e-1").await;
    assert_eq!(deliveries[0].message, message(&row), "it is what the outbox row says");
    assert!(!deliveries[0].redelivered);
}

#[tokio::test(start_paused = true)]
async fn a_queue_narrows_what_is_named_and_a_filter_chooses_what_nobody_decided_about() {
    let broken = broken(&[("e-1", 7), ("e-2", 8)]).await;
    let world = &broken.world;
    let genuine = world.letter(QUEUE, "e-1").await;
    park(world, &[DeadLetter { queue: "old.queue".into(), ..genuine.clone() }]).await;
    broken.mend();
    let named = broken.replay(keys_at(&["e-1"], Some(QUEUE))).await.unwrap();
    assert_eq!((named.matched, named.replayed), (1, 1));
    let nowhere = broken.replay(keys_at(&["e-1"], Some("new.queue"))).await.unwrap();
    assert_eq!((nowhere.matched, nowhere.not_found.len()), (0, 1));
    let filter = |queue: Option<&str>, event_type: Option<&str>, tenant: Option<TenantId>| Letters::Filter {
        queue: queue.map(str::to_owned),
        event_type: event_type.map(str::to_owned),
        tenant,
    };
    let dry = async |letters| {
        let command = ReplayLetters { letters, dry_run: true, reason: None };
        replay_dead_letters(&broken.process.app.outbox, &acting(&platform()), command).await.unwrap().matched
    };
    assert_eq!(dry(all_letters()).await, 2);
    assert_eq!(dry(filter(Some(QUEUE), None, None)).await, 1);
    assert_eq!(dry(filter(None, Some("ORDER_STATUS_CHANGED"), None)).await, 2);
    assert_eq!(dry(filter(None, Some("ORDER_PAID"), None)).await, 0);
    assert_eq!(dry(filter(None, None, Some(TENANT))).await, 2);
    assert_eq!(dry(filter(None, None, Some(tenant(2)))).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_replay_that_is_not_confirmed_says_so_and_can_be_repeated() {
    let broken = broken(&[("e-1", 7)]).await;
    broken.mend();
    let world = &broken.world;
    world.broker.nack_next(1);
    let nacked = broken.replay(keys(&["e-1"])).await.unwrap();
    assert_eq!((nacked.replayed, nacked.refused.len()), (0, 1));
    assert_eq!(world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Failed));
    assert_eq!(broken.replay(all_letters()).await.unwrap().replayed, 1);
    assert_eq!(world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replayed);
    pass(millis(100)).await;
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_replay_whose_commits_go_wrong_happens_once_and_is_recorded_once() {
    for faults in FAULTS {
        // Of the first step, then of the last.
        for sound in [0, 1] {
            let broken = broken(&[("e-1", 7), ("e-2", 8)]).await;
            broken.process.kill().await;
            let process = with_scripted(broken.world.process(), &broken.handler);
            let sound = std::iter::repeat_n(CommitFault::None, sound);
            process.faults.next_commits(sound.chain(faults.iter().copied()));
            let letters = keys(&["e-1", "e-2"]);
            let command = ReplayLetters { letters, dry_run: false, reason: None };
            let replayed =
                replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
            assert_eq!((replayed.replayed, replayed.refused.len()), (2, 0), "{faults:?}");
            for id in ["e-1", "e-2"] {
                let letter = broken.world.letter(QUEUE, id).await;
                assert_eq!(letter.status, DeadLetterStatus::Replayed, "{faults:?}");
            }
            let audit = broken.world.audit().await;
            assert_eq!((audit.len(), audit[0].changed), (1, 2), "{faults:?}");
            assert_eq!(broken.world.depth(QUEUE).await.ready, 2, "each was sent once");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn more_letters_than_a_batch_go_all_in_one_call_up_to_a_thousand() {
    let world = World::new().await;
    let handler = Scripted::new(&world, |_, _| Act::Apply);
    let process = with_scripted(world.process(), &handler);
    let mut letters = Vec::new();
    for number in 1..=1_001 {
        let id = format!("e-{number}");
        world.happened(&process, &id, number, 1).await;
        let row = world.row(&id).await;
        letters.push(DeadLetter {
            queue: QUEUE.into(),
            key: id,
            tenant: TENANT,
            event_type: Some(row.event_type.clone()),
            trace_id: None,
            body: message(&row).body,
            reason: "out of paper".into(),
            died_at: world.now(),
            status: DeadLetterStatus::Open,
            decided_at: None,
            note: None,
        });
    }
    park(&world, &letters).await;
    let command = ReplayLetters { letters: all_letters(), dry_run: false, reason: None };
    let replayed =
        replay_dead_letters(&process.app.outbox, &acting(&operator()), command.clone()).await.unwrap();
    assert_eq!((replayed.matched, replayed.replayed, replayed.more), (1_000, 1_000, true));
    let last = world.letter(QUEUE, "e-1001").await;
    assert_eq!(last.status, DeadLetterStatus::Open, "the oldest go first");
    assert_eq!(world.audit().await.iter().map(|entry| entry.changed).sum::<u64>(), 1_000);
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    assert_eq!((replayed.matched, replayed.replayed, replayed.more), (1, 1, false));
    assert_eq!(world.depth(QUEUE).await.ready, 1_001);
}

/// Between two replays of it the event died again, in a unit that the second one waits for.
#[tokio::test(start_paused = true)]
async fn an_event_that_dies_while_its_letter_is_being_decided_is_tried_again() {
    let broken = broken(&[("e-1", 7)]).await;
    broken.process.kill().await;
    let (world, process) = (&broken.world, with_scripted(broken.world.process(), &broken.handler));
    let command = ReplayLetters { letters: keys(&["e-1"]), dry_run: false, reason: None };
    world.broker.nack_next(1);
    let first =
        replay_dead_letters(&process.app.outbox, &acting(&operator()), command.clone()).await.unwrap();
    assert_eq!(first.replayed, 0, "the broker refused it");
    let letter = world.letter(QUEUE, "e-1").await;
    assert_eq!(letter.status, DeadLetterStatus::Replaying);
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!(record.status, ConsumeStatus::Failed);

    let dead = next_record(world, "e-1", ConsumeStatus::Dead).await;
    let mut dying = world.store.begin().await.unwrap();
    dying.outbox().record(&[dead]).await.unwrap();
    dying.outbox().park(&[DeadLetter { status: DeadLetterStatus::Open, ..letter }]).await.unwrap();
    let operator = acting(&operator());
    let second = replay_dead_letters(&process.app.outbox, &operator, command);
    let died = async {
        pass(millis(10)).await;
        dying.commit().await.unwrap();
    };
    let (second, ()) = tokio::join!(second, died);
    assert_eq!(second.unwrap().replayed, 1);
    let record = world.log(NAME, "e-1").await.unwrap();
    assert_eq!(record.status, ConsumeStatus::Failed, "it is to be tried, as its letter says");
}
