//! Lists of operators, and which of their filters an index supports.

use async_trait::async_trait;
use handover_outbox::operations::PagedFilter;
use handover_outbox::ports::{Numbered, StoreError};
use marketplace_domain::{GatewayReport, Payment, PaymentId};

use crate::ports::{GatewayReportFilter, MarketView, PaymentFilter};

#[async_trait]
impl PagedFilter<dyn MarketView + '_> for PaymentFilter {
    type Row = Payment;

    fn id(payment: &Payment) -> i64 {
        payment.id.get()
    }

    fn searched(&self) -> Option<PaymentFilter> {
        let indexed = PaymentFilter::default();
        (indexed != *self).then_some(indexed)
    }

    fn above_id(&mut self) -> &mut Option<i64> {
        &mut self.above_id
    }

    async fn rows(
        &self,
        view: &mut (dyn MarketView + '_),
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Payment>, StoreError> {
        let Ok(before) = before.map(PaymentId::try_from).transpose() else { return Ok(Vec::new()) };
        view.payments_page(*self, before, limit).await
    }
}

#[async_trait]
impl PagedFilter<dyn MarketView + '_> for GatewayReportFilter {
    type Row = Numbered<GatewayReport>;

    fn id(report: &Numbered<GatewayReport>) -> i64 {
        report.id
    }

    fn searched(&self) -> Option<GatewayReportFilter> {
        let GatewayReportFilter { tenant, state, .. } = *self;
        let indexed = GatewayReportFilter { tenant, state, ..GatewayReportFilter::default() };
        (indexed != *self).then_some(indexed)
    }

    fn above_id(&mut self) -> &mut Option<i64> {
        &mut self.above_id
    }

    async fn rows(
        &self,
        view: &mut (dyn MarketView + '_),
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError> {
        view.gateway_reports_page(*self, before, limit).await
    }
}
