//! Connection options of database servers.

use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

#[cfg(feature = "mysql")]
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
#[cfg(feature = "postgres")]
use sqlx::postgres::{PgConnectOptions, PgSslMode};

#[cfg(feature = "mysql")]
use super::mysql::MysqlEngine;
#[cfg(feature = "postgres")]
use super::postgres::PostgresEngine;
use crate::connection::Engine;
use crate::prefix::TablePrefix;

/// Default size of the pool: on two cores more connections only wait for each other.
const DEFAULT_CONNECTIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(7);

/// URL parameters that the driver for MySQL supports; it ignores any other silently.
#[cfg(feature = "mysql")]
const MYSQL_PARAMETERS: [&str; 10] = [
    "sslmode", "ssl-mode", "sslca", "ssl-ca", "sslcert", "ssl-cert", "sslkey", "ssl-key", "socket", "charset",
];
/// URL parameters that the driver for PostgreSQL supports.
#[cfg(feature = "postgres")]
const POSTGRES_PARAMETERS: [&str; 14] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "hostaddr",
    "port",
    "user",
    "password",
];

/// Error for a URL that does not contain valid connection options of a database server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidOptions(String);

/// Connection options of a database server: address, credentials, TLS, size of the pool.
#[derive(Clone)]
pub struct ServerOptions {
    driver: Driver,
    connections: NonZeroU32,
    prefix: TablePrefix,
}

#[derive(Clone)]
enum Driver {
    #[cfg(feature = "mysql")]
    MySql(Box<MySqlConnectOptions>),
    #[cfg(feature = "postgres")]
    Postgres(Box<PgConnectOptions>),
}

impl ServerOptions {
    /// Parses a URL: `mysql://user:password@host:port/database` (or `mariadb://`), `postgres://..` (or
    /// `postgresql://`). Parameters after `?` are passed to the driver: `ssl-mode`, `ssl-ca`, `socket`, ...
    pub fn parse(url: &str) -> Result<ServerOptions, InvalidOptions> {
        let invalid = |why: &str| Err(InvalidOptions(why.to_owned()));
        let Some((scheme, rest)) = url.split_once("://") else { return invalid("not a URL") };
        let driver = match scheme {
            "mysql" | "mariadb" => mysql(rest)?,
            "postgres" | "postgresql" => postgres(rest)?,
            _ => return invalid("the scheme is neither MySQL, MariaDB nor PostgreSQL"),
        };
        let options = ServerOptions::of(driver);
        match options.parts().database {
            Some(_) => Ok(options),
            None => invalid("the URL has no database name; append /database to host and port"),
        }
    }

    /// The options of an application's own connections to PostgreSQL. Schema (`search_path`) and application name are
    /// kept; the size of the cache of prepared statements is not.
    #[cfg(feature = "postgres")]
    pub fn postgres(options: PgConnectOptions) -> ServerOptions {
        ServerOptions::of(Driver::Postgres(Box::new(options)))
    }

    /// The options of an application's own connections to MySQL or MariaDB, which must name a database.
    #[cfg(feature = "mysql")]
    pub fn mysql(options: MySqlConnectOptions) -> ServerOptions {
        ServerOptions::of(Driver::MySql(Box::new(options)))
    }

    fn of(driver: Driver) -> ServerOptions {
        ServerOptions { driver, connections: DEFAULT_CONNECTIONS, prefix: TablePrefix::default() }
    }

    /// Sets the prefix of the tables; the default is none.
    #[must_use]
    pub fn table_prefix(mut self, prefix: TablePrefix) -> ServerOptions {
        self.prefix = prefix;
        self
    }

    /// Sets the maximum number of connections; the default is 8.
    #[must_use]
    pub fn connections(mut self, connections: NonZeroU32) -> ServerOptions {
        self.connections = connections;
        self
    }

    /// Requires TLS and verifies that the server's certificate is issued by these authorities (PEM file) for its host
    /// name.
    #[must_use]
    pub fn with_ca_certificates(mut self, authorities: &Path) -> ServerOptions {
        self.driver = match self.driver {
            #[cfg(feature = "mysql")]
            Driver::MySql(options) => {
                Driver::MySql(Box::new(options.ssl_mode(MySqlSslMode::VerifyIdentity).ssl_ca(authorities)))
            }
            #[cfg(feature = "postgres")]
            Driver::Postgres(options) => {
                Driver::Postgres(Box::new(options.ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(authorities)))
            }
        };
        self
    }

    /// The URL without password and parameters, for log messages.
    pub fn address(&self) -> String {
        let Parts { scheme, user, host, port, database } = self.parts();
        let host =
            if host.contains(':') { format!("[{}]", host.trim_matches(['[', ']'])) } else { host.to_owned() };
        format!("{scheme}://{user}@{host}:{port}/{}", database.unwrap_or_default())
    }

    /// The driver: `MySQL` (also for MariaDB) or `PostgreSQL`.
    pub fn kind(&self) -> &'static str {
        match &self.driver {
            #[cfg(feature = "mysql")]
            Driver::MySql(_) => "MySQL",
            #[cfg(feature = "postgres")]
            Driver::Postgres(_) => "PostgreSQL",
        }
    }

    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        let prefix = self.prefix.clone();
        match &self.driver {
            #[cfg(feature = "mysql")]
            Driver::MySql(options) => Arc::new(MysqlEngine::open(options, self.connections, prefix)),
            #[cfg(feature = "postgres")]
            Driver::Postgres(options) => Arc::new(PostgresEngine::open(options, self.connections, prefix)),
        }
    }

    fn parts(&self) -> Parts<'_> {
        match &self.driver {
            #[cfg(feature = "mysql")]
            Driver::MySql(options) => Parts {
                scheme: "mysql",
                user: options.get_username(),
                host: options.get_host(),
                port: options.get_port(),
                database: options.get_database(),
            },
            #[cfg(feature = "postgres")]
            Driver::Postgres(options) => Parts {
                scheme: "postgres",
                user: options.get_username(),
                host: options.get_host(),
                port: options.get_port(),
                database: options.get_database(),
            },
        }
    }
}

struct Parts<'a> {
    scheme: &'static str,
    user: &'a str,
    host: &'a str,
    port: u16,
    database: Option<&'a str>,
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerOptions")
            .field("place", &self.address())
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "mysql")]
fn mysql(rest: &str) -> Result<Driver, InvalidOptions> {
    check_parameters(rest, &MYSQL_PARAMETERS)?;
    let options =
        MySqlConnectOptions::from_str(&format!("mysql://{rest}")).map_err(|_| unparsable("mysql"))?;
    Ok(Driver::MySql(Box::new(options)))
}

#[cfg(not(feature = "mysql"))]
fn mysql(_rest: &str) -> Result<Driver, InvalidOptions> {
    Err(InvalidOptions("this program was built without MySQL".to_owned()))
}

#[cfg(feature = "postgres")]
fn postgres(rest: &str) -> Result<Driver, InvalidOptions> {
    check_parameters(rest, &POSTGRES_PARAMETERS)?;
    let options =
        PgConnectOptions::from_str(&format!("postgres://{rest}")).map_err(|_| unparsable("postgres"))?;
    Ok(Driver::Postgres(Box::new(options)))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_rest: &str) -> Result<Driver, InvalidOptions> {
    Err(InvalidOptions("this program was built without PostgreSQL".to_owned()))
}

/// Error for a URL that the driver cannot parse; the driver's own message names neither the part nor the remedy.
fn unparsable(scheme: &str) -> InvalidOptions {
    InvalidOptions(format!(
        "cannot parse the URL as {scheme}://user:password@host:port/database: check that the port is at most 65535 and \
         that the sslmode is supported; in a password write @ as %40, / as %2F and % as %25"
    ))
}

/// Rejects unknown parameters: a mistyped `ssl-mode` must not result in an unencrypted connection.
fn check_parameters(rest: &str, parameters: &[&str]) -> Result<(), InvalidOptions> {
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let names = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    match names.filter(|name| !name.is_empty()).find(|name| !parameters.contains(name)) {
        Some(name) => {
            let supported = parameters.join(", ");
            // The text after an unescaped `?` in a password is a part of the password and must not be shown.
            let is_name = name.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_'));
            Err(InvalidOptions(if is_name {
                format!("unknown parameter {name}; supported are {supported}")
            } else {
                format!(
                    "unknown parameter after the ?; supported are {supported}; in a password write ? as %3F"
                )
            }))
        }
        None => Ok(()),
    }
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn parsed_url_is_shown_without_password() {
        for (url, kind, address) in [
            ("mysql://shop:s%40cret@db:3307/books", "MySQL", "mysql://shop@db:3307/books"),
            ("mariadb://shop@db/books", "MySQL", "mysql://shop@db:3306/books"),
            ("postgres://shop:s%40cret@db:5433/books", "PostgreSQL", "postgres://shop@db:5433/books"),
            (
                "postgresql://shop:secret@[::1]/books?sslmode=require",
                "PostgreSQL",
                "postgres://shop@[::1]:5432/books",
            ),
        ] {
            let options = ServerOptions::parse(url).unwrap();
            assert_eq!((options.kind(), options.address().as_str()), (kind, address), "{url}");
            let shown = format!("{options:?}");
            assert!(!shown.contains("cret"), "{shown}");
        }
    }

    #[test]
    fn parse_rejects_invalid_urls_and_unknown_parameters() {
        for (url, why) in [
            ("books", "not a URL"),
            ("oracle://db/books", "neither"),
            ("mysql://shop@db", "no database name"),
            ("postgres://shop@db/", "no database name"),
            ("mysql://shop@db:many/books", "cannot parse"),
            ("mysql://shop@db/books?ssl_mode=REQUIRED", "unknown parameter ssl_mode"),
            ("postgres://shop@db/books?sslmod=require", "unknown parameter sslmod"),
            ("postgres://shop@db/books?sslmode=sometimes", "cannot parse"),
        ] {
            let error = ServerOptions::parse(url).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
            assert!(!error.contains("error with configuration"), "the driver's message is shown: {error}");
        }
    }
}
