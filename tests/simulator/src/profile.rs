//! What kind of bad day: which faults are likely, and how likely at most.

use std::str::FromStr;

use super::faults::Fault;

/// A kind of bad day. Within it each seed enables a random subset of the faults (swarm testing: Groce et al., ISSTA
/// 2012), so that rare combinations occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Everything at once.
    Storm,
    /// The database is slow, away, deadlocked, and does not always tell what became of a COMMIT.
    Database,
    /// The broker loses, doubles, delays, refuses and forgets.
    Broker,
    /// Processes crash at every named point and in between, clocks go wrong, owners are slower than their leases.
    Process,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 4] = [Profile::Storm, Profile::Database, Profile::Broker, Profile::Process];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Storm => "storm",
            Profile::Database => "database",
            Profile::Broker => "broker",
            Profile::Process => "process",
        }
    }

    /// How often in 1,000 seeds a fault is enabled at all.
    pub(crate) fn share(self, fault: Fault) -> u64 {
        let home = match self {
            Profile::Storm => return 500,
            Profile::Database => fault.port() == "store",
            Profile::Broker => fault.port() == "broker",
            Profile::Process => matches!(fault.port(), "process" | "clock"),
        };
        // What comes from outside comes on every day.
        let outside = matches!(fault.port(), "client" | "gateway" | "handler" | "hand");
        if home {
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
            format!("there is no profile {name}; there are {}", names.join(", "))
        })
    }
}
