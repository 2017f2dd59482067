//! Buyers, sellers, operators and the gateway: they send requests to the API and record its responses.

mod asset_grants;
mod invoices;
mod order_steps;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use marketplace_domain::{CouponId, OrderId, ProductId, UserId};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Api, ApiResponse, AssetSelection, NoResponse};
use super::journal::{ClientOrder, Journal, Step};
use super::plan::Deal;
use handover_runtime::terminal::progress::Progress;

/// Number of orders that are played concurrently.
const CONCURRENCY: usize = 16;

/// A planned sale whose product is on sale.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) deal: Deal,
    pub(super) product: ProductId,
    /// The coupon that the order uses.
    pub(super) coupon: Option<CouponId>,
}

impl Offer {
    fn order_assets(&self) -> AssetSelection {
        AssetSelection {
            coupon: self.coupon,
            wallet: self.deal.assets.wallet,
            points: self.deal.assets.points,
        }
    }
}

/// Rate at which orders are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TradingPace {
    /// Orders are placed as fast as the service responds.
    Full,
    /// The orders are spread evenly over this time.
    Over(Duration),
}

/// The simulated market. Clones share the state.
#[derive(Clone)]
pub(super) struct Market {
    pub(super) api: Arc<Api>,
    /// The user who grants assets and retries refunds.
    pub(super) operator: UserId,
    pub(super) journal: Arc<Journal>,
    pub(super) progress: Progress,
}

impl Market {
    /// Puts the product of each planned sale on sale. A sale for which this fails is omitted from the offers, and the
    /// journal records the response.
    pub(super) async fn list_all(&self, deals: Vec<Deal>) -> Vec<Offer> {
        let listed = self.for_each(deals, TradingPace::Full, |market, deal| async move {
            let product = market.list(deal.seller, &deal).await?;
            Some(Offer { deal, product, coupon: None })
        });
        listed.await
    }

    async fn list(&self, seller: UserId, deal: &Deal) -> Option<ProductId> {
        let response = self.acknowledged("list", self.api.list(seller, &deal.title, deal.price).await)?;
        let product = self.expected(response.id("productId"), "productId", &response)?;
        self.journal.note(|record| {
            record.products.insert(product, seller);
        });
        self.progress.step();
        Some(product)
    }

    /// Places an order for each offer and plays its scenario.
    pub(super) async fn trade(&self, offers: Vec<Offer>, pace: TradingPace) {
        let (started, count) = (Instant::now(), offers.len());
        self.for_each(offers, pace, |market, offer| async move {
            market.play(&offer).await;
            market.progress.step();
            Some(())
        })
        .await;
        if pace == TradingPace::Full {
            self.journal.note(|record| {
                record.trading.0 += count;
                record.trading.1 += started.elapsed();
            });
        }
    }

    /// All `lamp_buyers` order the same lamp at the same moment. The buyer whose order is accepted pays for the lamp
    /// and receives it.
    pub(super) async fn rush(&self, offer: &Offer, lamp_buyers: &[UserId]) {
        let start = Arc::new(Barrier::new(lamp_buyers.len()));
        let mut buyers = JoinSet::new();
        for buyer in lamp_buyers.iter().copied() {
            let (market, start) = (self.clone(), Arc::clone(&start));
            let (product, order_assets) = (offer.product, offer.order_assets());
            buyers.spawn(async move {
                start.wait().await;
                (buyer, market.api.order(buyer, product, order_assets).await)
            });
        }
        self.journal.note(|record| record.rush.lamp = Some(offer.product));
        while let Some(Ok((buyer, response))) = buyers.join_next().await {
            match response {
                Ok(response) if response.is_conflict() => {
                    self.journal.note(|record| record.rush.refused += 1)
                }
                response => {
                    let deal = Deal { buyer, ..offer.deal.clone() };
                    let Some(order) =
                        self.record_placed(&Offer { deal: deal.clone(), ..offer.clone() }, response)
                    else {
                        continue;
                    };
                    self.journal.note(|record| record.rush.won.push(order));
                    self.continue_order(&deal, order).await;
                }
            }
        }
        self.progress.step();
    }

    async fn play(&self, offer: &Offer) -> Option<()> {
        let response = self.api.order(offer.deal.buyer, offer.product, offer.order_assets()).await;
        let order = self.record_placed(offer, response)?;
        self.continue_order(&offer.deal, order).await
    }

    fn record_placed(&self, offer: &Offer, response: Result<ApiResponse, NoResponse>) -> Option<OrderId> {
        let response = self.acknowledged("order", response)?;
        let order = self.expected(response.id("orderId"), "orderId", &response)?;
        let Deal { seller, buyer, assets, .. } = offer.deal;
        let client_order =
            ClientOrder { product: offer.product, buyer, seller, step: Step::Placed, cover: assets.cover };
        self.journal.note(|record| {
            record.orders.insert(order, client_order);
        });
        Some(order)
    }

    /// Returns the response if it is a success. A conflict is expected, because the order may already be closed, so
    /// conflicts are only counted.
    fn in_time(&self, what: &str, response: Result<ApiResponse, NoResponse>) -> Option<ApiResponse> {
        match response {
            Ok(response) if response.is_conflict() => {
                self.journal.note(|record| record.late += 1);
                None
            }
            response => self.acknowledged(what, response),
        }
    }

    /// Returns the response if it is a success; records any other response as unexpected.
    fn acknowledged(&self, what: &str, response: Result<ApiResponse, NoResponse>) -> Option<ApiResponse> {
        let unexpected = match response {
            Ok(response) if response.is_success() => return Some(response),
            Ok(ApiResponse { status, code, .. }) => format!("{what}: {status} {code}"),
            Err(no_response) => no_response.to_string(),
        };
        self.journal.note(|record| record.unexpected.push(unexpected));
        None
    }

    /// Returns the value of a field that the response must contain; if the field is missing, records the response as
    /// unexpected.
    fn expected<T>(&self, value: Option<T>, field: &str, response: &ApiResponse) -> Option<T> {
        if value.is_none() {
            self.journal.note(|record| record.unexpected.push(format!("no {field} in {}", response.data)));
        }
        value
    }

    /// Runs `work` for each item at this pace. The results are in the order of the items; items without a result are
    /// omitted.
    async fn for_each<T, U, F>(&self, items: Vec<T>, pace: TradingPace, work: fn(Market, T) -> F) -> Vec<U>
    where
        T: Clone + Send + Sync + 'static,
        U: Send + 'static,
        F: Future<Output = Option<U>> + Send + 'static,
    {
        let (items, next, started) = (Arc::new(items), Arc::new(AtomicUsize::new(0)), Instant::now());
        let mut workers = JoinSet::new();
        let concurrency = match pace {
            TradingPace::Full => CONCURRENCY,
            // No concurrency limit: an order that has to wait for the end of the outage must not delay others.
            TradingPace::Over(_) => items.len(),
        };
        for _ in 0..concurrency {
            let (market, items, next) = (self.clone(), Arc::clone(&items), Arc::clone(&next));
            workers.spawn(async move {
                let mut done = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { return done };
                    if let TradingPace::Over(whole) = pace {
                        let part = number as f64 / items.len() as f64;
                        let due = started + whole.mul_f64(part);
                        SystemClock.sleep(due.saturating_duration_since(Instant::now())).await;
                    }
                    done.extend(work(market.clone(), item.clone()).await.map(|value| (number, value)));
                }
            });
        }
        let mut done: Vec<(usize, U)> = workers.join_all().await.into_iter().flatten().collect();
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, value)| value).collect()
    }
}
