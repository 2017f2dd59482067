//! One connection to the server, which can be aborted at any time.
//!
//! **Invariant:** no task and no socket outlives its [`Link`] for longer than [`CLOSE_TIMEOUT`]. lapin itself waits
//! indefinitely for a peer that does not reply to a handshake or a close.

use std::net::{Shutdown, TcpStream as StdTcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::uri::AMQPUri;
use lapin::{AsyncTcpStream, Channel, Connection, ConnectionProperties, Event};
use tokio::sync::{OnceCell, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::error::{RabbitError, with_timeout};
use crate::mutex::lock;
use crate::settings::{Host, RabbitSettings};
use crate::transport::{dial, runtime};
use crate::version::{self, Version};

/// Time limit for closing a connection that is no longer needed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The socket of a stream; used to abort the connection regardless of lapin's state.
pub(crate) type Socket = Arc<Mutex<Option<StdTcpStream>>>;

pub(crate) struct Link {
    connection: Option<Connection>,
    socket: Socket,
    blocked: watch::Receiver<Option<String>>,
    aborted: AtomicBool,
    version: OnceCell<Version>,
    settings: Arc<RabbitSettings>,
    host: Host,
    _events: AbortOnDropHandle<()>,
}

impl Link {
    /// Connects to this node. After an error no socket or task remains.
    #[allow(clippy::disallowed_methods, reason = "the task ends when the link is dropped")]
    pub(crate) async fn connect(
        settings: &Arc<RabbitSettings>,
        host: &Host,
        purpose: &str,
    ) -> Result<Link, RabbitError> {
        let (connection, socket) = open(settings, host, purpose).await?;
        let (blocked_sender, blocked) = watch::channel(None);
        let mut events = connection.events_listener();
        let listener = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Event::ConnectionBlocked(reason) = event {
                    blocked_sender.send_replace(Some(reason));
                } else if let Event::ConnectionUnblocked = event {
                    blocked_sender.send_replace(None);
                }
            }
        });
        Ok(Link {
            connection: Some(connection),
            socket,
            blocked,
            aborted: AtomicBool::new(false),
            version: OnceCell::new(),
            settings: Arc::clone(settings),
            host: host.clone(),
            _events: AbortOnDropHandle::new(listener),
        })
    }

    /// Whether the connection was not aborted and is up according to the state that lapin last recorded.
    pub(crate) fn is_up(&self) -> bool {
        // `aborted` is checked first, because lapin detects an aborted socket only a moment later.
        !self.aborted.load(Ordering::Acquire)
            && self.connection.as_ref().is_some_and(|connection| connection.status().connected())
    }

    /// Returns the reason why the server currently accepts no messages on this connection; `None` if it accepts them.
    pub(crate) fn blocked(&self) -> Option<String> {
        self.blocked.borrow().clone()
    }

    /// Waits until the server blocks the connection; returns the reason.
    pub(crate) async fn until_blocked(&self) -> String {
        let mut blocked = self.blocked.clone();
        let reason = blocked.wait_for(Option::is_some).await.map(|reason| reason.clone().unwrap_or_default());
        match reason {
            Ok(reason) => reason,
            // The connection, which owns the sender, was dropped. This future then never ends: the publish that runs at
            // the same time reports the lost connection.
            Err(_) => std::future::pending().await,
        }
    }

    /// Negotiated `frame_max` of the connection, in bytes; 0 without a connection.
    pub(crate) fn frame_max(&self) -> usize {
        let negotiated = self.connection.as_ref().map(|connection| connection.configuration().frame_max());
        negotiated.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
    }

    pub(crate) async fn channel(&self) -> Result<Channel, RabbitError> {
        match &self.connection {
            Some(connection) => {
                with_timeout("opening a channel", self.settings.reply_timeout, connection.create_channel())
                    .await
            }
            None => Err(RabbitError::Other("the connection is closed".to_owned())),
        }
    }

    /// Version of the server; read once per connection.
    pub(crate) async fn version(&self) -> Result<Version, RabbitError> {
        self.version.get_or_try_init(|| version::fetch(&self.settings, &self.host)).await.copied()
    }

    /// Aborts the connection immediately: pending requests fail, and unwritten frames are discarded.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        abort(&self.socket);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let connection = self.connection.take();
        let socket = Arc::clone(&self.socket);
        match (connection, tokio::runtime::Handle::try_current()) {
            (Some(connection), Ok(runtime)) if connection.status().connected() => {
                runtime.spawn(async move {
                    // A timeout or error is ignored: in every case the socket is closed next.
                    let _ =
                        with_timeout("closing", CLOSE_TIMEOUT, connection.close(200, "closed".into())).await;
                    abort(&socket);
                });
            }
            _ => abort(&socket),
        }
    }
}

fn abort(socket: &Socket) {
    if let Some(socket) = lock(socket).take() {
        // An error is ignored: the socket may already be closed.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// Opens a connection to this node without reconnecting. After an error no socket remains.
pub(crate) async fn open(
    settings: &Arc<RabbitSettings>,
    host: &Host,
    purpose: &str,
) -> Result<(Connection, Socket), RabbitError> {
    let socket = Socket::default();
    let name = format!("{}: {purpose}", settings.connection_name);
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let dial_settings = Arc::clone(settings);
    let target = host.clone();
    let socket_slot = Arc::clone(&socket);
    let dial = async move |_: AMQPUri, _| {
        let (stream, handle) = dial(&dial_settings, &target).await?;
        *lock(&socket_slot) = Some(handle);
        // To lapin the stream is `Plain`, because `dial` has already added TLS if the URL requires it.
        Ok(AsyncTcpStream::Plain(stream))
    };
    let connecting = Connection::connector(settings.uri.clone(), runtime(), dial, properties);
    match with_timeout("connecting", settings.connect_timeout, connecting).await {
        Ok(connection) => Ok((connection, socket)),
        Err(error) => {
            abort(&socket);
            Err(error)
        }
    }
}
