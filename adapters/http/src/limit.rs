//! Nobody asks too often: a token bucket for each user, or each address where nobody is signed in, and route (spec §4;
//! seed 003 §3).
//!
//! It stands behind authentication, which refuses nobody, and before everything else: who presents bad tokens spends those
//! of its address.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use marketplace::ports::{Bucket, LimitKey, Party, RateLimiter, Taken};
use marketplace::{Actor, CommandContext, LIMIT_REFUSED};

use crate::client::Proxies;
use crate::edge::Edge;
use crate::refusal::Refusal;
use crate::routes::LIMITED_ROUTES;

/// The fields of draft-ietf-httpapi-ratelimit-headers.
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The name of the one policy there is.
const POLICY: &str = "requests";
/// A route that has no name, which none should be.
const NO_ROUTE: &str = "other";

/// How often a client may ask.
pub struct Admission {
    limiter: Arc<dyn RateLimiter>,
    proxies: Proxies,
    routes: HashMap<&'static str, (Arc<str>, Bucket)>,
    other: (Arc<str>, Bucket),
}

impl Admission {
    /// The same bucket for every party and route.
    pub fn new(limiter: Arc<dyn RateLimiter>, bucket: Bucket) -> Admission {
        let routes = LIMITED_ROUTES.iter().map(|route| (*route, (Arc::from(*route), bucket))).collect();
        Admission { limiter, proxies: Proxies::default(), routes, other: (Arc::from(NO_ROUTE), bucket) }
    }

    /// The same with another bucket for this one of [`LIMITED_ROUTES`]; any other name changes nothing.
    #[must_use]
    pub fn with_route(mut self, route: &str, bucket: Bucket) -> Admission {
        if let Some((_, measure)) = self.routes.get_mut(route) {
            *measure = bucket;
        }
        self
    }

    /// The same behind these proxies.
    #[must_use]
    pub fn behind(self, proxies: Proxies) -> Admission {
        Admission { proxies, ..self }
    }

    fn key(&self, request: &Request) -> (LimitKey, Bucket) {
        let party = match request.extensions().get::<CommandContext>() {
            Some(CommandContext { actor: Actor::User { id, .. }, tenant, .. }) => Party::User(*tenant, *id),
            Some(_) | None => self.proxies.party(request),
        };
        let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        // A HEAD is answered by the route of its GET.
        let method = if *request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let (route, bucket) = self.routes.get(format!("{method} {path}").as_str()).unwrap_or(&self.other);
        (LimitKey { route: Arc::clone(route), party }, *bucket)
    }
}

/// The layer of every route but those that tell how the process is.
pub(crate) async fn limited(State(edge): State<Arc<Edge>>, request: Request, next: Next) -> Response {
    let (key, bucket) = edge.admission.key(&request);
    debug_assert!(*key.route != *NO_ROUTE, "a route is missing in LIMITED_ROUTES: {}", request.uri());
    let taken = edge.admission.limiter.take(&key, bucket).await;
    let mut response = match taken {
        Taken::Token { .. } => next.run(request).await,
        Taken::Refused { retry_after } => {
            metrics::counter!(LIMIT_REFUSED).increment(1);
            Refusal::too_often(whole_seconds(retry_after)).into_response()
        }
    };
    tell(response.headers_mut(), taken, bucket);
    response
}

/// What is left, for clients that want to know before they are refused.
fn tell(headers: &mut HeaderMap, taken: Taken, bucket: Bucket) {
    let capacity = bucket.capacity().get();
    let (left, until) = match taken {
        Taken::Token { remaining } => (remaining, bucket.token_every() * capacity.saturating_sub(remaining)),
        // The same moment as that of Retry-After.
        Taken::Refused { retry_after } => (0, retry_after),
    };
    let policy = format!("\"{POLICY}\";q={capacity};w={}", whole_seconds(bucket.fills_in()));
    let now = format!("\"{POLICY}\";r={left};t={}", whole_seconds(until));
    for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, now)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}

/// Rounded up, and never none.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}
