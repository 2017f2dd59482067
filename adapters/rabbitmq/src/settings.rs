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
    pub(crate) fn as_str(self) -> &'static str {
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

/// Where RabbitMQ is and how it is spoken to. Every wait has its limit here.
#[derive(Clone)]
pub struct RabbitSettings {
    pub(crate) uri: AMQPUri,
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
    pub fn parse(url: &str) -> Result<RabbitSettings, InvalidSettings> {
        let mut uri: AMQPUri = url
            .parse()
            .map_err(|error| InvalidSettings(format!("the URL of RabbitMQ is no AMQP URL: {error}")))?;
        if let Some(address) = bracketed(url) {
            // The parser of lapin takes an IPv6 address for a missing host and goes to localhost.
            uri.authority.host = address.to_owned();
        }
        if uri.vhost.is_empty() {
            uri.vhost = "/".to_owned();
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        Ok(RabbitSettings {
            uri,
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

    /// Where it is, without the password: for people.
    pub fn place(&self) -> String {
        let AMQPUri { scheme, authority, vhost, .. } = &self.uri;
        format!(
            "{scheme}://{}@{}:{} (vhost {vhost})",
            authority.userinfo.username, authority.host, authority.port
        )
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

/// The IPv6 address that a URL names as its host.
fn bracketed(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
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
        assert_eq!(
            (authority.host.as_str(), authority.port, vhost.as_str()),
            ("broker.local", 5673, "orders")
        );
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

    #[test]
    fn an_ipv6_address_is_the_host_it_names() {
        for url in ["amqp://[::1]:5673/v", "amqp://u:p@[::1]:5673", "amqp://u@[::1]:5673/?heartbeat=3"] {
            let authority = parsed(url).authority;
            assert_eq!((authority.host.as_str(), authority.port), ("::1", 5673), "{url}");
        }
        assert_eq!(parsed("amqp://127.0.0.1").authority.host, "127.0.0.1");
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
