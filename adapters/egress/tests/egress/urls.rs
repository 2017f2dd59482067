//! Spellings of URLs.

use handover_egress::{Networks, RefusedUrl, UrlRules, host_name};

fn rules(named: &[&str]) -> UrlRules {
    UrlRules {
        networks: Networks::public_and(named.iter().map(|network| network.parse().unwrap()).collect()),
        own_hosts: vec!["market.example".to_owned()],
    }
}

/// Spellings of addresses that are not public: decimal, octal, hexadecimal, short, with brackets, scope, trailing dot, or in
/// full-width characters.
const LITERALS: [&str; 26] = [
    "https://127.0.0.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://0/",
    "https://00.0x0.0.0/",
    "https://127.0.0.1./",
    "https://0xA9FEA9FE/",
    "https://169.254.43518/",
    "https://[::1]/",
    "https://[::]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[2002:7f00:1::]/",
    "https://[fec0::1]/",
    "https://[fd00:ec2::254]/",
    "https://１２７.０.０.１/",
    "https://127。0。0。1/",
    "https://%31%32%37.0.0.1/",
];

#[test]
fn every_spelling_of_an_address_that_is_not_public_is_refused() {
    for url in LITERALS {
        let refused = rules(&[]).check(url);
        assert!(matches!(refused, Err(RefusedUrl::Address(_))), "{url}: {refused:?}");
    }
    for url in
        ["https://[fe80::1%25eth0]/", "https://[::1/", "https://256.256.256.256/", "https://1.2.3.4.5/"]
    {
        let refused = rules(&[]).check(url);
        assert!(matches!(refused, Err(RefusedUrl::Invalid(_))), "{url}: {refused:?}");
    }
}

#[test]
fn host_names_of_the_network_and_of_this_service_are_refused() {
    for url in [
        "https://localhost/",
        "https://db/",
        "https://a.localhost./",
        "https://printer.local/",
        "https://metadata.google.internal/",
    ] {
        let refused = rules(&[]).check(url);
        assert!(matches!(refused, Err(RefusedUrl::LocalName(_))), "{url}: {refused:?}");
    }
    for url in ["https://market.example/hook", "https://MARKET.example./hook", "https://ｍarket.example/"] {
        let refused = rules(&["10.0.0.0/8"]).check(url);
        assert!(matches!(refused, Err(RefusedUrl::OwnHost(_))), "{url}: {refused:?}");
    }
}

#[test]
fn host_name_is_that_of_a_parsed_url() {
    assert_eq!(host_name("Bücher.Example.").as_deref(), Some("xn--bcher-kva.example"));
    for other in ["", "10.0.0.1", "0x7f.1", "[::1]", "https://shop.example", "shop.example:443", "a b"] {
        assert_eq!(host_name(other), None, "{other}");
    }
}

#[test]
fn addresses_on_which_this_service_listens_are_refused() {
    let own = vec!["10.0.0.1:8080".parse().unwrap(), "[fd00::1]:443".parse().unwrap()];
    let networks = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
    let networks = Networks::public_and(networks).without_own(own);
    let rules = UrlRules { networks, own_hosts: Vec::new() };
    for url in [
        "http://10.0.0.1:8080/",
        "http://167772161:8080/",
        "http://[::ffff:a00:1]:8080/",
        "https://[fd00::1]/",
    ] {
        let refused = rules.check(url);
        assert!(matches!(refused, Err(RefusedUrl::OwnHost(_))), "{url}: {refused:?}");
    }
    for url in ["http://10.0.0.1:8081/", "http://10.0.0.2:8080/", "http://[fd00::1]/"] {
        assert!(rules.check(url).is_ok(), "{url}");
    }
}

#[test]
fn scheme_port_and_user_info_are_restricted() {
    let check = |url: &str| rules(&[]).check(url).unwrap_err();
    assert_eq!(check("ftp://receiver.example/"), RefusedUrl::Scheme("ftp".to_owned()));
    assert_eq!(check("file:///etc/passwd"), RefusedUrl::Scheme("file".to_owned()));
    assert_eq!(check("https://user@receiver.example/"), RefusedUrl::UserInfo);
    assert_eq!(check("https://:secret@receiver.example/"), RefusedUrl::UserInfo);
    assert_eq!(check("http://8.8.8.8/"), RefusedUrl::Unencrypted);
    assert_eq!(check("https://8.8.8.8:6379/"), RefusedUrl::Port(6379));
    assert_eq!(check(&format!("https://receiver.example/{}", "x".repeat(2048))), RefusedUrl::TooLong(2073));
    assert_eq!(check("http://receiver.example/"), RefusedUrl::Unencrypted);
    assert_eq!(check("https://receiver.example:6379/"), RefusedUrl::Port(6379));
    assert!(rules(&["10.0.0.0/8"]).check("http://10.0.0.1:3000/").is_ok());
    // The name may have an address in the named network.
    assert!(rules(&["10.0.0.0/8"]).check("http://receiver.example:3000/").is_ok());
    assert!(rules(&[]).check("https://8.8.8.8:8443/").is_ok());
}

#[test]
fn checked_url_is_normal() {
    let target = rules(&[]).check("HTTPS://Bücher.Example:443/a b?q=ä#part").unwrap();
    assert_eq!(target.uri().to_string(), "https://xn--bcher-kva.example/a%20b?q=%C3%A4");
}
