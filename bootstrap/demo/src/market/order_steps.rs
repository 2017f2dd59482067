//! Steps of one order after it is placed, up to the gateway's last report about a payment or refund.

use marketplace_domain::{Money, OrderId, PaymentId, RefundId, UserId};
use serde_json::Value;

use super::super::client::{ApiResponse, Report};
use super::super::journal::Step;
use super::super::plan::{Deal, Scenario};
use super::{Market, TradingPace};

const REASON: &str = "not as described";

impl Market {
    /// Plays the scenario of an order that has been placed.
    pub(super) async fn continue_order(&self, deal: &Deal, order: OrderId) -> Option<()> {
        match deal.scenario {
            Scenario::Unpaid => Some(()),
            Scenario::Cancelled => {
                self.in_time("cancel", self.api.cancel(deal.buyer, order).await)?;
                self.journal.step(order, Step::Cancelled);
                Some(())
            }
            Scenario::Paid => self.pay(deal, order, Report::Success).await,
            Scenario::PaidOnRetry => {
                self.pay(deal, order, Report::Failed).await?;
                self.pay(deal, order, Report::Success).await
            }
            Scenario::PaidAfterFailure => self.pay_after_failure(deal, order).await,
            Scenario::ChargedWrongly => {
                self.charge_wrongly(deal, order).await?;
                self.pay(deal, order, Report::Success).await?;
                self.report_open_refunds(order, deal.reported_twice).await
            }
            Scenario::ChargedTwice => {
                self.charge_twice(deal, order).await?;
                self.report_open_refunds(order, deal.reported_twice).await
            }
            Scenario::PaymentFailed => {
                self.pay(deal, order, Report::Failed).await?;
                self.journal.step(order, Step::PaymentFailed);
                Some(())
            }
            Scenario::PaidAfterCancel => self.pay_too_late(deal, order).await,
            Scenario::Shipped => {
                self.pay(deal, order, Report::Success).await?;
                self.ship(deal, order).await
            }
            Scenario::Completed => {
                self.pay(deal, order, Report::Success).await?;
                self.ship(deal, order).await?;
                self.in_time("complete", self.api.complete(deal.buyer, order).await)?;
                self.journal.step(order, Step::Completed);
                Some(())
            }
            Scenario::Refunded => {
                self.pay(deal, order, Report::Success).await?;
                self.refund(deal, (deal.buyer, order), Report::Success).await
            }
            Scenario::RefundedOnRetry => {
                self.pay(deal, order, Report::Success).await?;
                self.refund(deal, (deal.buyer, order), Report::Failed).await?;
                self.refund(deal, (self.operator, order), Report::Success).await
            }
        }
    }

    async fn pay(&self, deal: &Deal, order: OrderId, report: Report) -> Option<()> {
        let started = self.in_time("pay", self.api.pay(deal.buyer, order).await)?;
        if !started.is_settled() {
            self.report(deal, &started, report).await?;
        }
        if report == Report::Success {
            self.journal.step(order, Step::Paid);
        }
        Some(())
    }

    /// The buyer cancels while the payment is in progress; then the gateway reports success.
    async fn pay_too_late(&self, deal: &Deal, order: OrderId) -> Option<()> {
        let started = self.in_time("pay", self.api.pay(deal.buyer, order).await)?;
        self.in_time("cancel", self.api.cancel(deal.buyer, order).await)?;
        self.journal.step(order, Step::Cancelled);
        self.report(deal, &started, Report::Success).await?;
        self.journal.step(order, Step::PaidAfterCancel);
        self.report_open_refunds(order, deal.reported_twice).await
    }

    /// The gateway reports the payment as failed, and then as successful.
    async fn pay_after_failure(&self, deal: &Deal, order: OrderId) -> Option<()> {
        let started = self.in_time("pay", self.api.pay(deal.buyer, order).await)?;
        self.report(deal, &started, Report::Failed).await?;
        self.report(deal, &started, Report::Success).await?;
        self.journal.step(order, Step::Paid);
        Some(())
    }

    /// The gateway captures 0.01 more than the amount of the payment.
    async fn charge_wrongly(&self, deal: &Deal, order: OrderId) -> Option<()> {
        let started = self.in_time("pay", self.api.pay(deal.buyer, order).await)?;
        let amount = self.expected(started.money("amount"), "amount", &started)?;
        let wrong = self.expected(Money::from_minor(amount.minor() + 1).ok(), "amount", &started)?;
        self.report_capture(deal, &started, ("wrong", wrong), Report::Success).await
    }

    /// The gateway captures the payment in two transactions.
    async fn charge_twice(&self, deal: &Deal, order: OrderId) -> Option<()> {
        let started = self.in_time("pay", self.api.pay(deal.buyer, order).await)?;
        self.report(deal, &started, Report::Success).await?;
        self.journal.step(order, Step::Paid);
        let amount = self.expected(started.money("amount"), "amount", &started)?;
        self.report_capture(deal, &started, ("again", amount), Report::Success).await
    }

    /// Reports the result of a payment.
    async fn report(&self, deal: &Deal, started: &ApiResponse, report: Report) -> Option<()> {
        let amount = self.expected(started.money("amount"), "amount", started)?;
        self.report_capture(deal, started, ("txn", amount), report).await
    }

    /// Reports the result of a payment over an amount, in a transaction whose id begins with `kind`.
    async fn report_capture(
        &self,
        deal: &Deal,
        started: &ApiResponse,
        (kind, amount): (&str, Money),
        report: Report,
    ) -> Option<()> {
        let payment: PaymentId = self.expected(started.id("paymentId"), "paymentId", started)?;
        let transaction = format!("{kind}-{payment}");
        for _ in 0..report_count(deal.reported_twice) {
            self.in_time("report", self.api.report(payment, &transaction, amount, report).await)?;
        }
        Some(())
    }

    async fn ship(&self, deal: &Deal, order: OrderId) -> Option<()> {
        self.in_time("ship", self.api.ship(deal.seller, order).await)?;
        self.journal.step(order, Step::Shipped);
        Some(())
    }

    /// Requests a refund and reports its result.
    async fn refund(&self, deal: &Deal, (requester, order): (UserId, OrderId), report: Report) -> Option<()> {
        let requested = match requester == self.operator {
            true => self.api.refund_as_operator(requester, order, REASON).await,
            false => self.api.refund(requester, order, REASON).await,
        };
        let requested = self.in_time("refund", requested)?;
        let refund: RefundId = self.expected(requested.id("refundId"), "refundId", &requested)?;
        let is_complete = requested.is_settled();
        if !is_complete {
            for _ in 0..report_count(deal.reported_twice) {
                self.in_time("refund report", self.api.report_refund(refund, report).await)?;
            }
        }
        if is_complete || report == Report::Success {
            self.journal.step(order, Step::Refunded);
        }
        // The refund of an order that was paid with assets only succeeds at once, without the gateway. It cannot fail,
        // so the scenario requests no second refund.
        (report == Report::Success || !is_complete).then_some(())
    }

    /// Reports success for every refund in progress of an order.
    async fn report_open_refunds(&self, order: OrderId, twice: bool) -> Option<()> {
        let listed = self.acknowledged("refunds", self.api.refunds(self.operator, order).await)?;
        for item in listed.items() {
            if item.get("status").and_then(Value::as_str) != Some("PROCESSING") {
                continue;
            }
            let id = item.get("refundId").and_then(Value::as_i64).and_then(|id| RefundId::try_from(id).ok());
            let refund = self.expected(id, "refundId", &listed)?;
            for _ in 0..report_count(twice) {
                let response = self.api.report_refund(refund, Report::Success).await;
                self.acknowledged("refund report", response)?;
            }
        }
        Some(())
    }

    /// Reports success for the refunds that are not planned: the service automatically refunds payments that arrived
    /// after the deadline or after a rejected lock.
    pub(in super::super) async fn report_unplanned_refunds(&self) {
        let clients = self.journal.read();
        let paid = clients.orders.iter().filter(|(_, order)| order.step == Step::Paid);
        let orders: Vec<OrderId> = paid.map(|(order, _)| *order).collect();
        self.for_each(orders, TradingPace::Full, |market, order| async move {
            market.report_open_refunds(order, false).await
        })
        .await;
    }
}

const fn report_count(twice: bool) -> u8 {
    if twice { 2 } else { 1 }
}
