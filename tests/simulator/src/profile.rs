//! Profiles: which faults are likely in a run.

use std::str::FromStr;

use super::fault_kinds::Fault;

/// Weights the faults. Within a profile each seed enables a random subset of them (swarm testing: Groce et al., ISSTA
/// 2012), so that rare combinations occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// All faults with the same probability.
    Storm,
    /// The database is slow or unavailable, has deadlocks and commits of unknown outcome.
    Database,
    /// The broker loses, duplicates, delays and refuses messages.
    Broker,
    /// Processes crash at named crash points and at random times, and clocks are wrong.
    Process,
}

impl Profile {
    pub const ALL: [Profile; 4] = [Profile::Storm, Profile::Database, Profile::Broker, Profile::Process];

    pub const fn name(self) -> &'static str {
        match self {
            Profile::Storm => "storm",
            Profile::Database => "database",
            Profile::Broker => "broker",
            Profile::Process => "process",
        }
    }

    /// Share of the seeds in which a fault is enabled, in thousandths.
    pub(crate) fn share(self, fault: Fault) -> u64 {
        let home = match self {
            Profile::Storm => return 500,
            Profile::Database => fault.port() == "store",
            Profile::Broker => fault.port() == "broker",
            Profile::Process => matches!(fault.port(), "process" | "clock"),
        };
        // Faults outside the application and its servers are likely in every profile.
        let outside = matches!(fault.port(), "client" | "gateway" | "receiver" | "handler" | "manual-sql");
        if fault.port() == "archive" {
            // Few runs have an archive.
            500
        } else if home {
            700
        } else if outside {
            300
        } else {
            80
        }
    }
}

impl FromStr for Profile {
    type Err = String;
    fn from_str(name: &str) -> Result<Profile, String> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name()).collect();
            format!("unknown profile {name}; use one of {}", names.join(", "))
        })
    }
}
