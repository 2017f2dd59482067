//! Dead letters given up.

use handover_application::ports::*;
use handover_application::use_cases::operations::*;

use crate::broken::broken;
use crate::operators::*;
use crate::scripted::QUEUE;
use crate::support::{by, millis, pass};

fn discard(letters: Letters) -> DiscardLetters {
    DiscardLetters { letters, dry_run: false, reason: reason() }
}

#[tokio::test(start_paused = true)]
async fn a_discarded_letter_keeps_its_place_and_its_reason_and_takes_no_effect() {
    let broken = broken(&[("e-1", 7), ("e-2", 8)]).await;
    let (world, app) = (&broken.world, &broken.process.app);
    let before = world.letter(QUEUE, "e-1").await;
    let discarded = discard_dead_letters(app, &operator(), discard(keys(&["e-1", "no-such"]))).await.unwrap();
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
    let again = discard_dead_letters(app, &operator(), discard(keys(&["e-1"]))).await.unwrap();
    assert_eq!((again.matched, again.discarded), (1, 0), "it was decided before");
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
    let dry = discard_dead_letters(app, &operator(), dry).await.unwrap();
    assert_eq!((dry.matched, dry.discarded, world.audit().await.len()), (3, 0, 1));
    let discarded = discard_dead_letters(app, &operator(), discard(all_letters())).await.unwrap();
    assert_eq!((discarded.matched, discarded.discarded, discarded.more), (3, 3, false));
    assert_eq!(world.audit().await[1].selection, r#"{"filter":{}}"#);
    assert_eq!(discard_dead_letters(app, &operator(), discard(all_letters())).await.unwrap().matched, 0);
}

#[tokio::test(start_paused = true)]
async fn other_tenants_letters_are_not_there_and_users_discard_nothing() {
    let broken = broken(&[("e-1", 7)]).await;
    let app = &broken.process.app;
    is_not_allowed(&discard_dead_letters(app, &by(9), discard(keys(&["e-1"]))).await);
    let named = discard_dead_letters(app, &elsewhere(), discard(keys(&["e-1"]))).await.unwrap();
    assert_eq!((named.matched, named.not_found.len()), (0, 1));
    assert_eq!(discard_dead_letters(app, &elsewhere(), discard(all_letters())).await.unwrap().matched, 0);
    assert_eq!(discard_dead_letters(app, &platform(), discard(all_letters())).await.unwrap().discarded, 1);
}

#[tokio::test(start_paused = true)]
async fn a_discard_whose_commit_goes_wrong_happens_once_and_is_recorded_once() {
    for faults in FAULTS {
        let broken = broken(&[("e-1", 7)]).await;
        pass(millis(100)).await;
        broken.process.faults.next_commits(faults.iter().copied());
        let discarded =
            discard_dead_letters(&broken.process.app, &operator(), discard(keys(&["e-1"]))).await.unwrap();
        assert_eq!(discarded.discarded, 1, "{faults:?}");
        assert_eq!(broken.world.audit().await.len(), 1, "{faults:?}");
    }
}
