//! Id blocks that overlap ids of existing rows, as after a restored backup or a failover that lost commits: no command
//! returns a row of another caller, and every command succeeds.

use chrono::TimeDelta;
use handover_events::*;
use marketplace::ports::IdKind;
use marketplace::use_cases::operations::*;
use marketplace::use_cases::*;
use marketplace::*;
use marketplace_domain::*;

use crate::support::{BUYER, CommitFault, Process, SELLER, TENANT, World, by, money, pass, report, secs};

/// A deployment with existing rows, and a process that receives id blocks of these kinds with ids that are too low by
/// this amount, so that they overlap the ids of the existing rows.
async fn lowered_ids(kinds: &[IdKind], by: i64) -> (World, Process) {
    let world = World::new().await;
    let first = world.process();
    for _ in 0..3 {
        create_one_of_each(&first, (SELLER, BUYER), TENANT).await;
        pass(secs(1)).await;
    }
    let process = world.process();
    for kind in kinds {
        process.faults.lower_id_blocks(*kind, by);
    }
    (world, process)
}

fn context(user: i64, tenant: TenantId) -> CommandContext {
    CommandContext { tenant, ..by(user) }
}

/// Creates a product, an order, a payment, a refund and a coupon, and checks that each returned row belongs to the
/// caller.
async fn create_one_of_each(process: &Process, (seller, buyer): (i64, i64), tenant: TenantId) {
    let app = &process.app;
    let id = |user: i64| UserId::try_from(user).unwrap();
    let title: Title = format!("lamp of seller {seller}").try_into().unwrap();
    let listing = ListProduct { title: title.clone(), price: money(4_200) };
    let product = app.ordering.list_product(&context(seller, tenant), listing).await.unwrap();
    let listed = (product.seller, product.tenant, product.title.clone(), product.status);
    assert_eq!(listed, (id(seller), tenant, title, ProductStatus::OnSale));

    let order = app.ordering.place(&context(buyer, tenant), PlaceOrder::of(product.id)).await.unwrap();
    let placed = (order.buyer, order.seller, order.product, order.tenant, order.status);
    assert_eq!(placed, (id(buyer), id(seller), product.id, tenant, OrderStatus::Pending));

    let start = StartPayment { order: order.id, method: Some(PaymentMethod::Card) };
    let payment = app.payments.start(&context(buyer, tenant), start).await.unwrap().payment;
    assert_eq!(
        (payment.of, payment.tenant, payment.status),
        (order.id.into(), tenant, PaymentStatus::Processing)
    );
    app.payments.settle(&context(buyer, tenant), report(&payment, PaymentResult::Success)).await.unwrap();

    let request = RequestRefund { order: order.id, reason: "too small".into(), off_shelf: false };
    let refund = app.payments.request_refund(&context(buyer, tenant), request).await.unwrap();
    assert_eq!((refund.of, refund.payment, refund.tenant), (order.id.into(), payment.id, tenant));

    let actor = Actor::User { id: id(9), roles: vec![Role::User, Role::Operator] };
    let operator = CommandContext { actor, ..context(9, tenant) };
    let coupon = IssueCoupon {
        user: id(buyer),
        discount: money(300),
        min_spend: money(1_000),
        expires_at: app.tx.now() + TimeDelta::days(1),
        reason: None,
    };
    let coupon = app.operations.issue_coupon(&operator, coupon).await.unwrap();
    assert_eq!((coupon.user, coupon.tenant, coupon.status), (id(buyer), tenant, CouponStatus::Available));
}

const OTHERS: (i64, i64) = (SELLER + 1, BUYER + 1);

#[tokio::test(start_paused = true)]
async fn lowered_id_block_of_any_kind_never_returns_rows_of_others() {
    for kind in IdKind::ALL {
        for by in [1, 97, 98, 99, 100, 5_000] {
            let (world, process) = lowered_ids(&[kind], by).await;
            let before = world.rows().await;
            for tenant in [TENANT, TenantId::try_from(2).unwrap()] {
                for _ in 0..3 {
                    create_one_of_each(&process, OTHERS, tenant).await;
                    pass(secs(1)).await;
                }
            }
            // The outbox rows that existed before are unchanged.
            let after = world.rows().await;
            assert_eq!(after[..before.len()], before[..], "{kind:?} by {by}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn commands_succeed_when_all_id_blocks_are_lowered() {
    let (_world, process) = lowered_ids(&IdKind::ALL, 100).await;
    for _ in 0..3 {
        create_one_of_each(&process, OTHERS, TENANT).await;
        pass(secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn command_takes_effect_once_despite_a_lowered_id_block_and_a_commit_fault() {
    for fault in [CommitFault::ReplyLost, CommitFault::Lost, CommitFault::Transient] {
        let (world, process) = lowered_ids(&[IdKind::Product, IdKind::Order], 100).await;
        // Listing the product has already replaced the lowered block of product ids, so the fault affects the commit
        // that reserves the block of order ids.
        let product = process.listed().await;
        process.faults.next_commits([fault]);
        let order =
            process.app.ordering.place(&context(OTHERS.1, TENANT), PlaceOrder::of(product.id)).await.unwrap();
        assert_eq!((order.product, order.buyer.get()), (product.id, OTHERS.1), "{fault:?}");
        assert_eq!(world.history(order.id).await.len(), 2, "{fault:?}");
        assert_eq!(world.product(product.id).await.version, 2, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn late_payment_with_an_existing_refund_id_is_recorded_and_refunded() {
    let (world, process) = lowered_ids(&[IdKind::Refund], 100).await;
    for _ in 0..4 {
        let order = process.ordered().await;
        let payment = process.started_payment(order.id).await;
        process.app.ordering.cancel(&by(BUYER), order.id).await.unwrap();
        let settled = process.settle(&payment, PaymentResult::Success).await.unwrap();
        assert!(settled.refund_due);
        let refunds = world.view().await.refunds_of(TENANT, &[order.id]).await.unwrap();
        assert_eq!(refunds.iter().map(|refund| refund.payment).collect::<Vec<_>>(), [payment.id]);
        pass(secs(1)).await;
    }
}
