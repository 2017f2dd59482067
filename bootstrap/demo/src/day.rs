//! The phases of the day.

use std::time::Duration;

use handover_outbox::ports::{Clock, StoreError};
use handover_system::SystemClock;
use marketplace::App;
use marketplace::ports::MarketStore;

use super::broker_faults::BrokerFaults;
use super::client::acknowledged;
use super::journal::ClientRecord;
use super::market::{Market, Offer, TradingPace};
use super::past_months::PastMonths;
use super::plan::Plan;
use super::wait::{WaitFor, wait};

/// Duration of the broker outage.
pub(crate) const OUTAGE: Duration = Duration::from_secs(3);

/// Note with which the operator discards open dead letters. The only expected dead letter is the corrupted message.
const EXPLANATION: &str = "corrupted by the demo on purpose; its event was applied from the outbox";

/// Interval at which the operator looks at the endpoint of webhooks.
const ENABLE_INTERVAL: Duration = Duration::from_millis(300);

pub(super) struct Day<'a> {
    /// The service, only to read its state; buyers, sellers and operators use the HTTP API.
    pub(super) app: &'a App,
    /// The database, through a separate connection.
    pub(super) store: &'a MarketStore,
    pub(super) faults: &'a BrokerFaults,
    pub(super) market: &'a Market,
    pub(super) past: &'a PastMonths,
}

impl Day<'_> {
    /// Plays the day and returns the responses that clients received.
    pub(super) async fn play(&self, plan: &Plan) -> Result<ClientRecord, StoreError> {
        let progress = &self.market.progress;
        self.faults.corrupt_nth_payment(plan.corrupted_payment);
        progress.phase("granting assets to buyers", plan.asset_grants.count());
        let coupons = self.market.grant_assets(&plan.asset_grants).await;
        progress.phase("listing products", plan.deals.len() + 1);
        let mut offers = self.market.list_all([vec![plan.lamp.clone()], plan.deals.clone()].concat()).await;
        for offer in &mut offers {
            offer.coupon = offer.deal.assets.coupon.and_then(|index| coupons.get(&index).copied());
        }
        // If the lamp for the concurrent orders could not be put on sale, these orders are skipped and the promise "one
        // buyer gets the lamp" is broken.
        let lamp = (offers.first().is_some_and(|offer| offer.deal == plan.lamp)).then(|| offers.remove(0));
        let (before, during_outage, after) = split_offers(offers);

        progress.phase("trading", before.len());
        self.market.trade(before, TradingPace::Full).await;
        progress.phase("concurrent orders for one lamp", 1);
        if let Some(lamp) = lamp {
            self.market.rush(&lamp, &plan.lamp_buyers).await;
        }
        progress.phase("broker outage", during_outage.len());
        self.outage(during_outage).await;
        progress.phase("trading after the outage", after.len());
        self.market.trade(after, TradingPace::Full).await;
        progress.phase("refunding late payments", 0);
        self.market.report_unplanned_refunds().await;
        progress.phase("invoices of past months", self.past.months.len());
        self.market.settle_invoices(&self.past.months).await;
        progress.phase("waiting for unpaid orders to be cancelled", 0);
        wait(WaitFor::NoUnpaidOrders, self.app, self.store, progress).await?;
        progress.phase("settling events", 0);
        let enabling = self.keep_enabled(plan, self.past.endpoint.as_deref());
        tokio::select! {
            settled = wait(WaitFor::Idle, self.app, self.store, progress) => settled?,
            () = enabling => {}
        }
        progress.phase("handling the dead letter", 0);
        self.explain(plan).await;
        let retried_requests = self.market.api.retried_requests();
        Ok(ClientRecord { retried_requests, ..self.market.journal.read() })
    }

    /// Places the orders for these offers during a broker outage; an order that takes longer ends after the outage.
    async fn outage(&self, offers: Vec<Offer>) {
        self.faults.begin_outage();
        let outage = async {
            // A margin, so that the measured outage is never shorter than OUTAGE.
            SystemClock.sleep(OUTAGE + Duration::from_millis(5)).await;
            self.faults.end_outage();
            self.market.progress.rename("broker reachable again");
        };
        tokio::join!(outage, self.market.trade(offers, TradingPace::Over(OUTAGE)));
    }

    /// The operator enables the endpoint again when it was disabled because the receiver said that it is gone.
    async fn keep_enabled(&self, plan: &Plan, endpoint: Option<&str>) {
        let Some(endpoint) = endpoint else { return std::future::pending().await };
        let Market { api, journal, progress, .. } = self.market;
        loop {
            let shown = acknowledged("webhook", api.endpoint(plan.operator, endpoint).await);
            let is_disabled =
                shown.is_ok_and(|shown| shown.data.get("status").is_some_and(|status| status == "DISABLED"));
            if is_disabled {
                match acknowledged("webhook", api.enable_endpoint(plan.operator, endpoint).await) {
                    Ok(_) => progress.print_line("webhook endpoint was disabled (410 Gone); enabled again"),
                    Err(unexpected) => journal.note(|record| record.unexpected.push(unexpected)),
                }
            }
            SystemClock.sleep(ENABLE_INTERVAL).await;
        }
    }

    /// The operator lists the open dead letters and discards them with an explanation.
    async fn explain(&self, plan: &Plan) {
        let Market { api, journal, progress, .. } = self.market;
        let listed = acknowledged("dead letters", api.dead_letters(plan.operator).await);
        let items = match listed {
            Ok(response) => response.items().to_vec(),
            Err(unexpected) => return journal.note(|record| record.unexpected.push(unexpected)),
        };
        let text = |item: &serde_json::Value, field: &str| {
            item.get(field).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
        };
        for item in &items {
            let (queue, reason) = (text(item, "queue"), text(item, "reason"));
            progress.print_line(&handover_runtime::terminal::output::visible(&format!(
                "dead letter at {queue}: {reason}"
            )));
        }
        let keys: Vec<String> = items.iter().map(|item| text(item, "key")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        if keys.is_empty() {
            return;
        }
        match acknowledged("discard", api.discard(plan.operator, &keys, EXPLANATION).await) {
            Ok(_) => progress.print_line(&format!("discarded: {EXPLANATION}")),
            Err(unexpected) => journal.note(|record| record.unexpected.push(unexpected)),
        }
    }
}

/// Splits the offers: half of them are traded before the outage, a fifth during it, and the rest after it.
fn split_offers(mut offers: Vec<Offer>) -> (Vec<Offer>, Vec<Offer>, Vec<Offer>) {
    let all = offers.len();
    let mut during_outage = offers.split_off(all / 2);
    let after = during_outage.split_off((all / 5).max(1).min(during_outage.len()));
    (offers, during_outage, after)
}
