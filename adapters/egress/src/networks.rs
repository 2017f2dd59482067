//! The addresses that requests may be sent to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

use ipnet::{IpNet, Ipv6Net};

/// The blocks of `special_purpose.txt`, each with its name.
static SPECIAL_PURPOSE: LazyLock<Vec<(IpNet, &str)>> = LazyLock::new(|| {
    let lines = include_str!("special_purpose.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(block, name)| Some((block.parse().ok()?, name.trim())))
        .collect()
});

/// Global unicast addresses of IPv6; every other address is reserved.
const GLOBAL_UNICAST: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Reason why no request is sent to an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address} is not a public address ({kind})")]
pub struct RefusedAddress {
    /// The address.
    pub address: IpAddr,
    /// The block that contains it.
    pub kind: &'static str,
}

/// The networks that requests may be sent to, besides the public internet.
#[derive(Debug, Clone, Default)]
pub struct Networks {
    allowed: Vec<IpNet>,
    own: Vec<SocketAddr>,
}

impl Networks {
    /// The public internet and these networks.
    pub fn public_and(allowed: Vec<IpNet>) -> Networks {
        Networks { allowed, own: Vec::new() }
    }

    /// Names the addresses on which this service listens, to which it sends no request.
    #[must_use]
    pub fn without_own(self, own: Vec<SocketAddr>) -> Networks {
        Networks { own, ..self }
    }

    /// Whether this service listens on the address. A service that listens on every address of its machine is also found
    /// on the loopback addresses; its other addresses are not known here.
    pub(crate) fn is_own(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        self.own.iter().filter(|own| own.port() == address.port()).any(|own| match own.ip().to_canonical() {
            own if own.is_unspecified() => ip.is_unspecified() || ip.is_loopback(),
            own => own == ip,
        })
    }

    /// Whether no network is named.
    pub fn is_public_only(&self) -> bool {
        self.allowed.is_empty()
    }

    /// Whether the address is in one of the named networks. An IPv4 address that is written as an IPv6 address counts as
    /// the IPv4 address.
    pub fn names(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_named = |address: &IpAddr| self.allowed.iter().any(|network| network.contains(address));
        // A network of translated addresses opens only translations of public and of named addresses.
        is_named(&address)
            && embedded(address).is_none_or(|inner| is_named(&inner) || refusal(inner).is_none())
    }

    /// Refuses an address that is neither public nor in one of the named networks.
    pub fn check(&self, address: IpAddr) -> Result<(), RefusedAddress> {
        match refusal(address.to_canonical()) {
            Some(kind) if !self.names(address) => Err(RefusedAddress { address, kind }),
            Some(_) | None => Ok(()),
        }
    }
}

/// The special purpose of an address; `None` for a public one.
fn refusal(address: IpAddr) -> Option<&'static str> {
    let special = SPECIAL_PURPOSE.iter().filter(|(block, _)| block.contains(&address));
    let special = special.max_by_key(|(block, _)| block.prefix_len()).map(|(_, name)| *name);
    match address {
        IpAddr::V6(address) if !GLOBAL_UNICAST.contains(&address) => special.or(Some("reserved")),
        IpAddr::V6(_) | IpAddr::V4(_) => special,
    }
}

/// The IPv4 address behind an address of NAT64, which a translator on the way uses instead.
fn embedded(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V6(address) => match address.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
                Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
            }
            _ => None,
        },
        IpAddr::V4(_) => None,
    }
}
