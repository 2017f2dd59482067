//! Where RabbitMQ is and how it is spoken to.

use std::fmt;
use std::time::Duration;

use lapin::uri::{AMQPScheme, AMQPUri};

/// Heartbeats, unless the URL asks for others: a peer that is gone is noticed within twice as long.
const HEARTBEAT_SECONDS: u16 = 10;

/// What queues are declared as (`rabbitmq.queue-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueType {
    /// Replicated, on disk before a confirm, dead-lettered at least once.
    #[default]
    Quorum,
    /// Kept on one node, dead-lettered at most once.
    Classic,
}

impl QueueType {
    /// Its name, as RabbitMQ and the configuration have it.
    pub fn as_str(self) -> &'static str {
        match self {
            QueueType::Quorum => "quorum",
            QueueType::Classic => "classic",
        }
    }
}

/// Why settings are no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSettings(String);

impl fmt::Display for InvalidSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for InvalidSettings {}

/// A node of the cluster.
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

/// Where RabbitMQ is and how it is spoken to. Every wait has its limit here.
#[derive(Clone)]
pub struct RabbitSettings {
    /// User, vhost and options; where it leads to is in `hosts`.
    pub(crate) uri: AMQPUri,
    /// At least one.
    pub(crate) hosts: Vec<Host>,
    pub(crate) authorities: Option<String>,
    /// What queues are declared as.
    pub queue_type: QueueType,
    /// The name that the server shows for our connections.
    pub connection_name: String,
    /// How long a connection may take to come up.
    pub connect_timeout: Duration,
    /// How long the confirms of a window may take; then their outcome is unknown and the connection is given up.
    pub confirm_timeout: Duration,
    /// How long any other answer may take.
    pub answer_timeout: Duration,
    /// How often queues, bindings and subscriptions are looked after.
    pub watch_interval: Duration,
    /// The longest pause between two attempts to connect; the first is a fortieth of it.
    pub longest_pause: Duration,
}

impl RabbitSettings {
    /// Reads `amqp://user:password@host:port/vhost` or `amqps://..`. Without a vhost, or with an empty one, it is `/`.
    ///
    /// The nodes of a cluster are named with commas between them: `amqp://user:password@a:5672,b:5672,c:5672/vhost`.
    /// Connections begin at any of them, and go to the next when one is away.
    pub fn parse(url: &str) -> Result<RabbitSettings, InvalidSettings> {
        let (before, names, after) = around_hosts(url);
        let names: Vec<&str> = names.split(',').collect();
        if names.len() > 1 && names.iter().any(|name| name.is_empty() || name.starts_with(':')) {
            // The parser of lapin takes a missing host for localhost.
            return Err(InvalidSettings("the URL of RabbitMQ names an empty host between commas".to_owned()));
        }
        let mut uris = Vec::with_capacity(names.len());
        for name in names {
            // What the parser says repeats the URL with its password.
            let mut uri: AMQPUri = format!("{before}{name}{after}").parse().map_err(|_| {
                InvalidSettings("the URL of RabbitMQ cannot be read as an AMQP URL".to_owned())
            })?;
            if let Some(address) = bracketed(name) {
                // That parser takes an IPv6 address for a missing host, too.
                uri.authority.host = address.to_owned();
            }
            uris.push(uri);
        }
        let host = |uri: &AMQPUri| Host { name: uri.authority.host.clone(), port: uri.authority.port };
        let hosts = uris.iter().map(host).collect();
        let Some(mut uri) = uris.into_iter().next() else {
            return Err(InvalidSettings("the URL of RabbitMQ names no host".to_owned()));
        };
        if uri.vhost.is_empty() {
            uri.vhost = "/".to_owned();
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        Ok(RabbitSettings {
            uri,
            hosts,
            authorities: None,
            queue_type: QueueType::default(),
            connection_name: "handover".to_owned(),
            connect_timeout: Duration::from_secs(5),
            confirm_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(5),
            watch_interval: Duration::from_secs(5),
            longest_pause: Duration::from_secs(2),
        })
    }

    /// Trusts these certificates (PEM) for `amqps`, beside the public authorities.
    pub fn trusting(mut self, authorities: String) -> Result<RabbitSettings, InvalidSettings> {
        if !authorities.contains("-----BEGIN CERTIFICATE-----") {
            return Err(InvalidSettings(
                "the authorities of RabbitMQ hold no certificate in PEM form".to_owned(),
            ));
        }
        if self.uri.scheme == AMQPScheme::AMQP {
            return Err(InvalidSettings(
                "authorities are given, but amqp:// is not encrypted: use amqps://".to_owned(),
            ));
        }
        self.authorities = Some(authorities);
        Ok(self)
    }

    /// The host it is on.
    pub fn host(&self) -> &str {
        &self.uri.authority.host
    }

    /// Where it is, without the password: for people.
    pub fn place(&self) -> String {
        let AMQPUri { scheme, authority, vhost, .. } = &self.uri;
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        format!("{scheme}://{}@{} (vhost {vhost})", authority.userinfo.username, hosts.join(","))
    }
}

impl fmt::Debug for RabbitSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("RabbitSettings")
            .field("place", &self.place())
            .field("queue_type", &self.queue_type)
            .finish_non_exhaustive()
    }
}

/// A URL cut before and after the hosts it names.
fn around_hosts(url: &str) -> (&str, &str, &str) {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[begin..].find(['/', '?', '#']).map_or(url.len(), |at| begin + at);
    let begin = url[begin..end].rfind('@').map_or(begin, |at| begin + at + 1);
    (&url[..begin], &url[begin..end], &url[end..])
}

/// The IPv6 address in `[::1]` or `[::1]:5672`.
fn bracketed(host: &str) -> Option<&str> {
    Some(host.strip_prefix('[')?.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> AMQPUri {
        RabbitSettings::parse(url).unwrap().uri
    }

    #[test]
    fn a_url_names_user_host_port_and_vhost() {
        let uri = parsed("amqp://shop:se%40cret@broker.local:5673/orders");
        let AMQPUri { authority, vhost, .. } = uri;
        assert_eq!(vhost, "orders");
        assert_eq!(hosts("amqp://shop:se%40cret@broker.local:5673/orders"), ["broker.local:5673"]);
        assert_eq!(
            (authority.userinfo.username.as_str(), authority.userinfo.password.as_str()),
            ("shop", "se@cret")
        );
    }

    #[test]
    fn without_a_vhost_it_is_the_default_one() {
        for url in ["amqp://localhost", "amqp://localhost/", "amqp://localhost/%2f", "amqps://localhost:5671"]
        {
            assert_eq!(parsed(url).vhost, "/", "{url}");
        }
    }

    fn hosts(url: &str) -> Vec<String> {
        RabbitSettings::parse(url).unwrap().hosts.iter().map(Host::to_string).collect()
    }

    #[test]
    fn an_ipv6_address_is_the_host_it_names() {
        for url in ["amqp://[::1]:5673/v", "amqp://u:p@[::1]:5673", "amqp://u@[::1]:5673/?heartbeat=3"] {
            assert_eq!(hosts(url), ["[::1]:5673"], "{url}");
        }
        assert_eq!(hosts("amqp://127.0.0.1"), ["127.0.0.1:5672"]);
    }

    #[test]
    fn the_nodes_of_a_cluster_stand_between_commas() {
        let settings =
            RabbitSettings::parse("amqps://shop:a,b@one,two:5673,[::1]:7/orders?heartbeat=3").unwrap();
        let hosts: Vec<String> = settings.hosts.iter().map(Host::to_string).collect();
        assert_eq!(hosts, ["one:5671", "two:5673", "[::1]:7"]);
        let AMQPUri { authority, vhost, query, .. } = &settings.uri;
        assert_eq!((authority.userinfo.password.as_str(), vhost.as_str()), ("a,b", "orders"));
        assert_eq!(query.heartbeat, Some(3));
        assert_eq!(settings.place(), "amqps://shop@one:5671,two:5673,[::1]:7 (vhost orders)");
        for url in
            ["amqp://one,,two", "amqp://one,", "amqp://,one/v", "amqp://one,:5672", "amqp://one,two:port"]
        {
            assert!(RabbitSettings::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn heartbeats_are_asked_for_unless_the_url_says_otherwise() {
        assert_eq!(parsed("amqp://localhost").query.heartbeat, Some(HEARTBEAT_SECONDS));
        assert_eq!(parsed("amqp://localhost?heartbeat=3").query.heartbeat, Some(3));
    }

    #[test]
    fn what_is_no_amqp_url_is_refused() {
        for url in ["http://localhost", "localhost:5672", "amqp:", ""] {
            assert!(RabbitSettings::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_password_is_shown_to_nobody() {
        let settings = RabbitSettings::parse("amqp://shop:secret@localhost/v").unwrap();
        for shown in [settings.place(), format!("{settings:?}")] {
            assert!(!shown.contains("secret") && shown.contains("shop@localhost"), "{shown}");
        }
    }

    #[test]
    fn authorities_are_certificates_and_need_an_encrypted_connection() {
        let pem = "-----BEGIN CERTIFICATE-----\n";
        let trusting = |url: &str, pem: &str| RabbitSettings::parse(url).unwrap().trusting(pem.to_owned());
        assert!(trusting("amqps://localhost", pem).is_ok());
        assert!(trusting("amqp://localhost", pem).is_err());
        assert!(trusting("amqps://localhost", "a private key").is_err());
    }
}
