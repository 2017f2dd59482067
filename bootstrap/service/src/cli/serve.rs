//! Arguments of `handover serve`.

use clap::Args;
use marketplace::service::Roles;

use super::{Address, Common};
use marketplace_wiring::Parts;
use marketplace_wiring::config::Sources;

/// Arguments of `handover serve`.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub address: Address,
    /// Parts that this process runs: api, relay, consumers, jobs [default: all]
    #[arg(long, value_name = "ROLES", value_delimiter = ',', value_parser = parse_part)]
    pub roles: Vec<Part>,
}

/// A part of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Api,
    Relay,
    Consumers,
    /// Periodic tasks: sweeps, refunds, consistency scans.
    Jobs,
}

impl ServeArgs {
    /// The parts given by `--roles`; all parts without it.
    pub fn parts(&self) -> Parts {
        if self.roles.is_empty() {
            return Parts::ALL;
        }
        let has = |part| self.roles.contains(&part);
        Parts {
            api: has(Part::Api),
            roles: Roles { relay: has(Part::Relay), consumers: has(Part::Consumers), jobs: has(Part::Jobs) },
        }
    }

    /// Configuration sources of this process, including these flags.
    pub fn sources(&self) -> Sources {
        self.common.sources(&[self.address.flag()])
    }
}

fn parse_part(name: &str) -> Result<Part, String> {
    match name {
        "api" => Ok(Part::Api),
        "relay" => Ok(Part::Relay),
        "consumers" => Ok(Part::Consumers),
        "jobs" => Ok(Part::Jobs),
        _ => Err("allowed values: api, relay, consumers, jobs".to_owned()),
    }
}
