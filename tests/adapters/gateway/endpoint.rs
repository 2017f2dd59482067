//! Validation of the gateway's URL.

use marketplace_gateway::{Endpoint, EndpointError};

#[test]
fn parse_accepts_https_and_loopback_http() {
    for (url, base, address) in [
        ("https://pay.example", "https://pay.example", "pay.example:443"),
        ("https://pay.example:8443/v2/", "https://pay.example:8443/v2", "pay.example:8443"),
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000", "127.0.0.1:9000"),
        ("http://[::1]:9000/api", "http://[::1]:9000/api", "[::1]:9000"),
        ("http://localhost:9000/", "http://localhost:9000", "localhost:9000"),
    ] {
        let endpoint = Endpoint::parse(url).unwrap();
        assert_eq!((endpoint.to_string().as_str(), endpoint.address().as_str()), (base, address));
        assert_eq!(endpoint.is_encrypted(), url.starts_with("https:"));
    }
}

#[test]
fn parse_rejects_incomplete_or_insecure_url_with_reason() {
    for (url, why) in [
        ("", EndpointError::NoUrl),
        ("pay.example", EndpointError::NoUrl),
        ("/refunds", EndpointError::NoUrl),
        ("https://", EndpointError::NoUrl),
        ("ftp://pay.example", EndpointError::Scheme),
        ("https://shop:hush@pay.example", EndpointError::Password),
        ("https://pay.example/?key=hush", EndpointError::Query),
        ("https://pay.example/#refunds", EndpointError::Query),
        ("http://pay.example", EndpointError::PlainText),
        ("http://10.0.0.1:9000", EndpointError::PlainText),
        ("http://127.0.0.1.pay.example", EndpointError::PlainText),
        ("http://localhost.pay.example", EndpointError::PlainText),
    ] {
        assert_eq!(Endpoint::parse(url), Err(why), "{url}");
    }
}
