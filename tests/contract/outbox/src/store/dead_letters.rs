//! Dead letters.

use handover_events::TenantId;
use handover_outbox::ports::{
    DeadLetter, DeadLetterFilter, DeadLetterStatus, MAX_DEAD_LETTER_BODY_BYTES, MAX_DEAD_LETTER_REASON_BYTES,
};

use super::decisions::decide;
use super::{StoreRig, in_unit, view};
use crate::samples::{
    BOOK_ADDED, BOOK_LENT, SPECIAL_CHARACTERS, dead_letter, decision, later, start, tenant, untrusted_bodies,
};
use crate::work::changes_one;

pub(super) async fn park(rig: &dyn StoreRig, samples: &[DeadLetter]) {
    in_unit!(rig, |unit| unit.outbox().park(samples).await.expect("cannot park dead letters"));
}

pub(super) async fn parked(rig: &dyn StoreRig, queue: &str, key: &str) -> Option<DeadLetter> {
    view(rig).await.outbox_view().dead_letter(queue, key).await.expect("cannot read a dead letter")
}

/// Keys of a page, and the cursor of the next page.
async fn page(
    rig: &dyn StoreRig,
    filter: &DeadLetterFilter,
    before: Option<i64>,
    limit: u32,
) -> (Vec<String>, Option<i64>) {
    let page = view(rig)
        .await
        .outbox_view()
        .dead_letters_page(filter, before, limit)
        .await
        .expect("cannot read dead letters");
    assert!(page.is_sorted_by(|a, b| a.id > b.id), "{page:?}");
    let next = page.last().map(|row| row.id);
    (page.into_iter().map(|row| row.effect.key).collect(), next)
}

async fn keys(rig: &dyn StoreRig) -> Vec<String> {
    page(rig, &DeadLetterFilter::default(), None, 100).await.0
}

/// A dead letter is read back as it was parked, with and without optional fields.
pub async fn a_dead_letter_is_read_back_as_it_was_parked(rig: &dyn StoreRig) {
    let full = DeadLetter {
        tenant: tenant(2),
        body: format!("{{\"title\":\"{SPECIAL_CHARACTERS}\"}}\r\n{}", "长".repeat(20_000)),
        reason: format!("consuming failed: {SPECIAL_CHARACTERS}"),
        ..dead_letter("book.lending.queue", "e-1")
    };
    let minimal = DeadLetter {
        event_type: None,
        trace_id: None,
        body: String::new(),
        reason: "no json".into(),
        ..dead_letter("book.lending.queue", &"f".repeat(64))
    };
    park(rig, &[full.clone(), minimal.clone()]).await;
    for sample in [full, minimal] {
        assert_eq!(parked(rig, &sample.queue, &sample.key).await.as_ref(), Some(&sample));
    }
    assert_eq!(parked(rig, "book.lending.queue", "missing").await, None);
    assert_eq!(parked(rig, "another.queue", "e-1").await, None);
}

/// Whatever its texts are, a dead letter is parked once and read back in its storable form: body and reason do
/// not exceed their limits, and the reason states the size of a truncated body.
pub async fn dead_letters_with_any_text_are_parked_in_storable_form(rig: &dyn StoreRig) {
    let long = format!("{}\0{}", "é".repeat(200), SPECIAL_CHARACTERS.repeat(2_000));
    let odd = DeadLetter {
        event_type: Some(long.clone()),
        trace_id: Some(long.clone()),
        reason: long.clone(),
        ..dead_letter(&long, "of long texts")
    };
    let bodies = untrusted_bodies();
    let hostile =
        bodies.iter().map(|(name, body)| DeadLetter { body: body.clone(), ..dead_letter("queue", name) });
    let samples: Vec<DeadLetter> = hostile.chain([odd]).collect();
    park(rig, &samples).await;
    park(rig, &samples).await;
    for sample in &samples {
        let kept = sample.storable();
        assert_eq!(parked(rig, &kept.queue, &kept.key).await.as_ref(), Some(&kept), "{}", sample.key);
        assert_eq!(kept.storable(), kept, "{}", sample.key);
        assert!(
            kept.body.len() <= MAX_DEAD_LETTER_BODY_BYTES
                && kept.reason.len() <= MAX_DEAD_LETTER_REASON_BYTES
        );
        let is_whole = kept.body == sample.body.replace('\0', "\\x00");
        let account = format!("the message has {} bytes", sample.body.len());
        assert_eq!(kept.reason.contains(&account), !is_whole, "{}: {}", sample.key, kept.reason);
    }
    // This dead letter is parked only once and is not compared with `storable()`: each of these calls computes the
    // SHA-256 of its 10 MB body, which takes most of the time of this rule.
    let large = DeadLetter { body: "x".repeat(10_000_000), ..dead_letter("queue", "10 MB") };
    park(rig, std::slice::from_ref(&large)).await;
    let kept = parked(rig, "queue", "10 MB").await.expect("the dead letter is missing");
    assert_eq!(kept.body.len(), MAX_DEAD_LETTER_BODY_BYTES);
    assert!(kept.reason.contains("the message has 10000000 bytes"), "{}", kept.reason);
    assert_eq!(page(rig, &DeadLetterFilter::default(), None, 100).await.0.len(), samples.len() + 1);
}

/// Parking an open dead letter again changes nothing: the first reason is kept, and there is one row.
pub async fn parking_an_open_dead_letter_again_changes_nothing(rig: &dyn StoreRig) {
    let first = dead_letter("queue", "key");
    park(rig, std::slice::from_ref(&first)).await;
    let again =
        DeadLetter { reason: "later".into(), died_at: later(9), body: "other".into(), ..first.clone() };
    park(rig, &[again.clone(), again]).await;
    assert_eq!(parked(rig, "queue", "key").await, Some(first));
    assert_eq!(keys(rig).await, ["key"]);
}

/// Parking a dead letter twice in one unit of work stores one row.
pub async fn parking_a_dead_letter_twice_in_a_unit_of_work_stores_one_row(rig: &dyn StoreRig) {
    let first = dead_letter("queue", "key");
    in_unit!(rig, |unit| {
        unit.outbox()
            .park(&[first.clone(), DeadLetter { reason: "twin".into(), ..first.clone() }])
            .await
            .unwrap();
        unit.outbox().park(&[DeadLetter { reason: "later".into(), ..first.clone() }]).await.unwrap();
        unit.outbox().park(&[]).await.unwrap();
    });
    assert_eq!(parked(rig, "queue", "key").await, Some(first));
    assert_eq!(keys(rig).await, ["key"]);
}

/// A replayed or discarded dead letter that is parked again is reopened with the new reason and time; its position
/// and the earlier decision are kept.
pub async fn a_decided_dead_letter_is_reopened(rig: &dyn StoreRig) {
    for (key, status) in
        [("replayed", DeadLetterStatus::Replayed), ("discarded", DeadLetterStatus::Discarded)]
    {
        park(rig, &[dead_letter("queue", key)]).await;
        opens_again_after(rig, key, status).await;
    }
    assert_eq!(keys(rig).await, ["discarded", "replayed"]);
}

/// Parking a dead letter that is being replayed reopens it: its message may be dead-lettered again before the confirm
/// of the replay is recorded.
pub async fn a_dead_letter_that_is_being_replayed_is_reopened(rig: &dyn StoreRig) {
    park(rig, &[dead_letter("queue", "first"), dead_letter("queue", "second")]).await;
    opens_again_after(rig, "first", DeadLetterStatus::Replaying).await;
    assert_eq!(keys(rig).await, ["second", "first"]);
}

async fn opens_again_after(rig: &dyn StoreRig, key: &str, status: DeadLetterStatus) {
    decide(rig, key, status, Some("checked"), 5).await;
    let decided = parked(rig, "queue", key).await.unwrap();
    let again = DeadLetter {
        reason: "again".into(),
        died_at: later(9),
        body: "other".into(),
        event_type: None,
        ..dead_letter("queue", key)
    };
    park(rig, &[again]).await;
    let expected =
        DeadLetter { status: DeadLetterStatus::Open, reason: "again".into(), died_at: later(9), ..decided };
    assert_eq!(parked(rig, "queue", key).await.as_ref(), Some(&expected), "after {status:?}");
    assert_eq!((expected.decided_at, expected.note.as_deref()), (Some(later(5)), Some("checked")));
}

/// Pages begin with the dead letter that was first parked last, whatever the values of `died_at`; each page starts
/// below the cursor.
pub async fn pages_of_dead_letters_are_ordered_last_parked_first(rig: &dyn StoreRig) {
    let all = [("a", 9), ("b", -50), ("c", 50), ("d", 1), ("e", 0)];
    for (key, at) in all {
        park(rig, &[DeadLetter { died_at: later(at), ..dead_letter("queue", key) }]).await;
    }
    park(rig, &[dead_letter("queue", "a")]).await;
    decide(rig, "b", DeadLetterStatus::Discarded, None, 5).await;
    let any = DeadLetterFilter::default();
    let (first, next) = page(rig, &any, None, 2).await;
    assert_eq!(first, ["e", "d"]);
    let newer = DeadLetterFilter { above_id: next, ..any.clone() };
    let expected = "only dead letters with ids above the bound may be returned";
    assert_eq!(page(rig, &newer, None, 9).await.0, ["e"], "{expected}");
    let (second, next) = page(rig, &any, next, 2).await;
    assert_eq!(second, ["c", "b"]);
    let (last, next) = page(rig, &any, next, 2).await;
    assert_eq!(last, ["a"]);
    assert_eq!(page(rig, &any, next, 2).await, (Vec::new(), None));
}

/// With `after`, pages are ordered by id, smallest first; each page starts above the last id of the previous page, with the same
/// filter.
pub async fn dead_letters_after_a_cursor_are_ordered_first_parked_first(rig: &dyn StoreRig) {
    for key in ["a", "b", "c", "d", "e"] {
        // The times do not affect the order.
        let died_at = later(if key == "a" { 9 } else { 1 });
        park(rig, &[DeadLetter { died_at, ..dead_letter("queue", key) }]).await;
    }
    park(rig, &[DeadLetter { tenant: tenant(2), ..dead_letter("other", "f") }]).await;
    for key in ["b", "d"] {
        decide(rig, key, DeadLetterStatus::Discarded, None, 5).await;
    }
    let open = DeadLetterFilter { status: Some(DeadLetterStatus::Open), ..DeadLetterFilter::default() };
    let of_tenant = DeadLetterFilter { tenant: Some(TenantId::DEFAULT), ..open.clone() };
    let of_queue = DeadLetterFilter { queue: Some("other".into()), ..open.clone() };
    let all = DeadLetterFilter::default();
    for (filter, expected) in [(all, "abcdef"), (open, "acef"), (of_tenant, "ace"), (of_queue, "f")] {
        let mut seen = String::new();
        let mut after = None;
        loop {
            let page = view(rig).await.outbox_view().dead_letters_after(&filter, after, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 2, "{page:?}");
            after = Some(last.id);
            seen.extend(page.iter().map(|row| row.effect.key.as_str()));
        }
        assert_eq!(seen, expected, "{filter:?}");
    }
    for status in [None, Some(DeadLetterStatus::Open)] {
        let all = DeadLetterFilter { status, ..DeadLetterFilter::default() };
        let first = view(rig).await.outbox_view().dead_letters_after(&all, None, 1).await.unwrap().remove(0);
        let above = DeadLetterFilter { above_id: Some(first.id), ..all };
        let next = view(rig).await.outbox_view().dead_letters_after(&above, None, 1).await.unwrap().remove(0);
        assert_eq!(next.effect.key, if status.is_some() { "c" } else { "b" }, "only ids above the bound");
    }
}

/// Each field of a filter narrows the page; several fields are combined with AND.
pub async fn every_part_of_a_filter_narrows_the_page_of_dead_letters(rig: &dyn StoreRig) {
    let samples = [
        dead_letter("queue", "plain"),
        dead_letter("other", "elsewhere"),
        DeadLetter { tenant: tenant(2), ..dead_letter("queue", "foreign") },
        DeadLetter { event_type: Some(BOOK_ADDED.into()), ..dead_letter("queue", "added") },
        DeadLetter { event_type: None, ..dead_letter("queue", "stray") },
        dead_letter("queue", "discarded"),
    ];
    park(rig, &samples).await;
    decide(rig, "discarded", DeadLetterStatus::Discarded, None, 5).await;
    let any = DeadLetterFilter::default();
    let everything = &["discarded", "stray", "added", "foreign", "elsewhere", "plain"];
    let cases: [(DeadLetterFilter, &[&str]); 14] = [
        (DeadLetterFilter { key: Some("stray".into()), ..any.clone() }, &["stray"]),
        (DeadLetterFilter { key: Some("Stray".into()), ..any.clone() }, &[]),
        (DeadLetterFilter { from: Some(start()), ..any.clone() }, everything),
        (DeadLetterFilter { from: Some(later(1)), ..any.clone() }, &[]),
        (DeadLetterFilter { to: Some(start()), ..any.clone() }, &[]),
        (DeadLetterFilter { to: Some(later(1)), ..any.clone() }, everything),
        (DeadLetterFilter { tenant: Some(tenant(2)), ..any.clone() }, &["foreign"]),
        (DeadLetterFilter { tenant: Some(tenant(3)), ..any.clone() }, &[]),
        (DeadLetterFilter { queue: Some("other".into()), ..any.clone() }, &["elsewhere"]),
        (DeadLetterFilter { queue: Some("Queue".into()), ..any.clone() }, &[]),
        (DeadLetterFilter { event_type: Some(BOOK_ADDED.into()), ..any.clone() }, &["added"]),
        (DeadLetterFilter { status: Some(DeadLetterStatus::Discarded), ..any.clone() }, &["discarded"]),
        (DeadLetterFilter { status: Some(DeadLetterStatus::Replaying), ..any }, &[]),
        (
            DeadLetterFilter {
                tenant: Some(TenantId::DEFAULT),
                key: Some("plain".into()),
                queue: Some("queue".into()),
                event_type: Some(BOOK_LENT.into()),
                status: Some(DeadLetterStatus::Open),
                from: Some(start()),
                to: Some(later(1)),
                above_id: Some(0),
            },
            &["plain"],
        ),
    ];
    for (filter, expected) in cases {
        assert_eq!(page(rig, &filter, None, 100).await.0, expected, "{filter:?}");
    }
}

async fn under(rig: &dyn StoreRig, keys: &[&str]) -> Vec<String> {
    let keys: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
    let samples =
        view(rig).await.outbox_view().dead_letters_of(&keys).await.expect("cannot read dead letters");
    samples.into_iter().map(|sample| format!("{} {}", sample.queue, sample.key)).collect()
}

/// Dead letters of any queue are found by key, in the order in which they were first parked.
pub async fn dead_letters_found_by_key_are_ordered_by_first_parking(rig: &dyn StoreRig) {
    park(rig, &[dead_letter("b", "z"), dead_letter("a", "y"), dead_letter("a", "z")]).await;
    park(rig, &[dead_letter("c", "Z"), dead_letter("b", "y"), dead_letter("b", "z")]).await;
    in_unit!(rig, |unit| {
        let discard = decision("b", "z", DeadLetterStatus::Discarded);
        changes_one(unit.outbox().decide(&discard).await);
    });
    park(rig, &[dead_letter("b", "z")]).await;
    assert_eq!(under(rig, &["y", "missing", "z", "y"]).await, ["b z", "a y", "a z", "b y"]);
    assert_eq!(under(rig, &["Z"]).await, ["c Z"]);
    assert_eq!(under(rig, &[]).await, [""; 0]);
    let many: Vec<_> = (0..300).map(|n| format!("k{n:03}")).collect();
    park(rig, &many.iter().map(|key| dead_letter("many", key)).collect::<Vec<_>>()).await;
    let requested: Vec<_> = many.iter().rev().chain(&many[297..]).map(String::as_str).collect();
    let expected: Vec<_> = many.iter().map(|key| format!("many {key}")).collect();
    assert_eq!(under(rig, &requested).await, expected);
}

/// Dead letters are identified by queue and key, compared byte by byte.
pub async fn dead_letters_are_identified_by_queue_and_key(rig: &dyn StoreRig) {
    let all = [("queue", "key-a"), ("queue", "Key-A"), ("other", "key-a"), ("Queue", "key-a")];
    for (n, (queue, key)) in all.into_iter().enumerate() {
        park(rig, &[DeadLetter { reason: n.to_string(), ..dead_letter(queue, key) }]).await;
    }
    for (n, (queue, key)) in all.into_iter().enumerate() {
        assert_eq!(parked(rig, queue, key).await.map(|sample| sample.reason), Some(n.to_string()));
    }
    let of_queue = DeadLetterFilter { queue: Some("queue".into()), ..DeadLetterFilter::default() };
    assert_eq!(page(rig, &of_queue, None, 10).await.0, ["Key-A", "key-a"]);
}

/// Undecided dead letters (open or being replayed) are counted by queue, for one tenant or all.
pub async fn undecided_dead_letters_are_open_or_being_replayed(rig: &dyn StoreRig) {
    let undecided = async |of: Option<i64>| {
        view(rig)
            .await
            .outbox_view()
            .undecided_dead_letters(of.map(tenant))
            .await
            .expect("cannot count dead letters")
    };
    assert_eq!(undecided(None).await, []);
    let foreign = DeadLetter { tenant: tenant(2), ..dead_letter("queue", "foreign") };
    let own = ["open", "replaying", "replayed", "discarded"].map(|key| dead_letter("queue", key));
    park(rig, &own).await;
    park(rig, &[foreign, dead_letter("another", "open")]).await;
    decide(rig, "replaying", DeadLetterStatus::Replaying, None, 5).await;
    decide(rig, "replayed", DeadLetterStatus::Replayed, None, 5).await;
    decide(rig, "discarded", DeadLetterStatus::Discarded, None, 5).await;
    let of = |numbers: &[(&str, u64)]| -> Vec<(String, u64)> {
        numbers.iter().map(|(queue, count)| ((*queue).to_owned(), *count)).collect()
    };
    assert_eq!(undecided(Some(1)).await, of(&[("another", 1), ("queue", 2)]));
    assert_eq!((undecided(Some(2)).await, undecided(Some(3)).await), (of(&[("queue", 1)]), Vec::new()));
    assert_eq!(undecided(None).await, of(&[("another", 1), ("queue", 3)]));
}
