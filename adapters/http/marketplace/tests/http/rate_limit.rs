//! Rate limiting (spec §4; document 003 §3 and §4).

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_http::{ForwardedHeader, Proxies};
use marketplace::Role;
use marketplace::ports::{Bucket, LimitKey, MockRateLimiter, RateLimitDecision, RateLimiter};
use marketplace_http::{LIMITED_ROUTES, RateLimits};

use crate::client::{ApiResponse, Request};
use crate::world::{BUYER, OTHER_USER, SELLER, Setup, World, report};

const PRODUCTS: &str = "/api/v1/products";
const LAMP: &str = r#"{"title":"a lamp","price":88.50}"#;
const KEY: &str = "x-idempotency-key";
const WAIT: Duration = Duration::from_millis(2_400);

/// Token buckets that are refilled only by the test.
#[derive(Default)]
struct ManualLimiter(Mutex<BTreeMap<String, u32>>);

#[async_trait]
impl RateLimiter for ManualLimiter {
    async fn take(&self, key: &LimitKey, bucket: Bucket) -> RateLimitDecision {
        let mut taken = self.0.lock().unwrap();
        let taken = taken.entry(key.to_string()).or_default();
        if *taken == bucket.capacity().get() {
            return RateLimitDecision::Refused { retry_after: WAIT };
        }
        *taken += 1;
        RateLimitDecision::Token { remaining: bucket.capacity().get() - *taken }
    }
}

impl ManualLimiter {
    /// The buckets that were used, with the number of tokens taken.
    fn taken(&self) -> Vec<(String, u32)> {
        self.0.lock().unwrap().iter().map(|(key, taken)| (key.clone(), *taken)).collect()
    }

    fn fill(&self) {
        self.0.lock().unwrap().clear();
    }
}

fn bucket(capacity: u32, every_us: u64) -> Bucket {
    Bucket::new(NonZeroU32::new(capacity).unwrap(), every_us).unwrap()
}

/// An API with buckets of this capacity.
async fn limited(
    capacity: u32,
    configured: impl FnOnce(RateLimits) -> RateLimits,
) -> (World, Arc<ManualLimiter>) {
    let limiter = Arc::new(ManualLimiter::default());
    // A bucket gets one token per 0.7 s.
    let admission = configured(RateLimits::new(limiter.clone(), bucket(capacity, 700_000)));
    let world = World::with(Setup { admission: Some(admission), ..Setup::default() }).await;
    (world, limiter)
}

async fn plain(capacity: u32) -> (World, Arc<ManualLimiter>) {
    limited(capacity, |admission| admission).await
}

fn rate_limit_headers(response: &ApiResponse) -> [&str; 2] {
    ["ratelimit", "ratelimit-policy"].map(|name| response.headers[name].to_str().unwrap())
}

#[tokio::test(start_paused = true)]
async fn requests_up_to_bucket_capacity_get_rate_limit_headers_and_next_request_is_429() {
    let (world, limiter) = plain(3).await;
    let policy = "\"requests\";q=3;w=3";
    for (left, full_in) in [(2, 1), (1, 2), (0, 3)] {
        let response = world.get_as(BUYER, PRODUCTS).send().await.expect(200, "00000");
        assert_eq!(
            rate_limit_headers(&response),
            [format!("\"requests\";r={left};t={full_in}").as_str(), policy]
        );
        assert!(!response.headers.contains_key("retry-after"));
    }
    let refused = world.get_as(BUYER, PRODUCTS).header("x-trace-id", "t-1").send().await;
    let refused = refused.expect(429, "A0500");
    assert_eq!(refused.headers["retry-after"], "3", "the wait of 2.4 s, rounded up");
    assert_eq!(rate_limit_headers(&refused), ["\"requests\";r=0;t=3", policy]);
    assert_eq!((refused.trace_id.as_str(), refused.data.is_null()), ("t-1", true));
    assert_eq!(refused.message, "too many requests; retry after the time in Retry-After");
    let chinese = world.get_as(BUYER, PRODUCTS).header("accept-language", "zh-CN").send().await;
    assert_eq!(chinese.expect(429, "A0500").message, "请求过于频繁...");
    limiter.fill();
    world.get_as(BUYER, PRODUCTS).send().await.expect(200, "00000");
}

#[tokio::test(start_paused = true)]
async fn each_user_tenant_and_route_has_its_own_bucket() {
    let (world, limiter) = plain(1).await;
    let of = |user, tenant, path: &str| world.get(path).token(&world.token(user, tenant, &[Role::User]));
    of(BUYER, 1, PRODUCTS).send().await.expect(200, "00000");
    of(BUYER, 1, PRODUCTS).from("192.0.2.1:1").send().await.expect(429, "A0500");
    of(BUYER, 2, PRODUCTS).send().await.expect(200, "00000");
    of(SELLER, 1, PRODUCTS).send().await.expect(200, "00000");
    world.post_as(BUYER, PRODUCTS).json(LAMP).send().await.expect(201, "00000");
    // Requests for two orders use the bucket of one route.
    of(BUYER, 1, "/api/v1/orders/1").send().await.expect(404, "A0404");
    of(BUYER, 1, "/api/v1/orders/2").send().await.expect(429, "A0500");
    let taken: Vec<String> = limiter.taken().into_iter().map(|(key, _)| key).collect();
    assert_eq!(
        taken,
        [
            "GET /api/v1/orders/{id}:user:1:8",
            "GET /api/v1/products:user:1:7",
            "GET /api/v1/products:user:1:8",
            "GET /api/v1/products:user:2:8",
            "POST /api/v1/products:user:1:8",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn route_can_have_its_own_bucket_size() {
    let (world, _) =
        limited(3, |admission| admission.with_route_limit("GET /api/v1/wallet", bucket(1, 60_000_000))).await;
    let wallet = world.get_as(BUYER, "/api/v1/wallet").send().await.expect(200, "00000");
    assert_eq!(rate_limit_headers(&wallet), ["\"requests\";r=0;t=60", "\"requests\";q=1;w=60"]);
    world.get_as(BUYER, "/api/v1/wallet").send().await.expect(429, "A0500");
    let other = world.get_as(BUYER, "/api/v1/points").send().await.expect(200, "00000");
    assert_eq!(rate_limit_headers(&other)[1], "\"requests\";q=3;w=3");
}

#[tokio::test(start_paused = true)]
async fn health_checks_and_unknown_routes_are_not_rate_limited() {
    let mut limiter = MockRateLimiter::new();
    limiter.expect_take().never();
    let admission = RateLimits::new(Arc::new(limiter), bucket(1, 700_000));
    let world = World::with(Setup { admission: Some(admission), ..Setup::default() }).await;
    for _ in 0..3 {
        for path in ["/healthz", "/readyz"] {
            let response = world.get(path).from("192.0.2.1:1").send().await.expect(200, "00000");
            assert!(!response.headers.contains_key("ratelimit"));
        }
        // Requests that match no route (404, 405) are not limited.
        world.get("/nowhere").from("192.0.2.1:1").send().await.expect(404, "A0404");
        let token = world.token(BUYER, 1, &[Role::User]);
        Request::new(&world.router, "BREW", PRODUCTS).token(&token).send().await.expect(405, "A0400");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_with_invalid_tokens_use_the_bucket_of_their_address() {
    let (world, limiter) = plain(2).await;
    let guess = |from: &str| world.get(PRODUCTS).token("a.b.c").from(from);
    assert!(guess("192.0.2.1:1").send().await.expect(401, "A0301").headers.contains_key("ratelimit"));
    world.get(PRODUCTS).from("192.0.2.1:2").send().await.expect(401, "A0301");
    guess("192.0.2.1:3").send().await.expect(429, "A0500");
    guess("192.0.2.2:1").send().await.expect(401, "A0301");
    // An authenticated user at the address of rejected requests has a separate bucket.
    world.get_as(BUYER, PRODUCTS).from("192.0.2.1:4").send().await.expect(200, "00000");
    // An IPv6 /64 network is one party.
    for from in ["[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff::9]:1"] {
        guess(from).send().await.expect(401, "A0301");
    }
    guess("[2001:db8:1:2:3::]:1").send().await.expect(429, "A0500");
    let v6 = ("GET /api/v1/products:address:2001:db8:1:2::/64".to_owned(), 2);
    assert!(limiter.taken().contains(&v6), "{:?}", limiter.taken());
}

#[tokio::test(start_paused = true)]
async fn forwarded_addresses_are_used_only_from_trusted_proxies() {
    let behind = |header| {
        move |admission: RateLimits| {
            admission.with_proxies(Proxies { trusted: vec!["10.0.0.0/8".parse().unwrap()], header })
        }
    };
    let (world, _) = limited(1, behind(ForwardedHeader::XForwardedFor)).await;
    let of = |peer: &str, header: &str, hops: &str| world.get(PRODUCTS).from(peer).header(header, hops);
    let name = "x-forwarded-for";
    of("10.0.0.1:1", name, "192.0.2.1").send().await.expect(401, "A0301");
    of("10.0.0.1:1", name, "192.0.2.2").send().await.expect(401, "A0301");
    // A client uses the same bucket if the request comes through another proxy and has a forged first address.
    of("10.0.0.2:1", name, "198.51.100.9, 192.0.2.1, 10.3.3.3").send().await.expect(429, "A0500");
    // The service ignores the header of an untrusted peer, and a forwarding header other than the configured one.
    of("203.0.113.5:1", name, "192.0.2.77").send().await.expect(401, "A0301");
    of("203.0.113.5:1", name, "192.0.2.78").send().await.expect(429, "A0500");
    of("10.0.0.3:1", "forwarded", "for=192.0.2.79").send().await.expect(401, "A0301");
    of("10.0.0.3:1", "forwarded", "for=192.0.2.80").send().await.expect(429, "A0500");
    let (world, _) = limited(1, behind(ForwardedHeader::Forwarded)).await;
    let of = |hops: &str| world.get(PRODUCTS).from("10.0.0.1:1").header("forwarded", hops);
    of("for=192.0.2.1").send().await.expect(401, "A0301");
    of("for=192.0.2.2;proto=https").send().await.expect(401, "A0301");
    of("for=192.0.2.9, for=192.0.2.1").send().await.expect(429, "A0500");
}

/// Determines the client address of requests, with trusted proxies in 10.0.0.0/8 and fd00::/8.
struct Behind {
    world: World,
    limiter: Arc<ManualLimiter>,
    header: &'static str,
}

const PROXY: &str = "10.0.0.1:1";

impl Behind {
    async fn new(header: ForwardedHeader) -> Behind {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap()).to_vec();
        let (world, limiter) =
            limited(1, |admission| admission.with_proxies(Proxies { trusted, header })).await;
        let header = match header {
            ForwardedHeader::XForwardedFor => "x-forwarded-for",
            ForwardedHeader::Forwarded => "forwarded",
        };
        Behind { world, limiter, header }
    }

    /// The address whose bucket a request uses; each item of `lines` is a separate header of the request.
    async fn client(&self, peer: &str, lines: &[&str]) -> String {
        self.client_by(self.header, peer, lines).await
    }

    async fn client_by(&self, header: &str, peer: &str, lines: &[&str]) -> String {
        self.limiter.fill();
        let request = self.world.get(PRODUCTS).from(peer);
        let request = lines.iter().fold(request, |request, line| request.header(header, line));
        request.send().await.expect(401, "A0301");
        let taken = self.limiter.taken();
        assert_eq!(taken.len(), 1, "{taken:?}");
        taken[0].0.strip_prefix("GET /api/v1/products:address:").unwrap().to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn first_untrusted_hop_from_the_right_is_the_client() {
    let behind = Behind::new(ForwardedHeader::XForwardedFor).await;
    for (peer, lines, client) in [
        (PROXY, &["192.0.2.7"][..], "192.0.2.7"),
        // The leftmost address was written by the client itself, so it is not used.
        (PROXY, &["198.51.100.1, 192.0.2.7"], "192.0.2.7"),
        (PROXY, &["192.0.2.7,10.9.9.9"], "192.0.2.7"),
        (PROXY, &["198.51.100.1", "192.0.2.7, 10.9.9.9"], "192.0.2.7"),
        ("[fd00::1]:1", &["2001:db8:1:2::7"], "2001:db8:1:2::/64"),
        ("[::ffff:10.0.0.1]:1", &["[2001:db8:1:2::7]:4711"], "2001:db8:1:2::/64"),
        (PROXY, &["192.0.2.7:4711"], "192.0.2.7"),
        (PROXY, &["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
    ] {
        assert_eq!(behind.client(peer, lines).await, client, "{peer} {lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn headers_of_untrusted_peers_are_ignored_and_search_for_client_ends_at_unknown_hop() {
    let behind = Behind::new(ForwardedHeader::XForwardedFor).await;
    for (peer, lines, client) in [
        ("192.0.2.9:1", &["198.51.100.1"][..], "192.0.2.9"),
        (PROXY, &[], "10.0.0.1"),
        (PROXY, &[""], "10.0.0.1"),
        (PROXY, &["192.0.2.7, unknown"], "10.0.0.1"),
        (PROXY, &["192.0.2.7, nonsense, 10.9.9.9"], "10.9.9.9"),
    ] {
        assert_eq!(behind.client(peer, lines).await, client, "{peer} {lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn forwarded_header_is_read_if_configured() {
    let behind = Behind::new(ForwardedHeader::Forwarded).await;
    for (line, client) in [
        ("for=192.0.2.7", "192.0.2.7"),
        ("For=\"[2001:db8:1:2::7]:4711\";proto=https;by=10.0.0.1", "2001:db8:1:2::/64"),
        ("for=198.51.100.1, proto=http; for=192.0.2.7 , for=10.9.9.9", "192.0.2.7"),
        ("for=_hidden", "10.0.0.1"),
        ("for=\"192.0.2.7, for=198.51.100.1\"", "198.51.100.1"),
        ("proto=https", "10.0.0.1"),
    ] {
        assert_eq!(behind.client(PROXY, &[line]).await, client, "{line}");
    }
    let by_the_other = behind.client_by("x-forwarded-for", PROXY, &["192.0.2.7"]).await;
    assert_eq!(by_the_other, "10.0.0.1");
}

#[tokio::test(start_paused = true)]
async fn gateway_is_rate_limited_by_address() {
    let (world, limiter) = plain(2).await;
    let path = "/api/v1/payments/callback";
    for _ in 0..2 {
        world.post(path).json(report(1, "t", "SUCCESS", "1.00")).from("192.0.2.1:1").send().await;
    }
    let refused = world.post(path).json(report(1, "t", "SUCCESS", "1.00")).from("192.0.2.1:2");
    refused.send().await.expect(429, "A0500");
    assert_eq!(limiter.taken(), [("POST /api/v1/payments/callback:address:192.0.2.1".to_owned(), 2)]);
}

/// Fourth diagram of document 003: trace, (authentication,) rate limit, idempotency, route.
#[tokio::test(start_paused = true)]
async fn layers_run_in_order_trace_authentication_rate_limit_idempotency_route() {
    let (world, limiter) = plain(2).await;
    let list = |body: &str| world.post_as(SELLER, PRODUCTS).header(KEY, "k").json(body);
    let first = list(LAMP).send().await.expect(201, "00000");
    // The rate limit counts a repeated request, to which the idempotency layer replies instead of the route.
    let again = list("{\"price\":88.5,\"title\":\"a lamp\"}").send().await.expect(201, "00000");
    assert_eq!((&again.data, rate_limit_headers(&again)[0]), (&first.data, "\"requests\";r=0;t=2"));
    // The rate limit rejects a request before the idempotency layer can reply and before the body is read.
    for body in [LAMP, "{", r#"{"title":"another"}"#] {
        let refused = list(body).header("x-trace-id", "t-2").send().await.expect(429, "A0500");
        assert_eq!(refused.trace_id, "t-2", "the trace layer comes before the rate limit");
        assert!(!refused.headers.contains_key("idempotent-replayed"));
    }
    // Authentication comes before the rate limit, so the tokens come from the bucket of the user, not of the address.
    assert_eq!(limiter.taken(), [("POST /api/v1/products:user:1:7".to_owned(), 2)]);
    // A request that the rate limit rejects does not claim its idempotency key.
    let other = |body: &str| world.post_as(SELLER, PRODUCTS).header(KEY, "other").json(body);
    other(LAMP).send().await.expect(429, "A0500");
    limiter.fill();
    let done = other(r#"{"title":"another","price":1.00}"#).send().await.expect(201, "00000");
    assert!(!done.headers.contains_key("idempotent-replayed"));
    // The rate limit comes before the rejection of unauthenticated requests.
    let unauthenticated = || world.post(PRODUCTS).token("a.b.c").json(LAMP).from("192.0.2.1:1");
    for _ in 0..2 {
        unauthenticated().send().await.expect(401, "A0301");
    }
    unauthenticated().send().await.expect(429, "A0500");
    // The role is checked after the rate limit.
    world.get_as(OTHER_USER, "/api/v1/ops/stats").send().await.expect(403, "A0303");
}

#[tokio::test(start_paused = true)]
async fn limited_routes_exist_in_the_router() {
    let (world, limiter) = plain(1).await;
    for route in LIMITED_ROUTES.iter() {
        let (method, path) = route.split_once(' ').unwrap();
        let with_id = |segment| if str::starts_with(segment, '{') { "1" } else { segment };
        let path = path.split('/').map(with_id).collect::<Vec<_>>().join("/");
        let response = Request::new(&world.router, method, &path).from("192.0.2.1:1").json("{}").send().await;
        response.expect(401, "A0301");
    }
    let taken: Vec<String> = limiter.taken().into_iter().map(|(key, _)| key).collect();
    let mut expected: Vec<String> =
        LIMITED_ROUTES.iter().map(|route| format!("{route}:address:192.0.2.1")).collect();
    expected.sort();
    assert_eq!(taken, expected);
}
