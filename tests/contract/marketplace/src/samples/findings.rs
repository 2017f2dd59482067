//! Recorded findings.

use handover_contract::samples::{later, start};
use handover_events::TenantId;
use marketplace_domain::{AcknowledgedBy, FindingKind, FindingState, RecordedFinding};

use super::order_id;

/// An open finding of tenant 1 with this subject, about order 1.
pub fn finding(subject: &str) -> RecordedFinding {
    RecordedFinding {
        tenant: Some(TenantId::DEFAULT),
        kind: FindingKind::MissingEvent,
        subject: subject.into(),
        order: Some(order_id(1)),
        row_id: None,
        detail: "Order 1 has version 2, but its event is missing".into(),
        state: FindingState::Open,
        first_seen: start(),
        last_seen: start(),
        acknowledged: None,
        closed_time: None,
        version: 1,
    }
}

/// The finding after this operator acknowledged it.
pub fn acknowledged(finding: &RecordedFinding, operator: &str) -> RecordedFinding {
    let by = AcknowledgedBy { operator: operator.into(), reason: "known".into(), at: later(60) };
    finding.acknowledged(by).expect("the finding is open")
}
