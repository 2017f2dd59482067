//! Which database server, and how it is spoken to.

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

/// Connections of a pool, unless told otherwise: on two cores more of them only wait for each other.
const CONNECTIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(7);

/// What a URL may ask of the driver for MySQL; it passes over anything else in silence.
#[cfg(feature = "mysql")]
const MYSQL_PARAMETERS: [&str; 10] = [
    "sslmode", "ssl-mode", "sslca", "ssl-ca", "sslcert", "ssl-cert", "sslkey", "ssl-key", "socket", "charset",
];
/// What a URL may ask of the driver for PostgreSQL.
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

/// Why a URL is no database server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidOptions(String);

/// A database server: where it is, and how many connections to keep.
#[derive(Clone)]
pub struct ServerOptions {
    driver: Driver,
    connections: NonZeroU32,
}

#[derive(Clone)]
enum Driver {
    #[cfg(feature = "mysql")]
    MySql(Box<MySqlConnectOptions>),
    #[cfg(feature = "postgres")]
    Postgres(Box<PgConnectOptions>),
}

impl ServerOptions {
    /// A server by its URL: `mysql://user:password@host:port/database` (or `mariadb://`), `postgres://..` (or
    /// `postgresql://`). Parameters after `?` are those of the driver: `ssl-mode`, `ssl-ca`, `socket`, ..
    pub fn parse(url: &str) -> Result<ServerOptions, InvalidOptions> {
        let invalid = |why: &str| Err(InvalidOptions(why.to_owned()));
        let Some((scheme, rest)) = url.split_once("://") else { return invalid("it is no URL") };
        let driver = match scheme {
            "mysql" | "mariadb" => mysql(rest)?,
            "postgres" | "postgresql" => postgres(rest)?,
            _ => return invalid("it names neither MySQL, MariaDB nor PostgreSQL"),
        };
        let options = ServerOptions { driver, connections: CONNECTIONS };
        match options.parts().database {
            Some(_) => Ok(options),
            None => invalid("it names no database: host and port are followed by /database"),
        }
    }

    /// At most so many connections; 8 unless told otherwise.
    #[must_use]
    pub fn connections(mut self, connections: NonZeroU32) -> ServerOptions {
        self.connections = connections;
        self
    }

    /// Encrypts, and believes a server only that shows its host's name in a certificate of these authorities (PEM).
    #[must_use]
    pub fn trusting(mut self, authorities: &Path) -> ServerOptions {
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

    /// Where it is, without the password: for people.
    pub fn place(&self) -> String {
        let Parts { scheme, user, host, port, database } = self.parts();
        let host =
            if host.contains(':') { format!("[{}]", host.trim_matches(['[', ']'])) } else { host.to_owned() };
        format!("{scheme}://{user}@{host}:{port}/{}", database.unwrap_or_default())
    }

    /// What only this server's kind has: `MySQL` or `PostgreSQL`.
    pub fn kind(&self) -> &'static str {
        match &self.driver {
            #[cfg(feature = "mysql")]
            Driver::MySql(_) => "MySQL",
            #[cfg(feature = "postgres")]
            Driver::Postgres(_) => "PostgreSQL",
        }
    }

    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        match &self.driver {
            #[cfg(feature = "mysql")]
            Driver::MySql(options) => Arc::new(MysqlEngine::open(options, self.connections)),
            #[cfg(feature = "postgres")]
            Driver::Postgres(options) => Arc::new(PostgresEngine::open(options, self.connections)),
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
            .field("place", &self.place())
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "mysql")]
fn mysql(rest: &str) -> Result<Driver, InvalidOptions> {
    known(rest, &MYSQL_PARAMETERS)?;
    let options = MySqlConnectOptions::from_str(&format!("mysql://{rest}")).map_err(|_| unread("mysql"))?;
    Ok(Driver::MySql(Box::new(options)))
}

#[cfg(not(feature = "mysql"))]
fn mysql(_rest: &str) -> Result<Driver, InvalidOptions> {
    Err(InvalidOptions("this program was built without MySQL".to_owned()))
}

#[cfg(feature = "postgres")]
fn postgres(rest: &str) -> Result<Driver, InvalidOptions> {
    known(rest, &POSTGRES_PARAMETERS)?;
    let options =
        PgConnectOptions::from_str(&format!("postgres://{rest}")).map_err(|_| unread("postgres"))?;
    Ok(Driver::Postgres(Box::new(options)))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_rest: &str) -> Result<Driver, InvalidOptions> {
    Err(InvalidOptions("this program was built without PostgreSQL".to_owned()))
}

/// The driver's own words name neither the place nor the way out.
fn unread(scheme: &str) -> InvalidOptions {
    InvalidOptions(format!(
        "it cannot be read as {scheme}://user:password@host:port/database: a port is a number up to 65535, an sslmode is \
         one of the server's, and of a password @ is written %40, / %2F and % %25"
    ))
}

/// Every parameter is one of these: a mistyped `ssl-mode` must not leave the connection open to readers.
fn known(rest: &str, parameters: &[&str]) -> Result<(), InvalidOptions> {
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let names = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    match names.filter(|name| !name.is_empty()).find(|name| !parameters.contains(name)) {
        Some(name) => {
            let known = parameters.join(", ");
            // What follows a bare `?` of a password is a part of that, and never repeated.
            let is_name = name.chars().all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_'));
            Err(InvalidOptions(if is_name {
                format!("nothing is called {name} here; known are {known}")
            } else {
                format!("after the ? is no option; known are {known}, and a ? in a password is written %3F")
            }))
        }
        None => Ok(()),
    }
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_server_user_and_database_and_its_password_is_shown_to_nobody() {
        for (url, kind, place) in [
            ("mysql://shop:s%40cret@db:3307/orders", "MySQL", "mysql://shop@db:3307/orders"),
            ("mariadb://shop@db/orders", "MySQL", "mysql://shop@db:3306/orders"),
            ("postgres://shop:s%40cret@db:5433/orders", "PostgreSQL", "postgres://shop@db:5433/orders"),
            (
                "postgresql://shop:secret@[::1]/orders?sslmode=require",
                "PostgreSQL",
                "postgres://shop@[::1]:5432/orders",
            ),
        ] {
            let options = ServerOptions::parse(url).unwrap();
            assert_eq!((options.kind(), options.place().as_str()), (kind, place), "{url}");
            let shown = format!("{options:?}");
            assert!(!shown.contains("cret"), "{shown}");
        }
    }

    #[test]
    fn what_names_no_server_or_no_database_or_an_unknown_parameter_is_refused() {
        for (url, why) in [
            ("orders", "no URL"),
            ("oracle://db/orders", "neither"),
            ("mysql://shop@db", "no database"),
            ("postgres://shop@db/", "no database"),
            ("mysql://shop@db:many/orders", "cannot be read"),
            ("mysql://shop@db/orders?ssl_mode=REQUIRED", "nothing is called ssl_mode"),
            ("postgres://shop@db/orders?sslmod=require", "nothing is called sslmod"),
            ("postgres://shop@db/orders?sslmode=sometimes", "cannot be read"),
        ] {
            let error = ServerOptions::parse(url).unwrap_err().to_string();
            assert!(error.contains(why), "{url}: {error}");
            assert!(!error.contains("error with configuration"), "the words of the driver: {error}");
        }
    }
}
