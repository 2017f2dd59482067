//! Sellers decline orders: they cancel a pending order and refund a paid one.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use handover_outbox::MASK;
use marketplace::jobs::{TimeoutSettings, TimeoutSweep};
use marketplace::ports::{Notification, OrderSide};
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::market::{Market, SpentAssets, buyer, operator, tenant};
use super::reconciliation::run_reconciliation;
use crate::support::{BUYER, Process, SELLER, World, by, pass, secs};

fn cancellation(order: OrderId, off_shelf: bool) -> CancelOrder {
    CancelOrder { order, off_shelf }
}

fn decline(order: OrderId, off_shelf: bool) -> RequestRefund {
    RequestRefund { order, reason: "sold elsewhere".into(), off_shelf }
}

impl Market {
    /// Coupon, wallet and points of the buyer, as an order can use them.
    async fn filled_purses(&self) -> SpentAssets {
        self.deposit(5_000).await;
        self.grant(300).await;
        SpentAssets { coupon: Some(self.coupon(1_000).await), wallet: 2_000, points: 150 }
    }

    async fn assert_purses_are_full(&self, coupon: Option<CouponId>) {
        assert_eq!(self.purse(Purse::Wallet).await, (5_000, 0, 0));
        assert_eq!(self.purse(Purse::Points).await, (300, 0, 0));
        assert_eq!(self.coupon_status(coupon.unwrap()).await, CouponStatus::Available);
        self.assert_ledger_balanced().await;
    }

    async fn notifications(&self, order: OrderId) -> Vec<Notification> {
        self.world.view().await.notifications_about(tenant(), &[order]).await.unwrap()
    }

    /// Checks that the buyer has the notification of the decline, and that neither the seller nor the buyer's credit has
    /// anything of it.
    async fn assert_declined(&self, before: &Order, event_type: &str) {
        let order = self.world.order(before.id).await;
        let rows = self.world.rows().await;
        let event = rows.iter().find(|row| row.event_type == event_type).unwrap();
        let expected = Notification {
            tenant: tenant(),
            recipient: buyer(),
            side: OrderSide::Buyer,
            order: order.id,
            aggregate_seq: order.version,
            old_status: before.status,
            new_status: order.status,
            changed_at: order.update_time,
            event_id: event.event_id.clone(),
            at: order.update_time,
        };
        assert_eq!(self.notifications(order.id).await, [expected]);
        let mut view = self.world.view().await;
        assert_eq!(view.credit_of(tenant(), buyer()).await.unwrap(), None);
        assert_eq!(view.credit_changes(tenant(), &[order.id]).await.unwrap(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn seller_cancels_pending_order_and_decides_about_its_product() {
    for (off_shelf, status) in [(false, ProductStatus::OnSale), (true, ProductStatus::OffShelf)] {
        let market = Market::running().await;
        let assets = market.filled_purses().await;
        let order = market.locked(assets).await;
        let command = cancellation(order.id, off_shelf);
        let cancelled = market.app().ordering.cancel(&Market::seller(), command).await.unwrap();
        assert_eq!(
            (cancelled.status, cancelled.cancel_reason),
            (OrderStatus::Cancelled, Some(CancelReason::Seller))
        );
        assert_eq!(market.world.product(order.product).await.status, status);
        market.assert_declined(&order, "ORDER_CANCELLED").await;
        market.process_pending().await;
        market.assert_declined(&order, "ORDER_CANCELLED").await;
        market.assert_purses_are_full(assets.coupon).await;
        pass(secs(120)).await;
        assert_eq!(run_reconciliation(&market, false).await.findings, []);
        let listing = market.world.view().await.listing_of(tenant(), order.seller).await.unwrap();
        assert_eq!(listing[0].taken_by, None);
        let again = market.app().ordering.cancel(&Market::seller(), command).await;
        assert!(matches!(again, Err(UseCaseError::Refused(OrderRefusal::WrongStatus { .. }))), "{again:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn seller_refunds_paid_order_and_decides_about_its_product() {
    for (off_shelf, status) in [(false, ProductStatus::OnSale), (true, ProductStatus::OffShelf)] {
        let market = Market::running().await;
        let assets = market.filled_purses().await;
        let order = market.paid(assets).await;
        let command = decline(order.id, off_shelf);
        let refund = market.app().payments.request_refund(&Market::seller(), command.clone()).await.unwrap();
        assert_eq!(
            (refund.cause, refund.status, refund.off_shelf),
            (RefundCause::Seller, RefundStatus::Processing, off_shelf)
        );
        assert_eq!(refund.reason, command.reason);
        assert_eq!(market.world.product(order.product).await.status, ProductStatus::Sold);
        assert_eq!(market.notifications(order.id).await, []);
        let refunding = market.world.order(order.id).await;
        market.report(&refund, RefundResult::Success).await.unwrap();
        assert_eq!(market.world.order(order.id).await.status, OrderStatus::Refunded);
        assert_eq!(market.world.product(order.product).await.status, status);
        market.assert_declined(&refunding, "ORDER_REFUNDED").await;
        market.process_pending().await;
        market.assert_declined(&refunding, "ORDER_REFUNDED").await;
        market.assert_purses_are_full(assets.coupon).await;
        assert_eq!(market.total(Account::Platform).await, 0);
        pass(secs(120)).await;
        assert_eq!(run_reconciliation(&market, false).await.findings, []);
    }
}

#[tokio::test(start_paused = true)]
async fn order_without_money_amount_is_declined_at_once() {
    let market = Market::running().await;
    market.deposit(8_850).await;
    let order = market.paid(SpentAssets { wallet: 8_850, ..SpentAssets::default() }).await;
    let refund =
        market.app().payments.request_refund(&Market::seller(), decline(order.id, true)).await.unwrap();
    assert_eq!((refund.status, refund.amount), (RefundStatus::Success, Money::ZERO));
    assert_eq!(market.world.product(order.product).await.status, ProductStatus::OffShelf);
    let refunding = Order { status: OrderStatus::Paid, ..market.world.order(order.id).await };
    market.assert_declined(&refunding, "ORDER_REFUNDED").await;
    market.process_pending().await;
    assert_eq!(market.purse(Purse::Wallet).await, (8_850, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn order_whose_declining_refund_fails_stays_paid_and_can_be_shipped() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let refund =
        market.app().payments.request_refund(&Market::seller(), decline(order.id, true)).await.unwrap();
    market.report(&refund, RefundResult::Failed).await.unwrap();
    assert_eq!(market.world.product(order.product).await.status, ProductStatus::Sold);
    assert_eq!(market.notifications(order.id).await, []);
    let shipment = Shipment::new("SF".into(), "SF-1".into()).unwrap();
    market.app().ordering.ship(&Market::seller(), order.id, shipment).await.unwrap();
    let late = market.app().payments.request_refund(&Market::seller(), decline(order.id, true)).await;
    let is_too_late = matches!(
        late,
        Err(UseCaseError::Refused(RefundCommandRefusal::Order(OrderRefusal::WrongStatus { .. })))
    );
    assert!(is_too_late, "{late:?}");
}

/// The refund is the buyer's, so the buyer needs no notification; the product is the seller's.
#[tokio::test(start_paused = true)]
async fn seller_takes_product_of_buyers_running_refund_off_the_shelf() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let requested = market.refund(&order).await;
    for off_shelf in [false, true, true] {
        let command = decline(order.id, off_shelf);
        let running = market.app().payments.request_refund(&Market::seller(), command).await.unwrap();
        let version = requested.version + i64::from(off_shelf);
        let expected = Refund { off_shelf, version, update_time: running.update_time, ..requested.clone() };
        assert_eq!(running, expected);
    }
    market.report(&requested, RefundResult::Success).await.unwrap();
    assert_eq!(market.world.product(order.product).await.status, ProductStatus::OffShelf);
    assert_eq!(market.notifications(order.id).await, []);
}

#[tokio::test(start_paused = true)]
async fn only_the_seller_takes_the_product_off_the_shelf() {
    let market = Market::running().await;
    let pending = market.locked(SpentAssets::default()).await;
    let cancelled = market.app().ordering.cancel(&by(BUYER), cancellation(pending.id, true)).await;
    let is_refused =
        matches!(cancelled, Err(UseCaseError::Refused(OrderRefusal::Product(ProductRefusal::NotTheSeller))));
    assert!(is_refused, "{cancelled:?}");
    assert_eq!(market.world.order(pending.id).await.status, OrderStatus::Pending);
    let paid = market.paid(SpentAssets::default()).await;
    for context in [by(BUYER), operator()] {
        let refund = market.app().payments.request_refund(&context, decline(paid.id, true)).await;
        let is_refused = matches!(
            refund,
            Err(UseCaseError::Refused(RefundCommandRefusal::Order(OrderRefusal::Product(
                ProductRefusal::NotTheSeller
            ))))
        );
        assert!(is_refused, "{refund:?}");
    }
    assert_eq!(market.world.order(paid.id).await.refund, None);
}

#[tokio::test(start_paused = true)]
async fn reason_of_the_seller_is_masked_for_operators_who_may_not_see_personal_data() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    market.app().payments.request_refund(&Market::seller(), decline(order.id, false)).await.unwrap();
    let reason =
        async |context| market.app().queries.refunds(&context, order.id).await.unwrap()[0].reason.clone();
    assert_eq!(reason(by(BUYER)).await, "sold elsewhere");
    assert_eq!(reason(Market::seller()).await, "sold elsewhere");
    let details = market.app().operations.show_order(&operator(), order.id).await.unwrap();
    assert_eq!(details.refunds[0].reason, MASK);
}

/// A try to end or to pay an order.
#[derive(Debug, Clone, Copy)]
enum Try {
    Decline,
    Cancel,
    Pay,
    TimeOut,
}

async fn attempt(process: &Process, order: &Order, payment: &Payment, attempted: Try) -> bool {
    let ordering = &process.app.ordering;
    match attempted {
        Try::Decline => ordering.cancel(&by(SELLER), cancellation(order.id, true)).await.is_ok(),
        Try::Cancel => ordering.cancel(&by(BUYER), order.id).await.is_ok(),
        Try::Pay => {
            let settled = process.settle(payment, PaymentResult::Success).await.unwrap();
            !settled.refund_due
        }
        Try::TimeOut => {
            let app = &process.app;
            let sweep = TimeoutSweep::new(app.tx.clone(), app.handlers.clone(), TimeoutSettings::default());
            sweep.sweep().await.unwrap() > 0
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_64_concurrent_declines_cancellations_payments_and_timeouts_one_wins() {
    let tries = [Try::Decline, Try::Cancel, Try::Pay, Try::TimeOut];
    let mut winners = BTreeMap::new();
    for turn in 0..8 {
        let world = World::with_timeout(secs(900)).await;
        let process = world.process();
        let order = process.ordered().await;
        let payment = process.started_payment(order.id).await;
        pass(secs(901)).await;
        let attempts = (0..64).map(|number| {
            let (process, order, payment) = (&process, &order, &payment);
            async move {
                for _ in 0..(number * 7 + turn * 5) % 11 {
                    tokio::task::yield_now().await;
                }
                let attempted = tries[(number + turn) % 4];
                (attempted, attempt(process, order, payment, attempted).await)
            }
        });
        let outcomes = join_all(attempts).await;
        let after = world.order(order.id).await;
        assert_eq!(after.version, 2, "{after:?}");
        let winner = match (after.status, after.cancel_reason) {
            (OrderStatus::Paid, None) => "pay",
            (OrderStatus::Cancelled, Some(CancelReason::Buyer)) => "cancel",
            (OrderStatus::Cancelled, Some(CancelReason::Seller)) => "decline",
            (OrderStatus::Cancelled, Some(CancelReason::Timeout)) => "time out",
            other => panic!("{other:?}"),
        };
        *winners.entry(winner).or_insert(0) += 1;
        let succeeded = |what: fn(&Try) -> bool| {
            outcomes.iter().filter(|(attempted, won)| *won && what(attempted)).count()
        };
        assert_eq!(succeeded(|it| matches!(it, Try::Decline)), usize::from(winner == "decline"));
        assert_eq!(succeeded(|it| matches!(it, Try::Cancel)), usize::from(winner == "cancel"));
        assert_eq!(succeeded(|it| matches!(it, Try::TimeOut)), usize::from(winner == "time out"));
        // Every copy of the gateway's report gets the same answer.
        assert_eq!(succeeded(|it| matches!(it, Try::Pay)), if winner == "pay" { 16 } else { 0 });
        let product = world.product(order.product).await.status;
        let expected = match winner {
            "pay" => ProductStatus::Sold,
            "decline" => ProductStatus::OffShelf,
            _ => ProductStatus::OnSale,
        };
        assert_eq!(product, expected);
        let notified = world.view().await.notifications_about(tenant(), &[order.id]).await.unwrap();
        assert_eq!(notified.len(), usize::from(winner == "decline"));
    }
    assert!(winners.len() > 1, "every race was won by the same command: {winners:?}");
}

#[tokio::test(start_paused = true)]
async fn of_concurrent_shipments_and_declines_of_a_paid_order_one_wins() {
    let mut winners = BTreeMap::new();
    for turn in 0..12 {
        let world = World::new().await;
        let process = world.process();
        let order = process.paid().await;
        let shipment = Shipment::new("SF".into(), "SF-1".into()).unwrap();
        let ships = async {
            for _ in 0..turn % 4 {
                tokio::task::yield_now().await;
            }
            process.app.ordering.ship(&by(SELLER), order.id, shipment).await
        };
        let declines = async {
            for _ in 0..turn / 4 {
                tokio::task::yield_now().await;
            }
            process.app.payments.request_refund(&by(SELLER), decline(order.id, true)).await
        };
        let (shipped, declined) = tokio::join!(ships, declines);
        assert_ne!(shipped.is_ok(), declined.is_ok(), "{shipped:?} {declined:?}");
        let after = world.order(order.id).await;
        assert_eq!(after.version, order.version + 1);
        assert_eq!(after.status == OrderStatus::Shipped, shipped.is_ok());
        assert_eq!(after.running_refund(), declined.ok().map(|refund| refund.id));
        *winners.entry(shipped.is_ok()).or_insert(0) += 1;
    }
    assert_eq!(winners.len(), 2, "every race had the same winner: {winners:?}");
}
