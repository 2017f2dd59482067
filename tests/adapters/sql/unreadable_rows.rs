//! Rows with values that cannot be read.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use handover_contract::samples::{due_at, start, tenant};
use handover_events::{EventId, TenantId, Trace};
use handover_memory::{MemoryBroker, SeededRandom};
use handover_outbox::archive::{KeptBecause, NeededEvents, NoNeededEvents, RetentionPolicy, examine};
use handover_outbox::jobs::Progress;
use handover_outbox::operations::Operator;
use handover_outbox::ports::{Clock, DueQuery, EventMetadata, Store, StoreError, UnreadableRow};
use handover_outbox::state::StateSource as _;
use handover_outbox::{Tasks, Transactor};
use handover_system::SystemClock;
use marketplace::jobs::{
    AutoCompletion, ContinuousReconciliation, LockTimeoutReaper, ReaperReport, RefundDispatcher,
};
use marketplace::ports::{FindingFilter, ListingChangeKind, MockGateway};
use marketplace::use_cases::operations::{FindingKind, Reconcile, Reconciliation};
use marketplace::{
    Actor, App, AutoCompletionSettings, CommandContext, ConsistencySettings, EventsOfOpenCases, MarketState,
    RefundSettings, Role, Rules,
};
use marketplace_contract::samples::{
    balance, coupon, coupon_id, finding, hold, listing_change, open_report, order, order_id, order_moved_to,
    payment, product, refund, user,
};
use marketplace_domain::{
    Asset, Balance, Coupon, CouponStatus, FeeRate, FindingState, HoldStatus, Order, OrderStatus, PointsRules,
    Product, ProductStatus, Purse, RecordedFinding,
};
use sqlx::Executor;

use super::{Fixture, append, event, fixture};

/// Appends the events `e1` to `e<rows>`. Then executes each listed `SET` clause on the event with the listed
/// number, which makes a value of that event unreadable.
async fn with_unreadable(rows: i64, unreadable: &[(i64, &str)]) -> Fixture {
    let fixture = fixture().await;
    let events: Vec<_> = (1..=rows).map(|n| event(&format!("e{n}"), n, 1)).collect();
    append(&fixture.store, &events).await.unwrap();
    let mut direct = fixture.direct_connection().await;
    // Constraints prevent such values, but an administrator may have disabled them.
    direct.execute("PRAGMA ignore_check_constraints = ON").await.unwrap();
    for (n, set) in unreadable {
        let update = format!("UPDATE outbox_events SET {set} WHERE event_id = 'e{n}'");
        direct.execute(sqlx::AssertSqlSafe(update)).await.unwrap();
    }
    fixture
}

async fn unreadable(fixture: &Fixture, after: Option<i64>, limit: u32) -> Vec<UnreadableRow> {
    fixture.store.view().await.unwrap().outbox_view().unreadable_rows(None, after, limit).await.unwrap()
}

#[tokio::test]
async fn unreadable_rows_of_all_pages_are_listed_by_id_up_to_the_limit() {
    let fixture = with_unreadable(
        2_100,
        &[
            (7, "create_time = '2026-02-31T10:30:00.000000Z'"),
            (1_500, "metadata = '[]'"),
            (2_100, "retry_count = -1"),
        ],
    )
    .await;
    let found = unreadable(&fixture, None, 10).await;
    let listed: Vec<_> =
        found.iter().map(|row| (row.event_id.as_ref().unwrap().as_str(), row.column)).collect();
    assert_eq!(listed, [("e7", "create_time"), ("e1500", "metadata"), ("e2100", "retry_count")]);
    assert!(found[0].why.contains("2026-02-31"), "{}", found[0].why);
    assert_eq!(unreadable(&fixture, None, 2).await, found[..2]);
    assert_eq!(unreadable(&fixture, Some(found[0].id), 10).await, found[1..]);
    assert_eq!(unreadable(&fixture, Some(found[2].id), 10).await, []);
}

#[tokio::test]
async fn as_many_unreadable_rows_as_a_search_returns_hide_none_of_the_others() {
    let metadata: Vec<_> = (1..=30).map(|n| (n, "metadata = '[]'")).collect();
    let fixture = with_unreadable(50, &metadata).await;
    for limit in [10, 20, 200] {
        let query = DueQuery { limit, ..due_at(Utc::now()) };
        let found = fixture.store.view().await.unwrap().outbox_view().outbox_due(&query).await.unwrap();
        let ids: Vec<_> = found.rows.iter().map(|row| row.event_id.as_str()).collect();
        let expected: Vec<_> = (31..=50).map(|n| format!("e{n}")).take(limit as usize).collect();
        assert_eq!(ids, expected, "limit {limit}");
    }
}

/// The order gate takes a short result for the end.
#[tokio::test]
async fn unreadable_rows_make_no_result_of_the_order_gate_shorter() {
    let set = |n: i64| match n {
        1..=8 => format!("aggregate_id = 1, aggregate_seq = {n}, metadata = '[]'"),
        9..=12 => format!("aggregate_id = 1, aggregate_seq = {n}"),
        _ => format!("aggregate_id = 2, aggregate_seq = {n}"),
    };
    let sets: Vec<_> = (1..=20).map(|n| (n, set(n))).collect();
    let sets: Vec<_> = sets.iter().map(|(n, set)| (*n, set.as_str())).collect();
    let fixture = with_unreadable(20, &sets).await;
    let aggregates = [1, 2].map(|number| (event("any", number, 1).aggregate, 0));
    for limit in [1, 3, 100] {
        let mut view = fixture.store.view().await.unwrap();
        let types = ["ORDER_CREATED"];
        let found = view.outbox_view().unapplied_from("other", &types, 0, &aggregates, limit).await.unwrap();
        let ids: Vec<_> = found.iter().map(|one| one.event.event_id.as_str()).collect();
        let of = |events: RangeInclusive<i64>| events.take(limit as usize).map(|n| format!("e{n}"));
        assert_eq!(ids, of(9..=12).chain(of(13..=20)).collect::<Vec<_>>(), "limit {limit}");
    }
}

/// The search of a consumer for lost events takes a short result for the end.
#[tokio::test]
async fn unreadable_rows_make_no_result_of_the_search_for_lost_events_shorter() {
    let sent = "status = 'SENT', sent_time = create_time";
    let unreadable = format!("{sent}, metadata = '[]'");
    let sets: Vec<_> = (1..=50).map(|n| (n, if n <= 30 { unreadable.as_str() } else { sent })).collect();
    let fixture = with_unreadable(50, &sets).await;
    let (from, to) = (Utc::now() - TimeDelta::hours(1), Utc::now());
    for limit in [1, 10, 20, 200] {
        let mut view = fixture.store.view().await.unwrap();
        let types = ["ORDER_CREATED"];
        let found = view.outbox_view().unconsumed_events("other", &types, 0, from, to, limit).await.unwrap();
        assert_eq!(found.len(), limit.min(20) as usize, "limit {limit}");
        assert!(found.iter().all(|row| row.id > 30), "limit {limit}");
    }
}

#[tokio::test]
async fn metadata_is_read_from_any_json_object() {
    let trace = |trace: &str| EventMetadata { trace_id: Some(trace.to_owned()), ..EventMetadata::default() };
    let readable = [
        ("{}", EventMetadata::default()),
        (r#"{"traceId":"a","traceId":"b"}"#, trace("b")),
        (r#"{"traceId":"a","requestId":7,"traceparent":[],"userId":"x"}"#, trace("a")),
        (r#"{"traceId":"a","userId":1.5,"requestId":null,"trace_id":"b"}"#, trace("a")),
        (r#"{"traceId":"a","userId":9223372036854775808,"number":1e999}"#, trace("a")),
        (
            r#" {"userId":-5,"origin":{"traceId":"b"}} "#,
            EventMetadata { user_id: Some(-5), ..Default::default() },
        ),
    ];
    let invalid = ["[]", "[null,null,null,5]", "null", "\"traceId\"", "7", "", "{", r#"{"traceId":"a"} {}"#];
    let texts = readable.iter().map(|(text, _)| *text).chain(invalid);
    let sets: Vec<_> = texts.zip(1..).map(|(text, n)| (n, format!("metadata = '{text}'"))).collect();
    let sets: Vec<_> = sets.iter().map(|(n, set)| (*n, set.as_str())).collect();
    let fixture = with_unreadable(14, &sets).await;
    let events: Vec<EventId> = (1..=14).map(|n| format!("e{n}").parse().unwrap()).collect();
    let found = fixture.store.view().await.unwrap().outbox_view().outbox_by_event(&events).await.unwrap();
    let metadata: Vec<_> = found.into_iter().map(|row| row.metadata).collect();
    assert_eq!(metadata, readable.map(|(_, metadata)| metadata));
    let found = unreadable(&fixture, None, 20).await;
    assert_eq!(found.len(), invalid.len());
    for row in found {
        assert_eq!(row.column, "metadata");
        assert!(row.why.starts_with("the value is not a JSON object: "), "{}", row.why);
    }
}

#[test]
fn metadata_text_has_the_fields_with_a_value() {
    let metadata = EventMetadata {
        trace_id: Some("a\"b".to_owned()),
        request_id: Some("r".to_owned()),
        traceparent: Some("p".to_owned()),
        user_id: Some(7),
    };
    let text = r#"{"traceId":"a\"b","requestId":"r","traceparent":"p","userId":7}"#;
    assert_eq!(metadata.to_text().as_deref(), Some(text));
    let user = EventMetadata { user_id: Some(7), ..EventMetadata::default() };
    assert_eq!(user.to_text().as_deref(), Some(r#"{"userId":7}"#));
    assert_eq!(EventMetadata::default().to_text(), None);
}

#[tokio::test]
async fn unreadable_row_is_listed_for_its_tenant_if_the_tenant_is_readable() {
    let rows = [(1, "status = 'new'"), (2, "status = 'new', tenant_id = 2"), (3, "tenant_id = 0")];
    let fixture = with_unreadable(3, &rows).await;
    let mut view = fixture.store.view().await.unwrap();
    for (tenant, events) in [(Some(1), &["e1"][..]), (Some(2), &["e2"]), (None, &["e1", "e2", "e3"])] {
        let tenant = tenant.map(|tenant| tenant.try_into().unwrap());
        let found = view.outbox_view().unreadable_rows(tenant, None, 10).await.unwrap();
        let found: Vec<_> =
            found.iter().filter_map(|row| row.event_id.as_ref()).map(EventId::as_str).collect();
        assert_eq!(found, events, "{tenant:?}");
    }
}

fn app(fixture: &Fixture) -> App {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let tx = Transactor::new(
        Arc::new(fixture.store.clone()),
        Arc::clone(&clock),
        Arc::new(SeededRandom::new(7)),
        Tasks::default(),
    );
    let rules = Rules {
        pending_timeout: Duration::from_secs(900),
        max_retry_count: 3,
        points: PointsRules::default(),
        fee_rate: FeeRate::DEFAULT,
    };
    App::new(tx, Arc::new(MemoryBroker::new(clock)), rules)
}

#[tokio::test]
async fn event_with_an_unreadable_consume_log_record_stays_and_stops_no_other_event() {
    let sent = "status = 'SENT', sent_time = create_time, event_type = 'NOT_CONSUMED'";
    let fixture = with_unreadable(3, &[(1, sent), (2, sent), (3, sent)]).await;
    let mut direct = fixture.direct_connection().await;
    direct.execute("PRAGMA ignore_check_constraints = ON").await.unwrap();
    let record = "INSERT INTO event_consume_log (event_id, event_type, consumer, consume_time, status, attempts, cost_ms, \
                  payload_hash, trace_id, tenant_id, aggregate_type, aggregate_id, aggregate_seq) \
                  VALUES ('e2', 'NOT_CONSUMED', 'other', '2026-02-31T10:30:00.000000Z', 'SUCCESS', 1, 1, '', '', 1, 'Order', 2, 1)";
    direct.execute(record).await.unwrap();
    let policy = RetentionPolicy::new(Duration::ZERO);
    let page = examine(&app(&fixture).outbox, &policy, &NoNeededEvents, None).await.unwrap();
    let archivable: Vec<_> = page.archivable.iter().map(|event| event.row.event_id.as_str()).collect();
    assert_eq!(archivable, ["e1", "e3"]);
    assert_eq!(page.kept, [(KeptBecause::Unreadable, 1)].into());
}

fn operator(role: Role) -> Operator {
    let context = CommandContext {
        actor: Actor::User { id: 9.try_into().unwrap(), roles: vec![role] },
        tenant: TenantId::DEFAULT,
        trace: Trace { trace_id: "trace".into(), traceparent: None },
        request_id: None,
    };
    context.operator().unwrap()
}

/// Reconciles the last hour.
async fn reconcile(app: &App, operator: &Operator, repair: bool) -> Reconciliation {
    let command = Reconcile {
        tenant: None,
        since: Utc::now() - TimeDelta::hours(1),
        until: Utc::now(),
        grace: Duration::from_secs(60),
        repair,
        reason: None,
    };
    app.operations.reconcile(operator, command).await.unwrap()
}

#[tokio::test]
async fn reconciliation_reports_unreadable_rows_without_repair() {
    let fixture = with_unreadable(3, &[(2, "update_time = '2026-02-31T10:30:00.000000Z'")]).await;
    let app = app(&fixture);
    let operator = operator(Role::Operator);
    for repair in [false, true] {
        let report = reconcile(&app, &operator, repair).await;
        assert_eq!(report.findings.len(), 1, "{report:?}");
        let finding = &report.findings[0];
        assert_eq!((finding.kind, finding.repair), (FindingKind::UnreadableRow, None));
        assert_eq!(finding.event_id.as_ref().map(EventId::as_str), Some("e2"));
        assert!(finding.what.starts_with("outbox_events.update_time of id 2 cannot be read: \"2026-02-31T"));
        assert!(!report.is_sound());
    }
}

/// A dispatcher whose batches are of one request, so that the unreadable refund would be all of the first one.
#[tokio::test]
async fn unreadable_refund_stops_no_request_for_another_refund() {
    let fixture = fixture().await;
    let mut unit = fixture.store.begin().await.unwrap();
    for id in [1, 2] {
        unit.insert_refund(&refund(id, id)).await.unwrap();
    }
    unit.commit().await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct.execute("UPDATE refunds SET currency = '?' WHERE id = 1").await.unwrap();
    let mut gateway = MockGateway::new();
    gateway.expect_refund().withf(|request| request.refund.get() == 2).once().returning(|_| Ok(()));
    let settings = RefundSettings { concurrency: NonZeroU32::MIN, ..RefundSettings::default() };
    let dispatcher = RefundDispatcher { tx: app(&fixture).tx, gateway: Arc::new(gateway), settings };
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    assert_eq!(dispatcher.dispatch().await.unwrap(), 0);
}

/// A job whose batches are of one order, so that the unreadable order would be all of the first one.
#[tokio::test]
async fn unreadable_order_stops_no_completion_of_another_order() {
    let fixture = fixture().await;
    let mut unit = fixture.store.begin().await.unwrap();
    for id in [1, 2] {
        unit.insert_order(&order_moved_to(&order(id), OrderStatus::Shipped, start())).await.unwrap();
    }
    unit.commit().await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct.execute("PRAGMA ignore_check_constraints = ON").await.unwrap();
    direct.execute("UPDATE orders SET cancel_reason = 'x' WHERE id = 1").await.unwrap();
    let app = app(&fixture);
    let settings = AutoCompletionSettings {
        after: Some(Duration::ZERO),
        batch: NonZeroU32::MIN,
        ..AutoCompletionSettings::default()
    };
    let job = AutoCompletion::new(app.tx.clone(), app.handlers.events.clone(), settings);
    for expected in [Progress::MoreDue, Progress::MoreDue, Progress::Done] {
        assert_eq!(job.complete_batch().await.unwrap(), expected);
    }
    let mut view = fixture.store.view().await.unwrap();
    let other = view.order_by_id(TenantId::DEFAULT, order_id(2)).await.unwrap().unwrap();
    assert_eq!(other.status, OrderStatus::Completed);
    let found = view.order_by_id(TenantId::DEFAULT, order_id(1)).await;
    assert!(matches!(found, Err(StoreError::Corrupt { column: "cancel_reason", .. })), "{found:?}");
}

/// Orders of two tenants that have no events. The first one cannot be read, and neither can the payment of the second one;
/// the third one has the product of the first.
async fn with_unreadable_orders() -> Fixture {
    let fixture = fixture().await;
    let changed = Utc::now() - TimeDelta::seconds(90);
    let at = |order: Order| Order { update_time: changed, ..order };
    let first = at(order(1));
    let third = Order { product: first.product, ..at(order(3)) };
    let foreign = Order { tenant: tenant(2), ..at(order(4)) };
    let mut unit = fixture.store.begin().await.unwrap();
    for order in [&first, &at(order(2)), &third, &foreign] {
        unit.insert_order(order).await.unwrap();
    }
    let of_first = listing_change(first.product.get(), 1, ListingChangeKind::Occupied, "e1");
    unit.change_listings(&[of_first]).await.unwrap();
    unit.insert_payment(&payment(7, 2)).await.unwrap();
    // No order names this product, so that all orders of its seller are searched.
    unit.insert_product(&Product { status: ProductStatus::Sold, ..product(9) }).await.unwrap();
    unit.commit().await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct.execute("PRAGMA ignore_check_constraints = ON").await.unwrap();
    direct.execute("UPDATE orders SET cancel_reason = 'x' WHERE id = 1").await.unwrap();
    direct.execute("UPDATE payments SET currency = '?' WHERE id = 7").await.unwrap();
    fixture
}

/// The orders and the descriptions of the recorded findings of this kind and state, oldest first.
async fn recorded(fixture: &Fixture, kind: FindingKind, state: FindingState) -> Vec<(i64, String)> {
    let filter = FindingFilter { state: Some(state), ..FindingFilter::default() };
    let found = fixture.store.view().await.unwrap().findings_page(filter, None, 100).await.unwrap();
    let of_kind = found.into_iter().rev().map(|it| it.effect).filter(|it| it.kind == kind);
    of_kind.map(|it| (it.order.unwrap().get(), it.detail)).collect()
}

#[tokio::test]
async fn unreadable_order_is_found_and_stops_no_comparison_of_another_order() {
    let fixture = with_unreadable_orders().await;
    let app = app(&fixture);
    let jobs = ContinuousReconciliation::new(app.operations.clone(), ConsistencySettings::default());
    // The events of the orders 3 and 4, of their creation and for their timeout, are appended.
    assert_eq!(jobs.compare_recent().await.unwrap(), 4);
    let kind = FindingKind::UnreadableRow;
    let found = recorded(&fixture, kind, FindingState::Open).await;
    let [(1, order), (2, payment)] = &found[..] else { panic!("{found:?}") };
    assert!(
        order.starts_with("order 1 cannot be compared: orders.cancel_reason of id 1 is corrupt: "),
        "{order}"
    );
    assert!(
        payment.starts_with("order 2 cannot be compared: payments.currency of id 7 is corrupt: "),
        "{payment}"
    );
    assert_eq!(jobs.compare_all().await.unwrap(), 0);
    let report = reconcile(&app, &operator(Role::Platform), true).await;
    let orders = report.findings.iter().filter(|it| it.kind == kind).map(|it| it.order.unwrap().get());
    assert_eq!((orders.collect::<Vec<_>>(), report.orders), (vec![1, 2], 2), "{report:?}");
    // A row that is corrected ends its finding.
    let mut direct = fixture.direct_connection().await;
    direct.execute("UPDATE orders SET cancel_reason = NULL WHERE id = 1").await.unwrap();
    assert_eq!(jobs.compare_all().await.unwrap(), 2);
    assert_eq!(recorded(&fixture, kind, FindingState::Resolved).await.first().map(|it| it.0), Some(1));
    assert_eq!(recorded(&fixture, kind, FindingState::Open).await.first().map(|it| it.0), Some(2));
}

/// A finding about an order that is unreadable now is not resolved: the order is not compared.
#[tokio::test]
async fn finding_about_an_unreadable_order_stays_open() {
    let fixture = with_unreadable_orders().await;
    let mut unit = fixture.store.begin().await.unwrap();
    for id in 1..=3 {
        let of_order = RecordedFinding { order: Some(order_id(id)), ..finding(&format!("order:{id}")) };
        unit.insert_finding(&of_order).await.unwrap();
    }
    unit.commit().await.unwrap();
    let jobs = ContinuousReconciliation::new(app(&fixture).operations, ConsistencySettings::default());
    jobs.compare_all().await.unwrap();
    let kind = FindingKind::MissingEvent;
    let open = recorded(&fixture, kind, FindingState::Open).await;
    assert_eq!(open.iter().map(|it| it.0).collect::<Vec<_>>(), [1, 2]);
    let resolved = recorded(&fixture, kind, FindingState::Resolved).await;
    assert_eq!(resolved.iter().map(|it| it.0).collect::<Vec<_>>(), [3]);
}

#[tokio::test]
async fn unreadable_report_and_finding_of_another_version_remove_no_state_metrics() {
    let fixture = fixture().await;
    let mut unit = fixture.store.begin().await.unwrap();
    for key in ["a", "b"] {
        unit.insert_gateway_report(&open_report(key, 1)).await.unwrap();
        unit.insert_finding(&finding(key)).await.unwrap();
    }
    unit.commit().await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct.execute("PRAGMA ignore_check_constraints = ON").await.unwrap();
    direct.execute("UPDATE gateway_reports SET kind = 'x' WHERE report_key = 'a'").await.unwrap();
    direct.execute("UPDATE reconciliation_findings SET kind = 'x' WHERE subject = 'a'").await.unwrap();
    let samples = MarketState::of(&app(&fixture), &ConsistencySettings::default()).read().await.unwrap();
    let sum = |metric: &str| -> f64 {
        samples.iter().filter(|sample| sample.metric.name == metric).map(|sample| sample.value).sum()
    };
    assert_eq!(sum("handover.gateway.reports.open"), 2.0);
    assert_eq!(sum("handover.reconciliation.findings.open"), 1.0);
}

/// A reaper whose batches are of one hold, so that the unreadable hold would be all of the first one.
#[tokio::test]
async fn unreadable_hold_stops_no_release_of_another_hold() {
    let fixture = fixture().await;
    let owner = user(10);
    let mut unit = fixture.store.begin().await.unwrap();
    unit.lock_balances(Purse::Wallet, &[(TenantId::DEFAULT, owner)], start()).await.unwrap();
    unit.put_balances(&[Balance { frozen: 1_000, ..balance(10, Purse::Wallet, 0) }]).await.unwrap();
    unit.put_holds(&[hold(1, Asset::Wallet), hold(2, Asset::Wallet)]).await.unwrap();
    unit.commit().await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct.execute("PRAGMA ignore_check_constraints = ON").await.unwrap();
    direct.execute("UPDATE asset_holds SET user_id = 0 WHERE order_id = 1").await.unwrap();
    let reaper = reaper(&app(&fixture));
    assert_eq!(reaper.reap().await.unwrap(), ReaperReport { released: 1, ..ReaperReport::default() });
    let mut view = fixture.store.view().await.unwrap();
    let other = view.holds_of(TenantId::DEFAULT, &[order_id(2)]).await.unwrap().remove(0);
    assert_eq!(other.status, HoldStatus::Released);
    let balance = view.balance_of(TenantId::DEFAULT, owner, Purse::Wallet).await.unwrap().unwrap();
    assert_eq!((balance.available, balance.frozen), (500, 500));
}

/// A reaper whose batches are of one coupon, so that the unreadable coupon would be all of the first one.
#[tokio::test]
async fn unreadable_coupon_stops_no_expiry_of_another_coupon() {
    let fixture = fixture().await;
    let mut unit = fixture.store.begin().await.unwrap();
    for id in [1, 2] {
        unit.insert_coupon(&Coupon { expires_at: start(), ..coupon(id) }).await.unwrap();
    }
    unit.commit().await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct.execute("PRAGMA ignore_check_constraints = ON").await.unwrap();
    direct.execute("UPDATE coupons SET user_id = 0 WHERE id = 1").await.unwrap();
    let reaper = reaper(&app(&fixture));
    assert_eq!(reaper.reap().await.unwrap(), ReaperReport { expired: 1, ..ReaperReport::default() });
    let other = fixture.store.view().await.unwrap().coupon_by_id(TenantId::DEFAULT, coupon_id(2)).await;
    assert_eq!(other.unwrap().unwrap().status, CouponStatus::Expired);
}

/// A reaper whose batches are of one row.
fn reaper(app: &App) -> LockTimeoutReaper {
    let settings = ConsistencySettings {
        lock_timeout: Duration::ZERO,
        batch: NonZeroU32::MIN,
        ..ConsistencySettings::default()
    };
    LockTimeoutReaper { tx: app.tx.clone(), events: app.handlers.events.clone(), settings }
}

/// The kind of a finding of another version.
#[tokio::test]
async fn event_of_a_finding_with_an_unknown_kind_is_needed_and_no_other_event() {
    let fixture = with_unreadable(3, &[]).await;
    let mut unit = fixture.store.begin().await.unwrap();
    unit.insert_finding(&RecordedFinding { order: None, ..finding("event:e2 consumer:credit") })
        .await
        .unwrap();
    unit.commit().await.unwrap();
    let mut direct = fixture.direct_connection().await;
    direct.execute("PRAGMA ignore_check_constraints = ON").await.unwrap();
    direct.execute("UPDATE reconciliation_findings SET kind = 'x'").await.unwrap();
    let events: Vec<EventId> = (1..=3).map(|n| format!("e{n}").parse().unwrap()).collect();
    let rows = fixture.store.view().await.unwrap().outbox_view().outbox_by_event(&events).await.unwrap();
    assert_eq!(rows.len(), 3);
    let needed = EventsOfOpenCases::of(&app(&fixture).tx).needed(&rows).await.unwrap();
    assert_eq!(needed, [events[1].clone()].into());
}
