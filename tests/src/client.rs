//! A client of the HTTP API with the calls of a buyer, a seller, an operator and the payment gateway.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::sync::watch;

use crate::canary::{Canaries, PERSONAL, none};

use crate::process::{BoxError, Launch, Server};

/// A response of the API.
#[derive(Debug, Clone)]
pub struct ApiResponse {
    pub status: u16,
    /// Error code in the response envelope; `00000` for success.
    pub code: String,
    pub data: Value,
}

impl ApiResponse {
    /// Whether the request succeeded.
    pub fn done(&self) -> bool {
        (200..300).contains(&self.status) && self.code == "00000"
    }

    /// The data of a successful response. Panics for any other response.
    #[track_caller]
    pub fn value(self) -> Value {
        assert!(self.done(), "{self:?}");
        self.data
    }

    /// An id in the response.
    #[track_caller]
    pub fn id(&self, field: &str) -> i64 {
        self.data[field].as_i64().unwrap_or_else(|| panic!("no {field} in {self:?}"))
    }

    #[track_caller]
    pub fn items(&self) -> &[Value] {
        self.data["items"].as_array().unwrap_or_else(|| panic!("no items in {self:?}"))
    }

    pub fn outcome(&self) -> (u16, &str) {
        (self.status, &self.code)
    }
}

/// No response: it is unknown whether the request was executed.
#[derive(Debug)]
pub struct NoResponse(pub BoxError);

/// Identity of a caller. A plain number is a user of tenant 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    user: i64,
    tenant: i64,
    role: &'static str,
}

impl Caller {
    /// A user of the given tenant.
    pub const fn of_tenant(tenant: i64, user: i64) -> Caller {
        Caller { user, tenant, role: "user" }
    }

    /// Gives this user the role of an operator in its tenant.
    pub const fn operator(self) -> Caller {
        Caller { role: "operator", ..self }
    }
}

impl From<i64> for Caller {
    fn from(user: i64) -> Caller {
        Caller::of_tenant(1, user)
    }
}

/// A client. Clones share connections, tokens and the current address of the server.
#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    base: Arc<watch::Sender<String>>,
    tokens: Arc<Mutex<BTreeMap<Caller, String>>>,
    launch: Launch,
    gateway: Arc<Webhook>,
}

impl Api {
    /// A client of this server.
    pub fn of(server: &Server) -> Api {
        Api {
            http: reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap(),
            base: Arc::new(watch::Sender::new(server.base().to_owned())),
            tokens: Arc::default(),
            launch: server.launch().clone(),
            gateway: Arc::new(Webhook::new(&server.launch().secret("gateway")).unwrap()),
        }
    }

    /// The same client, with this trace id in every request.
    #[must_use]
    pub fn traced(self, trace: &'static str) -> Api {
        let headers = [("x-trace-id".parse().unwrap(), trace.parse().unwrap())].into_iter().collect();
        Api { http: reqwest::Client::builder().default_headers(headers).build().unwrap(), ..self }
    }

    /// The same client, with this request id in every request.
    #[must_use]
    pub fn with_request_id(self, id: &'static str) -> Api {
        let headers = [("x-request-id".parse().unwrap(), id.parse().unwrap())].into_iter().collect();
        Api { http: reqwest::Client::builder().default_headers(headers).build().unwrap(), ..self }
    }

    /// The same client for another server of the deployment.
    #[must_use]
    pub fn for_server(&self, server: &Server) -> Api {
        Api { base: Arc::new(watch::Sender::new(server.base().to_owned())), ..self.clone() }
    }

    /// Changes the address after the server was restarted on another port.
    pub fn set_server(&self, server: &Server) {
        self.base.send_replace(server.base().to_owned());
    }

    /// Returns a token for the caller, issued by the program's own `token` command.
    pub fn token(&self, caller: impl Into<Caller>) -> String {
        let caller = caller.into();
        let mut tokens = self.tokens.lock().unwrap();
        let issue = || {
            let user = caller.user.to_string();
            let tenant = caller.tenant.to_string();
            let arguments =
                ["token", "--user", &user, "--tenant", &tenant, "--role", caller.role, "--ttl", "7d"];
            let (code, stdout, stderr) = self.launch.run(&arguments).unwrap();
            assert_eq!(code, Some(0), "{stderr}");
            stdout.trim().to_owned()
        };
        tokens.entry(caller).or_insert_with(issue).clone()
    }

    /// Issues the tokens of the users in advance, so that concurrent requests do not wait for tokens.
    pub fn issue_tokens(&self, users: impl Iterator<Item = i64>) {
        users.for_each(|user| drop(self.token(user)));
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<ApiResponse, NoResponse> {
        let lost = |error: reqwest::Error| NoResponse(error.into());
        let response = request.send().await.map_err(lost)?;
        let status = response.status().as_u16();
        let text = response.text().await.map_err(lost)?;
        // Error responses end up in logs and tickets: they must not contain personal data or tokens.
        if status >= 400 {
            none(&Canaries::standard().in_text("an error response", &text));
        }
        let body: Value = serde_json::from_str(&text).map_err(|error| NoResponse(error.into()))?;
        let code = body["code"].as_str().unwrap_or_default().to_owned();
        Ok(ApiResponse { status, code, data: body["data"].clone() })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", *self.base.borrow())
    }

    /// Posts a body with a new idempotency key.
    pub async fn post(
        &self,
        caller: impl Into<Caller>,
        path: &str,
        body: Value,
    ) -> Result<ApiResponse, NoResponse> {
        static KEYS: AtomicU64 = AtomicU64::new(0);
        self.post_under(&format!("key-{}", KEYS.fetch_add(1, Ordering::Relaxed)), caller, path, body).await
    }

    /// Posts a body with this idempotency key.
    pub async fn post_under(
        &self,
        key: &str,
        caller: impl Into<Caller>,
        path: &str,
        body: Value,
    ) -> Result<ApiResponse, NoResponse> {
        let request =
            self.http.post(self.url(path)).bearer_auth(self.token(caller)).header("X-Idempotency-Key", key);
        self.send(request.json(&body)).await
    }

    pub async fn get(&self, caller: impl Into<Caller>, path: &str) -> Result<ApiResponse, NoResponse> {
        self.send(self.http.get(self.url(path)).bearer_auth(self.token(caller))).await
    }

    /// Like [`Api::get`], with another limit for the time until the response.
    pub async fn get_within(
        &self,
        limit: Duration,
        caller: impl Into<Caller>,
        path: &str,
    ) -> Result<ApiResponse, NoResponse> {
        self.send(self.http.get(self.url(path)).bearer_auth(self.token(caller)).timeout(limit)).await
    }

    /// Lists a product for 88.50.
    pub async fn list_product(&self, seller: i64, title: &str) -> Result<ApiResponse, NoResponse> {
        self.post(seller, "/api/v1/products", json!({"title": title, "price": 88.5})).await
    }

    pub async fn place_order(&self, buyer: i64, product: i64) -> Result<ApiResponse, NoResponse> {
        self.post(buyer, "/api/v1/orders", json!({"productId": product})).await
    }

    pub async fn start_payment(&self, buyer: i64, order: i64) -> Result<ApiResponse, NoResponse> {
        self.post(buyer, &format!("/api/v1/orders/{order}/payments"), json!({"paymentMethod": "card"})).await
    }

    /// Sends a signed gateway callback for a successful payment.
    pub async fn payment_succeeded(&self, payment: i64) -> Result<ApiResponse, NoResponse> {
        self.payment_reported(payment, "SUCCESS").await
    }

    /// Sends a signed gateway callback with the result of a payment of 88.50.
    pub async fn payment_reported(&self, payment: i64, result: &str) -> Result<ApiResponse, NoResponse> {
        self.payment_of_reported(payment, &json!(88.5), result).await
    }

    /// Sends a signed gateway callback with the result of a payment of this amount.
    pub async fn payment_of_reported(
        &self,
        payment: i64,
        amount: &Value,
        result: &str,
    ) -> Result<ApiResponse, NoResponse> {
        let body = json!({
            "paymentId": payment, "gatewayTxnId": format!("txn-{payment}"), "result": result, "amount": amount,
        });
        self.reported("/api/v1/payments/callback", &format!("msg-{payment}"), &body).await
    }

    /// Sends a signed gateway callback with the result of a refund.
    pub async fn refund_reported(&self, refund: i64, result: &str) -> Result<ApiResponse, NoResponse> {
        let body = json!({"refundId": refund, "result": result});
        self.reported("/api/v1/refunds/callback", &format!("refund-{refund}"), &body).await
    }

    async fn reported(&self, path: &str, id: &str, body: &Value) -> Result<ApiResponse, NoResponse> {
        let body = body.to_string();
        let mut request = self.http.post(self.url(path)).header("content-type", "application/json");
        for (name, value) in self.signed(id, 0, body.as_bytes()) {
            request = request.header(name, value);
        }
        self.send(request.body(body)).await
    }

    /// The gateway's signature headers for a body, with a timestamp that differs from the current time by `seconds`.
    pub fn signed(&self, id: &str, seconds: i64, body: &[u8]) -> [(&'static str, String); 3] {
        let time = chrono::Utc::now().timestamp() + seconds;
        let signature = self.gateway.sign(id, time, body).unwrap();
        [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", time.to_string()),
            ("webhook-signature", signature),
        ]
    }

    /// Ships an order as its seller.
    pub async fn ship(&self, seller: i64, order: i64) -> Result<ApiResponse, NoResponse> {
        let body = json!({"carrier": "SF", "trackingNo": format!("{PERSONAL}-{order}")});
        self.post(seller, &format!("/api/v1/orders/{order}/ship"), body).await
    }

    /// Confirms receipt of an order as its buyer.
    pub async fn complete(&self, buyer: i64, order: i64) -> Result<ApiResponse, NoResponse> {
        self.post(buyer, &format!("/api/v1/orders/{order}/complete"), json!({})).await
    }

    /// Cancels an order as its buyer.
    pub async fn cancel(&self, buyer: i64, order: i64) -> Result<ApiResponse, NoResponse> {
        self.post(buyer, &format!("/api/v1/orders/{order}/cancel"), json!({})).await
    }

    /// Reads an order as its buyer.
    pub async fn order(&self, buyer: i64, order: i64) -> Result<ApiResponse, NoResponse> {
        self.get(buyer, &format!("/api/v1/orders/{order}")).await
    }

    /// Sends a GET request without a token and returns the HTTP status of the response.
    pub async fn status_of(&self, path: &str) -> Result<u16, NoResponse> {
        let response =
            self.http.get(self.url(path)).send().await.map_err(|error| NoResponse(error.into()))?;
        Ok(response.status().as_u16())
    }
}
