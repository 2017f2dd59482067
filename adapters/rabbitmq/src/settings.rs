//! Connection settings of RabbitMQ.

use std::fmt;
use std::time::Duration;

use lapin::uri::{AMQPScheme, AMQPUri};

/// Heartbeat interval unless the URL sets one. A dead peer is detected within twice this time.
const HEARTBEAT_SECONDS: u16 = 10;

/// Type of the declared queues (`rabbitmq.queue-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueType {
    /// The queue is replicated and stores each message on disk before the confirm. Messages are dead-lettered at least
    /// once.
    #[default]
    Quorum,
    /// The queue is on one node. Messages are dead-lettered at most once.
    Classic,
}

impl QueueType {
    /// Name in RabbitMQ and in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            QueueType::Quorum => "quorum",
            QueueType::Classic => "classic",
        }
    }
}

/// Invalid settings, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSettings(String);

impl fmt::Display for InvalidSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for InvalidSettings {}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(formatter, "[{}]:{}", self.name, self.port),
            false => write!(formatter, "{}:{}", self.name, self.port),
        }
    }
}

/// Address of the management API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManagementAddress {
    pub(crate) host: Host,
    pub(crate) is_encrypted: bool,
}

impl fmt::Display for ManagementAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)
    }
}

impl ManagementAddress {
    /// The default address on the first node.
    pub(crate) fn default_of(settings: &RabbitSettings) -> ManagementAddress {
        let is_encrypted = settings.uri.scheme == AMQPScheme::AMQPS;
        let port = if is_encrypted { 15671 } else { 15672 };
        ManagementAddress { host: Host { name: settings.host().to_owned(), port }, is_encrypted }
    }
}

/// Connection settings, with time limits.
#[derive(Clone)]
pub struct RabbitSettings {
    /// User, vhost and options; the addresses are in `hosts`.
    pub(crate) uri: AMQPUri,
    /// The nodes; never empty.
    pub(crate) hosts: Vec<Host>,
    pub(crate) authorities: Option<String>,
    /// Address of the management API, if it is configured.
    management: Option<ManagementAddress>,
    /// Type of the declared queues.
    pub queue_type: QueueType,
    /// Connection name shown by the server.
    pub connection_name: String,
    /// Time limit for opening a connection.
    pub connect_timeout: Duration,
    /// Time limit for the confirms of a window. After this time its outcome is unknown and the connection is closed.
    pub confirm_timeout: Duration,
    /// Time limit for a reply of the server, except confirms and the reply to a connection attempt.
    pub reply_timeout: Duration,
    /// Interval of the check of queues, bindings and subscriptions.
    pub watch_interval: Duration,
    /// Longest pause between two connection attempts; the first pause is 1/40 of it.
    pub max_reconnect_pause: Duration,
}

impl RabbitSettings {
    /// Parses `amqp://user:password@host:port/vhost` or `amqps://..`. A missing or empty vhost means `/`.
    ///
    /// The nodes of a cluster are separated by commas: `amqp://user:password@a:5672,b:5672,c:5672/vhost`. A
    /// connection starts at a random node and continues with the next one if a node is unreachable.
    pub fn parse(url: &str) -> Result<RabbitSettings, InvalidSettings> {
        let (before, names, after) = split_hosts(url);
        let names: Vec<&str> = names.split(',').collect();
        if names.len() > 1 && names.iter().any(|name| name.is_empty() || name.starts_with(':')) {
            // Rejected, because lapin's parser would read a missing host as localhost.
            return Err(InvalidSettings("the RabbitMQ URL has an empty host between commas".to_owned()));
        }
        let mut uris = Vec::with_capacity(names.len());
        for name in names {
            // The parser's error is not shown, because it contains the URL with its password.
            let mut uri: AMQPUri = format!("{before}{name}{after}")
                .parse()
                .map_err(|_| InvalidSettings("the RabbitMQ URL is not a valid AMQP URL".to_owned()))?;
            if let Some(address) = ipv6_address(name) {
                // lapin's parser finds no host in a URL with an IPv6 address, so the host is set here.
                uri.authority.host = address.to_owned();
            }
            uris.push(uri);
        }
        let host = |uri: &AMQPUri| Host { name: uri.authority.host.clone(), port: uri.authority.port };
        let hosts = uris.iter().map(host).collect();
        let Some(mut uri) = uris.into_iter().next() else {
            return Err(InvalidSettings("the RabbitMQ URL has no host".to_owned()));
        };
        if uri.vhost.is_empty() {
            uri.vhost = "/".to_owned();
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        Ok(RabbitSettings {
            uri,
            hosts,
            authorities: None,
            management: None,
            queue_type: QueueType::default(),
            connection_name: "handover".to_owned(),
            connect_timeout: Duration::from_secs(5),
            confirm_timeout: Duration::from_secs(10),
            reply_timeout: Duration::from_secs(5),
            watch_interval: Duration::from_secs(5),
            max_reconnect_pause: Duration::from_secs(2),
        })
    }

    /// Trusts these certificates (PEM) for `amqps`, in addition to the public authorities.
    pub fn with_ca_certificates(mut self, authorities: String) -> Result<RabbitSettings, InvalidSettings> {
        if !authorities.contains("-----BEGIN CERTIFICATE-----") {
            return Err(InvalidSettings("the CA file of RabbitMQ contains no PEM certificate".to_owned()));
        }
        if self.uri.scheme == AMQPScheme::AMQP {
            return Err(InvalidSettings(
                "a CA file is configured, but amqp:// is not encrypted: use amqps://".to_owned(),
            ));
        }
        self.authorities = Some(authorities);
        Ok(self)
    }

    /// Sets the address of the management API: `http://host:port` or `https://host:port`, without user and path. The user
    /// of the AMQP URL is used.
    pub fn with_management_url(mut self, url: &str) -> Result<RabbitSettings, InvalidSettings> {
        let invalid = |why: &str| InvalidSettings(format!("the URL of the management API {why}"));
        let (is_encrypted, address) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(address), _) => (false, address),
            (None, Some(address)) => (true, address),
            (None, None) => return Err(invalid("must begin with http:// or https://")),
        };
        let address = address.strip_suffix('/').unwrap_or(address);
        if address.contains(['/', '?', '#', '@']) {
            return Err(invalid("has a user, a path or options: only host and port are allowed"));
        }
        let port_at = if address.ends_with(']') { None } else { address.rfind(':') };
        let (name, port) = match port_at {
            Some(at) => {
                (&address[..at], address[at + 1..].parse().map_err(|_| invalid("has no valid port"))?)
            }
            None => (address, if is_encrypted { 15671 } else { 15672 }),
        };
        let name = ipv6_address(name).unwrap_or(name).to_owned();
        if name.is_empty() {
            return Err(invalid("has no host"));
        }
        self.management = Some(ManagementAddress { host: Host { name, port }, is_encrypted });
        Ok(self)
    }

    /// Whether an address of the management API is configured.
    pub fn has_management_url(&self) -> bool {
        self.management.is_some()
    }

    /// The configured address of the management API, or the default one on the first node.
    pub(crate) fn management_address(&self) -> ManagementAddress {
        self.management.clone().unwrap_or_else(|| ManagementAddress::default_of(self))
    }

    /// Host of the first node.
    pub fn host(&self) -> &str {
        &self.uri.authority.host
    }

    /// URL without the password, for messages to operators.
    pub fn address(&self) -> String {
        let AMQPUri { scheme, authority, vhost, .. } = &self.uri;
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        format!("{scheme}://{}@{} (vhost {vhost})", authority.userinfo.username, hosts.join(","))
    }
}

impl fmt::Debug for RabbitSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RabbitSettings")
            .field("place", &self.address())
            .field("queue_type", &self.queue_type)
            .finish_non_exhaustive()
    }
}

/// Splits a URL into three parts: the text before the hosts, the hosts, and the text after them.
fn split_hosts(url: &str) -> (&str, &str, &str) {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at);
    let begin = url[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    (&url[..begin], &url[begin..end], &url[end..])
}

/// IPv6 address in `[::1]` or `[::1]:5672`.
fn ipv6_address(host: &str) -> Option<&str> {
    Some(host.strip_prefix('[')?.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> AMQPUri {
        RabbitSettings::parse(url).unwrap().uri
    }

    #[test]
    fn url_is_parsed_into_user_host_port_and_vhost() {
        let uri = parsed("amqp://shop:se%40cret@broker.local:5673/books");
        let AMQPUri { authority, vhost, .. } = uri;
        assert_eq!(vhost, "books");
        assert_eq!(hosts("amqp://shop:se%40cret@broker.local:5673/books"), ["broker.local:5673"]);
        assert_eq!(
            (authority.userinfo.username.as_str(), authority.userinfo.password.as_str()),
            ("shop", "se@cret")
        );
    }

    #[test]
    fn missing_vhost_is_the_default_vhost() {
        for url in ["amqp://localhost", "amqp://localhost/", "amqp://localhost/%2f", "amqps://localhost:5671"]
        {
            assert_eq!(parsed(url).vhost, "/", "{url}");
        }
    }

    fn hosts(url: &str) -> Vec<String> {
        RabbitSettings::parse(url).unwrap().hosts.iter().map(Host::to_string).collect()
    }

    #[test]
    fn ipv6_address_is_accepted_as_host() {
        for url in ["amqp://[::1]:5673/v", "amqp://u:p@[::1]:5673", "amqp://u@[::1]:5673/?heartbeat=3"] {
            assert_eq!(hosts(url), ["[::1]:5673"], "{url}");
        }
        assert_eq!(hosts("amqp://127.0.0.1"), ["127.0.0.1:5672"]);
    }

    #[test]
    fn cluster_nodes_are_separated_by_commas() {
        let settings =
            RabbitSettings::parse("amqps://shop:a,b@one,two:5673,[::1]:7/books?heartbeat=3").unwrap();
        let hosts: Vec<String> = settings.hosts.iter().map(Host::to_string).collect();
        assert_eq!(hosts, ["one:5671", "two:5673", "[::1]:7"]);
        let AMQPUri { authority, vhost, query, .. } = &settings.uri;
        assert_eq!((authority.userinfo.password.as_str(), vhost.as_str()), ("a,b", "books"));
        assert_eq!(query.heartbeat, Some(3));
        assert_eq!(settings.address(), "amqps://shop@one:5671,two:5673,[::1]:7 (vhost books)");
        for url in
            ["amqp://one,,two", "amqp://one,", "amqp://,one/v", "amqp://one,:5672", "amqp://one,two:port"]
        {
            assert!(RabbitSettings::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn heartbeat_defaults_unless_the_url_sets_it() {
        assert_eq!(parsed("amqp://localhost").query.heartbeat, Some(HEARTBEAT_SECONDS));
        assert_eq!(parsed("amqp://localhost?heartbeat=3").query.heartbeat, Some(3));
    }

    #[test]
    fn invalid_amqp_url_is_rejected() {
        for url in ["http://localhost", "localhost:5672", "amqp:", ""] {
            assert!(RabbitSettings::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn management_url_names_host_and_port_only() {
        let address = |url: &str, amqp: &str| {
            let settings = RabbitSettings::parse(amqp).unwrap().with_management_url(url);
            settings.map(|settings| {
                let address = settings.management_address();
                format!("{} {}", address, address.is_encrypted)
            })
        };
        for (url, expected) in [
            ("http://queues.local", "queues.local:15672 false"),
            ("https://queues.local/", "queues.local:15671 true"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080 false"),
            ("https://[::1]:8443/", "[::1]:8443 true"),
            ("http://[::1]", "[::1]:15672 false"),
        ] {
            assert_eq!(address(url, "amqp://h").as_deref(), Ok(expected), "{url}");
        }
        for url in [
            "queues.local:15672",
            "amqp://h",
            "http://",
            "http://u:p@h",
            "http://h/api",
            "http://h:x",
            "http://h?a",
        ] {
            assert!(address(url, "amqp://h").is_err(), "{url}");
        }
        let by_default = |amqp: &str| RabbitSettings::parse(amqp).unwrap().management_address().to_string();
        assert_eq!(by_default("amqp://one,two/v"), "one:15672");
        assert_eq!(by_default("amqps://one:5673"), "one:15671");
    }

    #[test]
    fn password_is_not_displayed() {
        let settings = RabbitSettings::parse("amqp://shop:secret@localhost/v").unwrap();
        for shown in [settings.address(), format!("{settings:?}")] {
            assert!(!shown.contains("secret") && shown.contains("shop@localhost"), "{shown}");
        }
    }

    #[test]
    fn ca_file_must_contain_a_certificate_and_requires_amqps() {
        let pem = "-----BEGIN CERTIFICATE-----\n";
        let with_ca_certificates =
            |url: &str, pem: &str| RabbitSettings::parse(url).unwrap().with_ca_certificates(pem.to_owned());
        assert!(with_ca_certificates("amqps://localhost", pem).is_ok());
        assert!(with_ca_certificates("amqp://localhost", pem).is_err());
        assert!(with_ca_certificates("amqps://localhost", "a private key").is_err());
    }
}
