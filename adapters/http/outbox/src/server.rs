//! Serves a router on a listener. Unlike `axum::serve`, it has timeouts for clients that send headers or read responses too
//! slowly.
//!
//! **Invariant:** every connection is a tracked task, and no connection outlives `serve`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::Response;
use handover_outbox::Tasks;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::util::{MapRequest, MapResponse};

use crate::limits::Limits;
use crate::slow_clients::{Progress, TimedStream};

/// Pause after a failed accept, for example when the process has no free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves until `stop` is cancelled, then waits up to `limits.drain` for requests in flight and closes the rest.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tasks: &Tasks,
    stop: CancellationToken,
    limits: &Limits,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let slots = Arc::new(Semaphore::new(limits.connections as usize));
    let abort = CancellationToken::new();
    tracing::info!(code = "http.listening", %address, "http: listening");
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((slot, listener.accept().await?))
        };
        let (slot, (stream, peer)) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accepted => match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_client_disconnect(&error) => continue,
                Err(error) => {
                    tracing::error!(code = "http.not-accepting", %error, "http: cannot accept connections; retrying in {ACCEPT_PAUSE:?}");
                    // A stop ends the pause early; the result is ignored, because the loop checks `stop`.
                    let _ = timeout(ACCEPT_PAUSE, stop.cancelled()).await;
                    continue;
                }
            },
        };
        let connection = connection(
            (stream, peer),
            router.clone(),
            (limits.clone(), Arc::clone(&slots)),
            stop.clone(),
            abort.clone(),
        );
        drop(tasks.spawn(async move {
            connection.await;
            drop(slot);
        }));
    }
    drop(listener);
    if timeout(limits.drain, all_closed(&slots, limits)).await.is_err() {
        tracing::warn!(code = "http.drain-timeout", drain = ?limits.drain, "http: drain timeout reached; connections with requests in flight are closed");
        abort.cancel();
        all_closed(&slots, limits).await;
    }
    Ok(())
}

async fn all_closed(slots: &Semaphore, limits: &Limits) {
    // `acquire_many` fails only if the semaphore is closed, which never happens.
    let _ = slots.acquire_many(limits.connections).await;
}

/// Serves one connection until it is closed or aborted.
async fn connection(
    (stream, peer): (TcpStream, SocketAddr),
    router: Router,
    (limits, slots): (Limits, Arc<Semaphore>),
    stop: CancellationToken,
    abort: CancellationToken,
) {
    let progress = Progress::new();
    let request_progress = progress.clone();
    let response_progress = progress.clone();
    let service = MapRequest::new(router, move |mut request: Request<Incoming>| {
        request_progress.head_received();
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    });
    let service = MapResponse::new(service, move |response: Response| {
        response.map(|body| response_progress.track_response(body))
    });
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "http: cannot set TCP_NODELAY");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The stream enforces the idle timeout and the head timeout: hyper has a single timeout for the idle time and
        // the head that follows it.
        .header_read_timeout(None)
        .max_buf_size(limits.header_bytes)
        .serve_connection(
            TokioIo::new(TimedStream::new(stream, progress, &limits, slots)),
            TowerToHyperService::new(service),
        );
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = abort.cancelled() => return,
            }
        }
        ended = connection.as_mut() => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "http: connection closed with an error");
    }
}

/// Whether the client disconnected before its connection was accepted.
fn is_client_disconnect(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}
