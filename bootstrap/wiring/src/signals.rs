//! The signals that ask the process to stop.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;

/// How long a stop may take; the rest of ten seconds is for ending the process.
pub const STOP_WITHIN: Duration = Duration::from_millis(9_500);

/// SIGTERM and SIGINT, caught.
pub struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignals {
    /// From here on no signal is lost.
    pub fn listen() -> Result<StopSignals, Failure> {
        let on = |kind| signal(kind).map_err(|cause| Failure::System { what: "no signal handler", cause });
        Ok(StopSignals { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())? })
    }

    /// Waits for the next one; tells its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
