//! What `serve` takes.

use std::fmt;

use clap::Args;
use marketplace::service::Roles;

use super::{Address, Common};
use crate::Failure;
use crate::config::Config;

/// What `serve` takes.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// Where the API listens.
    #[command(flatten)]
    pub address: Address,
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

impl ServeArgs {
    /// The configuration of this process with these flags.
    pub fn load(&self) -> Result<Config, Failure> {
        Ok(Config::load(&self.common.sources(&[self.address.flag()]))?)
    }
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
