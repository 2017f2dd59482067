//! Arguments of `handover serve`.

use clap::Args;
use handover_cli::values::{OneOf, one_of};
use handover_runtime::config::Sources;
use handover_runtime::roles::{Role, Roles};
use marketplace_wiring::{ROLES, Starting};

use handover_runtime::terminal::{Address, Common};

/// Arguments of `handover serve`.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub address: Address,
    /// Parts that this process runs: api, relay, consumers, jobs [default: all]
    #[arg(long, value_name = "ROLES", value_delimiter = ',', value_parser = role(), hide_possible_values = true)]
    pub roles: Vec<&'static Role<Starting>>,
}

impl ServeArgs {
    /// The roles given by `--roles`; all roles without it.
    pub fn roles(&self) -> Roles<Starting> {
        Roles::chosen(&ROLES, &self.roles)
    }

    /// Configuration sources of this process, including these flags.
    pub fn sources(&self) -> Sources {
        self.common.sources(&[self.address.flag()])
    }
}

fn role() -> OneOf<&'static Role<Starting>> {
    one_of(ROLES.iter().map(|role| role.name), |name| Role::named(&ROLES, name).ok())
}
