//! One connection to the server, which can be cut at any moment.
//!
//! **Invariant:** no thread and no socket outlives its [`Link`] for longer than the farewell takes. lapin itself never
//! gives up on a peer that does not answer a handshake or a close.

use std::net::{Shutdown, TcpStream as StdTcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::uri::AMQPUri;
use lapin::{AsyncTcpStream, Channel, Connection, ConnectionProperties, Event};
use tokio::sync::{OnceCell, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::fault::{Fault, answered};
use crate::settings::{Host, RabbitSettings};
use crate::transport::{dial, runtime};
use crate::version::{self, Version};

/// How long a connection that is not needed any more may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(1);

/// The socket behind a stream: to cut it, whatever lapin is waiting for.
pub(crate) type Socket = Arc<Mutex<Option<StdTcpStream>>>;

/// One connection to the server.
pub(crate) struct Link {
    connection: Option<Connection>,
    socket: Socket,
    blocked: watch::Receiver<Option<String>>,
    cut: AtomicBool,
    version: OnceCell<Version>,
    settings: Arc<RabbitSettings>,
    host: Host,
    _events: AbortOnDropHandle<()>,
}

impl Link {
    /// Connects to this node; on any failure nothing is left behind.
    #[allow(clippy::disallowed_methods, reason = "the task ends with the link")]
    pub(crate) async fn connect(
        settings: &Arc<RabbitSettings>,
        host: &Host,
        purpose: &str,
    ) -> Result<Link, Fault> {
        let (connection, socket) = open(settings, host, purpose).await?;
        let (says, blocked) = watch::channel(None);
        let mut events = connection.events_listener();
        let listener = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Event::ConnectionBlocked(reason) = event {
                    says.send_replace(Some(reason));
                } else if let Event::ConnectionUnblocked = event {
                    says.send_replace(None);
                }
            }
        });
        Ok(Link {
            connection: Some(connection),
            socket,
            blocked,
            cut: AtomicBool::new(false),
            version: OnceCell::new(),
            settings: Arc::clone(settings),
            host: host.clone(),
            _events: AbortOnDropHandle::new(listener),
        })
    }

    /// Whether it still is a connection, as far as is known.
    pub(crate) fn is_up(&self) -> bool {
        // lapin notices a cut a moment later.
        !self.cut.load(Ordering::Acquire)
            && self.connection.as_ref().is_some_and(|connection| connection.status().connected())
    }

    /// Why the server takes no messages on this connection at the moment.
    pub(crate) fn blocked(&self) -> Option<String> {
        self.blocked.borrow().clone()
    }

    /// Waits until the server takes no more messages, and tells why.
    pub(crate) async fn until_blocked(&self) -> String {
        let mut blocked = self.blocked.clone();
        let reason = blocked.wait_for(Option::is_some).await.map(|reason| reason.clone().unwrap_or_default());
        match reason {
            Ok(reason) => reason,
            // Whoever told is gone with the connection, which others notice.
            Err(_) => std::future::pending().await,
        }
    }

    /// The largest frame that the server takes.
    pub(crate) fn frame_max(&self) -> usize {
        let negotiated = self.connection.as_ref().map(|connection| connection.configuration().frame_max());
        negotiated.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
    }

    /// A new channel.
    pub(crate) async fn channel(&self) -> Result<Channel, Fault> {
        match &self.connection {
            Some(connection) => {
                answered("opening a channel", self.settings.answer_timeout, connection.create_channel()).await
            }
            None => Err(Fault::Broken("the connection is closed".to_owned())),
        }
    }

    /// Which RabbitMQ it leads to.
    pub(crate) async fn version(&self) -> Result<Version, Fault> {
        self.version.get_or_try_init(|| version::ask(&self.settings, &self.host)).await.copied()
    }

    /// Ends it at once: what waits for an answer fails, what was not written never will be.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        cut(&self.socket);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let (connection, socket) = (self.connection.take(), Arc::clone(&self.socket));
        match (connection, tokio::runtime::Handle::try_current()) {
            (Some(connection), Ok(runtime)) if connection.status().connected() => {
                runtime.spawn(async move {
                    // Late or failed, it ends all the same.
                    let _ = answered("closing", FAREWELL, connection.close(200, "goodbye".into())).await;
                    cut(&socket);
                });
            }
            _ => cut(&socket),
        }
    }
}

fn cut(socket: &Socket) {
    if let Some(socket) = socket.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // It may be closed already.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// Connects to this node, without supervision; on any failure nothing is left behind.
pub(crate) async fn open(
    settings: &Arc<RabbitSettings>,
    host: &Host,
    purpose: &str,
) -> Result<(Connection, Socket), Fault> {
    let socket = Socket::default();
    let name = format!("{}: {purpose}", settings.connection_name);
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let (dialled, to, kept) = (Arc::clone(settings), host.clone(), Arc::clone(&socket));
    let dial = async move |_: AMQPUri, _| {
        let (stream, handle) = dial(&dialled, &to).await?;
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        // Plain to lapin; it may be TLS already.
        Ok(AsyncTcpStream::Plain(stream))
    };
    let connecting = Connection::connector(settings.uri.clone(), runtime(), dial, properties);
    match answered("connecting", settings.connect_timeout, connecting).await {
        Ok(connection) => Ok((connection, socket)),
        Err(fault) => {
            cut(&socket);
            Err(fault)
        }
    }
}
