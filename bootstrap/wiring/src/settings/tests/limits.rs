use std::num::NonZeroU32;

use handover_http::ForwardedHeader;
use marketplace::ports::Bucket;
use marketplace_http::LIMITED_ROUTES;

use super::{error_text, load, load_file};

fn bucket(capacity: u32, every_us: u64) -> Bucket {
    Bucket::new(NonZeroU32::new(capacity).unwrap(), every_us).unwrap()
}

#[test]
fn rate_limit_is_200_per_second_by_default_and_can_be_set_for_all_routes_or_one_route() {
    let limits = load(&[]).unwrap().limits;
    assert_eq!((limits.bucket, limits.routes.len()), (bucket(200, 5_000), 0));
    assert!(limits.proxies.trusted.is_empty());
    let file = "[rate-limit]\ncapacity = 10\nper-second = 3\n[rate-limit.routes]\n\
                \"POST /api/v1/orders\" = { per-second = 0.1 }\n\"GET /api/v1/orders/{id}\" = { capacity = 5 }\n";
    let limits = load_file(file).unwrap().limits;
    // The interval per token is rounded up, so that nobody gets more tokens than configured.
    assert_eq!(limits.bucket, bucket(10, 333_334));
    let mut routes = limits.routes;
    routes.sort_unstable();
    let expected =
        [("GET /api/v1/orders/{id}", bucket(5, 333_334)), ("POST /api/v1/orders", bucket(10, 10_000_000))];
    assert_eq!(routes, expected);
    let variable = r#"{"POST /api/v1/orders" = {capacity = 2, per-second = 1}}"#;
    let limits = load(&[("HANDOVER_RATE_LIMIT__ROUTES", variable)]).unwrap().limits;
    assert_eq!(limits.routes, [("POST /api/v1/orders", bucket(2, 1_000_000))]);
}

#[test]
fn unknown_route_error_names_nearest_route() {
    let routes = |text: &str| error_text(load(&[("HANDOVER_RATE_LIMIT__ROUTES", text)]));
    for (name, intended) in [
        ("POST /api/v1/order", Some("POST /api/v1/orders")),
        ("POST /api/v1/orders/17/ship", Some("POST /api/v1/orders/{id}/ship")),
        ("GET /healthz", None),
    ] {
        let text = routes(&format!(r#"{{"{name}" = {{capacity = 1}}}}"#));
        assert!(text.starts_with("rate-limit.routes in ") && text.contains(name), "{text}");
        match intended {
            Some(route) => assert!(text.contains(&format!("did you mean \"{route}\"?")), "{text}"),
            None => assert!(!text.contains("did you mean"), "{text}"),
        }
    }
    for value in [
        "5",
        r#"{"POST /api/v1/orders" = 5}"#,
        r#"{"POST /api/v1/orders" = {burst = 5}}"#,
        r#"{"POST /api/v1/orders" = {capacity = 0}}"#,
        r#"{"POST /api/v1/orders" = {capacity = 1000000, per-second = 1}}"#,
    ] {
        assert!(routes(value).starts_with("rate-limit.routes in "), "{value}");
    }
    let unique: std::collections::BTreeSet<_> = LIMITED_ROUTES.iter().collect();
    assert_eq!(unique.len(), LIMITED_ROUTES.len());
}

#[test]
fn bucket_that_takes_days_to_fill_is_refused() {
    let text = error_text(load(&[("HANDOVER_RATE_LIMIT__PER_SECOND", "0.002")]));
    assert!(text.contains("full again within a day"), "{text}");
}

#[test]
fn trusted_proxies_are_networks_and_use_one_header() {
    let proxies = load(&[
        ("HANDOVER_HTTP__TRUSTED_PROXIES", r#"["10.0.0.0/8", "fd00::/8"]"#),
        ("HANDOVER_HTTP__FORWARDED_HEADER", "forwarded"),
    ]);
    let proxies = proxies.unwrap().limits.proxies;
    assert_eq!((proxies.trusted.len(), proxies.header), (2, ForwardedHeader::Forwarded));
    for network in [r#"["0.0.0.0/0"]"#, r#"["10.0.0.0/8", "::/0"]"#] {
        assert!(
            error_text(load(&[("HANDOVER_HTTP__TRUSTED_PROXIES", network)])).contains("trusts every address")
        );
    }
}
