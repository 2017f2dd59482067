//! Rules for the recorded findings of reconciliations.

use chrono::TimeDelta;
use handover_contract::concurrency::{RACERS, one_changed, one_succeeded, race};
use handover_contract::samples::{SPECIAL_CHARACTERS, later, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId};
use handover_outbox::ports::Numbered;
use marketplace::ports::{FindingFilter, FindingSubject};
use marketplace_domain::{AcknowledgedBy, FindingKind, FindingState, RecordedFinding};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{acknowledged, finding, order_id};

use FindingState::{Acknowledged, Open, Repaired, Resolved};

const TENANT: Option<TenantId> = Some(TenantId::DEFAULT);

async fn add(rig: &dyn MarketRig, findings: &[RecordedFinding]) {
    in_unit!(rig, |unit| {
        for finding in findings {
            unit.insert_finding(finding).await.expect("cannot insert a finding");
        }
    });
}

async fn stored(rig: &dyn MarketRig, finding: &RecordedFinding) -> Option<Numbered<RecordedFinding>> {
    let RecordedFinding { tenant, kind, subject, .. } = finding;
    view(rig).await.finding_by_subject(*tenant, *kind, subject).await.expect("cannot read a finding")
}

async fn id_of(rig: &dyn MarketRig, finding: &RecordedFinding) -> i64 {
    stored(rig, finding).await.expect("the finding exists").id
}

async fn subjects(
    rig: &dyn MarketRig,
    filter: FindingFilter,
    before: Option<i64>,
    limit: u32,
) -> Vec<String> {
    let page = view(rig).await.findings_page(filter, before, limit).await;
    let page = page.expect("cannot read a page of findings");
    assert!(page.is_sorted_by(|a, b| a.id > b.id), "{page:?}");
    page.into_iter().map(|finding| finding.effect.subject).collect()
}

/// A finding is read as it was written, with every kind and state, and with and without optional values.
pub async fn finding_is_read_as_written(rig: &dyn MarketRig) {
    let plain = || finding("k");
    let mut written: Vec<RecordedFinding> =
        FindingKind::ALL.iter().map(|kind| RecordedFinding { kind: *kind, ..plain() }).collect();
    written.extend(FindingState::ALL.iter().map(|state| RecordedFinding { state: *state, ..plain() }));
    let by = AcknowledgedBy {
        operator: SPECIAL_CHARACTERS.into(),
        reason: "\u{1f600}".repeat(500),
        at: later(7) + TimeDelta::microseconds(1),
    };
    written.push(RecordedFinding {
        tenant: None,
        order: None,
        row_id: Some(MAX_ID),
        detail: "\u{1f600}".repeat(2_000),
        state: Resolved,
        last_seen: later(3) + TimeDelta::microseconds(1),
        acknowledged: Some(by),
        closed_time: Some(later(9) + TimeDelta::microseconds(1)),
        version: 3,
        ..plain()
    });
    written.push(RecordedFinding {
        order: Some(order_id(MAX_ID)),
        detail: SPECIAL_CHARACTERS.into(),
        ..plain()
    });
    for (number, written) in written.into_iter().enumerate() {
        let finding = RecordedFinding { subject: format!("{number:0512}"), ..written };
        add(rig, std::slice::from_ref(&finding)).await;
        let seen = stored(rig, &finding).await.expect("the finding exists");
        assert_eq!(seen.effect, finding);
        let by_id = view(rig).await.finding_by_id(seen.id).await.unwrap();
        assert_eq!(by_id, Some(seen));
    }
    assert_eq!(stored(rig, &finding("unknown")).await, None);
    assert_eq!(view(rig).await.finding_by_id(MAX_ID).await.unwrap(), None);
}

/// A subject identifies one finding of a kind and tenant, also among those without a tenant. Subjects are compared byte by
/// byte.
pub async fn finding_is_identified_by_tenant_kind_and_subject(rig: &dyn MarketRig) {
    let others = ["Key", "key", "key ", " key", "k\u{e9}y", "\u{ff4b}\u{ff45}\u{ff59}"].map(finding);
    let of_kind = RecordedFinding { kind: FindingKind::NotConsumed, ..finding("key") };
    let foreign = RecordedFinding { tenant: Some(tenant(2)), ..finding("key") };
    let of_nobody = RecordedFinding { tenant: None, ..finding("key") };
    for finding in others.into_iter().chain([of_kind, foreign, of_nobody]) {
        assert_eq!(stored(rig, &finding).await, None, "{finding:?}");
        add(rig, std::slice::from_ref(&finding)).await;
        let again = RecordedFinding { state: Repaired, order: None, version: 7, ..finding.clone() };
        is_conflict(begin(rig).await.insert_finding(&again).await);
        assert_eq!(stored(rig, &finding).await.map(|it| it.effect), Some(finding));
    }
}

/// A finding is replaced only if the stored version is the previous one. What identifies it stays.
pub async fn finding_advances_only_from_previous_version(rig: &dyn MarketRig) {
    let first = finding("a");
    add(rig, &[first.clone(), finding("b")]).await;
    let id = id_of(rig, &first).await;
    let second = RecordedFinding {
        tenant: TENANT,
        order: None,
        row_id: Some(7),
        detail: "changed".into(),
        last_seen: later(5),
        closed_time: Some(later(6)),
        ..acknowledged(&first, "user:9")
    };
    let skipped = RecordedFinding { version: 3, ..second.clone() };
    in_unit!(rig, |unit| changes_none(unit.advance_finding(id, &first).await));
    in_unit!(rig, |unit| changes_none(unit.advance_finding(id, &skipped).await));
    in_unit!(rig, |unit| changes_none(unit.advance_finding(MAX_ID, &second).await));
    let written = RecordedFinding { first_seen: later(9), ..second.clone() };
    in_unit!(rig, |unit| changes_one(unit.advance_finding(id, &written).await));
    in_unit!(rig, |unit| changes_none(unit.advance_finding(id, &written).await));
    assert_eq!(stored(rig, &first).await.map(|it| it.effect), Some(second));
    assert_eq!(stored(rig, &finding("b")).await.map(|it| it.effect), Some(finding("b")));
}

/// A page contains findings with ids below the given id, greatest id first. Ids increase in the order of insertion.
pub async fn finding_pages_are_ordered_by_descending_id(rig: &dyn MarketRig) {
    for (subject, seconds) in ["a", "b", "c", "d", "e"].into_iter().zip([5, 3, 1, 2, 4]) {
        add(rig, &[RecordedFinding { first_seen: later(seconds), ..finding(subject) }]).await;
    }
    let all = FindingFilter::default();
    assert_eq!(subjects(rig, all, None, 2).await, ["e", "d"]);
    let below = |subject: &'static str| async move { Some(id_of(rig, &finding(subject)).await) };
    assert_eq!(subjects(rig, all, below("d").await, 2).await, ["c", "b"]);
    assert_eq!(subjects(rig, all, below("b").await, 2).await, ["a"]);
    assert_eq!(subjects(rig, all, below("a").await, 2).await, [""; 0]);
}

/// Filters apply together; findings that do not match do not count against the limit. A finding without a tenant is only in
/// pages of all tenants.
pub async fn finding_pages_filter_by_tenant_and_state(rig: &dyn MarketRig) {
    let of = |subject: &str, tenant, state| RecordedFinding { tenant, state, ..finding(subject) };
    let two = Some(tenant(2));
    add(
        rig,
        &[
            of("a", TENANT, Resolved),
            of("b", TENANT, Open),
            of("c", None, Open),
            of("d", two, Open),
            of("e", two, Resolved),
            of("f", TENANT, Acknowledged),
            of("g", None, Repaired),
            of("h", TENANT, Resolved),
            of("i", TENANT, Open),
        ],
    )
    .await;
    let below = id_of(rig, &of("d", two, Open)).await;
    let expected: [(Option<TenantId>, Option<FindingState>, &[&str]); 9] = [
        (None, None, &["i", "h", "g", "f", "e", "d", "c", "b", "a"]),
        (None, Some(Resolved), &["h", "e", "a"]),
        (None, Some(Open), &["i", "d", "c", "b"]),
        (None, Some(Repaired), &["g"]),
        (TENANT, None, &["i", "h", "f", "b", "a"]),
        (TENANT, Some(Resolved), &["h", "a"]),
        (TENANT, Some(Open), &["i", "b"]),
        (two, Some(Open), &["d"]),
        (Some(tenant(3)), None, &[]),
    ];
    for (tenant, state, expected) in expected {
        let filter = FindingFilter { tenant, state };
        assert_eq!(subjects(rig, filter, None, 100).await, expected, "{filter:?}");
        assert_eq!(subjects(rig, filter, None, 2).await, expected[..expected.len().min(2)], "{filter:?}");
        let older: Vec<&str> = expected.iter().copied().filter(|subject| *subject < "d").collect();
        assert_eq!(subjects(rig, filter, Some(below), 100).await, older, "{filter:?}");
    }
}

/// The subjects are those of the open findings of all tenants and of those without a tenant, greatest id first, in pages that
/// other findings do not shorten.
pub async fn subjects_of_open_findings_are_ordered_by_descending_id(rig: &dyn MarketRig) {
    let of = |subject: &str, tenant, order| RecordedFinding { tenant, order, ..finding(subject) };
    let closed = |subject: &str, state| RecordedFinding { state, ..finding(subject) };
    let all = [
        of("d", TENANT, Some(order_id(MAX_ID))),
        of("a", None, None),
        closed("e", Acknowledged),
        of("c", Some(tenant(2)), Some(order_id(7))),
        closed("f", Resolved),
        closed("g", Repaired),
        of("event:b consumer:credit", TENANT, None),
    ];
    add(rig, &all).await;
    let mut expected = Vec::new();
    for finding in all.iter().rev().filter(|finding| finding.state == Open) {
        let RecordedFinding { tenant, subject, order, .. } = finding.clone();
        let effect = FindingSubject { tenant, subject, order };
        expected.push(Numbered { id: id_of(rig, finding).await, effect });
    }
    let page = async |before: Option<i64>, limit| {
        let page = view(rig).await.subjects_of_open_findings(before, limit).await;
        page.expect("cannot read the subjects of open findings")
    };
    assert_eq!(page(None, 9).await, expected);
    assert_eq!(page(None, 2).await, expected[..2]);
    assert_eq!(page(Some(expected[1].id), 2).await, expected[2..]);
    assert_eq!(page(Some(expected[3].id), 2).await, []);
}

/// Only open findings are counted, those of all tenants and those without a tenant.
pub async fn open_findings_are_counted_by_kind(rig: &dyn MarketRig) {
    let counts = async || view(rig).await.open_findings().await.expect("cannot count findings");
    assert_eq!(counts().await, []);
    let of = |subject: &str, kind| RecordedFinding { kind, ..finding(subject) };
    let in_state = |subject: &str, state| RecordedFinding { state, ..finding(subject) };
    let report = of("a", FindingKind::GatewayReport);
    add(
        rig,
        &[
            RecordedFinding { tenant: None, ..report.clone() },
            of("a", FindingKind::NotConsumed),
            RecordedFinding { tenant: Some(tenant(2)), ..finding("b") },
            finding("c"),
            in_state("d", Acknowledged),
            in_state("e", Repaired),
            in_state("f", Resolved),
            report.clone(),
        ],
    )
    .await;
    let expected =
        [(FindingKind::MissingEvent, 2), (FindingKind::NotConsumed, 1), (FindingKind::GatewayReport, 2)];
    assert_eq!(counts().await, expected);
    let id = id_of(rig, &report).await;
    in_unit!(rig, |unit| {
        changes_one(unit.advance_finding(id, &acknowledged(&report, "user:9")).await);
        let open = unit.open_findings().await.unwrap();
        assert_eq!(open.last(), Some(&(FindingKind::GatewayReport, 1)), "a unit of work reads its own rows");
    });
    assert_eq!(counts().await.last(), Some(&(FindingKind::GatewayReport, 1)));
}

pub async fn concurrent_inserts_of_finding_succeed_exactly_once(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move {
            let finding = RecordedFinding { row_id: Some(n as i64 + 1), ..finding("k") };
            unit.insert_finding(&finding).await
        })
    })
    .await;
    let winner = one_succeeded(outcomes);
    let seen = stored(rig, &finding("k")).await.and_then(|seen| seen.effect.row_id);
    assert_eq!(seen, Some(winner as i64 + 1));
}

pub async fn concurrent_changes_of_finding_succeed_exactly_once(rig: &dyn MarketRig) {
    add(rig, &[finding("k")]).await;
    let id = id_of(rig, &finding("k")).await;
    let operators: [String; RACERS] = std::array::from_fn(|n| format!("user:{n}"));
    let of_racers = operators.clone();
    let outcomes = race(&rig.market(), move |unit, n| {
        let after = acknowledged(&finding("k"), &of_racers[n]);
        Box::pin(async move { unit.advance_finding(id, &after).await })
    })
    .await;
    let winner = one_changed(outcomes);
    let seen = stored(rig, &finding("k")).await.map(|seen| seen.effect);
    assert_eq!(seen, Some(acknowledged(&finding("k"), &operators[winner])));
}
