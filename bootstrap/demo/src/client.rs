//! HTTP client of the API, with bearer tokens and signed gateway callbacks.

mod gateway;
mod operator;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::sync::Semaphore;
use tokio::time::Instant;

pub(super) use self::gateway::Report;
use super::plan::Plan;
use handover_runtime::Failure;
use marketplace_wiring::Service;
use marketplace_wiring::secrets::{Secrets, refused};

/// Maximum number of concurrent requests: 64 buyers order the same lamp at the same moment.
const MAX_CONCURRENT_REQUESTS: usize = 64;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before the first repetition of a request; doubled before each further repetition, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// A request is not repeated once this time has passed since it was first sent.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
/// Lifetime of tokens: longer than the simulated day, because `--keep` prints two tokens for use after the day.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone)]
pub(super) struct ApiResponse {
    pub(super) status: u16,
    /// `code` of the response body.
    pub(super) code: String,
    /// `data` of the response body.
    pub(super) data: Value,
}

impl ApiResponse {
    /// Whether the service acknowledged the request.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status) && self.code == "00000"
    }

    /// Whether the service rejected the change because of the state of the product or order: already sold, or too late.
    pub(super) fn is_conflict(&self) -> bool {
        self.status == 409 && self.code == "A0409"
    }

    /// Whether the client should repeat the request: the service did not execute the request (`C0001`, for example
    /// because assets are not locked yet), or the outcome is unknown (`C0002`).
    fn is_retryable(&self) -> bool {
        ["C0001", "C0002"].contains(&self.code.as_str())
    }

    /// Whether the payment or refund is already complete because no amount is left for the gateway.
    pub(super) fn is_settled(&self) -> bool {
        self.data.get("status").and_then(Value::as_str) == Some("SUCCESS")
    }

    /// Amount in a field of the response's `data`.
    pub(super) fn money(&self, field: &str) -> Option<Money> {
        Money::parse(&self.data.get(field)?.to_string()).ok()
    }

    pub(super) fn items(&self) -> &[Value] {
        self.data.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// Id in a field of the response's `data`.
    pub(super) fn id<I: TryFrom<i64>>(&self, field: &str) -> Option<I> {
        I::try_from(self.data.get(field)?.as_i64()?).ok()
    }
}

/// No readable response; the request may have been executed.
#[derive(Debug, thiserror::Error)]
#[error("no response to {what}: {why}")]
pub(super) struct NoResponse {
    what: String,
    why: String,
}

/// Assets that an order uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AssetSelection {
    pub(super) coupon: Option<CouponId>,
    pub(super) wallet: Money,
    pub(super) points: Points,
}

/// Client with a token for each user.
pub(super) struct Api {
    http: Client<HttpConnector, Full<Bytes>>,
    base: String,
    tokens: BTreeMap<UserId, String>,
    gateway: Webhook,
    /// Source of idempotency keys: each POST of a user or operator gets a new one.
    keys: AtomicU64,
    /// Limits concurrent requests; waiting for a permit does not count towards the timeout.
    permits: Semaphore,
    retried_requests: AtomicUsize,
}

impl Api {
    /// The client of a service, with a token for each user of the plan.
    pub(super) fn of(service: &Service, plan: &Plan) -> Result<Api, Failure> {
        let (Some(address), Some(secrets)) = (service.address(), service.secrets()) else {
            return Err(Failure::Http { message: "the service does not listen".to_owned() });
        };
        Api::sign_in(address, secrets, &plan.users(), plan.operator)
    }

    /// Issues tokens to these users and to the operator.
    pub(super) fn sign_in(
        address: SocketAddr,
        secrets: &Secrets,
        users: &[UserId],
        operator: UserId,
    ) -> Result<Api, Failure> {
        let signer = secrets.tokens.signer()?;
        let of_operator: &[Role] = &[Role::Operator, Role::Platform];
        let roles = users.iter().map(|user| (*user, &[Role::User][..])).chain([(operator, of_operator)]);
        let tokens = roles
            .map(|(user, roles)| {
                let now = SystemClock.now();
                let roles: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
                let token = signer.issue(user.get(), TenantId::DEFAULT, &roles, TOKEN_LIFETIME, now);
                Ok((user, token.map_err(|error| refused("auth.jwt-secret", &error))?))
            })
            .collect::<Result<_, Failure>>()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Ok(Api {
            http: Client::builder(TokioExecutor::new()).build(connector),
            base: format!("http://{address}"),
            tokens,
            gateway: Webhook::new(secrets.gateway.reveal())
                .map_err(|error| refused("gateway.secret", &error))?,
            keys: AtomicU64::new(1),
            permits: Semaphore::new(MAX_CONCURRENT_REQUESTS),
            retried_requests: AtomicUsize::new(0),
        })
    }

    /// Base URL: `http://127.0.0.1:...`.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// The token of a user; empty if the user has none.
    pub(super) fn token(&self, user: UserId) -> &str {
        self.tokens.get(&user).map(String::as_str).unwrap_or_default()
    }

    /// Number of repetitions of requests.
    pub(super) fn retried_requests(&self) -> usize {
        self.retried_requests.load(Ordering::Relaxed)
    }

    /// Puts a product on sale.
    pub(super) async fn list(
        &self,
        seller: UserId,
        title: &str,
        price: Money,
    ) -> Result<ApiResponse, NoResponse> {
        self.post(seller, "/api/v1/products", &json!({"title": title, "price": price})).await
    }

    pub(super) async fn order(
        &self,
        buyer: UserId,
        product: ProductId,
        assets: AssetSelection,
    ) -> Result<ApiResponse, NoResponse> {
        let mut body = json!({"productId": product});
        if let Some(coupon) = assets.coupon {
            body["couponId"] = json!(coupon);
        }
        if assets.wallet > Money::ZERO {
            body["walletAmount"] = json!(assets.wallet);
        }
        if assets.points > Points::ZERO {
            body["points"] = json!(assets.points);
        }
        self.post(buyer, "/api/v1/orders", &body).await
    }

    /// Starts the payment of an order.
    pub(super) async fn pay(&self, buyer: UserId, order: OrderId) -> Result<ApiResponse, NoResponse> {
        self.post(buyer, &format!("/api/v1/orders/{order}/payments"), &json!({"paymentMethod": "card"})).await
    }

    pub(super) async fn ship(&self, seller: UserId, order: OrderId) -> Result<ApiResponse, NoResponse> {
        let body = json!({"carrier": "SF", "trackingNo": format!("T{order}")});
        self.post(seller, &format!("/api/v1/orders/{order}/ship"), &body).await
    }

    /// The buyer confirms the receipt.
    pub(super) async fn complete(&self, buyer: UserId, order: OrderId) -> Result<ApiResponse, NoResponse> {
        self.post(buyer, &format!("/api/v1/orders/{order}/complete"), &json!({})).await
    }

    pub(super) async fn cancel(&self, buyer: UserId, order: OrderId) -> Result<ApiResponse, NoResponse> {
        self.post(buyer, &format!("/api/v1/orders/{order}/cancel"), &json!({})).await
    }

    pub(super) async fn refund(
        &self,
        requester: UserId,
        order: OrderId,
        reason: &str,
    ) -> Result<ApiResponse, NoResponse> {
        self.post(requester, &format!("/api/v1/orders/{order}/refunds"), &json!({"reason": reason})).await
    }

    async fn post(&self, user: UserId, path: &str, body: &Value) -> Result<ApiResponse, NoResponse> {
        let key = self.keys.fetch_add(1, Ordering::Relaxed);
        let headers = [
            ("authorization", format!("Bearer {}", self.token(user))),
            ("content-type", "application/json".to_owned()),
            ("x-idempotency-key", format!("demo-{key}")),
        ];
        self.send(Method::POST, path, &headers, body.to_string()).await
    }

    async fn get(&self, user: UserId, path: &str) -> Result<ApiResponse, NoResponse> {
        let token = [("authorization", format!("Bearer {}", self.token(user)))];
        self.send(Method::GET, path, &token, String::new()).await
    }

    /// Sends a request and repeats it, with the same idempotency key, while its response is retryable, for at most
    /// [`RETRY_TIMEOUT`].
    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, String)],
        body: String,
    ) -> Result<ApiResponse, NoResponse> {
        let (started, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            let response = self.send_once(&method, path, headers, body.clone()).await;
            if !response.as_ref().is_ok_and(ApiResponse::is_retryable) || started.elapsed() > RETRY_TIMEOUT {
                return response;
            }
            self.retried_requests.fetch_add(1, Ordering::Relaxed);
            SystemClock.sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    async fn send_once(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, String)],
        body: String,
    ) -> Result<ApiResponse, NoResponse> {
        let no_response = |why: String| NoResponse { what: format!("{method} {path}"), why };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::from(body)).map_err(|error| no_response(error.to_string()))?;
        let _permit = self.permits.acquire().await.map_err(|error| no_response(error.to_string()))?;
        let exchange = async {
            let response = self.http.request(request).await.map_err(|error| error.to_string())?;
            let status = response.status().as_u16();
            let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
            let mut envelope: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            let code = envelope.get("code").and_then(Value::as_str).unwrap_or_default().to_owned();
            let data = envelope.get_mut("data").map(Value::take).unwrap_or_default();
            Ok(ApiResponse { status, code, data })
        };
        tokio::time::timeout(REQUEST_TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(format!("timed out after {REQUEST_TIMEOUT:?}")))
            .map_err(no_response)
    }
}

/// The response, if it is a success; otherwise what was answered.
pub(super) fn acknowledged(
    what: &str,
    response: Result<ApiResponse, NoResponse>,
) -> Result<ApiResponse, String> {
    match response {
        Ok(response) if response.is_success() => Ok(response),
        Ok(ApiResponse { status, code, .. }) => Err(format!("{what}: {status} {code}")),
        Err(no_response) => Err(no_response.to_string()),
    }
}
