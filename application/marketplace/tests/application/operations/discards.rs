//! Discarding dead letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_events::{ConsumeStatus, TenantId};
use handover_outbox::operations::*;
use handover_outbox::ports::*;

use super::crashes::{next_process, replaying_process};
use super::failing_consumer::{
    DeadLetterFixture, dead_letter_fixture, next_record, refusals_of, with_scripted,
};
use super::faulty_broker::PublishFault;
use super::operators::*;
use crate::consumers::scripted::{Act, NAME, QUEUE, consuming};
use crate::support::{Process, World, eventually, millis, pass, secs};

fn discard(selection: DeadLetterSelection) -> DiscardDeadLetters {
    DiscardDeadLetters { selection, dry_run: false, reason: reason() }
}

#[tokio::test(start_paused = true)]
async fn discard_keeps_the_row_records_the_reason_and_is_rejected_the_second_time() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8)]).await;
    let world = &fixture.world;
    let app = &fixture.process.app;
    let before = world.dead_letter(QUEUE, "e-1").await;
    let discarded =
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(keys(&["e-1", "no-such"])))
            .await
            .unwrap();
    let expected =
        Discarded { matched: 1, discarded: 1, not_found: vec!["no-such".into()], ..Discarded::default() };
    assert_eq!(discarded, expected);
    let after = world.dead_letter(QUEUE, "e-1").await;
    let expected = DeadLetter {
        status: DeadLetterStatus::Discarded,
        decided_at: Some(world.now()),
        note: Some("the service is available again".into()),
        ..before
    };
    assert_eq!(after, expected);
    assert_eq!(world.dead_letter(QUEUE, "e-2").await.status, DeadLetterStatus::Open);
    let audit = world.audited_changes().await;
    assert_eq!((audit.len(), audit[0].action.as_str(), audit[0].changed), (1, "dead-letters.discard", 1));
    assert_eq!(audit[0].reason.as_deref(), Some("the service is available again"));
    let again =
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(keys(&["e-1"]))).await.unwrap();
    assert_eq!((again.matched, again.discarded), (1, 0), "the dead letter was already discarded");
    assert_eq!(refusals_of(&again.refused), [("e-1", "the dead letter was discarded")]);
    let dry = DiscardDeadLetters { dry_run: true, ..discard(keys(&["e-1", "e-2"])) };
    let dry = discard_dead_letters(&app.outbox, &acting(&operator()), dry).await.unwrap();
    assert_eq!(refusals_of(&dry.refused), [("e-1", "the dead letter was discarded")]);
    assert_eq!(world.audited_changes().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn filter_discards_all_undecided_dead_letters_including_replaying_ones() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8), ("e-3", 9)]).await;
    let world = &fixture.world;
    let app = &fixture.process.app;
    world.broker.nack_next(1);
    fixture.replay(keys(&["e-2"])).await.unwrap();
    assert_eq!(world.dead_letter(QUEUE, "e-2").await.status, DeadLetterStatus::Replaying);
    let dry = DiscardDeadLetters { dry_run: true, ..discard(all_dead_letters()) };
    let dry = discard_dead_letters(&app.outbox, &acting(&operator()), dry).await.unwrap();
    assert_eq!((dry.matched, dry.discarded, world.audited_changes().await.len()), (3, 0, 1));
    let discarded =
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(all_dead_letters())).await.unwrap();
    assert_eq!((discarded.matched, discarded.discarded, discarded.more), (3, 3, false));
    assert!(dry.refused.is_empty() && discarded.refused.is_empty());
    assert_eq!(world.audited_changes().await[1].selection, r#"{"filter":{}}"#);
    assert_eq!(
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(all_dead_letters()))
            .await
            .unwrap()
            .matched,
        0
    );
}

#[tokio::test(start_paused = true)]
async fn dead_letters_of_other_tenants_are_not_discarded() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    let app = &fixture.process.app;
    let named = discard_dead_letters(&app.outbox, &acting(&other_tenant_operator()), discard(keys(&["e-1"])))
        .await
        .unwrap();
    assert_eq!((named.matched, named.not_found.len()), (0, 1));
    assert_eq!(
        discard_dead_letters(&app.outbox, &acting(&other_tenant_operator()), discard(all_dead_letters()))
            .await
            .unwrap()
            .matched,
        0
    );
    assert_eq!(
        discard_dead_letters(&app.outbox, &acting(&platform()), discard(all_dead_letters()))
            .await
            .unwrap()
            .discarded,
        1
    );
}

#[tokio::test(start_paused = true)]
async fn discard_happens_and_is_audited_once_after_a_commit_fault() {
    for faults in FAULTS {
        let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8), ("e-3", 9)]).await;
        let (world, process) = replaying(&fixture, &["e-2"], PublishFault::Lost).await;
        replaying(&fixture, &["e-3"], PublishFault::ReplyLost).await;
        let next = next_process(&fixture).await;
        pass(millis(100)).await;
        next.kill().await;
        assert_eq!(world.log_status(NAME, "e-3").await, Some(ConsumeStatus::Success));
        process.faults.next_commits(faults.iter().copied());
        let discarded =
            discard_dead_letters(&process.app.outbox, &acting(&operator()), discard(all_dead_letters()))
                .await
                .unwrap();
        assert_eq!(discarded.discarded, 2, "{faults:?}");
        assert_eq!(refusals_of(&discarded.refused), [("e-3", "the event was applied")], "{faults:?}");
        let audit = world.audited_changes().await;
        let discards: Vec<u64> = audit
            .iter()
            .filter(|entry| entry.action == "dead-letters.discard")
            .map(|entry| entry.changed)
            .collect();
        assert_eq!(discards, [3], "{faults:?}");
        for (id, dead_letter_status, log_status) in [
            ("e-1", DeadLetterStatus::Discarded, ConsumeStatus::Dead),
            ("e-2", DeadLetterStatus::Discarded, ConsumeStatus::Dead),
            ("e-3", DeadLetterStatus::Replayed, ConsumeStatus::Success),
        ] {
            assert_eq!(world.dead_letter(QUEUE, id).await.status, dead_letter_status, "{faults:?} {id}");
            assert_eq!(world.log_status(NAME, id).await, Some(log_status), "{faults:?} {id}");
        }
    }
}

/// Replays these dead letters with a broker that loses the confirms and, depending on the fault, also the messages.
async fn replaying<'a>(
    fixture: &'a DeadLetterFixture,
    names: &[&str],
    fault: PublishFault,
) -> (&'a World, Process) {
    let (process, next) = replaying_process(fixture);
    fixture.process.kill().await;
    *next.lock().unwrap() = Some(fault);
    let command = ReplayDeadLetters { selection: keys(names), dry_run: false, reason: None };
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&operator()), command).await.unwrap();
    assert_eq!((replayed.replayed, replayed.refused.len()), (0, names.len()));
    for name in names {
        assert_eq!(fixture.world.dead_letter(QUEUE, name).await.status, DeadLetterStatus::Replaying);
        assert_eq!(fixture.world.log_status(NAME, name).await, Some(ConsumeStatus::Failed));
    }
    (&fixture.world, process)
}

#[tokio::test(start_paused = true)]
async fn event_discarded_during_its_replay_takes_no_effect_and_does_not_block_later_events() {
    for fault in [PublishFault::Lost, PublishFault::ReplyLost] {
        let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
        let (world, process) = replaying(&fixture, &["e-1"], fault).await;
        let discarded =
            discard_dead_letters(&process.app.outbox, &acting(&operator()), discard(keys(&["e-1"])))
                .await
                .unwrap();
        let expected = Discarded { matched: 1, discarded: 1, ..Discarded::default() };
        assert_eq!(discarded, expected);
        let dead_letter = world.dead_letter(QUEUE, "e-1").await;
        let next = next_process(&fixture).await;
        world.commit_and_deliver(&next, "e-2", 7, 2).await;
        pass(secs(20)).await;
        assert_eq!(world.effects(7).await, ["e-2"]);
        let record = world.log(NAME, "e-1").await.unwrap();
        assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 0));
        assert_eq!(record.error_message.as_deref(), Some("消息消费失败: request rejected"));
        assert_eq!(world.dead_letter(QUEUE, "e-1").await, dead_letter);
        assert_eq!(dead_letter.status, DeadLetterStatus::Discarded);
        assert!(world.is_drained(QUEUE).await);
    }
}

#[tokio::test(start_paused = true)]
async fn dead_letter_whose_event_was_applied_is_reported_and_closed_as_replayed() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    let (world, process) = replaying(&fixture, &["e-1"], PublishFault::ReplyLost).await;
    next_process(&fixture).await;
    pass(secs(1)).await;
    assert_eq!(world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    let dry = DiscardDeadLetters { dry_run: true, ..discard(all_dead_letters()) };
    let dry = discard_dead_letters(&process.app.outbox, &acting(&operator()), dry).await.unwrap();
    let discarded =
        discard_dead_letters(&process.app.outbox, &acting(&operator()), discard(all_dead_letters()))
            .await
            .unwrap();
    for report in [&dry, &discarded] {
        assert_eq!((report.matched, report.discarded), (1, 0));
        assert_eq!(refusals_of(&report.refused), [("e-1", "the event was applied")]);
    }
    let dead_letter = world.dead_letter(QUEUE, "e-1").await;
    assert_eq!((dead_letter.status, dead_letter.note), (DeadLetterStatus::Replayed, None));
    assert_eq!(
        world.audited_changes().await.last().map(|entry| entry.changed),
        Some(1),
        "the closed dead letter must be counted in the audit log"
    );
    let again = discard_dead_letters(&process.app.outbox, &acting(&operator()), discard(keys(&["e-1"])))
        .await
        .unwrap();
    assert_eq!(refusals_of(&again.refused), [("e-1", "the dead letter was already replayed")]);
    assert_eq!(world.effects(7).await, ["e-1"]);
}

#[tokio::test(start_paused = true)]
async fn event_in_progress_is_not_discarded_until_its_attempt_ends() {
    let hangs_now = Arc::new(AtomicBool::new(false));
    let hangs = Arc::clone(&hangs_now);
    let script =
        move |_: &[String], _| if hangs.load(Ordering::SeqCst) { Act::Hang } else { Act::FailPermanently };
    let (world, process, handler) = consuming(script).await;
    let process = with_scripted(process, &handler);
    let app = &process.app;
    world.commit_and_deliver(&process, "e-1", 7, 1).await;
    pass(millis(700)).await;
    hangs_now.store(true, Ordering::SeqCst);
    world.broker.nack_next(1);
    let replay = ReplayDeadLetters { selection: keys(&["e-1"]), dry_run: false, reason: None };
    let replayed = replay_dead_letters(&app.outbox, &acting(&operator()), replay).await.unwrap();
    assert_eq!(replayed.refused.len(), 1, "{replayed:?}");
    let is = async |status| world.log_status(NAME, "e-1").await == Some(status);
    eventually(secs(12), async || is(ConsumeStatus::Processing).await).await;
    let refused =
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(all_dead_letters())).await.unwrap();
    assert_eq!((refused.matched, refused.discarded), (1, 0));
    assert_eq!(refusals_of(&refused.refused), [("e-1", "the event is being applied")]);
    assert_eq!(world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Replaying);
    assert_eq!(world.audited_changes().await.len(), 1, "only the replay may be in the audit log");
    eventually(secs(12), async || is(ConsumeStatus::Failed).await).await;
    let calls = handler.calls().len();
    assert_eq!(
        discard_dead_letters(&app.outbox, &acting(&operator()), discard(all_dead_letters()))
            .await
            .unwrap()
            .discarded,
        1
    );
    pass(secs(60)).await;
    assert_eq!(handler.calls().len(), calls, "the discarded event must not be retried");
    assert!(is(ConsumeStatus::Dead).await);
    assert_eq!(world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Discarded);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_of_two_tenants_are_audited_for_each_tenant() {
    let fixture = dead_letter_fixture(&[("e-1", 7), ("e-2", 8)]).await;
    let world = &fixture.world;
    let process = &fixture.process;
    world.commit_event_in(process, tenant(2), "f-1", 9).await;
    world.deliver(QUEUE, "f-1").await;
    pass(millis(700)).await;
    world.broker.nack_next(3);
    let replay = ReplayDeadLetters { selection: all_dead_letters(), dry_run: false, reason: None };
    let replayed = replay_dead_letters(&process.app.outbox, &acting(&command_line()), replay).await.unwrap();
    assert_eq!((replayed.matched, replayed.refused.len()), (3, 3));
    let discarded =
        discard_dead_letters(&process.app.outbox, &acting(&command_line()), discard(all_dead_letters()))
            .await
            .unwrap();
    assert_eq!((discarded.matched, discarded.discarded), (3, 3));
    for (context, changed) in [(operator(), 2), (other_tenant_operator(), 1)] {
        let log = audit_log(
            &process.app.outbox,
            &acting(&context),
            AuditFilter { tenant: None, changes: true, ..AuditFilter::default() },
            None,
            10,
        )
        .await
        .unwrap()
        .items;
        let entries: Vec<(&str, u64, TenantId)> = log
            .iter()
            .map(|entry| (entry.effect.action.as_str(), entry.effect.changed, entry.effect.tenant))
            .collect();
        let discard = "dead-letters.discard";
        let replay = "dead-letters.replay";
        assert_eq!(entries, [(discard, changed, context.tenant), (replay, changed, context.tenant)]);
        assert!(log.iter().all(|entry| entry.effect.actor == "command-line:root"));
        assert_eq!(log[0].effect.selection, r#"{"filter":{}}"#, "audit entry must not reveal other tenants");
    }
}

/// A concurrent replay resets the event to FAILED in a unit of work that the discard waits for.
#[tokio::test(start_paused = true)]
async fn event_replayed_during_its_discard_takes_no_effect() {
    let fixture = dead_letter_fixture(&[("e-1", 7)]).await;
    fixture.process.kill().await;
    let world = &fixture.world;
    let process = with_scripted(fixture.world.process(), &fixture.handler);
    let failed = next_record(world, "e-1", ConsumeStatus::Failed).await;
    let dead_letter = world.dead_letter(QUEUE, "e-1").await;
    let mut replaying = world.store.begin().await.unwrap();
    let decision = Decision {
        queue: dead_letter.queue,
        key: dead_letter.key,
        from: vec![DeadLetterStatus::Open],
        to: DeadLetterStatus::Replaying,
        note: None,
        at: world.now(),
    };
    assert_eq!(replaying.outbox().decide(&decision).await.unwrap(), Changed::One);
    replaying.outbox().record(&[failed]).await.unwrap();
    let operator = acting(&operator());
    let discarding = discard_dead_letters(&process.app.outbox, &operator, discard(keys(&["e-1"])));
    let replayed = async {
        pass(millis(10)).await;
        replaying.commit().await.unwrap();
    };
    let (discarded, ()) = tokio::join!(discarding, replayed);
    assert_eq!(discarded.unwrap().discarded, 1);
    assert_eq!(world.dead_letter(QUEUE, "e-1").await.status, DeadLetterStatus::Discarded);
    assert_eq!(world.log_status(NAME, "e-1").await, Some(ConsumeStatus::Dead));
}
