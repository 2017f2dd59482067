//! Events of several orders, applied in different sequences, as after a redrive or a replay.

use chrono::DateTime;
use handover_outbox::consumers::Event;
use marketplace::ports::*;
use marketplace_domain::*;

use crate::support::{BUYER, TENANT, World, sample};

/// The order of a sample event, in the state after the event.
fn order(body: &EventBody) -> Order {
    let facts = body.order().unwrap().clone();
    let at = DateTime::UNIX_EPOCH;
    let cancel_reason = if let EventBody::OrderCancelled(body) = body { Some(body.reason) } else { None };
    let status = if cancel_reason.is_some() { OrderStatus::Cancelled } else { OrderStatus::Shipped };
    Order {
        id: facts.order_id,
        order_no: facts.order_no,
        tenant: TENANT,
        product: (facts.order_id.get() + 1_000).try_into().unwrap(),
        buyer: facts.buyer_id,
        seller: facts.seller_id,
        status,
        cancel_reason,
        total: facts.total_amount,
        assets: OrderAssets::NONE,
        payable: facts.total_amount,
        refund: None,
        shipment: Some(Shipment::new("SF".into(), "SF1".into()).unwrap()),
        version: 3,
        create_time: at,
        pay_time: Some(at),
        complete_time: (status == OrderStatus::Completed).then_some(at),
        update_time: at,
    }
}

fn cancelled(order: i64, reason: CancelReason) -> EventBody {
    let EventBody::OrderCancelled(body) = sample::cancelled(order) else { unreachable!("it is cancelled") };
    EventBody::OrderCancelled(OrderCancelled { reason, ..body })
}

/// Results of `status-sync` and `buyer-credit` after the events were applied in this sequence, each in its own unit of
/// work.
async fn results_after(sequence: [usize; 5]) -> (Vec<Notification>, CreditCounts, u32) {
    let bodies = [
        sample::changed(7),
        sample::changed(8),
        cancelled(9, CancelReason::Timeout),
        cancelled(10, CancelReason::Buyer),
        cancelled(11, CancelReason::AssetLockFailed),
    ];
    let world = World::new().await;
    let process = world.process();
    let mut unit = process.app.tx.begin().await.unwrap();
    for body in &bodies {
        unit.insert_order(&order(body)).await.unwrap();
    }
    unit.commit().await.unwrap();
    let numbered = || (1..).zip(&bodies);
    process.commit(numbered().map(|(n, body)| world.event(&format!("e-{n}"), n, body)).collect()).await;
    let rows = world.rows().await;
    for subscriber in process.app.subscribers() {
        if !["status-sync", "buyer-credit"].contains(&subscriber.name()) {
            continue;
        }
        for at in sequence {
            let event = Event::of(&rows[at]).unwrap();
            if subscriber.event_types().contains(&event.row.event_type.as_str()) {
                let mut unit = process.app.tx.begin().await.unwrap();
                subscriber.handler.apply(unit.as_mut(), &[event]).await.unwrap();
                unit.commit().await.unwrap();
            }
        }
    }
    let mut view = world.view().await;
    let mut notifications = Vec::new();
    for order in 7..=11 {
        notifications.extend(view.notifications_about(TENANT, &[order.try_into().unwrap()]).await.unwrap());
    }
    let credit = view.credit_of(TENANT, BUYER.try_into().unwrap()).await.unwrap().unwrap();
    (notifications, credit.counts, credit.score)
}

#[tokio::test(start_paused = true)]
async fn results_of_status_sync_and_buyer_credit_do_not_depend_on_the_sequence_of_events() {
    let timely = results_after([0, 1, 2, 3, 4]).await;
    let (notifications, counts, score) = &timely;
    assert_eq!(notifications.len(), 4, "expected notifications to the buyer and to the seller of two orders");
    assert_eq!((counts.cancelled_by_timeout, counts.cancelled_by_buyer), (1, 1));
    assert_eq!(*score, 93, "a cancellation after a refused lock must not change the score");
    for sequence in [[4, 3, 2, 1, 0], [1, 0, 4, 3, 2], [3, 4, 0, 2, 1]] {
        assert_eq!(results_after(sequence).await, timely, "{sequence:?}");
    }
}
