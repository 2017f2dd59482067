//! Concurrent commands and reports: each change is made once and completely.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use handover_events::*;
use marketplace::ports::IdKind;
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::orders::shipment;
use crate::support::{BUYER, Process, SELLER, World, by};

async fn sixty_four_buyers() {
    let world = World::new().await;
    let a = world.process();
    let b = world.process();
    let product = a.listed().await.id;
    let process = |number: i64| if number % 2 == 0 { &a } else { &b };
    let buys = (0..64).map(|number| {
        let app = process(number).app.clone();
        async move { app.ordering.place(&by(100 + number), PlaceOrder::of(product)).await }
    });
    let results = join_all(buys.map(|buy| a.app.tx.spawn(buy))).await;
    let results: Vec<_> = results.into_iter().map(|result| result.unwrap().unwrap()).collect();
    let winners: Vec<&Order> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    let [winner] = winners.as_slice() else { panic!("{} orders for one product, expected 1", winners.len()) };
    for result in &results {
        match result {
            Ok(_) | Err(UseCaseError::Refused(OrderRefusal::Product(ProductRefusal::WrongStatus { .. }))) => {
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(world.order(winner.id).await, **winner);
    assert_eq!(world.rows().await.len(), 2);
    assert_eq!(world.product(product).await.status, ProductStatus::Sold);
}

#[tokio::test(start_paused = true)]
async fn only_one_of_64_concurrent_buyers_gets_the_product() {
    sixty_four_buyers().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_64_buyers_on_two_threads_gets_the_product() {
    sixty_four_buyers().await;
}

#[tokio::test(start_paused = true)]
async fn ids_are_unique_across_processes_and_tasks() {
    let world = World::new().await;
    let processes: Vec<Process> = (0..3).map(|_| world.process()).collect();
    let reservations = (0..900).map(|number| {
        let app = processes[number % 3].app.clone();
        async move { app.ids.next::<OrderId>(IdKind::Order).await.unwrap() }
    });
    let ids = join_all(reservations).await;
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 900);
    let kinds = [IdKind::Product, IdKind::Payment];
    for kind in kinds {
        assert!(
            processes[0].app.ids.next::<OrderId>(kind).await.unwrap().get() <= 100,
            "the id of {kind:?} is not from the first block of this kind"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn event_ids_are_unique_uuid_v7_with_the_clock_time() {
    let world = World::new().await;
    let process = world.process();
    let ids: Vec<EventId> = (0..1_000).map(|_| process.app.ids.event()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 1_000);
    let millis = format!("{:012x}", world.now().timestamp_millis());
    for id in ids {
        let text = id.as_str();
        assert_eq!(format!("{}{}", &text[..8], &text[9..13]), millis, "{text}");
        assert_eq!(&text[14..15], "7");
        assert!("89ab".contains(&text[19..20]));
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_cancellation_and_payment_leave_a_consistent_order() {
    for turn in 0..20 {
        let world = World::new().await;
        let process = world.process();
        let order = process.ordered().await;
        let payment = process.started_payment(order.id).await;
        let cancel = async {
            for _ in 0..turn {
                tokio::task::yield_now().await;
            }
            process.app.ordering.cancel(&by(BUYER), order.id).await
        };
        let (cancelled, settled) = tokio::join!(cancel, process.settle(&payment, PaymentResult::Success));
        let settled = settled.unwrap();
        let after = world.order(order.id).await;
        match after.status {
            OrderStatus::Cancelled => assert!(cancelled.is_ok() && settled.refund_due),
            OrderStatus::Paid => assert!(cancelled.is_err() && !settled.refund_due),
            OrderStatus::Pending | OrderStatus::Shipped | OrderStatus::Completed | OrderStatus::Refunded => {
                panic!("{after:?}")
            }
        }
        assert_eq!(after.version, 2);
        let seqs: Vec<i64> = world.history(order.id).await.into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(seqs, [1, 1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_repeats_of_a_command_take_effect_once() {
    let world = World::new().await;
    let process = world.process();
    let order = process.paid().await;
    let ships = (0..16).map(|_| {
        let app = process.app.clone();
        async move { app.ordering.ship(&by(SELLER), order.id, shipment()).await }
    });
    let shipped = join_all(ships).await.into_iter().filter(Result::is_ok).count();
    assert_eq!((shipped, world.order(order.id).await.version), (1, 3));
    let payments = {
        let order = process.ordered().await.id;
        let starts = (0..16).map(|_| process.started_payment(order));
        join_all(starts).await
    };
    assert_eq!(payments.iter().map(|it| it.id).collect::<BTreeSet<_>>().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_copies_of_a_report_settle_once() {
    let world = World::new().await;
    let process = world.process();
    let order = process.ordered().await;
    let payment = process.started_payment(order.id).await;
    let reports = (0..16).map(|_| process.settle(&payment, PaymentResult::Success));
    let settled: Vec<Payment> = join_all(reports).await.into_iter().map(Result::unwrap).collect();
    assert!(settled.iter().all(|it| *it == settled[0]));
    assert_eq!(world.rows().await.len(), 4);
}
