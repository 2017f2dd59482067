//! The events of an order, delivered to a handler in every permutation: after a replay of the parked events, the
//! balances are always the same.

use std::collections::BTreeMap;

use handover_events::*;
use handover_outbox::ports::OutboxRow;
use marketplace_domain::*;

use super::market::{Market, SpentAssets, buyer, operator, points};
use crate::support::{BUYER, TENANT, by};
use marketplace::use_cases::operations::AssetGrant;

fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.len() <= 1 {
        return vec![items.to_vec()];
    }
    let mut result = Vec::new();
    for (at, first) in items.iter().enumerate() {
        let mut rest = items.to_vec();
        rest.remove(at);
        for mut permutation in permutations(&rest) {
            permutation.insert(0, first.clone());
            result.push(permutation);
        }
    }
    result
}

/// An order with all three assets, and four events: its three genuine events and a cancellation that never happened.
async fn order_with_events(market: &Market) -> (Order, Vec<OutboxRow>) {
    market.deposit(5_000).await;
    market
        .app()
        .operations
        .grant_asset(&operator(), buyer(), AssetGrant::Grant(points(300)), None)
        .await
        .unwrap();
    let coupon = market.coupon(1_000).await;
    let order = market.order(SpentAssets { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
    let cancelled = {
        let other = market.order(SpentAssets::default()).await;
        market.app().ordering.cancel(&by(BUYER), other.id).await.unwrap();
        let rows = market.world.rows().await;
        let row = rows.iter().find(|row| row.event_type == "ORDER_CANCELLED").unwrap().clone();
        let payload = row.payload.replace(&other.id.to_string(), &order.id.to_string());
        OutboxRow { payload, aggregate: AggregateRef { id: order.id.get().into(), ..row.aggregate }, ..row }
    };
    // The order is paid and refunded in the database, and no consumer has run.
    let (paid, events) = order.apply(&OrderAction::Pay, OrderActor::Gateway, market.world.now()).unwrap();
    let refund: RefundId = 1.try_into().unwrap();
    let (refunding, _) =
        paid.apply(&OrderAction::BeginRefund { refund }, OrderActor::Buyer, market.world.now()).unwrap();
    let amount = order.payable;
    let refund_action = OrderAction::Refund { refund, amount, cause: RefundCause::Buyer, off_shelf: false };
    let (refunded, more) = refunding.apply(&refund_action, OrderActor::Gateway, market.world.now()).unwrap();
    let mut unit = handover_outbox::ports::Store::begin(&market.world.store).await.unwrap();
    for state in [&paid, &refunding, &refunded] {
        assert_eq!(unit.advance_order(state).await.unwrap(), handover_outbox::ports::Changed::One);
    }
    unit.commit().await.unwrap();
    let created =
        market.world.rows().await.into_iter().find(|row| row.aggregate.id == order.id.get()).unwrap();
    let of = |event: &EventBody, name: &str| OutboxRow {
        event_id: name.parse().unwrap(),
        event_type: event.event_type().as_str().into(),
        payload: event.to_json(),
        ..created.clone()
    };
    let rows = vec![
        created.clone(),
        of(&events[0], "paid"),
        OutboxRow { event_id: "cancelled".parse().unwrap(), ..cancelled },
        of(&more[0], "refunded"),
    ];
    (refunded, rows)
}

async fn final_assets(market: &Market, order: &Order) -> ((i64, i64, i64), (i64, i64, i64), CouponStatus) {
    let coupon = order.assets.coupon.unwrap().id;
    (market.purse(Purse::Wallet).await, market.purse(Purse::Points).await, market.coupon_status(coupon).await)
}

#[tokio::test(start_paused = true)]
async fn events_in_any_sequence_lead_to_the_same_balances_after_a_replay() {
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for asset in Asset::HELD {
        for permutation in permutations(&[0, 1, 2, 3]) {
            let market = Market::new().await;
            let (order, rows) = order_with_events(&market).await;
            let handler = market.asset_consumer(asset).handler;
            let mut parked = Vec::new();
            for at in &permutation {
                for _ in 0..2 {
                    if market.apply_event(&handler, &rows[*at]).await.is_err() && !parked.contains(at) {
                        parked.push(*at);
                    }
                    market.assert_ledger_balanced().await;
                }
            }
            // An operator replays the parked events in the sequence of the rows.
            parked.sort_unstable();
            let mut parked_again = Vec::new();
            for at in parked {
                if market.apply_event(&handler, &rows[at]).await.is_err() {
                    parked_again.push(rows[at].event_type.clone());
                }
            }
            market.assert_ledger_balanced().await;
            assert_eq!(
                final_assets(&market, &order).await,
                ((5_000, 0, 0), (300, 0, 0), CouponStatus::Available),
                "{asset} {permutation:?}"
            );
            let hold = market.world.view().await.holds_of(TENANT, &[order.id]).await.unwrap();
            assert!(
                hold.iter().all(|hold| hold.status != HoldStatus::Frozen),
                "{asset} {permutation:?}: {hold:?}"
            );
            // Payment and cancellation contradict each other: at least one event stays parked.
            assert!(!parked_again.is_empty(), "{asset} {permutation:?}");
            *outcomes.entry(parked_again.join(" ")).or_default() += 1;
        }
    }
    assert_eq!(outcomes.values().sum::<usize>(), 3 * 24, "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn lock_after_its_release_holds_nothing() {
    let market = Market::new().await;
    market.deposit(5_000).await;
    let order = market.order(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    market.app().ordering.cancel(&by(BUYER), order.id).await.unwrap();
    let rows = market.world.rows().await;
    let row = |name: &str| rows.iter().find(|row| row.event_type == name).unwrap();
    let handler = market.asset_consumer(Asset::Wallet).handler;
    market.apply_event(&handler, row("ORDER_CANCELLED")).await.unwrap();
    market.apply_event(&handler, row("ORDER_CREATED")).await.unwrap();
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
    assert_eq!(market.hold_status(order.id, Asset::Wallet).await, Some(HoldStatus::Released));
    assert_eq!(market.keys(order.id).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn commit_without_a_lock_fails_and_earns_no_points() {
    let market = Market::new().await;
    let (_, rows) = order_with_events(&market).await;
    for asset in Asset::HELD {
        let result = market.apply_event(&market.asset_consumer(asset).handler, &rows[1]).await;
        assert!(
            result.as_ref().is_err_and(|why| why.contains("is not locked for this order")),
            "{asset}: {result:?}"
        );
    }
    assert_eq!(market.purse(Purse::Points).await, (300, 0, 0));
}
