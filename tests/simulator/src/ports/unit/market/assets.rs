//! Coupons, holds, balances, ledger, refunds and invoices: a hold ends once, in the way its order ended; refunds do not exceed
//! the payment.

use handover_events::EventId;
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{
    AssetRepoWrapper, FindingRepoWrapper, GatewayReportRepoWrapper, InvoiceRepoWrapper, MarketUnit,
    RefundRepoWrapper,
};
use marketplace_domain::{
    Asset, Balance, CancelReason, Coupon, CouponStatus, Hold, HoldStatus, Invoice, OrderId, OrderStatus,
    PayableId, Posting, Refund, RefundStatus,
};

use super::super::super::unit_writes::StatusChange;
use super::super::{Faulty, Unit};
use crate::machines::NOTHING;

impl AssetRepoWrapper for Unit {
    async fn insert_coupon(&mut self, coupon: &Coupon) -> Result<(), StoreError> {
        self.inner.insert_coupon(coupon).await?;
        self.inserted("coupon", coupon.status.as_str(), || of_coupon(coupon));
        Ok(())
    }

    async fn advance_coupon(&mut self, after: &Coupon) -> Result<Changed, StoreError> {
        let before = self.inner.coupon_by_id(after.tenant, after.id).await?;
        let changed = self.inner.advance_coupon(after).await?;
        let free = CouponStatus::Available.as_str();
        let mut from = before.as_ref().map(|before| before.status.as_str());
        // The coupon moves from one order to another in one unit of work: two transitions.
        let of = before.and_then(|before| before.order);
        if of.is_some() && after.order.is_some() && of != after.order {
            self.advanced(changed, ("coupon", from, free), || of_coupon(after));
            from = Some(free);
        }
        self.advanced(changed, ("coupon", from, after.status.as_str()), || of_coupon(after));
        Ok(changed)
    }

    async fn put_holds(&mut self, holds: &[Hold]) -> Result<(), StoreError> {
        for hold in holds {
            self.check_hold(hold).await?;
        }
        self.inner.put_holds(holds).await
    }

    async fn put_balances(&mut self, balances: &[Balance]) -> Result<(), StoreError> {
        self.inner.put_balances(balances).await?;
        self.writes.balances.extend(balances.iter().cloned());
        Ok(())
    }

    async fn post(&mut self, postings: &[Posting]) -> Result<(), StoreError> {
        for (consumer, caused) in of_events(postings) {
            self.effects(consumer, caused.into_iter()).await?;
        }
        self.inner.post(postings).await
    }
}

impl RefundRepoWrapper for Unit {
    async fn insert_refund(&mut self, refund: &Refund) -> Result<(), StoreError> {
        self.check_cap(refund).await?;
        self.inner.insert_refund(refund).await?;
        self.inserted("refund", refund.status.as_str(), || of_refund(refund));
        self.written(Changed::One, None, StatusChange::of_refund(refund));
        Ok(())
    }

    async fn advance_refund(&mut self, after: &Refund) -> Result<Changed, StoreError> {
        let before = self.inner.refund_by_id(after.id).await?;
        let changed = self.inner.advance_refund(after).await?;
        let is_requested = before.as_ref().is_some_and(|before| after.attempts > before.attempts);
        self.writes.records_refund_request |= is_requested && changed == Changed::One;
        let from = before.map(|before| before.status.as_str());
        self.advanced(changed, ("refund", from, after.status.as_str()), || of_refund(after));
        self.written(changed, from, StatusChange::of_refund(after));
        Ok(changed)
    }
}

impl GatewayReportRepoWrapper for Unit {}
impl FindingRepoWrapper for Unit {}

impl InvoiceRepoWrapper for Unit {
    async fn insert_invoice(&mut self, invoice: &Invoice) -> Result<(), StoreError> {
        self.inner.insert_invoice(invoice).await?;
        self.inserted("invoice", invoice.status.as_str(), || format!("invoice {}", invoice.id));
        self.written(Changed::One, None, StatusChange::of_invoice(invoice));
        Ok(())
    }

    async fn advance_invoice(&mut self, after: &Invoice) -> Result<Changed, StoreError> {
        let before = self.inner.invoice_by_id(after.id).await?;
        let changed = self.inner.advance_invoice(after).await?;
        let from = before.map(|before| before.status.as_str());
        self.advanced(changed, ("invoice", from, after.status.as_str()), || format!("invoice {}", after.id));
        Ok(changed)
    }
}

fn of_coupon(coupon: &Coupon) -> String {
    format!("coupon {} of buyer {}", coupon.id, coupon.user)
}

fn of_refund(refund: &Refund) -> String {
    format!("refund {} of payment {} of {}", refund.id, refund.payment, refund.of)
}

/// Status of a hold in the state machine of [`crate::machines`].
fn state(hold: &Hold) -> &'static str {
    if hold.reverted { "REVERTED" } else { hold.status.as_str() }
}

/// Order and event of each posting that an event caused, grouped by consumer. Postings of the gateway, of operators and
/// of the reaper have no event.
fn of_events(postings: &[Posting]) -> Vec<(&'static str, Vec<(OrderId, &EventId)>)> {
    let mut of_events = Vec::new();
    for asset in Asset::HELD {
        let its = postings.iter().map(|posting| &posting.operation).filter(|it| it.asset == asset);
        let caused: Vec<_> = its.filter_map(|it| Some((it.order?, it.event_id.as_ref()?))).collect();
        if !caused.is_empty() {
            of_events.push((asset.as_str(), caused));
        }
    }
    of_events
}

impl<I: MarketUnit + ?Sized> Faulty<I> {
    /// A hold may be committed only for a paid order, and released only for a cancelled one.
    async fn check_hold(&mut self, hold: &Hold) -> Result<(), StoreError> {
        let before = self.inner.holds_of(hold.tenant, &[hold.order]).await?;
        let before = before.iter().find(|before| before.asset == hold.asset).map_or(NOTHING, state);
        let what = || format!("the hold on the {} of order {}", hold.asset, hold.order);
        let order = self.inner.order_by_id(hold.tenant, hold.order).await?;
        let was_paid = order.as_ref().is_some_and(|order| order.pay_time.is_some());
        let is_allowed = match hold.status {
            HoldStatus::Frozen => order.is_some(),
            HoldStatus::Committed => was_paid,
            // A refused lock cancels the order in the same unit of work.
            HoldStatus::Released => order.as_ref().is_some_and(|it| it.status == OrderStatus::Cancelled),
        };
        let refused = before == NOTHING && hold.status == HoldStatus::Released;
        if refused
            && order.as_ref().is_some_and(|order| order.cancel_reason == Some(CancelReason::AssetLockFailed))
        {
            self.cover("refused lock");
        }
        if !is_allowed {
            let status = order.map(|order| order.status);
            self.writes.violations.push(format!(
                "{} became {}, but the order is {status:?}",
                what(),
                state(hold)
            ));
        }
        if before != state(hold) {
            self.transition(("hold", before, state(hold)), what);
        }
        Ok(())
    }

    /// Refunds must not exceed the captured money.
    async fn check_cap(&mut self, refund: &Refund) -> Result<(), StoreError> {
        let (captures, others) = match refund.of {
            PayableId::Order(order) => (
                self.inner.captures_of(refund.tenant, &[order]).await?,
                self.inner.refunds_of(refund.tenant, &[order]).await?,
            ),
            PayableId::Invoice(invoice) => {
                let paid = self.inner.payments_of_invoice(refund.tenant, invoice).await?;
                (paid.captures, paid.refunds)
            }
        };
        let capture = captures.iter().find(|capture| capture.is_refunded_by(refund));
        let paid = capture.map_or(0, |capture| capture.amount.minor());
        let is_live = |it: &&Refund| {
            (it.payment, it.capture) == (refund.payment, refund.capture)
                && it.status != RefundStatus::Failed
                && !it.is_excess
        };
        let live = others.iter().filter(is_live);
        let refunded: i64 = live.map(|it| it.amount.minor()).sum::<i64>() + refund.amount.minor();
        if refunded > paid {
            self.writes
                .violations
                .push(format!("{}: the refunds of {refunded} exceed the captured {paid}", of_refund(refund)));
        }
        Ok(())
    }
}
