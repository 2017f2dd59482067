//! The day from morning to evening, phase by phase.

use std::time::Duration;

use handover_outbox::ports::{Clock, StoreError};
use handover_system::SystemClock;
use marketplace::App;
use marketplace::ports::MarketStore;

use super::OUTAGE;
use super::client::{Answer, Unanswered};
use super::journal::Account;
use super::market::{Market, Offer, Pace};
use super::mishaps::Mishaps;
use super::plan::Plan;
use super::settle::{Until, wait};

/// What the operator says about the spoiled message.
const EXPLANATION: &str = "spoiled on its way on purpose; its event was applied from the outbox";

/// What a day is played with.
pub(super) struct Day<'a> {
    /// The service, for reading its state; the people of the market use the API.
    pub(super) app: &'a App,
    /// The database, through readers of its own.
    pub(super) store: &'a MarketStore,
    /// What befalls messages.
    pub(super) mishaps: &'a Mishaps,
    /// The people.
    pub(super) market: &'a Market,
}

impl Day<'_> {
    /// Plays it; what the clients were told is the answer.
    pub(super) async fn play(&self, plan: &Plan) -> Result<Account, StoreError> {
        let progress = &self.market.progress;
        self.mishaps.spoil(plan.spoiled);
        progress.phase("giving to the buyers", plan.gifts.count());
        let coupons = self.market.give(&plan.gifts).await;
        progress.phase("opening the market", plan.deals.len() + 1);
        let mut offers = self.market.list_all([vec![plan.lamp.clone()], plan.deals.clone()].concat()).await;
        for offer in &mut offers {
            offer.coupon = offer.deal.asked.coupon.and_then(|place| coupons.get(&place).copied());
        }
        // Without a lamp there is no rush, and the verdict says so.
        let lamp = (offers.first().is_some_and(|offer| offer.deal == plan.lamp)).then(|| offers.remove(0));
        let (before, meanwhile, after) = parts(offers);

        progress.phase("trading", before.len());
        self.market.trade(before, Pace::Full).await;
        progress.phase("the rush for one lamp", 1);
        if let Some(lamp) = lamp {
            self.market.rush(&lamp, &plan.crowd).await;
        }
        progress.phase("the broker is away", meanwhile.len());
        self.outage(meanwhile).await;
        progress.phase("trading goes on", after.len());
        self.market.trade(after, Pace::Full).await;
        progress.phase("paying back", 0);
        self.market.pay_back_all().await;
        progress.phase("closing", 0);
        wait(Until::Closed, self.app, self.store, progress).await?;
        progress.phase("settling", 0);
        wait(Until::Quiet, self.app, self.store, progress).await?;
        progress.phase("looking at the dead letter", 0);
        self.explain(plan).await;
        Ok(self.market.journal.read())
    }

    /// Orders go on while the broker cannot be reached, and after that, if so many are left.
    async fn outage(&self, offers: Vec<Offer>) {
        self.mishaps.cut();
        let away = async {
            // A little longer, so that it is never shorter.
            SystemClock.sleep(OUTAGE + Duration::from_millis(5)).await;
            self.mishaps.mend();
            self.market.progress.rename("the broker is back");
        };
        tokio::join!(away, self.market.trade(offers, Pace::Over(OUTAGE)));
    }

    /// The operator looks at what died, and says why it did.
    async fn explain(&self, plan: &Plan) {
        let Market { api, journal, progress, .. } = self.market;
        let listed = acknowledged("dead letters", api.dead_letters(plan.operator).await);
        let items = match listed {
            Ok(answer) => answer.items().to_vec(),
            Err(odd) => return journal.note(|account| account.odd.push(odd)),
        };
        let text = |item: &serde_json::Value, field: &str| {
            item.get(field).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
        };
        for item in &items {
            let (queue, reason) = (text(item, "queue"), text(item, "reason"));
            progress.tell(&marketplace_wiring::terminal::output::visible(&format!(
                "dead letter at {queue}: {reason}"
            )));
        }
        let keys: Vec<String> = items.iter().map(|item| text(item, "key")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        if keys.is_empty() {
            return;
        }
        match acknowledged("discard", api.discard(plan.operator, &keys, EXPLANATION).await) {
            Ok(_) => progress.tell(&format!("discarded: {EXPLANATION}")),
            Err(odd) => journal.note(|account| account.odd.push(odd)),
        }
    }
}

fn acknowledged(what: &str, answered: Result<Answer, Unanswered>) -> Result<Answer, String> {
    match answered {
        Ok(answer) if answer.is_done() => Ok(answer),
        Ok(Answer { status, code, .. }) => Err(format!("{what}: {status} {code}")),
        Err(unanswered) => Err(unanswered.to_string()),
    }
}

/// Half of it before the outage, a fifth meanwhile, the rest after.
fn parts(mut offers: Vec<Offer>) -> (Vec<Offer>, Vec<Offer>, Vec<Offer>) {
    let all = offers.len();
    let mut meanwhile = offers.split_off(all / 2);
    let after = meanwhile.split_off((all / 5).max(1).min(meanwhile.len()));
    (offers, meanwhile, after)
}
