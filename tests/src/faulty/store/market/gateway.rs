//! Faults of refunds and of the reports of the payment gateway.

use chrono::{DateTime, TimeDelta, Utc};
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> RefundQueriesWrapper for Faulty<U> {
    async fn attempt_by_reference(
        &mut self,
        reference: Reference,
    ) -> Result<Option<(RefundId, u32)>, StoreError> {
        let found = self.inner().attempt_by_reference(reference).await?;
        if self.has(Fault::SupersededAttemptsAreNotFound)
            && let Some((id, attempt)) = found
            && let Some(refund) = self.inner().refund_by_id(id).await?
        {
            return Ok(found.filter(|_| refund.attempt == attempt));
        }
        Ok(found)
    }

    async fn refunds_page(
        &mut self,
        filter: RefundFilter,
        before: Option<RefundId>,
        limit: u32,
    ) -> Result<Vec<Refund>, StoreError> {
        let ignores_status = self.has(Fault::RefundPagesIgnoreStatus);
        let filter = if ignores_status { RefundFilter { status: None, ..filter } } else { filter };
        let before = self.first_below(before.map(RefundId::get));
        let before = before.and_then(|id| RefundId::try_from(id).ok());
        self.inner().refunds_page(filter, before, limit).await
    }

    async fn refunds_due(&mut self, now: DateTime<Utc>, limit: u32) -> Result<Vec<RefundId>, StoreError> {
        let late = self.has(Fault::RefundsAreDueLate);
        let now = if late { now - TimeDelta::microseconds(1) } else { now };
        self.inner().refunds_due(now, limit).await
    }

    async fn refund_requests(
        &mut self,
        refund: RefundId,
        limit: u32,
    ) -> Result<Vec<SentRefundRequest>, StoreError> {
        if !self.has(Fault::RefundRequestsAreOldestFirst) {
            return self.inner().refund_requests(refund, limit).await;
        }
        let mut requests = self.inner().refund_requests(refund, u32::MAX).await?;
        requests.reverse();
        requests.truncate(limit as usize);
        Ok(requests)
    }

    async fn open_refunds(&mut self) -> Result<OpenRefunds, StoreError> {
        let mut open = self.inner().open_refunds().await?;
        if self.has(Fault::OldestRefundIsTheFirst) {
            let processing = RefundFilter { tenant: None, status: Some(RefundStatus::Processing) };
            let refunds = self.inner().refunds_page(processing, None, u32::MAX).await?;
            open.oldest_processing = refunds.last().map(|refund| refund.create_time);
        }
        if self.has(Fault::FailedRefundsAreCountedForEver) {
            let failed = RefundFilter { tenant: None, status: Some(RefundStatus::Failed) };
            open.failed = self.inner().refunds_page(failed, None, u32::MAX).await?.len() as u64;
        }
        Ok(open)
    }
}

impl RefundRepoWrapper for Unit {
    async fn insert_refund_request(&mut self, request: &SentRefundRequest) -> Result<(), StoreError> {
        let recorded = self.inner().refund_requests(request.refund, u32::MAX).await?;
        let is_taken = recorded.iter().any(|other| other.version == request.version);
        if is_taken && self.has(Fault::TakenRefundRequestsAreIgnored) {
            return Ok(());
        }
        self.inner().insert_refund_request(request).await
    }

    async fn set_refund_request_error(
        &mut self,
        refund: RefundId,
        version: i64,
        error: &str,
    ) -> Result<(), StoreError> {
        if self.has(Fault::RefundRequestErrorsAreLost) {
            return Ok(());
        }
        self.inner().set_refund_request_error(refund, version, error).await
    }

    async fn insert_refund(&mut self, refund: &Refund) -> Result<(), StoreError> {
        let taken = self.inner().refund_by_id(refund.id).await?.is_some();
        if self.has(Fault::SecondRefundsAreIgnored) {
            self.serialize().await;
            let is_same = |other: &Refund| other.capture == refund.capture && !other.is_excess;
            if !taken && !refund.is_excess && self.has_live(refund, is_same).await? {
                return Ok(());
            }
        }
        let conflicts = (self.has(Fault::RefundsOfAllCapturesConflict)
            && self.has_live(refund, |other| other.capture != refund.capture).await?)
            || (self.has(Fault::ExcessRefundsAreCounted)
                && (refund.is_excess || self.has_live(refund, |other| other.is_excess).await?)
                && self.has_live(refund, |other| other.capture == refund.capture).await?);
        if conflicts {
            self.failed = true;
            return Err(StoreError::Conflict { what: "refunds".into() });
        }
        self.inner().insert_refund(refund).await
    }
}

impl Unit {
    /// Whether the payment has a refund that has not failed and meets the condition.
    async fn has_live(
        &mut self,
        refund: &Refund,
        meets: impl Fn(&Refund) -> bool,
    ) -> Result<bool, StoreError> {
        let refunds = match refund.of {
            PayableId::Order(order) => self.inner().refunds_of(refund.tenant, &[order]).await?,
            PayableId::Invoice(invoice) => {
                self.inner().payments_of_invoice(refund.tenant, invoice).await?.refunds
            }
        };
        let is_live =
            |other: &Refund| other.payment == refund.payment && other.status != RefundStatus::Failed;
        Ok(refunds.iter().any(|other| is_live(other) && meets(other)))
    }
}

impl<U: MarketView + ?Sized> GatewayReportQueriesWrapper for Faulty<U> {
    async fn gateway_reports_page(
        &mut self,
        filter: GatewayReportFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError> {
        let mut filter = filter;
        if self.has(Fault::ReportsLeakToOtherTenants) {
            filter.tenant = None;
        }
        if self.has(Fault::PagesIgnoreLowestId) {
            filter.above_id = None;
        }
        if self.has(Fault::ReportRangesIncludeEnd) {
            filter.to = filter.to.map(|to| to + TimeDelta::microseconds(1));
        }
        let before = self.first_below(before);
        self.inner().gateway_reports_page(filter, before, limit).await
    }

    async fn open_gateway_reports(&mut self, limit: u32) -> Result<u64, StoreError> {
        let open = self.inner().open_gateway_reports(limit).await?;
        if !self.has(Fault::ClosedReportsAreCounted) {
            return Ok(open);
        }
        let closed =
            GatewayReportFilter { state: Some(ReportState::Closed), ..GatewayReportFilter::default() };
        Ok(open + self.inner().gateway_reports_page(closed, None, limit).await?.len() as u64)
    }
}

impl GatewayReportRepoWrapper for Unit {
    async fn insert_gateway_report(&mut self, report: &GatewayReport) -> Result<(), StoreError> {
        if self.has(Fault::TakenReportKeysAreIgnored) {
            self.serialize().await;
            if self.inner().gateway_report_by_key(&report.key).await?.is_some() {
                return Ok(());
            }
        }
        self.inner().insert_gateway_report(report).await
    }

    async fn close_gateway_report(&mut self, id: i64, closed: &ClosedBy) -> Result<Changed, StoreError> {
        let changed = self.inner().close_gateway_report(id, closed).await?;
        if self.has(Fault::ClosedReportsAreClosedAgain)
            && let Some(report) = self.inner().gateway_report_by_id(id).await?
            && report.effect.state == ReportState::Closed
        {
            return Ok(Changed::One);
        }
        Ok(changed)
    }
}
