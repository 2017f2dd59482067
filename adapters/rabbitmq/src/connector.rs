//! A connection that is made when it is asked for, and again when it is gone.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::fault::{Fault, Kind};
use crate::link::Link;
use crate::settings::RabbitSettings;

/// The first pause after a failed attempt is this part of the longest.
const FIRST_PAUSE_SHARE: u32 = 40;

/// Who keeps one connection up. While it cannot be made, asking fails at once between two attempts.
pub(crate) struct Connector {
    purpose: &'static str,
    settings: Arc<RabbitSettings>,
    state: Mutex<State>,
    /// Rung whenever a new connection is up.
    connected: Arc<Notify>,
}

#[derive(Default)]
struct State {
    link: Option<Arc<Link>>,
    failed: Option<Failed>,
}

struct Failed {
    fault: Fault,
    pause: Duration,
    again_at: Instant,
}

impl Connector {
    pub(crate) fn new(
        purpose: &'static str,
        settings: Arc<RabbitSettings>,
        connected: Arc<Notify>,
    ) -> Arc<Connector> {
        Arc::new(Connector { purpose, settings, state: Mutex::default(), connected })
    }

    /// The connection. The attempt goes on if the caller goes away: a caller with little patience may come again.
    #[allow(
        clippy::disallowed_methods,
        reason = "the attempt outlives its caller, and ends by itself within its limit"
    )]
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Arc<Link>, Fault> {
        if let Ok(state) = self.state.try_lock()
            && let Some(link) = state.link.as_ref().filter(|link| link.is_up())
        {
            return Ok(Arc::clone(link));
        }
        let this = Arc::clone(self);
        match tokio::spawn(async move { this.connect().await }).await {
            Ok(answer) => answer,
            Err(_) => Err(Fault::Broken("the process is ending".to_owned())),
        }
    }

    async fn connect(&self) -> Result<Arc<Link>, Fault> {
        let mut state = self.state.lock().await;
        if let Some(link) = state.link.as_ref().filter(|link| link.is_up()) {
            return Ok(Arc::clone(link));
        }
        if state.link.take().is_some() {
            warn!(purpose = self.purpose, "[RabbitMQ] the connection is lost");
        }
        if let Some(failed) = state.failed.as_ref().filter(|failed| Instant::now() < failed.again_at) {
            // What the server denied stays denied; anything else is an outage.
            return Err(match failed.fault.kind() {
                Kind::Denied => failed.fault.clone(),
                Kind::Away | Kind::Missing | Kind::Unfit => Fault::Pausing(failed.fault.to_string()),
            });
        }
        match Link::connect(&self.settings, self.purpose).await {
            Ok(link) => {
                let link = Arc::new(link);
                *state = State { link: Some(Arc::clone(&link)), failed: None };
                info!(purpose = self.purpose, place = self.settings.place(), "[RabbitMQ] connected");
                self.connected.notify_one();
                Ok(link)
            }
            Err(fault) => {
                let longest = self.settings.longest_pause;
                let pause = match &state.failed {
                    Some(failed) => (failed.pause * 2).min(longest),
                    None => longest / FIRST_PAUSE_SHARE,
                };
                warn!(purpose = self.purpose, place = self.settings.place(), error = %fault,
                    "[RabbitMQ] cannot connect; trying again in {pause:?}");
                state.failed = Some(Failed { fault: fault.clone(), pause, again_at: Instant::now() + pause });
                Err(fault)
            }
        }
    }
}
