//! States of a recorded finding.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::TenantId;
use marketplace_domain::{AcknowledgedBy, FindingKind, FindingState, ObservedFinding, RecordedFinding};

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
}

fn seen(seconds: i64, is_repaired: bool) -> ObservedFinding {
    ObservedFinding {
        tenant: Some(TenantId::DEFAULT),
        kind: FindingKind::Drifted,
        subject: "user:7 wallet".into(),
        order: None,
        row_id: None,
        detail: format!("seen at {seconds}"),
        repaired_at: is_repaired.then(|| at(seconds)),
        at: at(seconds),
    }
}

fn new(seconds: i64) -> RecordedFinding {
    RecordedFinding::new(seen(seconds, false))
}

fn by(operator: &str) -> AcknowledgedBy {
    AcknowledgedBy { operator: operator.into(), reason: "known".into(), at: at(100) }
}

#[test]
fn new_finding_is_open_unless_the_run_repaired_it() {
    let open = new(1);
    assert_eq!((open.state, open.closed_time, open.version), (FindingState::Open, None, 1));
    assert_eq!((open.first_seen, open.last_seen), (at(1), at(1)));
    let repaired = RecordedFinding::new(seen(1, true));
    assert_eq!((repaired.state, repaired.closed_time), (FindingState::Repaired, Some(at(1))));
}

#[test]
fn finding_seen_again_keeps_its_state_and_acknowledgement_until_it_is_repaired() {
    let open = new(1).seen_again(&seen(2, false)).unwrap();
    let expected = RecordedFinding { last_seen: at(2), detail: "seen at 2".into(), version: 2, ..new(1) };
    assert_eq!(open, expected);
    let acknowledged = open.acknowledged(by("user:9")).unwrap();
    let again = acknowledged.seen_again(&seen(3, false)).unwrap();
    assert_eq!(again.state, FindingState::Acknowledged);
    assert_eq!((&again.acknowledged, again.last_seen, again.version), (&Some(by("user:9")), at(3), 4));
    let repaired = again.seen_again(&seen(4, true)).unwrap();
    assert_eq!((repaired.state, repaired.closed_time), (FindingState::Repaired, Some(at(4))));
    assert_eq!(repaired.acknowledged, Some(by("user:9")));
}

/// Two runs compare the same row. The second finds what the first has not repaired yet.
#[test]
fn finding_that_was_repaired_since_the_run_began_is_not_open_again() {
    let repaired =
        new(1).seen_again(&ObservedFinding { repaired_at: Some(at(5)), ..seen(2, false) }).unwrap();
    assert_eq!((repaired.state, repaired.closed_time), (FindingState::Repaired, Some(at(5))));
    assert_eq!(repaired.seen_again(&seen(4, false)), None);
    assert_eq!(repaired.seen_again(&seen(6, false)).unwrap().state, FindingState::Open);
}

#[test]
fn closed_finding_that_is_seen_again_is_open_without_its_acknowledgement() {
    let acknowledged = new(1).acknowledged(by("user:9")).unwrap();
    let repaired = acknowledged.seen_again(&seen(2, true)).unwrap();
    let resolved = acknowledged.resolved(at(2)).unwrap();
    assert_eq!((resolved.state, resolved.closed_time), (FindingState::Resolved, Some(at(2))));
    assert_eq!(resolved.acknowledged, Some(by("user:9")));
    for closed in [repaired, resolved] {
        let again = closed.seen_again(&seen(3, false)).unwrap();
        assert_eq!((again.state, again.closed_time, again.acknowledged), (FindingState::Open, None, None));
        assert_eq!((again.first_seen, again.last_seen), (at(1), at(3)));
    }
}

#[test]
fn run_that_began_earlier_changes_nothing() {
    let later = new(5);
    assert_eq!(later.seen_again(&seen(4, true)), None);
    assert_eq!(later.resolved(at(5)), None, "a run resolves only what it did not see");
    let resolved = later.resolved(at(9)).unwrap();
    assert_eq!(resolved.seen_again(&seen(8, false)), None, "the later run no longer saw it");
    assert!(resolved.seen_again(&seen(9, false)).is_some());
}

#[test]
fn only_open_findings_are_acknowledged_and_only_unresolved_ones_resolved() {
    let acknowledged = new(1).acknowledged(by("user:9")).unwrap();
    let repaired = RecordedFinding::new(seen(1, true));
    let resolved = new(1).resolved(at(2)).unwrap();
    for finding in [&acknowledged, &repaired, &resolved] {
        assert_eq!(finding.acknowledged(by("user:8")), None, "{finding:?}");
    }
    assert!(acknowledged.resolved(at(2)).is_some());
    for finding in [repaired, resolved] {
        assert_eq!(finding.resolved(at(9)), None, "{finding:?}");
    }
}
