//! Arguments of `handover token`.

use std::time::Duration;

use clap::Args;
use marketplace::Role;

use handover_cli::values::{OneOf, duration, one_of, whole};
use handover_runtime::terminal::Common;

/// Arguments of `handover token`.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    #[command(flatten)]
    pub common: Common,
    /// The user's id
    #[arg(long, value_name = "ID", value_parser = whole(1..=handover_events::MAX_ID))]
    pub user: i64,
    /// Role of the user: user, operator, platform, pii; can be repeated
    #[arg(long = "role", value_name = "ROLE", value_parser = role(), hide_possible_values = true, default_value = "user")]
    pub roles: Vec<Role>,
    /// The tenant
    #[arg(long, value_name = "ID", value_parser = whole(1..=handover_events::MAX_ID), default_value = "1")]
    pub tenant: i64,
    /// Validity of the token
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, default_value = "1h")]
    pub ttl: Duration,
}

fn role() -> OneOf<Role> {
    one_of(Role::ALL.iter().map(|role| role.as_str()), Role::named)
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);
    let ttl = duration(text)?;
    if (Duration::from_secs(1)..=LONGEST).contains(&ttl) {
        Ok(ttl)
    } else {
        Err("write a duration from 1s to 366d".to_owned())
    }
}
