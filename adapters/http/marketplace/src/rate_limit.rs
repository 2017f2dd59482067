//! Rate limiting: one token bucket per route and user, or per route and address for unauthenticated requests.
//!
//! This layer runs directly after authentication, which rejects no request: requests with invalid tokens are counted
//! for their address.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_http::Proxies;
use handover_http::header_names::{RATE_LIMIT, RATE_LIMIT_POLICY};
use handover_http::refusal::Refusal;
use marketplace::ports::{Bucket, LimitKey, Party, RateLimitDecision, RateLimiter};
use marketplace::{Actor, CommandContext, LIMIT_REFUSED};

/// Name of the only policy in the rate limit headers.
const POLICY: &str = "requests";

/// Rate limits of all routes.
pub struct RateLimits {
    limiter: Arc<dyn RateLimiter>,
    proxies: Proxies,
    bucket: Bucket,
    /// Buckets of individual routes, by route name.
    routes: HashMap<String, Bucket>,
}

impl RateLimits {
    /// Uses a bucket with these parameters for each pair of route and party.
    pub fn new(limiter: Arc<dyn RateLimiter>, bucket: Bucket) -> RateLimits {
        RateLimits { limiter, proxies: Proxies::default(), bucket, routes: HashMap::new() }
    }

    /// Sets the bucket of one of [`crate::LIMITED_ROUTES`]; other names have no effect.
    #[must_use]
    pub fn with_route_limit(mut self, route: &str, bucket: Bucket) -> RateLimits {
        self.routes.insert(route.to_owned(), bucket);
        self
    }

    /// Sets the trusted proxies.
    #[must_use]
    pub fn with_proxies(self, proxies: Proxies) -> RateLimits {
        RateLimits { proxies, ..self }
    }

    fn key(&self, request: &Request) -> (LimitKey, Bucket) {
        let party = match request.extensions().get::<CommandContext>() {
            Some(CommandContext { actor: Actor::User { id, .. }, tenant, .. }) => Party::User(*tenant, *id),
            Some(_) | None => self.proxies.client_of(request).map_or(Party::Unknown, Party::at),
        };
        let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        // A HEAD request uses the bucket of the GET route, because axum routes it to the GET handler.
        let method = if *request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let route = format!("{method} {path}");
        let bucket = self.routes.get(&route).copied().unwrap_or(self.bucket);
        (LimitKey { route: route.into(), party }, bucket)
    }

    /// Runs the request if its bucket has a token.
    pub(crate) async fn limit(&self, request: Request, next: Next) -> Response {
        let (key, bucket) = self.key(&request);
        let taken = self.limiter.take(&key, bucket).await;
        let mut response = match taken {
            RateLimitDecision::Token { .. } => next.run(request).await,
            RateLimitDecision::Refused { retry_after } => {
                metrics::counter!(LIMIT_REFUSED).increment(1);
                Refusal::rate_limited(whole_seconds(retry_after)).into_response()
            }
        };
        add_rate_limit_headers(response.headers_mut(), taken, bucket);
        response
    }
}

/// Adds the remaining quota, so that a client can slow down before it is rejected.
fn add_rate_limit_headers(headers: &mut HeaderMap, taken: RateLimitDecision, bucket: Bucket) {
    let capacity = bucket.capacity().get();
    let (remaining, reset) = match taken {
        RateLimitDecision::Token { remaining } => {
            (remaining, bucket.refill_interval() * capacity.saturating_sub(remaining))
        }
        // The header `RateLimit` contains the same time as the header `Retry-After`.
        RateLimitDecision::Refused { retry_after } => (0, retry_after),
    };
    let policy = format!("\"{POLICY}\";q={capacity};w={}", whole_seconds(bucket.refill_time()));
    let state = format!("\"{POLICY}\";r={remaining};t={}", whole_seconds(reset));
    for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, state)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}

/// Rounds a time up to whole seconds; returns at least 1.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}
