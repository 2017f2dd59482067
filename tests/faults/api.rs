//! A client of the API: the calls of a buyer, a seller and the gateway.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handover_tests::process::{Fault, Launch, Server};
use serde_json::{Value, json};
use tokio::sync::watch;

/// An answer of the API.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) data: Value,
}

impl Answer {
    /// Whether the change was acknowledged.
    pub(crate) fn done(&self) -> bool {
        (200..300).contains(&self.status) && self.code == "00000"
    }

    /// An id in the answer.
    pub(crate) fn id(&self, field: &str) -> i64 {
        self.data[field].as_i64().unwrap_or_else(|| panic!("no {field} in {self:?}"))
    }
}

/// No answer: the request was done, or not.
#[derive(Debug)]
pub(crate) struct Lost(pub(crate) Fault);

/// A client. Clones share its connections, its tokens and the place where the server is now.
#[derive(Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    base: Arc<watch::Sender<String>>,
    tokens: Arc<Mutex<BTreeMap<i64, String>>>,
    launch: Launch,
    gateway: Arc<standardwebhooks::Webhook>,
}

impl Api {
    /// A client of this server.
    pub(crate) fn of(server: &Server) -> Api {
        let database = server.launch().database();
        let secret = std::fs::read_to_string(format!("{}-gateway-secret", database.display())).unwrap();
        Api {
            http: reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap(),
            base: Arc::new(watch::Sender::new(server.base().to_owned())),
            tokens: Arc::default(),
            launch: server.launch().clone(),
            gateway: Arc::new(standardwebhooks::Webhook::new(secret.trim()).unwrap()),
        }
    }

    /// The same client, with this trace in every request.
    pub(crate) fn traced(self, trace: &'static str) -> Api {
        let headers = [("x-trace-id".parse().unwrap(), trace.parse().unwrap())].into_iter().collect();
        Api { http: reqwest::Client::builder().default_headers(headers).build().unwrap(), ..self }
    }

    /// The server was started again, somewhere else.
    pub(crate) fn moved_to(&self, server: &Server) {
        self.base.send_replace(server.base().to_owned());
    }

    /// A token of that user, made by the program itself.
    fn token(&self, user: i64) -> String {
        let mut tokens = self.tokens.lock().unwrap();
        let made = || {
            let arguments = ["token", "--user", &user.to_string(), "--ttl", "7d"];
            let (code, stdout, stderr) = self.launch.run(&arguments).unwrap();
            assert_eq!(code, Some(0), "{stderr}");
            stdout.trim().to_owned()
        };
        tokens.entry(user).or_insert_with(made).clone()
    }

    /// Makes the tokens of these users now, so that no crowd waits for them later.
    pub(crate) fn sign_in(&self, users: impl Iterator<Item = i64>) {
        users.for_each(|user| drop(self.token(user)));
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Answer, Lost> {
        let lost = |error: reqwest::Error| Lost(error.into());
        let response = request.send().await.map_err(lost)?;
        let status = response.status().as_u16();
        let body: Value = response.json().await.map_err(lost)?;
        let code = body["code"].as_str().unwrap_or_default().to_owned();
        Ok(Answer { status, code, data: body["data"].clone() })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", *self.base.borrow())
    }

    async fn post(&self, user: i64, path: &str, body: Value) -> Result<Answer, Lost> {
        let key = format!("key-{:016x}", rand_like());
        let request =
            self.http.post(self.url(path)).bearer_auth(self.token(user)).header("X-Idempotency-Key", key);
        self.send(request.json(&body)).await
    }

    async fn get(&self, user: i64, path: &str) -> Result<Answer, Lost> {
        self.send(self.http.get(self.url(path)).bearer_auth(self.token(user))).await
    }

    /// Lists a product.
    pub(crate) async fn list_product(&self, seller: i64, title: &str) -> Result<Answer, Lost> {
        self.post(seller, "/api/v1/products", json!({"title": title, "price": 88.5})).await
    }

    /// Places an order.
    pub(crate) async fn place_order(&self, buyer: i64, product: i64) -> Result<Answer, Lost> {
        self.post(buyer, "/api/v1/orders", json!({"productId": product})).await
    }

    /// Starts the payment of an order.
    pub(crate) async fn start_payment(&self, buyer: i64, order: i64) -> Result<Answer, Lost> {
        self.post(buyer, &format!("/api/v1/orders/{order}/payments"), json!({"paymentMethod": "card"})).await
    }

    /// The gateway reports that a payment succeeded, signed.
    pub(crate) async fn payment_succeeded(&self, payment: i64) -> Result<Answer, Lost> {
        let body = json!({
            "paymentId": payment, "gatewayTxnId": format!("txn-{payment}"), "result": "SUCCESS", "amount": 88.5,
        })
        .to_string();
        let id = format!("msg-{payment}");
        let now = chrono::Utc::now().timestamp();
        let signature = self.gateway.sign(&id, now, body.as_bytes()).unwrap();
        let request = self
            .http
            .post(self.url("/api/v1/payments/callback"))
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", now.to_string())
            .header("webhook-signature", signature);
        self.send(request.body(body)).await
    }

    /// The seller ships.
    pub(crate) async fn ship(&self, seller: i64, order: i64) -> Result<Answer, Lost> {
        let body = json!({"carrier": "SF", "trackingNo": format!("T{order}")});
        self.post(seller, &format!("/api/v1/orders/{order}/ship"), body).await
    }

    /// The buyer confirms.
    pub(crate) async fn complete(&self, buyer: i64, order: i64) -> Result<Answer, Lost> {
        self.post(buyer, &format!("/api/v1/orders/{order}/complete"), json!({})).await
    }

    /// The buyer cancels.
    pub(crate) async fn cancel(&self, buyer: i64, order: i64) -> Result<Answer, Lost> {
        self.post(buyer, &format!("/api/v1/orders/{order}/cancel"), json!({})).await
    }

    /// The order, as its buyer sees it.
    pub(crate) async fn order(&self, buyer: i64, order: i64) -> Result<Answer, Lost> {
        self.get(buyer, &format!("/api/v1/orders/{order}")).await
    }

    /// The status of a path that needs no token.
    pub(crate) async fn status_of(&self, path: &str) -> Result<u16, Lost> {
        let response = self.http.get(self.url(path)).send().await.map_err(|error| Lost(error.into()))?;
        Ok(response.status().as_u16())
    }
}

/// Any number, another one each time.
pub(crate) fn rand_like() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
