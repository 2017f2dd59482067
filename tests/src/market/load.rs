//! Steady load: several clients that sell and buy, some of them after the same products, and note what is acknowledged.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

use super::ledger::{Ledger, Step};
use crate::client::{Answer, Api, Lost, rand_like};

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

impl Load {
    /// Starts so many clients, each with a pause between its orders.
    pub fn start(api: &Api, ledger: &Arc<Ledger>, clients: i64, pause: Duration) -> Load {
        Load::across(std::slice::from_ref(api), ledger, clients, pause)
    }

    /// The same with several servers of one deployment ([`Api::beside`]): the clients are spread over them, and one whose
    /// server does not answer goes to the next.
    #[track_caller]
    pub fn across(apis: &[Api], ledger: &Arc<Ledger>, clients: i64, pause: Duration) -> Load {
        apis.first().expect("a server").sign_in(1..=USERS);
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
            tasks.spawn(Arc::clone(&market).run(1 + client % USERS, first));
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

impl Market {
    async fn run(self: Arc<Self>, seller: i64, first: usize) {
        let mut apis = self.apis.iter().cycle().skip(first % self.apis.len());
        let mut api = apis.next();
        while let (Some(at), false) = (api, self.stop.load(Ordering::SeqCst)) {
            match self.one(at, seller).await {
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
    async fn one(&self, api: &Api, seller: i64) -> Result<(), End> {
        let dice = rand_like();
        let buyer = 1 + (seller + (dice % 10) as i64) % USERS;
        let product = match dice >> 8 & 3 {
            0 => self.newest.load(Ordering::SeqCst),
            _ => self.listed(api, seller).await?,
        };
        if product == 0 || buyer == seller {
            return Ok(());
        }
        // Sold already, or the buyer's own.
        let placed = self.answer(api.place_order(buyer, product).await, &["A0409", "A0303"])?;
        let order = placed.id("orderId");
        self.ledger.order(order, Step::Placed);
        match dice >> 16 & 15 {
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

    async fn paid(&self, api: &Api, order: i64, buyer: i64, seller: i64, fate: u64) -> Result<(), End> {
        // A client that waited for a restart may be later than the order's deadline.
        let payment = self.answer(api.start_payment(buyer, order).await, &["A0409"])?.id("paymentId");
        self.step(order, api.payment_succeeded(payment).await, Step::PaymentReported)?;
        if fate < 8 {
            return Ok(());
        }
        self.step(order, api.ship(seller, order).await, Step::Shipped)?;
        if fate < 12 {
            return Ok(());
        }
        self.step(order, api.complete(buyer, order).await, Step::Completed)
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
            Ok(answer) if answer.code != "C0001" => {
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
