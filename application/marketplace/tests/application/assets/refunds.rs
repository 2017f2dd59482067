//! Refunds: requested by buyers and operators, settled once by the report of the gateway.

use handover_outbox::MASK;
use handover_outbox::ports::AuditFilter;
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::market::{Market, SpentAssets, operator};
use crate::support::{BUYER, TENANT, by, money};

fn shipment() -> Shipment {
    Shipment::new("SF".into(), "SF-1".into()).unwrap()
}

fn refund_request(order: OrderId) -> RequestRefund {
    RequestRefund { order, reason: "too small".into(), off_shelf: false }
}

#[tokio::test(start_paused = true)]
async fn refund_returns_money_wallet_points_and_coupon_and_revokes_earned_points() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    market.grant(300).await;
    let coupon = market.coupon(1_000).await;
    let order = market.paid(SpentAssets { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
    let refund = market.refund(&order).await;
    assert_eq!((refund.status, refund.amount), (RefundStatus::Processing, money(5_700)));
    market.report(&refund, RefundResult::Success).await.unwrap();
    market.process_pending().await;
    let order = market.world.order(order.id).await;
    assert_eq!((order.status, order.refund), (OrderStatus::Refunded, Some(refund.id)));
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
    assert_eq!(market.purse(Purse::Points).await, (300, 0, 0));
    assert_eq!(market.coupon_status(coupon).await, CouponStatus::Available);
    assert_eq!(market.world.product(order.product).await.status, ProductStatus::OnSale);
    assert_eq!((market.total(Account::Platform).await, market.total(Account::Gateway).await), (0, -5_000));
    let types: Vec<String> = market.world.rows().await.into_iter().map(|row| row.event_type).collect();
    for name in ["REFUND_SUCCEEDED", "ORDER_REFUNDED"] {
        assert_eq!(types.iter().filter(|it| *it == name).count(), 1, "{name}");
    }
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn earned_points_spent_before_a_refund_become_a_debt_that_is_settled_first() {
    let market = Market::running().await;
    let first = market.paid(SpentAssets::default()).await;
    assert_eq!(market.purse(Purse::Points).await, (88, 0, 0));
    let second = market.paid(SpentAssets { points: 80, ..SpentAssets::default() }).await;
    assert_eq!(market.purse(Purse::Points).await, (8 + 87, 0, 0));
    let third = market.paid(SpentAssets { points: 95, ..SpentAssets::default() }).await;
    assert_eq!(market.purse(Purse::Points).await, (87, 0, 0));
    for order in [&first, &second] {
        let refund = market.refund(order).await;
        market.report(&refund, RefundResult::Success).await.unwrap();
        market.process_pending().await;
    }
    // The buyer has 87 points. The first refund revokes the 88 points that its order earned. The second refund returns
    // the 80 points that its order used and revokes the 87 points that it earned. The remaining debt is 8 points.
    assert_eq!(market.purse(Purse::Points).await, (0, 0, 8));
    market.assert_ledger_balanced().await;
    market.grant(10).await;
    assert_eq!(market.purse(Purse::Points).await, (2, 0, 0));
    assert_eq!(market.world.order(third.id).await.status, OrderStatus::Paid);
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn order_with_a_pending_refund_is_not_shipped_and_a_shipped_order_is_not_refunded() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let refund = market.refund(&order).await;
    let result = market.app().ordering.ship(&Market::seller(), order.id, shipment()).await;
    assert!(matches!(result, Err(UseCaseError::Refused(OrderRefusal::Refunding { .. }))), "{result:?}");
    market.report(&refund, RefundResult::Failed).await.unwrap();
    let order = market.world.order(order.id).await;
    assert_eq!((order.status, order.refund), (OrderStatus::Paid, None));
    market.app().ordering.ship(&Market::seller(), order.id, shipment()).await.unwrap();
    let result = market.app().payments.request_refund(&by(BUYER), refund_request(order.id)).await;
    assert!(
        matches!(
            result,
            Err(UseCaseError::Refused(RefundCommandRefusal::Order(OrderRefusal::WrongStatus { .. })))
        ),
        "{result:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn refund_requested_twice_is_started_once_and_again_only_after_a_failure() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let first = market.refund(&order).await;
    let again = market.app().payments.request_refund(&operator(), refund_request(order.id)).await.unwrap();
    // The reason that the buyer wrote is masked for an operator without the role `pii`.
    assert_eq!(again, Refund { reason: MASK.to_owned(), ..first.clone() });
    market.report(&first, RefundResult::Failed).await.unwrap();
    let second = market.app().payments.request_refund(&operator(), refund_request(order.id)).await.unwrap();
    assert_ne!(second.id, first.id);
    assert_eq!((second.cause, second.status), (RefundCause::Operator, RefundStatus::Processing));
    // The audit log contains both calls of the operator; the first call found the refund of the buyer and changed
    // nothing.
    let entries =
        market.world.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 10).await.unwrap();
    let refunds: Vec<_> = entries.iter().filter(|entry| entry.effect.action == "refund.request").collect();
    let [entry, unchanged] = refunds.as_slice() else { panic!("{entries:?}") };
    assert_eq!((entry.effect.changed, unchanged.effect.changed), (1, 0));
    assert_eq!(entry.effect.selection, format!(r#"{{"orderId":{}}}"#, order.id));
    assert_eq!(entry.effect.reason.as_deref(), Some(refund_request(order.id).reason.as_str()));
    market.report(&second, RefundResult::Success).await.unwrap();
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Refunded);
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn refund_request_of_another_user_is_refused() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let other_user = market.app().payments.request_refund(&by(77), refund_request(order.id)).await;
    assert!(matches!(other_user, Err(UseCaseError::NotFound { what: "order" })), "{other_user:?}");
}

#[tokio::test(start_paused = true)]
async fn payment_after_the_cancellation_is_refunded_once() {
    let market = Market::running().await;
    let order = market.locked(SpentAssets::default()).await;
    let payment = market.process.started_payment(order.id).await;
    market.app().ordering.cancel(&by(BUYER), order.id).await.unwrap();
    for _ in 0..2 {
        let settled = market.process.settle(&payment, PaymentResult::Success).await.unwrap();
        assert!(settled.refund_due);
    }
    let refunds = market.world.view().await.refunds_of(TENANT, &[order.id]).await.unwrap();
    let [refund] = refunds.as_slice() else { panic!("{refunds:?}") };
    assert_eq!((refund.cause, refund.amount), (RefundCause::LatePayment, payment.amount));
    market.report(refund, RefundResult::Failed).await.unwrap();
    let again = market.app().payments.request_refund(&operator(), refund_request(order.id)).await.unwrap();
    assert_eq!((again.payment, again.amount), (payment.id, payment.amount));
    market.report(&again, RefundResult::Success).await.unwrap();
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Cancelled);
    let result = market.app().payments.request_refund(&operator(), refund_request(order.id)).await;
    assert!(
        matches!(
            result,
            Err(UseCaseError::Refused(RefundCommandRefusal::Order(OrderRefusal::WrongStatus { .. })))
        ),
        "{result:?}"
    );
    assert_eq!(market.total(Account::Gateway).await, 0);
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn refund_without_a_money_amount_succeeds_at_once() {
    let market = Market::running().await;
    market.deposit(8_850).await;
    let order = market.paid(SpentAssets { wallet: 8_850, ..SpentAssets::default() }).await;
    let refund = market.refund(&order).await;
    assert_eq!((refund.status, refund.amount), (RefundStatus::Success, Money::ZERO));
    market.process_pending().await;
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Refunded);
    assert_eq!(market.purse(Purse::Wallet).await, (8_850, 0, 0));
    market.assert_ledger_balanced().await;
}
