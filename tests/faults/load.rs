//! Steady load: several clients that sell and buy, some of them after the same products, and note what is acknowledged.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handover_tests::client::{Answer, Api, Lost, rand_like};
use tokio::task::JoinSet;

use crate::ledger::{Ledger, Step};

/// Clients that run until they are told to stop.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

/// What the clients share.
struct Market {
    api: Api,
    ledger: Arc<Ledger>,
    /// The product that was listed last: whoever wants a contested one takes this.
    newest: AtomicI64,
    stop: Arc<AtomicBool>,
    /// Answers that no rule explains.
    odd: Arc<Mutex<Vec<String>>>,
    pause: Duration,
}

/// How many users there are; each client plays its own seller and all buyers.
const USERS: i64 = 12;

impl Load {
    /// Starts so many clients, each with a pause between its orders.
    pub(crate) fn start(api: &Api, ledger: &Arc<Ledger>, clients: i64, pause: Duration) -> Load {
        api.sign_in(1..=USERS);
        let stop = Arc::new(AtomicBool::new(false));
        let market = Arc::new(Market {
            api: api.clone(),
            ledger: Arc::clone(ledger),
            newest: AtomicI64::new(0),
            stop: Arc::clone(&stop),
            odd: Arc::default(),
            pause,
        });
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            tasks.spawn(Arc::clone(&market).run(1 + client % USERS));
        }
        Load { stop, clients: tasks }
    }

    /// Lets every client finish what it is at.
    pub(crate) async fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
    }
}

impl Market {
    async fn run(self: Arc<Self>, seller: i64) {
        while !self.stop.load(Ordering::SeqCst) {
            if self.one(seller).await.is_none() {
                // No answer: the server is gone for a moment.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tokio::time::sleep(self.pause).await;
        }
        let odd = self.odd.lock().unwrap();
        assert!(odd.is_empty(), "answers that no rule explains: {odd:#?}");
    }

    /// One product and what happens to it. `None` as soon as something is not answered or refused.
    async fn one(&self, seller: i64) -> Option<()> {
        let dice = rand_like();
        let buyer = 1 + (seller + (dice % 10) as i64) % USERS;
        let product = match dice >> 8 & 3 {
            0 => self.newest.load(Ordering::SeqCst),
            _ => self.listed(seller).await?,
        };
        if product == 0 || buyer == seller {
            return Some(());
        }
        // Sold already, or the buyer's own.
        let placed = self.answer(self.api.place_order(buyer, product).await, &["A0409", "A0303"])?;
        let order = placed.id("orderId");
        self.ledger.order(order, Step::Placed);
        match dice >> 16 & 15 {
            0 | 1 => self.step(order, self.api.cancel(buyer, order).await, Step::Cancelled),
            // Left alone: closed by its timeout.
            2 | 3 => Some(()),
            fate => self.paid(order, buyer, placed.id("sellerId"), fate).await,
        }
    }

    async fn listed(&self, seller: i64) -> Option<i64> {
        let product = self.answer(self.api.list_product(seller, "Desk lamp").await, &[])?.id("productId");
        self.ledger.product(product);
        self.newest.store(product, Ordering::SeqCst);
        Some(product)
    }

    async fn paid(&self, order: i64, buyer: i64, seller: i64, fate: u64) -> Option<()> {
        // A client that waited for a restart may be later than the order's deadline.
        let payment = self.answer(self.api.start_payment(buyer, order).await, &["A0409"])?.id("paymentId");
        self.step(order, self.api.payment_succeeded(payment).await, Step::PaymentReported)?;
        if fate < 8 {
            return Some(());
        }
        self.step(order, self.api.ship(seller, order).await, Step::Shipped)?;
        if fate < 12 {
            return Some(());
        }
        self.step(order, self.api.complete(buyer, order).await, Step::Completed)
    }

    /// Notes an acknowledged step. The state may refuse one: a timeout was faster.
    fn step(&self, order: i64, answered: Result<Answer, Lost>, step: Step) -> Option<()> {
        self.answer(answered, &["A0409"])?;
        self.ledger.order(order, step);
        Some(())
    }

    /// The answer, if the request was acknowledged.
    fn answer(&self, answered: Result<Answer, Lost>, expected: &[&str]) -> Option<Answer> {
        match answered {
            Err(_) => self.ledger.lost(),
            Ok(answer) if answer.done() => return Some(answer),
            // While it stops, the service says so.
            Ok(answer) if answer.code == "C0001" => self.ledger.lost(),
            Ok(answer) => {
                self.ledger.refused();
                if !expected.contains(&answer.code.as_str()) {
                    self.odd.lock().unwrap().push(format!("{answer:?}"));
                }
            }
        }
        None
    }
}
