//! Dead letters.

use handover_application::ports::{DeadLetter, DeadLetterStatus};

use super::{StoreRig, in_unit, view};
use crate::samples::{AWKWARD, dead_letter, later, tenant};

async fn park(rig: &dyn StoreRig, letters: &[DeadLetter]) {
    in_unit!(rig, |unit| unit.park(letters).await.expect("dead letters are parked"));
}

async fn parked(rig: &dyn StoreRig, queue: &str, key: &str) -> Option<DeadLetter> {
    view(rig).await.dead_letter(queue, key).await.expect("a dead letter can be read")
}

async fn keys(rig: &dyn StoreRig, queue: Option<&str>, limit: u32) -> Vec<String> {
    let letters = view(rig).await.dead_letters(queue, limit).await.expect("dead letters can be read");
    letters.into_iter().map(|letter| letter.key).collect()
}

/// A dead letter comes back as it was parked, also one of which little is known.
pub async fn a_dead_letter_is_read_back_as_it_was_parked(rig: &dyn StoreRig) {
    let full = DeadLetter {
        tenant: tenant(2),
        body: format!("{{\"title\":\"{AWKWARD}\"}}\r\n{}", "长".repeat(20_000)),
        reason: format!("消息消费失败: {AWKWARD}"),
        ..dead_letter("order.fulfillment.queue", "e-1")
    };
    let bare = DeadLetter {
        event_type: None,
        trace_id: None,
        body: String::new(),
        reason: "no json".into(),
        ..dead_letter("order.fulfillment.queue", &"f".repeat(64))
    };
    park(rig, &[full.clone(), bare.clone()]).await;
    for letter in [full, bare] {
        assert_eq!(parked(rig, &letter.queue, &letter.key).await.as_ref(), Some(&letter));
    }
    assert_eq!(parked(rig, "order.fulfillment.queue", "missing").await, None);
    assert_eq!(parked(rig, "another.queue", "e-1").await, None);
}

/// Parking what is already open changes nothing: the first reason stays, and there is one row.
pub async fn parking_an_open_dead_letter_again_changes_nothing(rig: &dyn StoreRig) {
    let first = dead_letter("queue", "key");
    park(rig, std::slice::from_ref(&first)).await;
    let again =
        DeadLetter { reason: "later".into(), died_at: later(9), body: "other".into(), ..first.clone() };
    park(rig, &[again.clone(), again]).await;
    assert_eq!(parked(rig, "queue", "key").await, Some(first));
    assert_eq!(keys(rig, None, 10).await, ["key"]);
}

/// Parking in the same unit twice is once.
pub async fn parking_a_dead_letter_twice_in_a_unit_is_once(rig: &dyn StoreRig) {
    let first = dead_letter("queue", "key");
    in_unit!(rig, |unit| {
        unit.park(&[first.clone(), DeadLetter { reason: "twin".into(), ..first.clone() }]).await.unwrap();
        unit.park(&[DeadLetter { reason: "later".into(), ..first.clone() }]).await.unwrap();
        unit.park(&[]).await.unwrap();
    });
    assert_eq!(parked(rig, "queue", "key").await, Some(first));
    assert_eq!(keys(rig, Some("queue"), 10).await, ["key"]);
}

/// One that a person replayed or discarded is opened again when it dies again, with the new reason and time.
pub async fn a_dead_letter_that_was_decided_is_opened_again(rig: &dyn StoreRig) {
    for (key, status) in
        [("replayed", DeadLetterStatus::Replayed), ("discarded", DeadLetterStatus::Discarded)]
    {
        park(rig, &[dead_letter("queue", key)]).await;
        if !rig.decide_dead_letter("queue", key, status).await {
            return;
        }
        assert_eq!(parked(rig, "queue", key).await.map(|letter| letter.status), Some(status));
        park(rig, &[DeadLetter { reason: "again".into(), died_at: later(9), ..dead_letter("queue", key) }])
            .await;
        let seen = parked(rig, "queue", key).await.unwrap();
        assert_eq!(
            (seen.status, seen.reason.as_str(), seen.died_at),
            (DeadLetterStatus::Open, "again", later(9))
        );
    }
    assert_eq!(keys(rig, None, 10).await, ["replayed", "discarded"]);
}

/// They come in the order in which they were first parked, of one queue or of all, no more than asked for.
pub async fn dead_letters_come_in_the_order_in_which_they_were_parked(rig: &dyn StoreRig) {
    park(
        rig,
        &[DeadLetter { died_at: later(50), ..dead_letter("b.queue", "z") }, dead_letter("a.queue", "y")],
    )
    .await;
    park(
        rig,
        &[DeadLetter { died_at: later(-50), ..dead_letter("b.queue", "x") }, dead_letter("b.queue", "w")],
    )
    .await;
    park(rig, &[dead_letter("b.queue", "z")]).await;
    assert_eq!(keys(rig, None, 10).await, ["z", "y", "x", "w"]);
    assert_eq!(keys(rig, None, 2).await, ["z", "y"]);
    assert_eq!(keys(rig, Some("b.queue"), 10).await, ["z", "x", "w"]);
    assert_eq!(keys(rig, Some("b.queue"), 2).await, ["z", "x"]);
    assert_eq!(keys(rig, Some("c.queue"), 10).await, [""; 0]);
}

/// Queue and key together say which, byte by byte.
pub async fn dead_letters_are_told_apart_by_queue_and_key(rig: &dyn StoreRig) {
    let all = [("queue", "key-a"), ("queue", "Key-A"), ("other", "key-a"), ("Queue", "key-a")];
    for (n, (queue, key)) in all.into_iter().enumerate() {
        park(rig, &[DeadLetter { reason: n.to_string(), ..dead_letter(queue, key) }]).await;
    }
    for (n, (queue, key)) in all.into_iter().enumerate() {
        assert_eq!(parked(rig, queue, key).await.map(|letter| letter.reason), Some(n.to_string()));
    }
    assert_eq!(keys(rig, Some("queue"), 10).await, ["key-a", "Key-A"]);
}
