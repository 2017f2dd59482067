//! Units of work and views: visibility, rollback and commit.

use std::time::Duration;

use chrono::TimeDelta;
use handover_events::ConsumeStatus;
use handover_outbox::ports::{
    AuditEntry, AuditFilter, Consumption, DeadLetter, DeadLetterFilter, DeadLetterStatus, DueQuery, Expected,
    HistoryEntry, NewEvent, OutboxFilter, OutboxUnit, OutboxView,
};

use super::super::{eventually, within};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{
    audit_entry, confirmed, consumption, dead_letter, decision, due_at, event, event_id, history_entry,
    later, relay, start,
};
use crate::work::{changes_one, commit, is_conflict};

/// Writes one new row of every kind.
pub(super) async fn write_everything(unit: &mut dyn OutboxUnit) {
    let free = unit.partition_leases().await.unwrap().remove(0);
    unit.append(&[event("e", 1, 1)]).await.unwrap();
    unit.add_history(&[history_entry("e")]).await.unwrap();
    unit.record(&[consumption("inventory", &event("e", 1, 1))]).await.unwrap();
    unit.subscribe_consumer("inventory", start()).await.unwrap();
    unit.park(&[dead_letter("queue", "key")]).await.unwrap();
    unit.audit(&audit_entry("redrive")).await.unwrap();
    unit.heartbeat(&relay("r1"), 60_000).await.unwrap();
    changes_one(unit.acquire_partition(&relay("r1"), &free, 60_000).await);
}

/// Names of the checks that find the rows of [`write_everything`].
async fn seen(view: &mut dyn OutboxView) -> Vec<&'static str> {
    let due = DueQuery { limit: 9, ..due_at(start()) };
    let checks = [
        ("event", has_event(view, "e").await),
        ("due", !view.outbox_due(&due).await.unwrap().rows.is_empty()),
        ("history", !view.history_of(&[event_id("e")]).await.unwrap().is_empty()),
        ("consumption", view.consumption("inventory", &event_id("e")).await.unwrap().is_some()),
        ("subscription", view.consumer_subscription("inventory").await.unwrap().is_some()),
        ("dead letter", view.dead_letter("queue", "key").await.unwrap().is_some()),
        ("page of dead letters", dead_letter_count(view).await == 1),
        ("audit entry", !view.audit_page(&AuditFilter::default(), None, 9).await.unwrap().is_empty()),
        ("relay", !view.heartbeats().await.unwrap().is_empty()),
        ("lease", view.partition_leases().await.unwrap()[0].owner.is_some()),
    ];
    checks.into_iter().filter_map(|(what, visible)| visible.then_some(what)).collect()
}

const EVERYTHING: usize = 10;

pub(super) async fn has_event(view: &mut dyn OutboxView, id: &str) -> bool {
    !view.outbox_by_event(&[event_id(id)]).await.unwrap().is_empty()
}

pub(super) async fn has_dead_letter(view: &mut dyn OutboxView, key: &str) -> bool {
    view.dead_letter("queue", key).await.unwrap().is_some()
}

async fn events(view: &mut dyn OutboxView) -> usize {
    view.outbox_page(&OutboxFilter::default(), None, 100).await.unwrap().len()
}

async fn dead_letter_count(view: &mut dyn OutboxView) -> usize {
    view.dead_letters_page(&DeadLetterFilter::default(), None, 100).await.unwrap().len()
}

/// Consume-log record of the failed attempt with this number.
fn tried(attempts: u32) -> Consumption {
    let expected = match attempts {
        1 => Expected::Absent,
        _ => Expected::At(ConsumeStatus::Failed, attempts - 1),
    };
    let status = ConsumeStatus::Failed;
    Consumption { expected, status, attempts, ..consumption("inventory", &event("e", 1, 1)) }
}

async fn attempts(view: &mut dyn OutboxView) -> Option<u32> {
    view.consumption("inventory", &event_id("e")).await.unwrap().map(|row| row.attempts)
}

/// Writes of a unit of work are invisible to others before its commit.
pub async fn writes_of_a_unit_of_work_are_invisible_before_its_commit(rig: &dyn StoreRig) {
    let mut before = view(rig).await;
    let mut unit = begin(rig).await;
    write_everything(unit.outbox()).await;
    assert_eq!(within("reading during a unit of work", seen(before.outbox_view())).await, [""; 0]);
    assert_eq!(within("reading during a unit of work", seen(view(rig).await.outbox_view())).await, [""; 0]);
    drop(unit);
}

/// After the commit has returned, all writes are visible to every view opened from then on.
pub async fn writes_of_a_unit_of_work_are_visible_after_its_commit(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    write_everything(unit.outbox()).await;
    commit(unit).await;
    assert_eq!(seen(view(rig).await.outbox_view()).await.len(), EVERYTHING);
    assert_eq!(
        seen(begin(rig).await.outbox_view()).await.len(),
        EVERYTHING,
        "the rows must also be visible to later units of work"
    );
}

/// A unit of work reads its own writes.
pub async fn a_unit_of_work_reads_its_own_writes(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    write_everything(unit.outbox()).await;
    assert_eq!(seen(unit.outbox_view()).await.len(), EVERYTHING);
    assert_eq!(unit.outbox().mark_sent(&[&confirmed("e")], later(1)).await.unwrap(), 1);
    let row = unit.outbox().outbox_by_event(&[event_id("e")]).await.unwrap().remove(0);
    assert_eq!(row.sent_time, Some(later(1)));
    let again = Consumption { expected: Expected::At(ConsumeStatus::Success, 1), ..tried(2) };
    unit.outbox().record(&[again]).await.unwrap();
    assert_eq!(attempts(unit.outbox_view()).await, Some(2));
}

/// Dropping a unit of work undoes all its writes.
pub async fn a_dropped_unit_of_work_undoes_all_its_writes(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    write_everything(unit.outbox()).await;
    drop(unit);
    assert_eq!(seen(view(rig).await.outbox_view()).await, [""; 0]);
    assert_eq!(seen(begin(rig).await.outbox_view()).await, [""; 0]);
}

/// Dropping a unit of work undoes its changes of existing rows.
pub async fn a_dropped_unit_of_work_undoes_its_changes_of_existing_rows(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox().append(&[event("e", 1, 1)]).await.unwrap();
        unit.outbox().record(&[tried(1)]).await.unwrap();
        unit.outbox().park(&[dead_letter("queue", "key")]).await.unwrap();
    });
    let mut unit = begin(rig).await;
    unit.outbox().mark_sent(&[&confirmed("e")], later(1)).await.unwrap();
    unit.outbox().record(&[tried(2)]).await.unwrap();
    changes_one(unit.outbox().decide(&decision("queue", "key", DeadLetterStatus::Discarded)).await);
    drop(unit);
    let mut view = view(rig).await;
    let view = view.outbox_view();
    assert_eq!(view.outbox_by_event(&[event_id("e")]).await.unwrap()[0].sent_time, None);
    assert_eq!(attempts(view).await, Some(1));
    assert_eq!(view.dead_letter("queue", "key").await.unwrap(), Some(dead_letter("queue", "key")));
}

/// Repeatedly dropped units of work do not affect later ones.
pub async fn dropped_units_of_work_do_not_affect_later_ones(rig: &dyn StoreRig) {
    for n in 1..=30 {
        let mut unit = begin(rig).await;
        unit.outbox().append(&[event("e", 1, 1)]).await.unwrap();
        drop(unit);
        in_unit!(rig, |unit| unit.outbox().append(&[event(&format!("e{n}"), n, 1)]).await.unwrap());
    }
    assert_eq!(events(view(rig).await.outbox_view()).await, 30);
}

/// A view sees every unit of work committed before it was opened.
pub async fn a_view_sees_every_earlier_commit(rig: &dyn StoreRig) {
    for n in 1..=20 {
        in_unit!(rig, |unit| unit.outbox().record(&[tried(n)]).await.unwrap());
        assert_eq!(attempts(view(rig).await.outbox_view()).await, Some(n));
    }
}

/// A unit of work sees every unit of work committed before it began.
pub async fn a_unit_of_work_sees_every_earlier_commit(rig: &dyn StoreRig) {
    for n in 1..=10 {
        in_unit!(rig, |unit| {
            assert_eq!(events(unit.outbox_view()).await, n - 1);
            unit.outbox().append(&[event(&format!("e{n}"), 1, 1)]).await.unwrap();
        });
    }
}

/// Open views that have read rows do not block writers of these rows.
pub async fn a_view_does_not_block_writers(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox().append(&[event("e", 1, 1)]).await.unwrap();
        unit.outbox().record(&[tried(1)]).await.unwrap();
    });
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut view = view(rig).await;
        assert!(has_event(view.outbox_view(), "e").await);
        assert_eq!(attempts(view.outbox_view()).await, Some(1));
        open.push(view);
    }
    in_unit!(rig, |unit| {
        assert_eq!(unit.outbox().mark_sent(&[&confirmed("e")], later(1)).await.unwrap(), 1);
        unit.outbox().record(&[tried(2)]).await.unwrap();
    });
    for mut view in open {
        let read = view.outbox_view().outbox_by_event(&[event_id("e")]).await;
        read.expect("an open view must stay readable");
    }
}

/// Views can be opened and dropped one after another, more of them than a connection pool has connections.
pub async fn dropped_views_free_their_resources(rig: &dyn StoreRig) {
    for _ in 0..100 {
        let mut view = view(rig).await;
        view.outbox_view().partition_leases().await.unwrap();
    }
}

/// A view that sees one row of a commit sees all rows of this commit.
pub async fn a_commit_is_visible_as_a_whole(rig: &dyn StoreRig) {
    const COMMITS: i64 = 25;
    let store = rig.store();
    let writer = tokio::spawn(async move {
        for n in 1..=COMMITS {
            let new = event(&format!("e{n}"), n, 1);
            let mut unit = store.begin().await.unwrap();
            unit.outbox().append(std::slice::from_ref(&new)).await.unwrap();
            unit.outbox().park(&[dead_letter("queue", &format!("e{n}"))]).await.unwrap();
            unit.outbox().record(&[consumption("inventory", &new)]).await.unwrap();
            unit.commit().await.unwrap();
        }
    });
    for n in 1..=COMMITS {
        eventually("the next commit is seen", || async {
            let id = format!("e{n}");
            let mut view = view(rig).await;
            let view = view.outbox_view();
            // The dead letter is written second: if it is visible, the rows written before and after it must be
            // visible, too.
            if !has_dead_letter(view, &id).await {
                return None;
            }
            let recorded = view.consumption("inventory", &event_id(&id)).await.unwrap();
            assert!(recorded.is_some(), "dead letter {n} is visible without its consume-log record");
            assert!(has_event(view, &id).await, "dead letter {n} is visible without its event");
            Some(())
        })
        .await;
    }
    writer.await.unwrap();
}

/// Committed data survives a restart; uncommitted data does not.
pub async fn committed_data_survives_a_restart(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| write_everything(unit.outbox()).await);
    let mut unit = begin(rig).await;
    unit.outbox().append(&[event("dropped", 2, 1)]).await.unwrap();
    drop(unit);
    let Some(reopened) = rig.reopened().await else { return };
    let mut view = reopened.view().await.unwrap();
    let mut visible = seen(view.outbox_view()).await;
    visible.retain(|what| !matches!(*what, "relay" | "lease"));
    assert_eq!(visible.len(), EVERYTHING - 2, "a restart may end leases, but must keep all other rows");
    assert!(!has_event(view.outbox_view(), "dropped").await);
}

/// Concurrent units of work do not see each other's writes.
pub async fn concurrent_units_of_work_do_not_see_each_others_writes(rig: &dyn StoreRig) {
    if !rig.capabilities().concurrent_units {
        return;
    }
    let mut one = begin(rig).await;
    let mut two = begin(rig).await;
    one.outbox().append(&[event("one", 1, 1)]).await.unwrap();
    two.outbox().append(&[event("two", 2, 1)]).await.unwrap();
    assert!(!has_event(one.outbox_view(), "two").await);
    assert!(!has_event(two.outbox_view(), "one").await);
    commit(one).await;
    drop(two);
    let mut view = view(rig).await;
    let page = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 10).await.unwrap();
    assert_eq!(page.iter().map(|row| row.event_id.as_str()).collect::<Vec<_>>(), ["one"]);
}

/// Times are stored with microsecond precision.
pub async fn times_are_stored_with_microsecond_precision(rig: &dyn StoreRig) {
    for (n, micros) in [0, 1, 999, 1_000, 123_456, 499_999, 500_000, 999_999].into_iter().enumerate() {
        let at = later(0) - Duration::from_micros(123_456) + TimeDelta::microseconds(micros);
        let id = format!("e{n}");
        let new = NewEvent { occurred_at: at, ..event(&id, 1, 1) };
        let sample = DeadLetter { died_at: at, ..dead_letter("queue", &id) };
        let entry = HistoryEntry { at, ..history_entry(&id) };
        let action = AuditEntry { at, ..audit_entry(&id) };
        let done = Consumption { consume_time: at, ..consumption("inventory", &new) };
        in_unit!(rig, |unit| {
            let unit = unit.outbox();
            unit.append(std::slice::from_ref(&new)).await.unwrap();
            unit.park(std::slice::from_ref(&sample)).await.unwrap();
            assert_eq!(unit.dead_letter("queue", &id).await.unwrap().as_ref(), Some(&sample));
            unit.add_history(std::slice::from_ref(&entry)).await.unwrap();
            unit.audit(&action).await.unwrap();
            unit.record(std::slice::from_ref(&done)).await.unwrap();
        });
        let mut view = view(rig).await;
        let view = view.outbox_view();
        assert_eq!(view.outbox_by_event(&[event_id(&id)]).await.unwrap()[0].create_time, at);
        assert_eq!(view.dead_letter("queue", &id).await.unwrap(), Some(sample));
        assert_eq!(view.history_of(&[event_id(&id)]).await.unwrap(), [entry]);
        assert_eq!(view.audit_page(&AuditFilter::default(), None, 1).await.unwrap()[0].effect, action);
        let row = view.consumption("inventory", &event_id(&id)).await.unwrap();
        assert_eq!(row.map(|row| row.consume_time), Some(at));
    }
}

/// A unit of work that may defer writes reads them, and its commit stores them.
pub async fn a_unit_of_work_reads_and_commits_its_deferred_writes(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    assert!(!unit.defers_writes(), "the caller of this unit of work repeats it with the same reads");
    unit.defer_writes();
    unit.outbox().append(&[event("e", 1, 1)]).await.unwrap();
    assert!(has_event(unit.outbox_view(), "e").await, "a unit of work must read its own event");
    unit.outbox().append(&[event("f", 1, 2), event("g", 2, 1)]).await.unwrap();
    assert_eq!(unit.outbox().mark_sent(&[&confirmed("f")], later(1)).await.unwrap(), 1);
    unit.outbox().record(&[tried(1)]).await.unwrap();
    assert_eq!(attempts(unit.outbox_view()).await, Some(1));
    unit.outbox().record(&[tried(2)]).await.unwrap();
    unit.outbox().append(&[event("h", 3, 1)]).await.unwrap();
    commit(unit).await;
    let mut view = view(rig).await;
    assert_eq!(events(view.outbox_view()).await, 4);
    assert_eq!(attempts(view.outbox_view()).await, Some(2));
}

/// A deferred write that violates a unique key fails, at the latest at the commit, and nothing is committed.
pub async fn a_conflict_of_a_deferred_write_is_returned_at_the_latest_by_the_commit(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.outbox().append(&[event("taken", 1, 1)]).await.unwrap());
    for is_last in [true, false] {
        let mut unit = begin(rig).await;
        unit.defer_writes();
        unit.outbox().append(&[event("before", 3, 1)]).await.unwrap();
        let mut results = vec![unit.outbox().append(&[event("taken", 2, 1)]).await];
        if !is_last {
            results.push(unit.outbox().record(&[tried(1)]).await);
            results.push(unit.outbox_view().outbox_by_event(&[event_id("taken")]).await.map(drop));
        }
        results.push(within("commit", unit.commit()).await);
        assert!(results.last().is_some_and(Result::is_err), "the commit must not report success");
        is_conflict(results.into_iter().find(Result::is_err).expect("the event id is in use"));
        let mut view = view(rig).await;
        assert_eq!(events(view.outbox_view()).await, 1, "nothing may be committed");
        assert_eq!(attempts(view.outbox_view()).await, None, "nothing may be committed");
    }
}
