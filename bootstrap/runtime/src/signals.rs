//! Signals: SIGTERM, SIGINT and SIGQUIT stop, SIGHUP reloads, SIGUSR1 and SIGUSR2 are ignored.

use std::time::Duration;

use tokio::signal::unix::{self, SignalKind};

use crate::failure::Failure;

/// Longest duration of a graceful stop. The process must end within 10 s; the rest is for shutting down the runtime and for
/// the last lines of the log.
pub const STOP_WITHIN: Duration = Duration::from_secs(9);

/// Receives SIGTERM, SIGINT and SIGQUIT.
pub struct StopSignals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    quit: unix::Signal,
}

impl StopSignals {
    /// Installs the handlers. From this call on, no signal is lost.
    pub fn listen() -> Result<StopSignals, Failure> {
        Ok(StopSignals {
            terminate: receive(SignalKind::terminate())?,
            interrupt: receive(SignalKind::interrupt())?,
            quit: receive(SignalKind::quit())?,
        })
    }

    /// Waits for the next signal and returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.quit.recv() => "SIGQUIT",
        }
    }
}

/// A signal to a serving process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Stop gracefully; the name of the signal.
    Stop(&'static str),
    /// Read log level, public keys and secrets again.
    Reload,
    /// A signal without a meaning here, which would end the process by default.
    Ignored(&'static str),
}

/// Receives all signals of a serving process.
pub struct Signals {
    stop: StopSignals,
    hangup: unix::Signal,
    user_defined_1: unix::Signal,
    user_defined_2: unix::Signal,
}

impl Signals {
    /// Installs the handlers. From this call on, no signal is lost.
    pub fn listen() -> Result<Signals, Failure> {
        Ok(Signals {
            stop: StopSignals::listen()?,
            hangup: receive(SignalKind::hangup())?,
            user_defined_1: receive(SignalKind::user_defined1())?,
            user_defined_2: receive(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            name = self.stop.next() => Signal::Stop(name),
            _ = self.hangup.recv() => Signal::Reload,
            _ = self.user_defined_1.recv() => Signal::Ignored("SIGUSR1"),
            _ = self.user_defined_2.recv() => Signal::Ignored("SIGUSR2"),
        }
    }

    /// Waits for the next signal to stop; the others have no effect.
    pub async fn next_stop(&mut self) -> &'static str {
        loop {
            match self.next().await {
                Signal::Stop(name) => return name,
                Signal::Reload => tracing::info!("service: SIGHUP ignored; the service is stopping"),
                Signal::Ignored(name) => tracing::info!("service: {name} ignored"),
            }
        }
    }
}

fn receive(kind: SignalKind) -> Result<unix::Signal, Failure> {
    unix::signal(kind).map_err(|cause| Failure::System { what: "cannot install the signal handlers", cause })
}
