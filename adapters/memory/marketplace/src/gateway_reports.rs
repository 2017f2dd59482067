//! Reports of the payment gateway.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use handover_events::TenantId;
use handover_memory::store::statement::next;
use handover_memory::store::tables::{Row, rows_below};
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Changed, Numbered, StoreError};
use marketplace::ports::{GatewayReportFilter, GatewayReportQueries, GatewayReportRepo};
use marketplace_domain::{ClosedBy, GatewayReport, OrderId, PayableId, ReportState};

use crate::of_orders::of_orders;
use crate::tables::{Lock, Market, MarketRows as _, Statement};
use crate::unit::MarketUnit;

#[derive(Default)]
pub(crate) struct GatewayReportIndex {
    by_key: BTreeMap<String, i64>,
    by_payable: BTreeMap<(TenantId, PayableId), BTreeSet<i64>>,
}

impl Row<Market> for Numbered<GatewayReport> {
    type Key = i64;
    type Index = GatewayReportIndex;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut GatewayReportIndex) {
        index.by_key.insert(self.effect.key.clone(), self.id);
        if let (Some(tenant), Some(payable)) = (self.effect.tenant, self.effect.of) {
            index.by_payable.entry((tenant, payable)).or_default().insert(self.id);
        }
    }
}

#[async_trait]
impl GatewayReportQueries for MarketUnit {
    async fn gateway_report_by_id(&mut self, id: i64) -> Result<Option<Numbered<GatewayReport>>, StoreError> {
        self.read(|statement| statement.gateway_reports().get(&id).cloned()).await
    }

    async fn gateway_report_by_key(
        &mut self,
        key: &str,
    ) -> Result<Option<Numbered<GatewayReport>>, StoreError> {
        self.read(|statement| by_key(statement, key).cloned()).await
    }

    async fn gateway_reports_page(
        &mut self,
        filter: GatewayReportFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError> {
        self.read(|statement| {
            let rows = statement.gateway_reports();
            let newest_first =
                rows.select(|table| rows_below(table, before).map(|(id, row)| (Reverse(id), row)));
            let is_above = |id: i64| filter.above_id.is_none_or(|above| id > above);
            let matching = newest_first.filter(|row| is_above(row.id) && matches(&filter, &row.effect));
            matching.take(limited(limit)).cloned().collect()
        })
        .await
    }

    async fn open_gateway_reports(&mut self, limit: u32) -> Result<u64, StoreError> {
        let open = GatewayReportFilter { state: Some(ReportState::Open), ..GatewayReportFilter::default() };
        Ok(self.gateway_reports_page(open, None, limit).await?.len() as u64)
    }

    async fn gateway_reports_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError> {
        self.read(|statement| {
            of_orders(tenant, orders, |(tenant, order)| of_payable(statement, tenant, order.into()))
        })
        .await
    }
}

#[async_trait]
impl GatewayReportRepo for MarketUnit {
    async fn insert_gateway_report(&mut self, report: &GatewayReport) -> Result<(), StoreError> {
        self.write(vec![Lock::GatewayReport(report.key.clone())], |statement| {
            if by_key(statement, &report.key).is_some() {
                return Err(conflict(format!("gateway_reports.report_key {}", report.key)));
            }
            let id = next(&mut statement.sequences.gateway_reports);
            statement.own.gateway_reports.put(Numbered { id, effect: report.clone() });
            Ok(())
        })
        .await
    }

    async fn close_gateway_report(&mut self, id: i64, closed: &ClosedBy) -> Result<Changed, StoreError> {
        let Some(found) = self.gateway_report_by_id(id).await? else { return Ok(Changed::None) };
        self.write(vec![Lock::GatewayReport(found.effect.key)], |statement| {
            let open =
                statement.gateway_reports().get(&id).filter(|row| row.effect.state == ReportState::Open);
            let Some(open) = open.cloned() else { return Ok(Changed::None) };
            let effect =
                GatewayReport { state: ReportState::Closed, closed: Some(closed.clone()), ..open.effect };
            statement.own.gateway_reports.put(Numbered { id, effect });
            Ok(Changed::One)
        })
        .await
    }
}

/// Every report about an order or invoice, sorted by id.
pub(crate) fn of_payable(
    statement: &Statement<'_>,
    tenant: TenantId,
    payable: PayableId,
) -> Vec<Numbered<GatewayReport>> {
    let reports = statement.gateway_reports();
    let of_payable = reports.select(|table| {
        let ids = table.index.by_payable.get(&(tenant, payable)).into_iter().flatten();
        ids.filter_map(|id| Some((*id, table.get(id)?)))
    });
    of_payable.cloned().collect()
}

fn by_key<'s>(statement: &'s Statement<'_>, key: &str) -> Option<&'s Numbered<GatewayReport>> {
    let reports = statement.gateway_reports();
    reports
        .select(|table| {
            let id = table.index.by_key.get(key);
            id.and_then(|id| Some((*id, table.get(id)?))).into_iter()
        })
        .next()
}

fn matches(filter: &GatewayReportFilter, report: &GatewayReport) -> bool {
    filter.tenant.is_none_or(|tenant| report.tenant == Some(tenant))
        && filter.state.is_none_or(|state| report.state == state)
        && filter.from.is_none_or(|from| from <= report.create_time)
        && filter.to.is_none_or(|to| report.create_time < to)
}
