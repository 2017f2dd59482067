//! File descriptors: each connection takes one, and systems allow few to whoever does not ask for more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For databases, brokers, files and the log.
const OTHERS: u64 = 256;

/// Raises the limit of this process as far as it may be raised; tells how many connections each of so many listeners has
/// room for, at most as many as wanted.
pub(crate) fn room_for(wanted: u32, listeners: u32) -> u32 {
    let allowed = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: allowed.maximum, maximum: allowed.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    // None is no limit.
    let open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room =
        u32::try_from((open.saturating_sub(OTHERS) / u64::from(listeners.max(1))).max(1)).unwrap_or(u32::MAX);
    if room < wanted {
        tracing::warn!(
            connections = room,
            openFiles = open,
            "fewer connections than usual: raise the limit of open files"
        );
    }
    room.min(wanted)
}
