//! Steady load: several clients that sell and buy, some of them after the same products, pay with money, wallet, points and
//! coupons, and note what is acknowledged.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ledger::{Ledger, Step};
use crate::chance::Chance;
use crate::client::{Answer, Api, Caller, Lost};

/// Clients that run until they are told to stop.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

/// What the clients share.
struct Market {
    /// One for each server.
    apis: Vec<Api>,
    ledger: Arc<Ledger>,
    /// The product that was listed last: whoever wants a contested one takes this.
    newest: AtomicI64,
    stop: Arc<AtomicBool>,
    /// Answers that no rule explains.
    odd: Arc<Mutex<Vec<String>>>,
    pause: Duration,
}

/// Why a client went no further with a product.
enum End {
    /// A rule refused it.
    Refused,
    /// It was done, or not.
    NotAnswered,
}

/// How many users there are; each client plays its own seller and all buyers.
const USERS: i64 = 12;

/// Operator of the tenant of these users.
pub const OPERATOR: Caller = Caller::of_tenant(1, 9).operator();

const PRICE_MINOR: i64 = 8_850;

/// How often the gateway reports a payment that is not taken: the order's assets may not be locked yet.
const REPORTS: u32 = 10;

impl Load {
    /// Starts so many clients, each with a pause between its orders, and with several servers of one deployment
    /// ([`Api::beside`]) spread over them: one whose server does not answer goes to the next.
    pub async fn start(
        apis: &[Api],
        ledger: &Arc<Ledger>,
        chance: &Chance,
        clients: i64,
        pause: Duration,
    ) -> Load {
        let first = apis.first().expect("a server");
        first.sign_in(1..=USERS);
        for user in 1..=USERS {
            fund(first, user).await;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let market = Arc::new(Market {
            apis: apis.to_vec(),
            ledger: Arc::clone(ledger),
            newest: AtomicI64::new(0),
            stop: Arc::clone(&stop),
            odd: Arc::default(),
            pause,
        });
        let mut tasks = JoinSet::new();
        for (first, client) in (0..clients).enumerate() {
            let chance = chance.stream(&format!("client {client}"));
            tasks.spawn(Arc::clone(&market).run(1 + client % USERS, first, chance));
        }
        Load { stop, clients: tasks }
    }

    /// Lets every client finish what it is at.
    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
    }
}

/// Money and points for many orders.
async fn fund(api: &Api, user: i64) {
    let deposit = json!({"amount": 2_000});
    let deposits = format!("/api/v1/ops/wallets/{user}/deposits");
    api.post(OPERATOR, &deposits, deposit).await.unwrap().value();
    let grants = format!("/api/v1/ops/points/{user}/grants");
    api.post(OPERATOR, &grants, json!({"points": 10_000})).await.unwrap().value();
}

/// An amount of minor units as JSON writes it.
fn money(minor: i64) -> Value {
    serde_json::from_str(&format!("{}.{:02}", minor / 100, minor % 100)).unwrap()
}

impl Market {
    async fn run(self: Arc<Self>, seller: i64, first: usize, chance: Chance) {
        let mut apis = self.apis.iter().cycle().skip(first % self.apis.len());
        let mut api = apis.next();
        while let (Some(at), false) = (api, self.stop.load(Ordering::SeqCst)) {
            match self.one(at, seller, &chance).await {
                Ok(()) | Err(End::Refused) => {}
                Err(End::NotAnswered) => {
                    // The server is gone for a moment.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    api = apis.next();
                }
            }
            tokio::time::sleep(self.pause).await;
        }
        let odd = self.odd.lock().unwrap();
        assert!(odd.is_empty(), "answers that no rule explains: {odd:#?}");
    }

    /// One product and what happens to it, as far as it is acknowledged.
    async fn one(&self, api: &Api, seller: i64, chance: &Chance) -> Result<(), End> {
        let buyer = 1 + (seller + chance.below(10)) % USERS;
        let product = match chance.one_in(4) {
            true => self.newest.load(Ordering::SeqCst),
            false => self.listed(api, seller).await?,
        };
        if product == 0 || buyer == seller {
            return Ok(());
        }
        let body = self.order_body(api, buyer, product, chance).await?;
        // Sold already, or the buyer's own.
        let placed = self.answer(api.post(buyer, "/api/v1/orders", body).await, &["A0409", "A0303"])?;
        let order = placed.id("orderId");
        self.ledger.order(order, Step::Placed);
        match chance.below(16) {
            0 | 1 => self.step(order, api.cancel(buyer, order).await, Step::Cancelled),
            // Left alone: closed by its timeout.
            2 | 3 => Ok(()),
            fate => self.paid(api, order, buyer, placed.id("sellerId"), fate).await,
        }
    }

    async fn listed(&self, api: &Api, seller: i64) -> Result<i64, End> {
        let product = self.answer(api.list_product(seller, "Desk lamp").await, &[])?.id("productId");
        self.ledger.product(product);
        self.newest.store(product, Ordering::SeqCst);
        Ok(product)
    }

    /// Half of the orders are paid in money alone, the others with wallet, points or a coupon too.
    async fn order_body(&self, api: &Api, buyer: i64, product: i64, chance: &Chance) -> Result<Value, End> {
        let mut body = json!({"productId": product});
        match chance.below(16) {
            0..8 => {}
            8 => body["walletAmount"] = money(PRICE_MINOR),
            9 => {
                let coupon = json!({
                    "userId": buyer, "discount": 5, "minSpend": 1, "expiresAt": "2099-01-01T00:00:00Z",
                });
                let issued = self.answer(api.post(OPERATOR, "/api/v1/ops/coupons", coupon).await, &[])?;
                body["couponId"] = json!(issued.id("couponId"));
                body["points"] = json!(1 + chance.below(200));
            }
            kind => {
                if kind != 10 {
                    body["walletAmount"] = money(1 + chance.below(4_000));
                }
                if kind != 11 {
                    body["points"] = json!(1 + chance.below(200));
                }
            }
        }
        Ok(body)
    }

    async fn paid(&self, api: &Api, order: i64, buyer: i64, seller: i64, fate: i64) -> Result<(), End> {
        // A client that waited for a restart may be later than the order's deadline.
        let started = taken(|| api.start_payment(buyer, order)).await;
        let payment = self.answer(started, &["A0409"])?.data;
        if payment["status"] == "PROCESSING" {
            let id = payment["paymentId"].as_i64().unwrap();
            let result = if fate == 4 { "FAILED" } else { "SUCCESS" };
            let reported = taken(|| api.payment_of_reported(id, &payment["amount"], result)).await;
            if fate == 4 {
                return self.answer(reported, &["A0409"]).map(drop);
            }
            self.step(order, reported, Step::PaymentReported)?;
        } else {
            // Assets paid all of it.
            self.ledger.order(order, Step::PaymentReported);
        }
        match fate {
            5 | 6 => Ok(()),
            7..10 => {
                let path = format!("/api/v1/orders/{order}/refunds");
                let refund = api.post(buyer, &path, json!({"reason": "too small"})).await;
                self.step(order, refund, Step::RefundRequested)
            }
            _ => {
                self.step(order, api.ship(seller, order).await, Step::Shipped)?;
                match fate {
                    10 | 11 => Ok(()),
                    _ => self.step(order, api.complete(buyer, order).await, Step::Completed),
                }
            }
        }
    }

    /// Notes an acknowledged step. The state may refuse one: a timeout was faster.
    fn step(&self, order: i64, answered: Result<Answer, Lost>, step: Step) -> Result<(), End> {
        self.answer(answered, &["A0409"])?;
        self.ledger.order(order, step);
        Ok(())
    }

    /// The answer, if the request was acknowledged.
    fn answer(&self, answered: Result<Answer, Lost>, expected: &[&str]) -> Result<Answer, End> {
        match answered {
            Ok(answer) if answer.done() => Ok(answer),
            // While it stops, or its database is away, the service says so.
            Ok(answer) if !["C0001", "C0002"].contains(&answer.code.as_str()) => {
                self.ledger.refused();
                if !expected.contains(&answer.code.as_str()) {
                    self.odd.lock().unwrap().push(format!("{answer:?}"));
                }
                Err(End::Refused)
            }
            Ok(_) | Err(_) => {
                self.ledger.lost();
                Err(End::NotAnswered)
            }
        }
    }
}

/// Asks again while the service says that it cannot yet, as a gateway does, and then gives up.
async fn taken<F: Future<Output = Result<Answer, Lost>>>(ask: impl Fn() -> F) -> Result<Answer, Lost> {
    for _ in 1..REPORTS {
        match ask().await {
            Ok(answer) if [503, 504].contains(&answer.status) => {
                tokio::time::sleep(Duration::from_millis(50)).await
            }
            other => return other,
        }
    }
    ask().await
}
