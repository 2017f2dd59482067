//! Opens a connection on demand and reopens it after it was lost. Lost connections are logged at level debug: relay and
//! consumers log one set of lines for an outage of the broker.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;
use tracing::{debug, info};

use crate::error::{ErrorClass, RabbitError};
use crate::link::Link;
use crate::settings::RabbitSettings;

/// The first pause after a failed attempt is the longest pause divided by this number.
const FIRST_PAUSE_SHARE: u32 = 40;

/// Maintains one connection. During the pause after a failed attempt, requests for the connection fail immediately.
pub(crate) struct Connector {
    purpose: &'static str,
    settings: Arc<RabbitSettings>,
    state: Mutex<State>,
    /// Wakes the watch task after each new connection.
    connected: Arc<Notify>,
    /// Whether a connection was open before.
    was_connected: AtomicBool,
}

struct State {
    link: Option<Arc<Link>>,
    failed: Option<FailedAttempt>,
    /// Index of the next node to try, modulo the number of nodes.
    next_node: usize,
}

struct FailedAttempt {
    error: RabbitError,
    pause: Duration,
    retry_at: Instant,
}

impl Connector {
    pub(crate) fn new(
        purpose: &'static str,
        settings: Arc<RabbitSettings>,
        connected: Arc<Notify>,
    ) -> Arc<Connector> {
        // Each connector starts at a random node, to spread the load.
        let next_node = usize::try_from(RandomState::new().build_hasher().finish() >> 33).unwrap_or(0);
        let state = Mutex::new(State { link: None, failed: None, next_node });
        Arc::new(Connector { purpose, settings, state, connected, was_connected: AtomicBool::new(false) })
    }

    /// Returns the connection, or opens it. The attempt continues if the caller is cancelled; a later call uses its
    /// result.
    #[allow(clippy::disallowed_methods, reason = "the attempt outlives its caller and has a time limit")]
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Arc<Link>, RabbitError> {
        if let Ok(state) = self.state.try_lock()
            && let Some(link) = state.link.as_ref().filter(|link| link.is_up())
        {
            return Ok(Arc::clone(link));
        }
        let this = Arc::clone(self);
        match tokio::spawn(async move { this.connect().await }).await {
            Ok(reply) => reply,
            Err(_) => Err(RabbitError::Other("the process is shutting down".to_owned())),
        }
    }

    /// Returns the connection if it is established; does not open one.
    pub(crate) fn established(&self) -> Option<Arc<Link>> {
        // A task that connects holds the lock until it has finished; until then no connection is established.
        self.state.try_lock().ok()?.link.clone().filter(|link| link.is_up())
    }

    async fn connect(&self) -> Result<Arc<Link>, RabbitError> {
        let mut state = self.state.lock().await;
        if let Some(link) = state.link.as_ref().filter(|link| link.is_up()) {
            return Ok(Arc::clone(link));
        }
        if state.link.take().is_some() {
            debug!(
                code = "rabbitmq.connection-lost",
                purpose = self.purpose,
                "[RabbitMQ] connection lost; reconnecting"
            );
        }
        if let Some(failed) = state.failed.as_ref().filter(|failed| Instant::now() < failed.retry_at) {
            // A denied login is permanent, so its error is returned; any other error counts as an outage.
            return Err(match failed.error.class() {
                ErrorClass::Denied => failed.error.clone(),
                ErrorClass::Unreachable | ErrorClass::NotFound | ErrorClass::Invalid => {
                    RabbitError::BackingOff(failed.error.to_string())
                }
            });
        }
        match self.connect_to_any(&mut state.next_node).await {
            Ok(link) => {
                let link = Arc::new(link);
                (state.link, state.failed) = (Some(Arc::clone(&link)), None);
                self.connected.notify_one();
                Ok(link)
            }
            Err(error) => {
                let longest = self.settings.max_reconnect_pause;
                let pause = match &state.failed {
                    Some(failed) => (failed.pause * 2).min(longest),
                    None => longest / FIRST_PAUSE_SHARE,
                };
                debug!(code = "rabbitmq.not-connected", purpose = self.purpose, place = self.settings.address(), error = %error,
                    "[RabbitMQ] cannot connect; retrying in {pause:?}");
                state.failed =
                    Some(FailedAttempt { error: error.clone(), pause, retry_at: Instant::now() + pause });
                Err(error)
            }
        }
    }

    /// Tries each node at most once. Each attempt advances to the next node: a node that accepts connections and then
    /// loses them is tried again only after the others.
    async fn connect_to_any(&self, next_node: &mut usize) -> Result<Link, RabbitError> {
        let hosts = &self.settings.hosts;
        let mut last = RabbitError::Other("the URL names no node".to_owned());
        for _ in hosts {
            let Some(host) = hosts.get(*next_node % hosts.len()) else { break };
            *next_node = next_node.wrapping_add(1);
            match Link::connect(&self.settings, host, self.purpose).await {
                Ok(link) => {
                    if self.was_connected.swap(true, Ordering::Relaxed) {
                        debug!(code = "rabbitmq.connected", purpose = self.purpose, place = self.settings.address(), node = %host, "[RabbitMQ] connected again");
                    } else {
                        info!(code = "rabbitmq.connected", purpose = self.purpose, place = self.settings.address(), node = %host, "[RabbitMQ] connected");
                    }
                    return Ok(link);
                }
                // Users, permissions and vhosts are the same on every node of the cluster, so no other node is tried.
                Err(error) if error.class() == ErrorClass::Denied => return Err(error),
                Err(error) => {
                    if hosts.len() > 1 {
                        debug!(code = "rabbitmq.node-unreachable", purpose = self.purpose, node = %host, error = %error, "[RabbitMQ] node unreachable; trying the next one");
                    }
                    last = error;
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
    #[allow(clippy::disallowed_methods, reason = "the listeners end when the test ends")]
    async fn connector_tries_every_node_once_and_does_not_retry_during_the_pause() {
        let (connected, mut connects) = tokio::sync::mpsc::unbounded_channel();
        let mut hosts = Vec::new();
        for node in 0..3 {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            hosts.push(listener.local_addr().unwrap().to_string());
            let connected = connected.clone();
            tokio::spawn(async move {
                while let Ok((connection, _)) = listener.accept().await {
                    drop(connection);
                    connected.send(node).unwrap();
                }
            });
        }
        let mut settings = RabbitSettings::parse(&format!("amqp://{}", hosts.join(","))).unwrap();
        settings.max_reconnect_pause = Duration::from_secs(3600);
        let connector = Connector::new("testing", Arc::new(settings), Arc::default());
        for _ in 0..2 {
            assert!(connector.link().await.is_err());
        }
        let mut nodes = Vec::new();
        while nodes.len() < 3 {
            nodes.push(connects.recv().await.unwrap());
        }
        assert!(connects.try_recv().is_err(), "the second attempt was made too early");
        let first = nodes[0];
        assert_eq!(nodes, [first, (first + 1) % 3, (first + 2) % 3]);
    }
}
