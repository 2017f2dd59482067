//! Results of erasures.

use handover_http::views;
use marketplace::use_cases::operations::ErasedUser;
use serde_json::{Map, Value};

use crate::openapi::kinds;

views! {
    /// What an erasure masked, and what it left to a later call.
    pub ErasedUserView as ErasedUser {
        /// Whether nothing is left.
        complete: bool,
        /// Changed products.
        products: u64,
        /// Changed orders, payments, refunds and reports of the gateway.
        order_rows: u64,
        /// Changed events, entries of their history, consume-log records, dead letters, webhook deliveries and attempts.
        event_rows: u64,
        /// Findings whose reason was masked.
        findings: u64,
        /// Masked responses to requests with an idempotency key.
        responses: u64,
        /// Audit entries whose reason was masked.
        audit_entries: u64,
        /// Orders that were left: they, a payment or a refund are not finished.
        unfinished_orders: u64,
        /// Number of events that were left because they are not settled, by the reason.
        unsettled_events: Map<String, Value> = kinds::Counts,
        /// Files of the archive that were replaced by files with masked texts.
        archive_files: u64,
        /// Events in the archive that were left, because their files cannot be read or written.
        archived_events: u64,
        /// Files of the archive that may contain texts and were left: they cannot be read or written, or a process writes or
        /// removes them, or did when it ended.
        archive_files_left: u64,
    }
}

impl From<ErasedUser> for ErasedUserView {
    fn from(erased: ErasedUser) -> ErasedUserView {
        ErasedUserView {
            complete: erased.is_complete(),
            products: erased.products,
            order_rows: erased.orders,
            event_rows: erased.events.rows,
            findings: erased.findings,
            responses: erased.responses,
            audit_entries: erased.audit_entries,
            unfinished_orders: erased.unfinished_orders,
            archive_files: erased.events.files,
            archived_events: erased.events.archived,
            archive_files_left: erased.events.files_left,
            unsettled_events: erased
                .events
                .left
                .into_iter()
                .map(|(reason, events)| (reason.as_str().to_owned(), events.into()))
                .collect(),
        }
    }
}
