//! Business facts: a second event of a fact has no effect, an event that the order contradicts is parked,
//! and a stale event is recorded without effect.

use std::collections::BTreeSet;

use handover_events::*;
use handover_outbox::consumers::ALREADY_APPLIED;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace::service;
use marketplace::use_cases::operations::{Finding, FindingKind};
use marketplace_domain::*;

use crate::assets::market::{Market, SpentAssets};
use crate::assets::reconciliation::run_reconciliation;
use crate::support::{BUYER, SELLER, TENANT, by, event_id, pass, secs};

/// Returns an outbox row as an operator inserts it with SQL: it has values only for the columns of document 000.
fn manual_row(id: &str, row: &OutboxRow) -> NewEvent {
    NewEvent {
        event_id: event_id(id),
        event_type: row.event_type.clone(),
        aggregate: row.aggregate.clone(),
        aggregate_seq: Some(0),
        payload: row.payload.clone(),
        metadata: EventMetadata::default(),
        occurred_at: row.create_time,
        max_retry_count: 3,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

/// Returns the effects, asset operations, balances and credit of all orders and users as text.
async fn effects_and_balances(market: &Market) -> Vec<String> {
    let mut view = market.world.view().await;
    let orders: Vec<OrderId> = (1..200).map(|id| id.try_into().unwrap()).collect();
    let mut found = Vec::new();
    for kind in EffectKind::ALL {
        let effects = view.effects_of(kind, TENANT, &orders).await.unwrap();
        found.extend(effects.into_iter().map(|it| format!("{kind:?} {} {}", it.order, it.fact)));
    }
    for order in orders {
        let operations = view.operations_of(TENANT, &[order]).await.unwrap();
        found.extend(operations.into_iter().map(|it| format!("{} {}", it.key, it.amount)));
    }
    let buyer = BUYER.try_into().unwrap();
    for purse in [Purse::Wallet, Purse::Points] {
        let balance = view.balance_of(TENANT, buyer, purse).await.unwrap();
        found.push(format!("{:?}", balance.map(|it| (it.available, it.frozen, it.debt))));
    }
    let credit = view.credit_of(TENANT, buyer).await.unwrap().unwrap();
    found.push(format!("{:?} {}", credit.counts, credit.score));
    found.sort();
    found
}

#[tokio::test(start_paused = true)]
async fn second_event_of_each_fact_is_recorded_as_already_applied_and_has_no_effect() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    market.grant(500).await;
    let coupon = market.coupon(100).await;
    let completed = market.paid(SpentAssets { wallet: 2_000, points: 30, coupon: Some(coupon) }).await;
    let shipment = Shipment::new("SF".into(), "SF1".into()).unwrap();
    market.app().ordering.ship(&by(SELLER), completed.id, shipment).await.unwrap();
    market.app().ordering.complete(&by(BUYER), completed.id).await.unwrap();
    let refunded = market.paid(SpentAssets { wallet: 500, points: 20, ..SpentAssets::default() }).await;
    let refund = market.refund(&refunded).await;
    market.report(&refund, RefundResult::Success).await.unwrap();
    let cancelled = market.locked(SpentAssets { wallet: 100, points: 10, ..SpentAssets::default() }).await;
    market.app().ordering.cancel(&by(BUYER), cancelled.id).await.unwrap();
    pass(secs(120)).await;
    let before = effects_and_balances(&market).await;

    let rows = market.world.rows().await;
    let unordered = market.app().outbox.registry.unordered();
    let is_of_order =
        |row: &&OutboxRow| row.aggregate.kind == "Order" && unordered.is_ordered(&row.event_type);
    let of_orders: Vec<&OutboxRow> = rows.iter().filter(is_of_order).collect();
    let again: Vec<NewEvent> =
        (0..).zip(&of_orders).map(|(n, row)| manual_row(&format!("manual-{n}"), row)).collect();
    market.process.commit(again.clone()).await;
    pass(secs(120)).await;

    assert_eq!(effects_and_balances(&market).await, before);
    let ids: Vec<EventId> = again.iter().map(|event| event.event_id.clone()).collect();
    let records = market.world.view().await.outbox_view().consumed_of(&ids).await.unwrap();
    let mut already = BTreeSet::new();
    for record in &records {
        assert_eq!(record.record.status, ConsumeStatus::Success, "{record:?}");
        let result = record.consume_result.as_deref().unwrap();
        if result == ALREADY_APPLIED {
            already.insert((record.consumer.as_str(), record.event_type.as_str()));
            assert!(record.idempotency_key.is_some(), "{record:?}");
        }
    }
    let expected = [
        ("buyer-credit", "ORDER_CANCELLED"),
        ("buyer-credit", "ORDER_STATUS_CHANGED"),
        ("coupon", "ORDER_CREATED"),
        ("coupon", "ORDER_PAID"),
        ("fulfillment", "ORDER_PAID"),
        ("inventory", "ORDER_CANCELLED"),
        ("inventory", "ORDER_CREATED"),
        ("inventory", "ORDER_REFUNDED"),
        ("points", "ORDER_CANCELLED"),
        ("points", "ORDER_CREATED"),
        ("points", "ORDER_PAID"),
        ("points", "ORDER_REFUNDED"),
        ("status-sync", "ORDER_STATUS_CHANGED"),
        ("wallet", "ORDER_CANCELLED"),
        ("wallet", "ORDER_CREATED"),
        ("wallet", "ORDER_PAID"),
        ("wallet", "ORDER_REFUNDED"),
    ];
    assert_eq!(already.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(market.world.dead_letters().await, []);
    assert_eq!(run_reconciliation(&market, false).await.findings, []);
}

#[tokio::test(start_paused = true)]
async fn event_that_the_order_contradicts_is_parked_at_once_and_has_no_effect() {
    let market = Market::running().await;
    let pending = market.order(SpentAssets::default()).await;
    let paid = market.paid(SpentAssets::default()).await;
    pass(secs(60)).await;
    let before = effects_of_orders(&market, &[pending.id, paid.id]).await;

    let at = market.world.now();
    let facts = |order: &Order| order.facts();
    let is_paid = |order: OrderFacts, of: &Order| {
        EventBody::OrderPaid(OrderPaid { order, pay_time: at, amount: of.payable, product: of.product })
    };
    let absent = OrderFacts { order_id: 9_999.try_into().unwrap(), ..facts(&paid) };
    let forged = OrderFacts { seller_id: 77.try_into().unwrap(), ..facts(&paid) };
    let status_changed = EventBody::OrderStatusChanged(OrderStatusChanged {
        order: facts(&pending),
        old_status: OrderStatus::Paid,
        new_status: OrderStatus::Shipped,
        changed_at: at,
    });
    let cancelled = EventBody::OrderCancelled(OrderCancelled {
        order: facts(&paid),
        reason: CancelReason::Timeout,
        cancelled_at: at,
        product: paid.product,
    });
    let refunded = EventBody::OrderRefunded(OrderRefunded {
        order: facts(&paid),
        refund: 5.try_into().unwrap(),
        amount: paid.payable,
        refunded_at: at,
        product: paid.product,
    });
    let cases = [
        ("pending", is_paid(facts(&pending), &pending), "the order is pending and was never paid"),
        ("absent", is_paid(absent, &paid), "order 9999 does not exist"),
        ("forged", is_paid(forged, &paid), "sellerId is 77 in the event and 20 in the order"),
        ("shipped", status_changed, "the order is pending and was never shipped"),
        ("cancelled", cancelled, "the order is paid and was never cancelled"),
        ("refunded", refunded, "the order is paid and was never refunded"),
    ];
    market.process.commit(cases.iter().map(|(id, body, _)| market.world.event(id, 0, body)).collect()).await;
    pass(secs(60)).await;

    let dead_letters = market.world.dead_letters().await;
    for (id, body, reason) in &cases {
        let event_type = body.event_type();
        for subscriber in market.app().subscribers() {
            let name = subscriber.name();
            if !subscriber.event_types().contains(&event_type.as_str()) {
                continue;
            }
            let record = market.world.log(name, id).await.unwrap();
            assert_eq!((record.status, record.attempts), (ConsumeStatus::Dead, 1), "{name} and {id}");
            let is_this = |it: &&DeadLetter| it.key == *id && it.queue == subscriber.queue;
            let dead_letter =
                dead_letters.iter().find(is_this).unwrap_or_else(|| panic!("{name} did not park {id}"));
            assert!(dead_letter.reason.contains(reason), "{}", dead_letter.reason);
        }
    }
    assert_eq!(effects_of_orders(&market, &[pending.id, paid.id]).await, before);
    assert_eq!(run_reconciliation(&market, false).await.findings, []);
}

/// The effects of these orders, and of order 9999, which does not exist.
async fn effects_of_orders(market: &Market, orders: &[OrderId]) -> Vec<EffectOfFact> {
    let mut view = market.world.view().await;
    let orders: Vec<OrderId> = orders.iter().copied().chain([9_999.try_into().unwrap()]).collect();
    let mut found = Vec::new();
    for kind in EffectKind::ALL {
        found.extend(view.effects_of(kind, TENANT, &orders).await.unwrap());
    }
    found
}

#[tokio::test(start_paused = true)]
async fn late_event_has_only_the_effects_that_the_order_status_allows() {
    let market = Market::new().await;
    service::prepare(market.app()).await.unwrap();
    let cancelled = market.process.ordered().await;
    market.app().ordering.cancel(&by(BUYER), cancelled.id).await.unwrap();
    let refunded = market.process.paid().await;
    let refund = market.refund(&refunded).await;
    market.report(&refund, RefundResult::Success).await.unwrap();
    let completed = market.process.paid().await;
    let shipment = Shipment::new("SF".into(), "SF1".into()).unwrap();
    market.app().ordering.ship(&by(SELLER), completed.id, shipment).await.unwrap();
    market.app().ordering.complete(&by(BUYER), completed.id).await.unwrap();
    market.start().await;
    pass(secs(120)).await;

    let rows = market.world.rows().await;
    let result = async |consumer: &str, order: OrderId, event_type: &str, status: &str| -> String {
        let is = |row: &&OutboxRow| {
            row.aggregate.id == order.get() && row.event_type == event_type && row.payload.contains(status)
        };
        let event = rows.iter().find(is).unwrap().event_id.clone();
        let records = market.world.view().await.outbox_view().consumed_of(&[event]).await.unwrap();
        let record = records.into_iter().find(|it| it.consumer == consumer).unwrap();
        assert_eq!(record.record.status, ConsumeStatus::Success);
        record.consume_result.unwrap()
    };
    let stale = [
        ("inventory", cancelled.id, "ORDER_CREATED", "stale: the order is cancelled"),
        ("inventory", refunded.id, "ORDER_CREATED", "stale: the order is refunded"),
        ("fulfillment", refunded.id, "ORDER_PAID", "stale: the order is refunded"),
    ];
    let current = [
        ("inventory", cancelled.id, "ORDER_CANCELLED", "released"),
        ("inventory", completed.id, "ORDER_CREATED", "occupied"),
        ("fulfillment", completed.id, "ORDER_PAID", "shipment task opened"),
        ("buyer-credit", cancelled.id, "ORDER_CANCELLED", "counted as CANCELLED_BY_BUYER"),
    ];
    for (consumer, order, event_type, expected) in stale.into_iter().chain(current) {
        let result = result(consumer, order, event_type, "").await;
        assert_eq!(result, expected, "{consumer} and {event_type}");
    }
    let shipped =
        result("status-sync", completed.id, "ORDER_STATUS_CHANGED", "\"newStatus\":\"shipped\"").await;
    assert_eq!(shipped, "buyer and seller notified");
    assert_eq!(run_reconciliation(&market, false).await.findings, []);
}

#[tokio::test(start_paused = true)]
async fn event_repeated_after_the_loss_of_its_success_record_is_parked() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let order = market.paid(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    pass(secs(60)).await;
    let before = effects_of_orders(&market, &[order.id]).await;
    let rows = market.world.rows().await;
    let paid = rows.iter().find(|row| row.event_type == "ORDER_PAID").unwrap();
    // Simulates a consume log that lost its SUCCESS records.
    for consumer in ["fulfillment", "wallet"] {
        let record = market.world.log(consumer, paid.event_id.as_str()).await.unwrap();
        let lost_record = Consumption {
            consumer: consumer.into(),
            event_id: paid.event_id.clone(),
            event_type: paid.event_type.clone(),
            aggregate: paid.aggregate.clone(),
            aggregate_seq: paid.aggregate_seq,
            expected: Expected::At(record.status, record.attempts),
            status: ConsumeStatus::Failed,
            attempts: 0,
            next_retry_time: Some(market.world.now()),
            lease_until: None,
            error_message: None,
            idempotency_key: None,
            consume_result: None,
            payload_hash: "0".into(),
            trace_id: "t".into(),
            cost_ms: 0,
            consume_time: market.world.now(),
        };
        let mut unit = market.world.store.begin().await.unwrap();
        unit.outbox().record(&[lost_record]).await.unwrap();
        unit.commit().await.unwrap();
    }
    pass(secs(300)).await;
    for consumer in ["fulfillment", "wallet"] {
        let record = market.world.log(consumer, paid.event_id.as_str()).await.unwrap();
        assert_eq!(record.status, ConsumeStatus::Dead, "{consumer}");
        assert!(record.error_message.unwrap().contains("has taken effect before"), "{consumer}");
    }
    assert_eq!(market.world.dead_letters().await.len(), 2);
    assert_eq!(effects_of_orders(&market, &[order.id]).await, before);
}

#[tokio::test(start_paused = true)]
async fn effect_without_its_fact_is_a_finding() {
    let market = Market::running().await;
    let pending = market.order(SpentAssets::default()).await;
    pass(secs(60)).await;
    let task = |order: OrderId, event: &str| NewShipmentTask {
        tenant: TENANT,
        order,
        seller: SELLER.try_into().unwrap(),
        buyer: BUYER.try_into().unwrap(),
        aggregate_seq: 2,
        event_id: event_id(event),
        at: market.world.now(),
    };
    let absent = 9_999.try_into().unwrap();
    let mut unit = market.world.store.begin().await.unwrap();
    unit.open_shipments(&[task(pending.id, "of-pending"), task(absent, "of-absent")]).await.unwrap();
    unit.commit().await.unwrap();
    let findings = run_reconciliation(&market, false).await.findings;
    let flat = |it: &Finding| (it.kind, it.order, it.what.clone());
    let expected = [
        (pending.id, "table shipments contains an effect of kind SHIPMENT, but the order is pending"),
        (absent, "table shipments contains an effect of kind SHIPMENT, but the order does not exist"),
    ];
    let expected =
        expected.map(|(order, what)| (FindingKind::EffectWithoutFact, Some(order), what.to_owned()));
    assert_eq!(findings.iter().map(flat).collect::<Vec<_>>(), expected);
}
