//! The store of which one call fails.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use handover_contract::faulty::{FaultyStore, StoreCall, StoreFault};
use handover_contract::samples::event;
use handover_contract::store::{RULES, StoreRig};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{OutboxStore, Store as _, StoreError};
use handover_tests::rigs::MemoryStoreRig;

use super::broken;

/// The number of a call that no test makes.
const NEVER: usize = usize::MAX;

/// The in-memory store in the wrapper, without a fault.
struct WrappedRig(MemoryStoreRig);

#[async_trait]
impl StoreRig for WrappedRig {
    fn store(&self) -> Arc<OutboxStore> {
        Arc::new(FaultyStore::new(self.0.store(), StoreCall::Any, NEVER, StoreFault::Unavailable))
    }

    fn wake(&self) -> WakeupNotifier {
        self.0.wake()
    }

    fn move_database_clock(&self, by: TimeDelta) {
        self.0.move_database_clock(by);
    }
}

#[test]
fn wrapper_without_fault_breaks_no_rule() {
    let broken = broken(RULES, &[], || Box::new(WrappedRig(MemoryStoreRig::new())));
    assert!(broken.is_empty(), "{broken:?}");
}

/// Appends an event, with a fault at one call. Returns the result and the number of events that are stored, unless the fault did
/// not occur.
async fn append(of: StoreCall, after: usize, fault: StoreFault) -> Option<(Result<(), StoreError>, usize)> {
    let rig = MemoryStoreRig::new();
    let store = FaultyStore::new(rig.store(), of, after, fault);
    let appended = async {
        let mut unit = store.begin().await?;
        unit.outbox().append(&[event("lent", 7, 1)]).await?;
        unit.commit().await
    };
    let appended = appended.await;
    let mut view = rig.store().view().await.unwrap();
    let stored = view.outbox_view().outbox_by_event(&[event("lent", 7, 1).event_id]).await.unwrap();
    store.has_failed().then_some((appended, stored.len()))
}

#[tokio::test]
async fn failed_call_has_no_effect_and_a_lost_reply_has_one() {
    for after in 0..3 {
        let (failed, stored) = append(StoreCall::Any, after, StoreFault::Unavailable).await.unwrap();
        assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
        assert_eq!(stored, 0);
    }
    assert!(append(StoreCall::Any, 3, StoreFault::Unavailable).await.is_none());
    for (fault, expected) in [(StoreFault::CommitLost, 0), (StoreFault::ReplyLost, 1)] {
        let (unknown, stored) = append(StoreCall::Commit, 0, fault).await.unwrap();
        assert!(matches!(unknown, Err(StoreError::CommitUnknown(_))), "{unknown:?}");
        assert_eq!(stored, expected, "{fault:?}");
    }
    let (transient, stored) = append(StoreCall::Statement, 0, StoreFault::Transient).await.unwrap();
    assert!(matches!(transient, Err(StoreError::Transient(_))), "{transient:?}");
    assert_eq!(stored, 0);
}

#[tokio::test]
async fn nothing_is_committed_after_a_failed_statement() {
    let rig = MemoryStoreRig::new();
    let store = FaultyStore::new(rig.store(), StoreCall::Statement, 1, StoreFault::Transient);
    let mut unit = store.begin().await.unwrap();
    unit.outbox().append(&[event("first", 7, 1)]).await.unwrap();
    unit.outbox().append(&[event("second", 7, 2)]).await.unwrap_err();
    unit.commit().await.unwrap_err();
    let mut view = rig.store().view().await.unwrap();
    let stored = view.outbox_view().outbox_by_event(&[event("first", 7, 1).event_id]).await.unwrap();
    assert!(stored.is_empty(), "{stored:?}");
}

#[tokio::test(start_paused = true)]
async fn slow_call_succeeds_and_a_hanging_one_is_dropped() {
    let minute = Duration::from_secs(60);
    let begun = tokio::time::Instant::now();
    let (slow, stored) = append(StoreCall::Commit, 0, StoreFault::Slow(minute)).await.unwrap();
    assert!(slow.is_ok(), "{slow:?}");
    assert_eq!((stored, begun.elapsed() >= minute), (1, true));
    tokio::time::timeout(minute, append(StoreCall::Commit, 0, StoreFault::Hangs)).await.unwrap_err();
}
