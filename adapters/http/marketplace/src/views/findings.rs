//! Recorded findings of reconciliations.

use handover_events::TenantId;
use handover_http::views;
use handover_http::views::{Listed, Time};
use handover_outbox::ports::Numbered;
use marketplace_domain::{OrderId, RecordedFinding};

use crate::openapi::kinds;

views! {
    /// A finding of a reconciliation, and whether it still needs a decision.
    pub RecordedFindingView as RecordedFinding {
        finding_id: i64 = kinds::Id,
        kind: &'static str = kinds::FindingName,
        /// Null if the compared row names no tenant; then only the role `platform` sees the finding.
        tenant_id: Option<TenantId>,
        order_id: Option<OrderId>,
        /// Identifies the finding within its tenant and kind.
        subject: String,
        what: String,
        state: &'static str = kinds::FindingState,
        /// Start of the first reconciliation that found it.
        first_seen: Time,
        /// Start of the latest reconciliation that found it.
        last_seen: Time,
        acknowledged_by: Option<String>,
        reason: Option<String>,
        acknowledge_time: Option<Time>,
        /// Time of the repair, or start of the reconciliation that no longer found it.
        closed_time: Option<Time>,
    }
}

impl Listed for RecordedFindingView {
    const COLUMNS: &'static [&'static str] = &[
        "findingId",
        "state",
        "kind",
        "tenantId",
        "subject",
        "firstSeen",
        "lastSeen",
        "acknowledgedBy",
        "reason",
        "what",
    ];
}

impl From<Numbered<RecordedFinding>> for RecordedFindingView {
    fn from(Numbered { id, effect: finding }: Numbered<RecordedFinding>) -> RecordedFindingView {
        let acknowledge_time = finding.acknowledged.as_ref().map(|by| Time(by.at));
        let (acknowledged_by, reason) = finding.acknowledged.map(|by| (by.operator, by.reason)).unzip();
        RecordedFindingView {
            finding_id: id,
            kind: finding.kind.as_str(),
            tenant_id: finding.tenant,
            order_id: finding.order,
            subject: finding.subject,
            what: finding.detail,
            state: finding.state.as_str(),
            first_seen: Time(finding.first_seen),
            last_seen: Time(finding.last_seen),
            acknowledged_by,
            reason,
            acknowledge_time,
            closed_time: finding.closed_time.map(Time),
        }
    }
}
