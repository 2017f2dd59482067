//! Decisions of operators about dead letters.

use handover_outbox::ports::{DeadLetter, DeadLetterStatus, Decision};

use super::dead_letters::{park, parked};
use super::{StoreRig, begin, in_unit};
use crate::samples::{SPECIAL_CHARACTERS, dead_letter, decision, later};
use crate::work::{changes_none, changes_one};

/// Decides about a dead letter of `queue`, whatever its status.
pub(super) async fn decide(rig: &dyn StoreRig, key: &str, to: DeadLetterStatus, note: Option<&str>, at: i64) {
    let decision = Decision {
        from: DeadLetterStatus::ALL.to_vec(),
        note: note.map(str::to_owned),
        at: later(at),
        ..decision("queue", key, to)
    };
    in_unit!(rig, |unit| changes_one(unit.outbox().decide(&decision).await));
}

/// A decision is stored with its time and note, and changes nothing else.
pub async fn a_decision_is_stored_with_its_time_and_note(rig: &dyn StoreRig) {
    let sample = dead_letter("queue", "key");
    park(rig, std::slice::from_ref(&sample)).await;
    for (n, status) in (1..).zip(DeadLetterStatus::ALL) {
        decide(rig, "key", *status, Some(SPECIAL_CHARACTERS), n).await;
        let expected = DeadLetter {
            status: *status,
            decided_at: Some(later(n)),
            note: Some(SPECIAL_CHARACTERS.into()),
            ..sample.clone()
        };
        assert_eq!(parked(rig, "queue", "key").await, Some(expected));
    }
}

/// A decision without a note keeps the previous note.
pub async fn a_decision_without_a_note_keeps_the_previous_note(rig: &dyn StoreRig) {
    park(rig, &[dead_letter("queue", "key")]).await;
    decide(rig, "key", DeadLetterStatus::Replaying, None, 1).await;
    assert_eq!(parked(rig, "queue", "key").await.unwrap().note, None);
    decide(rig, "key", DeadLetterStatus::Open, Some("fixed the cause"), 2).await;
    decide(rig, "key", DeadLetterStatus::Replaying, None, 3).await;
    let seen = parked(rig, "queue", "key").await.unwrap();
    assert_eq!((seen.note.as_deref(), seen.decided_at), (Some("fixed the cause"), Some(later(3))));
}

/// A decision changes nothing if the dead letter does not have an expected status.
pub async fn a_decision_applies_only_in_the_expected_status(rig: &dyn StoreRig) {
    park(rig, &[dead_letter("queue", "key"), dead_letter("other", "key")]).await;
    let from = |from: &[DeadLetterStatus]| Decision {
        from: from.to_vec(),
        note: Some("changed".into()),
        ..decision("queue", "key", DeadLetterStatus::Discarded)
    };
    use DeadLetterStatus::{Discarded, Open, Replayed, Replaying};
    for (status, elsewhere) in [
        (Open, [Replaying, Replayed, Discarded]),
        (Replaying, [Open, Replayed, Discarded]),
        (Replayed, [Open, Replaying, Discarded]),
        (Discarded, [Open, Replaying, Replayed]),
    ] {
        decide(rig, "key", status, None, 1).await;
        let before = parked(rig, "queue", "key").await;
        in_unit!(rig, |unit| {
            changes_none(unit.outbox().decide(&from(&elsewhere)).await);
            changes_none(unit.outbox().decide(&from(&elsewhere[..1])).await);
            changes_none(unit.outbox().decide(&from(&[])).await);
        });
        assert_eq!(parked(rig, "queue", "key").await, before, "{status:?}");
    }
    decide(rig, "key", Open, None, 1).await;
    in_unit!(rig, |unit| changes_one(unit.outbox().decide(&from(&[Replayed, Open, Replaying])).await));
    let other = parked(rig, "other", "key").await.unwrap();
    assert_eq!(
        (other.status, other.decided_at),
        (Open, None),
        "the dead letter of another queue must be unchanged"
    );
}

/// A decision about a missing dead letter changes nothing, even if an existing dead letter differs only in the case of
/// its queue or key.
pub async fn a_decision_about_a_missing_dead_letter_changes_nothing(rig: &dyn StoreRig) {
    park(rig, &[dead_letter("queue", "key")]).await;
    let everywhere = DeadLetterStatus::ALL.to_vec();
    in_unit!(rig, |unit| {
        for (queue, key) in [("queue", "missing"), ("other", "key"), ("Queue", "key"), ("queue", "Key")] {
            let discard = decision(queue, key, DeadLetterStatus::Discarded);
            changes_none(unit.outbox().decide(&Decision { from: everywhere.clone(), ..discard }).await);
        }
    });
    assert_eq!(parked(rig, "queue", "key").await, Some(dead_letter("queue", "key")));
}

/// A decision is visible in its unit of work and is rolled back with it.
pub async fn a_decision_is_part_of_its_unit_of_work(rig: &dyn StoreRig) {
    park(rig, &[dead_letter("queue", "key")]).await;
    let mut unit = begin(rig).await;
    changes_one(unit.outbox().decide(&decision("queue", "key", DeadLetterStatus::Discarded)).await);
    let own = unit.outbox().dead_letter("queue", "key").await.unwrap().unwrap();
    assert_eq!(own.status, DeadLetterStatus::Discarded, "a unit of work must read its own writes");
    drop(unit);
    assert_eq!(parked(rig, "queue", "key").await, Some(dead_letter("queue", "key")));
}
