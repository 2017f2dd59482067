//! Products and the orders that occupy them.

use marketplace::use_cases::operations::*;
use marketplace::use_cases::*;
use marketplace_domain::*;

use super::{
    LOSER, assert_found, assert_repaired, reconcile_last_second, rows_of, run_reconciliation, set_product,
};
use crate::assets::market::{Market, SpentAssets};
use crate::support::{BUYER, by};

#[tokio::test(start_paused = true)]
async fn product_of_live_order_that_is_not_sold_is_found_and_marked_sold() {
    let market = Market::running().await;
    let pending = market.locked(SpentAssets::default()).await;
    let paid = market.paid(SpentAssets::default()).await;
    let shipped = market.paid(SpentAssets::default()).await;
    let shipment = Shipment::new("SF".into(), "1".into()).unwrap();
    market.app().ordering.ship(&Market::seller(), shipped.id, shipment).await.unwrap();
    market.process_pending().await;
    assert_found(&market, &[]).await;
    set_product(&market, pending.product, ProductStatus::OnSale).await;
    set_product(&market, paid.product, ProductStatus::OffShelf).await;
    set_product(&market, shipped.product, ProductStatus::OnSale).await;
    let kind = FindingKind::ProductNotSold;
    let orders = [Some(pending.id), Some(paid.id), Some(shipped.id)];
    assert_found(&market, &orders.map(|order| (kind, order))).await;
    assert_repaired(&market, &orders.map(|order| (kind, order, Some(Repair::ProductSold)))).await;
    for order in [&pending, &paid, &shipped] {
        assert_eq!(market.world.product(order.product).await.status, ProductStatus::Sold);
    }
    assert_repaired(&market, &[]).await;
}

/// The assets of an order and the reports of the gateway do not wait for the correction of its product.
#[tokio::test(start_paused = true)]
async fn order_whose_product_is_not_sold_is_cancelled_or_refunded_and_its_product_stays_as_it_is() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    for status in [ProductStatus::OnSale, ProductStatus::OffShelf] {
        let assets = SpentAssets { wallet: 1_000, ..SpentAssets::default() };
        let cancelled = market.locked(assets).await;
        set_product(&market, cancelled.product, status).await;
        market.app().ordering.cancel(&by(BUYER), cancelled.id).await.unwrap();
        let refunded = market.paid(assets).await;
        let refund = market.refund(&refunded).await;
        set_product(&market, refunded.product, status).await;
        market.report(&refund, RefundResult::Success).await.unwrap();
        market.process_pending().await;
        assert_eq!(market.world.order(cancelled.id).await.status, OrderStatus::Cancelled);
        assert_eq!(market.world.order(refunded.id).await.status, OrderStatus::Refunded);
        for order in [&cancelled, &refunded] {
            assert_eq!(market.world.product(order.product).await.status, status);
        }
    }
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
    assert_found(&market, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn product_that_is_on_sale_during_its_order_leaves_the_shelf_if_the_seller_says_so() {
    let market = Market::running().await;
    let order = market.locked(SpentAssets::default()).await;
    set_product(&market, order.product, ProductStatus::OnSale).await;
    let decline = CancelOrder { order: order.id, off_shelf: true };
    market.app().ordering.cancel(&Market::seller(), decline).await.unwrap();
    assert_eq!(market.world.product(order.product).await.status, ProductStatus::OffShelf);
}

#[tokio::test(start_paused = true)]
async fn product_of_old_order_that_is_on_sale_is_found_outside_the_window() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    set_product(&market, order.product, ProductStatus::OnSale).await;
    let report = reconcile_last_second(&market).await;
    assert_eq!(report.orders, 0);
    assert_eq!(rows_of(&report), [(FindingKind::ProductNotSold, Some(order.id), None)]);
}

#[tokio::test(start_paused = true)]
async fn product_sold_twice_is_found_and_an_operator_decides() {
    let market = Market::running().await;
    let first = market.paid(SpentAssets::default()).await;
    set_product(&market, first.product, ProductStatus::OnSale).await;
    let second = market.app().ordering.place(&by(LOSER), PlaceOrder::of(first.product)).await.unwrap();
    market.process_pending().await;
    for _ in 0..2 {
        assert_repaired(&market, &[(FindingKind::SoldTwice, Some(second.id), None)]).await;
    }
    let found = run_reconciliation(&market, false).await.findings.remove(0);
    assert!(found.what.contains(&format!("{}, {}", first.id, second.id)), "{}", found.what);
    // The cancellation of the second order puts the product on sale, although the first order still occupies it.
    market.app().ordering.cancel(&by(LOSER), second.id).await.unwrap();
    market.process_pending().await;
    let repaired = (FindingKind::ProductNotSold, Some(first.id), Some(Repair::ProductSold));
    assert_repaired(&market, &[repaired]).await;
    assert_found(&market, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn sold_product_without_an_order_is_found_and_stays_off_sale() {
    let market = Market::running().await;
    let cancelled = market.locked(SpentAssets::default()).await;
    market.app().ordering.cancel(&by(BUYER), cancelled.id).await.unwrap();
    let never_ordered = market.process.listed().await;
    market.process_pending().await;
    assert_found(&market, &[]).await;
    for product in [cancelled.product, never_ordered.id] {
        set_product(&market, product, ProductStatus::Sold).await;
    }
    let report = run_reconciliation(&market, true).await;
    let mut keys: Vec<_> = report.findings.iter().map(|it| it.key.clone().unwrap()).collect();
    keys.sort();
    assert_eq!(keys, [cancelled.product, never_ordered.id].map(|id| format!("product:{id}")));
    assert_eq!(rows_of(&report), [(FindingKind::SoldWithoutOrder, None, None)]);
    assert_eq!(market.world.product(cancelled.product).await.status, ProductStatus::Sold);
}

#[tokio::test(start_paused = true)]
async fn product_of_order_without_listing_change_is_not_a_finding() {
    // No consumer runs, so that no listing change leads from the product to its order.
    let market = Market::new().await;
    marketplace::service::prepare(market.app()).await.unwrap();
    market.order(SpentAssets::default()).await;
    let report = reconcile_last_second(&market).await;
    assert_eq!((report.orders, report.findings.as_slice()), (0, &[][..]));
}
