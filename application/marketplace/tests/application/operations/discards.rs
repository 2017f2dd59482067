//! Dead letters given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_events::{ConsumeStatus, TenantId};
use handover_outbox::operations::*;
use handover_outbox::ports::*;

use super::broken::{Broken, broken, next_record, whys_of, with_scripted};
use super::carrier::Fate;
use super::crashes::{replayer, successor};
use super::operators::*;
use crate::consumers::scripted::{Act, NAME, QUEUE, consuming};
use crate::support::{Process, World, eventually, millis, pass, secs};

fn discard(letters: Letters) -> DiscardLetters {
    DiscardLetters { letters, dry_run: false, reason: reason() }
}

#[tokio::test(start_paused = true)]
async fn a_discarded_letter_keeps_its_place_and_its_reason_and_takes_no_effect() {
    let broken = broken(&[("e-1", 7), ("e-2", 8)]).await;
    let (world, app) = (&broken.world, &broken.process.app);
    let before = world.letter(QUEUE, "e-1").await;
    let discarded =
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(keys(&["e-1", "no-such"])))
            .await
            .unwrap();
    let expected =
        Discarded { matched: 1, discarded: 1, not_found: vec!["no-such".into()], ..Discarded::default() };
    assert_eq!(discarded, expected);
    let after = world.letter(QUEUE, "e-1").await;
    let expected = DeadLetter {
        status: DeadLetterStatus::Discarded,
        decided_at: Some(world.now()),
        note: Some("the printer has paper again".into()),
        ..before
    };
    assert_eq!(after, expected);
    assert_eq!(world.letter(QUEUE, "e-2").await.status, DeadLetterStatus::Open);
    let audit = world.audit().await;
    assert_eq!((audit.len(), audit[0].action.as_str(), audit[0].changed), (1, "dead-letters.discard", 1));
    assert_eq!(audit[0].reason.as_deref(), Some("the printer has paper again"));
    let again =
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(keys(&["e-1"]))).await.unwrap();
    assert_eq!((again.matched, again.discarded), (1, 0), "it was decided before");
    assert_eq!(whys_of(&again.refused), [("e-1", "it was discarded")]);
    let dry = DiscardLetters { dry_run: true, ..discard(keys(&["e-1", "e-2"])) };
    let dry = discard_dead_letters(&app.outbox, &acting(&operator()), dry).await.unwrap();
    assert_eq!(whys_of(&dry.refused), [("e-1", "it was discarded")]);
    assert_eq!(world.audit().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_filter_discards_what_nobody_decided_about_also_what_is_being_replayed() {
    let broken = broken(&[("e-1", 7), ("e-2", 8), ("e-3", 9)]).await;
    let (world, app) = (&broken.world, &broken.process.app);
    world.broker.nack_next(1);
    broken.replay(keys(&["e-2"])).await.unwrap();
    assert_eq!(world.letter(QUEUE, "e-2").await.status, DeadLetterStatus::Replaying);
    let dry = DiscardLetters { dry_run: true, ..discard(all_letters()) };
    let dry = discard_dead_letters(&app.outbox, &acting(&operator()), dry).await.unwrap();
    assert_eq!((dry.matched, dry.discarded, world.audit().await.len()), (3, 0, 1));
    let discarded =
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(all_letters())).await.unwrap();
    assert_eq!((discarded.matched, discarded.discarded, discarded.more), (3, 3, false));
    assert!(dry.refused.is_empty() && discarded.refused.is_empty());
    assert_eq!(world.audit().await[1].selection, r#"{"filter":{}}"#);
    assert_eq!(
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(all_letters()))
            .await
            .unwrap()
            .matched,
        0
    );
}

#[tokio::test(start_paused = true)]
async fn other_tenants_letters_are_not_there_and_users_discard_nothing() {
    let broken = broken(&[("e-1", 7)]).await;
    let app = &broken.process.app;
    let named =
        discard_dead_letters(&app.outbox, &acting(&elsewhere()), discard(keys(&["e-1"]))).await.unwrap();
    assert_eq!((named.matched, named.not_found.len()), (0, 1));
    assert_eq!(
        discard_dead_letters(&app.outbox, &acting(&elsewhere()), discard(all_letters()))
            .await
            .unwrap()
            .matched,
        0
    );
    assert_eq!(
        discard_dead_letters(&app.outbox, &acting(&platform()), discard(all_letters()))
            .await
            .unwrap()
            .discarded,
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_discard_whose_commit_goes_wrong_happens_once_and_is_recorded_once() {
    for faults in FAULTS {
        let broken = broken(&[("e-1", 7), ("e-2", 8), ("e-3", 9)]).await;
        let (world, process) = replaying(&broken, &["e-2"], Fate::Lost).await;
        replaying(&broken, &["e-3"], Fate::AnswerLost).await;
        let next = successor(&broken).await;
        pass(millis(100)).await;
        next.kill().await;
        assert_eq!(world.log_status(NAME, "e-3").await, Some(ConsumeStatus::Success));
        process.faults.next_commits(faults.iter().copied());
        let discarded =
            discard_dead_letters(&process.app.outbox, &acting(&operator()), discard(all_letters()))
                .await
                .unwrap();
        assert_eq!(discarded.discarded, 2, "{faults:?}");
        assert_eq!(whys_of(&discarded.refused), [("e-3", "it was applied")], "{faults:?}");
        let audit = world.audit().await;
        let discards: Vec<u64> = audit
            .iter()
            .filter(|entry| entry.action == "dead-letters.discard")
            .map(|entry| entry.changed)
            .collect();
        assert_eq!(discards, [3], "{faults:?}");
        for (id, letter, log) in [
            ("e-1", DeadLetterStatus::Discarded, ConsumeStatus::Dead),
            ("e-2", DeadLetterStatus::Discarded, ConsumeStatus::Dead),
            ("e-3", DeadLetterStatus::Replayed, ConsumeStatus::Success),
        ] {
            assert_eq!(world.letter(QUEUE, id).await.status, letter, "{faults:?} {id}");
            assert_eq!(world.log_status(NAME, id).await, Some(log), "{faults:?} {id}");
        }
    }
}

/// Replays these letters on a way to the broker that loses the confirm, and maybe the messages.
async fn replaying<'a>(broken: &'a Broken, names: &[&str], fate: Fate) -> (&'a World, Process) {
    let (process, next) = replayer(broken);
    broken.process.kill().await;
    *next.lock().unwrap() = Some(fate);
    let command = ReplayLetters { letters: keys(names), dry_run: false, reason: None };
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    assert_eq!((replayed.replayed, replayed.refused.len()), (0, names.len()));
    for name in names {
        assert_eq!(broken.world.letter(QUEUE, name).await.status, DeadLetterStatus::Replaying);
        assert_eq!(broken.world.log_status(NAME, name).await, Some(ConsumeStatus::Failed));
    }
    (&broken.world, process)
}

#[tokio::test(start_paused = true)]
async fn what_is_discarded_while_it_is_replayed_takes_no_effect_and_holds_no_later_event() {
    for fate in [Fate::Lost, Fate::AnswerLost] {
        let broken = broken(&[("e-1", 7)]).await;
        let (world, process) = replaying(&broken, &["e-1"], fate).await;
        let discarded =
            discard_dead_letters(&process.app.outbox, &acting(&operator()), discard(keys(&["e-1"])))
                .await
                .unwrap();
        let expected = Discarded { matched: 1, discarded: 1, ..Discarded::default() };
        assert_eq!(discarded, expected);
        let letter = world.letter(QUEUE, "e-1").await;
        let next = successor(&broken).await;
        world.arrived(&next, "e-2", 7, 2).await;
        pass(secs(20)).await;
        assert_eq!(world.effects(7).await, ["e-2"]);
        let record = world.log(NAME, "e-1").await.unwrap();
        assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 0));
        assert_eq!(record.error_message.as_deref(), Some("消息消费失败: no such paper"));
        assert_eq!(world.letter(QUEUE, "e-1").await, letter);
        assert_eq!(letter.status, DeadLetterStatus::Discarded);
        assert!(world.is_drained(QUEUE).await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_meanwhile_is_closed_as_replayed_and_the_answer_says_so() {
    let broken = broken(&[("e-1", 7)]).await;
    let (world, process) = replaying(&broken, &["e-1"], Fate::AnswerLost).await;
    successor(&broken).await;
    pass(secs(1)).await;
    assert_eq!(world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    let dry = DiscardLetters { dry_run: true, ..discard(all_letters()) };
    let dry = discard_dead_letters(&process.app.outbox, &acting(&operator()), dry).await.unwrap();
    let discarded = discard_dead_letters(&process.app.outbox, &acting(&operator()), discard(all_letters()))
        .await
        .unwrap();
    for answer in [&dry, &discarded] {
        assert_eq!((answer.matched, answer.discarded), (1, 0));
        assert_eq!(whys_of(&answer.refused), [("e-1", "it was applied")]);
    }
    let letter = world.letter(QUEUE, "e-1").await;
    assert_eq!((letter.status, letter.note), (DeadLetterStatus::Replayed, None));
    assert_eq!(world.audit().await.last().map(|entry| entry.changed), Some(1), "it was closed");
    let again = discard_dead_letters(&process.app.outbox, &acting(&operator()), discard(keys(&["e-1"])))
        .await
        .unwrap();
    assert_eq!(whys_of(&again.refused), [("e-1", "it was replayed already")]);
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_being_applied_is_not_discarded_until_its_attempt_has_ended() {
    let hangs_now = Arc::new(AtomicBool::new(false));
    let hangs = Arc::clone(&hangs_now);
    let script = move |_: &[String], _| if hangs.load(Ordering::SeqCst) { Act::Hang } else { Act::GiveUp };
    let (world, process, handler) = consuming(script).await;
    let process = with_scripted(process, &handler);
    let app = &process.app;
    world.arrived(&process, "e-1", 7, 1).await;
    pass(millis(700)).await;
    hangs_now.store(true, Ordering::SeqCst);
    world.broker.nack_next(1);
    let replay = ReplayLetters { letters: keys(&["e-1"]), dry_run: false, reason: None };
    let replayed = replay_dead_letters(&app.outbox, &acting(&operator()), replay).await.unwrap();
    assert_eq!(replayed.refused.len(), 1, "{replayed:?}");
    let is = async |status| world.log_status(NAME, "e-1").await == Some(status);
    eventually(secs(12), async || is(ConsumeStatus::Processing).await).await;
    let refused =
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(all_letters())).await.unwrap();
    assert_eq!((refused.matched, refused.discarded), (1, 0));
    assert_eq!(whys_of(&refused.refused), [("e-1", "it is being applied")]);
    assert_eq!(world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    assert_eq!(world.audit().await.len(), 1, "the replay's");
    eventually(secs(12), async || is(ConsumeStatus::Failed).await).await;
    let calls = handler.calls().len();
    assert_eq!(
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(all_letters()))
            .await
            .unwrap()
            .discarded,
        1
    );
    pass(secs(60)).await;
    assert_eq!(handler.calls().len(), calls, "it is not tried again");
    assert!(is(ConsumeStatus::Dead).await);
    assert_eq!(world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Discarded);
}

#[tokio::test(start_paused = true)]
async fn letters_of_two_tenants_are_in_the_audit_log_of_each() {
    let broken = broken(&[("e-1", 7), ("e-2", 8)]).await;
    let (world, process) = (&broken.world, &broken.process);
    world.happened_in(process, tenant(2), "f-1", 9).await;
    world.deliver(QUEUE, "f-1").await;
    pass(millis(700)).await;
    world.broker.nack_next(3);
    let replay = ReplayLetters { letters: all_letters(), dry_run: false, reason: None };
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&command_line()), replay).await.unwrap();
    assert_eq!((replayed.matched, replayed.refused.len()), (3, 3));
    let discarded =
        discard_dead_letters(&process.app.outbox, &acting(&command_line()), discard(all_letters()))
            .await
            .unwrap();
    assert_eq!((discarded.matched, discarded.discarded), (3, 3));
    for (context, changed) in [(operator(), 2), (elsewhere(), 1)] {
        let log = audit_log(
            &process.app.outbox,
            &acting(&context),
            AuditFilter { tenant: None, changes: true },
            None,
            10,
        )
        .await
        .unwrap()
        .items;
        let told: Vec<(&str, u64, TenantId)> = log
            .iter()
            .map(|entry| (entry.effect.action.as_str(), entry.effect.changed, entry.effect.tenant))
            .collect();
        let (discard, replay) = ("dead-letters.discard", "dead-letters.replay");
        assert_eq!(told, [(discard, changed, context.tenant), (replay, changed, context.tenant)]);
        assert!(log.iter().all(|entry| entry.effect.actor == "command-line:root"));
        assert_eq!(log[0].effect.selection, r#"{"filter":{}}"#, "whose other rows it moved is not told");
    }
}

/// A replay revives the event in a unit that the discard waits for.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_replayed_while_its_letter_is_being_discarded_takes_no_effect() {
    let broken = broken(&[("e-1", 7)]).await;
    broken.process.kill().await;
    let (world, process) = (&broken.world, with_scripted(broken.world.process(), &broken.handler));
    let revived = next_record(world, "e-1", ConsumeStatus::Failed).await;
    let letter = world.letter(QUEUE, "e-1").await;
    let mut replaying = world.store.begin().await.unwrap();
    let decision = Decision {
        queue: letter.queue,
        key: letter.key,
        from: vec![DeadLetterStatus::Open],
        to: DeadLetterStatus::Replaying,
        note: None,
        at: world.now(),
    };
    assert_eq!(replaying.outbox().decide(&decision).await.unwrap(), Changed::One);
    replaying.outbox().record(&[revived]).await.unwrap();
    let operator = acting(&operator());
    let discarding = discard_dead_letters(&process.app.outbox, &operator, discard(keys(&["e-1"])));
    let replayed = async {
        pass(millis(10)).await;
        replaying.commit().await.unwrap();
    };
    let (discarded, ()) = tokio::join!(discarding, replayed);
    assert_eq!(discarded.unwrap().discarded, 1);
    assert_eq!(world.letter(QUEUE, "e-1").await.status, DeadLetterStatus::Discarded);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}
