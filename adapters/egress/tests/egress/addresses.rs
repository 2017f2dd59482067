//! Addresses that are not public.

use handover_egress::Networks;

/// Addresses that are refused; several are tunnels to, or other forms of, addresses of a private network.
const REFUSED: [&str; 64] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.9",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "::",
    "::1",
    "::2",
    "::7f00:1",
    "::10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "100:0:0:1::1",
    "200::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:1::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd12:3456::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
];

const PUBLIC: [&str; 28] = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "198.20.0.1",
    "223.255.255.254",
    "2606:4700::1111",
    "2a00:1450::1",
    "::ffff:8.8.8.8",
    "99.255.255.255",
    "100.128.0.0",
    "172.15.0.1",
    "192.0.3.0",
    "192.88.98.1",
    "192.88.100.1",
    "203.0.114.1",
    "8.8.4.4",
    "9.9.9.9",
    "93.184.215.14",
    "2001:4860:4860::8888",
    "2001:db9::1",
    "2003::1",
    "2606:4700:4700::1111",
    "3ffe::1",
    "3fff:1000::1",
];

fn networks(named: &[&str]) -> Networks {
    Networks::public_and(named.iter().map(|network| network.parse().unwrap()).collect())
}

/// Further addresses that the tests of the crates ssrf-guard 0.1.0 and reqwest-ssrf-guard 0.2.0 name and that are refused
/// here; those crates accept some of them.
const REFUSED_ELSEWHERE: [&str; 50] = [
    "10.1.2.3",
    "10.255.255.254",
    "100.64.0.0",
    "100.127.255.254",
    "100.127.255.255",
    "127.0.0.2",
    "169.254.1.1",
    "172.16.5.4",
    "172.31.255.254",
    "192.0.0.8",
    "192.0.2.0",
    "192.0.2.42",
    "192.0.2.255",
    "192.168.1.1",
    "192.168.1.100",
    "192.168.1.101",
    "198.51.100.1",
    "203.0.113.5",
    "203.0.113.9",
    "203.0.113.200",
    "::8.8.8.8",
    "::ffff:10.1.2.3",
    "::ffff:192.168.1.1",
    "::ffff:203.0.113.5",
    "::ffff:0:a00:4",
    "::ffff:0:808:808",
    "64:ff9b::a01:203",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::cb00:7105",
    "64:ff9b:1::808:808",
    "64:ff9b:1:ffff::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2:0:ffff::1",
    "2001:2:1::1",
    "2001:3::1",
    "2001:30::1",
    "2001:db8::7",
    "2001:db8:ffff::1",
    "2002:808:808::",
    "2002:808:808::1",
    "2002:a01:203::1",
    "2002:a9fe:a9fe::",
    "3fff:fff::1",
    "5eff::1",
    "5f00:ffff::1",
    "5f01::1",
    "fc12::3",
    "fd00::1",
    "fe7f::1",
    "feff::1",
];

#[test]
fn addresses_that_are_not_public_are_refused_by_name_of_their_block() {
    for address in REFUSED.into_iter().chain(REFUSED_ELSEWHERE) {
        let refused = networks(&[]).check(address.parse().unwrap());
        assert!(refused.is_err(), "{address} is not refused");
    }
    let refused = networks(&[]).check("169.254.169.254".parse().unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "169.254.169.254 is not a public address (link local)");
    let refused = networks(&[]).check("2001:0:7f00:1::".parse().unwrap()).unwrap_err();
    assert_eq!(refused.kind, "Teredo");
}

#[test]
fn public_addresses_are_accepted() {
    for address in PUBLIC {
        assert_eq!(networks(&[]).check(address.parse().unwrap()), Ok(()), "{address}");
    }
}

#[test]
fn named_network_opens_only_its_addresses() {
    let networks = networks(&["10.1.0.0/16"]);
    assert_eq!(networks.check("10.1.2.3".parse().unwrap()), Ok(()));
    assert_eq!(networks.check("::ffff:10.1.2.3".parse().unwrap()), Ok(()));
    assert!(networks.check("10.2.0.1".parse().unwrap()).is_err());
    assert!(networks.check("::10.1.2.3".parse().unwrap()).is_err());
}

#[test]
fn network_of_translated_addresses_does_not_open_private_addresses_behind_it() {
    let networks = networks(&["64:ff9b::/96"]);
    assert_eq!(networks.check("64:ff9b::808:808".parse().unwrap()), Ok(()));
    assert!(networks.check("64:ff9b::a00:1".parse().unwrap()).is_err());
    assert!(networks.check("64:ff9b::7f00:1".parse().unwrap()).is_err());
}
