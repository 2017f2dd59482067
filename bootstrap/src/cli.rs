//! The command line.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use handover_application::{Role, runtime::Roles};

use crate::Failure;
use crate::config::{Config, Sources};

const EXAMPLES: &str = "\
Examples:
  handover                                      serve on 127.0.0.1:8080, orders in ./handover.db
  handover serve --listen 127.0.0.1:0           on any free port; the first line says which
  handover serve --database sqlite:///srv/shop/handover.db
  handover token --user 10001 --role user       a token for curl: -H \"Authorization: Bearer ...\"
  HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES=0.05 handover    unpaid orders are closed after 3 s

Configuration: built-in defaults < handover.toml (or --config) < HANDOVER_SECTION__KEY < flags.
Every key of the file has a variable: dots become two underscores, dashes become underscores
(outbox.scan-interval is HANDOVER_OUTBOX__SCAN_INTERVAL). README.md lists them all.

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 a dependency is away.";

/// Orders and their events: committed together, delivered, and applied exactly once.
#[derive(Debug, Parser)]
#[command(name = "handover", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; nothing is `serve`.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The flags of `serve`.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API and run what runs by itself (the default)
    #[command(after_help = EXAMPLES)]
    Serve(ServeArgs),
    /// Bring the database up to date and end; `serve` does so too on SQLite
    Migrate(Common),
    /// Print a token that signs a user in, and nothing else
    #[command(
        after_help = "Example:\n  curl -H \"Authorization: Bearer $(handover token --user 10001 --role user)\" ..."
    )]
    Token(TokenArgs),
}

/// What every command takes.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// Read this file instead of handover.toml
    #[arg(long, value_name = "FILE", env = "HANDOVER_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where orders and events are kept, such as sqlite://handover.db [env: HANDOVER_DATABASE__URL]
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
}

/// What `serve` takes.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Address and port of the API; port 0 is any free one [default: 127.0.0.1:8080] [env: HANDOVER_HTTP__LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Which parts run here: api, relay, consumers, jobs [default: all of them]
    #[arg(long, value_name = "ROLES", value_delimiter = ',', value_parser = parse_part)]
    pub roles: Vec<Part>,
}

/// A part of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The HTTP API.
    Api,
    /// Publishes the outbox.
    Relay,
    /// Apply events.
    Consumers,
    /// Sweeps.
    Jobs,
}

/// Which parts a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// The HTTP API.
    pub api: bool,
    /// What runs by itself.
    pub roles: Roles,
}

impl Parts {
    /// All of them.
    pub const ALL: Parts = Parts { api: true, roles: Roles::ALL };

    /// Those that were named, or all if none was.
    pub fn named(parts: &[Part]) -> Parts {
        if parts.is_empty() {
            return Parts::ALL;
        }
        let has = |part| parts.contains(&part);
        Parts {
            api: has(Part::Api),
            roles: Roles { relay: has(Part::Relay), consumers: has(Part::Consumers), jobs: has(Part::Jobs) },
        }
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { api, roles: Roles { relay, consumers, jobs } } = *self;
        let named = [(api, "api"), (relay, "relay"), (consumers, "consumers"), (jobs, "jobs")];
        let names: Vec<&str> = named.iter().filter(|(runs, _)| *runs).map(|(_, name)| *name).collect();
        f.write_str(&names.join(","))
    }
}

/// What `token` takes.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// The user's id
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..=handover_domain::MAX_ID))]
    pub user: i64,
    /// What the user may do; may be given more than once: user, operator, platform, pii
    #[arg(long = "role", value_name = "ROLE", value_parser = parse_role, default_value = "user")]
    pub roles: Vec<Role>,
    /// The marketplace
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..=handover_domain::MAX_ID), default_value = "1")]
    pub tenant: i64,
    /// For how long it is good
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, default_value = "1h")]
    pub ttl: Duration,
}

fn parse_part(name: &str) -> Result<Part, String> {
    match name {
        "api" => Ok(Part::Api),
        "relay" => Ok(Part::Relay),
        "consumers" => Ok(Part::Consumers),
        "jobs" => Ok(Part::Jobs),
        _ => Err("known are api, relay, consumers, jobs".to_owned()),
    }
}

fn parse_role(name: &str) -> Result<Role, String> {
    let known = || Role::ALL.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ");
    Role::named(name).ok_or_else(|| format!("known are {}", known()))
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
    let ttl = humantime::parse_duration(text).map_err(|error| format!("{error}; write 15m, 1h or 7d"))?;
    if (Duration::from_secs(1)..=LONGEST).contains(&ttl) {
        Ok(ttl)
    } else {
        Err("write a duration from 1s to 366d".to_owned())
    }
}

impl Common {
    /// The configuration of this process with these flags.
    pub fn load(&self, more: &[(&'static str, &'static str, Option<&String>)]) -> Result<Config, Failure> {
        let mut sources = Sources::of_process(self.config.clone());
        let flags = [("--database", "database.url", self.database.as_ref())];
        sources.flags = flags
            .iter()
            .chain(more)
            .filter_map(|(flag, key, value)| value.map(|value| (*flag, *key, value.clone())))
            .collect();
        Ok(Config::load(&sources)?)
    }
}

impl ServeArgs {
    /// The configuration of this process with these flags.
    pub fn load(&self) -> Result<Config, Failure> {
        self.common.load(&[("--listen", "http.listen", self.listen.as_ref())])
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_is_serve_with_all_parts_and_takes_its_flags() {
        let cli = parse("handover --listen 127.0.0.1:0 --database sqlite://a.db").unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.serve.listen.as_deref(), Some("127.0.0.1:0"));
        assert_eq!(Parts::named(&cli.serve.roles), Parts::ALL);
    }

    #[test]
    fn roles_name_the_parts_that_run() {
        let Some(Command::Serve(serve)) = parse("handover serve --roles api,jobs").unwrap().command else {
            panic!("serve was asked for")
        };
        let parts = Parts::named(&serve.roles);
        assert_eq!(parts, Parts { api: true, roles: Roles { relay: false, consumers: false, jobs: true } });
        assert!(parse("handover serve --roles api,web").is_err());
    }

    #[test]
    fn a_token_has_one_hour_tenant_1_and_the_role_user_unless_told_otherwise() {
        let Some(Command::Token(token)) = parse("handover token --user 10001").unwrap().command else {
            panic!("token was asked for")
        };
        assert_eq!((token.user, token.tenant, token.ttl.as_secs()), (10001, 1, 3600));
        assert_eq!(token.roles, [Role::User]);
        let line = "handover token --user 1 --role user --role operator --tenant 2 --ttl 15m";
        let Some(Command::Token(token)) = parse(line).unwrap().command else { panic!("token was asked for") };
        assert_eq!((token.tenant, token.ttl.as_secs()), (2, 900));
        assert_eq!(token.roles, [Role::User, Role::Operator]);
    }

    #[test]
    fn what_means_nothing_is_a_usage_error() {
        for line in [
            "handover token",
            "handover token --user 0",
            "handover token --user me",
            "handover token --user 1 --role admin",
            "handover token --user 1 --ttl 0s",
            "handover token --user 1 --ttl 400d",
            "handover --listen",
            "handover fly",
            "handover --database a serve",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
