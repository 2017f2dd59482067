//! Erasure and retention.

use handover_contract::samples::{event_id, later, start, tenant};
use handover_events::TenantId;
use handover_outbox::ports::Store as _;
use handover_outbox::ports::{AuditFilter, Erasure, MaskedTexts};
use marketplace::ports::FindingFilter;
use marketplace_contract::samples::{order_id, product_id};

use super::{Case, unit, view};

const ERASURE: [&str; 9] = [
    "uk_event_id",
    "idx_outbox_history",
    "idx_consume_event",
    "uk_consumer_event",
    "uk_dead_letter",
    "idx_dead_letters_key",
    "webhook_deliveries_pkey",
    "PRIMARY",
    "idx_webhook_attempts_delivery",
];

/// What masks the texts about an event that has this delivery.
fn masked(id: &str, delivery: i64) -> MaskedTexts {
    MaskedTexts {
        event_id: event_id(id),
        payload: "{}".to_owned(),
        payload_hash: String::new(),
        dead_letters: vec![("a.queue".to_owned(), "{}".to_owned())],
        deliveries: vec![(delivery, "{}".to_owned())],
    }
}

fn erasure() -> Erasure {
    Erasure { at: start(), reason: "ticket 4711".to_owned() }
}

pub(super) const CASES: &[Case] = &[
    // The pages of an erasure, which reads these tables completely: the bound of each statement is that of one page.
    view!("a page of the audit log", ["outbox_audit_log_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .audit_page(&AuditFilter::default(), None, 500)),
    view!("a page of the audit log of an old day", ["outbox_audit_log_pkey", "PRIMARY"], |view| async {
        let audit_log = view.outbox_view();
        let newest = audit_log.audit_page(&AuditFilter::default(), None, 1).await?;
        let old = AuditFilter {
            to: Some(start()),
            above_id: Some(newest.first().map_or(0, |row| row.id - 50)),
            ..AuditFilter::default()
        };
        let changes = AuditFilter { changes: true, tenant: Some(TenantId::DEFAULT), ..old.clone() };
        audit_log.audit_page(&changes, None, 100).await?;
        audit_log.audit_page(&AuditFilter { tenant: None, ..changes }, None, 100).await?;
        audit_log.audit_page(&old, None, 100).await
    }),
    view!(
        "pages of the audit log of a tenant without entries",
        ["idx_outbox_audit_tenant", "idx_outbox_audit_changes"],
        |view| async {
            let audit_log = view.outbox_view();
            let of_tenant = AuditFilter { tenant: Some(tenant(9)), ..AuditFilter::default() };
            audit_log.audit_page(&of_tenant, None, 100).await?;
            audit_log.audit_page(&AuditFilter { changes: true, ..of_tenant }, None, 100).await
        }
    ),
    view!("a page of the files of the archive", ["outbox_archive_files_pkey", "PRIMARY"], |view| view
        .outbox_view()
        .archive_files(Some(5_000), 500)),
    view!("a page of the products of all tenants", ["products_pkey", "PRIMARY"], |view| view
        .newest_products(None, None, 200)),
    view!("a page of stored responses", ["idempotency_keys_pkey", "PRIMARY"], |view| view
        .stored_responses(Some(100), 200)),
    view!("a page of findings", ["reconciliation_findings_pkey", "PRIMARY"], |view| view.findings_page(
        FindingFilter::default(),
        None,
        200
    )),
    unit!("masking the texts of events", ERASURE, |unit| unit
        .outbox()
        .erase_events(&[masked("sent-7", 7), masked("sent-8", 8)], &erasure())),
    unit!("masking the reasons of audit entries", ["outbox_audit_log_pkey", "PRIMARY"], |unit| unit
        .outbox()
        .erase_audit_reasons(&[7, 8, 9])),
    unit!("masking titles", ["products_pkey", "PRIMARY", "idx_products_tenant"], |unit| unit
        .erase_titles(TenantId::DEFAULT, &[product_id(7), product_id(8)])),
    unit!(
        "masking the texts of orders",
        [
            "orders_pkey",
            "PRIMARY",
            "idx_payments_order",
            "idx_refunds_order",
            "idx_refund_requests_order",
            "idx_gateway_reports_order"
        ],
        |unit| unit.erase_order_texts(TenantId::DEFAULT, &[order_id(7), order_id(8)])
    ),
    unit!("masking the reasons of findings", ["reconciliation_findings_pkey", "PRIMARY"], |unit| unit
        .erase_finding_reasons(&[7, 8])),
    unit!("removing expired keys", ["idx_idempotency_expire", "idempotency_keys_pkey", "PRIMARY"], |unit| {
        unit.delete_expired_requests(later(60), 100)
    }),
];
