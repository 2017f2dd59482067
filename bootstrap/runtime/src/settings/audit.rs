//! The audit log: `[audit]`.

use std::time::Duration;

use handover_outbox::AuditRetention;

use crate::config::{Checked, HOUR, Reader};

/// `audit.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfig {
    /// `audit.keep-reads`: retention of the entries of calls that only read. Those of changes stay.
    pub keep_reads: Duration,
}

/// Reads `audit.*`.
pub fn audit(reader: &Reader<'_>) -> Checked<AuditConfig> {
    let why = "who read personal data is often asked days later, and each read takes space";
    let keep_reads = reader.duration("audit.keep-reads", "30d", AuditRetention::MIN..=HOUR * 24 * 3_650, why);
    Ok(AuditConfig { keep_reads: keep_reads? })
}
