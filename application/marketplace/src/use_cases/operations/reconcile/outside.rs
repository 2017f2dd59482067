//! Comparison of orders with what others said and got: reports of the payment gateway, and webhook deliveries.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{ConsumeStatus, EventId};
use handover_outbox::ports::{Consumed, Numbered, OutboxRow, StoreError};
use handover_outbox::webhooks::DeliveryWriter;
use marketplace_domain::{
    FindingKind, GatewayReport, Order, PayableId, PaymentStatus, Refund, RefundStatus, ReportKind,
};

use super::findings::{Finding, Record};
use crate::consistency::OrderRows;
use crate::consistency::rows_by_order::{RowsByOrder, ids_by_tenant};
use crate::ports::{MarketView, SentRefundRequest, attempt_begin};
use crate::webhook_offer::OFFER;

/// The consume-log records of events, by event and consumer.
pub(super) type ConsumeLog = BTreeMap<(EventId, String), Consumed>;

/// Time after which an attempt at a refund without a report of the gateway is a finding.
const REPORT_EXPECTED_AFTER: TimeDelta = TimeDelta::hours(1);

/// Number of requests of a refund that are read, more than the current attempt has.
const MAX_REQUESTS: u32 = 10_000;

/// Reads the reports of the gateway about these orders. A report is committed together with its effect, so payments and
/// refunds MUST be read before.
pub(super) async fn reports_of(
    view: &mut dyn MarketView,
    orders: &[Order],
) -> Result<RowsByOrder<GatewayReport>, StoreError> {
    let mut reports = RowsByOrder::default();
    for (tenant, ids) in ids_by_tenant(orders) {
        let of_tenant = view.gateway_reports_of(tenant, &ids).await?.into_iter();
        reports.extend(tenant, of_tenant.map(|Numbered { effect, .. }| effect).collect(), |it| {
            it.of.and_then(PayableId::order)
        });
    }
    Ok(reports)
}

/// The requests of the refunds of this order that were retried and are in processing.
pub(super) async fn requests_of_retried(
    view: &mut dyn MarketView,
    rows: &OrderRows<'_>,
) -> Result<Vec<SentRefundRequest>, StoreError> {
    let mut requests = Vec::new();
    for refund in &rows.refunds {
        if refund.status == RefundStatus::Processing && refund.attempt > 1 {
            requests.extend(view.refund_requests(refund.id, MAX_REQUESTS).await?);
        }
    }
    Ok(requests)
}

/// Findings for money that moved, or should have moved, without a report of the gateway. An operator may have settled a
/// refund without one.
pub(super) fn not_reported(
    rows: &OrderRows<'_>,
    reports: &[GatewayReport],
    requests: &[SentRefundRequest],
    now: DateTime<Utc>,
) -> Vec<Finding> {
    let finding = |key: String, what: String| Finding {
        key: Some(key),
        ..Finding::of_order(rows.order, FindingKind::NotReported, what)
    };
    let is_reported = |kind, is_about: &dyn Fn(&GatewayReport) -> bool| {
        let success = Some(PaymentStatus::Success.as_str());
        reports.iter().any(|it| it.kind == kind && it.result.as_deref() == success && is_about(it))
    };
    let mut findings = Vec::new();
    for payment in rows.payments.iter().filter(|it| it.amount.minor() > 0) {
        if payment.status == PaymentStatus::Success
            && !is_reported(ReportKind::Payment, &|it| it.payment == Some(payment.id))
        {
            let what = format!(
                "payment {} of {} is SUCCESS without a report of the gateway",
                payment.id, payment.amount
            );
            findings.push(finding(format!("payment:{}", payment.id), what));
        }
    }
    for refund in rows.refunds.iter().filter(|it| it.amount.minor() > 0) {
        let is_reported = || is_reported(ReportKind::Refund, &|it| it.refund == Some(refund.id));
        let Refund { id, amount, status, .. } = refund;
        let what = match status {
            RefundStatus::Success if refund.settled_by.is_none() && !is_reported() => {
                format!("refund {id} of {amount} is SUCCESS without a report of the gateway")
            }
            RefundStatus::Processing if attempt_begin(refund, requests) + REPORT_EXPECTED_AFTER < now => {
                format!(
                    "refund {id} of {amount} was requested more than {} min ago, and the gateway has not reported its result",
                    REPORT_EXPECTED_AFTER.num_minutes()
                )
            }
            RefundStatus::Success | RefundStatus::Processing | RefundStatus::Failed => continue,
        };
        findings.push(finding(format!("refund:{id}"), what));
    }
    findings
}

/// Findings for applied events of which a webhook endpoint has no delivery.
pub(super) async fn missing_deliveries(
    view: &mut dyn MarketView,
    rows: &[OrderRows<'_>],
    log: &ConsumeLog,
    deleted_before: DateTime<Utc>,
) -> Result<Vec<Finding>, StoreError> {
    let mut applied: Vec<(&OutboxRow, DateTime<Utc>)> = Vec::new();
    let mut orders: Vec<&Order> = Vec::new();
    for of_order in rows {
        for row in &of_order.events {
            let record = log.get(&(row.event_id.clone(), DeliveryWriter::NAME.to_owned()));
            if let Some(applied_at) = record
                .filter(|it| it.record.status == ConsumeStatus::Success)
                .map(|it| it.record.consume_time)
            {
                applied.push((row, applied_at));
                orders.push(of_order.order);
            }
        }
    }
    let missing = OFFER.missing_deliveries(view.outbox_view(), &applied, deleted_before).await?;
    let finding = |(position, endpoint): (usize, _)| {
        let (row, _) = applied.get(position)?;
        let what = format!(
            "webhook endpoint {endpoint} has no delivery of the event; \
             `handover webhook recover {endpoint} --include-missing` creates it"
        );
        Some(Finding {
            consumer: Some(DeliveryWriter::NAME.to_owned()),
            record: Record { part: Some(format!("endpoint:{endpoint}")), ..Record::default() },
            ..Finding::of_event(orders.get(position)?, row, FindingKind::MissingDelivery, what)
        })
    };
    Ok(missing.into_iter().filter_map(finding).collect())
}
