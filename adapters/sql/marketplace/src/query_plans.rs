//! Tests of the query plans on SQLite: hot queries use an index, with and without statistics.

use std::sync::Arc;

use chrono::DateTime;
use handover_events::TenantId;
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Store as _, UnitOfWork as _};
use handover_sql::{SqlStore, SqliteOptions, Value};
use marketplace::ports::{GatewayReportFilter, PaymentFilter};
use marketplace_domain::{
    BillingPeriod, FindingKind, InvoiceId, OrderId, PaymentId, PaymentStatus, Purse, Reference, RefundId,
    UserId,
};

use crate::assets::{balances, operations};
use crate::store::SqlMarket;
use crate::{
    captures, findings, gateway_reports, invoices, orders, payments, personal_texts, refunds, requests,
};

async fn store(directory: &tempfile::TempDir) -> SqlMarket {
    let options = SqliteOptions::file(directory.path().join("test.db"));
    let clock = Arc::new(ManualClock::new(DateTime::UNIX_EPOCH));
    let store = SqlStore::open_sqlite(&options, clock, WakeupNotifier::default()).await.unwrap();
    let store = SqlMarket::on(store);
    store.migrate().await.unwrap();
    store
}

#[tokio::test]
async fn queries_use_an_index_with_and_without_statistics() {
    let directory = tempfile::tempdir().unwrap();
    let fresh = store(&directory).await;
    check_job_queries(&fresh).await;
    check_lookups(&fresh).await;
    check_counts_of_open_refunds(&fresh).await;
    let mut unit = (*fresh).begin().await.unwrap();
    let fill = "INSERT INTO asset_operations (tenant_id, idempotency_key, asset, kind, user_id, amount, create_time) \
                SELECT 1, 'k-' || n, 'wallet', 'DEPOSIT', 7, 1, '2026-01-01T00:00:00.000000Z' FROM \
                (WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000) \
                 SELECT n FROM numbers)";
    for statement in [fill, "ANALYZE"] {
        unit.execute(statement, vec![]).await.unwrap();
    }
    unit.commit().await.unwrap();
    fresh.close().await;
    // SQLite loads statistics with the schema, so the store is reopened.
    let filled = store(&directory).await;
    check_job_queries(&filled).await;
    check_lookups(&filled).await;
    check_counts_of_open_refunds(&filled).await;
}

async fn check_job_queries(store: &SqlMarket) {
    let order = OrderId::try_from(7).unwrap();
    let user = UserId::try_from(7).unwrap();
    for (index, plan) in store.explain_job_queries(DateTime::UNIX_EPOCH, order, user).await.unwrap() {
        assert!(plan.contains(&format!("INDEX {index}")), "{index}: {plan}");
        assert!(!plan.contains("SCAN asset_holds") && !plan.contains("SCAN orders"), "{index}: {plan}");
        // A page of a purse merges the entries of several accounts, and open tasks are found by their orders, so that these
        // rows must be sorted.
        let is_sorted = ["idx_ledger_account", "idx_orders_open"].contains(&index);
        assert!(!plan.contains("TEMP B-TREE") || is_sorted, "{index}: {plan}");
    }
}

/// Each open refund that is counted needs a few lookups by index.
async fn check_counts_of_open_refunds(store: &SqlMarket) {
    let mut session = (**store).view().await.unwrap();
    let mut plan = String::new();
    for (sql, values) in [refunds::processing(session.dialect()), refunds::failed(session.dialect())] {
        let sql = format!("{} {sql}", session.dialect().explain());
        let rows = session.fetch(&sql, values).await.unwrap();
        plan.extend(rows.iter().map(|row| format!("{row}\n")));
    }
    for lookup in [
        "q USING PRIMARY KEY (refund_id=?",
        "o USING INDEX idx_refunds_order (tenant_id=? AND order_id=?",
        "i USING INDEX idx_refunds_invoice (invoice_id=?",
        "c USING PRIMARY KEY (payment_id=? AND capture_no=?",
        "p USING INTEGER PRIMARY KEY",
        "e USING INDEX idx_refunds_order (tenant_id=? AND order_id=?",
        "d USING INTEGER PRIMARY KEY",
    ] {
        assert!(plan.contains(&format!("SEARCH {lookup}")), "{lookup}: {plan}");
    }
}

async fn check_lookups(store: &SqlMarket) {
    let mut session = (**store).view().await.unwrap();
    let dialect = session.dialect();
    let now = DateTime::UNIX_EPOCH;
    let tenant = TenantId::DEFAULT;
    let rows_by_key = |table| operations::rows_by_key(dialect, "*", table, tenant, &["a", "b"]);
    let reference: Reference = "0192f0c1-0000-7000-8000-000000000001".parse().unwrap();
    let period = BillingPeriod::FIRST;
    // The planner compares the costs of an index for the length of the list.
    let many: Vec<i64> = (1..=128).collect();
    let invoice = InvoiceId::try_from(7).unwrap();
    let refund = RefundId::try_from(7).unwrap();
    let failed_payments = PaymentFilter { status: Some(PaymentStatus::Failed), ..PaymentFilter::default() };
    let erasure = ["orders", "payments", "refunds", "refund_requests", "gateway_reports"]
        .map(|table| format!("SEARCH {table} USING"));
    let erasure = personal_texts::order_statements(dialect, tenant, &[1, 2]).into_iter().zip(&erasure);
    let cases: [((String, Vec<Value>), &str); 26] = [
        (orders::by_id(dialect, Some(tenant), &many), "SEARCH orders USING INTEGER PRIMARY KEY"),
        (
            payments::OF_ORDERS.statement(dialect, tenant, &[1, 2]),
            "SEARCH payments USING INDEX idx_payments_order",
        ),
        (payments::by_reference(reference), "SEARCH payments USING INDEX uk_payments_reference"),
        (
            captures::OF_ORDERS.statement(dialect, tenant, &[1, 2]),
            "SEARCH payment_captures USING INDEX idx_payment_captures_order",
        ),
        (
            captures::by_transaction("t"),
            "SEARCH payment_captures USING INDEX uk_payment_captures_transaction",
        ),
        (refunds::by_reference(reference), "SEARCH refunds USING INDEX uk_refunds_reference"),
        (
            payments::page(failed_payments, PaymentId::try_from(1_000_000).ok(), 100),
            "SEARCH payments USING INTEGER PRIMARY KEY",
        ),
        (refunds::superseded_by(reference), "SEARCH refund_attempts USING PRIMARY KEY"),
        (refunds::requests(refund, 100), "SEARCH refund_requests USING PRIMARY KEY"),
        (gateway_reports::by_key("k"), "SEARCH gateway_reports USING INDEX uk_gateway_reports_key"),
        (
            gateway_reports::page(dialect, GatewayReportFilter::default(), Some(9), 100),
            "SEARCH gateway_reports USING INTEGER PRIMARY KEY",
        ),
        (
            findings::by_subject(None, FindingKind::Drifted, "k"),
            "SEARCH reconciliation_findings USING INDEX uk_findings_subject",
        ),
        (invoices::of_period(tenant, period), "SEARCH invoices USING INDEX uk_invoices_period"),
        (
            payments::OF_ORDERS.statement_of_invoice(dialect, tenant, invoice),
            "SEARCH payments USING INDEX idx_payments_invoice",
        ),
        (
            captures::OF_ORDERS.statement_of_invoice(dialect, tenant, invoice),
            "SEARCH payment_captures USING INDEX idx_payment_captures_invoice",
        ),
        (
            refunds::OF_ORDERS.statement_of_invoice(dialect, tenant, invoice),
            "SEARCH refunds USING INDEX idx_refunds_invoice",
        ),
        (
            gateway_reports::of_orders("id").statement_of_invoice(dialect, tenant, invoice),
            "SEARCH gateway_reports USING INDEX idx_gateway_reports_invoice",
        ),
        (invoices::next_tenant(dialect, Some(tenant)), "SEARCH orders USING"),
        (invoices::lines(invoice, None, 100), "SEARCH invoice_lines USING PRIMARY KEY"),
        (
            balances::locking(dialect, Purse::Wallet, tenant, vec![1, 2]),
            "SEARCH asset_balances USING PRIMARY KEY",
        ),
        (rows_by_key("asset_operations"), "SEARCH asset_operations USING"),
        (rows_by_key("ledger_entries"), "SEARCH ledger_entries USING INDEX uk_ledger_entries"),
        (requests::expired(dialect, now, 100), "SEARCH idempotency_keys USING"),
        (personal_texts::stored_responses(Some(9), 200), "SEARCH idempotency_keys USING INTEGER PRIMARY KEY"),
        (personal_texts::titles(dialect, tenant, &[1, 2]), "SEARCH products USING INTEGER PRIMARY KEY"),
        (
            personal_texts::finding_reasons(&[1, 2]),
            "SEARCH reconciliation_findings USING INTEGER PRIMARY KEY",
        ),
    ];
    let erasure = erasure.map(|(statement, step)| (statement, step.as_str()));
    for ((sql, values), step) in cases.into_iter().chain(erasure) {
        let rows = session.fetch(&format!("EXPLAIN QUERY PLAN {sql}"), values).await.unwrap();
        let steps: Vec<_> = rows.iter().map(|row| row.text("detail").unwrap()).collect();
        let plan = steps.join("\n");
        assert!(
            plan.contains(step) && !plan.contains("SCAN ") && !plan.contains("AUTOMATIC"),
            "{sql}\n{plan}"
        );
    }
}
