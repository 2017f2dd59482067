//! Events are delivered only to the consumers of assets that have work with them.

use handover_outbox::RelaySettings;
use marketplace::consumers::{COUPON_QUEUE, POINTS_QUEUE, WALLET_QUEUE};
use marketplace_domain::*;

use super::market::{Market, SpentAssets};
use crate::support::{BUYER, by, pass, secs};

/// Numbers of messages in the queues of coupons, wallets and points.
async fn queued(market: &Market) -> [u64; 3] {
    let mut queued = [0; 3];
    for (queued, queue) in queued.iter_mut().zip([COUPON_QUEUE, WALLET_QUEUE, POINTS_QUEUE]) {
        *queued = market.world.depth(queue).await.ready;
    }
    queued
}

#[tokio::test(start_paused = true)]
async fn order_is_delivered_to_the_consumers_of_the_assets_that_it_uses() {
    let market = Market::new().await;
    marketplace::service::prepare(market.app()).await.unwrap();
    market.process.start_relay("relay", RelaySettings::default());
    market.deposit(5_000).await;
    market.grant(500).await;
    let coupon = market.coupon(500).await;
    let mut expected = [0; 3];
    for (assets, added) in [
        (SpentAssets::default(), [0, 0, 0]),
        (SpentAssets { wallet: 100, ..SpentAssets::default() }, [0, 1, 0]),
        (SpentAssets { points: 10, ..SpentAssets::default() }, [0, 0, 1]),
        (SpentAssets { coupon: Some(coupon), wallet: 100, points: 10 }, [1, 1, 1]),
    ] {
        let order = market.order(assets).await;
        market.app().ordering.cancel(&by(BUYER), order.id).await.unwrap();
        pass(secs(1)).await;
        // The creation and the cancellation.
        expected.iter_mut().zip(added).for_each(|(expected, added)| *expected += 2 * added);
        assert_eq!(queued(&market).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn payment_and_refund_are_delivered_to_the_consumer_of_points_of_every_order() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    pass(secs(1)).await;
    let earned = market.purse(Purse::Points).await.0;
    assert!(earned > 0);
    let refund = market.refund(&order).await;
    market.report(&refund, RefundResult::Success).await.unwrap();
    pass(secs(1)).await;
    assert_eq!(market.purse(Purse::Points).await.0, 0);
    let mut of_order = market.world.rows().await;
    of_order.retain(|row| row.aggregate.kind == "Order" && row.event_type != "ORDER_TIMEOUT");
    for row in of_order {
        let has_work = row.event_type != "ORDER_CREATED";
        let recorded = market.world.log_status("points", row.event_id.as_str()).await.is_some();
        assert_eq!((recorded, row.idle_consumers.contains("points")), (has_work, !has_work), "{row:?}");
    }
}
