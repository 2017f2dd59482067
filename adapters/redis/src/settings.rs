//! Connection settings of Redis.

use std::fmt;
use std::time::Duration;

use redis::{Client, ConnectionAddr, TlsCertificates};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(String);

/// Connection settings of Redis. The `Debug` output does not contain the password.
#[derive(Clone)]
pub struct RedisSettings {
    pub(crate) client: Client,
    /// Timeout of a request to Redis (`redis.timeout`). When it expires, Redis counts as unavailable.
    pub timeout: Duration,
    /// Timeout for connecting, including TLS and authentication.
    pub connect_timeout: Duration,
    /// Maximum pause between two connection attempts.
    pub max_reconnect_pause: Duration,
}

impl RedisSettings {
    /// Default of [`RedisSettings::timeout`].
    pub const TIMEOUT: Duration = Duration::from_millis(50);

    /// Parses `redis://user:password@host:port/database`, where the database is a number, or `rediss://..` for TLS.
    pub fn parse(url: &str) -> Result<RedisSettings, InvalidSettings> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        let encrypted = match scheme {
            Some("redis") => false,
            Some("rediss") => true,
            Some(_) | None => return Err(InvalidSettings("it is not a Redis URL".to_owned())),
        };
        if url.contains('#') {
            let why = "the part after # would disable certificate verification";
            return Err(InvalidSettings(why.to_owned()));
        }
        if encrypted {
            // An error is ignored: it means that a crypto provider is already installed.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        // The driver's error is replaced, because it states neither the wrong part nor how to correct it.
        let client = Client::open(url).map_err(|_| {
            InvalidSettings(
                "it cannot be parsed as redis://user:password@host:port/database: the port must be a number up to 65535; in a \
                 password write @ as %40, / as %2F and % as %25"
                    .to_owned(),
            )
        })?;
        Ok(RedisSettings {
            client,
            timeout: RedisSettings::TIMEOUT,
            connect_timeout: Duration::from_secs(2),
            max_reconnect_pause: Duration::from_secs(2),
        })
    }

    /// Verifies the server certificate with these authorities (PEM) instead of those of the machine.
    pub fn with_ca_certificates(self, authorities: &str) -> Result<RedisSettings, InvalidSettings> {
        let info = self.client.get_connection_info().clone();
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err(InvalidSettings(
                "the connection is not encrypted, so certificates are not used".to_owned(),
            ));
        }
        let roots = TlsCertificates { client_tls: None, root_cert: Some(authorities.as_bytes().to_vec()) };
        let client =
            Client::build_with_tls(info, roots).map_err(|error| InvalidSettings(error.to_string()))?;
        Ok(RedisSettings { client, ..self })
    }

    /// Address and database number, without user name and password.
    pub fn address(&self) -> String {
        let info = self.client.get_connection_info();
        format!("Redis at {}, database {}", info.addr(), info.redis_settings().db())
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("place", &self.address())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
