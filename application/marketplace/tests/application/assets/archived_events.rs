//! Reconciliation of orders whose events are in the archive.

use handover_events::EventId;
use handover_outbox::ports::{Changed, OutboxRow, Store};
use marketplace::use_cases::operations::FindingKind;
use marketplace_domain::*;

use super::market::Market;
use super::reconciliation::{market_with_history, run_reconciliation};

/// Archives every sent event, apart from the timeouts, which are pending.
async fn archive_events(market: &Market) -> usize {
    let mut rows = market.world.rows().await;
    rows.retain(|row: &OutboxRow| row.sent_time.is_some() && row.event_type != "ORDER_TIMEOUT");
    let ids: Vec<EventId> = rows.into_iter().map(|row| row.event_id).collect();
    let mut unit = market.world.store.begin().await.unwrap();
    let stored = unit.outbox().stored_events(&ids).await.unwrap();
    assert_eq!(unit.outbox().archive(1, &stored).await.unwrap().len(), ids.len());
    unit.commit().await.unwrap();
    ids.len()
}

#[tokio::test(start_paused = true)]
async fn archived_events_are_not_missing() {
    let (market, _) = market_with_history().await;
    assert!(archive_events(&market).await > 10);
    let left = market.world.rows().await.len();
    for repair in [false, true] {
        let report = run_reconciliation(&market, repair).await;
        assert_eq!((report.findings.as_slice(), report.orders), (&[][..], 4), "{report:?}");
    }
    assert_eq!(market.world.rows().await.len(), left, "no event may be appended again");
}

#[tokio::test(start_paused = true)]
async fn change_after_archived_events_is_missing_without_its_event() {
    let (market, order) = market_with_history().await;
    archive_events(&market).await;
    let shipment = Shipment::new("SF".into(), "1".into()).unwrap();
    let (shipped, _) =
        order.apply(&OrderAction::Ship(shipment), OrderActor::Seller, market.world.now()).unwrap();
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.advance_order(&shipped).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    let report = run_reconciliation(&market, false).await;
    assert_eq!((report.findings.len(), report.count(FindingKind::MissingEvent)), (1, 1), "{report:?}");
}
