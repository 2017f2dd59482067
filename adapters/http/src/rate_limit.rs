//! Rate limiting: one token bucket per route and user, or per route and address for unauthenticated requests (spec §4;
//! seed 003 §3).
//!
//! This layer runs directly after authentication, which rejects no request: requests with invalid tokens are counted
//! for their address.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use marketplace::ports::{Bucket, LimitKey, Party, RateLimitDecision, RateLimiter};
use marketplace::{Actor, CommandContext, LIMIT_REFUSED};

use crate::client::Proxies;
use crate::edge::Edge;
use crate::refusal::Refusal;
use crate::routes::LIMITED_ROUTES;

/// The header fields of draft-ietf-httpapi-ratelimit-headers.
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// Name of the only policy.
const POLICY: &str = "requests";
/// Bucket of routes that are missing in [`LIMITED_ROUTES`].
const NO_ROUTE: &str = "other";

/// Rate limits of all routes.
pub struct RateLimits {
    limiter: Arc<dyn RateLimiter>,
    proxies: Proxies,
    routes: HashMap<&'static str, (Arc<str>, Bucket)>,
    other: (Arc<str>, Bucket),
}

impl RateLimits {
    /// Uses a bucket with these parameters for each pair of route and party.
    pub fn new(limiter: Arc<dyn RateLimiter>, bucket: Bucket) -> RateLimits {
        let routes = LIMITED_ROUTES.iter().map(|route| (*route, (Arc::from(*route), bucket))).collect();
        RateLimits { limiter, proxies: Proxies::default(), routes, other: (Arc::from(NO_ROUTE), bucket) }
    }

    /// Sets the bucket of one of [`LIMITED_ROUTES`]; ignores other names.
    #[must_use]
    pub fn with_route_limit(mut self, route: &str, bucket: Bucket) -> RateLimits {
        if let Some((_, route_bucket)) = self.routes.get_mut(route) {
            *route_bucket = bucket;
        }
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
            Some(_) | None => self.proxies.party(request),
        };
        let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        // axum routes HEAD to the GET handler.
        let method = if *request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let (route, bucket) = self.routes.get(format!("{method} {path}").as_str()).unwrap_or(&self.other);
        (LimitKey { route: Arc::clone(route), party }, *bucket)
    }
}

/// Middleware of the API routes; health, metrics and documentation are not limited.
pub(crate) async fn limit_rate(State(edge): State<Arc<Edge>>, request: Request, next: Next) -> Response {
    let (key, bucket) = edge.admission.key(&request);
    debug_assert!(*key.route != *NO_ROUTE, "a route is missing in LIMITED_ROUTES: {}", request.uri());
    let taken = edge.admission.limiter.take(&key, bucket).await;
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

/// Adds the remaining quota, so that a client can slow down before it is rejected.
fn add_rate_limit_headers(headers: &mut HeaderMap, taken: RateLimitDecision, bucket: Bucket) {
    let capacity = bucket.capacity().get();
    let (remaining, reset) = match taken {
        RateLimitDecision::Token { remaining } => {
            (remaining, bucket.refill_interval() * capacity.saturating_sub(remaining))
        }
        // The same time as in Retry-After.
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

/// Rounds up to whole seconds; at least 1.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}
