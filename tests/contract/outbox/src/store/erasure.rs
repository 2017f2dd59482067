//! Erasure of texts.

use handover_events::{ConsumeStatus, OutboxStatus};
use handover_outbox::MASK;
use handover_outbox::ports::{
    AfterAttempt, AuditEntry, AuditFilter, Consumption, DeadLetter, DeadLetterStatus, DeliveryState, Erasure,
    HistoryEntry, MaskedTexts, SettledDelivery, WebhookAttempt,
};

use super::dead_letters::{park, parked};
use super::decisions::decide;
use super::outbox::{append, row};
use super::webhook_claims::claimed;
use super::webhook_deliveries::{only, write};
use super::webhook_endpoints::add;
use super::webhook_settling::settle;
use super::{StoreRig, begin, in_unit, view};
use crate::samples::webhooks::{claim, delivery, endpoint, endpoint_key, settled};
use crate::samples::{
    audit_entry, confirmed, consumption, dead_letter, event, event_id, history_entry, later, to_retry,
};

/// The queue of [`decide`].
const QUEUE: &str = "queue";

/// What masks the texts about an event whose only delivery has this id.
fn texts(id: &str, delivery: i64) -> MaskedTexts {
    MaskedTexts {
        event_id: event_id(id),
        payload: "{\"masked\":true}".into(),
        payload_hash: "cd".repeat(32),
        dead_letters: vec![(QUEUE.into(), "{\"body\":true}".into())],
        deliveries: vec![(delivery, "{\"delivery\":true}".into())],
    }
}

fn erasure() -> Erasure {
    Erasure { at: later(9), reason: "ticket 4711".to_owned() }
}

async fn erase(rig: &dyn StoreRig, texts: &[MaskedTexts]) -> u64 {
    in_unit!(rig, |unit| unit.outbox().erase_events(texts, &erasure()).await.expect("texts are masked"))
}

/// An event with a text in every table: publishing failed once, the consumer failed, its dead letter is open, and a delivery
/// to a webhook failed. Returns the id of the delivery.
async fn with_texts(rig: &dyn StoreRig, id: &str) -> i64 {
    let new = event(id, 7, 1);
    append(rig, std::slice::from_ref(&new)).await;
    let failed = Consumption {
        status: ConsumeStatus::Dead,
        error_message: Some("no reader Ann".into()),
        consume_result: Some("Ann".into()),
        ..consumption("loans", &new)
    };
    let waiting = Consumption {
        status: ConsumeStatus::Failed,
        error_message: Some("no reader Bob".into()),
        ..consumption("fines", &new)
    };
    in_unit!(rig, |unit| {
        let outbox = unit.outbox();
        outbox.mark_failed(&[to_retry(id, None)], later(1)).await.unwrap();
        outbox
            .add_history(&[history_entry(id), HistoryEntry { detail: None, ..history_entry(id) }])
            .await
            .unwrap();
        outbox.record(&[failed, waiting]).await.unwrap();
    });
    park(rig, &[DeadLetter { body: "{\"name\":\"Ann\"}".into(), ..dead_letter(QUEUE, id) }]).await;
    add(rig, &[endpoint(1)]).await;
    write(rig, &[delivery(1, id)]).await;
    only(rig, id).await.id
}

async fn details(rig: &dyn StoreRig, id: &str) -> Vec<Option<String>> {
    let history = view(rig).await.outbox_view().history_of(&[event_id(id)]).await.unwrap();
    history.into_iter().map(|entry| entry.detail).collect()
}

/// Settles everything about the event.
async fn settle_all(rig: &dyn StoreRig, id: &str) {
    in_unit!(rig, |unit| unit.outbox().mark_sent(&[&confirmed(id)], later(2)).await.unwrap());
    decide(rig, id, DeadLetterStatus::Discarded, Some("Ann"), 3).await;
    let claimed = claimed(rig, &claim("first", later(3))).await;
    let dead = settled(&claimed[0], AfterAttempt::Dead);
    let attempt = dead.attempt.clone().map(|attempt| WebhookAttempt {
        error: Some("HTTP 500".into()),
        response: Some("no such reader: Ann".into()),
        ..attempt
    });
    assert_eq!(settle(rig, &[SettledDelivery { attempt, ..dead }]).await.len(), 1);
}

/// Every text about a settled event is masked once; ids, states, numbers and times stay.
pub async fn texts_of_settled_events_are_masked_once(rig: &dyn StoreRig) {
    let id = with_texts(rig, "e").await;
    settle_all(rig, "e").await;
    let before = row(rig, "e").await;
    let masked = texts("e", id);
    assert_eq!(erase(rig, std::slice::from_ref(&masked)).await, 6);
    let after = row(rig, "e").await;
    assert_eq!((after.payload.as_str(), after.last_error.as_deref()), ("{\"masked\":true}", Some(MASK)));
    let why = after.erased_reason.as_deref();
    assert_eq!((after.erased_time, why), (Some(erasure().at), Some(erasure().reason.as_str())));
    assert_eq!(after.update_time, before.update_time);
    assert_eq!(details(rig, "e").await, [Some(MASK.to_owned()), None]);
    let records = view(rig).await.outbox_view().consumed_of(&[event_id("e")]).await.unwrap();
    let loans = records.iter().find(|record| record.consumer == "loans").unwrap();
    assert_eq!(
        (loans.record.error_message.as_deref(), loans.consume_result.as_deref()),
        (Some(MASK), Some(MASK))
    );
    assert_eq!(loans.payload_hash, masked.payload_hash);
    let fines = records.iter().find(|record| record.consumer == "fines").unwrap();
    assert_eq!(fines.record.error_message.as_deref(), Some("no reader Bob"), "it is not settled");
    let dead_letter = parked(rig, QUEUE, "e").await.unwrap();
    assert_eq!((dead_letter.body.as_str(), dead_letter.reason.as_str()), ("{\"body\":true}", MASK));
    assert_eq!(dead_letter.note.as_deref(), Some(MASK));
    let delivery = only(rig, "e").await;
    assert_eq!((delivery.body.as_str(), delivery.last_error.as_deref()), ("{\"delivery\":true}", Some(MASK)));
    let attempts = view(rig).await.outbox_view().webhook_attempts(endpoint_key(1), id).await.unwrap();
    assert_eq!((attempts[0].error.as_deref(), attempts[0].response.as_deref()), (Some(MASK), Some(MASK)));
    assert_eq!(erase(rig, &[masked]).await, 0, "nothing is left");
}

/// A row that is not published, an open dead letter and a pending delivery stay.
pub async fn texts_of_unsettled_events_stay(rig: &dyn StoreRig) {
    let id = with_texts(rig, "e").await;
    let before = (row(rig, "e").await, parked(rig, QUEUE, "e").await, only(rig, "e").await);
    // History and the record of the consumer that is settled.
    assert_eq!(erase(rig, &[texts("e", id)]).await, 2);
    assert_eq!((row(rig, "e").await, parked(rig, QUEUE, "e").await, only(rig, "e").await), before);
    assert_eq!((before.0.status, before.2.state), (OutboxStatus::Retry, DeliveryState::Pending));
}

/// A unit of work that is dropped masks nothing.
pub async fn a_dropped_unit_of_work_masks_nothing(rig: &dyn StoreRig) {
    let id = with_texts(rig, "e").await;
    settle_all(rig, "e").await;
    let before = row(rig, "e").await;
    let mut unit = begin(rig).await;
    assert!(unit.outbox().erase_events(&[texts("e", id)], &erasure()).await.unwrap() > 0);
    drop(unit);
    assert_eq!(row(rig, "e").await, before);
}

/// Of an audit entry, the reason is masked, and nothing else.
pub async fn reasons_of_audit_entries_are_masked_once(rig: &dyn StoreRig) {
    let entries = [audit_entry("a"), AuditEntry { reason: None, ..audit_entry("b") }, audit_entry("c")];
    in_unit!(rig, |unit| {
        for entry in &entries {
            unit.outbox().audit(entry).await.unwrap();
        }
    });
    let page = view(rig).await.outbox_view().audit_page(&AuditFilter::default(), None, 10).await.unwrap();
    let ids: Vec<i64> = page.iter().filter(|it| it.effect.action != "c").map(|it| it.id).collect();
    for changed in [1, 0] {
        let erased = in_unit!(rig, |unit| unit.outbox().erase_audit_reasons(&ids).await.expect("masked"));
        assert_eq!(erased, changed);
    }
    let page = view(rig).await.outbox_view().audit_page(&AuditFilter::default(), None, 10).await.unwrap();
    let mut seen: Vec<AuditEntry> = page.into_iter().map(|it| it.effect).collect();
    seen.reverse();
    let [first, second, third] = entries;
    assert_eq!(seen, [AuditEntry { reason: Some(MASK.into()), ..first }, second, third]);
}
