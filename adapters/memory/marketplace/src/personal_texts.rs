//! Texts about persons.

use std::ops::Bound;

use async_trait::async_trait;
use handover_events::TenantId;
use handover_memory::store::limited;
use handover_outbox::MASK;
use handover_outbox::ports::{Numbered, StoreError};
use marketplace::ports::{
    PersonalTextQueries, PersonalTextRepo, RequestRecord, RequestState, SentRefundRequest,
};
use marketplace_domain::{
    GatewayReport, OrderId, PayableId, Product, ProductId, RecordedFinding, Refund, RefundStatus,
    ReportState, Shipment, Title,
};

use crate::findings::lock;
use crate::tables::{Lock, MarketRows as _, Statement};
use crate::unit::MarketUnit;

fn mask(text: &mut String, changed: &mut bool) {
    if text != MASK {
        *changed = true;
        MASK.clone_into(text);
    }
}

#[async_trait]
impl PersonalTextQueries for MarketUnit {
    async fn stored_responses(
        &mut self,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<RequestRecord>>, StoreError> {
        self.read(|statement| {
            let start = after.map_or(Bound::Unbounded, Bound::Excluded);
            let requests = statement.requests();
            let in_order = requests.select(|table| {
                let ids = table.index.by_id.range((start, Bound::Unbounded));
                ids.filter_map(|(id, scope)| Some((*id, table.get(scope)?)))
            });
            let executed = in_order.filter(|row| match row.effect.state {
                RequestState::Success(_) => true,
                RequestState::Processing { .. } => false,
            });
            executed.take(limited(limit)).cloned().collect()
        })
        .await
    }
}

#[async_trait]
impl PersonalTextRepo for MarketUnit {
    async fn erase_titles(&mut self, tenant: TenantId, products: &[ProductId]) -> Result<u64, StoreError> {
        let title = Title::try_from(MASK.to_owned()).map_err(|error| StoreError::Backend(Box::new(error)))?;
        self.write(products.iter().copied().map(Lock::Product).collect(), |statement| {
            let mut rows = 0;
            for id in products {
                let Some(before) = statement.products().get(id).cloned() else { continue };
                if before.tenant == tenant && before.title != title {
                    let version = before.version + 1;
                    statement.own.products.put(Product { title: title.clone(), version, ..before });
                    rows += 1;
                }
            }
            Ok(rows)
        })
        .await
    }

    async fn erase_order_texts(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<u64, StoreError> {
        let locks = self.read(|statement| {
            let is_of = |of: Option<OrderId>| of.is_some_and(|of| orders.contains(&of));
            let refunds =
                statement.refunds().all().filter(|it| is_of(it.of.order())).map(|it| Lock::Refund(it.id));
            let reports = statement.gateway_reports().all();
            let reports = reports.filter(|it| is_of(it.effect.of.and_then(PayableId::order)));
            let reports = reports.map(|it| Lock::GatewayReport(it.effect.key.clone()));
            orders.iter().copied().map(Lock::Order).chain(refunds).chain(reports).collect()
        });
        let locks = locks.await?;
        self.write(locks, |statement| {
            Ok(orders.iter().map(|order| erase_order(statement, tenant, *order)).sum())
        })
        .await
    }

    async fn erase_finding_reasons(&mut self, findings: &[i64]) -> Result<u64, StoreError> {
        let locks = self.read(|statement| {
            let rows = statement.findings();
            findings.iter().filter_map(|id| rows.get(id)).map(|row| lock(&row.effect)).collect()
        });
        let locks = locks.await?;
        self.write(locks, |statement| {
            let mut rows = 0;
            for id in findings {
                let Some(mut row) = statement.findings().get(id).cloned() else { continue };
                let mut changed = false;
                let RecordedFinding { acknowledged, .. } = &mut row.effect;
                acknowledged.iter_mut().for_each(|by| mask(&mut by.reason, &mut changed));
                if changed {
                    row.effect.version += 1;
                    statement.own.findings.put(row);
                    rows += 1;
                }
            }
            Ok(rows)
        })
        .await
    }
}

/// Masks the texts of an order and of its refunds and reports. Payments have none: this store keeps no payment method outside
/// of the closed set.
fn erase_order(statement: &mut Statement<'_>, tenant: TenantId, id: OrderId) -> u64 {
    let mut rows = 0;
    let found = statement.orders().get(&id).filter(|order| order.tenant == tenant).cloned();
    let masked = Shipment::new(MASK.to_owned(), MASK.to_owned()).ok();
    if let Some(mut order) = found
        && order.shipment.is_some()
        && order.shipment != masked
    {
        order.shipment = masked;
        statement.own.orders.put(order);
        rows += 1;
    }
    let is_settled = |refund: &&Refund| {
        refund.tenant == tenant && refund.of.order() == Some(id) && refund.status != RefundStatus::Processing
    };
    for mut refund in statement.refunds().all().filter(is_settled).cloned().collect::<Vec<_>>() {
        let mut changed = false;
        if refund.cause.is_requested() {
            mask(&mut refund.reason, &mut changed);
        }
        refund.last_error.iter_mut().for_each(|error| mask(error, &mut changed));
        if changed {
            statement.own.refunds.put(refund);
            rows += 1;
        }
    }
    let of_order = |request: &&SentRefundRequest| request.tenant == tenant && request.order == Some(id);
    for mut request in statement.refund_requests().all().filter(of_order).cloned().collect::<Vec<_>>() {
        let mut changed = false;
        request.error.iter_mut().for_each(|error| mask(error, &mut changed));
        if changed {
            statement.own.refund_requests.put(request);
            rows += 1;
        }
    }
    let is_closed = |report: &&Numbered<GatewayReport>| {
        let report = &report.effect;
        report.tenant == Some(tenant)
            && report.of.and_then(PayableId::order) == Some(id)
            && report.state != ReportState::Open
    };
    for mut report in statement.gateway_reports().all().filter(is_closed).cloned().collect::<Vec<_>>() {
        let mut changed = false;
        report.effect.error.iter_mut().for_each(|error| mask(error, &mut changed));
        report.effect.closed.iter_mut().for_each(|closed| mask(&mut closed.reason, &mut changed));
        if changed {
            statement.own.gateway_reports.put(report);
            rows += 1;
        }
    }
    rows
}
