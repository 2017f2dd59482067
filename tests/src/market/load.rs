//! Steady load: several clients sell and buy, partly the same products. They pay with money, wallet, points and
//! coupons, and record the acknowledged requests.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ledger::{Ledger, Step};
use crate::client::{Api, ApiResponse, Caller, NoResponse};
use crate::random::RandomSource;

/// Clients that run until they are stopped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

/// State shared by the clients.
struct Market {
    /// One client per server.
    apis: Vec<Api>,
    ledger: Arc<Ledger>,
    /// The most recently listed product, for which several buyers compete.
    newest: AtomicI64,
    stop: Arc<AtomicBool>,
    /// Responses that are neither a success nor an expected rejection.
    unexpected: Arc<Mutex<Vec<String>>>,
    pause: Duration,
}

/// Reason for which a client stopped working on a product.
enum End {
    /// A business rule rejected a request.
    Refused,
    /// There was no response, or the service reported that it is unavailable.
    NotAnswered,
}

/// Number of users. Each client acts as one seller and as all buyers.
const USERS: i64 = 12;

/// Operator of the tenant to which the users belong.
pub const OPERATOR: Caller = Caller::of_tenant(1, 9).operator();

const PRICE_MINOR: i64 = 8_850;

/// Maximum number of attempts for a request that gets 503 or 504, for example the report of a payment while the order's
/// assets are not locked yet.
const REPORTS: u32 = 10;

impl Load {
    /// Starts clients with a pause between their orders. The servers of a deployment ([`Api::for_server`]) are
    /// distributed among the clients; a client whose server does not respond changes to the next one.
    pub async fn start(
        apis: &[Api],
        ledger: &Arc<Ledger>,
        random: &RandomSource,
        clients: i64,
        pause: Duration,
    ) -> Load {
        let first = apis.first().expect("a server");
        first.issue_tokens(1..=USERS);
        for user in 1..=USERS {
            fund(first, user).await;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let market = Arc::new(Market {
            apis: apis.to_vec(),
            ledger: Arc::clone(ledger),
            newest: AtomicI64::new(0),
            stop: Arc::clone(&stop),
            unexpected: Arc::default(),
            pause,
        });
        let mut tasks = JoinSet::new();
        for (first, client) in (0..clients).enumerate() {
            let random = random.stream(&format!("client {client}"));
            tasks.spawn(Arc::clone(&market).run(1 + client % USERS, first, random));
        }
        Load { stop, clients: tasks }
    }

    /// Stops every client after it has finished its current product.
    pub async fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
    }
}

/// Grants a user money and points for many orders.
async fn fund(api: &Api, user: i64) {
    let deposit = json!({"amount": 2_000});
    let deposits = format!("/api/v1/ops/wallets/{user}/deposits");
    api.post(OPERATOR, &deposits, deposit).await.unwrap().value();
    let grants = format!("/api/v1/ops/points/{user}/grants");
    api.post(OPERATOR, &grants, json!({"points": 10_000})).await.unwrap().value();
}

/// Converts an amount in minor units to a JSON number in major units.
fn money(minor: i64) -> Value {
    serde_json::from_str(&format!("{}.{:02}", minor / 100, minor % 100)).unwrap()
}

impl Market {
    async fn run(self: Arc<Self>, seller: i64, first: usize, random: RandomSource) {
        let mut apis = self.apis.iter().cycle().skip(first % self.apis.len());
        let mut api = apis.next();
        while let (Some(at), false) = (api, self.stop.load(Ordering::SeqCst)) {
            match self.one(at, seller, &random).await {
                Ok(()) | Err(End::Refused) => {}
                Err(End::NotAnswered) => {
                    // The server is unavailable for a moment.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    api = apis.next();
                }
            }
            tokio::time::sleep(self.pause).await;
        }
        let unexpected = self.unexpected.lock().unwrap();
        assert!(unexpected.is_empty(), "unexpected responses: {unexpected:#?}");
    }

    /// Sells or buys one product; ends at the first request that is not acknowledged.
    async fn one(&self, api: &Api, seller: i64, random: &RandomSource) -> Result<(), End> {
        let buyer = 1 + (seller + random.below(10)) % USERS;
        let product = match random.one_in(4) {
            true => self.newest.load(Ordering::SeqCst),
            false => self.listed(api, seller).await?,
        };
        if product == 0 || buyer == seller {
            return Ok(());
        }
        let body = self.order_body(api, buyer, product, random).await?;
        // The product is sold already, or it is the buyer's own.
        let placed = self.acknowledged(api.post(buyer, "/api/v1/orders", body).await, &["A0409", "A0303"])?;
        let order = placed.id("orderId");
        self.ledger.order(order, Step::Placed);
        match random.below(16) {
            0 | 1 => self.step(order, api.cancel(buyer, order).await, Step::Cancelled),
            // The order stays unpaid and is closed by its timeout.
            2 | 3 => Ok(()),
            outcome => self.paid(api, order, buyer, placed.id("sellerId"), outcome).await,
        }
    }

    async fn listed(&self, api: &Api, seller: i64) -> Result<i64, End> {
        let product = self.acknowledged(api.list_product(seller, "Desk lamp").await, &[])?.id("productId");
        self.ledger.product(product);
        self.newest.store(product, Ordering::SeqCst);
        Ok(product)
    }

    /// Half of the orders use no assets; the others use wallet, points or a coupon.
    async fn order_body(
        &self,
        api: &Api,
        buyer: i64,
        product: i64,
        random: &RandomSource,
    ) -> Result<Value, End> {
        let mut body = json!({"productId": product});
        match random.below(16) {
            0..8 => {}
            8 => body["walletAmount"] = money(PRICE_MINOR),
            9 => {
                let coupon = json!({
                    "userId": buyer, "discount": 5, "minSpend": 1, "expiresAt": "2099-01-01T00:00:00Z",
                });
                let issued =
                    self.acknowledged(api.post(OPERATOR, "/api/v1/ops/coupons", coupon).await, &[])?;
                body["couponId"] = json!(issued.id("couponId"));
                body["points"] = json!(1 + random.below(200));
            }
            kind => {
                if kind != 10 {
                    body["walletAmount"] = money(1 + random.below(4_000));
                }
                if kind != 11 {
                    body["points"] = json!(1 + random.below(200));
                }
            }
        }
        Ok(body)
    }

    async fn paid(&self, api: &Api, order: i64, buyer: i64, seller: i64, outcome: i64) -> Result<(), End> {
        // A0409 is not an error: a client that waited for a restart may have missed the order's deadline.
        let started = with_retries(|| api.start_payment(buyer, order)).await;
        let payment = self.acknowledged(started, &["A0409"])?.data;
        if payment["status"] == "PROCESSING" {
            let id = payment["paymentId"].as_i64().unwrap();
            let result = if outcome == 4 { "FAILED" } else { "SUCCESS" };
            let reported = with_retries(|| api.payment_of_reported(id, &payment["amount"], result)).await;
            if outcome == 4 {
                return self.acknowledged(reported, &["A0409"]).map(drop);
            }
            self.step(order, reported, Step::PaymentReported)?;
        } else {
            // Assets cover the whole price.
            self.ledger.order(order, Step::PaymentReported);
        }
        match outcome {
            5 | 6 => Ok(()),
            7..10 => {
                let path = format!("/api/v1/orders/{order}/refunds");
                let refund = api.post(buyer, &path, json!({"reason": "too small"})).await;
                self.step(order, refund, Step::RefundRequested)
            }
            _ => {
                self.step(order, api.ship(seller, order).await, Step::Shipped)?;
                match outcome {
                    10 | 11 => Ok(()),
                    _ => self.step(order, api.complete(buyer, order).await, Step::Completed),
                }
            }
        }
    }

    /// Records a step that the service acknowledged. A rejection because of the order's status, for example after a
    /// timeout, ends the work on the product and is not an error.
    fn step(&self, order: i64, response: Result<ApiResponse, NoResponse>, step: Step) -> Result<(), End> {
        self.acknowledged(response, &["A0409"])?;
        self.ledger.order(order, step);
        Ok(())
    }

    /// Returns the response if the request was acknowledged.
    fn acknowledged(
        &self,
        response: Result<ApiResponse, NoResponse>,
        expected: &[&str],
    ) -> Result<ApiResponse, End> {
        match response {
            Ok(answer) if answer.done() => Ok(answer),
            // The service returns C0001 or C0002 while it stops or while its database is unavailable.
            Ok(answer) if !["C0001", "C0002"].contains(&answer.code.as_str()) => {
                self.ledger.refused();
                if !expected.contains(&answer.code.as_str()) {
                    self.unexpected.lock().unwrap().push(format!("{answer:?}"));
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

/// Sends a request up to [`REPORTS`] times while the response is 503 or 504, as a gateway does.
async fn with_retries<F: Future<Output = Result<ApiResponse, NoResponse>>>(
    send: impl Fn() -> F,
) -> Result<ApiResponse, NoResponse> {
    for _ in 1..REPORTS {
        match send().await {
            Ok(answer) if [503, 504].contains(&answer.status) => {
                tokio::time::sleep(Duration::from_millis(50)).await
            }
            other => return other,
        }
    }
    send().await
}
