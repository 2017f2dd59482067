//! Rules for the reports of the payment gateway.

use chrono::TimeDelta;
use handover_contract::concurrency::{RACERS, one_changed, one_succeeded, race};
use handover_contract::samples::{SPECIAL_CHARACTERS, later, start, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId};
use handover_outbox::ports::Numbered;
use marketplace::ports::GatewayReportFilter;
use marketplace_domain::{ClosedBy, GatewayReport, Money, RefundId, ReportKind, ReportOutcome, ReportState};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{
    closed_by, gateway_report, money, open_report, order_id, payment_id, report_of_nothing,
};

use ReportState::{Closed, Done, Open};

async fn add(rig: &dyn MarketRig, reports: &[GatewayReport]) {
    in_unit!(rig, |unit| {
        for report in reports {
            unit.insert_gateway_report(report).await.expect("cannot insert a report");
        }
    });
}

async fn by_key(rig: &dyn MarketRig, key: &str) -> Option<Numbered<GatewayReport>> {
    view(rig).await.gateway_report_by_key(key).await.expect("cannot read a report")
}

async fn id_of(rig: &dyn MarketRig, key: &str) -> i64 {
    by_key(rig, key).await.expect("the report exists").id
}

async fn page(
    rig: &dyn MarketRig,
    filter: GatewayReportFilter,
    before: Option<i64>,
    limit: u32,
) -> Vec<Numbered<GatewayReport>> {
    let page = view(rig).await.gateway_reports_page(filter, before, limit).await;
    let page = page.expect("cannot read a page of reports");
    assert!(page.is_sorted_by(|a, b| a.id > b.id), "{page:?}");
    page
}

fn keys(reports: &[Numbered<GatewayReport>]) -> Vec<&str> {
    reports.iter().map(|report| report.effect.key.as_str()).collect()
}

/// A report is read as it was written, with every kind, outcome and state, and with and without optional values.
pub async fn report_is_read_as_written(rig: &dyn MarketRig) {
    let plain = || gateway_report("k", 1);
    let mut written: Vec<GatewayReport> =
        ReportOutcome::ALL.iter().map(|outcome| GatewayReport { outcome: *outcome, ..plain() }).collect();
    written.extend(ReportState::ALL.iter().map(|state| GatewayReport { state: *state, ..plain() }));
    written.extend(ReportKind::ALL.iter().map(|kind| GatewayReport { kind: *kind, ..plain() }));
    written.push(GatewayReport {
        kind: ReportKind::Refund,
        tenant: Some(tenant(2)),
        of: Some(order_id(MAX_ID).into()),
        payment: Some(payment_id(MAX_ID)),
        refund: RefundId::try_from(MAX_ID).ok(),
        attempt: Some(u32::MAX),
        amount: Some(money(MAX_ID)),
        ..plain()
    });
    written.push(GatewayReport {
        tenant: None,
        of: None,
        payment: None,
        reference: None,
        transaction_id: None,
        result: None,
        amount: None,
        answer: None,
        error: Some(SPECIAL_CHARACTERS.into()),
        ..plain()
    });
    written.push(GatewayReport {
        reference: Some("😀".repeat(64)),
        transaction_id: Some("😀".repeat(255)),
        error: Some("😀".repeat(1_000)),
        trace_id: "t".repeat(64),
        amount: Some(Money::ZERO),
        ..plain()
    });
    written.push(GatewayReport {
        reference: Some(String::new()),
        transaction_id: Some(String::new()),
        error: Some(String::new()),
        ..plain()
    });
    written.push(GatewayReport { reference: Some(SPECIAL_CHARACTERS.into()), ..plain() });
    written.push(GatewayReport { transaction_id: Some(SPECIAL_CHARACTERS.into()), ..plain() });
    written.push(GatewayReport { create_time: later(3) + TimeDelta::microseconds(1), ..plain() });
    let reason = SPECIAL_CHARACTERS.into();
    let at = later(7) + TimeDelta::microseconds(1);
    let closed = ClosedBy { operator: SPECIAL_CHARACTERS.into(), reason, at };
    written.push(GatewayReport { state: Closed, closed: Some(closed), ..plain() });
    for (number, written) in written.into_iter().enumerate() {
        let report = GatewayReport { key: format!("{number:064}"), ..written };
        add(rig, std::slice::from_ref(&report)).await;
        let seen = by_key(rig, &report.key).await.expect("the report exists");
        assert_eq!(seen.effect, report);
        let by_id = view(rig).await.gateway_report_by_id(seen.id).await.unwrap();
        assert_eq!(by_id, Some(seen));
    }
    assert_eq!(by_key(rig, "unknown").await, None);
    assert_eq!(view(rig).await.gateway_report_by_id(MAX_ID).await.unwrap(), None);
}

/// A key identifies one report, whatever the report says.
pub async fn duplicate_report_key_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[gateway_report("k", 1)]).await;
    for again in [gateway_report("k", 1), open_report("k", 2), report_of_nothing("k")] {
        is_conflict(begin(rig).await.insert_gateway_report(&again).await);
    }
    let mut unit = begin(rig).await;
    unit.insert_gateway_report(&gateway_report("l", 1)).await.unwrap();
    is_conflict(unit.insert_gateway_report(&gateway_report("l", 2)).await);
    assert_eq!(by_key(rig, "k").await.map(|report| report.effect), Some(gateway_report("k", 1)));
    assert_eq!(by_key(rig, "l").await, None);
}

/// Keys that differ in case, spaces or accents are different.
pub async fn report_keys_are_compared_byte_by_byte(rig: &dyn MarketRig) {
    for (order, key) in (1..).zip(["Key", "key", "key ", " key", "kéy", "ｋｅｙ"]) {
        assert_eq!(by_key(rig, key).await, None, "{key:?}");
        add(rig, &[gateway_report(key, order)]).await;
        assert_eq!(by_key(rig, key).await.map(|report| report.effect), Some(gateway_report(key, order)));
    }
}

/// A page contains reports with ids below the given id, greatest id first. Ids increase in the order of insertion,
/// whatever the times of the reports are.
pub async fn report_pages_are_ordered_by_descending_id(rig: &dyn MarketRig) {
    for (key, seconds) in ["a", "b", "c", "d", "e"].into_iter().zip([5, 3, 1, 2, 4]) {
        add(rig, &[GatewayReport { create_time: later(seconds), ..gateway_report(key, 1) }]).await;
    }
    let all = GatewayReportFilter::default();
    let first = page(rig, all, None, 2).await;
    assert_eq!(keys(&first), ["e", "d"]);
    let second = page(rig, all, first.last().map(|report| report.id), 2).await;
    assert_eq!(keys(&second), ["c", "b"]);
    let last = page(rig, all, second.last().map(|report| report.id), 2).await;
    assert_eq!(keys(&last), ["a"]);
    assert_eq!(page(rig, all, last.last().map(|report| report.id), 2).await, []);
    assert_eq!(first[1].effect, GatewayReport { create_time: later(2), ..gateway_report("d", 1) });
}

/// Filters apply together; reports that do not match do not count against the limit. A report without a tenant is only
/// in pages of all tenants.
pub async fn report_pages_filter_by_tenant_and_state(rig: &dyn MarketRig) {
    let foreign = |report| GatewayReport { tenant: Some(tenant(2)), ..report };
    add(
        rig,
        &[
            gateway_report("a", 1),
            open_report("b", 1),
            report_of_nothing("c"),
            foreign(open_report("d", 1)),
            foreign(gateway_report("e", 1)),
            open_report("f", 2),
            report_of_nothing("g"),
            gateway_report("h", 2),
            open_report("i", 1),
        ],
    )
    .await;
    for key in ["f", "g"] {
        let id = id_of(rig, key).await;
        in_unit!(rig, |unit| changes_one(unit.close_gateway_report(id, &closed_by("user:9")).await));
    }
    let expected: [(Option<i64>, Option<ReportState>, &[&str]); 9] = [
        (None, None, &["i", "h", "g", "f", "e", "d", "c", "b", "a"]),
        (None, Some(Done), &["h", "e", "a"]),
        (None, Some(Open), &["i", "d", "c", "b"]),
        (None, Some(Closed), &["g", "f"]),
        (Some(1), None, &["i", "h", "f", "b", "a"]),
        (Some(1), Some(Done), &["h", "a"]),
        (Some(1), Some(Open), &["i", "b"]),
        (Some(2), Some(Open), &["d"]),
        (Some(3), Some(Closed), &[]),
    ];
    for (of, state, expected) in expected {
        let filter = GatewayReportFilter { tenant: of.map(tenant), state, ..GatewayReportFilter::default() };
        assert_eq!(keys(&page(rig, filter, None, 100).await), expected, "{filter:?}");
        assert_eq!(keys(&page(rig, filter, None, 2).await), expected[..expected.len().min(2)], "{filter:?}");
        let below = id_of(rig, "d").await;
        let older: Vec<&str> = expected.iter().copied().filter(|key| *key < "d").collect();
        assert_eq!(keys(&page(rig, filter, Some(below), 100).await), older, "{filter:?}");
        let above = GatewayReportFilter { above_id: Some(below), ..filter };
        let newer: Vec<&str> = expected.iter().copied().filter(|key| *key > "d").collect();
        assert_eq!(keys(&page(rig, above, None, 100).await), newer, "{above:?}");
    }
}

/// The range of times includes its start and excludes its end, with microsecond precision.
pub async fn report_pages_include_range_start_and_exclude_end(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    for (key, at) in [("a", start() - micro), ("b", start()), ("c", later(1) - micro), ("d", later(1))] {
        add(rig, &[GatewayReport { create_time: at, ..open_report(key, 1) }]).await;
    }
    let expected: [(_, _, &[&str]); 4] = [
        (None, None, &["d", "c", "b", "a"]),
        (Some(start()), None, &["d", "c", "b"]),
        (None, Some(later(1)), &["c", "b", "a"]),
        (Some(start()), Some(later(1)), &["c", "b"]),
    ];
    for (from, to, expected) in expected {
        let of_all = GatewayReportFilter { from, to, ..GatewayReportFilter::default() };
        let of_open = GatewayReportFilter { tenant: Some(TenantId::DEFAULT), state: Some(Open), ..of_all };
        for filter in [of_all, of_open] {
            assert_eq!(keys(&page(rig, filter, None, 100).await), expected, "{filter:?}");
        }
    }
}

/// Open reports are counted, those of all tenants and without a tenant, up to the limit.
pub async fn open_reports_are_counted_up_to_limit(rig: &dyn MarketRig) {
    let counted =
        async |limit| view(rig).await.open_gateway_reports(limit).await.expect("cannot count reports");
    assert_eq!(counted(9).await, 0);
    let foreign = GatewayReport { tenant: Some(tenant(2)), ..open_report("b", 1) };
    add(rig, &[open_report("a", 1), foreign, report_of_nothing("c"), gateway_report("d", 1)]).await;
    assert_eq!((counted(9).await, counted(3).await, counted(2).await), (3, 3, 2));
    let id = id_of(rig, "b").await;
    in_unit!(rig, |unit| changes_one(unit.close_gateway_report(id, &closed_by("user:9")).await));
    assert_eq!(counted(9).await, 2);
}

/// All reports about an order are returned sorted by id; those of other orders and tenants are not.
pub async fn reports_of_order_are_ordered_by_id(rig: &dyn MarketRig) {
    let foreign = GatewayReport { tenant: Some(tenant(2)), ..gateway_report("foreign", 1) };
    let of_refund = GatewayReport { kind: ReportKind::Refund, create_time: start(), ..open_report("a", 1) };
    let late = GatewayReport { create_time: later(9), ..gateway_report("b", 1) };
    add(rig, &[late.clone(), gateway_report("c", 2), foreign.clone()]).await;
    add(rig, &[report_of_nothing("d"), of_refund.clone()]).await;
    let of = async |of: i64, order: i64| {
        let found = view(rig).await.gateway_reports_of(tenant(of), &[order_id(order)]).await;
        found.expect("cannot read reports").into_iter().map(|report| report.effect).collect::<Vec<_>>()
    };
    assert_eq!(of(1, 1).await, [late, of_refund]);
    assert_eq!(of(1, 2).await, [gateway_report("c", 2)]);
    assert_eq!(of(2, 1).await, [foreign]);
    assert_eq!(of(1, 3).await, []);
    let first = view(rig).await.gateway_reports_of(tenant(1), &[order_id(1)]).await.unwrap();
    assert_eq!(by_key(rig, "b").await.as_ref(), first.first(), "the id is that of the report");
}

/// An open report is closed with operator, reason and time, and otherwise unchanged. Other reports are not changed.
pub async fn only_open_reports_are_closed(rig: &dyn MarketRig) {
    let settled = GatewayReport { state: Closed, closed: Some(closed_by("user:8")), ..open_report("c", 1) };
    add(rig, &[open_report("a", 1), gateway_report("b", 1), settled.clone(), open_report("d", 1)]).await;
    let closed = ClosedBy { reason: SPECIAL_CHARACTERS.into(), ..closed_by("user:9") };
    for (key, changes) in [("a", true), ("a", false), ("b", false), ("c", false)] {
        let id = id_of(rig, key).await;
        in_unit!(rig, |unit| {
            let changed = unit.close_gateway_report(id, &closed).await;
            if changes { changes_one(changed) } else { changes_none(changed) }
        });
    }
    in_unit!(rig, |unit| changes_none(unit.close_gateway_report(MAX_ID, &closed).await));
    let a = GatewayReport { state: Closed, closed: Some(closed), ..open_report("a", 1) };
    for expected in [a, gateway_report("b", 1), settled, open_report("d", 1)] {
        assert_eq!(by_key(rig, &expected.key).await.map(|report| report.effect), Some(expected));
    }
}

pub async fn concurrent_inserts_of_report_succeed_exactly_once(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move { unit.insert_gateway_report(&gateway_report("k", n as i64 + 1)).await })
    })
    .await;
    let winner = one_succeeded(outcomes);
    let seen = by_key(rig, "k").await.map(|report| report.effect);
    assert_eq!(seen, Some(gateway_report("k", winner as i64 + 1)));
    assert_eq!(page(rig, GatewayReportFilter::default(), None, 100).await.len(), 1);
}

pub async fn concurrent_closings_of_report_succeed_exactly_once(rig: &dyn MarketRig) {
    add(rig, &[open_report("k", 1)]).await;
    let id = id_of(rig, "k").await;
    let operators: [String; RACERS] = std::array::from_fn(|n| format!("user:{n}"));
    let of_racers = operators.clone();
    let outcomes = race(&rig.market(), move |unit, n| {
        let closed = closed_by(&of_racers[n]);
        Box::pin(async move { unit.close_gateway_report(id, &closed).await })
    })
    .await;
    let winner = one_changed(outcomes);
    let seen = by_key(rig, "k").await.and_then(|report| report.effect.closed);
    assert_eq!(seen, Some(closed_by(&operators[winner])));
}
