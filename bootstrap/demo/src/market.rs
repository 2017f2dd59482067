//! The people of the market: what they ask of the API, and what they note of its answers.

mod gifts;
mod life;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use marketplace_domain::{CouponId, OrderId, ProductId, UserId};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Answer, Api, Named, Unanswered};
use super::journal::{Journal, Step, Told};
use super::plan::Deal;
use marketplace_wiring::terminal::progress::Progress;

/// How many people act at a time.
const AT_A_TIME: usize = 16;

/// A deal whose product is listed.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    /// The deal.
    pub(super) deal: Deal,
    /// Its product.
    pub(super) product: ProductId,
    /// The coupon that its order names.
    pub(super) coupon: Option<CouponId>,
}

impl Offer {
    fn named(&self) -> Named {
        Named { coupon: self.coupon, wallet: self.deal.asked.wallet, points: self.deal.asked.points }
    }
}

/// How fast orders are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// As fast as they are answered.
    Full,
    /// Spread over so long.
    Over(Duration),
}

/// The market. Clones share it.
#[derive(Clone)]
pub(super) struct Market {
    /// Its client.
    pub(super) api: Arc<Api>,
    /// Who gives and pays back.
    pub(super) operator: UserId,
    /// What it was told.
    pub(super) journal: Arc<Journal>,
    /// How far it is.
    pub(super) progress: Progress,
}

impl Market {
    /// Lists the products of these deals; those that could not be listed are left out, which the journal tells.
    pub(super) async fn list_all(&self, deals: Vec<Deal>) -> Vec<Offer> {
        let listed = self.each(deals, Pace::Full, |market, deal| async move {
            let product = market.list(deal.seller, &deal).await?;
            Some(Offer { deal, product, coupon: None })
        });
        listed.await
    }

    async fn list(&self, seller: UserId, deal: &Deal) -> Option<ProductId> {
        let answer = self.acknowledged("list", self.api.list(seller, &deal.title, deal.price).await)?;
        let product = self.expected(answer.id("productId"), "productId", &answer)?;
        self.journal.note(|account| {
            account.products.insert(product, seller);
        });
        self.progress.step();
        Some(product)
    }

    /// Plays these orders to the end that their plan has for them.
    pub(super) async fn trade(&self, offers: Vec<Offer>, pace: Pace) {
        let (begun, count) = (Instant::now(), offers.len());
        self.each(offers, pace, |market, offer| async move {
            market.play(&offer).await;
            market.progress.step();
            Some(())
        })
        .await;
        if pace == Pace::Full {
            self.journal.note(|account| {
                account.trading.0 += count;
                account.trading.1 += begun.elapsed();
            });
        }
    }

    /// Everybody wants this one at the same moment; whoever has it pays and receives it.
    pub(super) async fn rush(&self, offer: &Offer, crowd: &[UserId]) {
        let start = Arc::new(Barrier::new(crowd.len()));
        let mut buyers = JoinSet::new();
        for buyer in crowd.iter().copied() {
            let (market, start) = (self.clone(), Arc::clone(&start));
            let (product, named) = (offer.product, offer.named());
            buyers.spawn(async move {
                start.wait().await;
                (buyer, market.api.order(buyer, product, named).await)
            });
        }
        self.journal.note(|account| account.rush.lamp = Some(offer.product));
        while let Some(Ok((buyer, answered))) = buyers.join_next().await {
            match answered {
                Ok(answer) if answer.is_refused() => self.journal.note(|account| account.rush.refused += 1),
                answered => {
                    let deal = Deal { buyer, ..offer.deal.clone() };
                    let Some(order) = self.placed(&Offer { deal: deal.clone(), ..offer.clone() }, answered)
                    else {
                        continue;
                    };
                    self.journal.note(|account| account.rush.won.push(order));
                    self.go_on(&deal, order).await;
                }
            }
        }
        self.progress.step();
    }

    async fn play(&self, offer: &Offer) -> Option<()> {
        let answered = self.api.order(offer.deal.buyer, offer.product, offer.named()).await;
        let order = self.placed(offer, answered)?;
        self.go_on(&offer.deal, order).await
    }

    fn placed(&self, offer: &Offer, answered: Result<Answer, Unanswered>) -> Option<OrderId> {
        let answer = self.acknowledged("order", answered)?;
        let order = self.expected(answer.id("orderId"), "orderId", &answer)?;
        let Deal { seller, buyer, asked, .. } = offer.deal;
        let told = Told { product: offer.product, buyer, seller, step: Step::Placed, cover: asked.cover };
        self.journal.note(|account| {
            account.orders.insert(order, told);
        });
        Some(order)
    }

    /// The answer, if it acknowledges; refused for being late is no fault.
    fn in_time(&self, what: &str, answered: Result<Answer, Unanswered>) -> Option<Answer> {
        match answered {
            Ok(answer) if answer.is_refused() => {
                self.journal.note(|account| account.late += 1);
                None
            }
            answered => self.acknowledged(what, answered),
        }
    }

    /// The answer, if it acknowledges; any other is odd.
    fn acknowledged(&self, what: &str, answered: Result<Answer, Unanswered>) -> Option<Answer> {
        let odd = match answered {
            Ok(answer) if answer.is_done() => return Some(answer),
            Ok(Answer { status, code, .. }) => format!("{what}: {status} {code}"),
            Err(unanswered) => unanswered.to_string(),
        };
        self.journal.note(|account| account.odd.push(odd));
        None
    }

    /// What an answer should hold; without it the answer is odd.
    fn expected<T>(&self, value: Option<T>, field: &str, answer: &Answer) -> Option<T> {
        if value.is_none() {
            self.journal.note(|account| account.odd.push(format!("no {field} in {}", answer.data)));
        }
        value
    }

    /// Does something with each, some at a time, in the order given; collects what comes of it in that order.
    async fn each<T, U, F>(&self, items: Vec<T>, pace: Pace, work: fn(Market, T) -> F) -> Vec<U>
    where
        T: Clone + Send + Sync + 'static,
        U: Send + 'static,
        F: Future<Output = Option<U>> + Send + 'static,
    {
        let (items, next, begun) = (Arc::new(items), Arc::new(AtomicUsize::new(0)), Instant::now());
        let mut people = JoinSet::new();
        let people_at_a_time = match pace {
            Pace::Full => AT_A_TIME,
            // Nobody waits for another: whoever cannot go on while the broker is away waits until it is back.
            Pace::Over(_) => items.len(),
        };
        for _ in 0..people_at_a_time {
            let (market, items, next) = (self.clone(), Arc::clone(&items), Arc::clone(&next));
            people.spawn(async move {
                let mut done = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { return done };
                    if let Pace::Over(whole) = pace {
                        let part = number as f64 / items.len() as f64;
                        let due = begun + whole.mul_f64(part);
                        SystemClock.sleep(due.saturating_duration_since(Instant::now())).await;
                    }
                    done.extend(work(market.clone(), item.clone()).await.map(|value| (number, value)));
                }
            });
        }
        let mut done: Vec<(usize, U)> = people.join_all().await.into_iter().flatten().collect();
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, value)| value).collect()
    }
}
