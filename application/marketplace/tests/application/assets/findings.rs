//! Each reconciliation records its findings; operators see and acknowledge those of their tenant.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::ConsumeStatus;
use handover_outbox::operations::Reason;
use handover_outbox::ports::{
    AuditFilter, BodyForm, Changed, EndpointHealth, EndpointId, EndpointStatus, Numbered, Store as _,
    WebhookEndpoint,
};
use handover_outbox::state::StateSource as _;
use handover_outbox::webhooks::{DEFAULT_IN_FLIGHT, DeliveryWriter};
use marketplace::ports::FindingFilter;
use marketplace::use_cases::UseCaseError;
use marketplace::use_cases::operations::{FindingKind, ListFindings, Reconcile, Reconciliation};
use marketplace::{Actor, CommandContext, ConsistencySettings, MarketState, Role};
use marketplace_domain::*;

use super::market::{Market, SpentAssets, operator};
use super::reconciliation::run_reconciliation;
use crate::support::{BUYER, TENANT, by, first_record, gateway, money, pass, report, secs};

use FindingState::{Acknowledged, Open, Repaired, Resolved};

/// Longer than the grace period of a run.
const SETTLED: Duration = secs(120);

fn platform() -> CommandContext {
    let actor = Actor::User { id: 9.try_into().unwrap(), roles: vec![Role::Platform] };
    CommandContext { actor, ..operator() }
}

fn reason() -> Reason {
    Reason::new("known".to_owned()).unwrap()
}

/// Every recorded finding, newest first.
async fn recorded(market: &Market) -> Vec<Numbered<RecordedFinding>> {
    market.world.view().await.findings_page(FindingFilter::default(), None, 1_000).await.unwrap()
}

/// The only recorded finding.
async fn only(market: &Market) -> Numbered<RecordedFinding> {
    let [finding] = recorded(market).await.try_into().unwrap();
    finding
}

async fn states(market: &Market) -> Vec<FindingState> {
    recorded(market).await.iter().map(|finding| finding.effect.state).collect()
}

/// A run by the platform, over the orders that changed within the last `window`.
async fn run_of_platform(market: &Market, window: TimeDelta) -> Reconciliation {
    let until = market.world.now() + TimeDelta::seconds(1);
    let command = Reconcile {
        tenant: None,
        since: until - window,
        until,
        grace: secs(60),
        repair: false,
        reason: None,
    };
    market.app().operations.reconcile(&platform().operator().unwrap(), command).await.unwrap()
}

/// The open findings of each kind with at least one, as the metric shows them.
async fn counted(market: &Market) -> BTreeMap<String, f64> {
    let samples = MarketState::of(market.app(), &ConsistencySettings::default()).read().await.unwrap();
    let of_findings =
        samples.into_iter().filter(|it| it.metric.name == "handover.reconciliation.findings.open");
    let by_kind: BTreeMap<String, f64> = of_findings.map(|it| (it.labels.concat(), it.value)).collect();
    assert_eq!(by_kind.len(), FindingKind::ALL.len(), "every kind has a value: {by_kind:?}");
    by_kind.into_iter().filter(|(_, count)| *count > 0.0).collect()
}

/// An order that was shipped without its event, longer ago than the grace period, and the event.
async fn shipped_without_event(market: &Market) -> (Order, EventBody) {
    let order = market.paid(SpentAssets::default()).await;
    let shipment = Shipment::new("SF".into(), "1".into()).unwrap();
    let (shipped, mut events) =
        order.apply(&OrderAction::Ship(shipment), OrderActor::Seller, market.world.now()).unwrap();
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.advance_order(&shipped).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    pass(SETTLED).await;
    (shipped, events.remove(0))
}

/// A captured amount that differs from the payment: the gateway's report stays open. Returns its id.
async fn open_report(market: &Market) -> i64 {
    let order = market.process.ordered().await;
    let payment = market.process.started_payment(order.id).await;
    let mut command = report(&payment, PaymentResult::Success);
    command.report.amount = money(1);
    market.app().payments.settle(&gateway(), command).await.unwrap();
    let reports = market.world.view().await.gateway_reports_page(Default::default(), None, 1).await.unwrap();
    reports[0].id
}

#[tokio::test(start_paused = true)]
async fn run_records_its_findings_once_and_a_later_run_resolves_what_it_does_not_find() {
    let market = Market::new().await;
    let id = open_report(&market).await;
    let first = market.world.now();
    run_reconciliation(&market, false).await;
    let finding = only(&market).await;
    let expected = RecordedFinding {
        tenant: Some(TENANT),
        kind: FindingKind::GatewayReport,
        subject: format!("order:{} report:{id}", finding.effect.order.unwrap()),
        row_id: Some(id),
        state: Open,
        first_seen: first,
        last_seen: first,
        acknowledged: None,
        closed_time: None,
        version: 1,
        ..finding.effect.clone()
    };
    assert_eq!(finding.effect, expected);
    assert!(finding.effect.detail.contains("of the gateway about a payment is open"), "{finding:?}");
    assert_eq!(counted(&market).await, [("gatewayReport".to_owned(), 1.0)].into());
    pass(secs(1)).await;
    run_reconciliation(&market, true).await;
    let again = only(&market).await;
    let last_seen = market.world.now();
    assert_eq!(again.effect, RecordedFinding { last_seen, version: 2, ..expected }, "it cannot be repaired");
    market.app().operations.close_gateway_report(&operator(), id, reason()).await.unwrap();
    pass(secs(1)).await;
    run_reconciliation(&market, false).await;
    let resolved = only(&market).await;
    assert_eq!((resolved.id, resolved.effect.state), (finding.id, Resolved));
    assert_eq!(
        (resolved.effect.last_seen, resolved.effect.closed_time),
        (last_seen, Some(market.world.now()))
    );
    assert_eq!(counted(&market).await, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn repaired_finding_that_is_found_again_is_open_again() {
    let market = Market::running().await;
    let (order, _) = shipped_without_event(&market).await;
    run_reconciliation(&market, false).await;
    let finding = only(&market).await;
    let subject = format!("order:{0} type:ORDER_STATUS_CHANGED Order:{0}:{1}", order.id, order.version);
    assert_eq!((finding.effect.state, finding.effect.subject), (Open, subject));
    pass(secs(1)).await;
    run_reconciliation(&market, true).await;
    assert_eq!(states(&market).await, [Repaired]);
    pass(SETTLED).await;
    run_reconciliation(&market, false).await;
    let repaired = only(&market).await;
    assert_eq!(repaired.effect.state, Repaired);
    assert!(repaired.effect.closed_time.is_some());
    let rows = market.world.rows().await;
    let announced = rows.iter().rfind(|row| row.event_type == "ORDER_STATUS_CHANGED").unwrap();
    assert!(market.world.store.delete_sent_event(&announced.event_id));
    run_reconciliation(&market, false).await;
    let again = recorded(&market).await.into_iter().find(|it| it.id == finding.id).unwrap();
    assert_eq!((again.effect.state, again.effect.closed_time), (Open, None));
    assert_eq!(again.effect.first_seen, finding.effect.first_seen);
}

/// A run that did not compare an order does not know whether its finding still exists. A run of the service itself also
/// compares the orders of unresolved findings.
#[tokio::test(start_paused = true)]
async fn run_resolves_only_findings_of_orders_that_it_compared() {
    let market = Market::running().await;
    let (order, event) = shipped_without_event(&market).await;
    run_reconciliation(&market, false).await;
    assert_eq!(states(&market).await, [Open]);
    market.process.commit(vec![market.world.event("inserted", order.version, &event)]).await;
    pass(secs(10)).await;
    for window in [TimeDelta::seconds(1), TimeDelta::seconds(60)] {
        assert_eq!(run_of_platform(&market, window).await.findings, []);
        assert_eq!(states(&market).await, [Open], "the order changed before the window");
    }
    // An order that changed within the grace period may have been compared before that change was committed.
    let mut unit = market.world.store.begin().await.unwrap();
    let changed = Order { version: order.version + 1, update_time: market.world.now(), ..order.clone() };
    assert_eq!(unit.advance_order(&changed).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    pass(secs(59)).await;
    run_of_platform(&market, TimeDelta::hours(1)).await;
    let of_first = async || recorded(&market).await.pop().unwrap().effect;
    assert_eq!(of_first().await.state, Open);
    pass(secs(61)).await;
    run_of_platform(&market, TimeDelta::hours(1)).await;
    assert_eq!(of_first().await.state, Resolved);
}

#[tokio::test(start_paused = true)]
async fn acknowledged_finding_is_not_counted_and_stays_acknowledged_until_it_is_resolved() {
    let market = Market::new().await;
    let report = open_report(&market).await;
    run_reconciliation(&market, false).await;
    let id = only(&market).await.id;
    for _ in 0..2 {
        let finding = market.app().operations.acknowledge_finding(&operator(), id, reason()).await.unwrap();
        let acknowledged = finding.effect.acknowledged.as_ref().unwrap();
        assert_eq!((finding.effect.state, finding.effect.version), (Acknowledged, 2));
        assert_eq!((acknowledged.operator.as_str(), acknowledged.reason.as_str()), ("user:9", "known"));
    }
    let audit = market.world.view().await.outbox_view().audit_page(&AuditFilter::default(), None, 20).await;
    let entries = audit.unwrap().into_iter().map(|entry| entry.effect);
    let changes: Vec<u64> = entries
        .filter(|entry| entry.action == "reconciliation.finding.acknowledge")
        .map(|entry| entry.changed)
        .collect();
    assert_eq!(changes, [0, 1]);
    assert_eq!(counted(&market).await, BTreeMap::new());
    pass(secs(1)).await;
    run_reconciliation(&market, false).await;
    let seen = only(&market).await.effect;
    assert_eq!((seen.state, seen.last_seen), (Acknowledged, market.world.now()));
    market.app().operations.close_gateway_report(&operator(), report, reason()).await.unwrap();
    pass(secs(1)).await;
    run_reconciliation(&market, false).await;
    let resolved = only(&market).await.effect;
    assert_eq!((resolved.state, resolved.acknowledged.is_some()), (Resolved, true));
}

#[tokio::test(start_paused = true)]
async fn operators_see_and_resolve_only_findings_of_their_tenant() {
    let market = Market::new().await;
    open_report(&market).await;
    let order = market.process.ordered().await;
    let mut unknown = report(&market.process.started_payment(order.id).await, PaymentResult::Success);
    unknown.payment = PaymentId::try_from(404).unwrap().into();
    market.app().payments.settle(&gateway(), unknown).await.unwrap_err();
    run_of_platform(&market, TimeDelta::hours(1)).await;
    assert_eq!(states(&market).await, [Open, Open]);
    pass(secs(1)).await;
    run_reconciliation(&market, false).await;
    assert_eq!(
        states(&market).await,
        [Open, Open],
        "the run of the tenant did not compare the unknown report"
    );

    let query = ListFindings { limit: 10, ..ListFindings::default() };
    let operations = &market.app().operations;
    let own = operations.findings(&operator(), query).await.unwrap().items;
    let all = operations.findings(&platform(), query).await.unwrap().items;
    let tenants: Vec<_> = all.iter().map(|finding| finding.effect.tenant).collect();
    assert_eq!(tenants.len(), 2);
    assert_eq!(own, all.iter().filter(|it| it.effect.tenant == Some(TENANT)).cloned().collect::<Vec<_>>());
    let foreign = all.iter().find(|finding| finding.effect.tenant.is_none()).unwrap();
    let refused = operations.acknowledge_finding(&operator(), foreign.id, reason()).await;
    assert!(matches!(refused, Err(UseCaseError::NotFound { what: "finding" })), "{refused:?}");
    let refused = operations.findings(&by(BUYER), query).await;
    assert!(matches!(refused, Err(UseCaseError::NotAllowed(_))), "{refused:?}");
    let refused = operations.acknowledge_finding(&by(BUYER), own[0].id, reason()).await;
    assert!(matches!(refused, Err(UseCaseError::NotAllowed(_))), "{refused:?}");
    let other = ListFindings { tenant: Some(2.try_into().unwrap()), ..query };
    let refused = operations.findings(&operator(), other).await;
    assert!(matches!(refused, Err(UseCaseError::NotFound { what: "tenant" })), "{refused:?}");
    assert_eq!(operations.findings(&platform(), other).await.unwrap().items, []);
    operations.acknowledge_finding(&platform(), foreign.id, reason()).await.unwrap();
    let open = ListFindings { state: Some(Open), ..query };
    assert_eq!(operations.findings(&platform(), open).await.unwrap().items, own);
}

/// A webhook endpoint for ORDER_PAID.
fn endpoint(create_time: DateTime<Utc>) -> WebhookEndpoint {
    WebhookEndpoint {
        id: EndpointId("0192f0c1-0000-7000-8000-000000000001".parse().unwrap()),
        tenant: TENANT,
        slot: Some(1),
        url: "https://erp.example/hooks".into(),
        description: None,
        event_types: vec!["order.paid".into()],
        is_ordered: false,
        body_form: BodyForm::Thin,
        signs_asymmetrically: false,
        per_second: None,
        max_in_flight: DEFAULT_IN_FLIGHT,
        headers: None,
        secrets: Vec::new(),
        status: EndpointStatus::Enabled,
        disabled_reason: None,
        version: 1,
        create_time,
        update_time: create_time,
        health: EndpointHealth::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn missing_webhook_delivery_is_a_finding_until_retention_may_have_deleted_it() {
    let mut market = Market::running().await;
    // One hour is the margin of the comparison.
    market.process.app = market.app().clone().with_webhook_retention(secs(3_600 + 600));
    let created = market.world.now();
    pass(secs(61)).await;
    market.paid(SpentAssets::default()).await;
    let paid = market.world.rows().await.into_iter().rfind(|row| row.event_type == "ORDER_PAID").unwrap();
    let record = first_record(paid, DeliveryWriter::NAME, ConsumeStatus::Success, market.world.now());
    let mut unit = market.world.store.begin().await.unwrap();
    unit.outbox().insert_webhook_endpoint(&endpoint(created)).await.unwrap();
    unit.outbox().record(&[record]).await.unwrap();
    unit.commit().await.unwrap();
    pass(SETTLED).await;
    let found = run_reconciliation(&market, false).await;
    assert_eq!((found.count(FindingKind::MissingDelivery), found.findings.len()), (1, 1), "{found:?}");
    assert_eq!(states(&market).await, [Open]);
    pass(secs(600)).await;
    assert_eq!(run_reconciliation(&market, false).await.findings, []);
    assert_eq!(states(&market).await, [Resolved]);
}
