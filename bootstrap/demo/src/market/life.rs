//! The way of one order, from the buyer's first request to the gateway's last report.

use std::time::Duration;

use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use marketplace_domain::{OrderId, PaymentId, RefundId, UserId};
use serde_json::Value;
use tokio::time::Instant;

use super::super::client::{Answer, Report, Unanswered};
use super::super::journal::Step;
use super::super::plan::{Deal, Fate};
use super::{Market, Pace};

/// How soon it is asked again at first where assets are not locked yet; each time it takes twice as long.
const AGAIN: Duration = Duration::from_millis(20);
/// And how long at most.
const AGAIN_AT_MOST: Duration = Duration::from_millis(500);
/// After so long it is not asked again.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why buyers want their money back.
const REASON: &str = "not as described";

impl Market {
    /// What happens to the order after it was placed.
    pub(super) async fn go_on(&self, deal: &Deal, order: OrderId) -> Option<()> {
        match deal.fate {
            Fate::LeftAlone => Some(()),
            Fate::Cancelled => {
                self.in_time("cancel", self.api.cancel(deal.buyer, order).await)?;
                self.journal.step(order, Step::Cancelled);
                Some(())
            }
            Fate::Paid => self.pay(deal, order, Report::Success).await,
            Fate::PaidAtSecondTry => {
                self.pay(deal, order, Report::Failed).await?;
                self.pay(deal, order, Report::Success).await
            }
            Fate::PaymentFailed => {
                self.pay(deal, order, Report::Failed).await?;
                self.journal.step(order, Step::PaymentFailed);
                Some(())
            }
            Fate::PaidTooLate => self.pay_too_late(deal, order).await,
            Fate::Shipped => {
                self.pay(deal, order, Report::Success).await?;
                self.ship(deal, order).await
            }
            Fate::Completed => {
                self.pay(deal, order, Report::Success).await?;
                self.ship(deal, order).await?;
                self.in_time("complete", self.api.complete(deal.buyer, order).await)?;
                self.journal.step(order, Step::Completed);
                Some(())
            }
            Fate::Refunded => {
                self.pay(deal, order, Report::Success).await?;
                self.refund(deal, (deal.buyer, order), Report::Success).await
            }
            Fate::RefundedAtSecondTry => {
                self.pay(deal, order, Report::Success).await?;
                self.refund(deal, (deal.buyer, order), Report::Failed).await?;
                self.refund(deal, (self.operator, order), Report::Success).await
            }
        }
    }

    async fn pay(&self, deal: &Deal, order: OrderId, report: Report) -> Option<()> {
        let started = self.until_ready(|| self.api.pay(deal.buyer, order)).await;
        let started = self.in_time("pay", started)?;
        if !started.is_settled() {
            self.report(deal, &started, report).await?;
        }
        if report == Report::Success {
            self.journal.step(order, Step::Paid);
        }
        Some(())
    }

    /// The buyer cancels while the gateway is still at it.
    async fn pay_too_late(&self, deal: &Deal, order: OrderId) -> Option<()> {
        let started = self.until_ready(|| self.api.pay(deal.buyer, order)).await;
        let started = self.in_time("pay", started)?;
        self.in_time("cancel", self.api.cancel(deal.buyer, order).await)?;
        self.journal.step(order, Step::Cancelled);
        self.report(deal, &started, Report::Success).await?;
        self.journal.step(order, Step::PaidTooLate);
        self.pay_back(order, deal.reported_twice).await
    }

    /// The gateway reports about a payment, as often as it takes.
    async fn report(&self, deal: &Deal, started: &Answer, report: Report) -> Option<()> {
        let payment: PaymentId = self.expected(started.id("paymentId"), "paymentId", started)?;
        let amount = self.expected(started.money("amount"), "amount", started)?;
        for _ in 0..times(deal.reported_twice) {
            let answered = self.until_ready(|| self.api.report(payment, amount, report)).await;
            self.in_time("report", answered)?;
        }
        Some(())
    }

    async fn ship(&self, deal: &Deal, order: OrderId) -> Option<()> {
        self.in_time("ship", self.api.ship(deal.seller, order).await)?;
        self.journal.step(order, Step::Shipped);
        Some(())
    }

    /// Somebody wants it paid back, and the gateway reports how that ended.
    async fn refund(&self, deal: &Deal, (who, order): (UserId, OrderId), report: Report) -> Option<()> {
        let asked = self.in_time("refund", self.api.refund(who, order, REASON).await)?;
        let refund: RefundId = self.expected(asked.id("refundId"), "refundId", &asked)?;
        let is_done = asked.is_settled();
        if !is_done {
            for _ in 0..times(deal.reported_twice) {
                self.in_time("refund report", self.api.report_refund(refund, report).await)?;
            }
        }
        if is_done || report == Report::Success {
            self.journal.step(order, Step::Refunded);
        }
        // Done without the gateway: there is nothing to fail, and nothing to ask for again.
        (report == Report::Success || !is_done).then_some(())
    }

    /// The gateway pays back what is asked of it for an order.
    async fn pay_back(&self, order: OrderId, twice: bool) -> Option<()> {
        let listed = self.acknowledged("refunds", self.api.refunds(self.operator, order).await)?;
        for item in listed.items() {
            if item.get("status").and_then(Value::as_str) != Some("PROCESSING") {
                continue;
            }
            let id = item.get("refundId").and_then(Value::as_i64).and_then(|id| RefundId::try_from(id).ok());
            let refund = self.expected(id, "refundId", &listed)?;
            for _ in 0..times(twice) {
                let answered = self.api.report_refund(refund, Report::Success).await;
                self.acknowledged("refund report", answered)?;
            }
        }
        Some(())
    }

    /// The gateway pays back what came too late without anybody's planning it: after a deadline, or after a lock was
    /// refused.
    pub(in super::super) async fn pay_back_all(&self) {
        let told = self.journal.read();
        let paid = told.orders.iter().filter(|(_, told)| told.step == Step::Paid);
        let orders: Vec<OrderId> = paid.map(|(order, _)| *order).collect();
        self.each(orders, Pace::Full, |market, order| async move { market.pay_back(order, false).await })
            .await;
    }

    /// Asks until what is needed is there, as a gateway does and a buyer who is shown a spinner.
    async fn until_ready<F>(&self, ask: impl Fn() -> F) -> Result<Answer, Unanswered>
    where
        F: Future<Output = Result<Answer, Unanswered>>,
    {
        let (begun, mut pause) = (Instant::now(), AGAIN);
        loop {
            let answered = ask().await;
            if !answered.as_ref().is_ok_and(Answer::is_not_yet) || begun.elapsed() > PATIENCE {
                return answered;
            }
            self.journal.note(|account| account.asked_again += 1);
            SystemClock.sleep(pause).await;
            pause = (pause * 2).min(AGAIN_AT_MOST);
        }
    }
}

const fn times(twice: bool) -> u8 {
    if twice { 2 } else { 1 }
}
