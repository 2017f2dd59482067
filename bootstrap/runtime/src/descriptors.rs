//! File descriptors: each connection needs one, and the default soft limit of many systems is low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors reserved for databases, brokers, files and the log.
const RESERVED: u64 = 256;

/// Raises the open-file limit of this process to its hard limit. Returns how many connections each listener can accept,
/// at most `wanted`.
pub fn connection_limit(wanted: u32, listeners: u32) -> u32 {
    let allowed = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: allowed.maximum, maximum: allowed.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "http: cannot raise the open-file limit; keeping the current one");
    }
    // `None` means unlimited.
    let open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = u32::try_from((open.saturating_sub(RESERVED) / u64::from(listeners.max(1))).max(1))
        .unwrap_or(u32::MAX);
    if room < wanted {
        tracing::warn!(
            connections = room,
            openFiles = open,
            "http: the open-file limit allows fewer connections than usual; raise it (ulimit -n)"
        );
    }
    room.min(wanted)
}
