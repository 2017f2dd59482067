//! Redrives of outbox rows.

use chrono::{DateTime, Utc};
use handover_events::{OutboxStatus, TenantId};
use handover_outbox::ports::{DueQuery, OnFailed, OutboxRow, Redrive, RedrivenRow};

use super::outbox::{append, as_new, row};
use super::{StoreRig, in_unit, view};
use crate::samples::{
    aggregate, confirmed, due_at, event, event_id, later, redrive, start, to_failed, to_retry, unordered,
};

async fn redriven(rig: &dyn StoreRig, rows: &[Redrive], now: DateTime<Utc>) -> u64 {
    in_unit!(rig, |unit| unit.outbox().redrive(rows, now).await.expect("rows are redriven").len() as u64)
}

async fn due(rig: &dyn StoreRig, now: DateTime<Utc>, on_failed: OnFailed) -> Vec<String> {
    let rows =
        view(rig).await.outbox_view().outbox_due(&DueQuery { on_failed, limit: 1_000, ..due_at(now) }).await;
    let rows = rows.expect("cannot read due rows").rows;
    rows.into_iter().map(|row| row.event_id.into()).collect()
}

/// Creates one SENT and one FAILED row, with values in all columns that these states set.
async fn append_one_sent_and_one_failed_row(rig: &dyn StoreRig) {
    append(rig, &[event("sent", 7, 1), event("failed", 8, 1)]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_failed(&[to_retry("sent", Some(later(1)))], later(1)).await.unwrap();
        unit.outbox().mark_sent(&[&confirmed("sent")], later(2)).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("failed")], later(2)).await.unwrap();
        assert_eq!(unit.outbox().release(&aggregate(8), &unordered(), later(3)).await.unwrap(), 1);
    });
}

/// A redriven row waits for its due time, has an attempt count of 0, and keeps its last error.
pub async fn a_redriven_row_has_no_counted_attempts(rig: &dyn StoreRig) {
    append_one_sent_and_one_failed_row(rig).await;
    for (id, book) in [("sent", 7), ("failed", 8)] {
        let before = row(rig, id).await;
        assert_eq!(redriven(rig, &[redrive(id, later(60))], later(9)).await, 1, "{id}");
        let expected = OutboxRow {
            status: OutboxStatus::Retry,
            retry_count: 0,
            next_retry_time: Some(later(60)),
            sent_time: before.sent_time,
            released_time: None,
            last_error: before.last_error.clone(),
            update_time: later(9),
            ..as_new(&event(id, book, 1), &before)
        };
        assert_eq!(row(rig, id).await, expected);
        assert!(expected.last_error.is_some(), "{id} failed once");
    }
}

/// A pending row is not changed by a redrive, and a missing row is ignored; neither is counted.
pub async fn a_redrive_does_not_change_a_pending_row(rig: &dyn StoreRig) {
    append_one_sent_and_one_failed_row(rig).await;
    append(rig, &[event("new", 9, 1), event("retry", 9, 2)]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_failed(&[to_retry("retry", Some(later(5)))], later(1)).await.unwrap();
    });
    let before = [row(rig, "new").await, row(rig, "retry").await];
    let all = ["new", "failed", "missing", "retry", "sent", "failed"].map(|id| redrive(id, later(60)));
    assert_eq!(redriven(rig, &all, later(9)).await, 2);
    assert_eq!([row(rig, "new").await, row(rig, "retry").await], before);
    assert_eq!(redriven(rig, &all, later(10)).await, 0, "pending rows must not be redriven");
    assert_eq!(redriven(rig, &[], later(10)).await, 0);
}

/// A redrive returns each changed row once, with its earlier values, ordered by event id.
pub async fn redriven_rows_are_returned_with_their_earlier_values(rig: &dyn StoreRig) {
    append_one_sent_and_one_failed_row(rig).await;
    append(rig, &[event("new", 9, 1)]).await;
    let all = ["sent", "new", "failed", "missing", "sent"].map(|id| redrive(id, later(60)));
    let moved = in_unit!(rig, |unit| unit.outbox().redrive(&all, later(9)).await.unwrap());
    let row = |id, status, retry_count, sent_time| RedrivenRow {
        tenant: TenantId::DEFAULT,
        event_id: event_id(id),
        status,
        retry_count,
        sent_time,
    };
    let sent = row("sent", OutboxStatus::Sent, 1, Some(later(2)));
    assert_eq!(moved, [row("failed", OutboxStatus::Failed, 4, None), sent]);
    // A row that was sent and then failed keeps its `sent_time`.
    in_unit!(rig, |unit| unit.outbox().mark_failed(&[to_failed("sent")], later(70)).await.unwrap());
    let moved = in_unit!(rig, |unit| unit.outbox().redrive(&all[..1], later(80)).await.unwrap());
    assert_eq!(moved, [row("sent", OutboxStatus::Failed, 4, Some(later(2)))]);
    assert_eq!(in_unit!(rig, |unit| unit.outbox().redrive(&all, later(90)).await.unwrap()), []);
}

/// A redriven row is due at the time that the redrive sets. Until then later rows of its aggregate wait if it was
/// FAILED, but not if it was SENT, because the consumer may already have received a SENT event.
pub async fn a_redriven_row_is_due_at_the_requested_time_and_not_before(rig: &dyn StoreRig) {
    append_one_sent_and_one_failed_row(rig).await;
    append(rig, &[event("passes", 7, 2), event("behind", 8, 2), event("free", 9, 1)]).await;
    redriven(rig, &[redrive("sent", later(60)), redrive("failed", later(70))], later(9)).await;
    assert_eq!(due(rig, later(59), OnFailed::Continue).await, ["passes", "free"]);
    assert_eq!(due(rig, later(60), OnFailed::Continue).await, ["sent", "passes", "free"]);
    assert_eq!(due(rig, later(70), OnFailed::Continue).await, ["sent", "failed", "passes", "behind", "free"]);
    let due = view(rig).await.outbox_view().outbox_due(&due_at(later(60))).await.unwrap();
    assert_eq!(due.next, Some(later(70)));
}

/// A redriven row can be sent or fail like any other.
pub async fn a_redriven_row_can_be_settled_again(rig: &dyn StoreRig) {
    append_one_sent_and_one_failed_row(rig).await;
    append(rig, &[event("behind", 8, 2)]).await;
    redriven(rig, &[redrive("sent", later(9)), redrive("failed", later(9))], later(9)).await;
    in_unit!(rig, |unit| {
        assert_eq!(unit.outbox().mark_sent(&[&confirmed("sent")], later(20)).await.unwrap(), 1);
        assert_eq!(unit.outbox().mark_failed(&[to_failed("failed")], later(20)).await.unwrap(), 1);
    });
    let seen = row(rig, "sent").await;
    assert_eq!((seen.status, seen.sent_time), (OutboxStatus::Sent, Some(later(20))));
    assert_eq!(row(rig, "failed").await.status, OutboxStatus::Failed);
    assert_eq!(
        due(rig, later(99), OnFailed::Hold).await,
        [""; 0],
        "the release before the redrive must not apply to the new failure"
    );
    assert_eq!(due(rig, later(99), OnFailed::Continue).await, ["behind"]);
}

/// Many rows are redriven in one call, each with its own due time.
pub async fn many_rows_are_redriven_each_with_its_own_due_time(rig: &dyn StoreRig) {
    let ids: Vec<_> = (0..300).map(|n| format!("e{n:03}")).collect();
    append(rig, &ids.iter().enumerate().map(|(n, id)| event(id, n as i64 + 1, 1)).collect::<Vec<_>>()).await;
    let proofs: Vec<_> = ids.iter().map(|id| confirmed(id)).collect();
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&proofs.iter().collect::<Vec<_>>(), start()).await.unwrap();
        let rows: Vec<_> =
            ids.iter().enumerate().map(|(n, id)| redrive(id, later(1_000 - n as i64))).collect();
        assert_eq!(unit.outbox().redrive(&rows, later(1)).await.unwrap().len(), 300);
    });
    let requested: Vec<_> = ids.iter().map(|id| event_id(id)).collect();
    for seen in view(rig).await.outbox_view().outbox_by_event(&requested).await.unwrap() {
        let n = seen.event_id.as_str()[1..].parse::<i64>().unwrap();
        assert_eq!(seen.next_retry_time, Some(later(1_000 - n)), "{}", seen.event_id);
    }
}
