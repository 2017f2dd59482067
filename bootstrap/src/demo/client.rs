//! A client of the API as any other: HTTP over a socket, bearer tokens, signed callbacks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handover_application::Role;
use handover_application::ports::Clock;
use handover_domain::{Money, OrderId, PaymentId, ProductId, TenantId, UserId};
use handover_http::Tokens;
use handover_system::SystemClock;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::{Failure, Secrets};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a token is good: a day that is kept is looked at for longer than it takes.
const SIGNED_IN: Duration = Duration::from_secs(24 * 3600);

/// An answer of the API.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// The HTTP status.
    pub(super) status: u16,
    /// The code of its envelope.
    pub(super) code: String,
    /// What it carries.
    pub(super) data: Value,
}

impl Answer {
    /// Whether the change was acknowledged.
    pub(super) fn is_done(&self) -> bool {
        (200..300).contains(&self.status) && self.code == "00000"
    }

    /// Whether the state does not allow it: sold already, or too late.
    pub(super) fn is_refused(&self) -> bool {
        self.status == 409 && self.code == "A0409"
    }

    /// An id in the answer.
    pub(super) fn id<I: TryFrom<i64>>(&self, field: &str) -> Option<I> {
        I::try_from(self.data.get(field)?.as_i64()?).ok()
    }
}

/// No answer that could be read: the request was done, or not.
#[derive(Debug, thiserror::Error)]
#[error("no answer to {what}: {why}")]
pub(super) struct Unanswered {
    what: String,
    why: String,
}

/// What the gateway reports about a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// The money has arrived.
    Success,
    /// It has not.
    Failed,
}

/// A client with a token for everybody.
pub(super) struct Api {
    http: Client<HttpConnector, Full<Bytes>>,
    base: String,
    tokens: BTreeMap<UserId, String>,
    gateway: Webhook,
    /// Each request that creates or moves something has a key of its own.
    keys: AtomicU64,
}

impl Api {
    /// Signs these users in, and the operator.
    pub(super) fn sign_in(
        address: SocketAddr,
        secrets: &Secrets,
        users: &[UserId],
        operator: UserId,
    ) -> Result<Api, Failure> {
        let refused = |key, why: String| Failure::SecretRefused { key, why };
        let signer = Tokens::new(secrets.jwt.reveal().as_bytes())
            .map_err(|error| refused("auth.jwt-secret", error.to_string()))?;
        let roles = users.iter().map(|user| (*user, Role::User)).chain([(operator, Role::Operator)]);
        let tokens = roles
            .map(|(user, role)| {
                let token = signer.issue(user, TenantId::DEFAULT, &[role], SIGNED_IN, SystemClock.now());
                Ok((user, token.map_err(|error| refused("auth.jwt-secret", error.to_string()))?))
            })
            .collect::<Result<_, Failure>>()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Ok(Api {
            http: Client::builder(TokioExecutor::new()).build(connector),
            base: format!("http://{address}"),
            tokens,
            gateway: Webhook::new(secrets.gateway.reveal())
                .map_err(|error| refused("gateway.secret", error.to_string()))?,
            keys: AtomicU64::new(1),
        })
    }

    /// Where it calls: `http://127.0.0.1:...`.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// The token of one who is signed in.
    pub(super) fn token(&self, user: UserId) -> &str {
        self.tokens.get(&user).map(String::as_str).unwrap_or_default()
    }

    /// Lists a product.
    pub(super) async fn list(&self, seller: UserId, title: &str, price: Money) -> Result<Answer, Unanswered> {
        self.post(seller, "/api/v1/products", &json!({"title": title, "price": price})).await
    }

    /// Places an order.
    pub(super) async fn order(&self, buyer: UserId, product: ProductId) -> Result<Answer, Unanswered> {
        self.post(buyer, "/api/v1/orders", &json!({"productId": product})).await
    }

    /// Starts the payment of an order.
    pub(super) async fn pay(&self, buyer: UserId, order: OrderId) -> Result<Answer, Unanswered> {
        self.post(buyer, &format!("/api/v1/orders/{order}/payments"), &json!({"paymentMethod": "card"})).await
    }

    /// The gateway reports, signed.
    pub(super) async fn report(
        &self,
        payment: PaymentId,
        amount: Money,
        report: Report,
    ) -> Result<Answer, Unanswered> {
        let result = match report {
            Report::Success => "SUCCESS",
            Report::Failed => "FAILED",
        };
        let body = json!({
            "paymentId": payment, "gatewayTxnId": format!("txn-{payment}"), "result": result, "amount": amount,
        })
        .to_string();
        let path = "/api/v1/payments/callback";
        let (id, now) = (format!("msg-{payment}"), SystemClock.now().timestamp());
        let signature = self
            .gateway
            .sign(&id, now, body.as_bytes())
            .map_err(|error| Unanswered { what: path.to_owned(), why: error.to_string() })?;
        let signed = [
            ("webhook-id", id),
            ("webhook-timestamp", now.to_string()),
            ("webhook-signature", signature),
            ("content-type", "application/json".to_owned()),
        ];
        self.send(Method::POST, path, &signed, body).await
    }

    /// The seller ships.
    pub(super) async fn ship(&self, seller: UserId, order: OrderId) -> Result<Answer, Unanswered> {
        let body = json!({"carrier": "SF", "trackingNo": format!("T{order}")});
        self.post(seller, &format!("/api/v1/orders/{order}/ship"), &body).await
    }

    /// The buyer has it.
    pub(super) async fn complete(&self, buyer: UserId, order: OrderId) -> Result<Answer, Unanswered> {
        self.post(buyer, &format!("/api/v1/orders/{order}/complete"), &json!({})).await
    }

    /// The buyer cancels.
    pub(super) async fn cancel(&self, buyer: UserId, order: OrderId) -> Result<Answer, Unanswered> {
        self.post(buyer, &format!("/api/v1/orders/{order}/cancel"), &json!({})).await
    }

    /// The dead letters that nobody has decided about.
    pub(super) async fn dead_letters(&self, operator: UserId) -> Result<Answer, Unanswered> {
        let path = "/api/v1/ops/dead-letters?status=OPEN&limit=100";
        let token = [("authorization", format!("Bearer {}", self.token(operator)))];
        self.send(Method::GET, path, &token, String::new()).await
    }

    /// The operator gives dead letters up.
    pub(super) async fn discard(
        &self,
        operator: UserId,
        keys: &[&str],
        reason: &str,
    ) -> Result<Answer, Unanswered> {
        let body = json!({"eventIds": keys, "reason": reason});
        self.post(operator, "/api/v1/ops/dead-letters/discard", &body).await
    }

    async fn post(&self, user: UserId, path: &str, body: &Value) -> Result<Answer, Unanswered> {
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        let headers = [
            ("authorization", format!("Bearer {}", self.token(user))),
            ("content-type", "application/json".to_owned()),
            ("x-idempotency-key", format!("demo-{key}")),
        ];
        self.send(Method::POST, path, &headers, body.to_string()).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, String)],
        body: String,
    ) -> Result<Answer, Unanswered> {
        let unanswered = |why: String| Unanswered { what: format!("{method} {path}"), why };
        let mut request = Request::builder().method(&method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::from(body)).map_err(|error| unanswered(error.to_string()))?;
        let exchange = async {
            let response = self.http.request(request).await.map_err(|error| error.to_string())?;
            let status = response.status().as_u16();
            let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
            let mut envelope: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            let code = envelope.get("code").and_then(Value::as_str).unwrap_or_default().to_owned();
            let data = envelope.get_mut("data").map(Value::take).unwrap_or_default();
            Ok(Answer { status, code, data })
        };
        tokio::time::timeout(PATIENCE, exchange)
            .await
            .unwrap_or_else(|_| Err(format!("nothing within {PATIENCE:?}")))
            .map_err(unanswered)
    }
}
