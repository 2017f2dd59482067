//! A connection that is made when it is asked for, and again when it is gone.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use tracing::{debug, info, warn};

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

struct State {
    link: Option<Arc<Link>>,
    failed: Option<Failed>,
    /// The node that is tried next, counted round and round.
    turn: usize,
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
        // Processes begin anywhere, so that they spread over the nodes.
        let turn = usize::try_from(RandomState::new().build_hasher().finish() >> 33).unwrap_or(0);
        let state = Mutex::new(State { link: None, failed: None, turn });
        Arc::new(Connector { purpose, settings, state, connected })
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

    /// The connection, if there is one; none is made.
    pub(crate) fn established(&self) -> Option<Arc<Link>> {
        // Somebody is connecting: there is none.
        self.state.try_lock().ok()?.link.clone().filter(|link| link.is_up())
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
        match self.connect_to_any(&mut state.turn).await {
            Ok(link) => {
                let link = Arc::new(link);
                (state.link, state.failed) = (Some(Arc::clone(&link)), None);
                self.connected.notify_one();
                Ok(link)
            }
            Err(fault) => {
                let longest = self.settings.longest_pause;
                let pause = match &state.failed {
                    Some(failed) => (failed.pause * 2).min(longest),
                    None => longest / FIRST_PAUSE_SHARE,
                };
                match &state.failed {
                    None => warn!(purpose = self.purpose, place = self.settings.place(), error = %fault,
                        "[RabbitMQ] [ALERT] cannot connect; trying again every {longest:?}"),
                    Some(_) => debug!(purpose = self.purpose, place = self.settings.place(), error = %fault,
                        "[RabbitMQ] cannot connect; trying again in {pause:?}"),
                }
                state.failed = Some(Failed { fault: fault.clone(), pause, again_at: Instant::now() + pause });
                Err(fault)
            }
        }
    }

    /// Tries each node once. The turn passes on after every attempt: a node that takes connections and then loses them
    /// is not asked again before the others.
    async fn connect_to_any(&self, turn: &mut usize) -> Result<Link, Fault> {
        let hosts = &self.settings.hosts;
        let mut last = Fault::Broken("no node is named".to_owned());
        for _ in hosts {
            let Some(host) = hosts.get(*turn % hosts.len()) else { break };
            *turn = turn.wrapping_add(1);
            match Link::connect(&self.settings, host, self.purpose).await {
                Ok(link) => {
                    info!(purpose = self.purpose, place = self.settings.place(), node = %host, "[RabbitMQ] connected");
                    return Ok(link);
                }
                // Users, rights and vhosts are those of the whole cluster.
                Err(fault) if fault.kind() == Kind::Denied => return Err(fault),
                Err(fault) => {
                    if hosts.len() > 1 {
                        warn!(purpose = self.purpose, node = %host, error = %fault, "[RabbitMQ] a node is away");
                    }
                    last = fault;
                }
            }
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    #[allow(clippy::disallowed_methods, reason = "the listeners end with the test")]
    async fn an_attempt_asks_every_node_once_and_the_next_only_after_a_pause() {
        let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
        let mut hosts = Vec::new();
        for node in 0..3 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            hosts.push(listener.local_addr().unwrap().to_string());
            let asked = asked.clone();
            tokio::spawn(async move {
                while let Ok((connection, _)) = listener.accept().await {
                    drop(connection);
                    asked.send(node).unwrap();
                }
            });
        }
        let mut settings = RabbitSettings::parse(&format!("amqp://{}", hosts.join(","))).unwrap();
        settings.longest_pause = Duration::from_secs(3600);
        let connector = Connector::new("testing", Arc::new(settings), Arc::default());
        for _ in 0..2 {
            assert!(connector.link().await.is_err());
        }
        let mut nodes = Vec::new();
        while nodes.len() < 3 {
            nodes.push(asks.recv().await.unwrap());
        }
        assert!(asks.try_recv().is_err(), "the second attempt came too early");
        let first = nodes[0];
        assert_eq!(nodes, [first, (first + 1) % 3, (first + 2) % 3]);
    }
}
