//! Findings of a reconciliation, and their repair.

use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use handover_events::*;
use handover_outbox::ports::{AuditFilter, Changed, DeadLetter, DeadLetterStatus, Expected, Store};
use marketplace::use_cases::operations::*;
use marketplace_domain::*;

use super::market::{Market, SpentAssets, operator};
use crate::support::{BUYER, TENANT, by, message, pass, secs};

pub(crate) async fn run_reconciliation(market: &Market, repair: bool) -> Reconciliation {
    let now = market.world.now();
    let command = Reconcile {
        tenant: None,
        since: now - TimeDelta::hours(24),
        until: now + TimeDelta::seconds(1),
        grace: Duration::from_secs(60),
        repair,
        reason: None,
    };
    market.app().operations.reconcile(&operator().operator().unwrap(), command).await.unwrap()
}

/// A market with a paid, a refunded and a cancelled order, and an order whose lock was refused. All events are older
/// than the grace period. Returns the paid order.
pub(super) async fn market_with_history() -> (Market, Order) {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let order = market.paid(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    let refunded = market.paid(SpentAssets { wallet: 500, points: 20, ..SpentAssets::default() }).await;
    let refund = market.refund(&refunded).await;
    market.report(&refund, RefundResult::Success).await.unwrap();
    let cancelled = market.locked(SpentAssets { wallet: 100, ..SpentAssets::default() }).await;
    market.app().ordering.cancel(&by(BUYER), cancelled.id).await.unwrap();
    // The amount exceeds the balance: the lock is refused, and the order is closed.
    market.order(SpentAssets { wallet: 5_000, points: 10, ..SpentAssets::default() }).await;
    pass(secs(120)).await;
    (market, order)
}

#[tokio::test(start_paused = true)]
async fn consistent_market_has_no_findings() {
    let (market, _) = market_with_history().await;
    let report = run_reconciliation(&market, false).await;
    assert_eq!(report.findings, []);
    // Only the timeout events are pending.
    assert_eq!((report.orders, report.pending, report.parked), (4, 4, 0), "{report:?}");
    assert!(
        report.is_sound() && report.events > 10 && report.confirmed == report.events && report.effects > 10,
        "{report:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn pending_event_is_not_a_finding() {
    let market = Market::running().await;
    market.order(SpentAssets::default()).await;
    let report = run_reconciliation(&market, false).await;
    assert_eq!((report.findings.as_slice(), report.orders, report.events), (&[][..], 1, 2));
    assert!(report.pending > 0);
}

#[tokio::test(start_paused = true)]
async fn order_changed_without_an_event_is_found_and_its_event_appended() {
    let (market, order) = market_with_history().await;
    let shipment = Shipment::new("SF".into(), "1".into()).unwrap();
    let (shipped, _) =
        order.apply(&OrderAction::Ship(shipment), OrderActor::Seller, market.world.now()).unwrap();
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.advance_order(&shipped).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    let report = run_reconciliation(&market, false).await;
    assert_eq!(report.count(FindingKind::MissingEvent), 1, "{report:?}");
    assert_eq!(report.findings[0].order, Some(order.id));
    assert!(!report.is_sound());
    let report = run_reconciliation(&market, true).await;
    assert_eq!(report.findings[0].repair, Some(Repair::Announced));
    pass(secs(120)).await;
    assert_eq!(run_reconciliation(&market, false).await.findings, []);
    let notifications = market.world.view().await.notifications_about(TENANT, &[order.id]).await.unwrap();
    assert_eq!(notifications.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn recently_confirmed_event_without_a_record_is_not_a_finding() {
    let (market, _) = market_with_history().await;
    let recent = market.process.ordered().await;
    // The row becomes SENT before the relay publishes it, as if the broker had lost the message after its confirm.
    let id = market
        .world
        .rows()
        .await
        .into_iter()
        .find(|row| row.aggregate.id == recent.id.get())
        .unwrap()
        .event_id;
    market.world.mark_sent_without_message(&[id.as_str()]).await;
    let report = run_reconciliation(&market, false).await;
    assert_eq!(report.findings, [], "expected no finding, because the message may still arrive");
}

#[tokio::test(start_paused = true)]
async fn consumed_event_without_its_effect_is_found_and_applied_again() {
    // The consume-log record is SUCCESS, but the effect is missing.
    let market = Market::new().await;
    marketplace::service::prepare(market.app()).await.unwrap();
    let order = market.process.paid().await;
    let paid = market.world.rows().await.into_iter().rfind(|row| row.event_type == "ORDER_PAID").unwrap();
    let mut unit = market.world.store.begin().await.unwrap();
    let false_record = handover_outbox::ports::Consumption {
        consumer: "fulfillment".into(),
        event_id: paid.event_id.clone(),
        event_type: paid.event_type.clone(),
        aggregate: paid.aggregate.clone(),
        aggregate_seq: paid.aggregate_seq,
        expected: Expected::Absent,
        status: ConsumeStatus::Success,
        attempts: 1,
        next_retry_time: None,
        lease_until: None,
        error_message: None,
        idempotency_key: None,
        consume_result: None,
        payload_hash: "0".into(),
        trace_id: "t".into(),
        cost_ms: 0,
        consume_time: market.world.now(),
    };
    unit.outbox().record(&[false_record]).await.unwrap();
    unit.commit().await.unwrap();
    market.start().await;
    pass(secs(120)).await;
    let report = run_reconciliation(&market, false).await;
    let kinds: Vec<_> = report.findings.iter().map(|it| (it.kind, it.consumer.clone())).collect();
    assert_eq!(kinds, [(FindingKind::MissingEffect, Some("fulfillment".to_owned()))]);
    assert_eq!(report.findings[0].event_id, Some(paid.event_id.clone()));
    assert_eq!(run_reconciliation(&market, true).await.findings[0].repair, Some(Repair::Reapplied));
    pass(secs(120)).await;
    let tasks = market.world.view().await.shipment_tasks(TENANT, &[order.id]).await.unwrap();
    assert_eq!(tasks.len(), 1);
    assert_eq!(run_reconciliation(&market, false).await.findings, []);
    let entries =
        market.world.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 10).await.unwrap();
    let calls: Vec<_> = entries
        .iter()
        .map(|entry| (entry.effect.action.as_str(), entry.effect.matched, entry.effect.changed))
        .collect();
    let read = |found| ("reconciliation.read", found, 0);
    let repair = |changed| ("reconciliation.repair", 1, changed);
    assert_eq!(
        calls[..4],
        [read(0), repair(0), repair(1), read(1)],
        "expected, newest first: a read, the repairing call, its repair, a read"
    );
}

#[tokio::test(start_paused = true)]
async fn missing_hold_is_found_and_restored() {
    let (market, _) = market_with_history().await;
    let mut view = market.world.view().await;
    let orders =
        view.orders_changed(None, DateTime::UNIX_EPOCH, market.world.now(), None, 100).await.unwrap();
    let mut holds = Vec::new();
    for order in &orders {
        holds.extend(view.holds_of(TENANT, &[order.id]).await.unwrap());
    }
    drop(view);
    let tombstone = |hold: &&Hold| hold.status == HoldStatus::Released && hold.amount == 0;
    assert_eq!((holds.len(), holds.iter().filter(tombstone).count()), (6, 1), "{holds:?}");
    for hold in holds {
        let before = market.world.view().await.operations_of(TENANT, &[hold.order]).await.unwrap();
        assert!(market.world.store.delete_hold((TENANT, hold.order, hold.asset)));
        let report = run_reconciliation(&market, false).await;
        let [found] = report.findings.as_slice() else { panic!("{report:?}") };
        let key = OperationKey::freeze(hold.asset, hold.order).to_string();
        assert_eq!(
            (found.kind, found.order, found.key.as_ref()),
            (FindingKind::MissingHold, Some(hold.order), Some(&key))
        );
        assert_eq!(run_reconciliation(&market, true).await.findings[0].repair, Some(Repair::RecordWritten));
        assert_eq!(run_reconciliation(&market, false).await.findings, []);
        let restored = market.hold(hold.order, hold.asset).await.unwrap();
        let is_tombstone = tombstone(&&hold);
        let at = |of: &Hold| if is_tombstone { None } else { Some((of.create_time, of.update_time)) };
        assert_eq!(
            (
                restored.status,
                restored.amount,
                restored.coupon,
                restored.reverted,
                restored.user,
                at(&restored)
            ),
            (hold.status, hold.amount, hold.coupon, hold.reverted, hold.user, at(&hold)),
        );
        let after = market.world.view().await.operations_of(TENANT, &[hold.order]).await.unwrap();
        assert_eq!(after, before, "the repair must not move an amount");
    }
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn hold_that_is_not_yet_created_is_not_a_finding() {
    let market = Market::new().await;
    marketplace::service::prepare(market.app()).await.unwrap();
    market.deposit(5_000).await;
    let order = market.order(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    market.app().ordering.cancel(&by(BUYER), order.id).await.unwrap();
    assert_eq!(run_reconciliation(&market, false).await.findings, []);
}

#[tokio::test(start_paused = true)]
async fn open_dead_letter_whose_event_has_no_outbox_row_is_a_finding() {
    let (market, order) = market_with_history().await;
    let row = market.world.rows().await.into_iter().find(|row| row.aggregate.id == order.id.get()).unwrap();
    let known_body = message(&row).body;
    let unknown_body = known_body.replace(row.event_id.as_str(), "unknown-1");
    let dead_letter = |key: &str, body: &str| DeadLetter {
        queue: "a.queue".into(),
        key: key.into(),
        tenant: TENANT,
        event_type: Some(row.event_type.clone()),
        trace_id: None,
        body: body.into(),
        reason: "a reason".into(),
        died_at: market.world.now(),
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    let mut unit = market.world.store.begin().await.unwrap();
    unit.outbox()
        .park(&[
            dead_letter("known", &known_body),
            dead_letter("unknown", &unknown_body),
            dead_letter("no envelope", "{}"),
        ])
        .await
        .unwrap();
    unit.commit().await.unwrap();
    for repair in [false, true] {
        let report = run_reconciliation(&market, repair).await;
        assert_eq!(report.findings.len(), 1, "{report:?}");
        let finding = &report.findings[0];
        assert_eq!((finding.kind, finding.repair), (FindingKind::UnknownEvent, None));
        assert_eq!(finding.event_id.as_ref().map(EventId::as_str), Some("unknown-1"));
        assert!(finding.what.contains("there is no outbox row of event unknown-1"), "{}", finding.what);
        assert!(!report.is_sound());
    }
}
