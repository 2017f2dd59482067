//! Where Redis is and how it is spoken to.

use std::fmt;
use std::time::Duration;

use redis::{Client, ConnectionAddr, TlsCertificates};

/// Why settings are no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(String);

/// Where Redis is and how it is spoken to. Shown without its password.
#[derive(Clone)]
pub struct RedisSettings {
    pub(crate) client: Client,
    /// How long a request may wait for an answer (`redis.timeout`); then it goes on without.
    pub timeout: Duration,
    /// How long a connection may take to come up, TLS and password included.
    pub connect_timeout: Duration,
    /// The longest pause between two attempts to connect.
    pub longest_pause: Duration,
}

impl RedisSettings {
    /// How long a request waits for an answer, unless somebody sets it otherwise.
    pub const TIMEOUT: Duration = Duration::from_millis(50);

    /// Reads `redis://user:password@host:port/number` or `rediss://..`, which is encrypted.
    pub fn parse(url: &str) -> Result<RedisSettings, InvalidSettings> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        let encrypted = match scheme {
            Some("redis") => false,
            Some("rediss") => true,
            Some(_) | None => return Err(InvalidSettings("it is no URL of Redis".to_owned())),
        };
        if url.contains('#') {
            let why = "what follows # would have certificates taken unseen, which is no encryption";
            return Err(InvalidSettings(why.to_owned()));
        }
        if encrypted {
            // An error means that one is installed already.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        // The driver's own words name neither the place nor the way out.
        let client = Client::open(url).map_err(|_| {
            InvalidSettings(
                "it cannot be read as redis://user:password@host:port/number: a port is a number up to 65535, and of a \
                 password @ is written %40, / %2F and % %25"
                    .to_owned(),
            )
        })?;
        Ok(RedisSettings {
            client,
            timeout: RedisSettings::TIMEOUT,
            connect_timeout: Duration::from_secs(2),
            longest_pause: Duration::from_secs(2),
        })
    }

    /// With the authorities (PEM) that its certificate is checked by, instead of those of the machine.
    pub fn trusting(self, authorities: &str) -> Result<RedisSettings, InvalidSettings> {
        let info = self.client.get_connection_info().clone();
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err(InvalidSettings("the connection is not encrypted".to_owned()));
        }
        let roots = TlsCertificates { client_tls: None, root_cert: Some(authorities.as_bytes().to_vec()) };
        let client =
            Client::build_with_tls(info, roots).map_err(|error| InvalidSettings(error.to_string()))?;
        Ok(RedisSettings { client, ..self })
    }

    /// Where it is, without user and password.
    pub fn place(&self) -> String {
        let info = self.client.get_connection_info();
        format!("Redis at {}, database {}", info.addr(), info.redis_settings().db())
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("place", &self.place())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
