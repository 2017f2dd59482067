//! Wake-up notifications for the relay.

use futures_util::FutureExt;
use handover_events::AggregateRef;
use handover_outbox::ports::{DueQuery, NewEvent};

use super::super::within;
use super::{StoreRig, begin, in_unit};
use crate::samples::{
    aggregate, confirmed, due_at, event, partition, redrive, start, tenant, to_failed, unordered,
};
use crate::work::is_conflict;

/// A commit that appended events notifies the relay of their partitions.
pub async fn a_commit_that_appended_events_notifies_for_their_partitions(rig: &dyn StoreRig) {
    let foreign = AggregateRef { tenant: tenant(2), ..event("x", 5, 1).aggregate };
    let mut expected = vec![partition(5), partition(6), handover_events::Partition::of(tenant(2), 5)];
    expected.sort();
    in_unit!(rig, |unit| {
        unit.outbox().append(&[event("a", 5, 1), event("b", 5, 2)]).await.unwrap();
        unit.outbox()
            .append(&[event("c", 6, 1), NewEvent { aggregate: foreign, ..event("d", 5, 1) }])
            .await
            .unwrap();
    });
    let notified = within("the notification", rig.wake().notified()).await;
    assert_eq!(notified.iter().collect::<Vec<_>>(), expected);
    in_unit!(rig, |unit| unit.outbox().append(&[event("e", 7, 1)]).await.unwrap());
    let notified = within("the notification", rig.wake().notified()).await;
    assert_eq!(notified.iter().collect::<Vec<_>>(), [partition(7)]);
}

/// A commit that redrove rows notifies the relay of their partitions.
pub async fn a_commit_that_redrove_rows_notifies_for_their_partitions(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox()
            .append(&[event("sent", 5, 1), event("failed", 6, 1), event("other", 7, 1)])
            .await
            .unwrap();
        unit.outbox().mark_sent(&[&confirmed("sent")], start()).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("failed")], start()).await.unwrap();
    });
    within("the notification", rig.wake().notified()).await;
    in_unit!(rig, |unit| {
        assert_eq!(unit.outbox().redrive(&[redrive("sent", start())], start()).await.unwrap().len(), 1);
        assert_eq!(unit.outbox().redrive(&[redrive("failed", start())], start()).await.unwrap().len(), 1);
    });
    let notified = within("the notification", rig.wake().notified()).await;
    let mut expected = [partition(5), partition(6)];
    expected.sort();
    assert_eq!(notified.iter().collect::<Vec<_>>(), expected);
}

/// A commit that released an aggregate notifies the relay, because held events can now be published.
pub async fn a_commit_that_released_an_aggregate_notifies_for_its_partition(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox().append(&[event("failed", 6, 1), event("held", 6, 2)]).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("failed")], start()).await.unwrap();
    });
    within("the notification", rig.wake().notified()).await;
    in_unit!(rig, |unit| assert_eq!(
        unit.outbox().release(&aggregate(6), &unordered(), start()).await.unwrap(),
        1
    ));
    let notified = within("the notification", rig.wake().notified()).await;
    assert_eq!(notified.iter().collect::<Vec<_>>(), [partition(6)]);
}

/// A notified relay sees the events: the notification is sent after the commit.
pub async fn a_notified_relay_sees_the_events(rig: &dyn StoreRig) {
    for n in 1..=20 {
        let wake = rig.wake();
        let store = rig.store();
        let relay = tokio::spawn(async move {
            let notified = wake.notified().await;
            let mut view = store.view().await.unwrap();
            let due = view
                .outbox_view()
                .outbox_due(&DueQuery { partitions: notified, ..due_at(start()) })
                .await
                .unwrap();
            due.rows.into_iter().map(|row| row.aggregate.id.number()).collect::<Vec<_>>()
        });
        in_unit!(rig, |unit| unit.outbox().append(&[event(&format!("e{n}"), n, 1)]).await.unwrap());
        let due = within("the notification", relay).await.unwrap();
        assert!(due.contains(&n), "the relay was notified of event {n}, but read {due:?}");
    }
}

/// A unit of work that is not committed sends no notification.
pub async fn an_uncommitted_unit_of_work_sends_no_notification(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    unit.outbox().append(&[event("a", 5, 1)]).await.unwrap();
    assert!(rig.wake().notified().now_or_never().is_none(), "the relay was notified before the commit");
    drop(unit);
    let mut unit = begin(rig).await;
    unit.outbox().append(&[event("b", 5, 1)]).await.unwrap();
    is_conflict(unit.outbox().append(&[event("b", 5, 2)]).await);
    assert!(unit.commit().await.is_err());
    assert!(rig.wake().notified().now_or_never().is_none(), "the relay was notified without a commit");
}
