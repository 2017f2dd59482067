//! A client of the API as any other: HTTP over a socket, bearer tokens, signed callbacks.

mod gateway;
mod operator;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handover_events::TenantId;
use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use marketplace::Role;
use marketplace_domain::{CouponId, Money, OrderId, Points, ProductId, UserId};
use marketplace_http::Tokens;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::sync::Semaphore;

pub(super) use self::gateway::Report;
use marketplace_wiring::{Failure, Secrets};

/// How many requests are made at a time: as many as want the lamp.
const LINES: usize = 64;

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

    /// Whether it should be asked again: what it needs is not there yet, or its outcome is unknown.
    pub(super) fn is_not_yet(&self) -> bool {
        ["C0001", "C0002"].contains(&self.code.as_str())
    }

    /// Whether what was asked for is done already: a payment or refund without anything for the gateway to do.
    pub(super) fn is_settled(&self) -> bool {
        self.data.get("status").and_then(Value::as_str) == Some("SUCCESS")
    }

    /// An amount in the answer.
    pub(super) fn money(&self, field: &str) -> Option<Money> {
        Money::parse(&self.data.get(field)?.to_string()).ok()
    }

    /// The items of a list.
    pub(super) fn items(&self) -> &[Value] {
        self.data.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
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

/// What an order names beside money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    /// A coupon.
    pub(super) coupon: Option<CouponId>,
    /// So much of the wallet.
    pub(super) wallet: Money,
    /// So many points.
    pub(super) points: Points,
}

/// A client with a token for everybody.
pub(super) struct Api {
    http: Client<HttpConnector, Full<Bytes>>,
    base: String,
    tokens: BTreeMap<UserId, String>,
    gateway: Webhook,
    /// Each request that creates or moves something has a key of its own.
    keys: AtomicU64,
    /// A request waits for one of these: those who wait for their turn hold up nobody.
    lines: Semaphore,
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
        let secret = secrets.jwt.as_ref().ok_or(Failure::IssuedElsewhere)?;
        let signer = Tokens::new(secret.reveal().as_bytes())
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
            lines: Semaphore::new(LINES),
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
    pub(super) async fn order(
        &self,
        buyer: UserId,
        product: ProductId,
        named: Named,
    ) -> Result<Answer, Unanswered> {
        let mut body = json!({"productId": product});
        if let Some(coupon) = named.coupon {
            body["couponId"] = json!(coupon);
        }
        if named.wallet > Money::ZERO {
            body["walletAmount"] = json!(named.wallet);
        }
        if named.points > Points::ZERO {
            body["points"] = json!(named.points);
        }
        self.post(buyer, "/api/v1/orders", &body).await
    }

    /// Starts the payment of an order.
    pub(super) async fn pay(&self, buyer: UserId, order: OrderId) -> Result<Answer, Unanswered> {
        self.post(buyer, &format!("/api/v1/orders/{order}/payments"), &json!({"paymentMethod": "card"})).await
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

    /// Somebody wants a paid order paid back.
    pub(super) async fn refund(
        &self,
        who: UserId,
        order: OrderId,
        reason: &str,
    ) -> Result<Answer, Unanswered> {
        self.post(who, &format!("/api/v1/orders/{order}/refunds"), &json!({"reason": reason})).await
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

    async fn get(&self, user: UserId, path: &str) -> Result<Answer, Unanswered> {
        let token = [("authorization", format!("Bearer {}", self.token(user)))];
        self.send(Method::GET, path, &token, String::new()).await
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
        let _line = self.lines.acquire().await.map_err(|error| unanswered(error.to_string()))?;
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
