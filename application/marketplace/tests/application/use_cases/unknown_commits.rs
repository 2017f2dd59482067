//! Lost commit replies, lost commits and transient errors: each command takes effect once, and its caller receives the
//! result.

use handover_outbox::ports::StoreError;
use handover_outbox::with_tx;
use marketplace::use_cases::*;
use marketplace_domain::*;
use tokio::time::Instant;

use super::orders::shipment;
use crate::support::{BUYER, CommitFault, Process, SELLER, TENANT, World, by, millis, secs};

const FAULTS: [&[CommitFault]; 5] = [
    &[CommitFault::ReplyLost],
    &[CommitFault::Lost],
    &[CommitFault::Transient],
    &[CommitFault::Lost, CommitFault::ReplyLost],
    &[CommitFault::Transient, CommitFault::Lost, CommitFault::Transient],
];

/// A process that has reserved its id blocks, so that its next commit is that of the command.
async fn process_with_ids(world: &World) -> Process {
    let process = world.process();
    process.paid().await;
    process
}

#[tokio::test(start_paused = true)]
async fn product_is_listed_once_after_a_commit_fault() {
    for faults in FAULTS {
        let world = World::new().await;
        let process = process_with_ids(&world).await;
        process.faults.next_commits(faults.iter().copied());
        let product = process.listed().await;
        let all = process.app.queries.products(&by(BUYER), None, None, 100).await.unwrap().items;
        assert_eq!((all.len(), &all[0]), (2, &product), "{faults:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn order_is_placed_once_after_a_commit_fault() {
    for faults in FAULTS {
        let world = World::new().await;
        let process = process_with_ids(&world).await;
        let product = process.listed().await.id;
        process.faults.next_commits(faults.iter().copied());
        let order = process.app.ordering.place(&by(BUYER), PlaceOrder::of(product)).await.unwrap();
        assert_eq!(world.order(order.id).await, order, "{faults:?}");
        assert_eq!(world.history(order.id).await.len(), 2);
        assert_eq!(world.product(product).await.version, 2);
        let side = marketplace::ports::OrderSide::Buyer;
        assert_eq!(
            process.app.queries.orders(&by(BUYER), side, None, None, 100).await.unwrap().items.len(),
            2
        );
    }
}

#[tokio::test(start_paused = true)]
async fn each_order_transition_happens_once_after_a_commit_fault() {
    for faults in FAULTS {
        let world = World::new().await;
        let process = process_with_ids(&world).await;
        let order = process.ordered().await.id;
        let inject_faults = || process.faults.next_commits(faults.iter().copied());
        inject_faults();
        let payment = process.started_payment(order).await;
        inject_faults();
        let settled = process.settle(&payment, PaymentResult::Success).await.unwrap();
        assert_eq!((settled.status, settled.version), (PaymentStatus::Success, 2), "{faults:?}");
        inject_faults();
        let shipped = process.app.ordering.ship(&by(SELLER), order, shipment()).await.unwrap();
        assert_eq!(shipped.status, OrderStatus::Shipped);
        inject_faults();
        let completed = process.app.ordering.complete(&by(BUYER), order).await.unwrap();
        assert_eq!((completed.status, completed.version), (OrderStatus::Completed, 4));
        assert_eq!(world.order(order).await, completed);
        assert_eq!(world.history(order).await.len(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn order_is_cancelled_and_its_product_freed_once_after_a_commit_fault() {
    for (faults, party) in FAULTS.iter().flat_map(|faults| [(faults, BUYER), (faults, SELLER)]) {
        let world = World::new().await;
        let process = process_with_ids(&world).await;
        let order = process.ordered().await;
        process.faults.next_commits(faults.iter().copied());
        let cancelled = process.app.ordering.cancel(&by(party), order.id).await.unwrap();
        assert_eq!((cancelled.status, cancelled.version), (OrderStatus::Cancelled, 2), "{faults:?}");
        let product = world.product(order.product).await;
        assert_eq!((product.status, product.version), (ProductStatus::OnSale, 3));
        assert_eq!(world.history(order.id).await.len(), 3);
        let notified = world.view().await.notifications_about(TENANT, &[order.id]).await.unwrap();
        assert_eq!(notified.len(), usize::from(party == SELLER), "only a decline notifies the buyer");
    }
}

#[tokio::test(start_paused = true)]
async fn product_is_shelved_once_after_a_commit_fault() {
    for faults in FAULTS {
        let world = World::new().await;
        let process = process_with_ids(&world).await;
        let product = process.listed().await.id;
        for (shelf, status, version) in
            [(Shelf::Off, ProductStatus::OffShelf, 2), (Shelf::On, ProductStatus::OnSale, 3)]
        {
            process.faults.next_commits(faults.iter().copied());
            let after = process.app.ordering.shelve_product(&by(SELLER), product, shelf).await.unwrap();
            assert_eq!((after.status, after.version), (status, version), "{faults:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn id_block_is_never_assigned_twice_after_an_unknown_commit() {
    for fault in [CommitFault::ReplyLost, CommitFault::Lost] {
        let world = World::new().await;
        let a = world.process();
        let b = world.process();
        a.faults.next_commits([fault]);
        let mut ids: Vec<ProductId> = Vec::new();
        for _ in 0..150 {
            ids.push(a.listed().await.id);
            ids.push(b.listed().await.id);
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 300);
    }
}

#[tokio::test(start_paused = true)]
async fn command_fails_without_changes_after_eight_transient_errors() {
    let world = World::new().await;
    let process = process_with_ids(&world).await;
    let product = process.listed().await.id;
    let rows = world.rows().await;
    process.faults.next_commits([CommitFault::Transient; 8]);
    let before = process.faults.begun_units();
    let started = Instant::now();
    let result = process.app.ordering.place(&by(BUYER), PlaceOrder::of(product)).await;
    assert!(matches!(result, Err(UseCaseError::Store(StoreError::Transient(_)))), "{result:?}");
    assert_eq!(process.faults.begun_units() - before, 8);
    assert!(started.elapsed() > millis(100) && started.elapsed() < secs(2), "{:?}", started.elapsed());
    assert_eq!(world.rows().await, rows);
    assert_eq!(world.product(product).await.status, ProductStatus::OnSale);
    process.app.ordering.place(&by(BUYER), PlaceOrder::of(product)).await.unwrap();
}

/// The error must not say that nothing was changed.
#[tokio::test(start_paused = true)]
async fn outcome_stays_unknown_if_an_outage_follows_a_lost_reply() {
    let outages: [&[CommitFault]; 2] = [&[CommitFault::Unavailable], &[CommitFault::Transient; 7]];
    for outage in outages {
        let world = World::new().await;
        let process = process_with_ids(&world).await;
        let product = process.listed().await.id;
        process.faults.next_commits([&[CommitFault::ReplyLost], outage].concat());
        let result = process.app.ordering.place(&by(BUYER), PlaceOrder::of(product)).await;
        assert!(matches!(result, Err(UseCaseError::Store(StoreError::CommitUnknown(_)))), "{result:?}");
        assert_eq!(world.product(product).await.status, ProductStatus::Sold);
    }
}

#[tokio::test(start_paused = true)]
async fn command_fails_at_once_when_the_store_is_unavailable() {
    let world = World::new().await;
    let process = process_with_ids(&world).await;
    let product = process.listed().await.id;
    process.faults.set_unavailable(true);
    let before = process.faults.calls();
    let result = process.app.ordering.place(&by(BUYER), PlaceOrder::of(product)).await;
    assert!(matches!(result, Err(UseCaseError::Store(StoreError::Unavailable(_)))), "{result:?}");
    assert_eq!(process.faults.calls() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn attempt_may_be_committed_only_after_a_commit_of_unknown_outcome() {
    let world = World::new().await;
    let process = process_with_ids(&world).await;
    process.faults.next_commits([CommitFault::Transient, CommitFault::Lost, CommitFault::Transient]);
    let attempts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&attempts);
    let result: Result<(), StoreError> = with_tx(&process.app.tx, seen, |_, seen, attempt| {
        seen.lock().unwrap().push((attempt.is_repeated(), attempt.may_be_committed()));
        Box::pin(async { Ok(()) })
    })
    .await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(*attempts.lock().unwrap(), [(false, false), (true, false), (true, true), (true, true)]);
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_unit_of_work_fails_only_that_unit_of_work() {
    let world = World::new().await;
    let process = process_with_ids(&world).await;
    let result: Result<(), StoreError> =
        with_tx(&process.app.tx, (), |_, (), _| Box::pin(async { panic!("panic of the test") })).await;
    assert!(matches!(result, Err(StoreError::Backend(_))));
    process.listed().await;
}

#[tokio::test(start_paused = true)]
async fn killed_process_reports_unavailable_and_changes_nothing() {
    let world = World::new().await;
    let process = process_with_ids(&world).await;
    let product = process.listed().await.id;
    process.kill().await;
    let result = process.app.ordering.place(&by(BUYER), PlaceOrder::of(product)).await;
    assert!(matches!(result, Err(UseCaseError::Store(StoreError::Unavailable(_)))), "{result:?}");
    assert_eq!(world.product(product).await.status, ProductStatus::OnSale);
}

#[tokio::test(start_paused = true)]
async fn concurrent_units_of_work_never_exceed_the_limit_and_all_complete() {
    let world = World::new().await;
    let process = process_with_ids(&world).await;
    let running = std::sync::Arc::new(std::sync::Mutex::new((0usize, 0usize)));
    let units = (0..200).map(|_| {
        let tx = process.app.tx.clone();
        let running = std::sync::Arc::clone(&running);
        async move {
            with_tx(&tx, running, |unit, running, _| {
                Box::pin(async move {
                    {
                        let mut running = running.lock().unwrap();
                        running.0 += 1;
                        running.1 = running.1.max(running.0);
                    }
                    unit.outbox().database_now().await?;
                    running.lock().unwrap().0 -= 1;
                    Ok::<(), StoreError>(())
                })
            })
            .await
        }
    });
    let results = futures_util::future::join_all(units).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(running.lock().unwrap().1, handover_outbox::MAX_UNITS);
}
