//! Validation of the gateway's URL.

use marketplace_gateway::{BadEndpoint, Endpoint};

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
fn parse_refuses_other_urls_with_reason() {
    for (url, why) in [
        ("", BadEndpoint::NoUrl),
        ("pay.example", BadEndpoint::NoUrl),
        ("/refunds", BadEndpoint::NoUrl),
        ("https://", BadEndpoint::NoUrl),
        ("ftp://pay.example", BadEndpoint::Scheme),
        ("https://shop:hush@pay.example", BadEndpoint::Password),
        ("https://pay.example/?key=hush", BadEndpoint::Query),
        ("https://pay.example/#refunds", BadEndpoint::Query),
        ("http://pay.example", BadEndpoint::PlainText),
        ("http://10.0.0.1:9000", BadEndpoint::PlainText),
        ("http://127.0.0.1.pay.example", BadEndpoint::PlainText),
        ("http://localhost.pay.example", BadEndpoint::PlainText),
    ] {
        assert_eq!(Endpoint::parse(url), Err(why), "{url}");
    }
}
