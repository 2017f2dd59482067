//! Stop signals: SIGTERM and SIGINT.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;

/// Longest duration of a graceful stop. The process must end within 10 s; the rest is for shutting down the runtime.
pub const STOP_WITHIN: Duration = Duration::from_millis(9_500);

/// Receives SIGTERM and SIGINT.
pub struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignals {
    /// Installs the handlers. From this call on, no signal is lost.
    pub fn listen() -> Result<StopSignals, Failure> {
        let on = |kind| {
            signal(kind)
                .map_err(|cause| Failure::System { what: "cannot install the signal handlers", cause })
        };
        Ok(StopSignals { terminate: on(SignalKind::terminate())?, interrupt: on(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
