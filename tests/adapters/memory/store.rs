//! Tests specific to the store in memory, with rows of the marketplace. The contract suite covers the rules for every
//! store.

use std::sync::Arc;
use std::task::{Context, Waker};

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, TenantId};
use handover_memory::VirtualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Changed, EventMetadata, IdleConsumers, NewEvent, Store, StoreError};
use marketplace::ports::IdKind;
use marketplace_domain::{Money, Product, ProductAction, ProductId, ProductStatus};
use marketplace_memory::MemoryStore;

pub(crate) const START: DateTime<Utc> = DateTime::UNIX_EPOCH;

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(VirtualClock::new(START)), WakeupNotifier::default())
}

fn product(id: i64) -> Product {
    Product {
        id: ProductId::try_from(id).unwrap(),
        tenant: TenantId::DEFAULT,
        seller: 7.try_into().unwrap(),
        title: "lamp".to_owned().try_into().unwrap(),
        price: Money::from_minor(100).unwrap(),
        status: ProductStatus::OnSale,
        version: 1,
        create_time: START,
        update_time: START,
    }
}

pub(crate) fn event(id: &str, order: i64, seq: i64) -> NewEvent {
    NewEvent {
        event_id: id.parse().unwrap(),
        event_type: "ORDER_PAID".to_owned(),
        aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Order".to_owned(), id: order.into() },
        aggregate_seq: Some(seq),
        payload: "{}".to_owned(),
        metadata: EventMetadata::default(),
        occurred_at: START,
        max_retry_count: 3,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

async fn with_product(store: &MemoryStore, id: i64) -> Product {
    let mut unit = store.begin().await.unwrap();
    unit.insert_product(&product(id)).await.unwrap();
    unit.commit().await.unwrap();
    product(id)
}

async fn version(store: &MemoryStore, id: i64) -> Option<i64> {
    let mut view = store.view().await.unwrap();
    view.product_by_id(TenantId::DEFAULT, product(id).id).await.unwrap().map(|product| product.version)
}

#[tokio::test(start_paused = true)]
async fn conditional_write_waits_for_row_lock_and_checks_committed_version() {
    let store = store();
    let sold = with_product(&store, 1).await.apply(ProductAction::Occupy, START).unwrap();
    let mut first = store.begin().await.unwrap();
    let mut second = store.begin().await.unwrap();
    assert_eq!(first.advance_product(&sold).await.unwrap(), Changed::One);
    let (_, changed) = tokio::join!(first.commit(), second.advance_product(&sold));
    assert_eq!(changed.unwrap(), Changed::None);
}

#[tokio::test(start_paused = true)]
async fn dropped_unit_of_work_releases_its_locks() {
    let store = store();
    let sold = with_product(&store, 1).await.apply(ProductAction::Occupy, START).unwrap();
    let mut first = store.begin().await.unwrap();
    let mut second = store.begin().await.unwrap();
    assert_eq!(first.advance_product(&sold).await.unwrap(), Changed::One);
    let drops = async {
        tokio::task::yield_now().await;
        drop(first);
    };
    let (changed, ()) = tokio::join!(second.advance_product(&sold), drops);
    assert_eq!(changed.unwrap(), Changed::One);
}

#[tokio::test(start_paused = true)]
async fn lock_timeout_is_transient_and_fails_unit_of_work() {
    let store = store();
    let sold = with_product(&store, 1).await.apply(ProductAction::Occupy, START).unwrap();
    let mut first = store.begin().await.unwrap();
    let mut second = store.begin().await.unwrap();
    assert_eq!(first.advance_product(&sold).await.unwrap(), Changed::One);
    second.insert_product(&product(2)).await.unwrap();
    assert!(matches!(second.advance_product(&sold).await, Err(StoreError::Transient(_))));
    assert!(second.commit().await.is_err());
    assert_eq!(version(&store, 2).await, None);
}

#[tokio::test(start_paused = true)]
async fn deadlock_is_transient_for_unit_of_work_that_closes_the_cycle() {
    let store = store();
    let one = with_product(&store, 1).await.apply(ProductAction::Occupy, START).unwrap();
    let two = with_product(&store, 2).await.apply(ProductAction::Occupy, START).unwrap();
    let mut first = store.begin().await.unwrap();
    let mut second = store.begin().await.unwrap();
    assert_eq!(first.advance_product(&one).await.unwrap(), Changed::One);
    assert_eq!(second.advance_product(&two).await.unwrap(), Changed::One);
    let closes = async {
        let error = second.advance_product(&one).await;
        drop(second);
        error
    };
    let (waited, closed) = tokio::join!(biased; first.advance_product(&two), closes);
    assert_eq!(waited.unwrap(), Changed::One);
    assert!(matches!(closed, Err(StoreError::Transient(_))));
}

#[tokio::test(start_paused = true)]
async fn duplicate_key_is_conflict_only_after_other_unit_of_work_committed() {
    for commits in [true, false] {
        let store = store();
        let mut first = store.begin().await.unwrap();
        let mut second = store.begin().await.unwrap();
        first.insert_product(&product(1)).await.unwrap();
        second.insert_product(&product(2)).await.unwrap();
        let ends = async { if commits { first.commit().await.unwrap() } else { drop(first) } };
        let duplicate = product(1);
        let ((), inserted) = tokio::join!(ends, second.insert_product(&duplicate));
        assert_eq!(matches!(inserted, Err(StoreError::Conflict { .. })), commits);
        assert_eq!(second.commit().await.is_err(), commits);
        assert_eq!(version(&store, 2).await.is_none(), commits);
    }
}

#[tokio::test(start_paused = true)]
async fn uncommitted_row_is_visible_only_in_its_unit_of_work() {
    let store = store();
    let mut unit = store.begin().await.unwrap();
    unit.insert_product(&product(1)).await.unwrap();
    let own = unit.products_page(TenantId::DEFAULT, None, None, 9).await.unwrap();
    assert_eq!((own.len(), version(&store, 1).await), (1, None));
    unit.commit().await.unwrap();
    assert_eq!(version(&store, 1).await, Some(1));
}

#[tokio::test(start_paused = true)]
async fn dropped_commit_takes_effect_only_when_dropped_after_second_poll() {
    for (polls, committed) in [(1, None), (2, Some(1))] {
        let store = store();
        let mut unit = store.begin().await.unwrap();
        unit.insert_product(&product(1)).await.unwrap();
        let mut commit = unit.commit();
        for _ in 0..polls {
            assert!(commit.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(commit);
        assert_eq!(version(&store, 1).await, committed);
        // The dropped commit releases the locks of its unit of work, after one poll and after two polls.
        let mut next = store.begin().await.unwrap();
        assert_eq!(next.insert_product(&product(1)).await.is_err(), committed.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn rolled_back_id_block_is_reused_and_committed_one_is_not() {
    let store = store();
    let mut unit = store.begin().await.unwrap();
    assert_eq!(unit.take_id_block(IdKind::Order, 100).await.unwrap(), 1);
    drop(unit);
    for first in [1, 101] {
        let mut unit = store.begin().await.unwrap();
        assert_eq!(unit.take_id_block(IdKind::Order, 100).await.unwrap(), first);
        unit.commit().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn commit_notifies_relay_of_its_process() {
    let ours = WakeupNotifier::default();
    let theirs = WakeupNotifier::default();
    let store = store().for_process(ours.clone());
    let _other = store.for_process(theirs);
    let mut unit = store.begin().await.unwrap();
    unit.outbox().append(&[event("a", 1, 1)]).await.unwrap();
    unit.commit().await.unwrap();
    assert_eq!(ours.notified().await.iter().count(), 1);
}
