//! What `token` takes.

use std::time::Duration;

use clap::Args;
use marketplace::Role;

use super::Common;
use super::values::{duration, whole};

/// What `token` takes.
#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    /// What every command takes.
    #[command(flatten)]
    pub common: Common,
    /// The user's id
    #[arg(long, value_name = "ID", value_parser = whole(1..=handover_events::MAX_ID))]
    pub user: i64,
    /// What the user may do; may be given more than once: user, operator, platform, pii
    #[arg(long = "role", value_name = "ROLE", value_parser = parse_role, default_value = "user")]
    pub roles: Vec<Role>,
    /// The marketplace
    #[arg(long, value_name = "ID", value_parser = whole(1..=handover_events::MAX_ID), default_value = "1")]
    pub tenant: i64,
    /// For how long it is good
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl, default_value = "1h")]
    pub ttl: Duration,
}

fn parse_role(name: &str) -> Result<Role, String> {
    let known = || Role::ALL.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ");
    Role::named(name).ok_or_else(|| format!("known are {}", known()))
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
